"""Constraint types: equations between bodies and coordinates beyond the tree (book §8.3).

Each type consists of a few equations between frames and is independent of a model. The package `constraints` has the dynamics
under constraints.

- `Weld`: two frames coincide
- `Connect`: two points coincide
- `HingeLoop`: the loop of a planar mechanism closed in its plane: two rows
- `LoopJoint`: any joint, closing a loop
- `Distance`: two points at a fixed distance
- `PointOnLine`: a point on a line
- `PointOnPlane`: a point on a plane
- `PointOnCurve`: a point on a curve
- `PointOnSurface`: a point on a surface
- `CoordinateCoupling`: an equation between coordinates of joints
- `PrescribedCoordinate`: a coordinate that follows a function of time
- `RollingSphere`: a sphere that rolls on a plane
- `RollingDisk`: a disk or a wheel that rolls on a plane
- `KnifeEdge`: an edge that does not move sideways
- `Skate`: a blade that glides on a plane and does not move sideways
- `Implicit`: a function of frames and coordinates that vanishes
- `ImplicitRate`: a function of velocities that vanishes
- `RelativeConstraint`: base class of constraints between two frames
- `NonholonomicConstraint`: base class of constraints on the relative velocity of two frames
- `Constraint`: base class of all constraints
"""

__all__ = [
    "Weld",
    "Connect",
    "HingeLoop",
    "LoopJoint",
    "Distance",
    "PointOnLine",
    "PointOnPlane",
    "PointOnCurve",
    "PointOnSurface",
    "CoordinateCoupling",
    "PrescribedCoordinate",
    "RollingSphere",
    "RollingDisk",
    "KnifeEdge",
    "Skate",
    "Implicit",
    "ImplicitRate",
    "RelativeConstraint",
    "NonholonomicConstraint",
    "Constraint",
]

from .connect import Connect as Connect
from .constraint import Constraint as Constraint
from .coordinate_coupling import CoordinateCoupling as CoordinateCoupling
from .distance import Distance as Distance
from .hinge_loop import HingeLoop as HingeLoop
from .implicit import Implicit as Implicit, ImplicitRate as ImplicitRate
from .knife_edge import KnifeEdge as KnifeEdge, Skate as Skate
from .loop_joint import LoopJoint as LoopJoint
from .nonholonomic import NonholonomicConstraint as NonholonomicConstraint
from .point_on_line import PointOnLine as PointOnLine
from .point_on_plane import PointOnPlane as PointOnPlane
from .point_on_spline import PointOnCurve as PointOnCurve, PointOnSurface as PointOnSurface
from .prescribed_coordinate import PrescribedCoordinate as PrescribedCoordinate
from .relative import RelativeConstraint as RelativeConstraint
from .rolling import RollingDisk as RollingDisk, RollingSphere as RollingSphere
from .weld import Weld as Weld
