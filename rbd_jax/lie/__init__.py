"""Lie groups: rotations, rigid motions, and quaternions as coordinates of rotations."""

from . import quaternion as quaternion
from ._group import Group as Group
from .s2 import S2 as S2
from .se3 import SE3 as SE3
from .so3 import SO3 as SO3
