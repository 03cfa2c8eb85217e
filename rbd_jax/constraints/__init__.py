"""Constraints beyond the tree: loops, couplings, prescribed motions, and the dynamics under them (book ch. 8)."""

from ..model import Constraint as Constraint
from .closure import Closure as Closure, close as close, closure_dynamics as closure_dynamics
from .connect import Connect as Connect
from .consistency import (
    Assembly as Assembly,
    assemble as assemble,
    check_consistent as check_consistent,
    project as project,
    project_velocity as project_velocity,
)
from .coordinate_coupling import CoordinateCoupling as CoordinateCoupling
from .distance import Distance as Distance
from .dynamics import (
    Baumgarte as Baumgarte,
    ConstrainedMotion as ConstrainedMotion,
    constrained_dynamics as constrained_dynamics,
    mobility as mobility,
)
from .edit import add_constraints as add_constraints, without_constraints as without_constraints
from .evaluate import (
    constraint_bias as constraint_bias,
    constraint_jacobian as constraint_jacobian,
    constraint_residual as constraint_residual,
    constraint_rows as constraint_rows,
    constraint_velocity as constraint_velocity,
)
from .hinge_loop import HingeLoop as HingeLoop
from .inverse import (
    ConstrainedEfforts as ConstrainedEfforts,
    constrained_inverse_dynamics as constrained_inverse_dynamics,
)
from .loop_joint import LoopJoint as LoopJoint
from .maximal import (
    from_maximal as from_maximal,
    maximal_coordinates as maximal_coordinates,
    to_maximal as to_maximal,
)
from .point_on_line import PointOnLine as PointOnLine
from .point_on_plane import PointOnPlane as PointOnPlane
from .point_on_spline import PointOnCurve as PointOnCurve, PointOnSurface as PointOnSurface
from .prescribed_coordinate import PrescribedCoordinate as PrescribedCoordinate
from .weld import Weld as Weld
