"""SO(3) and SE(3): laws, values and two derivatives against matrix exponentials, at all angles and in both
precisions.

The derivatives are compared along random directions, which no error in an entry is orthogonal to.
"""

from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from rbd_jax.lie import SE3, SO3
from rbd_jax.spatial import Transform


GROUPS = pytest.mark.parametrize("group", [SO3, SE3], ids=["SO3", "SE3"])
PRECISIONS = pytest.mark.parametrize(
    "dtype, tolerance", [(np.float64, 1e-13), (np.float32, 2e-6)], ids=["float64", "float32"]
)
ANGLES = {
    "zero": 0.0,
    "1e-300": 1e-300,
    "1e-12": 1e-12,
    "1e-8": 1e-8,
    "1e-4": 1e-4,
    "1e-3": 1e-3,
    "1e-2": 1e-2,
    "1e-1": 1e-1,
    "one": 1.0,
    "below the closed form": 2 - 1e-5,
    "in the closed form": 2 + 1e-5,
    "three": 3.0,
    "below half a turn": np.pi - 1e-9,
    "half a turn": np.pi,
    "above half a turn": np.pi + 1e-9,
    "large": 5.5,
}


def vectors(group, angle, seed=0):
    """Four vectors of the algebra with the given angle, about two random and two particular axes."""
    rng = np.random.default_rng(seed)
    axes = np.concatenate([rng.normal(size=(2, 3)), [[0, 1, 0], [-1, -1, -1]]])
    x = angle * axes / np.linalg.norm(axes, axis=1, keepdims=True)
    return x if group is SO3 else np.concatenate([x, rng.normal(size=(4, 3))], axis=1)


def as_matrix(g):
    return g.matrix if isinstance(g, Transform) else g


# What is tested with its derivatives, as functions of a vector of the algebra.
MAPS = {
    "exp": lambda group, x: as_matrix(group.exp(x)),
    "dexp_left": lambda group, x: group.dexp_left(x),
    "dexp_left_inverse": lambda group, x: group.dexp_left_inverse(x),
    "log exp": lambda group, x: group.log(group.exp(x)),
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
            return value, pullback(jnp.broadcast_to(c, value.shape))[0]

        (value, reverse), (forward, second) = jax.jvp(value_and_pullback, (x,), (d,))
        return value, forward, reverse, second

    return jax.jit(jax.vmap(together, in_axes=(0, None, None)))


def directions(group):
    """Two directions `d` and `e` in the algebra."""
    return np.random.default_rng(1).normal(size=(2, group.dim)) / np.sqrt(group.dim)


def derivatives(group, name, x, dtype):
    """Those four for each of the vectors, as float64, along the first of the directions; and the `c`."""
    size = {"exp": 3 if group is SO3 else 4}.get(name, group.dim)
    c = np.random.default_rng(2).normal(size=(size,) if name == "log exp" else (size, size)) / size
    results = compiled(group, name)(*(jnp.asarray(a, dtype) for a in (x, directions(group)[0], c)))
    assert all(r.dtype == dtype for r in results)
    return tuple(np.asarray(r, np.float64) for r in results), c


def compare(actual, c, e, expected, tolerance):
    """Four results with the value, the derivatives along `d` and along `e`, and the second along both."""
    value, along_d, along_e, along_both = expected
    close(actual[0], value, tolerance)
    close(actual[1], along_d, tolerance)
    close(actual[2] @ e, np.sum(c * along_e), tolerance)
    close(actual[3] @ e, np.sum(c * along_both), tolerance)


def close(actual, expected, tolerance):
    scale = max(1, np.max(np.abs(expected)))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * scale)


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


def rounded(group, angle, dtype):
    """The vectors as they are in the precision, as float64."""
    return np.asarray(vectors(group, angle), dtype).astype(np.float64)


@lru_cache
def generators(group, name):
    """The matrices `hat` or `ad` of the basis vectors, stacked along the last axis."""
    return np.stack([np.asarray(getattr(group, name)(v)) for v in jnp.eye(group.dim)], axis=-1)


@GROUPS
@PRECISIONS
@pytest.mark.parametrize("angle", ANGLES.values(), ids=ANGLES)
@pytest.mark.parametrize("name", ["exp", "dexp_left"])
def test_against_matrix_exponentials(group, dtype, tolerance, angle, name):
    x, (d, e) = rounded(group, angle, dtype), directions(group)
    actual, c = derivatives(group, name, x, dtype)
    algebra, function = ("hat", scipy.linalg.expm) if name == "exp" else ("ad", phi)
    basis = generators(group, algebra)
    for i, xi in enumerate(x):
        expected = with_two_derivatives(function, basis @ xi, basis @ d, basis @ e)
        compare([a[i] for a in actual], c, e, expected, tolerance)


