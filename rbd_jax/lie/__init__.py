"""Lie groups: rotations, rigid motions, vectors and their products; quaternions as coordinates of rotations."""

from . import quaternion as quaternion
from .group import Group as Group
from .product import Power as Power, Product as Product
from .rn import Rn as Rn
from .s2 import S2 as S2
from .s3 import S3 as S3
from .se3 import SE3 as SE3
from .so3 import SO3 as SO3
from .so3xr3 import SO3xR3 as SO3xR3
