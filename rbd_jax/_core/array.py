"""Contractions of 3- and 6-vectors.

The arrays of this library are small and numerous. The contractions set their precision explicitly, because the default on a
GPU rounds to ten bits. They are in one module, because the fastest form of a 3x3 product differs between compilers.
All functions broadcast over leading axes.
"""

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer
from jax.lax import Precision
from jaxtyping import Array, Float

from .derivatives import custom_jvp
from .platform import is_cpu
from .versions import NOTHING_TRACED, get_opaque_trace_state


T = TypeVar("T")

#: Products over at most this number of terms are written as sums.
SPELLED_OUT = 20


def dot(a: Float[Array, "*a n"], b: Float[Array, "*b n"]) -> Float[Array, "*c"]:
    """Returns `aᵀ b`."""
    return jnp.einsum("...i,...i->...", a, b, precision=Precision.HIGHEST)


def matvec(a: Float[Array, "*a m n"], x: Float[Array, "*b n"]) -> Float[Array, "*c m"]:
    """Returns `A x`."""
    return jnp.einsum("...ij,...j->...i", a, x, precision=Precision.HIGHEST)


def columnwise(function: Callable[[Any], Any], matrix: Array) -> Any:
    """Applies `function` of a vector to each column of a matrix; the results are columns again."""
    return jax.vmap(function, in_axes=1, out_axes=1)(matrix)


def vecmat(x: Float[Array, "*b m"], a: Float[Array, "*a m n"]) -> Float[Array, "*c n"]:
    """Returns `Aᵀ x`."""
    return jnp.einsum("...ij,...i->...j", a, x, precision=Precision.HIGHEST)


def matmul(a: Float[Array, "*a m k"], b: Float[Array, "*b k n"]) -> Float[Array, "*c m n"]:
    """Returns `A B`."""
    return jnp.einsum("...ij,...jk->...ik", a, b, precision=Precision.HIGHEST)


def times(a: Float[Array, "m n"], x: Float[Array, "n"]) -> Float[Array, "m"]:
    """Returns `A x` as a sum, which stays inside a CPU loop over samples; a matrix product is a library call."""
    return jnp.sum(a * x[None, :], axis=1)


def outer(a: Float[Array, "*a m"], b: Float[Array, "*b n"]) -> Float[Array, "*c m n"]:
    """Returns `a bᵀ`."""
    return a[..., :, None] * b[..., None, :]


def products(a: Float[Array, "m k"], b: Float[Array, "n k"]) -> Float[Array, "m n"]:
    """Returns `A Bᵀ`. For a few columns it is written as a sum, since a matrix product is a library call on a CPU."""
    if a.shape[1] > SPELLED_OUT:
        return matmul(a, transpose(b))
    if not a.shape[1]:
        return jnp.zeros((len(a), len(b)), a.dtype)
    return functools.reduce(jnp.add, [a[:, None, i] * b[None, :, i] for i in range(a.shape[1])])


#: Up to this number of rows, matrix products are faster as loops than as library calls.
LOOPED = 24


def rowwise(a: Float[Array, "m k"], b: Float[Array, "k n"]) -> Float[Array, "m n"]:
    """Returns `A B` inside a loop over stages or samples: small products on a CPU run row by row, within that loop."""
    if not is_cpu() or max(*a.shape, b.shape[1]) > LOOPED or not a.shape[0]:
        return matmul(a, b)
    return lax.map(lambda row: jnp.sum(row[:, None] * b, axis=0), a)


def transpose(a: Float[Array, "*a m n"]) -> Float[Array, "*a n m"]:
    """Returns `Aᵀ`, over the last two axes."""
    return jnp.swapaxes(a, -1, -2)


def cross(a: Float[Array, "*a k"], b: Float[Array, "*b m"]) -> Float[Array, "*c n"]:
    """Returns `a × b` of spatial or planar vectors.

    In a plane, vectors in the plane have two entries, and normal vectors (a rotation or a moment) have one. The product of two
    normal vectors is zero, of one of each has two entries, and of two vectors in the plane has one entry.
    """
    if a.shape[-1] < 3:
        return _cross_in_plane(a, b)
    a0, a1, a2 = a[..., 0], a[..., 1], a[..., 2]
    b0, b1, b2 = b[..., 0], b[..., 1], b[..., 2]
    return jnp.stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], axis=-1)


