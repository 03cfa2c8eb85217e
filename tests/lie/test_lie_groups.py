"""Lie groups: laws of all groups, and maps with two derivatives compared with matrix functions.

The tests cover all angles and both precisions. Derivatives are compared along random directions, because no error in an
entry is orthogonal to these. The maps run uncompiled on 32 x 2 vectors at a time, also those of power groups, so that all
tests share the operations that JAX compiles.
"""

from functools import lru_cache

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
import scipy.linalg
from support import assert_close

from rbd_jax import Transform
from rbd_jax.lie import S3, SE3, SO3, Group, Power, Product, Rn, SO3xR3
from rbd_jax.lie.group import anything, vector


ALL = {
    "SO3": SO3,
    "SE3": SE3,
    "S3": S3,
    "SO3xR3": SO3xR3,
    "Rn": Rn(3),
    "product": Product(SE3, S3, SO3xR3, Rn(3)),
    "power": Power(Product(S3, Rn(3)), 2),
}
# Representatives of the other groups: SE(3) contains the maps of SO(3) in its blocks.
FACTORS = {"SE3": SE3, "S3": S3}


def cases(groups, everyday):
    """Parametrizes a test by groups in both precisions; daily only by groups that represent the others."""
    dtypes = {"float64": np.float64, "float32": np.float32}
    mark = lambda name, kind: [] if f"{name}-{kind}" in everyday else [pytest.mark.slow]
    return pytest.mark.parametrize(
        "group, dtype",
        [
            pytest.param(group, dtype, id=f"{name}-{kind}", marks=mark(name, kind))
            for name, group in groups.items()
            for kind, dtype in dtypes.items()
        ],
    )


TOLERANCES = {np.float64: 1e-13, np.float32: 2e-6}

# On both sides of the switch to closed forms and of half a turn, exactly at it, and below a whole turn.
SMALL = (0.0, 1e-300, 1e-12, 1e-10, 1e-8, 1e-4, 1e-2, 1e-1)
ANGLES = (*SMALL, 2 - 1e-5, 2 + 1e-5, 3.0, np.pi - 1e-7, np.pi - 1e-9, np.pi, np.pi + 1e-9, 5.5)


def vectors(group, angles, seed=0):
    """Returns four vectors of the algebra for each angle, as float64; all their rotations have this angle."""
    return np.stack(
        [_vector(group, angle, np.random.default_rng([seed, i]), i) for angle in angles for i in range(4)]
    )


def _vector(group, angle, rng, i):
    """Returns a vector about a random or special axis, with random linear entries; one with zero angle is all zero."""
    if isinstance(group, Power):
        return np.concatenate([_vector(group.group, angle, rng, i) for _ in range(group.n)])
    if isinstance(group, Product):
        return np.concatenate([_vector(factor, angle, rng, i) for factor in group.groups])
    beside = rng.normal(size=group.dim if isinstance(group, Rn) else group.dim - 3) * (angle > 0 or i < 2)
    if isinstance(group, Rn):
        return beside
    axis = (rng.normal(size=3), rng.normal(size=3), np.array([0, 1, 0]), np.array([-1, -1, -1]))[i]
    return np.concatenate([angle * axis / np.linalg.norm(axis), beside])


def batch(group, vectors, dtype=np.float64):
    """Returns 64 vectors in the batch shape."""
    shape = (32, group.dim) if isinstance(group, Power) else (32, 2, group.dim)
    return jnp.asarray(vectors[:: 2 if isinstance(group, Power) else 1], dtype).reshape(shape)


def numbers(arrays, axes):
    """Returns float64 arrays with all batch axes flattened into one; `axes` is the number of other axes."""
    flat = lambda a, n: np.asarray(a, np.float64).reshape(-1, *a.shape[a.ndim - n :])
    return [flat(a, n) for a, n in zip(arrays, axes)]


# Laws of all groups.


