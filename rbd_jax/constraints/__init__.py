"""Constraints beyond the tree: loops, couplings, prescribed motions, and the dynamics under them (book ch. 8)."""

from ..loops import (
    Connect as Connect,
    Constraint as Constraint,
    CoordinateCoupling as CoordinateCoupling,
    Distance as Distance,
    HingeLoop as HingeLoop,
    LoopJoint as LoopJoint,
    PointOnCurve as PointOnCurve,
    PointOnLine as PointOnLine,
    PointOnPlane as PointOnPlane,
    PointOnSurface as PointOnSurface,
    PrescribedCoordinate as PrescribedCoordinate,
    RelativeConstraint as RelativeConstraint,
    Weld as Weld,
)
from ..model.attachments import (
    add_constraints as add_constraints,
    without_constraints as without_constraints,
)
from .closure import (
    Closure as Closure,
    ReducedModel as ReducedModel,
    close as close,
    closure_dynamics as closure_dynamics,
)
from .consistency import (
    Assembly as Assembly,
    assemble as assemble,
    check_consistent as check_consistent,
    project as project,
    project_velocity as project_velocity,
)
from .derivatives import (
    ConstrainedDerivatives as ConstrainedDerivatives,
    constrained_dynamics_derivatives as constrained_dynamics_derivatives,
)
from .dynamics import (
    ConstrainedMotion as ConstrainedMotion,
    constrained_dynamics as constrained_dynamics,
    mobility as mobility,
)
from .evaluate import (
    constraint_bias as constraint_bias,
    constraint_force as constraint_force,
    constraint_jacobian as constraint_jacobian,
    constraint_residual as constraint_residual,
    constraint_rows as constraint_rows,
    constraint_velocity as constraint_velocity,
    reach as reach,
)
from .inverse import (
    ConstrainedEfforts as ConstrainedEfforts,
    constrained_inverse_dynamics as constrained_inverse_dynamics,
)
from .maximal import (
    from_maximal as from_maximal,
    maximal_coordinates as maximal_coordinates,
    to_maximal as to_maximal,
)
from .reactions import joint_wrenches as joint_wrenches
from .stabilization import (
    Baumgarte as Baumgarte,
    Projection as Projection,
    Stabilization as Stabilization,
)
