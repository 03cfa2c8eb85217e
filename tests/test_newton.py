"""Newton's method: solutions, failures, and derivatives against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rbd_jax.optimize.newton import newton
from rbd_jax.optimize.outcome import Code


def root(p, guess=1.5, max_steps=12):
    """Solves for `x = (√p, p^(3/2))`, from coupled equations with different scales."""

    def residual(x):
        return jnp.stack([1e6 * (x[0] * x[0] - p), 1e-6 * (x[1] - x[0] * x[0] * x[0])])

    return newton(residual, jnp.stack([guess * jnp.ones_like(p), jnp.zeros_like(p)]), 1e-10, max_steps)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_solution(dtype):
    tolerance = 1e-10 if dtype == np.float64 else 1e-5

    def residual(x):
        return jnp.stack([x[0] * x[0] - 2, jnp.exp(x[1]) - x[0]])

    x, code, steps = jax.jit(lambda g: newton(residual, g, tolerance, 20))(jnp.asarray([1.5, 0.0], dtype))
    assert x.dtype == dtype and code.dtype == steps.dtype == np.int32
    assert code == Code.CONVERGED and 3 <= steps <= 5
    np.testing.assert_allclose(x, [np.sqrt(2), np.log(2) / 2], rtol=4 * np.finfo(dtype).eps)


def test_each_sample_has_its_own_code_and_count():
    """Counts exclude steps after convergence, and a failing sample does not affect the others."""
    p = np.array([2.25, 2.0, 4.0, 2.0, 2.0, np.nan])
    guesses = np.array([1.5, 1.5, 1.5, 1e9, 0.0, 1.5])
    x, code, steps = map(np.asarray, jax.jit(jax.vmap(root))(p, guesses))
    by_itself = jax.jit(root)
    alone = [by_itself(a, g)[2] for a, g in zip(p[:3], guesses[:3])]
    expected = [Code.CONVERGED] * 3 + [Code.NOT_CONVERGED] + [Code.NOT_FINITE] * 2
    assert code.tolist() == expected
    assert steps.tolist() == [*alone, 12, 1, 1] and len(set(map(int, alone))) > 1
    assert np.isfinite(x).all()
    np.testing.assert_allclose(x[:3, 0], np.sqrt(p[:3]), rtol=1e-15)


def test_derivatives_of_all_orders():
    """Derivatives of `(√p, p^(3/2))` in forward mode, reverse mode, nested, and under jit and vmap match closed forms."""
    p = jnp.array([0.5, 2.0, 3.0])
    f = lambda p: root(p)[0]
    powers = lambda *factors: jnp.stack([factors[0] * p ** factors[1], factors[2] * p ** factors[3]], -1)
    first, second, third = (
        powers(1 / 2, -1 / 2, 3 / 2, 1 / 2),
        powers(-1 / 4, -3 / 2, 3 / 4, -1 / 2),
        powers(3 / 8, -5 / 2, -3 / 8, -3 / 2),
    )
    together = lambda p: (
        jax.jacfwd(f)(p),
        jax.jacrev(f)(p),
        jax.jacfwd(jax.jacrev(f))(p),
        jax.jacrev(jax.jacrev(f))(p),
        jax.jacfwd(jax.jacfwd(jax.jacrev(f)))(p),
    )
    results = jax.jit(jax.vmap(together))(p)
    for result, expected in zip(results, [first, first, second, second, third]):
        np.testing.assert_allclose(result, expected, rtol=1e-12)


def test_slopes_that_are_only_near():
    """An approximate Jacobian gives the same root and derivatives in more steps."""

    def found(p, near):
        residual = lambda x, p=p: jnp.stack([jnp.exp(x[0]) + 0.1 * x[1] - p, x[1] - x[0] * x[0]])
        like = (lambda x: residual(x, p) + 0.02 * jnp.stack([x[0] * x[1], x[0]])) if near else None
        return newton(residual, jnp.ones(2), 1e-14, near=like)

    p = jnp.array(2.0)
    (x, code, steps), (y, exact, fewer) = (
        jax.jit(found, static_argnums=1)(p, near) for near in (True, False)
    )
    assert code == exact == Code.CONVERGED and fewer < steps < 12
    np.testing.assert_allclose(x, y, rtol=1e-14)
    for derivative in (jax.jacfwd, jax.jacrev):
        slope = lambda p, near, of=derivative: of(lambda p: found(p, near)[0])(p)
        slopes = [jax.jit(slope, static_argnums=1)(p, near) for near in (True, False)]
        np.testing.assert_allclose(*slopes, rtol=1e-13)


def test_the_guess_has_no_derivative():
    slope = jax.jit(jax.grad(lambda g: jnp.sum(root(2.0, g)[0])))(1.4)
    assert slope == 0


def test_no_steps_are_refused():
    with pytest.raises(ValueError, match="max_steps is 0"):
        newton(lambda x: x, jnp.ones(2), 1e-10, 0)


def test_without_a_tolerance_roundoff_is_the_limit():
    for dtype in (jnp.float64, jnp.float32):
        x, code, _ = jax.jit(lambda x: newton(lambda x: 1e3 * (jnp.exp(x) - 3), x))(np.zeros(1, dtype))
        assert code == Code.CONVERGED and abs(float(np.asarray(x)[0]) - np.log(3)) < 4 * jnp.finfo(dtype).eps


def test_steep_friction():
    """Four coupled coordinates with friction smoothed over 0.01 of their speed: full steps overshoot the steep region."""
    rng = np.random.default_rng(0)
    spread = rng.normal(size=(1000, 4, 4))
    inertias = jnp.asarray(spread @ spread.swapaxes(1, 2) + 0.3 * np.eye(4))
    velocities, limits = (
        jnp.asarray(rng.normal(size=(1000, 4))),
        jnp.asarray(10 ** rng.uniform(-3, 1, (1000, 4))),
    )

    def missing(inertia, before, limit, v):
        return jnp.sum(inertia * (v - before)[None], axis=1) + limit * v / jnp.sqrt(v**2 + 1e-4)

    def sliding(*given):
        v, code, steps = newton(lambda v: missing(*given, v), given[1])
        return missing(*given, v), code, steps

    left, code, steps = jax.jit(jax.vmap(sliding))(inertias, velocities, limits)
    assert not code.any() and np.abs(left).max() < 1e-13
    assert steps.mean() < 15
