"""Optimal control: problems, solvers, inverse kinematics and controllers.

Problems:

- `Problem`: what moves, what that costs, and what it must keep to
- `Cost`: a half of the weighted sum of squares of a residual
- `Value`: a cost that is no sum of squares
- `Constraint`: a residual that is zero, or within bounds
- `Bounds`: bounds on controls and states
- `problems`: bundled problems, with what solves them

Residuals: what should be zero, in costs, constraints, inverse kinematics and controllers:

- `Residual`: the protocol
- `Knot`: what a residual is asked with
- `Function`: a function as a residual
- `Along`: a residual whose numbers change from knot to knot
- `Posture`: how far the joints are from a configuration
- `Velocity`: how fast they move
- `Effort`: the control
- `Position`: where a place of the robot is
- `Orientation`: how it is turned
- `Pose`: both
- `Pointing`: where an axis of it points
- `Twist`: how it moves
- `CenterOfMass`: where the centre of mass is
- `Momentum`: the momentum about it
- `Clearance`: how far shapes are apart

Solvers:

- `solve`: the motion of least cost
- `DDP`: differential dynamic programming, and iterative LQR
- `Shooting`: multiple shooting by an interior-point method
- `Collocation`: direct collocation by that
- `MPPI`: search by samples: path integrals
- `CEM`: search by samples: the cross-entropy method
- `Solver`: a method: the protocol
- `Guess`: where a search begins
- `Solution`: the motion found
- `Code`: how a search ended
- `explain`: that in words
- `optimality`: whether it is a minimum
- `Optimality`: what the conditions of one say
- `appraise`: what a solution costs, what it keeps to, and whether it is a minimum
- `Appraisal`: what it returns

Controllers:

- `RecedingHorizon`: a problem solved again and again (model predictive control)
- `HorizonMemory`: what that remembers
- `Plan`: what it goes by
- `lqr`: the linear-quadratic regulator
- `lqr_rollout`: states and controls under it
- `lqr_gain`: the one without an end
- `LinearQuadratic`: the numbers of such a problem
- `Policy`: the feedback that solves it
- `inverse_kinematics`: a configuration in which residuals vanish
- `InverseKinematics`: what it returns
- `differential_inverse_kinematics`: the velocity that tasks ask for
- `VelocityCommand`: what it returns
- `operational_space`: the forces by which tasks are done, one before the other
- `whole_body_control`: the forces by which tasks are done within limits of torques, friction cones and joints
- `WholeBodyCommand`: what it returns
- `PointContact`: a point of the robot that stands on something
- `Task`: a residual that a controller makes vanish, at a rate
- `quadratic_program`: the minimum of a convex quadratic program
- `QuadraticProgram`: what it returns
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
