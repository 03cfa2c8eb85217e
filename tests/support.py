"""What tests of all folders share: how they compile, compare and differentiate by differences.

from support import assert_close, differences
"""

import jax
import jax.numpy as jnp
import numpy as np
from quickly import known


#: What the compiler does for those who use the library, and not for its tests (see `quickly.py`).
_AS_USED = {
    "xla_backend_optimization_level": 3,
    "xla_llvm_disable_expensive_passes": False,
    "xla_cpu_use_fusion_emitters": True,
    "xla_disable_hlo_passes": "",
}
AS_USED = {flag: value for flag, value in _AS_USED.items() if known(flag)}


def assert_close(found, expected, tolerance, what="", *, axis=None, names=None):
    """Finite, and equal to `tolerance` of the largest expected entry (or of 1, if that is more).

    With `axis` the largest is that along this axis. `what` is said where the two differ, and the entry of the last axis
    by its name if `names` has them.
    """
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape, (what, found.shape, expected.shape)
    assert np.isfinite(found).all() and np.isfinite(expected).all(), f"{what}: not finite"
    if not found.size:
        return
    error = np.abs(found - expected) / np.maximum(np.abs(expected).max(axis, keepdims=True), 1)
    worst = np.unravel_index(np.argmax(error), error.shape)
    where = (*(int(i) for i in worst[:-1]), names[worst[-1]]) if names else tuple(int(i) for i in worst)
    message = f"{what}: {found[worst]} is not {expected[worst]}, at {where}: off by {error[worst]:.1e}"
    assert error[worst] <= tolerance, message


def assert_each_close(found, expected, tolerance=1e-12):
    """Every entry for itself, relative to it and to 1; of arrays or of trees of them."""
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def assert_same(found, expected, tolerance=1e-12):
    """As `assert_each_close`, and the structure, the shapes and the types are those expected."""
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
    assert_each_close(found, expected, tolerance)


def by_xla(function, in_axes=0):
    """`jax.vmap` of a function, compiled by XLA alone: inside `jax.jit` no function is an operation with a kernel."""
    return jax.jit(jax.vmap(jax.jit(function), in_axes))


def quotient(function, step=1e-5):
    """The derivative at zero of a function of one number, by central differences."""
    return jax.tree.map(lambda a, b: (a - b) / (2 * step), function(step), function(-step))


def differences(batched, x, step=3e-6, order=2):
    """The derivatives at each row of `x`, by central differences: (rows, ..., entries).

    `batched` maps rows to numbers or arrays; one call of it takes all steps in all directions. The step is small beside
    the speeds over which friction turns, and leaves eight digits to rounding. A longer one goes with order four, whose
    error is its fourth power. Infinite entries count as constant.
    """
    at, weights = {2: ([1, -1], [1 / 2, -1 / 2]), 4: ([-2, -1, 1, 2], [1 / 12, -8 / 12, 8 / 12, -1 / 12])}[
        order
    ]
    x = np.asarray(x)
    finite = np.isfinite(x).all(axis=0)
    steps = step * np.eye(x.shape[1])[finite]
    moved = x[:, None, None] + np.array(at)[:, None, None] * steps
    values = np.asarray(batched(jnp.asarray(moved.reshape(-1, x.shape[1]))))
    values = values.reshape(len(x), len(at), len(steps), *values.shape[1:])
    slopes = np.zeros((len(x), *values.shape[3:], x.shape[1]))
    slopes[..., finite] = np.moveaxis(np.tensordot(weights, values, (0, 1)) / step, 1, -1)
    return slopes


def said_by(capsys, code, *arguments):
    """What a command of the command line says on stderr that ends with this code."""
    from rbd_jax.__main__ import main

    capsys.readouterr()
    assert main([*arguments]) == code
    out, err = capsys.readouterr()
    assert not out
    return err


def refused(capsys, *arguments):
    """The line with which a command is refused."""
    err = said_by(capsys, 2, *arguments)
    assert err.count("\n") == 1 and err.startswith("rbd-jax: error: ")
    return err.removeprefix("rbd-jax: error: ").rstrip()
