"""Actuators: what drives a model when it is told to by a control."""

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
    """Something that exerts a force along a length, `gain * input + bias`. The input is its control, or what follows it in time.

    A model carries it (`rbd.attach`), and acts under its control from then on, which is zero where nothing is said. Controls are
    in the order of `model.actuators`.

    **Arguments**

    - `name`: by which keyframes, sensors and people call it.
    - `on`: what it acts on: the name of a joint, or an `OnJoint`, `OnTendon`, `OnSite`, `SliderCrank`.
    - `gear`: how much longer it gets by that, and how much force there is by a unit of its own: one number, or as many as
      the degrees of freedom of what it is on.
    - `gain`, `bias`: numbers, or laws of its length and its rate.
    - `dynamics`: how its input follows the control; it then has an activation, a state of its own, which starts at `activation`.
    - `control_range`, `force_range`, `activation_range`: pairs of what each is cut off at.
    - `delay`: how much later than it is told a control arrives, in s. `rbd.rollout` lets those of a table arrive later, and
      `rbd.identify` those of a log. Elsewhere nothing is known of what was told before: `rbd.sense` and the like take the control
      that has arrived at that moment; `rbd.step`, and controls of a policy, are refused.

    What all actuators together do to a joint with one degree of freedom is cut off at the model's `effort_limit`.

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
                f"{owner}: on is {on!r}; it is the name of a joint, or an OnJoint, OnTendon, OnSite or SliderCrank"
            )
        self.transmission = OnJoint(on) if isinstance(on, str) else on
        self.gear = checked_gear(owner, gear)
        if self.transmission.numbers not in (None, self.gear.size):
            raise ModelError(
                f"{owner}: gear has {self.gear.size} numbers; on {type(self.transmission).__name__} it has "
                f"{self.transmission.numbers}"
            )
        self.gain = gain if isinstance(gain, Law) else Constant(number(owner, "gain", gain))
        self.bias = bias if bias is None or isinstance(bias, Law) else Constant(number(owner, "bias", bias))
        if dynamics is not None and not isinstance(dynamics, Activation):
            raise ModelError(
                f"{owner}: dynamics is {dynamics!r}; it is an Integrator, a Filter or a MuscleActivation"
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
        """Whether its force depends on its length or its rate."""
        return any(law is not None and not isinstance(law, Constant) for law in (self.gain, self.bias))

    @property
    def servo(self) -> tuple[Float[Array, ""], Float[Array, ""]] | None:
        """Its gain and its stiffness, or None: it is a servo to a position where they are equal."""
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
    """A force as it is told: a motor, or a thruster at a site.

    >>> model = rbd.attach(rbd.load("pendulum"), rbd.actuators.Motor("motor", "swing", gear=50.0))
    >>> print(rbd.acceleration(model, rbd.State(jnp.zeros(1), jnp.zeros(1)), rbd.Controls(jnp.array([0.1]))))
    [4.995]
    """

    def __init__(self, name: str, on: str | Transmission, **options: Any):
        super().__init__(name, on, **options)


class Position(Actuator):
    """A servo to a position: `kp (u - length) - kv rate`.

    On a ball joint, or on a site whose orientation another one sees, positions are angles, and it takes the shorter way round.

    - `time_constant`: with one, the position that it goes to follows the control so.

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
    """A servo to a velocity: `kv (u - rate)`.

    >>> servo = rbd.actuators.Velocity("servo", "swing", kv=50.0)
    >>> model, start = rbd.attach(rbd.load("pendulum"), servo), rbd.State(jnp.zeros(1), jnp.zeros(1))
    >>> print(rbd.rollout(model, start, rbd.Controls(jnp.full((50, 1), 0.5)), dt=0.01).v[-1])
    [0.458]
    """

    def __init__(self, name: str, on: str | Transmission, kv: Any = 1.0, **options: Any):
        kv = number(f"Velocity {name!r}", "kv", kv, least=0)
        super().__init__(name, on, gain=kv, bias=Affine(0.0, 0.0, -kv), **options)


class IntegratedVelocity(Actuator):
    """A servo to a position that moves with the velocity `u`: `kp (a - length) - kv rate`, `ȧ = u`.

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
    """A damper as strong as it is told: `-kv u rate`, u not below zero.

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
            raise ModelError(f"{owner}: control_range is {control_range!r}; it begins at zero or above")
        super().__init__(name, on, gain=Affine(0.0, 0.0, -kv), control_range=control_range, **options)


class Cylinder(Actuator):
    """A pneumatic or hydraulic cylinder: `area * pressure + bias`, the pressure following the control.

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
    """A muscle, whose force follows from its activation, its length and its rate. It pulls: along a tendon, as a rule.

    - `curves`: what the force is: `MuscleCurves(peak_force, length_range)`.
    - `rising`, `falling`, `smoothing`: how the activation follows the control, see `MuscleActivation`.

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
            raise ModelError(f"Muscle {name!r}: curves is {curves!r}; it is a rbd.actuators.MuscleCurves")
        gain, bias = MuscleGain(curves), MuscleBias(curves)
        dynamics = MuscleActivation(rising, falling, smoothing)
        super().__init__(
            name, on, gain=gain, bias=bias, dynamics=dynamics, **{"control_range": (0.0, 1.0), **options}
        )


def _range(owner: str, name: str, given) -> Float[Array, "2"] | None:
    if given is None:
        return None
    pair = number(owner, name, given, (2,))
    # In NumPy: what takes an entry of an array of JAX would be compiled.
    if is_known(given) and not np.less(*np.asarray(given, pair.dtype)):
        raise ModelError(f"{owner}: {name} is {pair.tolist()}; it rises from the first number to the second")
    return pair
