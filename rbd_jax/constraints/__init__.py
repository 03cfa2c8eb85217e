"""Constraints beyond the tree: loops, couplings, prescribed motions, and the dynamics under them (book ch. 8).

Constraint types:

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

On a model:

- `without_constraints`: the model without its constraints
- `constraint_rows`: the rows of each constraint
- `reach`: the reach of a mechanism, the length scale for loop errors

Results of functions at the top of the library:

- `Assembly`: the result of `rbd.assemble`
- `ConstrainedMotion`: the result of `rbd.constrained_dynamics`
- `ConstrainedDerivatives`: the result of `rbd.constrained_dynamics_derivatives`
- `ConstrainedEfforts`: the result of `rbd.constrained_inverse_dynamics`

Dynamics:

- `loop_joint_force`: the generalized force of motors and springs at loop joints
- `loop_joint_state`: the coordinates and velocities of loop joints
- `loop_subspaces`: the subspaces of motion and force of a loop joint

Stabilization of rollouts:

- `Projection`: projects the state after every step
- `Baumgarte`: makes the residual decay
- `Stabilization`: base class of both

Independent variables:

- `Closure`: a configuration in terms of independent variables, with its velocity and acceleration
- `close`: the closure at a state of the variables
- `closure_dynamics`: the accelerations of the variables
- `closure_force`: the constraint force that holds the joints to the variables
- `independent_joints`: the motion of all joints in terms of some of them
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
    "without_constraints",
    "constraint_rows",
    "reach",
    "Assembly",
    "ConstrainedMotion",
    "ConstrainedDerivatives",
    "ConstrainedEfforts",
    "loop_joint_force",
    "loop_joint_state",
    "loop_subspaces",
    "Projection",
    "Baumgarte",
    "Stabilization",
    "Closure",
    "close",
    "closure_dynamics",
    "closure_force",
    "independent_joints",
]


from .._core.deprecation import at_the_top
from ..loops import (
    Connect as Connect,
    Constraint as Constraint,
    CoordinateCoupling as CoordinateCoupling,
    Distance as Distance,
    HingeLoop as HingeLoop,
    Implicit as Implicit,
    ImplicitRate as ImplicitRate,
    KnifeEdge as KnifeEdge,
    LoopJoint as LoopJoint,
    NonholonomicConstraint as NonholonomicConstraint,
    PointOnCurve as PointOnCurve,
    PointOnLine as PointOnLine,
    PointOnPlane as PointOnPlane,
    PointOnSurface as PointOnSurface,
    PrescribedCoordinate as PrescribedCoordinate,
    RelativeConstraint as RelativeConstraint,
    RollingDisk as RollingDisk,
    RollingSphere as RollingSphere,
    Skate as Skate,
    Weld as Weld,
)
from ..model.attachments import without_constraints as without_constraints
from .closure import (
    Closure as Closure,
    close as close,
    closure_dynamics as closure_dynamics,
    closure_force as closure_force,
)
from .consistency import Assembly as Assembly
from .derivatives import ConstrainedDerivatives as ConstrainedDerivatives
from .dynamics import ConstrainedMotion as ConstrainedMotion
from .evaluate import constraint_rows as constraint_rows, reach as reach
from .independent import independent_joints as independent_joints
from .inverse import ConstrainedEfforts as ConstrainedEfforts
from .loop_forces import (
    loop_joint_force as loop_joint_force,
    loop_joint_state as loop_joint_state,
)
from .reactions import loop_subspaces as loop_subspaces
from .stabilization import (
    Baumgarte as Baumgarte,
    Projection as Projection,
    Stabilization as Stabilization,
)


#: Names that moved to the top of the library, `rbd_jax`.
__getattr__ = at_the_top(
    __name__,
    {
        "ReducedModel": ".closure",
        "add_constraints": "..model.attachments",
        "assemble": ".consistency",
        "check_consistent": ".consistency",
        "constrained_dynamics": ".dynamics",
        "constrained_dynamics_derivatives": ".derivatives",
        "constrained_inverse_dynamics": ".inverse",
        "constraint_bias": ".evaluate",
        "constraint_force": ".evaluate",
        "constraint_jacobian": ".evaluate",
        "constraint_residual": ".evaluate",
        "constraint_velocity": ".evaluate",
        "from_maximal": ".maximal",
        "joint_wrenches": ".reactions",
        "maximal_coordinates": ".maximal",
        "mobility": ".dynamics",
        "project": ".consistency",
        "project_velocity": ".consistency",
        "to_maximal": ".maximal",
        "transfer_state": ".maximal",
    },
)
