"""Actuators: forces on a model that follow a control.

- `Motor`: a force equal to the control
- `Position`: a position servo
- `Velocity`: a velocity servo
- `IntegratedVelocity`: a position servo whose target moves at the commanded velocity
- `Damper`: a damper with a commanded coefficient
- `Cylinder`: a pneumatic or hydraulic cylinder
- `Muscle`: a muscle with an activation
- `Actuator`: the base class, with a general gain and bias

Transmissions:

- `OnJoint`: a joint
- `OnTendon`: a tendon
- `OnSite`: a site, such as a thruster
- `SliderCrank`: a slider with a rod to a crank
- `Transmission`: the base class of transmissions

Force models and activation dynamics:

- `Constant`: a constant gain or bias
- `Affine`: a gain or bias that is affine in length and rate
- `MuscleCurves`: the parameters of a muscle
- `MuscleGain`: the active force of a muscle
- `MuscleBias`: the passive force of a muscle
- `Law`: the base class of gains and biases
- `Integrator`: the integral of the control
- `Filter`: the control with a time constant
- `MuscleActivation`: the activation of a muscle
- `Activation`: the base class of activation dynamics

All actuators of a model:

- `Drive`: all actuators as one force
- `actuator_lengths`: the length of each actuator
- `actuator_velocities`: the rate of each length
- `actuator_moments`: the moment arms
"""

__all__ = [
    "Motor",
    "Position",
    "Velocity",
    "IntegratedVelocity",
    "Damper",
    "Cylinder",
    "Muscle",
    "Actuator",
    "OnJoint",
    "OnTendon",
    "OnSite",
    "SliderCrank",
    "Transmission",
    "Constant",
    "Affine",
    "MuscleCurves",
    "MuscleGain",
    "MuscleBias",
    "Law",
    "Integrator",
    "Filter",
    "MuscleActivation",
    "Activation",
    "Drive",
    "actuator_lengths",
    "actuator_velocities",
    "actuator_moments",
]

from .activation import (
    Activation as Activation,
    Filter as Filter,
    Integrator as Integrator,
    MuscleActivation as MuscleActivation,
)
from .actuator import (
    Actuator as Actuator,
    Cylinder as Cylinder,
    Damper as Damper,
    IntegratedVelocity as IntegratedVelocity,
    Motor as Motor,
    Muscle as Muscle,
    Position as Position,
    Velocity as Velocity,
)
from .drive import (
    Drive as Drive,
    actuator_lengths as actuator_lengths,
    actuator_moments as actuator_moments,
    actuator_velocities as actuator_velocities,
)
from .laws import (
    Affine as Affine,
    Constant as Constant,
    Law as Law,
    MuscleBias as MuscleBias,
    MuscleCurves as MuscleCurves,
    MuscleGain as MuscleGain,
)
from .transmission import (
    OnJoint as OnJoint,
    OnSite as OnSite,
    OnTendon as OnTendon,
    SliderCrank as SliderCrank,
    Transmission as Transmission,
)
