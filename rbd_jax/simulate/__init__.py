"""Simulation: what is stepped (`System`), the schemes that step it, one a file, and rollouts."""

from .._failures import first_failure as first_failure
from .._newton import Code as Code, newton as newton, solve_redundant as solve_redundant
from ._explicit import (
    CommutatorFree as CommutatorFree,
    ExplicitRungeKutta as ExplicitRungeKutta,
    MuntheKaas as MuntheKaas,
)
from ._implicit import implicit_stage as implicit_stage, solve_motion as solve_motion
from .adaptive import Adaptive as Adaptive
from .bdf1 import BDF1 as BDF1
from .bdf2 import BDF2 as BDF2
from .commutator_free_2 import CommutatorFree2 as CommutatorFree2
from .commutator_free_3 import CommutatorFree3 as CommutatorFree3
from .commutator_free_4 import CommutatorFree4 as CommutatorFree4
from .controls import Actuation as Actuation
from .crouch_grossman_3 import CrouchGrossman3 as CrouchGrossman3
from .energy_momentum import EnergyMomentum as EnergyMomentum
from .generalized_alpha import GeneralizedAlpha as GeneralizedAlpha
from .implicit_midpoint import ImplicitMidpoint as ImplicitMidpoint
from .lie_euler import LieEuler as LieEuler
from .linearly_implicit_euler import LinearlyImplicitEuler as LinearlyImplicitEuler
from .rattle import Rattle as Rattle
from .reduced_system import ReducedSystem as ReducedSystem
from .result import Result as Result
from .rkmk2 import RKMK2 as RKMK2
from .rkmk3 import RKMK3 as RKMK3
from .rkmk45 import RKMK45 as RKMK45
from .rollout import rollout as rollout
from .runge_kutta_4 import RungeKutta4 as RungeKutta4
from .scheme import SUCCESS as SUCCESS, Memory as Memory, Scheme as Scheme
from .semi_implicit_euler import SemiImplicitEuler as SemiImplicitEuler
from .state import State as State
from .step import step as step, step_derivatives as step_derivatives
from .system import System as System
from .systems import Simulated as Simulated, system_of as system_of
from .trajectory import Trajectory as Trajectory
from .tree_system import Acting as Acting, TreeSystem as TreeSystem
from .variational_midpoint import VariationalMidpoint as VariationalMidpoint