def everything(group: Group, x, y, z):
    """Returns all maps of a group, at `a = exp(x)`, `b = exp(y)`, `c = exp(z)`."""
    a, b, c = group.exp(x), group.exp(y), group.exp(z)
    ab = group.compose(a, b)
    matrices = {
        "a": a,
        "b": b,
        "ab": ab,
        "(ab)c": group.compose(ab, c),
        "a(bc)": group.compose(a, group.compose(b, c)),
        "a a⁻¹": group.compose(a, group.inverse(a)),
        "a⁻¹": group.inverse(a),
        "exp(-x)": group.exp(-x),
        "exp(0.3x) exp(0.7x)": group.compose(group.exp(x * 0.3), group.exp(x * 0.7)),
        "exp(log a)": group.exp(group.log(a)),
        "cay x": group.cayley(x),
        "cay -x": group.cayley(-x),
    }
    return {name: group.matrix(element) for name, element in matrices.items()} | {
        "log a": group.log(a),
        "cay⁻¹ cay x": group.cayley_inverse(group.cayley(x)),
        "vee hat x": group.vee(group.hat(x)),
        "hat x": group.hat(x),
        "hat y": group.hat(y),
        "[x, y]": group.bracket(x, y),
        "hat [x, y]": group.hat(group.bracket(x, y)),
        "ad x": group.ad(x),
        "Ad a": group.adjoint(a),
        "Ad b": group.adjoint(b),
        "Ad ab": group.adjoint(ab),
        "Ad cay x": group.adjoint(group.cayley(x)),
        "dexp_left x": group.dexp_left(x),
        "dexp_left_inverse x": group.dexp_left_inverse(x),
        "dexp_right x": group.dexp_right(x),
        "dexp_right_inverse x": group.dexp_right_inverse(x),
        "dcay_left x": group.dcay_left(x),
        "dcay_left_inverse x": group.dcay_left_inverse(x),
        "dcay_right x": group.dcay_right(x),
        "dcay_right_inverse x": group.dcay_right_inverse(x),
    }


