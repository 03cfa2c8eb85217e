"""Public functions under `jax.vmap` are one operation, with the transformation rules and results of a mapped function."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import assert_same, by_xla

import rbd_jax as rbd
from rbd_jax.compiler.single import ENOUGH


MODEL = rbd.load("double_pendulum")
RNG = np.random.default_rng(0)
Q, V, TAU = (jnp.asarray(x) for x in RNG.normal(size=(3, ENOUGH + 3, 2)))


def force(q, v, tau):
    return rbd.forward_dynamics(MODEL, q, v, tau)


def end(q, v):
    path = rbd.rollout(MODEL, rbd.State(q, v), dt=0.01, steps=2)
    return path.q[-1], path.v


def mapped(function, *given):
    """Returns how many mapped functions a program has."""
    return str(jax.make_jaxpr(function)(*given)).count("= mapped[")


@pytest.mark.parametrize(
    "transform", ["value", "grad", *(pytest.param(x, marks=pytest.mark.slow) for x in ("jvp", "hessian"))]
)
def test_derivatives_inside_are_mapped(transform):
    of = {
        "value": force,
        "grad": jax.grad(lambda *x: jnp.sum(force(*x) ** 2), (0, 1, 2)),
        "jvp": lambda *x: jax.jvp(force, x, (x[1], x[2], x[0])),
        "hessian": jax.hessian(lambda q, v, _: rbd.mechanical_energy(MODEL, q, v), (0, 1)),
    }[transform]
    assert mapped(jax.vmap(of), Q, V, TAU) >= 1
    assert_same(jax.jit(jax.vmap(of))(Q, V, TAU), by_xla(of)(Q, V, TAU), 1e-11)


@pytest.mark.slow
def test_derivatives_outside_are_mapped():
    total = lambda by: lambda q, scale: jnp.sum(by(lambda q, v: end(scale * q, v)[0])(q, V) ** 2)
    found = jax.jit(jax.grad(total(jax.vmap), (0, 1)))(Q, 0.5)
    expected = jax.jit(jax.grad(total(lambda f: jax.vmap(jax.jit(f))), (0, 1)))(Q, 0.5)
    assert mapped(jax.grad(total(jax.vmap), (0, 1)), Q, 0.5) >= 1
    assert_same(found, expected, 1e-11)


def test_rollouts_and_steps_are_mapped():
    assert mapped(jax.vmap(end), Q, V) == 1
    assert_same(jax.jit(jax.vmap(end))(Q, V), by_xla(end)(Q, V), 1e-12)
    step = lambda q, v, tau: rbd.step(MODEL, rbd.State(q, v), tau, 0.01).q
    assert mapped(jax.vmap(step), Q, V, TAU) == 1
    assert_same(jax.jit(jax.vmap(step))(Q, V, TAU), by_xla(step)(Q, V, TAU), 1e-13)


def test_what_is_shared_is_not_copied():
    """Traced arrays without a batch axis, from arguments or closures, are shared, for any batch axis of the others."""

    def all_of(model, gain, q, v):
        drive = lambda t, state: -gain * state.v
        return jax.vmap(
            lambda q, v: rbd.rollout(model, rbd.State(q, v), drive, dt=0.01, steps=2).q, (1, None), 1
        )(q.T, v)

    found = jax.make_jaxpr(all_of)(MODEL, 0.3, Q, V[0])
    (equation,) = [x for x in found.jaxpr.eqns if x.primitive.name == "mapped"]
    program = equation.params["program"]
    assert [x.shape for x in program.given[program.shared :]] == [(2,)]
    one = lambda model, gain, q, v: (
        rbd.rollout(model, rbd.State(q, v), lambda t, state: -gain * state.v, dt=0.01, steps=2).q
    )
    expected = jnp.stack([jax.jit(one)(MODEL, 0.3, q, V[0]) for q in Q[:3]], 1)
    assert_same(jax.jit(all_of)(MODEL, 0.3, Q, V[0])[:, :3], expected, 1e-12)


def test_batches_of_batches():
    many = jnp.stack([V, 2 * V])
    both = lambda f: jax.vmap(jax.vmap(f), (None, 0, None))
    assert mapped(both(force), Q, many, TAU) == 1
    assert_same(jax.jit(both(force))(Q, many, TAU), both(jax.jit(force))(Q, many, TAU), 1e-12)


def test_what_stays_xlas():
    """XLA still runs small batches, functions already traced by `jax.jit`, single samples and functions with side effects."""
    assert mapped(jax.vmap(force), Q[:9], V[:9], TAU[:9]) == 0
    assert mapped(jax.vmap(jax.jit(force)), Q, V, TAU) == 0
    assert mapped(force, Q[0], V[0], TAU[0]) == 0
    seen = []

    def told(t, state):
        jax.debug.callback(lambda x: seen.append(float(x)), t)
        return jnp.zeros(2)

    run = lambda q, v: rbd.rollout(MODEL, rbd.State(q, v), told, dt=0.01, steps=2).q
    assert_same(jax.jit(jax.vmap(run))(Q, V), jax.vmap(run)(Q, V), 1e-13)
    jax.effects_barrier()
    assert sorted(set(np.round(seen, 3))) == [0, 0.01]


def test_an_error_of_the_function_is_that_of_one_sample():
    with pytest.raises(ValueError, match="forward_dynamics: tau has shape"):
        jax.jit(jax.vmap(force))(Q, V, Q[:, :1])
