"""Simulation: what is stepped (`System`), the schemes that step it, one a file, and rollouts.

Rollouts:

- `rollout`: many steps of one sample, with controls, forces, events and policies
- `step`: one step
- `step_derivatives`: one step linearized: the matrices A and B
- `acceleration`: how a model accelerates under all that acts
- `contact_forces`: its contacts, with their forces
- `sense`: what the sensors of a model read in a state
- `sense_along`: what they read along a trajectory
- `State`: configuration and velocity, and what forces remember themselves
- `Trajectory`: what a rollout returns
- `Result`: what the codes of a trajectory mean
- `Controls`: what a model's actuators are told
- `Actuation`: generalized forces at some of the joints
- `keyframe`: a state that a model carries
- `keyframe_controls`: what its actuators are told in it

Explicit schemes:

- `SemiImplicitEuler`: first order, implicit in what the joints do of themselves: the default
- `LieEuler`: first order
- `CommutatorFree2`: second order
- `CommutatorFree3`: third order
- `CommutatorFree4`: fourth order
- `CrouchGrossman3`: third order
- `RKMK2`: second order, in a chart
- `RKMK3`: third order, in a chart
- `RungeKutta4`: fourth order, in a chart
- `RKMK45`: fifth order, in a chart, with steps of its own
- `Adaptive`: any solver of diffrax, with steps of its own

Implicit schemes:

- `LinearlyImplicitEuler`: first order, one linear system a step, for stiff forces
- `ImplicitMidpoint`: second order
- `BDF1`: first order, for what is stiff
- `BDF2`: second order, for what is stiff
- `EventDriven`: an explicit scheme that stops at impacts, and goes on from each
- `GeneralizedAlpha`: second order, with high frequencies damped by choice
- `VariationalMidpoint`: second order, symplectic, from the Lagrangian at midpoints
- `Rattle`: second order, symplectic, from the Lagrangian at the ends of steps
- `EnergyMomentum`: second order, keeps energy and momentum

A scheme of your own:

- `Scheme`: what every scheme inherits from
- `Memory`: what a scheme remembers from step to step
- `SUCCESS`: the code of a step that went well
- `ExplicitRungeKutta`: what explicit schemes inherit from
- `CommutatorFree`: by successive steps along sums of the stages' velocities
- `MuntheKaas`: by the stages in the chart at the step's start
- `implicit_stage`: a stage of an implicit scheme, solved for
- `solve_motion`: the unknowns of an implicit step, with the multipliers
- `newton`: Newton's method
- `solve_redundant`: a linear solve that allows redundant rows and unknowns
- `Code`: how Newton's method ended
- `first_failure`: the first code that is not zero

A system of your own:

- `System`: what a scheme steps
- `StepData`: a system in a state at a time: what a scheme is handed
- `Accelerated`: how it accelerates there
- `TreeSystem`: a `Model` as a system
- `ReducedSystem`: a `ReducedModel` as a system
- `system_of`: either of them
- `Stretches`: a rollout that is made piece by piece
- `Simulated`: what can be simulated: the type of models
- `Acting`: what can act in a rollout: the type of forces
"""

__all__ = [
    "rollout",
    "step",
    "step_derivatives",
    "acceleration",
    "contact_forces",
    "sense",
    "sense_along",
    "State",
    "Trajectory",
    "Result",
    "Controls",
    "Actuation",
    "keyframe",
    "keyframe_controls",
    "SemiImplicitEuler",
    "LieEuler",
    "CommutatorFree2",
    "CommutatorFree3",
    "CommutatorFree4",
    "CrouchGrossman3",
    "RKMK2",
    "RKMK3",
    "RungeKutta4",
    "RKMK45",
    "Adaptive",
    "LinearlyImplicitEuler",
    "ImplicitMidpoint",
    "BDF1",
    "BDF2",
    "EventDriven",
    "GeneralizedAlpha",
    "VariationalMidpoint",
    "Rattle",
    "EnergyMomentum",
    "Scheme",
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
    "System",
    "StepData",
    "Accelerated",
    "TreeSystem",
    "ReducedSystem",
    "system_of",
    "Stretches",
    "Simulated",
    "Acting",
]

from .._core.failures import first_failure as first_failure
from .._core.newton import Code as Code, newton as newton, solve_redundant as solve_redundant
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
from .control import Controls as Controls
from .controls import Actuation as Actuation
from .crouch_grossman_3 import CrouchGrossman3 as CrouchGrossman3
from .energy_momentum import EnergyMomentum as EnergyMomentum
from .event_driven import EventDriven as EventDriven
from .generalized_alpha import GeneralizedAlpha as GeneralizedAlpha
from .implicit_midpoint import ImplicitMidpoint as ImplicitMidpoint
from .keyframes import keyframe as keyframe, keyframe_controls as keyframe_controls
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
from .sensing import (
    acceleration as acceleration,
    contact_forces as contact_forces,
    sense as sense,
    sense_along as sense_along,
)
from .state import State as State
from .step import step as step, step_derivatives as step_derivatives
from .step_data import Accelerated as Accelerated, StepData as StepData
from .stretches import Stretches as Stretches
from .system import System as System
from .systems import Simulated as Simulated, system_of as system_of
from .trajectory import Trajectory as Trajectory
from .tree_system import Acting as Acting, TreeSystem as TreeSystem
from .variational_midpoint import VariationalMidpoint as VariationalMidpoint
