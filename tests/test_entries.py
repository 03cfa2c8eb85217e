"""Moving entries in NumPy gives the same result as in JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from rbd_jax.compiler import indexing as entries


X = np.arange(1, 4 * 5 * 6 + 1).reshape(4, 5, 6)
PADDINGS = [
    [(0, 0, 0), (1, 2, 0), (0, 0, 1)],
    [(-1, 2, 0), (3, -4, 2), (-2, -2, 0)],
    [(-3, -3, 1), (0, 1, 3), (-1, 0, 1)],
]


@pytest.mark.parametrize("config", PADDINGS)
def test_pad(config):
    np.testing.assert_array_equal(entries.pad(X, -1, config), lax.pad(jnp.asarray(X), -1, config))


@pytest.mark.parametrize("starts", [(0, 0, 0), (1, 2, 3), (-3, 9, 2)])
def test_dynamic_slices(starts):
    given = [jnp.asarray(start) for start in starts]
    found = entries.dynamic_slice(X, *map(np.asarray, starts), sizes=(2, 5, 3))
    expected = lax.dynamic_slice(jnp.asarray(X), given, (2, 5, 3), allow_negative_indices=False)
    np.testing.assert_array_equal(found, expected)
    found = entries.dynamic_update_slice(X, -X[:2, :, :3], *map(np.asarray, starts))
    update = jnp.asarray(-X[:2, :, :3])
    expected = lax.dynamic_update_slice(jnp.asarray(X), update, given, allow_negative_indices=False)
    np.testing.assert_array_equal(found, expected)


GATHERS = {
    "rows": lambda x: x[jnp.array([3, 0, 0])],
    "entries": lambda x: x[jnp.array([3, 0]), jnp.array([[1], [4]]), 2],
    "from outside": lambda x: x.at[jnp.array([7, -9, 1])].get(mode="fill", fill_value=0),
    "inside of bounds": lambda x: x.at[:, jnp.array([7, -9, 1])].get(mode="clip"),
    "along an axis": lambda x: jnp.take_along_axis(x, jnp.argsort(x % 7, axis=1), axis=1),
    "each from its own": lambda x: jax.vmap(lambda x, i: x[i], (1, 0))(x, jnp.array([[0, 1], [2, 2], [3, 0], [1, 1], [0, 0]])),
    "windows": lambda x: jax.vmap(lambda i: lax.dynamic_slice(x, (i, 1, i), (2, 3, 4)))(jnp.array([0, 2, 9])),
    "windows of each": lambda x: jax.vmap(lambda x, i: lax.dynamic_slice(x, (i, 1), (2, 3)))(x, jnp.array([0, 2, 9, -1])),
}  # fmt: skip


@pytest.mark.parametrize("function", GATHERS.values(), ids=GATHERS)
def test_gathers(function):
    """Each gather places the same entries as JAX."""
    closed = jax.make_jaxpr(function)(X)
    met = []

    def evaluated(closed, args):
        values = dict(zip(closed.jaxpr.invars, args, strict=True))
        values |= zip(closed.jaxpr.constvars, closed.consts, strict=True)
        read = lambda atom: values[atom] if atom in values else atom.val
        for equation in closed.jaxpr.eqns:
            params = equation.params
            given = [read(x) if not hasattr(x, "val") else x.val for x in equation.invars]
            if equation.primitive.name == "gather":
                filled = params["mode"] == lax.GatherScatterMode.FILL_OR_DROP
                fill = params["fill_value"] if filled else None
                met.append(fill)
                gather = lambda x, places, params=params, fill=fill: entries.gather(
                    *map(np.asarray, (x, places)), params["dimension_numbers"], params["slice_sizes"], fill
                )
                results = [jax.pure_callback(gather, equation.outvars[0].aval, *given)]
            elif "jaxpr" in params:
                results = evaluated(params["jaxpr"], given)
            else:
                results = equation.primitive.bind(*given, **params)
                results = results if equation.primitive.multiple_results else [results]
            values |= zip(equation.outvars, results, strict=True)
        return [read(atom) if not hasattr(atom, "val") else atom.val for atom in closed.jaxpr.outvars]

    found, expected = jax.jit(lambda x: (evaluated(closed, [x])[0], function(x)))(X)
    np.testing.assert_array_equal(found, expected)
    assert met