@cases(ALL, everyday=["S3-float64"])
def test_laws(group, dtype):
    """The axioms of a group and those of its adjoints, exponential and Cayley map, with matrices as reference.

    Müller & Terze 2013 eqs. 4 to 9 and 12 to 34; Sueda eqs. 1.1 to 1.10 and 1.14 to 1.17; Gebhardt & Romero 2020 eqs. 14 to 17.
    """
    tolerance = TOLERANCES[dtype]
    v = vectors(group, ANGLES), vectors(group, [1.0] * 16, 1), vectors(group, [0.3] * 16, 2)
    x, y, z = (batch(group, a, dtype) for a in v)
    results = everything(group, x, y, z)
    assert all(result.dtype == dtype for result in results.values())
    unit = np.asarray(group.matrix(group.identity(dtype)))
    assert unit.dtype == dtype
    axes = [result.ndim - x.ndim + 1 for result in results.values()]
    f = dict(zip(results, numbers(results.values(), axes)))
    x, y = numbers((x, y), (1, 1))
    one, eye = np.eye(f["a"].shape[-1]), np.eye(group.dim)
    same = lambda p, q, factor=1: assert_close(p, np.broadcast_to(q, p.shape), factor * tolerance)

    assert (unit == one).all()
    same(f["ab"], f["a"] @ f["b"])
    same(f["(ab)c"], f["a(bc)"], 3)
    same(f["a a⁻¹"], one)
    same(f["a⁻¹"], np.linalg.inv(f["a"]))
    same(f["a⁻¹"], f["exp(-x)"])
    same(f["a"], scipy.linalg.expm(f["hat x"]))
    same(f["exp(0.3x) exp(0.7x)"], f["a"])
    same(f["exp(log a)"], f["a"])
    inside = np.repeat(np.array(ANGLES) <= 3, len(x) // len(ANGLES))
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

    same(f["cay x"], np.linalg.solve(one - f["hat x"] / 2, one + f["hat x"] / 2))
    same(f["cay x"] @ f["cay -x"], one)
    same(f["cay⁻¹ cay x"], x)
    same(f["dcay_left x"], f["Ad cay x"] @ f["dcay_right x"])
    same(f["dcay_left x"] @ f["dcay_left_inverse x"], eye)
    same(f["dcay_right x"] @ f["dcay_right_inverse x"], eye)


def test_one_at_a_time_is_the_same():
    """Leading axes are a batch: the result equals that of compiled vmap."""
    group = Product(Power(S3, 2), Rn(3))
    x = batch(group, vectors(group, [1.0] * 16))

    def maps(x):
        g = group.cayley(x)
        return (
            group.matrix(group.inverse(g)),
            group.cayley_inverse(g),
            group.adjoint(g),
            group.dcay_right_inverse(x),
        )

    for together, one in zip(maps(x), jax.jit(jax.vmap(jax.vmap(maps)))(x)):
        assert_close(together, one, 2e-15)


@lru_cache
def generators(group, name):
    """Returns the matrices `hat` or `ad` of the basis vectors, stacked along the last axis."""
    return np.stack(np.asarray(getattr(group, name)(jnp.eye(group.dim))), axis=-1)


# Derivatives of the maps that are more than products of others.

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


def with_derivatives(f, x, d, c):
    """Returns `f`, `f' d`, the pullback `cᵀ f'` and its derivative `cᵀ f'' d`, for a batch of `x` and of `d`.

    The first derivative is taken in forward and reverse mode, and the second in forward over reverse mode.
    """

    def value_and_pullback(x):
        value, pullback = jax.vjp(f, x)
        return value, pullback(jnp.broadcast_to(c, value.shape))[0]

    (value, reverse), (forward, second) = jax.jvp(value_and_pullback, (x,), (d,))
    return value, forward, reverse, second


def directions(group):
    """Returns two directions `d` and `e` in the algebra."""
    return np.random.default_rng(1).normal(size=(2, group.dim)) / np.sqrt(group.dim)


@lru_cache
def derivatives(group, name, angles, dtype):
    """Returns the vectors of the angles, rounded to the precision, the results of `with_derivatives`, and `c`.

    The derivatives are along the first direction; all arrays are float64.
    """
    x = batch(group, vectors(group, angles), dtype)
    f = lambda x: MAPS[name](group, x)
    shape = jax.eval_shape(f, x).shape[2:]
    c = jnp.asarray(np.random.default_rng(2).normal(size=shape) / max(shape), dtype)
    results = with_derivatives(f, x, jnp.broadcast_to(jnp.asarray(directions(group)[0], dtype), x.shape), c)
    assert all(r.dtype == dtype for r in results)
    n = len(shape)
    return numbers((x,), (1,))[0], numbers(results, (n, n, 1, 1)), np.asarray(c, np.float64)


def compare(actual, c, e, expected, tolerance):
    """Asserts that four results match the value, the derivatives along `d` and `e`, and the second along both."""
    value, along_d, along_e, along_both = expected
    assert_close(actual[0], value, tolerance)
    assert_close(actual[1], along_d, tolerance)
    assert_close(actual[2] @ e, np.sum(c * along_e), tolerance)
    assert_close(actual[3] @ e, np.sum(c * along_both), tolerance)


def with_two_derivatives(f, a, d, e):
    """Returns `f(A)`, its derivatives along D and along E, and the second along both, for a matrix function f.

    They are the blocks of `f(A + ε D + η E)` with nilpotent matrices ε and η that commute with each other.
    """
    nil, one = np.array([[0, 1], [0, 0]]), np.eye(2)
    epsilon, eta = np.kron(nil, one), np.kron(one, nil)
    result = f(np.kron(np.eye(4), a) + np.kron(epsilon, d) + np.kron(eta, e))
    n = len(a)
    return result[:n, :n], result[:n, 2 * n : 3 * n], result[:n, n : 2 * n], result[:n, 3 * n :]


def phi(a):
    """Returns `Σ_k A^k / (k + 1)!`, as a block of a matrix exponential."""
    n = len(a)
    return scipy.linalg.expm(np.block([[a, np.eye(n)], [np.zeros((n, 2 * n))]]))[:n, n:]


def cayley(a):
    one = np.eye(len(a))
    return np.linalg.solve(one - a / 2, one + a / 2)


# The maps that are functions of one matrix, and the algebra of this matrix.
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
    """Returns value and derivatives of a map, from matrix functions."""
    if name in FUNCTIONS:
        algebra, function = FUNCTIONS[name]
        basis = generators(group, algebra)
        return with_two_derivatives(function, basis @ x, basis @ d, basis @ e)
    basis, f = generators(group, "hat"), SANDWICHES[name]
    vee = np.linalg.pinv(basis.reshape(-1, group.dim))
    columns = []
    for y in np.moveaxis(basis, -1, 0):
        sandwich = lambda a, y=y: f(a) @ np.kron(np.eye(4), y) @ f(-a)
        columns.append(
            [vee @ b.ravel() for b in with_two_derivatives(sandwich, basis @ x, basis @ d, basis @ e)]
        )
    return np.moveaxis(columns, 0, -1)


@pytest.mark.parametrize("name", ["exp", "dexp_left", "dexp_left_inverse"])
@cases(FACTORS, everyday=["S3-float64"])
def test_exponential_map_against_matrix_functions(group, dtype, name):
    """These include Müller & Terze 2013 eqs. 8 to 11."""
    against_matrix_functions(group, dtype, name)


@pytest.mark.parametrize("name", ["cayley", "dcay_left", "dcay_left_inverse"])
@cases(FACTORS, everyday=["SE3-float64"])
def test_cayley_map_against_matrix_functions(group, dtype, name):
    against_matrix_functions(group, dtype, name)


def against_matrix_functions(group, dtype, name):
    x, actual, c = derivatives(group, name, ANGLES, dtype)
    d, e = directions(group)
    for i, xi in enumerate(x):
        # The inverse of dexp is infinite at a whole turn, which is close to the last angle.
        scale = 10 if name == "dexp_left_inverse" and i >= len(x) - 4 else 1
        compare([a[i] for a in actual], c, e, reference(group, name, xi, d, e), scale * TOLERANCES[dtype])


@cases(FACTORS, everyday=["S3-float64"])
def test_logarithm_undoes_the_exponential_map(group, dtype):
    undoes(group, dtype, "log exp")


@cases(FACTORS, everyday=["SE3-float64"])
def test_inverse_undoes_the_cayley_map(group, dtype):
    undoes(group, dtype, "cayley_inverse cayley")


def undoes(group, dtype, name):
    """A map and its inverse compose to the identity: the first derivative is the identity, the second is zero."""
    x, actual, c = derivatives(group, name, ANGLES, dtype)
    d, e = directions(group)
    # Beyond this angle the logarithm is a different vector, or may be because of rounding.
    most = {np.float64: np.pi, np.float32: np.pi - 1e-6}[dtype] if group is SE3 and name == "log exp" else 4
    for i in range(4 * sum(angle < most for angle in ANGLES)):
        compare([a[i] for a in actual], c, e, (x[i], d, e, 0), 2 * TOLERANCES[dtype])
    small = slice(4 * len(SMALL))
    np.testing.assert_allclose(
        actual[0][small, :3], x[small, :3], rtol=TOLERANCES[dtype]
    )  # tiny angles keep digits


@cases(FACTORS, everyday=["S3-float64"])
def test_exp_of_log_from_half_a_turn(group, dtype):
    """The logarithm has minimal length, gives the same element, and has finite derivatives."""
    x, (value, *slopes), _ = derivatives(group, "log exp", ANGLES, dtype)
    tolerance, basis = TOLERANCES[dtype], generators(group, "hat")
    for v, xi in zip(value[-12:], x[-12:]):
        assert_close(scipy.linalg.expm(basis @ v), scipy.linalg.expm(basis @ xi), 2 * tolerance)
    assert np.linalg.norm(value[:, :3], axis=1).max() <= (np.pi if group is SE3 else 5.5) * (1 + tolerance)
    assert all(np.isfinite(s).all() for s in slopes)


@pytest.mark.parametrize("group", FACTORS.values(), ids=FACTORS)
@pytest.mark.parametrize(
    "dtype, gap",
    [
        pytest.param(np.float64, 1e-7, id="float64"),
        pytest.param(np.float32, 1e-3, id="float32", marks=pytest.mark.slow),
    ],
)
def test_cayley_map_close_to_its_last_angle(group, dtype, gap):
    """Vectors that rotate by almost the largest angle are recovered, up to the rounding error of the gap."""
    length = {SE3: 2 * np.tan((np.pi - gap) / 2), S3: 4 * np.tan((2 * np.pi - gap) / 4)}[group]
    x, actual, c = derivatives(group, "cayley_inverse cayley", (length,) * 16, dtype)
    d, e = directions(group)
    for i, xi in enumerate(x):
        compare([a[i] for a in actual], c, e, (xi, d, e, 0), 10 * length * np.finfo(dtype).eps)


@pytest.mark.parametrize("group", FACTORS.values(), ids=FACTORS)
@pytest.mark.parametrize("name, derivative", [("exp", "dexp"), ("cayley", "dcay")])
def test_sides_of_the_derivatives(group, name, derivative):
    """`d exp(x) = hat(dexp_left(x) d) exp(x) = exp(x) hat(dexp_right(x) d)`, and likewise for the Cayley map."""
    x, (value, forward, *_), _ = derivatives(group, name, ANGLES, np.float64)
    x, d = batch(group, x), directions(group)[0]
    inverse, basis = np.linalg.inv(value), generators(group, "hat")
    for side, rate in (("left", forward @ inverse), ("right", inverse @ forward)):
        columns = np.asarray(getattr(group, f"{derivative}_{side}")(x) @ d).reshape(64, -1)
        assert_close(rate, np.einsum("ijk,bk->bij", basis, columns), 1e-13)


@pytest.mark.slow  # compiles each operation
@pytest.mark.parametrize(
    "group, name, angles",
    [
        (SE3, "log exp", ANGLES),
        (SE3, "dexp_left_inverse", ANGLES),
        (SE3, "cayley_inverse cayley", ANGLES),
        (S3, "log exp", (*ANGLES[:-1], 2 * np.pi)),
    ],
)
def test_no_step_makes_a_nan(group, name, angles):
    """Untaken branches have no NaN either: operations run and are checked individually."""
    derivatives.cache_clear()
    with jax.disable_jit(), jax.debug_nans(True), jax.debug_infs(True):
        derivatives(group, name, angles, np.float64)


def test_log_at_exactly_half_a_turn():
    """For exact matrices, the axis has the documented sign, and derivatives are finite."""
    half_turns = np.array([np.diag(d) for d in ([1.0, -1, -1], [-1.0, 1, -1], [-1.0, -1, 1], [1.0, 1, 1])])
    g = jnp.asarray(np.tile(half_turns, (16, 1, 1))).reshape(32, 2, 3, 3)
    d = jnp.asarray(np.random.default_rng(0).normal(size=g.shape))
    value, *slopes = with_derivatives(SO3.log, g, d, jnp.ones(3))
    assert_close(value.reshape(64, 3)[:3], np.pi * np.eye(3), 1e-15)
    assert all(np.isfinite(s).all() for s in slopes)
    infinite = ~np.isfinite(SO3.cayley_inverse(g)).all(axis=-1)
    assert (infinite.ravel() == np.tile([True, True, True, False], 16)).all()


def test_log_of_the_whole_turn():
    """At -1 and near it in S³, the logarithm differs from the rotation's, which is that of the identity."""
    axis = np.random.default_rng(0).normal(size=(60, 3)) * np.logspace(-12, -1, 60)[:, None]
    scalar = -np.sqrt(1 - np.sum(axis**2, axis=1, keepdims=True))
    g = np.concatenate([np.tile([-1.0, 0, 0, 0], (4, 1)), np.concatenate([scalar, axis], axis=1)])
    g = jnp.asarray(g).reshape(32, 2, 4)
    value, *slopes = with_derivatives(S3.log, g, jnp.ones_like(g), jnp.ones(3))
    assert_close(S3.exp(value), g, 3e-15)
    assert_close(value.reshape(64, 3)[:4], np.tile([2 * np.pi, 0, 0], (4, 1)), 1e-15)
    assert all(np.isfinite(s).all() for s in slopes)


def test_cayley_map_keeps_the_advance_of_a_screw():
    """The rigid motion of `[ω; h ω]` advances along the axis by `h ω`, as for the exponential map."""
    angular = batch(SO3, vectors(SO3, ANGLES))
    twists = jnp.concatenate([angular, 0.7 * angular], axis=-1)
    assert_close(SE3.cayley(twists).position, 0.7 * angular, 1e-15)
    assert_close(SE3.exp(twists).position, 0.7 * angular, 1e-15)


def test_composition_of_rotation_vectors():
    """Printed values of two successive rotations in the Matlab code of Müller, and two half turns."""
    x = [0.814723686393179, 0.905791937075619, 0.126986816293506]
    y = [0.913375856139019, 0.63235924622541, 0.09754040499941]
    half = [np.pi / np.sqrt(3)] * 3
    pairs = np.array([[x, y], [half, half], [x, [0.0] * 3], [[0.0] * 3, y]])
    x_, y_ = (batch(SO3, np.tile(pairs[:, i], (16, 1))) for i in (0, 1))
    rotation, quaternion = (
        np.asarray(group.log(group.compose(group.exp(x_), group.exp(y_)))).reshape(64, 3)[:4]
        for group in (SO3, S3)
    )
    printed = [1.723793103824437, 1.555433894116284, 0.04793275769471]
    assert_close(rotation, np.array([printed, [0.0] * 3, x, y]), 2e-15)
    assert abs(np.linalg.norm(rotation[0]) - 2.322312384891114) < 2e-15
    assert_close(quaternion[0], np.array(printed), 2e-15)
    assert abs(np.linalg.norm(quaternion[1]) - 2 * np.pi) < 1e-14


def test_log_of_a_printed_transform():
    """Sueda eq. 1.10, in an example of the notes."""
    rows = [
        [-0.7372, -0.2659, 0.6211, 0.6877],
        [-0.1676, -0.8186, -0.5493, 0.3886],
        [0.6545, -0.5091, 0.5589, 0.9371],
        [0, 0, 0, 1],
    ]
    twist = SE3.log(Transform.from_matrix(jnp.tile(jnp.array(rows), (32, 2, 1, 1))))[0, 0]
    np.testing.assert_allclose(twist, [1.1157, -0.9257, 2.7242, 1.3245, -0.6727, 0.3156], rtol=0, atol=2e-3)


def test_rate_of_a_printed_transform():
    """Sueda (eq. 1.8) in numbers: the rate of `E exp(t φ)` is `E [φ]`; four digits are printed, also for the difference."""
    rows = [
        [-0.9227, -0.3845, -0.0274, -0.5020],
        [0.2865, -0.6364, -0.7162, 0.4564],
        [0.2579, -0.6687, 0.6973, -1.5617],
    ]
    placed = Transform.from_matrix(jnp.array([*rows, [0, 0, 0, 1]]))
    twist = jnp.array([-0.1285, 1.2666, 0.8058, -0.6903, -0.5538, -0.1246])
    run = jax.jit(lambda step: SE3.compose(placed, SE3.exp(step * twist)).matrix)
    zero, one = jnp.zeros(()), jnp.ones(())
    rate = jax.jvp(run, (zero,), (one,))[1]
    printed = [
        [-0.2751, 0.7470, -1.2181, 0.8533],
        [0.3944, -0.1388, 0.2811, 0.2439],
        [-1.4221, -0.2974, 0.2408, 0.1054],
    ]
    np.testing.assert_allclose(rate[:3], printed, rtol=0, atol=2e-4)
    np.testing.assert_allclose((run(1e-5 * one) - run(-1e-5 * one)) / 2e-5, rate, atol=1e-9)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Product(), "Product: no groups; give it some"),
        (lambda: Product(SO3, 3), r"Product: groups\[1\] is a int; it takes groups, as in"),
        (lambda: Power(3, SO3), r"Power: group is a int; it takes a group, as in Power\(SE3, 5\)"),
        (lambda: Power(SE3, 0), "Power: n is 0; it is a positive integer"),
        (lambda: Rn(-1), "Rn: n is -1; it is a positive integer"),
        (lambda: Product(SO3, Rn(2)).exp(jnp.zeros(6)), r"must be \(..., 5\)"),
        (lambda: Power(SO3, 2).exp(jnp.zeros(5)), r"must be \(..., 6\)"),
    ],
)
def test_refusals(make, message, monkeypatch):
    """The functions check arguments themselves, as users have no annotation checks."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(ValueError, match=message):
        make()


T = SE3.identity()

#: Method, arguments of a wrong shape, and the error message.
WRONG = {
    "short vector": (lambda: SE3.ad(jnp.arange(5.0)), "SE3.ad: x has shape (5,); it must be (..., 6)"),
    "long vector": (lambda: S3.exp(jnp.arange(4.0)), "S3.exp: x has shape (4,); it must be (..., 3)"),
    "trivial map": (lambda: Rn(3).exp(jnp.zeros(4)), "Rn(3).exp: x has shape (4,); it must be (..., 3)"),
    "inherited": (lambda: SO3.dexp_right(jnp.zeros(2)), "SO3.dexp_right: x has shape (2,)"),
    "batch": (lambda: SE3.exp(jnp.zeros((5, 7))), "SE3.exp: x has shape (5, 7); it must be (..., 6)"),
    "number": (lambda: SO3.exp(1.0), "SO3.exp: x has shape (); it must be (..., 3)"),
    "list": (lambda: SO3.exp([1.0, 2.0]), "SO3.exp: x has shape (2,)"),
    "word": (lambda: SO3.exp("up"), "SO3.exp: x is 'up'; it takes an array of shape (..., 3)"),
    "by name": (lambda: SO3.bracket(jnp.zeros(3), y=jnp.zeros(2)), "SO3.bracket: y has shape (2,)"),
    "matrix": (lambda: SO3.log(jnp.zeros(3)), "SO3.log: g has shape (3,); it must be (..., 3, 3)"),
    "quaternion": (lambda: S3.compose(S3.identity(), jnp.zeros(3)), "S3.compose: b has shape (3,)"),
    "array for a Transform": (
        lambda: SE3.log(jnp.eye(4)),
        "SE3.log: g has shape (4, 4); it must be a Transform of 2 arrays, whose last axes are (3, 3), (3,)",
    ),
    "part of a Transform": (
        lambda: SE3.adjoint(Transform(jnp.eye(3), jnp.zeros(4))),
        "SE3.adjoint: g.position has shape (4,); it must be (..., 3)",
    ),
    "components": (lambda: Product(SO3, S3).log((jnp.eye(3),)), "Product(SO3, S3).log: g is ("),
    "component": (
        lambda: Product(SO3, S3).inverse((jnp.eye(3), jnp.eye(3))),
        "Product(SO3, S3).inverse: a[1] has shape (3, 3); it must be (..., 4)",
    ),
    "factors": (
        lambda: Power(SE3, 2).log(jax.tree.map(lambda x: jnp.stack([x] * 3), T)),
        "Power(SE3, 2).log: g.rotation has shape (3, 3, 3); it must be (..., 2, 3, 3)",
    ),
    "rows": (
        lambda: Power(SE3, 2).flat(jnp.zeros((3, 6))),
        "Power(SE3, 2).flat: rows has shape (3, 6); it must be (..., 2, 6)",
    ),
    "algebra": (
        lambda: SO3xR3.vee(jnp.zeros((4, 4))),
        "SO3xR3.vee: m has shape (4, 4); it must be (..., 7, 7)",
    ),
    "while tracing": (
        lambda: jax.eval_shape(jax.vmap(SE3.cayley), jnp.zeros((6, 5))),
        "SE3.cayley: x has shape (5,)",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_shapes_are_refused(case, monkeypatch):
    """The group and method raise the error before JAX sees the arguments."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    call, message = WRONG[case]
    with pytest.raises(ValueError) as caught:
        call()
    assert str(caught.value).startswith(message)


