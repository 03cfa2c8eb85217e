"""Simulation: tools to write schemes and systems.

Rollouts, schemes, states and trajectories are at the top of the library: `rbd.rollout`, `rbd.RungeKutta4`.

To write a scheme, derive from `rbd.Scheme`. These names help:

- `Memory`: the values that a scheme passes from step to step
- `SUCCESS`: the code of a successful step
- `ExplicitRungeKutta`: base class of explicit schemes
- `CommutatorFree`: base class of schemes that move along sums of the stages' velocities, in successive steps
- `MuntheKaas`: base class of schemes with all stages in the chart at the start of the step
- `implicit_stage`: solves a stage of an implicit scheme
- `solve_motion`: solves for the unknowns of an implicit step, including the multipliers
- `newton`: Newton's method
- `solve_redundant`: a linear solver that allows redundant rows and unknowns
- `Code`: result codes of Newton's method
- `first_failure`: returns the first nonzero code

A scheme advances a `rbd.System`:

- `StepData`: a system evaluated in a state at a time, the argument of a scheme
- `Accelerated`: the acceleration of a system
- `TreeSystem`: a `Model` as a system
- `ReducedSystem`: a `ReducedModel` as a system
- `system_of`: returns the system of a model
- `Stretches`: a rollout in several parts
- `Simulated`: the type of models that can be simulated
- `Acting`: the type of forces that can act in a rollout
"""

__all__ = [
    "Memory",
    "SUCCESS",
    "ExplicitRungeKutta",
    "CommutatorFree",
    "MuntheKaas",
    "implicit_stage",
    "solve_motion",
    "newton",
    "solve_redundant",
    "Code",
    "first_failure",
    "StepData",
    "Accelerated",
    "TreeSystem",
    "ReducedSystem",
    "system_of",
    "Stretches",
    "Simulated",
    "Acting",
]


from .._core.deprecation import at_the_top
from .._core.failures import first_failure as first_failure
from ..optimize.newton import newton as newton, solve_redundant as solve_redundant
from ..optimize.outcome import Code as Code
from ._explicit import (
    CommutatorFree as CommutatorFree,
    ExplicitRungeKutta as ExplicitRungeKutta,
    MuntheKaas as MuntheKaas,
)
from ._implicit import implicit_stage as implicit_stage, solve_motion as solve_motion
from .reduced_system import ReducedSystem as ReducedSystem
from .scheme import SUCCESS as SUCCESS, Memory as Memory
from .step_data import Accelerated as Accelerated, StepData as StepData
from .stretches import Stretches as Stretches
from .systems import Simulated as Simulated, system_of as system_of
from .tree_system import Acting as Acting, TreeSystem as TreeSystem


#: Names that moved to the top of the library, `rbd_jax`; access through this package is deprecated.
__getattr__ = at_the_top(
    __name__,
    {
        "Actuation": ".controls",
        "Adaptive": ".adaptive",
        "BDF1": ".bdf1",
        "BDF2": ".bdf2",
        "CommutatorFree2": ".commutator_free_2",
        "CommutatorFree3": ".commutator_free_3",
        "CommutatorFree4": ".commutator_free_4",
        "Controls": ".control",
        "CrouchGrossman3": ".crouch_grossman_3",
        "EnergyMomentum": ".energy_momentum",
        "EventDriven": ".event_driven",
        "GeneralizedAlpha": ".generalized_alpha",
        "ImplicitMidpoint": ".implicit_midpoint",
        "LieEuler": ".lie_euler",
        "LinearlyImplicitEuler": ".linearly_implicit_euler",
        "RKMK2": ".rkmk2",
        "RKMK3": ".rkmk3",
        "RKMK45": ".rkmk45",
        "rollout": ".rollouts",
        "step": ".steps",
        "Rattle": ".rattle",
        "Result": ".result",
        "RungeKutta4": ".runge_kutta_4",
        "Scheme": ".scheme",
        "SemiImplicitEuler": ".semi_implicit_euler",
        "State": ".state",
        "System": ".system",
        "Trajectory": ".trajectory",
        "VariationalMidpoint": ".variational_midpoint",
        "acceleration": ".sensing",
        "contact_forces": ".sensing",
        "keyframe": ".keyframes",
        "keyframe_controls": ".keyframes",
        "sense": ".sensing",
        "sense_along": ".sensing",
        "step_derivatives": ".steps",
    },
)