def _cross_in_plane(a, b):
    if a.shape[-1] == b.shape[-1] == 1:
        return jnp.zeros_like(a[..., 0] * b[..., 0])[..., None]
    if a.shape[-1] == 1:
        return jnp.stack([-a[..., 0] * b[..., 1], a[..., 0] * b[..., 0]], axis=-1)
    if b.shape[-1] == 1:
        return jnp.stack([a[..., 1] * b[..., 0], -a[..., 0] * b[..., 0]], axis=-1)
    return (a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0])[..., None]


def skew(a: Float[Array, "*a k"]) -> Float[Array, "*a n k"]:
    """Returns `a×`, the matrix of the cross product: `skew(a) @ b = a × b` (book eq. 2.23); a row for planar vectors."""
    if a.shape[-1] == 2:
        return jnp.stack([-a[..., 1], a[..., 0]], axis=-1)[..., None, :]
    x, y, z = a[..., 0], a[..., 1], a[..., 2]
    o = jnp.zeros_like(x)
    return matrix([[o, -z, y], [z, o, -x], [-y, x, o]])


def unskew(m: Float[Array, "*a 3 3"]) -> Float[Array, "*a 3"]:
    """Returns the vector of the antisymmetric part of `m`; the inverse of `skew`."""
    return 0.5 * jnp.stack(
        [m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1]], axis=-1
    )


def matrix(rows: list[list[Array]]) -> Float[Array, "*a m n"]:
    """Returns a matrix from its scalar entries, which may have the same batch axes."""
    return jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2)


def blocks(a: Array, b: Array, c: Array, d: Array) -> Array:
    """Returns the matrix `[[A, B], [C, D]]`."""
    return jnp.concatenate([jnp.concatenate([a, b], axis=-1), jnp.concatenate([c, d], axis=-1)], axis=-2)


#: Permutations with at most this number of runs of consecutive rows are gathered as slices.
RUNS = 64


def gather(x: Float[Array, "m ..."], order: Sequence[int] | np.ndarray) -> Float[Array, "n ..."]:
    """Returns the rows of `x` in a known order; `x` itself if the order is the identity. Index -1 is the last row."""
    order = np.asarray(order, int) % max(x.shape[0], 1)
    return x if np.array_equal(order, np.arange(x.shape[0])) else pick(x, order, _rows)


def gather_or_zero(x: Float[Array, "m *k"], order: Sequence[int] | np.ndarray) -> Float[Array, "n *k"]:
    """Returns the rows of `x` in a known order, where -1 stands for a row of zeros (the world among bodies)."""
    order = np.asarray(order, int)
    return _rows(x, order) if (order < 0).any() else gather(x, order)


def _rows(x: Float[Array, "m *k"], order: np.ndarray) -> Float[Array, "n *k"]:
    places = np.where(order < 0, len(x), order)
    rows = lambda x: (with_zero_row(x) if (order < 0).any() else x)[places]
    runs = _runs(order)
    if not 0 < len(runs) <= RUNS:
        return rows(x)

    # Indexing is fastest, but reverse-mode differentiation turns it into a scatter, which no CPU compiler merges with the
    # enclosing loop, and turns a slice into a sum of zero-padded arrays. Pieces of `lax.split` give pieces again.
    rows = custom_jvp(rows)

    @rows.defjvp
    def changes(primals, tangents):
        return rows(*primals), _in_runs(tangents[0], runs)

    return rows(x)


def _runs(order: np.ndarray) -> list[tuple[int, int]]:
    """Returns runs of consecutive rows as (first, last + 1); a run of zero rows starts at -1 and has its length."""
    apart = np.where(order < 0, -2, order)  # a run of zeros must not continue to row 0
    starts = np.flatnonzero(np.diff(apart, prepend=-4) != np.where(order < 0, 0, 1))
    ends = np.append(starts[1:], len(order))
    return [(int(order[start]), int(order[start]) + int(end - start)) for start, end in zip(starts, ends)]


