"""Lie groups: laws of all groups, and values with two derivatives of all maps against matrix functions, at all
angles and in both precisions.

The derivatives are compared along random directions, which no error in an entry is orthogonal to.
"""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from rbd_jax.lie import S3, SE3, SO3, Group, Power, Product, Rn, SO3xR3
from rbd_jax.spatial import Transform


MIXED = Product(SO3, Power(SE3, 2), SO3xR3, S3, Rn(2))
ALL = {
    "SO3": SO3,
    "SE3": SE3,
    "S3": S3,
    "SO3xR3": SO3xR3,
    "Rn": Rn(4),
    "product": Product(S3, Rn(2)),
    "power": Power(Product(SO3xR3, S3), 2),
    "mixed": MIXED,
}
TOLERANCES = {np.float64: 1e-13, np.float32: 2e-6}
# The precisions, and how far from zero or half a turn rounding lets an angle be.
NEAR = (0.0, 1e-10, 1e-4, 1e-2, 2.5, np.pi - 1e-7, np.pi)


def vectors(group, angle, seed=0):
    """Four vectors of the algebra with the given angle in each rotation, about random and particular axes."""
    return np.stack([_vector(group, angle, np.random.default_rng([seed, i]), i) for i in range(4)])


def _vector(group, angle, rng, i):
    if isinstance(group, Power):
        return np.concatenate([_vector(group.group, angle, rng, i) for _ in range(group.n)])
    if isinstance(group, Product):
        return np.concatenate([_vector(factor, angle, rng, i) for factor in group.groups])
    if isinstance(group, Rn):
        return rng.normal(size=group.n)
    axis = (rng.normal(size=3), rng.normal(size=3), np.array([0, 1, 0]), np.array([-1, -1, -1]))[i]
    return np.concatenate([angle * axis / np.linalg.norm(axis), rng.normal(size=group.dim - 3)])


def close(actual, expected, tolerance):
    scale = max(1, np.max(np.abs(expected)))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * scale)


def numbers(tree):
    return jax.tree.map(lambda array: np.asarray(array, np.float64), tree)


# Laws, for all groups.


def everything(group: Group, x, y, z):
    """All maps of a group, at `a = exp(x)`, `b = exp(y)`, `c = exp(z)`."""
    a, b, c = group.exp(x), group.exp(y), group.exp(z)
    ab, unit = group.compose(a, b), group.identity(x.dtype)
    matrices = {
        "unit": unit,
        "a": a,
        "b": b,
        "ab": ab,
        "(ab)c": group.compose(ab, c),
        "a(bc)": group.compose(a, group.compose(b, c)),
        "1a": group.compose(unit, a) if x.ndim == 1 else a,
        "a a⁻¹": group.compose(a, group.inverse(a)),
        "a⁻¹": group.inverse(a),
        "exp(-x)": group.exp(-x),
        "exp(0.3x) exp(0.7x)": group.compose(group.exp(x * 0.3), group.exp(x * 0.7)),
        "exp(log a)": group.exp(group.log(a)),
        "cay y": group.cayley(y),
        "cay -y": group.cayley(-y),
    }
    return {name: group.matrix(element) for name, element in matrices.items()} | {
        "log a": group.log(a),
        "cay⁻¹ cay y": group.cayley_inverse(group.cayley(y)),
        "vee hat x": group.vee(group.hat(x)),
        "hat x": group.hat(x),
        "hat y": group.hat(y),
        "[x, y]": group.bracket(x, y),
        "hat [x, y]": group.hat(group.bracket(x, y)),
        "ad x": group.ad(x),
        "Ad a": group.adjoint(a),
        "Ad b": group.adjoint(b),
        "Ad ab": group.adjoint(ab),
        "Ad cay y": group.adjoint(group.cayley(y)),
        "dexp_left x": group.dexp_left(x),
        "dexp_left_inverse x": group.dexp_left_inverse(x),
        "dexp_right x": group.dexp_right(x),
        "dexp_right_inverse x": group.dexp_right_inverse(x),
        "dcay_left y": group.dcay_left(y),
        "dcay_left_inverse y": group.dcay_left_inverse(y),
        "dcay_right y": group.dcay_right(y),
        "dcay_right_inverse y": group.dcay_right_inverse(y),
    }


def samples(group, dtype):
    """Triples of vectors, the first near the singular angles."""
    x = np.concatenate([vectors(group, angle) for angle in NEAR])
    y = np.concatenate([vectors(group, 1.0, 1)] * len(NEAR))
    z = np.concatenate([vectors(group, 0.3, 2)] * len(NEAR))
    return [jnp.asarray(v, dtype) for v in (x, y, z)]


