"""Helpers shared by all tests: compilation, comparison and finite differences."""

import jax
import jax.numpy as jnp
import numpy as np
from quickly import known


#: Compiler options of users of the library, which the tests otherwise reduce (see `quickly.py`).
_AS_USED = {
    "xla_backend_optimization_level": 3,
    "xla_llvm_disable_expensive_passes": False,
    "xla_cpu_use_fusion_emitters": True,
    "xla_disable_hlo_passes": "",
}
AS_USED = {flag: value for flag, value in _AS_USED.items() if known(flag)}


def assert_close(found, expected, tolerance, what="", *, axis=None, names=None):
    """Asserts that values are finite and equal within `tolerance`, relative to the largest expected entry (at least 1).

    Args:
      found: The computed values.
      expected: The expected values.
      tolerance: Tolerance relative to the largest expected entry, or to 1 if that is larger.
      what: Description for the message.
      axis: Axis along which the largest entry is taken; by default all entries.
      names: Names of the entries of the last axis, for the message.
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
    """Asserts that each entry is close, relative to the entry and to 1; for arrays or trees of arrays."""
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def assert_same(found, expected, tolerance=1e-12):
    """Asserts the same as `assert_each_close`, and equal structures, shapes and types."""
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
    assert_each_close(found, expected, tolerance)


def by_xla(function, in_axes=0):
    """Returns `jax.vmap` of a function compiled by XLA only: inside `jax.jit` no function is an operation with a kernel."""
    return jax.jit(jax.vmap(jax.jit(function), in_axes))


def quotient(function, step=1e-5):
    """Returns the derivative at zero of a function of one variable, by central differences."""
    return jax.tree.map(lambda a, b: (a - b) / (2 * step), function(step), function(-step))


def differences(batched, x, step=3e-6, order=2):
    """Returns derivatives at each row of `x` by central differences: (rows, ..., entries).

    The step is small compared with the speeds over which friction changes sign, and rounding leaves eight
    digits. Use a longer step with order four, whose error is proportional to its fourth power. Infinite entries
    count as constant.

    Args:
      batched: Maps rows to scalars or arrays; a single call evaluates all steps in all directions.
      x: Points, one per row.
      step: Step size.
      order: Order of the differences, 2 or 4.
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
    """Returns the stderr output of a command that must exit with `code`."""
    from rbd_jax.__main__ import main

    capsys.readouterr()
    assert main([*arguments]) == code
    out, err = capsys.readouterr()
    assert not out
    return err


def refused(capsys, *arguments):
    """Returns the error line of a rejected command."""
    err = said_by(capsys, 2, *arguments)
    assert err.count("\n") == 1 and err.startswith("rbd-jax: error: ")
    return err.removeprefix("rbd-jax: error: ").rstrip()
