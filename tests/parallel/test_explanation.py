"""`explain` reports the form of a function over a batch."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd


X = np.random.default_rng(0).normal(size=(300, 4))
WORK = lambda x: jnp.tile(jnp.sin(x), 20) * jnp.tile(x, 20)

pytestmark = pytest.mark.skipif("jax.default_backend() != 'cpu'")


def sorted_somewhere(x):
    """Contains an operation that kernels do not support, inside other functions."""

    @jax.jit
    def inner(x):
        return jax.lax.fori_loop(0, 3, lambda i, x: jnp.sort(x), WORK(x))

    return jnp.sum(inner(x))


TOLD = {
    "a kernel": (lambda x: jnp.sum(WORK(x)), r"^A kernel on cpu, since it pays: \d+ scalars, some 0\.\d s to compile\.$"),
    "what is refused": (
        sorted_somewhere,
        r"^No kernel on cpu: `sort` \(.*test_explanation\.py:\d+\) depends on the sample, .* 32 samples side by side",
    ),
    "too little work": (lambda x: 2 * x, "^No kernel on cpu: it computes 4 numbers, too few for the 8 that it reads and "),
    "large matrices": (
        lambda x: jnp.sum(np.ones((100, 100)) @ jnp.tile(x, 25)),
        "products of matrices with 100 terms, and of more than 64 a library is faster",
    ),
    "what does something": (lambda x: jax.debug.callback(lambda: None) or WORK(x), "^No kernel on cpu: "),
}  # fmt: skip


@pytest.mark.parametrize("function, message", TOLD.values(), ids=TOLD)
def test_told(function, message):
    pytest.importorskip("llvmlite")
    told = rbd.explain(function, X)
    assert re.search(message, told), told


def test_few_samples_and_others():
    pytest.importorskip("llvmlite")
    assert rbd.explain(WORK, X[:3]) == "No kernel on cpu: fewer than 8 samples. One sample after the other."
    assert "it was requested" in rbd.explain(WORK, X, fused=True)
    shared = rbd.explain(lambda a, x: jnp.sum(a) * jnp.sum(WORK(x)), np.ones(5000), X, in_axes=(None, 0))
    assert "all samples share 5,000 numbers" in shared


def test_switched_off(monkeypatch):
    monkeypatch.setenv("RBD_JAX_KERNELS", "0")
    assert rbd.explain(WORK, X).startswith("No kernel on cpu: RBD_JAX_KERNELS is 0.")
