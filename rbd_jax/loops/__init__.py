"""What ties bodies and coordinates together beyond the tree: the families of constraints (book §8.3).

Each is a few equations between frames, and knows nothing of a model. What follows of them is in the room `constraints`.

- `Weld`: two frames stay on each other
- `Connect`: two points stay on each other
- `HingeLoop`: the loop of a planar mechanism closed in its plane: two rows
- `LoopJoint`: any joint, closing a loop
- `Distance`: two points stay a length apart
- `PointOnLine`: a point stays on a line
- `PointOnPlane`: a point stays on a plane
- `PointOnCurve`: a point stays on a curve
- `PointOnSurface`: a point stays on a surface
- `CoordinateCoupling`: an equation between coordinates of joints
- `PrescribedCoordinate`: a coordinate follows a function of time
- `RollingSphere`: a sphere rolls on a plane
- `RollingDisk`: a disk or a wheel rolls on a plane
- `KnifeEdge`: an edge does not move sideways
- `Skate`: a blade glides on a plane and does not move sideways
- `Implicit`: a function of frames and coordinates vanishes
- `ImplicitRate`: a function of how they move vanishes
- `RelativeConstraint`: what constraints between two frames inherit from
- `NonholonomicConstraint`: what constraints on how two frames move inherit from
- `Constraint`: what every constraint inherits from
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
