"""Converts states between this library and MuJoCo or Pinocchio, with joints matched by name.

Build `PinocchioMap(model, pin_model)` or `MujocoMap(model, mj_model)` once for two models. Their conversions use index
tables and a few products, and are pure functions of one sample, for `jit`, `vmap` and `grad`. This package imports neither
library.

- `MujocoMap`: converts states to and from those of a `mujoco.MjModel`
- `PinocchioMap`: converts states to and from those of a `pinocchio.Model`
- `mujoco`: the module of `MujocoMap`, with MuJoCo's conventions
- `pinocchio`: the module of `PinocchioMap`, with Pinocchio's conventions
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
