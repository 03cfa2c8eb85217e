"""Optimal control: problems, solvers, inverse kinematics and controllers.

- `Problem`: what moves, what that costs, and what it must keep to
- `solve`: the motion of least cost
- `Shooting`, `Collocation`: by an interior-point method
- `Guess`, `Solution`, `Code`: where a search begins, what it finds, and how it ended
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
"""

__all__ = [
    "Problem",
    "solve",
    "Shooting",
    "Collocation",
    "Guess",
    "Solution",
    "Code",
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
]

from .collocation import Collocation as Collocation
from .constraint import Bounds as Bounds, Constraint as Constraint
from .knot import Knot as Knot
from .problem import Problem as Problem
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
from .solver import Guess as Guess, solve as solve
