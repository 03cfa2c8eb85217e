"""Comparison per sample: torques by the equations of motion, and sensor readings."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._core.arguments import number, whole_number
from ..dynamics import Motion, inverse_dynamics, passive_force
from ..forces.carried import carried_forces
from ..sensors import (
    Accelerometer,
    ForceSensor,
    FrameAngularAcceleration,
    FrameAxis,
    FrameLinearAcceleration,
    FrameOrientation,
    FramePosition,
    JointForce,
    JointLimitPosition,
    JointOrientation,
    JointPosition,
    RangeFinder,
    SubtreeCenterOfMass,
    TendonPosition,
    TorqueSensor,
)
from ..simulate.sensing import sense
from ..simulate.state import State
from .comparison import (
    Comparison,
    Windows,
    all_told,
    by_name,
    chosen_channels,
    control,
    measured,
    sensor_of,
    width_of,
    with_sensors,
)
from .equations import as_arrived, as_driven, refuse_dynamics
from .log import LogError, LogWarning
from .sanity import check_log
from .smoothing import with_rates


#: Sensors whose readings depend on the configuration only.
AT_REST = (
    FramePosition,
    FrameOrientation,
    FrameAxis,
    JointPosition,
    JointOrientation,
    JointLimitPosition,
    TendonPosition,
    RangeFinder,
    SubtreeCenterOfMass,
)

#: Sensors whose readings depend on the driving forces.
LOADED = (
    Accelerometer,
    FrameLinearAcceleration,
    FrameAngularAcceleration,
    ForceSensor,
    TorqueSensor,
    JointForce,
)


class States(NamedTuple):
    """Inputs of each sample; u is absent (None) if actuators have no controls."""

    q: Any
    v: Any
    a: Any
    u: Any
    tau: Any


class EquationError(Comparison):
    """Compares each sample separately: torques by the equations of motion, and sensor readings.

    Torques are compared if the log has `tau` or `u`, sensors if it has their readings. Velocities and accelerations that
    were not measured are derived from the smoothed positions.

    Args:
      compare: Channels to compare: "tau" and names of sensors. All available channels by default.
      cutoff: As in `least_squares`.
      slow: As in `least_squares`.
      rows: Number of samples per window.

    >>> model, t = rbd.load("pendulum"), np.arange(300) / 100
    >>> q, v, a = np.sin(t)[:, None], np.cos(t)[:, None], -np.sin(t)[:, None]
    >>> tau = jax.vmap(lambda *x: rbd.inverse_dynamics(model, *x) + 0.3 * x[1])(q, v, a)
    >>> log, compare = rbd.identify.Log(t, q, v, a, tau), rbd.identify.EquationError(compare=["tau"])
    >>> problem = rbd.identify.Problem(model, log, rbd.identify.damping(), compare)
    >>> print(rbd.identify.solve(problem).values)
    [0.3]
    """

    compare: tuple[str, ...] | None = eqx.field(static=True)
    cutoff: float | None = eqx.field(static=True)
    slow: float = eqx.field(static=True)
    rows: int = eqx.field(static=True)

    def __init__(self, compare: Sequence[str] | None = None, *, cutoff=None, slow=0.0, rows: int = 128):
        self.compare = None if compare is None else tuple(compare)
        self.cutoff = None if cutoff is None else float(cutoff)
        self.slow = float(number("EquationError", "slow", slow, least=0))
        self.rows = whole_number("EquationError", "rows", rows)
        self.nodes, self.drift = "measured", None

    def windows(self, model, logs):
        owner = "identify.EquationError"
        model = as_driven(model, all_told(owner, logs))
        for log in logs:
            refuse_dynamics(model, log)
        chosen = chosen_channels(owner, model, logs, self.compare, ("tau",))
        parts = [self._of_log(model, log, chosen, i) for i, log in enumerate(logs)]
        return jax.tree.map(lambda *rows: np.concatenate(rows), *parts)

    def _of_log(self, model, log, chosen, index):
        check_log(model, log)
        log = as_arrived(model, log)
        if log.q is None:
            raise LogError(f"Log {log.name!r} has no q. The comparison requires the configuration.")
        if "tau" in chosen and log.tau is None and log.u is None:
            raise LogError(f"Log {log.name!r} has neither tau nor u. The driving forces must be known.")
        loaded = [name for name in chosen if name != "tau" and isinstance(sensor_of(model, name), LOADED)]
        if loaded and log.tau is None and log.u is None:
            warnings.warn(
                f"Log {log.name!r} has neither tau nor u, but the readings of {', '.join(map(repr, loaded))} depend on the "
                "driving forces. The robot is assumed to move freely; if it does, give zeros in tau.",
                LogWarning,
                stacklevel=5,
            )
        nothing = np.zeros((len(log.t), model.nv))
        if "tau" not in chosen:  # sensors do not use the measured acceleration
            still = all(isinstance(sensor_of(model, name), AT_REST) for name in chosen)
            log = replace(log, a=nothing, v=nothing if still else log.v)
        known = with_rates(model, log, self.cutoff)
        q, v, a = (getattr(known, name).values for name in "qva")
        tau = nothing if known.tau is None else known.tau.values
        u = None if known.u is None else known.u.values
        whole = np.isfinite(np.concatenate([q, v, a] + [u] * (u is not None), axis=1)).all(axis=1)
        if not whole.any():
            raise LogError(f"Log {log.name!r}: no sample has all of q, v, a and u")
        rows = np.flatnonzero(whole)
        count = -(-len(rows) // self.rows)
        filler = np.arange(count * self.rows) >= len(rows)
        rows = np.concatenate([rows, np.full(int(filler.sum()), rows[-1])])
        cut = lambda x: x.reshape(count, self.rows, *x.shape[1:])

        def channel(name):
            if name == "tau":
                values = np.where(np.abs(v) >= self.slow, tau, np.nan)
            else:
                own = known.sensors.get(name)
                values = np.full((len(q), width_of(model, name)), np.nan) if own is None else own.values
                if name in loaded:  # the prediction requires known forces
                    values = np.where(np.isfinite(tau).all(axis=1, keepdims=True), values, np.nan)
            values = np.where(filler[:, None], np.nan, values[rows])
            return measured(model, name, cut(values), cut(log.t[rows] - log.t[rows[0]]), True)

        filled = lambda x: None if x is None else cut(np.nan_to_num(x[rows]).astype(model.dtype))
        given = States(*map(filled, (q, v, a, u, tau)))
        begins = np.full(count, log.t[rows[0]])
        return Windows(
            given, tuple(map(channel, chosen)), None, begins, np.full(count, index), np.zeros(count, bool)
        )

    def predicted(self, model, window, start):
        names = [one.channel for one in window.measured]
        sensors = [name for name in names if name != "tau"]
        bare = with_sensors(as_driven(model, window.given.u is not None), sensors)
        still = replace(bare, friction=jnp.zeros_like(bare.friction))

        def torque(one: States):
            needed = inverse_dynamics(bare, one.q, one.v, one.a)
            if self.slow:
                own = passive_force(still, one.q, one.v) - bare.friction * jnp.sign(one.v)
            else:
                own = passive_force(bare, one.q, one.v)
            motion = Motion(bare, one.q, one.v)
            acting = [force.generalized_force(motion) for force in carried_forces(bare, one.u)]
            return needed - own - sum(acting, jnp.zeros_like(needed))

        def readings(one: States):
            return sense(bare, State(one.q, one.v), control(bare, one.tau, one.u))

        found = {}
        if "tau" in names:
            found["tau"] = jax.vmap(torque)(window.given)
        if sensors:
            found |= by_name(jax.vmap(readings)(window.given))
        return tuple(found[name] for name in names), None
