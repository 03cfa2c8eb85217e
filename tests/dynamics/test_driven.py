"""Driven joints, against the same mechanism with ordinary joints in their place."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import (
    BY_DIFFERENCES,
    SPIN,
    SWING,
    TIME,
    TWIST,
    apply,
    assert_close,
    case_of,
    compiled,
    driven,
    outline,
)

import rbd_jax as rbd


pytestmark = pytest.mark.slow  # two large models

#: Indices of the degrees of freedom of `driven` in v of `driven(free=True)`: arm, ball, slide, and the screw without
#: its twist.
OWN = np.array([0, 3, 4, 5, 9, 10, 12])
#: Indices of the degrees of freedom that `driven` prescribes: swing, spin, twist.
LED = np.array([1, 2, 6, 7, 8, 11])


def led(time):
    """Returns the prescribed coordinates, their velocities and accelerations."""
    swing, twist = (along(motion, time) for motion in (SWING, TWIST))
    turn = rbd.lie.quaternion.exp(time * SPIN)
    velocity, acceleration = (jnp.concatenate([swing[i], x, twist[i]]) for i, x in ((1, SPIN), (2, 0 * SPIN)))
    return (swing[0], turn, twist[0]), velocity, acceleration


def along(motion, time):
    rate = lambda f: lambda t: jax.jvp(f, (t,), (jnp.ones(()),))[1]
    return motion(time), rate(motion)(time), rate(rate(motion))(time)


@cache
def twin():
    """Returns `driven` and results of its ordinary twin in the same states, with the twin's velocities and forces."""
    case, free = case_of("driven"), driven(free=True)
    (swing, turn, twist), velocity, acceleration = led(jnp.asarray(TIME))
    q, v, a, f_ext = case.states.q, case.states.v, case.states.a, case.states.f_ext
    rows = lambda x: jnp.broadcast_to(x, (len(q), *x.shape))
    # arm, swing, ball, spin, slide, screw
    parts = [q[:, :1], rows(swing), q[:, 1:5], rows(turn), q[:, 5:7], rows(twist), q[:, 7:]]
    whole = lambda own, led: jnp.zeros((len(q), 13)).at[:, OWN].set(own).at[:, LED].set(rows(led))
    v, a = whole(v, velocity), whole(a, acceleration)
    seen = compiled(outline)(free, jnp.concatenate(parts, axis=1), v, a, f_ext)
    tau = apply(seen["mass matrix"], np.asarray(a)) + seen["bias, external"]
    return case, seen | {"tau": tau, "v": np.asarray(v), "a": np.asarray(a)}


def test_kinematics_are_those_of_the_twin():
    case, free = twin()
    for key in ("frames", "velocities, world"):
        assert_close(case.motion["now"][key], free[key])
    seen = case.seen
    assert_close(seen["accelerations, world"], free["accelerations, world"])
    assert_close(seen["jacobian rate, world"], free["jacobian rate, world"][..., OWN])


def test_forces_are_those_of_the_twin():
    case, free = twin()
    seen = case.seen
    assert_close(seen["tau"], free["tau"][:, OWN])
    for key in ("mass matrix", "coriolis"):
        assert_close(seen[key], free[key][:, OWN][:, :, OWN])
    for key in ("kinetic energy", "potential energy", "momentum"):
        assert_close(case.motion["now"][key], free[key])


def test_forward_dynamics_is_the_twins_with_the_led_accelerations_eliminated():
    """Hybrid dynamics: `M_11 a_1 = tau_1 - C_1 - M_12 a_2` (book eq. 9.2)."""
    case, free = twin()
    mass, bias = free["mass matrix"], free["bias, external"]
    right = case.seen["tau"] - bias[:, OWN] - apply(mass[:, OWN][:, :, LED], free["a"][:, LED])
    a = np.linalg.solve(mass[:, OWN][:, :, OWN], right[..., None])[..., 0]
    assert_close(case.seen["acceleration"], a)


def test_energy_changes_by_the_power_of_the_led_joints_too():
    """`d/dt (T + V) = vᵀ tau + Σ f · v`, with the forces of the driven joints from the twin."""
    case, free = twin()
    power = np.sum(free["v"] * free["tau"], axis=1)
    power += np.einsum("nbi,nbi->n", case.states.f_ext, case.motion["now"]["velocities, world"])
    rate = case.motion["rate"]
    assert_close(rate["kinetic energy"] + rate["potential energy"], power, BY_DIFFERENCES)


def frames_at(model, q, time):
    return rbd.forward_kinematics(rbd.at_time(model, time), q).matrix


def test_velocity_without_freedoms_is_the_difference_in_time():
    """The drift σ agrees with central differences of the frames in time."""
    case = case_of("driven")
    step = 1e-5
    sides = [
        compiled(frames_at)(case.model, case.states.q, jnp.full(len(case.states.q), TIME + side))
        for side in (step, -step)
    ]
    rates = (sides[0] - sides[1]) / (2 * step)
    angular, linear = np.split(case.still["velocities, world"], 2, axis=-1)
    velocity = linear + np.cross(angular, case.still["frames"][..., :3, 3])
    # The error is step²/6 times the third derivative, plus 1e-16/step of rounding.
    assert_close(velocity, rates[..., :3, 3], 1e-9)


def test_freedoms_alone_do_not_tell_where_it_goes(cases):
    """The bodies move even at zero v."""
    assert np.abs(cases("driven").still["velocities, world"]).max() > 0.1
