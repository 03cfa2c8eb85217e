"""States of other libraries and ours, matched by joint name.

`PinocchioMap(model, pin_model)` and `MujocoMap(model, mj_model)` are built once of the two models. Their
methods are index tables and a few products: pure functions of one sample, for `jit`, `vmap` and `grad`.
Neither library is imported here; the models that are handed in bring theirs along.

- `MujocoMap`: states of a model as those of a `mujoco.MjModel`, and back
- `PinocchioMap`: states of a model as those of a `pinocchio.Model`, and back
- `mujoco`: the module of the former, with its conventions
- `pinocchio`: the module of the latter, with its conventions
"""

__all__ = [
    "MujocoMap",
    "PinocchioMap",
    "mujoco",
    "pinocchio",
]

from . import mujoco as mujoco, pinocchio as pinocchio
from .mujoco import MujocoMap as MujocoMap
from .pinocchio import PinocchioMap as PinocchioMap
