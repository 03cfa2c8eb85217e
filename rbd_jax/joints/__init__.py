"""Joints: one family a file, one protocol (`Joint`), from which a user's own joint inherits."""

from ._joint import ConstantSubspaceJoint as ConstantSubspaceJoint, Joint as Joint
from .composite import Composite as Composite, Free2D as Free2D, Free3D as Free3D
from .cylindrical import Cylindrical as Cylindrical
from .driven import ConstantVelocity as ConstantVelocity, Driven as Driven
from .euler import SphericalEuler as SphericalEuler
from .exponential import SphericalExponential as SphericalExponential
from .fixed import Fixed as Fixed
from .free import Free as Free
from .helical import Helical as Helical
from .planar import Planar as Planar
from .prismatic import Prismatic as Prismatic
from .rack import RackAndPinion as RackAndPinion
from .revolute import Revolute as Revolute
from .spherical import Spherical as Spherical
from .spline import SplineCurve as SplineCurve, SplineSurface as SplineSurface
from .translational import Translational as Translational
from .universal import Universal as Universal
