"""States of other libraries and ours, matched by joint name.

`PinocchioMap(model, pin_model)` and `MujocoMap(model, mj_model)` are built once of the two models. Their
methods are index tables and a few products: pure functions of one sample, for `jit`, `vmap` and `grad`.
Neither library is imported here; the models that are handed in bring theirs along.
"""

from . import mujoco as mujoco, pinocchio as pinocchio
from .mujoco import MujocoMap as MujocoMap
from .pinocchio import PinocchioMap as PinocchioMap
