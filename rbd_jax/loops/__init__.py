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
- `RelativeConstraint`: what constraints between two frames inherit from
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
    "RelativeConstraint",
    "Constraint",
]

from .connect import Connect as Connect
from .constraint import Constraint as Constraint
from .coordinate_coupling import CoordinateCoupling as CoordinateCoupling
from .distance import Distance as Distance
from .hinge_loop import HingeLoop as HingeLoop
from .loop_joint import LoopJoint as LoopJoint
from .point_on_line import PointOnLine as PointOnLine
from .point_on_plane import PointOnPlane as PointOnPlane
from .point_on_spline import PointOnCurve as PointOnCurve, PointOnSurface as PointOnSurface
from .prescribed_coordinate import PrescribedCoordinate as PrescribedCoordinate
from .relative import RelativeConstraint as RelativeConstraint
from .weld import Weld as Weld
