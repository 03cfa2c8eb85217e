"""Actuators: forces on a model that follow a control."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._core.arguments import names, number
from ..._core.array import is_known
from ..._core.errors import ModelError
from ...spatial import no_frames
from ...spatial.attached import Attached
from .activation import Activation, Filter, Integrator, MuscleActivation
from .laws import Affine, Constant, Law, MuscleBias, MuscleCurves, MuscleGain
from .transmission import OnJoint, Transmission, checked_gear


class Actuator(Attached):
    """A force along a length, `gain * input + bias`. The input is the control or an activation that follows it in time.

    Attach an actuator to a model with `rbd.attach`. It then acts under its control, by default zero. Controls are
    in the order of `model.actuators`.

    Args:
      name: The name, used by keyframes and sensors.
      on: The joint, by name, or an `OnJoint`, `OnTendon`, `OnSite`, `SliderCrank`.
      gear: The ratio of the actuator's length to the length (or coordinate) that it acts on. The force there is `gear` times
        the actuator's force. One number, or one per degree of freedom.
      gain: A number, or a `Law` of the actuator's length and rate.
      bias: A number, or a `Law` of the actuator's length and rate.
      dynamics: The dynamics from control to input. The actuator then has an activation, an internal state.
      activation: The initial activation.
      control_range: Lower and upper bound at which the control is clipped.
      force_range: Lower and upper bound at which the force is clipped.
      activation_range: Lower and upper bound at which the activation is clipped.
      delay: The delay of the control, in s. `rbd.rollout` delays the controls of a table, and `rbd.identify` those of a log.
        Other functions have no earlier controls: `rbd.sense` and similar ones use the control that has arrived at that time,
        and `rbd.step` and controls of a policy raise an error.

    The total force of all actuators on a joint with one degree of freedom is clipped at the model's `effort_limit`.

    >>> motor = rbd.actuators.Actuator("motor", "swing", gain=10.0, control_range=(-1.0, 1.0))
    >>> model = rbd.attach(rbd.load("pendulum"), motor)
    >>> print(rbd.acceleration(model, rbd.State(jnp.zeros(1), jnp.zeros(1)), rbd.Controls(jnp.array([5.0]))))  # of 5 it takes 1
    [9.99]
    """

    name: str = eqx.field(static=True)
    transmission: Transmission
    gear: Float[Array, "k"]
    gain: Law
    bias: Law | None
    dynamics: Activation | None
    activation: Float[Array, ""] | None
    control_range: Float[Array, "2"] | None
    force_range: Float[Array, "2"] | None
    activation_range: Float[Array, "2"] | None
    delay: Float[Array, ""] | None

    role = "actuator"
    bodies = ()

    def __init__(
        self,
        name: str,
        on: str | Transmission,
        *,
        gear: Any = 1.0,
        gain: Any = 1.0,
        bias: Any = None,
        dynamics: Activation | None = None,
        activation: Any = None,
        control_range: Any = None,
        force_range: Any = None,
        activation_range: Any = None,
        delay: Any = None,
    ):
        (self.name,) = names(type(self).__name__, "name", name, 1)
        owner = f"{type(self).__name__} {name!r}"
        if not isinstance(on, str | Transmission):
            raise ModelError(
                f"{owner}: on is {on!r}; it must be the name of a joint, or an OnJoint, OnTendon, OnSite or SliderCrank"
            )
        self.transmission = OnJoint(on) if isinstance(on, str) else on
        self.gear = checked_gear(owner, gear)
        if self.transmission.numbers not in (None, self.gear.size):
            raise ModelError(
                f"{owner}: gear has {self.gear.size} numbers; on {type(self.transmission).__name__} it must have "
                f"{self.transmission.numbers}"
            )
        self.gain = gain if isinstance(gain, Law) else Constant(number(owner, "gain", gain))
        self.bias = bias if bias is None or isinstance(bias, Law) else Constant(number(owner, "bias", bias))
        if dynamics is not None and not isinstance(dynamics, Activation):
            raise ModelError(
                f"{owner}: dynamics is {dynamics!r}; it must be an Integrator, a Filter or a MuscleActivation"
            )
        for field, given in (("activation", activation), ("activation_range", activation_range)):
            if given is not None and dynamics is None:
                raise ModelError(
                    f"{owner}: it has {field}, but no dynamics, and so no activation; give it `dynamics`"
                )
        self.dynamics = dynamics
        self.activation = (
            None
            if dynamics is None
            else number(owner, "activation", 0.0 if activation is None else activation)
        )
        self.control_range = _range(owner, "control_range", control_range)
        self.force_range = _range(owner, "force_range", force_range)
        self.activation_range = _range(owner, "activation_range", activation_range)
        self.delay = None if delay is None else number(owner, "delay", delay, least=0)

    @property
    def frames(self):
        return no_frames()

    @property
    def joints(self):
        return self.transmission.joints

    @property
    def refers(self):
        return self.transmission.refers

    @property
    def resists(self) -> bool:
        """True if the force depends on the length or the rate."""
        return any(law is not None and not isinstance(law, Constant) for law in (self.gain, self.bias))

    @property
    def servo(self) -> tuple[Float[Array, ""], Float[Array, ""]] | None:
        """The gain and the stiffness, or None; the actuator is a position servo if they are equal."""
        if not isinstance(self.gain, Constant) or not isinstance(self.bias, Affine):
            return None
        return self.gain.value, -self.bias.coefficients[1]

    def joint_fault(self, joint, nq, nv):
        size = self.gear.size
        if size == nv:
            return None
        return f"joint {joint!r} has {nv} degrees of freedom, and gear {size} number{'s' if size > 1 else ''}; it takes {nv}"

    def attached(self, bodies, frames, joints):
        return self.changed(transmission=self.transmission.renamed(joints, self.refers))

    def called(self, name, refers):
        return self.changed(name=name, transmission=self.transmission.renamed(self.joints, refers))

    def locked(self, joints: Sequence[str]):
        return None


class Motor(Actuator):
    """A force equal to the control: a motor, or a thruster at a site.

    >>> model = rbd.attach(rbd.load("pendulum"), rbd.actuators.Motor("motor", "swing", gear=50.0))
    >>> print(rbd.acceleration(model, rbd.State(jnp.zeros(1), jnp.zeros(1)), rbd.Controls(jnp.array([0.1]))))
    [4.995]
    """

    def __init__(self, name: str, on: str | Transmission, **options: Any):
        super().__init__(name, on, **options)


class Position(Actuator):
    """A position servo: `kp (u - length) - kv rate`.

    On a ball joint, or on a site relative to a reference site, positions are angles, and the servo takes the shorter direction.

    - `time_constant`: if given, the target position follows the control with this time constant.

    >>> servo = rbd.actuators.Position("servo", "swing", kp=100.0, kv=20.0)
    >>> model, start = rbd.attach(rbd.load("pendulum"), servo), rbd.State(jnp.zeros(1), jnp.zeros(1))
    >>> print(rbd.rollout(model, start, rbd.Controls(jnp.full((200, 1), 0.5)), dt=0.01).q[-1])  # it gives way to gravity a little
    [0.457]
    """

    def __init__(
        self,
        name: str,
        on: str | Transmission,
        kp: Any = 1.0,
        kv: Any = 0.0,
        *,
        time_constant: Any = None,
        **options: Any,
    ):
        owner = f"Position {name!r}"
        kp, kv = number(owner, "kp", kp, least=0), number(owner, "kv", kv, least=0)
        dynamics = None if time_constant is None else Filter(time_constant)
        super().__init__(name, on, gain=kp, bias=Affine(0.0, -kp, -kv), dynamics=dynamics, **options)


class Velocity(Actuator):
    """A velocity servo: `kv (u - rate)`.

    >>> servo = rbd.actuators.Velocity("servo", "swing", kv=50.0)
    >>> model, start = rbd.attach(rbd.load("pendulum"), servo), rbd.State(jnp.zeros(1), jnp.zeros(1))
    >>> print(rbd.rollout(model, start, rbd.Controls(jnp.full((50, 1), 0.5)), dt=0.01).v[-1])
    [0.458]
    """

    def __init__(self, name: str, on: str | Transmission, kv: Any = 1.0, **options: Any):
        kv = number(f"Velocity {name!r}", "kv", kv, least=0)
        super().__init__(name, on, gain=kv, bias=Affine(0.0, 0.0, -kv), **options)


class IntegratedVelocity(Actuator):
    """A position servo whose target moves with the velocity `u`: `kp (a - length) - kv rate`, `ȧ = u`.

    >>> servo = rbd.actuators.IntegratedVelocity("servo", "swing", kp=100.0, kv=20.0)
    >>> model, start = rbd.attach(rbd.load("pendulum"), servo), rbd.State(jnp.zeros(1), jnp.zeros(1))
    >>> print(rbd.rollout(model, start, rbd.Controls(jnp.full((100, 1), 0.5)), dt=0.01).own[-1])  # 0.5 rad/s for 1 s
    [0.5]
    """

    def __init__(self, name: str, on: str | Transmission, kp: Any = 1.0, kv: Any = 0.0, **options: Any):
        owner = f"IntegratedVelocity {name!r}"
        kp, kv = number(owner, "kp", kp, least=0), number(owner, "kv", kv, least=0)
        super().__init__(name, on, gain=kp, bias=Affine(0.0, -kp, -kv), dynamics=Integrator(), **options)


class Damper(Actuator):
    """A damper with a commanded coefficient: `-kv u rate`, with u at least zero.

    >>> brake = rbd.actuators.Damper("brake", "swing", kv=2.0)
    >>> model = rbd.attach(rbd.load("pendulum"), brake)
    >>> print(rbd.acceleration(model, rbd.State(jnp.zeros(1), jnp.array([3.0])), rbd.Controls(jnp.array([0.5]))))
    [-2.997]
    """

    def __init__(
        self,
        name: str,
        on: str | Transmission,
        kv: Any = 1.0,
        control_range: Any = (0.0, 1.0),
        **options: Any,
    ):
        owner = f"Damper {name!r}"
        kv = number(owner, "kv", kv, least=0)
        lowest = _range(owner, "control_range", control_range)
        if lowest is None or (is_known(lowest) and lowest[0] < 0):
            raise ModelError(f"{owner}: control_range is {control_range!r}; it must begin at zero or above")
        super().__init__(name, on, gain=Affine(0.0, 0.0, -kv), control_range=control_range, **options)


class Cylinder(Actuator):
    """A pneumatic or hydraulic cylinder: `area * pressure + bias`, where the pressure follows the control.

    - `bias`: a number, or three: `b[0] + b[1] length + b[2] rate`.

    >>> ram = rbd.actuators.Cylinder("ram", "slide", area=10.0, time_constant=0.1)
    >>> model = rbd.attach(rbd.load("cartpole"), ram)
    >>> controls = rbd.Controls(jnp.ones((20, model.nu)))
    >>> print(rbd.rollout(model, rbd.State(jnp.zeros(2), jnp.zeros(2)), controls, dt=0.01).own[::10])  # the pressure
    [[0.   ]
     [0.632]
     [0.865]]
    """

    def __init__(
        self,
        name: str,
        on: str | Transmission,
        area: Any = 1.0,
        time_constant: Any = 1.0,
        bias: Any = None,
        **options: Any,
    ):
        area = number(f"Cylinder {name!r}", "area", area, least=0)
        if bias is not None and not isinstance(bias, Law):
            bias = Affine(*jnp.atleast_1d(jnp.asarray(bias)))
        super().__init__(name, on, gain=area, bias=bias, dynamics=Filter(time_constant), **options)


class Muscle(Actuator):
    """A muscle, whose force depends on its activation, length and rate. It pulls, usually along a tendon.

    - `curves`: the parameters of the force: `MuscleCurves(peak_force, length_range)`.
    - `rising`, `falling`, `smoothing`: the activation dynamics, see `MuscleActivation`.

    >>> curves = rbd.actuators.MuscleCurves(peak_force=100.0, length_range=(0.0, 1.0))
    >>> model = rbd.attach(rbd.load("pendulum"), rbd.actuators.Muscle("muscle", "swing", curves))
    >>> path = rbd.rollout(model, rbd.State(jnp.zeros(1), jnp.zeros(1)), rbd.Controls(jnp.ones((30, 1))), dt=0.001)
    >>> print(path.own[::15, 0])  # its activation
    [0.    0.723 0.884]
    """

    def __init__(
        self,
        name: str,
        on: str | Transmission,
        curves: MuscleCurves,
        *,
        rising: Any = 0.01,
        falling: Any = 0.04,
        smoothing: Any = 0.0,
        **options: Any,
    ):
        if not isinstance(curves, MuscleCurves):
            raise ModelError(
                f"Muscle {name!r}: curves is {curves!r}; it must be a rbd.actuators.MuscleCurves"
            )
        gain, bias = MuscleGain(curves), MuscleBias(curves)
        dynamics = MuscleActivation(rising, falling, smoothing)
        super().__init__(
            name, on, gain=gain, bias=bias, dynamics=dynamics, **{"control_range": (0.0, 1.0), **options}
        )


def _range(owner: str, name: str, given) -> Float[Array, "2"] | None:
    if given is None:
        return None
    pair = number(owner, name, given, (2,))
    # In NumPy, because JAX would compile the access to an entry.
    if is_known(given) and not np.less(*np.asarray(given, pair.dtype)):
        raise ModelError(
            f"{owner}: {name} is {pair.tolist()}; it must rise from the first number to the second"
        )
    return pair