def _in_runs(x: Float[Array, "m *k"], runs: list[tuple[int, int]]) -> Float[Array, "n *k"]:
    """Returns the concatenated runs of rows, made of pieces that do not overlap."""
    cuts = sorted({0, len(x), *(cut for run in runs if run[0] >= 0 for cut in run)})
    pieces = dict(zip(cuts, lax.split(x, np.diff(cuts).tolist()) if len(cuts) > 1 else ()))

    def of_run(start, end):
        if start < 0:
            return [jnp.zeros((end - start, *x.shape[1:]), x.dtype)]
        return [pieces[cut] for cut in cuts if start <= cut < end]

    return jnp.concatenate([piece for run in runs for piece in of_run(*run)])


def with_zero_row(x: Float[Array, "m *k"]) -> Float[Array, "n *k"]:
    """Returns the rows with a row of zeros at the end."""
    return jnp.concatenate([x, jnp.zeros((1, *x.shape[1:]), x.dtype)])


def sum_rows(
    x: Float[Array, "m *k"], groups: Sequence[int] | np.ndarray, count: int
) -> Float[Array, "count *k"]:
    """Returns the sums of the rows of `x` in each of `count` groups; rows in group -1 are left out.

    It gathers and adds, since a scatter would be slower and less reproducible.
    """
    groups = np.asarray(groups, int)
    order = np.argsort(groups, kind="stable")
    starts, ends = (np.searchsorted(groups[order], np.arange(count), side) for side in ("left", "right"))
    places = starts[:, None] + np.arange(max(int((ends - starts).max(initial=0)), 1))[None, :]
    held = places < ends[:, None]
    rows = np.append(order, -1)[np.where(held, places, len(groups))]
    return jnp.sum(gather_or_zero(x, rows.reshape(-1)).reshape(*rows.shape, *x.shape[1:]), axis=1)


def identity_like(a: Float[Array, "*a n n"]) -> Float[Array, "*ones n n"]:
    """Returns the unit matrix with the size and type of `a`'s last axes, with as many axes as `a`."""
    eye = jnp.eye(a.shape[-1], dtype=a.dtype)
    return eye.reshape((1,) * (a.ndim - 2) + eye.shape)


def complement(columns: Float[Array, "m n"]) -> Float[Array, "m rest"]:
    """Returns an orthonormal basis of the orthogonal complement of the columns, by Householder reflections."""
    size, count = columns.shape
    basis = jnp.eye(size, dtype=columns.dtype)
    for i in range(count):
        own = jnp.concatenate([jnp.zeros(i, columns.dtype), columns[i:, i]])
        length = jnp.sqrt(dot(own, own))
        unit = jnp.eye(size, dtype=columns.dtype)[i]
        mirror = own + jnp.where(own[i] < 0, -length, length) * unit
        mirror = mirror / jnp.sqrt(dot(mirror, mirror))
        columns = columns - 2 * outer(mirror, vecmat(mirror, columns))
        basis = basis - 2 * outer(matvec(basis, mirror), mirror)
    return basis[:, count:]


def clamped(x: Array, low, high) -> Array:
    """Returns `x` clipped to a range.

    At an end the derivative is the one-sided derivative from inside, so that a value at its bound responds to a change. The
    derivative of `jnp.clip` is the mean of both sides. If both ends are equal, the result is their mean, with a zero
    derivative with respect to `x`.
    """
    is_point = low == high
    mean = 0.5 * (jnp.where(is_point, low, 0) + jnp.where(is_point, high, 0))
    inside = jnp.where(is_point, mean.astype(x.dtype), x)
    return jnp.where(x < low, low, jnp.where(x > high, high, inside))


def at_least(x: Array, low) -> Array:
    """Returns the maximum of `x` and `low`. At `low` the derivative is the one from above (see `clamped`)."""
    return jnp.where(x < low, low, x)


def beyond(x: Array, low, high) -> Array:
    """Returns how far `x` is above or (negative) below a range, zero within. At an end the derivative is from outside."""
    return jnp.where(x >= high, x - high, jnp.where(x <= low, x - low, 0))


def is_known(tree) -> bool:
    """Returns whether the numbers of a PyTree are concrete, not traced."""
    if isinstance(tree, np.ndarray | float | int):  # a fast path, in a tenth of the time
        return True
    return not any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(tree))


def floating(x) -> Array:
    """Returns a floating-point array: integers and lists take JAX's default precision."""
    if not isinstance(x, jax.Array):
        x = in_numpy(x)
        # NumPy casts take a tenth of the time.
        x = from_numpy(floating_numpy(x)) if isinstance(x, np.ndarray) else jnp.asarray(x)
    return x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(jnp.result_type(float))


