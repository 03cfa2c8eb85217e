"""Training settings of the bundled tasks, and the returns at which they count as solved."""

from __future__ import annotations

from typing import NamedTuple

from .._core.arguments import choice
from ..tasks import NAMES
from .short_horizon_actor_critic import ShortHorizonActorCritic


class Settings(NamedTuple):
    """Recommended settings of a task.

    - `config`: The training settings.
    - `threshold`: The mean return at which the task counts as solved; None if unknown.

    >>> config, threshold = rbd.learn.settings_for("quadruped_trot")
    >>> print(config.epochs, threshold)
    400 500.0
    """

    config: ShortHorizonActorCritic
    threshold: float | None


#: By the names of tasks, created on demand.
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
    """Returns the recommended settings of a bundled task by name; default settings for tasks without a recommendation.

    >>> rbd.learn.settings_for("cartpole").config.horizon
    32
    """
    make = _SETTINGS.get(choice("learn.settings_for", "name", name, NAMES))
    return Settings(ShortHorizonActorCritic(), None) if make is None else make()
