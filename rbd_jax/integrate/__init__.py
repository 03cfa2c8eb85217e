"""Time: schemes, one a file, and the rollouts that use them."""

from ._result import Result as Result
from ._scheme import Scheme as Scheme
from ._system import State as State, System as System
from .adaptive import Adaptive as Adaptive
from .bdf1 import BDF1 as BDF1
from .bdf2 import BDF2 as BDF2
from .commutator_free_2 import CommutatorFree2 as CommutatorFree2
from .commutator_free_3 import CommutatorFree3 as CommutatorFree3
from .commutator_free_4 import CommutatorFree4 as CommutatorFree4
from .crouch_grossman_3 import CrouchGrossman3 as CrouchGrossman3
from .energy_momentum import EnergyMomentum as EnergyMomentum
from .generalized_alpha import GeneralizedAlpha as GeneralizedAlpha
from .implicit_midpoint import ImplicitMidpoint as ImplicitMidpoint
from .lie_euler import LieEuler as LieEuler
from .linearly_implicit_euler import LinearlyImplicitEuler as LinearlyImplicitEuler
from .rattle import Rattle as Rattle
from .rkmk2 import RKMK2 as RKMK2
from .rkmk3 import RKMK3 as RKMK3
from .rkmk45 import RKMK45 as RKMK45
from .rollout import rollout as rollout
from .runge_kutta_4 import RKMK4 as RKMK4, RungeKutta4 as RungeKutta4
from .semi_implicit_euler import SemiImplicitEuler as SemiImplicitEuler
from .trajectory import Trajectory as Trajectory
from .variational_midpoint import VariationalMidpoint as VariationalMidpoint
