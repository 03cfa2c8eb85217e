"""Actuators: what drives a model when it is told to by a control.

- `Motor`: a force as it is told
- `Position`: a servo to a position
- `Velocity`: a servo to a velocity
- `IntegratedVelocity`: a servo to a position that moves as it is told
- `Damper`: a damper as strong as it is told
- `Cylinder`: a pneumatic or hydraulic cylinder
- `Muscle`: a muscle with an activation
- `Actuator`: all of them, with a gain and a bias of one's own

What they act on:

- `OnJoint`: a joint
- `OnTendon`: a tendon
- `OnSite`: a site: a thruster
- `SliderCrank`: a slider with a rod to a crank
- `Transmission`: what those inherit from

What they do, and how it follows the control:

- `Constant`: a gain or bias that is a number
- `Affine`: a gain or bias that is linear in length and rate
- `MuscleCurves`: the numbers of a muscle
- `MuscleGain`: the active force of a muscle
- `MuscleBias`: its passive force
- `Law`: what those inherit from
- `Integrator`: the integral of the control
- `Filter`: the control with a time constant
- `MuscleActivation`: the activation of a muscle
- `Activation`: what those inherit from

Of a model:

- `Drive`: all its actuators as one force
- `actuator_lengths`: the length of each
- `actuator_velocities`: the rate of that
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