#: Methods of a group.
METHODS = sorted(
    name for name, method in vars(Group).items() if callable(method) and name != "identity" and name[0] != "_"
)


@pytest.mark.parametrize("name", ALL)
def test_every_method_checks_its_arguments(name, monkeypatch):
    """None is not accepted as a vector, an element or a matrix."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    group = ALL[name]
    for method in METHODS:
        count = 2 if method in ("compose", "bracket") else 1
        with pytest.raises(ValueError, match=rf"\.{method}: \w"):
            getattr(group, method)(*[None] * count)


class Renamed(Rn):
    """The group of vectors, with different argument names and additional methods."""

    own_signatures = {"twice": (vector,), "as_given": (anything,)}

    def exp(self, speed):
        return speed

    def twice(self, speed):
        return 2 * speed

    def as_given(self, thing):
        return thing


def test_checks_go_by_method_and_place(monkeypatch):
    """Checks do not depend on argument names."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    group = Renamed(3)
    for call in (group.exp, group.twice):
        assert call([1, 2, 3]).dtype == call(speed=[1, 2, 3]).dtype == jnp.float64
        for wrong in (lambda call=call: call([1, 2]), lambda call=call: call(speed=[1, 2])):
            with pytest.raises(
                ValueError, match=r"\.(exp|twice): speed has shape \(2,\); it must be \(..., 3\)"
            ):
                wrong()
    assert group.as_given("thing") == "thing"


