"""Time: schemes, one a file, and the rollouts that use them."""

from ._scheme import Scheme as Scheme, State as State
from .rollout import Trajectory as Trajectory, rollout as rollout
from .runge_kutta_4 import RungeKutta4 as RungeKutta4
from .semi_implicit_euler import SemiImplicitEuler as SemiImplicitEuler