def floating_numpy(x: np.ndarray) -> np.ndarray:
    """Returns a floating-point NumPy array: integers take JAX's default precision."""
    return x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(jnp.result_type(float))


def from_numpy(x: np.ndarray | Array) -> Array:
    """Converts a NumPy array to a JAX array; unlike `jnp.asarray`, it compiles nothing."""
    return jax.device_put(x) if isinstance(x, np.ndarray) else x


def pick(x: Array | np.ndarray, index, otherwise: Callable = operator.getitem) -> Any:
    """Returns `x[index]`, by NumPy if possible, which compiles nothing; otherwise `otherwise(x, index)`."""
    if isinstance(x, np.ndarray):
        return x[index]
    return from_numpy(np.asarray(np.asarray(x)[index])) if _is_at_hand(x) else otherwise(x, index)


def by_numpy(function: Callable, *arrays):
    """Returns `function(np, *arrays)` if possible, which compiles nothing; otherwise `function(jnp, *arrays)`.

    The function must only move numbers, so that both give the same result.
    """
    if get_opaque_trace_state() != NOTHING_TRACED or any(getattr(x, "committed", False) for x in arrays):
        return function(jnp, *arrays)
    return from_numpy(np.asarray(function(np, *map(np.asarray, arrays))))


def _is_at_hand(x) -> bool:
    """Returns whether NumPy may compute with an array: nothing is traced, and the array is not committed to devices."""
    return get_opaque_trace_state() == NOTHING_TRACED and not getattr(x, "committed", False)


def zeros(shape: tuple[int, ...], dtype=None) -> Array:
    """Returns zeros, by default in JAX's default precision, without compiling anything."""
    return from_numpy(np.zeros(shape, jnp.result_type(float) if dtype is None else dtype))


@functools.partial(jax.jit, inline=True)
def as_jax(x):
    """Converts a NumPy array to a JAX array, in a third of the time of `jnp.asarray` outside compiled functions.

    It compiles once per shape, so it is for shapes that occur thousands of times.
    """
    return jnp.asarray(x)


def unit_matrix(dtype=None) -> Float[Array, "3 3"]:
    """Returns the 3 x 3 unit matrix, which is cached, because models of many bodies use thousands of them."""
    return _unit_matrix(jnp.dtype(jnp.result_type(float) if dtype is None else dtype))


@functools.cache
def _unit_matrix(dtype) -> Array:
    with jax.ensure_compile_time_eval():  # also while a function is traced, so that the matrix is concrete
        return from_numpy(np.eye(3, dtype=dtype))  # `jnp.eye` would compile five programs


def in_numpy(x):
    """Converts a list of plain numbers to a NumPy array; returns anything else unchanged."""
    if isinstance(x, list | tuple) and not any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(x)):
        return np.asarray(x)
    return x


def with_numpy_leaves(make: Callable[[], T], *leaves) -> T:
    """Returns `make()` with its leaves replaced by copies of these leaves: NumPy arrays in JAX's default precision.

    Creating and reading NumPy arrays takes a tenth of the time, and models of many bodies are built of thousands of them.
    These objects are only for building a model: computations convert them to JAX arrays first.
    """
    precision = jax.dtypes.canonicalize_dtype(float)
    return jax.tree.unflatten(_structure_of(make), [np.array(leaf, precision) for leaf in leaves])


@functools.cache
def _structure_of(make):
    return jax.tree.structure(jax.eval_shape(make))


def with_precision(tree: T, dtype) -> T:
    """Returns a PyTree with its floating-point numbers in this precision, everything else unchanged."""

    def cast(leaf):
        if isinstance(leaf, jax.Array) and leaf.dtype == dtype and not leaf.weak_type:
            return leaf  # a hundred times faster than a JAX conversion
        array = isinstance(leaf, jax.Array | np.ndarray) and jnp.issubdtype(leaf.dtype, jnp.floating)
        if not (array or isinstance(leaf, float)):
            return leaf
        if _is_at_hand(leaf):
            with np.errstate(over="ignore"):  # as JAX does
                return from_numpy(np.asarray(leaf).astype(dtype))
        return jnp.asarray(leaf, dtype)

    return jax.tree.map(cast, tree)
