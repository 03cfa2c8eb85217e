"""Constraints beyond the tree: loops, couplings, prescribed motions, and the dynamics under them (book ch. 8).

Families:

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

On a model:

- `add_constraints`: the model with constraints
- `without_constraints`: the bare tree
- `constraint_rows`: which rows are whose
- `reach`: how far a mechanism reaches, by which openings of loops are judged

Consistent states:

- `assemble`: a configuration that satisfies the constraints, from a rough guess
- `Assembly`: what it returns
- `project`: the state moved onto the constraints
- `project_velocity`: the velocity moved onto the constraints
- `check_consistent`: an error for a state that breaks them
- `mobility`: the number of ways in which the mechanism can move

Equations:

- `constraint_residual`: by how much each is broken
- `constraint_velocity`: the rate of the residual
- `constraint_jacobian`: the constraint Jacobian G
- `constraint_bias`: the second rate of the residual without acceleration
- `constraint_force`: the generalized forces `Gᵀ λ` of multipliers

Dynamics:

- `constrained_dynamics`: the acceleration that forces produce, and the multipliers
- `ConstrainedMotion`: what it returns
- `constrained_dynamics_derivatives`: the derivatives of both by q, v and the forces
- `ConstrainedDerivatives`: what it returns
- `constrained_inverse_dynamics`: the forces that produce an acceleration, and the multipliers
- `ConstrainedEfforts`: what it returns
- `joint_wrenches`: what the joints transmit
- `loop_joint_force`: the generalized force of motors and springs at loop joints
- `loop_joint_state`: the coordinates and velocities of loop joints
- `loop_subspaces`: the subspaces of motion and force of a loop joint

Stabilization of rollouts:

- `Projection`: after every step the state is projected
- `Baumgarte`: the residual is made to decay
- `Stabilization`: what both inherit from

Independent variables:

- `ReducedModel`: a model that moves with a few independent variables
- `Closure`: a configuration given by them, and how it moves
- `close`: that of a state of the variables
- `closure_dynamics`: the accelerations of the variables
- `closure_force`: what holds the joints to them
- `independent_joints`: how all joints move with some of them

Maximal coordinates:

- `maximal_coordinates`: the same mechanism as free bodies with constraints
- `to_maximal`: a state of the model as one of those
- `from_maximal`: and back
- `transfer_state`: a state of a model as one of another with the same bodies
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
    "add_constraints",
    "without_constraints",
    "constraint_rows",
    "reach",
    "assemble",
    "Assembly",
    "project",
    "project_velocity",
    "check_consistent",
    "mobility",
    "constraint_residual",
    "constraint_velocity",
    "constraint_jacobian",
    "constraint_bias",
    "constraint_force",
    "constrained_dynamics",
    "ConstrainedMotion",
    "constrained_dynamics_derivatives",
    "ConstrainedDerivatives",
    "constrained_inverse_dynamics",
    "ConstrainedEfforts",
    "joint_wrenches",
    "loop_joint_force",
    "loop_joint_state",
    "loop_subspaces",
    "Projection",
    "Baumgarte",
    "Stabilization",
    "ReducedModel",
    "Closure",
    "close",
    "closure_dynamics",
    "closure_force",
    "independent_joints",
    "maximal_coordinates",
    "to_maximal",
    "from_maximal",
    "transfer_state",
]

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
from ..model.attachments import (
    add_constraints as add_constraints,
    without_constraints as without_constraints,
)
from .closure import (
    Closure as Closure,
    ReducedModel as ReducedModel,
    close as close,
    closure_dynamics as closure_dynamics,
    closure_force as closure_force,
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
from .independent import independent_joints as independent_joints
from .inverse import (
    ConstrainedEfforts as ConstrainedEfforts,
    constrained_inverse_dynamics as constrained_inverse_dynamics,
)
from .loop_forces import (
    loop_joint_force as loop_joint_force,
    loop_joint_state as loop_joint_state,
)
from .maximal import (
    from_maximal as from_maximal,
    maximal_coordinates as maximal_coordinates,
    to_maximal as to_maximal,
    transfer_state as transfer_state,
)
from .reactions import joint_wrenches as joint_wrenches, loop_subspaces as loop_subspaces
from .stabilization import (
    Baumgarte as Baumgarte,
    Projection as Projection,
    Stabilization as Stabilization,
)
