"""Joints: one family a file, one protocol (`Joint`), from which a user's own joint inherits."""

from ._joint import ConstantSubspaceJoint as ConstantSubspaceJoint, Joint as Joint
from .fixed import Fixed as Fixed
from .prismatic import Prismatic as Prismatic
from .revolute import Revolute as Revolute