def test_no_method_goes_unchecked_unseen():
    """A method with other parameters than the protocol's, or without a declaration, raises when the group is defined."""
    with pytest.raises(
        TypeError, match=r"Odd\.exp has the parameters \['x', 'scale'\] .* takes 1, .*: vector"
    ):

        class Odd(Group):
            def exp(self, x, scale=1.0):
                return x

    with pytest.raises(TypeError, match=r"Loose\.log has the parameters \['args'\]"):

        class Loose(Group):
            def log(self, *args):
                return args

    with pytest.raises(
        TypeError, match=r"Extra\.double is no method of a Group; list what it takes in Extra\.own"
    ):

        class Extra(Group):
            def double(self, x):
                return 2 * x


def test_lists_and_integers_are_taken():
    """They are converted to arrays of floats, also in batches."""
    same = lambda a, b: jax.tree.map(np.testing.assert_array_equal, a, b)
    for map in (SO3.exp, SO3.dexp_right):
        made = jax.eval_shape(lambda map=map: map([1, 2, 3]))
        assert made.shape == (3, 3) and made.dtype == jnp.float64
    same(S3.inverse([1, 0, 0, 0]), jnp.array([1.0, 0, 0, 0]))
    same(SE3.ad(np.arange(12).reshape(2, 6)), SE3.ad(jnp.arange(12.0).reshape(2, 6)))
    pair, turn = Product(SO3, Rn(2)), np.eye(3, dtype=int).tolist()
    same(pair.log([turn, [3, 4]]), jnp.array([0, 0, 0, 3.0, 4.0]))
    assert Rn(2).exp([1, 2]).dtype == jnp.float64
    assert Rn(2).exp(np.zeros(2, np.float32)).dtype == jnp.float32


def test_checks_leave_no_trace_in_compiled_functions():
    """This holds for arguments that are float arrays already."""
    power = Power(SO3, 2)
    operations = str(jax.make_jaxpr(Rn(3).compose)(jnp.zeros((2, 3)), jnp.zeros((2, 3))))
    assert operations.count("=") == 1
    assert jax.make_jaxpr(power.inverse)(power.identity()).eqns[0].primitive.name == "transpose"