@GROUPS
@PRECISIONS
@pytest.mark.parametrize("angle", ANGLES.values(), ids=ANGLES)
def test_dexp_inverse(group, dtype, tolerance, angle):
    """The inverse of `phi(ad)`, also as a function of nilpotent perturbations of `ad`."""
    x, (d, e) = rounded(group, angle, dtype), directions(group)
    actual, c = derivatives(group, "dexp_left_inverse", x, dtype)
    basis = generators(group, "ad")
    scale = 10 if angle > 5 else 1  # near the whole turn, where the inverse is infinite
    for i, xi in enumerate(x):
        expected = with_two_derivatives(lambda a: np.linalg.inv(phi(a)), basis @ xi, basis @ d, basis @ e)
        compare([a[i] for a in actual], c, e, expected, scale * tolerance)


@GROUPS
@PRECISIONS
@pytest.mark.parametrize("name", [name for name, angle in ANGLES.items() if angle < np.pi])
def test_log_of_exp(group, dtype, tolerance, name):
    """The logarithm undoes the exponential: its derivative is the identity, its second derivative zero."""
    if name == "below half a turn" and dtype == np.float32:
        pytest.skip("rounds to half a turn")
    x, (d, e) = rounded(group, ANGLES[name], dtype), directions(group)
    actual, c = derivatives(group, "log exp", x, dtype)
    for i, xi in enumerate(x):
        compare([a[i] for a in actual], c, e, (xi, d, e, 0), tolerance)
    np.testing.assert_allclose(actual[0][:, :3], x[:, :3], rtol=tolerance)  # tiny angles keep their digits


@GROUPS
@PRECISIONS
@pytest.mark.parametrize("angle", [np.pi, np.pi + 1e-9, 5.5])
def test_exp_of_log_from_half_a_turn(group, dtype, tolerance, angle):
    """The logarithm is one of the same element, no longer than half a turn, with finite derivatives."""
    x = vectors(group, angle)
    (value, *slopes), _ = derivatives(group, "log exp", x, dtype)
    again, there = (derivatives(group, "exp", v, dtype)[0][0] for v in (value, x))
    close(again, there, tolerance)
    assert np.linalg.norm(value[:, :3], axis=1).max() <= np.pi * (1 + tolerance)
    assert all(np.isfinite(s).all() for s in slopes)


def test_log_at_exactly_half_a_turn():
    """Matrices without rounding: the axis has the documented sign, and derivatives are finite."""
    matrices = jnp.stack([jnp.diag(jnp.array(d)) for d in ([1.0, -1, -1], [-1.0, 1, -1], [-1.0, -1, 1])])
    log = SO3.log
    derivatives = lambda m: (log(m), jax.jacrev(log)(m), jax.hessian(log)(m))
    value, first, second = jax.jit(jax.vmap(derivatives))(matrices)
    close(value, np.pi * np.eye(3), 1e-15)
    assert np.isfinite(first).all() and np.isfinite(second).all()


@GROUPS
def test_derivatives_at_zero(group):
    """The whole arrays, of `I + X/2 + X²/6`, `I - X/2 + X²/12` and `I + X + X²/2`, term by term."""
    zero = jnp.zeros(group.dim)

    def arrays(x):
        functions = [
            lambda x, name=name: MAPS[name](group, x) for name in ("exp", "dexp_left", "dexp_left_inverse")
        ]
        return [(f(x), jax.jacrev(f)(x), jax.jacfwd(jax.jacrev(f))(x)) for f in functions]

    series = (("hat", 1, 1 / 2), ("ad", 1 / 2, 1 / 6), ("ad", -1 / 2, 1 / 12))
    for (value, first, second), (algebra, linear, square) in zip(jax.jit(arrays)(zero), series):
        basis = generators(group, algebra)
        products = np.einsum("abi,bcj->acij", basis, basis)
        close(value, np.eye(len(value)), 0)
        close(first, linear * basis, 1e-16)
        close(second, square * (products + np.swapaxes(products, -1, -2)), 1e-16)


@GROUPS
@pytest.mark.parametrize("angle", ANGLES.values(), ids=ANGLES)
def test_dexp_is_the_derivative_of_exp(group, angle):
    """`d exp(x) = hat(dexp_left(x) d) exp(x) = exp(x) hat(dexp_right(x) d)`."""
    x, d = jnp.asarray(vectors(group, angle)), jnp.asarray(directions(group)[0])
    (value, forward, *_), _ = derivatives(group, "exp", x, np.float64)
    inverse = np.linalg.inv(value)
    left, right = dexps(group, x)
    close(group.vee(jnp.asarray(forward @ inverse)), left @ d, 1e-14)
    close(group.vee(jnp.asarray(inverse @ forward)), right @ d, 1e-14)