@pytest.mark.parametrize(
    "name, dtype", [(name, np.float64) for name in ALL if name != "mixed"] + [("mixed", np.float32)]
)
def test_laws(name, dtype):
    """The axioms of a group and those of its adjoints, exponential and Cayley map, with matrices as reference.

    The product of all groups stands for all of them in single precision.
    """
    group, tolerance = ALL[name], TOLERANCES[dtype]
    x, y, z = samples(group, dtype)
    results = jax.jit(jax.vmap(lambda *v: everything(group, *v)))(x, y, z)
    assert all(result.dtype == dtype for result in results.values())
    x, y, z, f = *numbers((x, y, z)), numbers(results)
    one, eye = np.eye(f["a"].shape[-1]), np.eye(group.dim)
    same = lambda p, q, factor=1: close(p, np.broadcast_to(q, p.shape), factor * tolerance)

    same(f["unit"], one)
    same(f["ab"], f["a"] @ f["b"])
    same(f["(ab)c"], f["a(bc)"], 3)
    same(f["1a"], f["a"])
    same(f["a a⁻¹"], one)
    same(f["a⁻¹"], np.linalg.inv(f["a"]))
    same(f["a⁻¹"], f["exp(-x)"])
    same(f["a"], scipy.linalg.expm(f["hat x"]))
    same(f["exp(0.3x) exp(0.7x)"], f["a"])
    same(f["exp(log a)"], f["a"])
    inside = np.repeat(np.array(NEAR) < np.pi - 1e-6, 4)
    same(f["log a"][inside], x[inside])

    assert (f["vee hat x"] == x).all()
    same(f["hat [x, y]"], f["hat x"] @ f["hat y"] - f["hat y"] @ f["hat x"])
    same(f["[x, y]"], np.einsum("bij,bj->bi", f["ad x"], y))
    basis = generators(group, "hat")
    rotated = np.einsum("bij,jlk,blm->bimk", f["a"], basis, f["a⁻¹"])
    same(np.einsum("ijk,bkl->bijl", basis, f["Ad a"]), rotated)
    same(f["Ad ab"], f["Ad a"] @ f["Ad b"])
    same(f["Ad a"], scipy.linalg.expm(f["ad x"]))

    same(f["dexp_left x"], f["Ad a"] @ f["dexp_right x"])
    same(f["dexp_left x"] @ f["dexp_left_inverse x"], eye)
    same(f["dexp_right x"] @ f["dexp_right_inverse x"], eye)

    same(f["cay y"], np.linalg.solve(one - f["hat y"] / 2, one + f["hat y"] / 2))
    same(f["cay y"] @ f["cay -y"], one)
    same(f["cay⁻¹ cay y"], y)
    same(f["dcay_left y"], f["Ad cay y"] @ f["dcay_right y"])
    same(f["dcay_left y"] @ f["dcay_left_inverse y"], eye)
    same(f["dcay_right y"] @ f["dcay_right_inverse y"], eye)


def test_leading_axes_are_a_batch():
    """What vmap gives, for all groups, as the parts of a product."""
    v = [jnp.asarray(vectors(MIXED, angle)).reshape(2, 2, MIXED.dim) for angle in (1.0, 2.0, 0.3)]
    batch = jax.jit(lambda v: everything(MIXED, *v))(v)
    one_by_one = jax.jit(jax.vmap(jax.vmap(lambda *v: everything(MIXED, *v))))(*v)
    for name, values in one_by_one.items():
        if name != "unit":
            close(batch[name], values, 2e-15)


@lru_cache
def generators(group, name):
    """The matrices `hat` or `ad` of the basis vectors, stacked along the last axis."""
    return np.stack(np.asarray(getattr(group, name)(jnp.eye(group.dim))), axis=-1)


# Derivatives, of the maps that are more than products of others.

