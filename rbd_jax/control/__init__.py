"""Optimal control: problems, solvers, inverse kinematics and controllers.

Problems:

- `Problem`: a system, its costs, and its constraints
- `Cost`: half the weighted sum of squares of a residual
- `Value`: a cost that is not a sum of squares
- `Constraint`: a residual that is zero, or within bounds
- `Bounds`: bounds on controls and states
- `problems`: bundled problems, each with a solver and a guess

Residuals, for costs, constraints, inverse kinematics and controllers:

- `Residual`: the protocol
- `Knot`: the argument of a residual
- `Function`: a function as a residual
- `Along`: a residual with values that change from knot to knot
- `Posture`: the difference of the joints from a configuration
- `Velocity`: the generalized velocity
- `Effort`: the control
- `Position`: the position of a body or frame
- `Orientation`: the orientation of a body or frame
- `Pose`: both
- `Pointing`: the direction of an axis of a body or frame
- `Twist`: the twist of a body or frame
- `CenterOfMass`: the position of the center of mass
- `Momentum`: the momentum about the center of mass
- `Clearance`: the distance between shapes

Solvers:

- `solve`: computes the motion of least cost
- `DDP`: differential dynamic programming, and iterative LQR
- `Shooting`: multiple shooting with an interior-point method
- `Collocation`: direct collocation with an interior-point method
- `MPPI`: sampling-based search by path integrals
- `CEM`: sampling-based search by the cross-entropy method
- `Solver`: the protocol of solvers
- `Guess`: the initial guess of a search
- `Solution`: the result of a solver
- `Code`: the result codes
- `explain`: describes a solution in words
- `optimality`: checks the optimality conditions
- `Optimality`: the result of `optimality`
- `appraise`: evaluates costs, constraints and optimality of a solution
- `Appraisal`: the result of `appraise`

Controllers:

- `RecedingHorizon`: model predictive control
- `HorizonMemory`: the internal state of `RecedingHorizon`
- `Plan`: the plan that `RecedingHorizon` follows
- `lqr`: the linear-quadratic regulator
- `lqr_rollout`: states and controls of a linear system under that regulator
- `lqr_gain`: the linear-quadratic regulator with an infinite horizon
- `LinearQuadratic`: the data of a linear-quadratic problem
- `Policy`: the feedback that solves it
- `inverse_kinematics`: computes a configuration at which residuals vanish
- `InverseKinematics`: the result of `inverse_kinematics`
- `differential_inverse_kinematics`: computes the velocity that tasks require
- `VelocityCommand`: the result of `differential_inverse_kinematics`
- `operational_space`: computes forces for prioritized tasks
- `whole_body_control`: computes forces for tasks within limits of torques, friction cones and joints
- `WholeBodyCommand`: the result of `whole_body_control`
- `PointContact`: a contact point of the robot
- `Task`: a residual that a controller drives to zero at a rate
- `quadratic_program`: solves a convex quadratic program
- `QuadraticProgram`: the result of `quadratic_program`
"""

__all__ = [
    "Problem",
    "Cost",
    "Value",
    "Constraint",
    "Bounds",
    "problems",
    "Residual",
    "Knot",
    "Function",
    "Along",
    "Posture",
    "Velocity",
    "Effort",
    "Position",
    "Orientation",
    "Pose",
    "Pointing",
    "Twist",
    "CenterOfMass",
    "Momentum",
    "Clearance",
    "solve",
    "DDP",
    "Shooting",
    "Collocation",
    "MPPI",
    "CEM",
    "Solver",
    "Guess",
    "Solution",
    "Code",
    "explain",
    "optimality",
    "Optimality",
    "appraise",
    "Appraisal",
    "RecedingHorizon",
    "HorizonMemory",
    "Plan",
    "lqr",
    "lqr_rollout",
    "lqr_gain",
    "LinearQuadratic",
    "Policy",
    "inverse_kinematics",
    "InverseKinematics",
    "differential_inverse_kinematics",
    "VelocityCommand",
    "operational_space",
    "whole_body_control",
    "WholeBodyCommand",
    "PointContact",
    "Task",
    "quadratic_program",
    "QuadraticProgram",
]

from ..optimize.outcome import Code as Code
from ..optimize.quadratic_program import (
    QuadraticProgram as QuadraticProgram,
    quadratic_program as quadratic_program,
)
from . import problems as problems
from .appraisal import Appraisal as Appraisal, appraise as appraise
from .collocation import Collocation as Collocation
from .constraint import Bounds as Bounds, Constraint as Constraint
from .cross_entropy import CEM as CEM
from .ddp import DDP as DDP
from .differential_inverse_kinematics import (
    VelocityCommand as VelocityCommand,
    differential_inverse_kinematics as differential_inverse_kinematics,
)
from .explain import explain as explain
from .inverse_kinematics import (
    InverseKinematics as InverseKinematics,
    inverse_kinematics as inverse_kinematics,
)
from .knot import Knot as Knot
from .lqr import LinearQuadratic as LinearQuadratic, Policy as Policy
from .mppi import MPPI as MPPI
from .operational_space import operational_space as operational_space
from .optimality import Optimality as Optimality, optimality as optimality
from .point_contact import PointContact as PointContact
from .problem import Problem as Problem
from .receding_horizon import HorizonMemory as HorizonMemory, Plan as Plan, RecedingHorizon as RecedingHorizon
from .regulator import lqr as lqr, lqr_gain as lqr_gain, lqr_rollout as lqr_rollout
from .residual import Along as Along, Cost as Cost, Function as Function, Residual as Residual, Value as Value
from .residuals import (
    CenterOfMass as CenterOfMass,
    Clearance as Clearance,
    Effort as Effort,
    Momentum as Momentum,
    Orientation as Orientation,
    Pointing as Pointing,
    Pose as Pose,
    Position as Position,
    Posture as Posture,
    Twist as Twist,
    Velocity as Velocity,
)
from .shooting import Shooting as Shooting
from .solution import Solution as Solution
from .solve import solve as solve
from .solver import Guess as Guess, Solver as Solver
from .task import Task as Task
from .whole_body import WholeBodyCommand as WholeBodyCommand, whole_body_control as whole_body_control
