"""How the bundled tasks are learned, and what counts as learned."""

from __future__ import annotations

from typing import NamedTuple

from .._core.arguments import choice
from ..tasks import NAMES
from .short_horizon_actor_critic import ShortHorizonActorCritic


class Settings(NamedTuple):
    """What suits a task.

    - `config`: how it is learned.
    - `threshold`: the mean return of its episodes from which on it counts as learned; None if nobody has said.

    >>> config, threshold = rbd.learn.settings_for("quadruped_trot")
    >>> print(config.epochs, threshold)
    400 500.0
    """

    config: ShortHorizonActorCritic
    threshold: float | None


#: By the names of tasks; made when they are asked for.
_SETTINGS = {
    "cartpole": lambda: Settings(ShortHorizonActorCritic(epochs=800, deviation=1.0), 200.0),
    "quadruped_stand": lambda: Settings(
        ShortHorizonActorCritic(epochs=400, environments=32, deviation=0.3), 270.0
    ),
    "quadruped_trot": lambda: Settings(
        ShortHorizonActorCritic(epochs=400, environments=32, deviation=0.3), 500.0
    ),
}


def settings_for(name: str) -> Settings:
    """What suits a bundled task, by its name. For one that nobody has looked at, it is what suits most.

    >>> rbd.learn.settings_for("cartpole").config.horizon
    32
    """
    make = _SETTINGS.get(choice("learn.settings_for", "name", name, NAMES))
    return Settings(ShortHorizonActorCritic(), None) if make is None else make()