LENGTHS = (0.0, 1e-300, 1e-12, 1e-8, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
ANGLES = (*LENGTHS, 2 - 1e-5, 2 + 1e-5, 3.0, np.pi - 1e-9, np.pi, np.pi + 1e-9, 5.5)

MAPS = {
    "exp": lambda group, x: group.matrix(group.exp(x)),
    "dexp_left": lambda group, x: group.dexp_left(x),
    "dexp_left_inverse": lambda group, x: group.dexp_left_inverse(x),
    "log exp": lambda group, x: group.log(group.exp(x)),
    "cayley": lambda group, x: group.matrix(group.cayley(x)),
    "dcay_left": lambda group, x: group.dcay_left(x),
    "dcay_left_inverse": lambda group, x: group.dcay_left_inverse(x),
    "cayley_inverse cayley": lambda group, x: group.cayley_inverse(group.cayley(x)),
}


@lru_cache
def compiled(group, name):
    """A map `f`, `f' d`, the pullback `cᵀ f'` and its derivative `cᵀ f'' d`, for many `x` and the same `d`
    and `c`.

    So the first derivative is taken forward and in reverse, and the second forward over reverse.
    """

    def together(x, d, c):
        def value_and_pullback(x):
            value, pullback = jax.vjp(lambda x: MAPS[name](group, x), x)
            return value, pullback(c)[0]

        (value, reverse), (forward, second) = jax.jvp(value_and_pullback, (x,), (d,))
        return value, forward, reverse, second

    return jax.jit(jax.vmap(together, in_axes=(0, None, None)))


def directions(group):
    """Two directions `d` and `e` in the algebra."""
    return np.random.default_rng(1).normal(size=(2, group.dim)) / np.sqrt(group.dim)


def derivatives(group, name, x, dtype):
    """Those four for each of the vectors, as float64, along the first of the directions; and the `c`."""
    x = jnp.asarray(x, dtype)
    shape = jax.eval_shape(lambda x: MAPS[name](group, x), x[0]).shape
    c = np.random.default_rng(2).normal(size=shape) / max(shape)
    results = compiled(group, name)(*(jnp.asarray(a, dtype) for a in (x, directions(group)[0], c)))
    assert all(r.dtype == dtype for r in results)
    return numbers(results), np.asarray(jnp.asarray(c, dtype), np.float64)


def compare(actual, c, e, expected, tolerance):
    """Four results with the value, the derivatives along `d` and along `e`, and the second along both."""
    value, along_d, along_e, along_both = expected
    close(actual[0], value, tolerance)
    close(actual[1], along_d, tolerance)
    close(actual[2] @ e, np.sum(c * along_e), tolerance)
    close(actual[3] @ e, np.sum(c * along_both), tolerance)


def rounded(group, angles, dtype):
    """The vectors of all the angles as they are in the precision, as float64."""
    return np.concatenate([vectors(group, angle) for angle in angles]).astype(dtype).astype(np.float64)


def with_two_derivatives(f, a, d, e):
    """`f(A)`, its derivatives along D and along E, and the second along both, for a function f of a matrix.

    They are the blocks of `f(A + ε D + η E)` with nilpotent matrices ε and η that commute with each other.
    """
    nil, one = np.array([[0, 1], [0, 0]]), np.eye(2)
    epsilon, eta = np.kron(nil, one), np.kron(one, nil)
    result = f(np.kron(np.eye(4), a) + np.kron(epsilon, d) + np.kron(eta, e))
    n = len(a)
    return result[:n, :n], result[:n, 2 * n : 3 * n], result[:n, n : 2 * n], result[:n, 3 * n :]


def phi(a):
    """`Σ_k A^k / (k + 1)!`, as a block of a matrix exponential."""
    n = len(a)
    return scipy.linalg.expm(np.block([[a, np.eye(n)], [np.zeros((n, 2 * n))]]))[:n, n:]


def cayley(a):
    one = np.eye(len(a))
    return np.linalg.solve(one - a / 2, one + a / 2)


# The maps that are functions of one matrix, with the algebra that it is of.
FUNCTIONS = {
    "exp": ("hat", scipy.linalg.expm),
    "dexp_left": ("ad", phi),
    "dexp_left_inverse": ("ad", lambda a: np.linalg.inv(phi(a))),
    "cayley": ("hat", cayley),
}

# The maps `y ↦ f(X) Y f(-X)`, hatted.
SANDWICHES = {
    "dcay_left": lambda a: np.linalg.inv(np.eye(len(a)) - a / 2),
    "dcay_left_inverse": lambda a: np.eye(len(a)) - a / 2,
}


def reference(group, name, x, d, e):
    """Value and derivatives of a map from functions of matrices."""
    if name in FUNCTIONS:
        algebra, function = FUNCTIONS[name]
        basis = generators(group, algebra)
        return with_two_derivatives(function, basis @ x, basis @ d, basis @ e)
    basis, f = generators(group, "hat"), SANDWICHES[name]
    vee = np.linalg.pinv(basis.reshape(-1, group.dim))
    columns = []
    for y in np.moveaxis(basis, -1, 0):
        sandwich = lambda a: f(a) @ np.kron(np.eye(4), y) @ f(-a)
        columns.append([vee @ b.ravel() for b in with_two_derivatives(sandwich, basis @ x, basis @ d, basis @ e)])
    return np.moveaxis(columns, 0, -1)


# SE(3) has the maps of SO(3) in its blocks, and S³ inherits the derivatives of the exponential map.
FAST = [(SE3, name, np.float64) for name in (*FUNCTIONS, *SANDWICHES)]
FAST += [(S3, name, np.float64) for name in ("exp", "cayley", *SANDWICHES)]
FAST += [(SE3, name, np.float32) for name in ("exp", "cayley", *SANDWICHES)]
FAST += [(SO3, name, np.float32) for name in ("dexp_left", "dexp_left_inverse")]
SLOW = [(SE3, name, np.float32) for name in ("dexp_left", "dexp_left_inverse")]
SLOW += [(S3, name, np.float32) for name in (*FUNCTIONS, *SANDWICHES)]
SLOW += [(SO3, name, np.float64) for name in (*FUNCTIONS, *SANDWICHES)]


def cases(fast, slow):
    """The test's parameters, those of the second list for the slow run."""
    label = lambda case: "-".join(type(c).__name__ if isinstance(c, Group) else getattr(c, "__name__", c) for c in case)
    return [pytest.param(*case, id=label(case)) for case in fast] + [
        pytest.param(*case, id=label(case), marks=pytest.mark.slow) for case in slow
    ]


@pytest.mark.parametrize("group, name, dtype", cases(FAST, SLOW))
def test_against_matrix_functions(group, name, dtype):
    """The inverse of dexp is infinite at the whole turn, so that it is less accurate at the largest angle."""
    x, (d, e) = rounded(group, ANGLES, dtype), directions(group)
    actual, c = derivatives(group, name, x, dtype)
    for i, xi in enumerate(x):
        scale = 10 if name == "dexp_left_inverse" and i >= len(x) - 4 else 1
        compare([a[i] for a in actual], c, e, reference(group, name, xi, d, e), scale * TOLERANCES[dtype])


INVERSES = [(SO3, "log exp", np.float32), (SE3, "log exp", np.float64), (S3, "log exp", np.float64)]
INVERSES += [(SE3, "cayley_inverse cayley", dtype) for dtype in TOLERANCES]
INVERSES += [(S3, "cayley_inverse cayley", np.float64)]
SLOW_INVERSES = [(SE3, "log exp", np.float32), (S3, "log exp", np.float32), (SO3, "log exp", np.float64)]
SLOW_INVERSES += [(S3, "cayley_inverse cayley", np.float32), (SO3, "cayley_inverse cayley", np.float64)]


@pytest.mark.parametrize("group, name, dtype", cases(INVERSES, SLOW_INVERSES))
def test_inverse_maps(group, name, dtype):
    """What undoes a map of the algebra has, after it, the identity for derivative and no second derivative."""
    angles, (d, e) = [angle for angle in ANGLES if angle < np.pi], directions(group)
    if dtype == np.float32:
        angles.remove(np.pi - 1e-9)  # rounds to half a turn
    x = rounded(group, angles, dtype)
    actual, c = derivatives(group, name, x, dtype)
    for i, xi in enumerate(x):
        compare([a[i] for a in actual], c, e, (xi, d, e, 0), 2 * TOLERANCES[dtype])
    np.testing.assert_allclose(actual[0][:, :3], x[:, :3], rtol=TOLERANCES[dtype])  # tiny angles keep their digits


@pytest.mark.parametrize("group, dtype", [(SO3, np.float32), (SE3, np.float64)], ids=["float32", "float64"])
@pytest.mark.parametrize("angle", [np.pi, np.pi + 1e-9, 5.5])
def test_exp_of_log_from_half_a_turn(group, dtype, angle):
    """The logarithm is one of the same element, no longer than half a turn, with finite derivatives."""
    x, tolerance = vectors(group, angle), TOLERANCES[dtype]
    (value, *slopes), _ = derivatives(group, "log exp", x, dtype)
    basis = generators(group, "hat")
    for v, xi in zip(value, x):
        close(scipy.linalg.expm(basis @ v), scipy.linalg.expm(basis @ xi), tolerance)
    assert np.linalg.norm(value[:, :3], axis=1).max() <= np.pi * (1 + tolerance)
    assert all(np.isfinite(s).all() for s in slopes)


@pytest.mark.parametrize("group, below", [(SE3, np.pi), (S3, 2 * np.pi)], ids=["SE3", "S3"])
@pytest.mark.parametrize("dtype, gap", [(np.float64, 1e-7), (np.float32, 1e-3)], ids=["float64", "float32"])
def test_cayley_close_to_its_last_angle(group, below, dtype, gap):
    """Vectors so long that they turn by all but the gap: they come back, as far as rounding tells the gap."""
    length = (4 if group is S3 else 2) * np.tan((below - gap) / (4 if group is S3 else 2))
    x, (d, e) = rounded(group, [length], dtype), directions(group)
    x[:, 3:] *= length
    actual, c = derivatives(group, "cayley_inverse cayley", x, dtype)
    for i, xi in enumerate(x):
        compare([a[i] / length for a in actual], c, e, (xi / length, d / length, e / length, 0), 1)
