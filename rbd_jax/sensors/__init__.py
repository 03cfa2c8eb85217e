"""Sensors of a model in motion: joints, inertial units, frames, forces, subtrees, energies.

A sensor is attached to a model (`rbd.attach`) and read by `rbd.sense`. Its place is the name of a site, or another frame.

Places:

- `OnBody`: a frame on a body
- `OnShape`: the frame of a shape

At joints:

- `JointPosition`: the coordinate of a joint
- `JointVelocity`: the rate of that coordinate
- `JointForce`: the generalized force that drives a joint
- `JointOrientation`: the quaternion of a ball joint
- `JointAngularVelocity`: the angular velocity of a ball joint
- `JointLimitPosition`: the distance of a joint from its limit
- `JointLimitVelocity`: the rate of that distance

At actuators and tendons:

- `ActuatorPosition`: the length of an actuator
- `ActuatorVelocity`: the rate of that length
- `ActuatorForce`: the force of an actuator
- `TendonPosition`: the length of a tendon
- `TendonVelocity`: the rate of that length
- `TendonForce`: the total force of the actuators of a tendon

At sites:

- `Gyro`: the angular velocity
- `Accelerometer`: the acceleration, with gravity
- `Velocimeter`: the linear velocity
- `Magnetometer`: the magnetic field
- `ForceSensor`: the force that a body receives from its parent
- `TorqueSensor`: the torque that a body receives from its parent

At frames, in the world or relative to another frame:

- `FramePosition`: the position of a frame
- `FrameOrientation`: its quaternion
- `FrameAxis`: one of its axes
- `FrameLinearVelocity`: its linear velocity
- `FrameAngularVelocity`: its angular velocity
- `FrameLinearAcceleration`: its acceleration, with gravity
- `FrameAngularAcceleration`: its angular acceleration

Surroundings:

- `RangeFinder`: the distance to the nearest shape
- `Touch`: the contact force on a zone

Subtrees, a body and all that it carries:

- `SubtreeCenterOfMass`: the center of mass
- `SubtreeLinearVelocity`: the velocity of the center of mass
- `SubtreeAngularMomentum`: the angular momentum about the center of mass

Complete model:

- `KineticEnergy`: the kinetic energy of all bodies
- `PotentialEnergy`: the potential energy in gravity and in springs
- `Clock`: the time

Common classes:

- `Noise`: the errors of a sensor
- `Readings`: sensor readings, by name and as one vector
- `Sensor`: base class of all sensors
- `JointSensor`: base class of sensors at joints
- `PlacedSensor`: base class of sensors at frames
- `Sensing`: the quantities that sensors read from
"""

__all__ = [
    "OnBody",
    "OnShape",
    "JointPosition",
    "JointVelocity",
    "JointForce",
    "JointOrientation",
    "JointAngularVelocity",
    "JointLimitPosition",
    "JointLimitVelocity",
    "ActuatorPosition",
    "ActuatorVelocity",
    "ActuatorForce",
    "TendonPosition",
    "TendonVelocity",
    "TendonForce",
    "Gyro",
    "Accelerometer",
    "Velocimeter",
    "Magnetometer",
    "ForceSensor",
    "TorqueSensor",
    "FramePosition",
    "FrameOrientation",
    "FrameAxis",
    "FrameLinearVelocity",
    "FrameAngularVelocity",
    "FrameLinearAcceleration",
    "FrameAngularAcceleration",
    "RangeFinder",
    "Touch",
    "SubtreeCenterOfMass",
    "SubtreeLinearVelocity",
    "SubtreeAngularMomentum",
    "KineticEnergy",
    "PotentialEnergy",
    "Clock",
    "Noise",
    "Readings",
    "Sensor",
    "JointSensor",
    "PlacedSensor",
    "Sensing",
]

from .driven import (
    ActuatorForce as ActuatorForce,
    ActuatorPosition as ActuatorPosition,
    ActuatorVelocity as ActuatorVelocity,
    TendonForce as TendonForce,
    TendonPosition as TendonPosition,
    TendonVelocity as TendonVelocity,
)
from .frame import (
    FrameAngularAcceleration as FrameAngularAcceleration,
    FrameAngularVelocity as FrameAngularVelocity,
    FrameAxis as FrameAxis,
    FrameLinearAcceleration as FrameLinearAcceleration,
    FrameLinearVelocity as FrameLinearVelocity,
    FrameOrientation as FrameOrientation,
    FramePosition as FramePosition,
)
from .inertial import (
    Accelerometer as Accelerometer,
    ForceSensor as ForceSensor,
    Gyro as Gyro,
    Magnetometer as Magnetometer,
    TorqueSensor as TorqueSensor,
    Velocimeter as Velocimeter,
)
from .joint import (
    JointAngularVelocity as JointAngularVelocity,
    JointForce as JointForce,
    JointLimitPosition as JointLimitPosition,
    JointLimitVelocity as JointLimitVelocity,
    JointOrientation as JointOrientation,
    JointPosition as JointPosition,
    JointVelocity as JointVelocity,
)
from .places import OnBody as OnBody, OnShape as OnShape, PlacedSensor as PlacedSensor
from .range_finder import RangeFinder as RangeFinder
from .readings import Readings as Readings
from .sensing import Sensing as Sensing
from .sensor import JointSensor as JointSensor, Noise as Noise, Sensor as Sensor
from .subtree import (
    SubtreeAngularMomentum as SubtreeAngularMomentum,
    SubtreeCenterOfMass as SubtreeCenterOfMass,
    SubtreeLinearVelocity as SubtreeLinearVelocity,
)
from .touch import Touch as Touch
from .whole import Clock as Clock, KineticEnergy as KineticEnergy, PotentialEnergy as PotentialEnergy