@partial(jax.jit, static_argnums=0)
def dexps(group, x):
    return group.dexp_left(x), group.dexp_right(x)


@GROUPS
@PRECISIONS
def test_group_laws(group, dtype, tolerance):
    """Axioms, and the laws of the adjoints, with the 4x4 or 3x3 matrices as the reference."""
    vector = lambda angle, seed: jnp.asarray(vectors(group, angle, seed)[0], dtype)
    x, y, z = vector(2.5, 3), vector(1.0, 4), vector(0.3, 5)
    a, b, c = group.exp(x), group.exp(y), group.exp(z)
    same = lambda p, q: close(np.asarray(as_matrix(p)), np.asarray(as_matrix(q)), tolerance)
    unit = as_matrix(group.identity(dtype))
    assert unit.dtype == dtype and as_matrix(a).dtype == dtype and group.log(a).dtype == dtype
    same(unit, np.eye(len(unit)))
    same(group.compose(group.compose(a, b), c), group.compose(a, group.compose(b, c)))
    same(group.compose(a, b), as_matrix(a) @ as_matrix(b))
    same(group.compose(a, group.inverse(a)), unit)
    same(group.inverse(a), group.exp(-x))
    rotation = as_matrix(a)[:3, :3]
    same(rotation @ rotation.T, np.eye(3))
    assert np.linalg.det(rotation) > 0

    assert (group.vee(group.hat(x)) == x).all()
    same(group.hat(group.adjoint(a) @ y), as_matrix(a) @ group.hat(y) @ as_matrix(group.inverse(a)))
    same(group.adjoint(group.compose(a, b)), group.adjoint(a) @ group.adjoint(b))
    same(group.adjoint(a), scipy.linalg.expm(np.asarray(group.ad(x))))
    same(group.hat(group.bracket(x, y)), group.hat(x) @ group.hat(y) - group.hat(y) @ group.hat(x))
    same(group.ad(x) @ y, group.bracket(x, y))
    same(group.dexp_left(x), group.adjoint(a) @ group.dexp_right(x))
    same(group.dexp_right_inverse(x) @ group.dexp_right(x), np.eye(group.dim))


@GROUPS
def test_one_at_a_time_is_the_same(group):
    """Leading axes are a batch: what vmap gives."""
    x = jnp.asarray(vectors(group, 1.0)).reshape(2, 2, group.dim)

    def everything(x):
        g = group.exp(x)
        return (
            as_matrix(g),
            as_matrix(group.compose(g, group.inverse(g))),
            group.log(g),
            group.adjoint(g),
            group.dexp_left(x),
            group.dexp_right_inverse(x),
            group.ad(x),
            group.vee(group.hat(x)),
            group.bracket(x, 1 + x),
        )

    one_by_one = jax.jit(jax.vmap(jax.vmap(everything)))
    for batch, one in zip(jax.jit(everything)(x), one_by_one(x)):
        close(batch, one, 1e-15)


@pytest.mark.parametrize("angle", [0.0, np.pi])
def test_no_step_makes_a_nan(angle):
    """Not even in a branch that is not taken: the operations run, and are checked, one by one."""
    x = jnp.asarray(vectors(SO3, angle)[0])
    with jax.debug_nans(True), jax.debug_infs(True):
        total = lambda x: jnp.sum(SO3.log(SO3.exp(x)) ** 2) + jnp.sum(SO3.dexp_left_inverse(x))
        assert np.isfinite(jax.grad(total)(x)).all()


def test_composition_of_rotation_vectors():
    """Printed with the composition of two successive rotations in the Matlab code of Müller."""
    x = jnp.array([0.814723686393179, 0.905791937075619, 0.126986816293506])
    y = jnp.array([0.913375856139019, 0.63235924622541, 0.09754040499941])
    z = SO3.log(SO3.compose(SO3.exp(x), SO3.exp(y)))
    close(z, np.array([1.723793103824437, 1.555433894116284, 0.04793275769471]), 1e-14)
    assert abs(np.linalg.norm(z) - 2.322312384891114) < 1e-14


def test_two_half_turns():
    half = SO3.exp(jnp.full(3, np.pi / np.sqrt(3)))
    close(SO3.log(SO3.compose(half, half)), np.zeros(3), 2e-15)


def test_log_of_a_printed_transform():
    rows = [
        [-0.7372, -0.2659, 0.6211, 0.6877],
        [-0.1676, -0.8186, -0.5493, 0.3886],
        [0.6545, -0.5091, 0.5589, 0.9371],
        [0, 0, 0, 1],
    ]
    twist = SE3.log(Transform.from_matrix(jnp.array(rows)))
    np.testing.assert_allclose(twist, [1.1157, -0.9257, 2.7242, 1.3245, -0.6727, 0.3156], rtol=0, atol=2e-3)
