"""How the bundled tasks are learned, and what counts as learned."""

from __future__ import annotations

from typing import NamedTuple

from .._arguments import choice
from .short_horizon_actor_critic import ShortHorizonActorCritic


class Settings(NamedTuple):
    """What suits a task.

    - `config`: how it is learned.
    - `threshold`: the mean return of its episodes from which on it counts as learned.
    """

    config: ShortHorizonActorCritic
    threshold: float


#: Made when they are asked for, which takes a moment.
_SETTINGS = {
    "cartpole": lambda: Settings(ShortHorizonActorCritic(epochs=800, deviation=1.0), 200.0),
}


def settings_for(name: str) -> Settings:
    """What suits a bundled task, by its name.

    >>> rbd.learn.settings_for("cartpole").config.horizon
    32
    """
    return _SETTINGS[choice("learn.settings_for", "name", name, tuple(_SETTINGS))]()
