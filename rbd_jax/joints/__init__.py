"""Joints: one family a file, one protocol (`Joint`), from which a user's own joint inherits.

One degree of freedom:

- `Revolute`: a hinge
- `Prismatic`: a slide
- `Helical`: a screw
- `RackAndPinion`: a pinion that rolls on a rack
- `SplineCurve`: along a curve of frames

Two and three:

- `Cylindrical`: a turn and a slide along one axis
- `Universal`: two turns about axes that cross
- `Planar`: in a plane, and about its normal
- `Free2D`: the same by coordinates of the x-y plane
- `SplineSurface`: on a surface of frames
- `Spherical`: a ball in its socket, by a quaternion
- `SphericalEuler`: by three angles
- `SphericalExponential`: by a rotation vector
- `Translational`: three slides

None and six:

- `Fixed`: a weld
- `Free`: a position and a quaternion
- `Free3D`: three slides, then a ball

Made of others:

- `Composite`: one joint after the other
- `Driven`: led along a function of time
- `ConstantVelocity`: led at a constant velocity
- `Reversed`: from the successor to the predecessor
- `reverse`: a joint with the two changed about
- `InPlane`: a joint in the plane that it moves in
- `Offset`: a joint, and the frame of its body beyond it

What they transmit:

- `subspaces`: of motion, of active force and of constraint force
- `Subspaces`: the three, and how a wrench splits

Your own:

- `Joint`: what every joint inherits from
- `ConstantSubspaceJoint`: what those inherit from whose motion subspace is the same everywhere
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
