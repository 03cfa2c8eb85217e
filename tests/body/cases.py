"""The body and the three cases of Gebhardt & Romero 2020, §6, and runs of them."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from rbd_jax import body


INERTIA = np.array([[3, -1 / 7, 0], [-1 / 7, 4, 0], [0, 0, 5]])
BODY = body.RotatingBody(jnp.asarray(INERTIA))

# Initial angular velocity, and the moment's components along the first two directors, eqs. (112)-(118).
CASES = {
    1: ([6, -18, 0], [0, 0]),
    2: ([0, 0, 0], [2472.5, 1075]),
    3: ([1.5, 4.5, 0], [1236.25, 537.5]),
}


def triangle(t):
    """The time history of the load, eq. (116)."""
    return jnp.maximum(0, 1 - jnp.abs(2 * t - 1))


def moment(components):
    """The load of eqs. (115) and (118) for given components."""

    def at(t, frame):
        return -triangle(t) * (frame[:, :2] @ components)

    return at


def simulate(velocity, components, dt, steps, constraints, scheme, inertia=BODY.inertia):
    """A run of one case."""
    frame = jnp.eye(3, dtype=inertia.dtype)
    subject = body.RotatingBody(inertia)
    return body.simulate(
        subject,
        frame,
        velocity,
        moment(components),
        dt=dt,
        steps=steps,
        constraints=constraints,
        scheme=scheme,
    )


# The lanes of the runs below: a case, the factor on its load, and the parameter of the constraint.
LANES = {
    "1": (1, 1, 0.5),
    "1, a = 0": (1, 1, 0.0),
    "1, a = 1": (1, 1, 1.0),
    "2": (2, 1, 0.5),
    "2, scaled": (2, 0.01, 0.5),
    "2, scaled, a = 1": (2, 0.01, 1.0),
    "3, scaled": (3, 0.01, 0.5),
}


@cache
def runs(scheme, dt, end=5.0):
    """All lanes to the time `end`: frames, momenta in the body's axes, energies, Hamiltonians and the account of the steps."""

    def one(velocity, components, a):
        constraints = body.NonTwisting(a)
        out = simulate(velocity, components, dt, round(end / dt), constraints, scheme())
        momentum = jax.vmap(body.director_angular_momentum)(out.state)
        return {
            "frame": out.state.frame,
            "spatial": momentum,
            "momentum": jnp.sum(out.state.frame * momentum[:, :, None], axis=1),
            "energy": jax.vmap(lambda r: body.director_energy(BODY, r))(out.state.rates),
            "hamiltonian": jax.vmap(lambda s: body.director_hamiltonian(BODY, constraints, s))(out.state),
            "code": out.code,
            "iterations": out.iterations,
        }

    velocity = np.array([CASES[case][0] for case, _, _ in LANES.values()], float)
    components = np.array([np.multiply(CASES[case][1], factor) for case, factor, _ in LANES.values()])
    a = np.array([a for _, _, a in LANES.values()])
    out = jax.device_get(jax.jit(jax.vmap(one))(velocity, components, a))
    return {lane: {name: value[i] for name, value in out.items()} for i, lane in enumerate(LANES)}
