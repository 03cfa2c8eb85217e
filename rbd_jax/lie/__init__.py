"""Lie groups: rotations, rigid motions, vectors and their products; quaternions as coordinates of rotations.

- `SO3`: rotations as matrices
- `S3`: rotations as unit quaternions
- `SE3`: rigid motions
- `SO3xR3`: rotations and translations
- `S2`: directions: the unit sphere, not a group, with similar functions
- `Rn`: vectors
- `Product`: the product of groups
- `Power`: the product of n copies of a group
- `Group`: the interface of all groups
- `quaternion`: functions of quaternions
"""

__all__ = [
    "SO3",
    "S3",
    "SE3",
    "SO3xR3",
    "S2",
    "Rn",
    "Product",
    "Power",
    "Group",
    "quaternion",
]

from . import quaternion as quaternion
from .group import Group as Group
from .product import Power as Power, Product as Product
from .rn import Rn as Rn
from .s2 import S2 as S2
from .s3 import S3 as S3
from .se3 import SE3 as SE3
from .so3 import SO3 as SO3
from .so3xr3 import SO3xR3 as SO3xR3
