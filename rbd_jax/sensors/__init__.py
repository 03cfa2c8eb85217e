"""What is measured of a model in motion: joints, inertial units, frames, forces, subtrees, energies.

A sensor is attached to a model (`rbd.attach`) and read by `rbd.sense`. Its place is the name of a site, or another frame.

Places:

- `OnBody`: a frame on a body
- `OnShape`: the frame of a shape

In joints:

- `JointPosition`: the coordinate of a joint
- `JointVelocity`: its rate
- `JointForce`: what drives it
- `JointOrientation`: the quaternion of a ball joint
- `JointAngularVelocity`: its angular velocity
- `JointLimitPosition`: how far a joint is from its limit
- `JointLimitVelocity`: the rate of that

Of an actuator or a tendon:

- `ActuatorPosition`: the length of an actuator
- `ActuatorVelocity`: the rate of that
- `ActuatorForce`: what it exerts
- `TendonPosition`: the length of a tendon
- `TendonVelocity`: the rate of that
- `TendonForce`: what all its actuators exert

At a site:

- `Gyro`: the angular velocity
- `Accelerometer`: the acceleration, with gravity
- `Velocimeter`: the linear velocity
- `Magnetometer`: the magnetic field
- `ForceSensor`: the force that a body gets from its parent
- `TorqueSensor`: the torque

Of a frame, in the world or as seen from another frame:

- `FramePosition`: where it is
- `FrameOrientation`: its quaternion
- `FrameAxis`: one of its axes
- `FrameLinearVelocity`: how fast it moves
- `FrameAngularVelocity`: how fast it turns
- `FrameLinearAcceleration`: its acceleration, with gravity
- `FrameAngularAcceleration`: its angular acceleration

Of what is around:

- `RangeFinder`: how far it is to the next shape
- `Touch`: how hard others press

Of a body and all that it carries:

- `SubtreeCenterOfMass`: the centre of mass
- `SubtreeLinearVelocity`: its velocity
- `SubtreeAngularMomentum`: the angular momentum about it

Of the whole model:

- `KineticEnergy`: of all bodies
- `PotentialEnergy`: in gravity and in springs
- `Clock`: the time

What they have in common:

- `Noise`: the errors of a sensor
- `Readings`: what sensors read, by name and as one vector
- `Sensor`: what every sensor inherits from
- `JointSensor`: what sensors in joints do
- `PlacedSensor`: what sensors in frames do
- `Sensing`: what sensors read from
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
