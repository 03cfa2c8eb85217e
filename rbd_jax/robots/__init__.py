"""Bundled robots. `rbd.load` loads one of them by its name, or a file.

- `options_of`: the options of `rbd.load` for a robot
- `pendulum`: a ball on a rod
- `double_pendulum`: two pendulums in series
- `acrobot`: a double pendulum with a motor at the elbow
- `cartpole`: a pole on a cart
- `reacher`: an arm with two links in a plane
- `arm7`: an arm with seven hinges
- `quadruped`: a floating trunk with four legs
- `hopper`: a leg that hops in a plane
- `humanoid`: a humanoid with 35 degrees of freedom
- `all_joints`: one joint of every family
- `NAMES`: the names of the bundled robots
- `SUFFIXES`: the supported file suffixes
"""

__all__ = [
    "options_of",
    "pendulum",
    "double_pendulum",
    "acrobot",
    "cartpole",
    "reacher",
    "arm7",
    "quadruped",
    "hopper",
    "humanoid",
    "all_joints",
    "NAMES",
    "SUFFIXES",
]

from .._core.deprecation import at_the_top
from .all_joints import all_joints as all_joints
from .arm7 import arm7 as arm7
from .cartpole import cartpole as cartpole
from .hopper import hopper as hopper
from .humanoid import humanoid as humanoid
from .loading import NAMES as NAMES, SUFFIXES as SUFFIXES, options_of as options_of
from .pendulum import acrobot as acrobot, double_pendulum as double_pendulum, pendulum as pendulum
from .quadruped import quadruped as quadruped
from .reacher import reacher as reacher


#: Names that moved to the top-level package `rbd_jax`.
__getattr__ = at_the_top(__name__, {"load": ".loading"})
