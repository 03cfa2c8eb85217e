"""Optimal control: problems, solvers, inverse kinematics and controllers.

- `Problem`: what moves, what that costs, and what it must keep to
- `Cost`: a half of the weighted sum of squares of a residual
- `Value`: a cost that is no sum of squares
- `Constraint`: a residual that is zero, or within bounds
- `Bounds`: bounds on controls and states
- `Residual`: what should be zero: the protocol
- `Function`: a function as a residual
- `Along`: a residual whose numbers change from knot to knot
- `Posture`, `Velocity`, `Effort`: residuals of joints and controls
- `Position`, `Orientation`, `Pose`, `Pointing`, `Twist`: of places on the robot
- `CenterOfMass`, `Momentum`: of the robot as a whole
- `Clearance`: how far its shapes are apart
- `Knot`: what a residual is asked with
- `solve`: the motion of least cost
- `DDP`: differential dynamic programming, and iterative LQR
- `Shooting`, `Collocation`: multiple shooting and direct collocation, by an interior-point method
- `MPPI`, `CEM`: search by samples: path integrals, and the cross-entropy method
- `RecedingHorizon`: a problem solved again and again, as a controller (model predictive control)
- `HorizonMemory`, `Plan`: what that remembers
- `lqr`, `lqr_rollout`: the linear-quadratic regulator of a `LinearQuadratic` problem, as a `Policy`
- `lqr_gain`: without an end
- `Solver`: a method: the protocol
- `Guess`: where a search begins
- `Solution`, `Code`: the motion found, and how the search ended
- `appraise`: what a solution costs, what it keeps to, and whether it is a minimum
- `Appraisal`: what it returns
- `problems`: bundled problems, with what solves them

Inverse kinematics and controllers:
- `inverse_kinematics`: a configuration in which residuals vanish
- `InverseKinematics`: what it returns
"""

__all__ = [
    "Problem",
    "Cost",
    "Value",
    "Constraint",
    "Bounds",
    "Residual",
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
    "Knot",
    "solve",
    "DDP",
    "Shooting",
    "Collocation",
    "MPPI",
    "CEM",
    "RecedingHorizon",
    "HorizonMemory",
    "Plan",
    "lqr",
    "lqr_rollout",
    "lqr_gain",
    "LinearQuadratic",
    "Policy",
    "RecedingHorizon",
    "HorizonMemory",
    "Plan",
    "Solver",
    "Guess",
    "Solution",
    "appraise",
    "Appraisal",
    "problems",
    "inverse_kinematics",
    "InverseKinematics",
    "quadratic_program",
    "QuadraticProgram",
    "Code",
]

from . import problems as problems
from .appraisal import Appraisal as Appraisal, appraise as appraise
from .collocation import Collocation as Collocation
from .constraint import Bounds as Bounds, Constraint as Constraint
from .cross_entropy import CEM as CEM
from .ddp import DDP as DDP
from .inverse_kinematics import (
    InverseKinematics as InverseKinematics,
    inverse_kinematics as inverse_kinematics,
)
from .knot import Knot as Knot
from .lqr import LinearQuadratic as LinearQuadratic, Policy as Policy
from .mppi import MPPI as MPPI
from .problem import Problem as Problem
from .receding_horizon import HorizonMemory as HorizonMemory, Plan as Plan, RecedingHorizon as RecedingHorizon
from .regulator import lqr as lqr, lqr_gain as lqr_gain, lqr_rollout as lqr_rollout
from .quadratic_program import (
    QuadraticProgram as QuadraticProgram,
    quadratic_program as quadratic_program,
)
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
from .solution import Code as Code, Solution as Solution
from .solve import solve as solve
from .solver import Guess as Guess, Solver as Solver
