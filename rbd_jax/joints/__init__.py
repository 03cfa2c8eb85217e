"""Joints: one type per file, with a common protocol (`Joint`) from which a user's own joint inherits.

One degree of freedom:

- `Revolute`: a hinge
- `Prismatic`: a slide
- `Helical`: a screw
- `RackAndPinion`: a pinion that rolls on a rack
- `SplineCurve`: motion along a curve of frames

Two and three:

- `Cylindrical`: a turn and a slide along one axis
- `Universal`: two turns about intersecting axes
- `Planar`: motion in a plane and rotation about its normal
- `Free2D`: the same motion in coordinates of the x-y plane
- `SplineSurface`: motion on a surface of frames
- `Spherical`: a ball joint, by a quaternion
- `SphericalEuler`: a ball joint, by three angles
- `SphericalExponential`: a ball joint, by a rotation vector
- `Translational`: three slides

None and six:

- `Fixed`: a weld
- `Free`: a position and a quaternion
- `Free3D`: three slides, then a ball joint

Made of other joints:

- `Composite`: joints in series
- `Driven`: a prescribed motion, a function of time
- `ConstantVelocity`: a prescribed motion at constant velocity
- `Reversed`: a joint from its successor to its predecessor
- `reverse`: swaps predecessor and successor of a joint
- `InPlane`: a joint in planar algebra
- `Offset`: a joint with a fixed frame on the successor's side

Transmitted forces:

- `subspaces`: the subspaces of motion, of active force and of constraint force
- `Subspaces`: the three subspaces, and the split of a wrench

Base classes for your own joints:

- `Joint`: the base class of every joint
- `ConstantSubspaceJoint`: the base class of joints with a constant motion subspace
"""

__all__ = [
    "Revolute",
    "Prismatic",
    "Helical",
    "RackAndPinion",
    "SplineCurve",
    "Cylindrical",
    "Universal",
    "Planar",
    "Free2D",
    "SplineSurface",
    "Spherical",
    "SphericalEuler",
    "SphericalExponential",
    "Translational",
    "Fixed",
    "Free",
    "Free3D",
    "Composite",
    "Driven",
    "ConstantVelocity",
    "Reversed",
    "reverse",
    "InPlane",
    "Offset",
    "subspaces",
    "Subspaces",
    "Joint",
    "ConstantSubspaceJoint",
]

from ._joint import ConstantSubspaceJoint as ConstantSubspaceJoint, Joint as Joint
from .composite import Composite as Composite, Free2D as Free2D, Free3D as Free3D
from .cylindrical import Cylindrical as Cylindrical
from .driven import ConstantVelocity as ConstantVelocity, Driven as Driven
from .euler import SphericalEuler as SphericalEuler
from .exponential import SphericalExponential as SphericalExponential
from .fixed import Fixed as Fixed
from .free import Free as Free
from .helical import Helical as Helical
from .in_plane import InPlane as InPlane
from .offset import Offset as Offset
from .planar import Planar as Planar
from .prismatic import Prismatic as Prismatic
from .rack import RackAndPinion as RackAndPinion
from .reversed import Reversed as Reversed, reverse as reverse
from .revolute import Revolute as Revolute
from .spherical import Spherical as Spherical
from .spline import SplineCurve as SplineCurve, SplineSurface as SplineSurface
from .subspaces import Subspaces as Subspaces, subspaces as subspaces
from .translational import Translational as Translational
from .universal import Universal as Universal
