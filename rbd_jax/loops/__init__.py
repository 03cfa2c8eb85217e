"""What ties bodies and coordinates together beyond the tree: the families of constraints (book §8.3).

Each is a few equations between frames, and knows nothing of a model. What follows of them is in the room `constraints`.
"""

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
