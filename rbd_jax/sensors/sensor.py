"""Base classes of sensors: a name, a reading of fixed size, and optional errors."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
from jaxtyping import Array, Float

from .._core.arguments import names, number
from ..spatial import no_frames
from ..spatial.attached import Attached


if TYPE_CHECKING:
    from .sensing import Sensing


class Noise(eqx.Module):
    """The errors of a sensor, independent for each of its numbers; they are drawn only if a key is given.

    - `deviation`: The standard deviation of an error drawn for every reading.
    - `bias`: The standard deviation of a constant error, drawn once per key.
    - `drift`: The standard deviation of a random walk after 1 s. It grows along a trajectory, and is zero in a single state.

    Axes and quaternions keep unit length; for them the numbers are angles in rad.

    >>> encoder = rbd.sensors.JointPosition("angle", "swing", noise=rbd.sensors.Noise(deviation=0.01, bias=0.1))
    >>> model = rbd.attach(rbd.load("pendulum"), encoder)
    >>> state = rbd.State(jnp.zeros(1), jnp.zeros(1))
    >>> print(rbd.sense(model, state)["angle"], rbd.sense(model, state, key=jax.random.key(0))["angle"] != 0)
    0.0 True
    """

    deviation: Float[Array, ""]
    bias: Float[Array, ""]
    drift: Float[Array, ""]

    def __init__(self, deviation: Any = 0.0, bias: Any = 0.0, drift: Any = 0.0):
        self.deviation = number("Noise", "deviation", deviation, least=0)
        self.bias = number("Noise", "bias", bias, least=0)
        self.drift = number("Noise", "drift", drift, least=0)


class Sensor(Attached):
    """A named measurement.

    - `noise`: The errors: a `Noise`, or the standard deviation of each reading.
    - `delay`: The delay of the readings, in s; it applies only along trajectories (`rbd.sense_along`).
    - `cutoff`: Readings are clipped to `±cutoff`.

    A custom sensor type sets `size`, the number of entries of a reading, and implements `read`. If it has the same constructor
    as its base class, write `__init__ = Sensor.__init__`: type checkers would otherwise treat its fields as arguments.

    >>> class Power(rbd.sensors.Sensor):
    ...     __init__ = rbd.sensors.Sensor.__init__
    ...     @classmethod
    ...     def read(cls, sensors, sensing):
    ...         motion = sensing.motion
    ...         return -jnp.dot(rbd.gravity_force(motion.model, motion.q), motion.v) * jnp.ones((len(sensors), 1))
    >>> model = rbd.attach(rbd.load("pendulum"), Power("power"))
    >>> print(rbd.sense(model, rbd.State(jnp.array([jnp.pi / 2]), jnp.array([-2.0])))["power"])  # falling
    19.62
    """

    name: str = eqx.field(static=True)
    noise: Noise | None
    delay: Float[Array, ""] | None
    cutoff: Float[Array, ""] | None

    role = "sensor"
    scalar_joints = False

    if TYPE_CHECKING:
        joints: tuple[str, ...]
    else:
        bodies = joints = ()

        @property
        def frames(self):
            return no_frames()

    #: The number of entries of a reading.
    size: ClassVar[int] = 1

    #: True if a reading is a unit vector: an axis or a quaternion.
    unit: ClassVar[bool] = False

    def __init__(self, name: str, *, noise: Any = None, delay: Any = None, cutoff: Any = None):
        family = type(self).__name__
        (self.name,) = names(family, "name", name, 1)
        owner = f"{family} {name!r}"
        if noise is not None and not isinstance(noise, Noise):
            noise = Noise(number(owner, "noise", noise, least=0))
        self.noise = noise
        self.delay = None if delay is None else number(owner, "delay", delay, least=0)
        self.cutoff = None if cutoff is None else number(owner, "cutoff", cutoff, above=0)

    @classmethod
    @abc.abstractmethod
    def read(cls, sensors: Sequence[Any], sensing: Sensing) -> Float[Array, "k size"]:
        """Returns the readings of sensors of this type without errors: one row per sensor."""


class JointSensor(Sensor):
    """A sensor at a joint. It is removed when the joint is locked.

    - `joint`: The name of the joint.

    >>> print(issubclass(rbd.sensors.JointPosition, rbd.sensors.JointSensor), rbd.sensors.JointPosition("angle", "elbow").joints)
    True ('elbow',)
    """

    joint: str = eqx.field(static=True)

    def __init__(self, name: str, joint: str, **options: Any):
        super().__init__(name, **options)
        (self.joint,) = names(f"{type(self).__name__} {name!r}", "joint", joint, 1)

    @property
    def joints(self):
        return (self.joint,)

    def attached(self, bodies, frames, joints):
        return self.changed(joint=joints[0])

    def locked(self, joints):
        return None


class BodySensor(Sensor):
    """A sensor of a body and all that it carries.

    - `body`: The name of the body, or "world".
    """

    body: str = eqx.field(static=True)

    def __init__(self, name: str, body: str, **options: Any):
        super().__init__(name, **options)
        (self.body,) = names(f"{type(self).__name__} {name!r}", "body", body, 1)
