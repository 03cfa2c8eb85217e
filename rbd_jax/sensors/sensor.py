"""What every sensor has: a name, a reading of so many numbers, and errors on request."""

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
    """The errors of a sensor, of each of its numbers by itself; they are drawn only where a key is given.

    - `deviation`: the standard deviation of what is drawn anew for every reading.
    - `bias`: that of a constant error, drawn once for a key.
    - `drift`: that of a random walk after 1 s. It grows along a trajectory, and is nothing in a single state.

    Axes and quaternions stay of length one; there the numbers are angles in rad.

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
    """Something that is measured, under a name.

    - `noise`: its errors: a `Noise`, or the standard deviation of each reading.
    - `delay`: how much later than it happens a motion is seen, in s; along trajectories alone (`rbd.sense_along`).
    - `cutoff`: what is beyond `±cutoff` is read as that.

    A family of your own says how many numbers a reading has, `size`, and implements `read`. If it is made like the one that it
    inherits from, it says that too, `__init__ = Sensor.__init__`: type checkers would otherwise take its fields for arguments.

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

    #: How many numbers a reading has.
    size: ClassVar[int] = 1

    #: Whether a reading is a vector of length one: an axis or a quaternion, which is read in full.
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
        """What sensors of this family read, without errors: a row for each of them."""


class JointSensor(Sensor):
    """A sensor in a joint. It goes where the joint is locked.

    - `joint`: by name.

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

    - `body`: by name, or "world".
    """

    body: str = eqx.field(static=True)

    def __init__(self, name: str, body: str, **options: Any):
        super().__init__(name, **options)
        (self.body,) = names(f"{type(self).__name__} {name!r}", "body", body, 1)
