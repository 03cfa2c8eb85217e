"""`each`, which maps a function over rows, and gradients of long loops in kernels."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.testing import assert_allclose
from support import by_xla

import rbd_jax as rbd
from rbd_jax._core.branches import only_if
from rbd_jax.compiler import each
from rbd_jax.compiler.primitive import Mapped


ROWS = np.random.default_rng(0).normal(size=(16, 5, 3))


def of_rows(x):
    """Returns a sum over rows in which rows with a negative first number count as zero; `scale` comes from a closure."""
    scale = jnp.cumsum(x[0])

    def own(row):
        work = lambda: jnp.sum(jnp.outer(jnp.sin(row), jnp.exp(row)) * scale[None], axis=1) / row[0]
        return only_if(row[0] > 0, work)

    return jnp.sum(each(own, x) * x, axis=0)


def test_each_is_vmap_in_all_forms():
    by_vmap = lambda x: jnp.sum(jnp.where(x[:, :1] > 0, _plain(x), 0) * x, axis=0)
    forms = (jax.vmap(of_rows), rbd.batch_map(of_rows, fused=True), rbd.batch_map(of_rows, fused=False))
    for form in forms:
        assert_allclose(jax.jit(form)(ROWS), jax.vmap(by_vmap)(ROWS), rtol=1e-12, atol=1e-13)


def _plain(x):
    return (
        jnp.sum(jnp.sin(x)[:, :, None] * jnp.exp(x)[:, None] * jnp.cumsum(x[0])[None, None], axis=2)
        / x[:, :1]
    )


def test_derivatives_of_each():
    by_vmap = lambda x: jnp.sum(jnp.where(x[:, :1] > 0, _plain(x), 0) * x)
    wanted = jax.vmap(jax.grad(by_vmap))(ROWS)
    reverse, forward = jax.grad(lambda x: jnp.sum(of_rows(x))), jax.jacfwd(lambda x: jnp.sum(of_rows(x)))
    for own in (reverse, forward):
        assert_allclose(by_xla(own)(ROWS), wanted, rtol=1e-11, atol=1e-12)
    assert_allclose(jax.jit(rbd.batch_map(reverse, fused=True))(ROWS), wanted, rtol=1e-11, atol=1e-12)


def test_skipped_rows_have_derivative_zero():
    """The gradient is not NaN, although the skipped branch divides by zero."""
    x = ROWS.copy()
    x[:, 1, 0] = 0.0
    gradient = jax.grad(lambda x: jnp.sum(of_rows(x)))
    for form in (jax.vmap(gradient), rbd.batch_map(gradient, fused=True)):
        found = jax.jit(form)(x)
        assert np.isfinite(found).all() and (found[:, 1] == 0).all() and (found[:, 0] != 0).any()


def test_loops_after_a_kernel_are_kernels(monkeypatch):
    """The gradient of a long loop runs as kernels: a forward loop that stores, and a backward loop."""

    def end(x):
        turn = lambda x: jnp.sin(jnp.tile(x, 7)).reshape(7, -1).sum(0) / 7 + 0.9 * jnp.cos(x[::-1])
        return jnp.sum(lax.scan(lambda x, _: (jax.checkpoint(turn)(x), None), x, length=300)[0])

    made, kernel = [], Mapped._kernel
    monkeypatch.setattr(Mapped, "_kernel", lambda self: made.append(self) or kernel(self))
    samples = ROWS[:, 0]
    wanted = jax.vmap(jax.grad(end))(samples)
    inside = jax.jit(rbd.batch_map(jax.grad(end)))(samples)
    outside = jax.jit(jax.grad(lambda x: jnp.sum(rbd.batch_map(end)(x))))(samples)
    assert_allclose(inside, wanted, rtol=1e-10, atol=1e-300)
    assert_allclose(outside, wanted, rtol=1e-10, atol=1e-300)
    assert len(made) >= 4
