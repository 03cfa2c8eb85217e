"""Tasks for reinforcement learning and control, simulated by this library.

- `load`: load a bundled task by name
- `NAMES`: the names of the bundled tasks
- `TaskState`: the state of an episode
- `Situation`: the quantities that a task computes rewards and observations from

Bundled tasks, each a function that takes the options of `Task`:

- `cartpole`: swing up a pole on a cart and balance it
- `acrobot`: swing up a double pendulum with one motor and balance it
- `reacher`: reach a target with an arm in a plane
- `arm_reach`: reach a target with an arm with seven joints
- `quadruped_stand`: stand up with a quadruped
- `quadruped_trot`: trot with a quadruped at a commanded velocity
- `hopper`: hop forward on one leg

Domain randomization, model parameters drawn for every episode:

- `scaled`: multiplies parameters by random factors
- `shifted`: adds random offsets to parameters
- `drawn`: replaces parameters by random values
- `scaled_masses`: scales masses and moments of inertia
- `scaled_actuators`: scales the strength of actuators
- `scaled_contact_friction`: scales contact friction
- `shifted_centers_of_mass`: shifts centers of mass
- `shifted_placements`: shifts joint frames
- `Randomization`: base class of randomizations

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
"""The names of the bundled tasks, for `load`.

>>> print(rbd.tasks.NAMES)
('cartpole', 'acrobot', 'reacher', 'arm_reach', 'quadruped_stand', 'quadruped_trot', 'hopper')
"""


def load(name: str, **options: Any) -> _Task:
    """Returns a bundled task by name.

    Args:
      name: One of `rbd.tasks.NAMES`.
      options: Options of `rbd.Task` that replace the task's defaults: `model`, `dt`, `substeps`, `scheme`, `episode_length`,
        `randomization`, and the additional fields of the task's class.

    >>> task = rbd.tasks.load("cartpole", episode_length=100)
    >>> task.observation_size, task.action_size
    (5, 1)
    """
    if name not in _BUNDLED:
        raise UnknownNameError(f"load: there is no task {name!r}{suggest(name, NAMES)}")
    return _BUNDLED[name](**options)


#: Names that moved to the top of the library, `rbd_jax`.
__getattr__ = at_the_top(
    __name__,
    {
        "Task": ".task",
    },
)
