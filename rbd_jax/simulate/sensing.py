"""Sensor readings, accelerations and contact forces of a model in a state and along a trajectory."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import a_model, instance, number, wrenches
from .._core.array import pick, with_precision
from .._core.jit import compiled
from ..contact.contacts import Contacts
from ..dynamics import ExternalForces
from ..model import Model
from ..sensors import Readings
from ..sensors.errors import delayed, drawn
from ..sensors.sensing import Sensing, measured, sensors_of, values
from .begin import checked_forces, in_one_precision
from .control import Control, Controls
from .controls import control_of
from .loads import TreeLoads
from .state import State
from .trajectory import Trajectory
from .tree_system import Acting, TreeSystem


def sense(
    model: Model,
    state: State,
    tau: Controls | Float[Array, "nv"] | None = None,
    *,
    time: float | Float[Array, ""] = 0.0,
    forces: Sequence[Acting] = (),
    f_ext: ExternalForces = None,
    dt: float | Float[Array, ""] | None = None,
    key=None,
) -> Readings:
    """Returns the readings of the sensors of a model in a state: `model.sensors`, in their order.

    Accelerometers, force and torque sensors depend on all forces: `tau`, gravity, the joints' `passive_force`, the forces,
    tendons and actuators that the model carries, its constraints, `forces` and `f_ext`. The acceleration is computed only if
    a sensor needs it.

    Args:
      model: The model.
      state: The state.
      tau: The control: a generalized force, or `rbd.Controls(u)` of the model's actuators; by default zero.
      time: The time of the state, for time-dependent models and forces.
      forces: As for `rollout`.
      f_ext: Wrenches `[n; f]` on bodies, in world axes about the world origin.
      dt: A step over which passive joint forces are taken implicitly, as in the default scheme; readings then include that dry
        friction holds a joint. By default passive forces take their values at this time, where friction at rest is zero.
      key: A key of JAX's random numbers. With a key, sensors have errors according to their `noise`; without, they are
        exact. Delays apply only along trajectories, see `sense_along`.

    Returns:
      A `Readings`: `readings["imu"]` is the reading of the sensor with that name, `readings.vector` all readings in a row.

    >>> tip = rbd.Site("tip", "lower", (0, 0, -1))
    >>> gyro, accelerometer = rbd.sensors.Gyro("gyro", "tip"), rbd.sensors.Accelerometer("accelerometer", "tip")
    >>> model = rbd.attach(rbd.load("double_pendulum"), tip, gyro, accelerometer)
    >>> rbd.sense(model, rbd.State(q=jnp.array([0.5, 1.0]), v=jnp.array([1.0, 2.0])))
    Readings:
      gyro [0 3 0]
      accelerometer [-0.01185 0 8.313]
    """
    return _sensed(*_given("sense", model, state, tau, time, forces, f_ext, dt), key)


def sense_along(
    model: Model,
    trajectory: Trajectory,
    *,
    forces: Sequence[Acting] = (),
    dt: float | Float[Array, ""] | None = None,
    key=None,
) -> Readings:
    """Returns the sensor readings at the start of every saved step of a trajectory, under its control, for one sample.

    The first axis of the readings is time, `trajectory.t[:-1]`. Readings include delays, and with a key also noise and drift.

    Args:
      model: The model.
      trajectory: The trajectory of one sample.
      forces: The `forces` of the rollout.
      dt: As for `sense`.
      key: As for `sense`.

    >>> model = rbd.attach(rbd.load("double_pendulum"), rbd.sensors.JointPosition("elbow angle", "elbow", noise=0.01))
    >>> path = rbd.rollout(model, rbd.State(q=jnp.array([0.5, 1.0]), v=jnp.zeros(2)), dt=0.01, steps=100)
    >>> rbd.sense_along(model, path, key=jax.random.key(0))["elbow angle"].shape
    (100,)
    """
    instance("sense_along", "trajectory", trajectory, Trajectory, "a Trajectory, as rbd.rollout returns")
    if trajectory.q.ndim != 2:
        raise ValueError(
            f"sense_along: trajectory is a batch, of shape {trajectory.q.shape[:-2]}; it takes one sample, so batch with jax.vmap"
        )
    first = State(pick(trajectory.q, 0), pick(trajectory.v, 0))
    model, _, _, forces = _checked("sense_along", model, first, 0.0, forces)
    dt = _step("sense_along", model, dt)
    return _sensed_along(model, with_precision(trajectory, model.dtype), forces, dt, key)


def acceleration(
    model: Model,
    state: State,
    tau: Controls | Float[Array, "nv"] | None = None,
    *,
    time: float | Float[Array, ""] = 0.0,
    forces: Sequence[Acting] = (),
    f_ext: ExternalForces = None,
    dt: float | Float[Array, ""] | None = None,
) -> Float[Array, "nv"]:
    """Returns the acceleration of a model in a state under all forces, MuJoCo's `qacc`.

    The forces are `tau`, gravity, the joints' `passive_force`, the forces, tendons and actuators that the model carries, its
    constraints, its contact model, `forces` and `f_ext`. The arguments are those of `sense`.

    >>> robot = rbd.load("quadruped")
    >>> print(rbd.acceleration(robot, rbd.State(robot.reference, jnp.zeros(robot.nv)))[5])  # it falls
    -9.81
    """
    return _acting(*_given("acceleration", model, state, tau, time, forces, f_ext, dt), what="acceleration")


def contact_forces(
    model: Model,
    state: State,
    tau: Controls | Float[Array, "nv"] | None = None,
    *,
    time: float | Float[Array, ""] = 0.0,
    forces: Sequence[Acting] = (),
    f_ext: ExternalForces = None,
    dt: float | Float[Array, ""] | None = None,
) -> Contacts:
    """Returns the contacts of a model in a state, with the forces of its contact model under all forces: `Contacts.force`.

    The arguments are those of `sense`.

    >>> robot = rbd.attach(rbd.load("quadruped"), rbd.contact.Soft())
    >>> found = rbd.contact_forces(robot, rbd.State(robot.reference.at[2].add(-0.001), jnp.zeros(robot.nv)))
    >>> print(found.force[found.active][:, 0])  # of the feet, 1 mm deep in the floor, along the normal
    [11.122 11.122 10.446 10.446]
    """
    return _acting(*_given("contact_forces", model, state, tau, time, forces, f_ext, dt), what="contacts")


def _step(owner: str, model: Model, dt):
    return None if dt is None else number(owner, "dt", dt, dtype=model.dtype, above=0)


def _checked(owner: str, model: Model, state: State, time, forces: Sequence[Acting]):
    """Checks the arguments, and converts them to the finest precision among them."""
    a_model(owner, model)
    instance(owner, "model", model, Model, "a Model; a reduced one has its `model`")
    model, state = in_one_precision(owner, model, state)
    dtype = state.q.dtype
    forces = checked_forces(owner, forces)
    own = TreeSystem(model=model, tau=jnp.zeros(model.nv, dtype), forces=forces).own
    own = own if state.own is None else number(owner, "own", state.own, own.shape)
    state = State(state.q, state.v, own.astype(dtype))
    return model, state, number(owner, "time", time, dtype=dtype), forces


def _given(owner: str, model, state, tau, time, forces, f_ext, dt):
    """Checks the arguments of `sense`."""
    model, state, time, forces = _checked(owner, model, state, time, forces)
    control = control_of(owner, model, tau, state.q.dtype)
    f_ext = wrenches(owner, model, "f_ext", f_ext)
    return model, state, time, forces, control, f_ext, _step(owner, model, dt)


@compiled
def _acting(model: Model, state: State, time, forces, control: Control, f_ext, dt, *, what: str):
    loads = _loads(model, state, time, forces, control, f_ext, dt)
    return getattr(loads, what)


@compiled
def _sensed(model: Model, state: State, time, forces, control, f_ext, dt, key) -> Readings:
    read = _values(model, state, time, forces, control, f_ext, dt)
    errors = None if key is None else drawn(sensors_of(model), key, time, read.dtype)
    return Readings.of(sensors_of(model), measured(sensors_of(model), read, errors))


@compiled
def _sensed_along(model: Model, path: Trajectory, forces, dt, key) -> Readings:
    times, own = path.t[:-1], None if path.own is None else path.own[:-1]

    def at(time, q, v, own, tau, u):
        control = Control(jnp.zeros(model.nu, tau.dtype) if u is None else u, tau)
        return _values(model, State(q, v, own), time, forces, control, None, dt)

    known = jax.vmap(at)(times, path.q[:-1], path.v[:-1], own, path.tau, path.u)
    read = delayed(sensors_of(model), times, known)
    errors = None if key is None else drawn(sensors_of(model), key, times, read.dtype)
    return Readings.of(sensors_of(model), measured(sensors_of(model), read, errors))


def _values(model: Model, state: State, time, forces, control: Control, f_ext, dt) -> Float[Array, "n"]:
    """Returns the readings of all sensors, without errors."""
    loads = _loads(model, state, time, forces, control, f_ext, dt)
    return values(Sensing(loads.motion, sensors_of(model), lambda: loads), sensors_of(model))


def _loads(model: Model, state: State, time, forces, control: Control, f_ext, dt) -> TreeLoads:
    f_ext = with_precision(f_ext, state.q.dtype)
    system = TreeSystem(model=model, tau=control.tau, forces=forces, u=control.u)
    return TreeLoads(system, time, state, f_ext, dt)
