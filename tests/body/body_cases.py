"""The body and the three load cases of Gebhardt & Romero 2020, §6, and cached simulations of them."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from rbd_jax import body


INERTIA = np.array([[3, -1 / 7, 0], [-1 / 7, 4, 0], [0, 0, 5]])
BODY = body.RotatingBody(INERTIA)
STEP = 0.005

# Initial angular velocity, and components of the moment along the first two directors, eqs. (112)-(118).
CASES = {
    1: ([6, -18, 0], [0, 0]),
    2: ([0, 0, 0], [-2472.5, -1075]),
    3: ([1.5, 4.5, 0], [-1236.25, -537.5]),
}

# Simulated lanes: case, load factor, constraint parameter `a`, and the divisor of the paper's time step.
LANES = [
    (case, factor, 0.5, part)
    for case, factor in ((1, 1), (2, 1), (3, 1), (2, 0.01), (3, 0.01))
    for part in (1, 2, 4)
]
#: Cases with the printed loads. The printed time step does not resolve them.
PRINTED = ((2, 1), (3, 1))
LANES += [(1, 1, 0.0, 1), (1, 1, 1.0, 1), (2, 0.01, 0.0, 1)]


def triangle(t):
    """Returns the time history of the load, eq. (116)."""
    return jnp.maximum(0, 1 - jnp.abs(2 * t - 1))


def moment(components):
    """Returns a load function with the given components, eqs. (115) and (118)."""
    return lambda t, frame: triangle(t) * (frame[:, :2] @ components)


def observe(subject, constraints, out):
    """Returns the quantities that the paper plots for a trajectory."""
    spatial = jax.vmap(body.director_angular_momentum)(out.state)
    return {
        "frame": out.state.frame,
        "spatial": spatial,
        "momentum": jnp.sum(out.state.frame * spatial[:, :, None], axis=1),
        "energy": jax.vmap(lambda r: body.director_energy(subject, r))(out.state.rates),
        "hamiltonian": jax.vmap(lambda s: body.director_hamiltonian(subject, constraints, s))(out.state),
        "code": out.code,
        "iterations": out.iterations,
    }


@cache
def runs(scheme, steps=1000):
    """Simulates all lanes in one batch, each for the same number of steps.

    A lane with divisor 1 covers the paper's 5 s; smaller time steps cover a fraction of it.
    """

    @jax.jit
    @jax.vmap
    def together(velocity, components, a, dt):
        constraints = body.NonTwisting(a)
        out = body.simulate(
            BODY,
            jnp.eye(3),
            velocity,
            moment(components),
            dt=dt,
            steps=steps,
            constraints=constraints,
            scheme=scheme,
        )
        return observe(BODY, constraints, out)

    columns = [(CASES[c][0], np.multiply(CASES[c][1], f), a, STEP / part) for c, f, a, part in LANES]
    out = jax.device_get(together(*(np.array(column, float) for column in zip(*columns))))
    return {lane: {name: value[i] for name, value in out.items()} for i, lane in enumerate(LANES)}


def quotient(scheme, case, factor):
    """Returns the quotient of precision of all directors, at every time that all three runs reach."""
    frames = [runs(scheme)[case, factor, 0.5, part]["frame"] for part in (1, 2, 4)]
    n = (len(frames[0]) - 1) // 4
    parts = [frame[: n * part + 1] for frame, part in zip(frames, (1, 2, 4))]
    return np.asarray(jax.jit(body.quotient_of_precision)(*parts))


@cache
def reference(case, factor, steps=1000):
    """Integrates the reduced equations of the non-twisting body with the classical Runge-Kutta method.

    The result has frames and momenta.
    """
    velocity, components = (np.array(x, float) for x in CASES[case])
    load = moment(factor * components)

    def rate(t, state):
        return body.non_twisting_rates(BODY, state, load(t, state.frame))

    def advance(state, number):
        t, h = number * STEP, STEP
        moved = lambda k, s: jax.tree.map(lambda x, y: x + s * y, state, k)
        k1 = rate(t, state)
        k2 = rate(t + h / 2, moved(k1, h / 2))
        k3 = rate(t + h / 2, moved(k2, h / 2))
        k4 = rate(t + h, moved(k3, h))
        state = jax.tree.map(lambda x, a, b, c, d: x + h / 6 * (a + 2 * b + 2 * c + d), state, k1, k2, k3, k4)
        return state, state

    start = body.non_twisting_state(BODY, jnp.eye(3), jnp.asarray(velocity))
    return jax.jit(lambda: jax.lax.scan(advance, start, jnp.arange(steps).astype(float))[1])()
