"""Tasks of reinforcement learning and of control: what is to be learned, on this library's own simulation.

- `load`: one of the bundled tasks by its name
- `NAMES`: the names that it knows
- `TaskState`: an episode after some steps
- `Situation`: a moment of an episode, as a task sees it

Bundled, each a function of the options of `Task` that gives one:

- `cartpole`: a pole on a cart is swung up and held
- `acrobot`: a double pendulum with one motor is swung up and held
- `reacher`: an arm in a plane reaches for a target
- `arm_reach`: an arm with seven joints does
- `quadruped_stand`: a robot with four legs stands up
- `quadruped_trot`: it trots as fast as it is told
- `hopper`: a leg hops forward

Domain randomization, the numbers of a model drawn anew for every episode:

- `scaled`: numbers times factors
- `shifted`: numbers with something added
- `drawn`: numbers in place of others
- `scaled_masses`: bodies heavier or lighter
- `scaled_actuators`: motors stronger or weaker
- `scaled_contact_friction`: a floor more or less slippery
- `shifted_centers_of_mass`: mass that is elsewhere
- `shifted_placements`: joints that are elsewhere
- `Randomization`: what these inherit from

For other libraries:

- `to_gymnasium`: a task as a vector environment of Gymnasium
- `to_brax`: a task as an environment of Brax
"""

__all__ = [
    "load",
    "NAMES",
    "TaskState",
    "Situation",
    "cartpole",
    "acrobot",
    "reacher",
    "arm_reach",
    "quadruped_stand",
    "quadruped_trot",
    "hopper",
    "scaled",
    "shifted",
    "drawn",
    "scaled_masses",
    "scaled_actuators",
    "scaled_contact_friction",
    "shifted_centers_of_mass",
    "shifted_placements",
    "Randomization",
    "to_gymnasium",
    "to_brax",
]

from typing import Any

from .._core.deprecation import at_the_top
from .._core.errors import UnknownNameError, suggest
from .acrobot import acrobot as acrobot
from .brax import to_brax as to_brax
from .cartpole import cartpole as cartpole
from .gymnasium import to_gymnasium as to_gymnasium
from .hopper import hopper as hopper
from .quadruped import quadruped_stand as quadruped_stand, quadruped_trot as quadruped_trot
from .randomization import (
    Randomization as Randomization,
    drawn as drawn,
    scaled as scaled,
    scaled_actuators as scaled_actuators,
    scaled_contact_friction as scaled_contact_friction,
    scaled_masses as scaled_masses,
    shifted as shifted,
    shifted_centers_of_mass as shifted_centers_of_mass,
    shifted_placements as shifted_placements,
)
from .reaching import arm_reach as arm_reach, reacher as reacher
from .situation import Situation as Situation, TaskState as TaskState
from .task import Task as _Task


_BUNDLED = {
    make.__name__: make
    for make in (cartpole, acrobot, reacher, arm_reach, quadruped_stand, quadruped_trot, hopper)
}

NAMES = tuple(_BUNDLED)
"""The names of the bundled tasks, which `load` knows.

>>> print(rbd.tasks.NAMES)
('cartpole', 'acrobot', 'reacher', 'arm_reach', 'quadruped_stand', 'quadruped_trot', 'hopper')
"""


def load(name: str, **options: Any) -> _Task:
    """A bundled task by its name.

    **Arguments**

    - `name`: one of `rbd.tasks.NAMES`.
    - `options`: those of `rbd.Task`, in place of its own: `model`, `dt`, `substeps`, `scheme`, `episode_length`, `randomization`;
      and what its class has beside.

    >>> task = rbd.tasks.load("cartpole", episode_length=100)
    >>> task.observation_size, task.action_size
    (5, 1)
    """
    if name not in _BUNDLED:
        raise UnknownNameError(f"load: there is no task {name!r}{suggest(name, NAMES)}")
    return _BUNDLED[name](**options)


#: What is at the top of the library, `rbd_jax`, and was here as well.
__getattr__ = at_the_top(
    __name__,
    {
        "Task": ".task",
    },
)
