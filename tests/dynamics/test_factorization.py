"""Branch-induced sparsity: factors, kernels, and their costs (book tables 6.3 to 6.6)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import apply, assert_close, case_of, compiled, each, transpose
from support import differences, quotient

import rbd_jax as rbd
from rbd_jax.dynamics import LowerFactor, TreeMatrix
from rbd_jax.dynamics.factorization import ltdl, ltdl_solve, ltl, pack, unpack


SLOW = pytest.mark.slow
TREES = {
    "the book's": rbd.Tree([-1, 0, 0, 1, 1, 2]).expanded([1, 3, 1, 1, 1, 1]),
    "a chain": rbd.Tree(range(-1, 6)),
    "a star": rbd.Tree([-1, 0, 0, 0, 0, 0, 0]),
    "binary": rbd.Tree([(i - 1) // 2 if i else -1 for i in range(15)]),
    "by levels": rbd.Tree([-1, 0, 1, 0, 3, 3, 1, 6], "levels"),
    "a forest": rbd.Tree([-1, 0, -1, 2, 2, -1]),
    "a lone node": rbd.Tree([-1]),
}
EVERY = pytest.mark.parametrize(
    "name",
    [pytest.param(x, marks=() if x in ("the book's", "a forest") else SLOW) for x in TREES],
)


def some_factor(tree, seed=0):
    """Returns a lower triangular matrix with the sparsity of the tree and generic entries."""
    rng = np.random.default_rng(seed)
    lower = np.where(tree.supports, rng.uniform(0.3, 0.9, tree.supports.shape), 0)
    return lower + np.diag(rng.uniform(2.0, 3.0, tree.size))


def depth_sums(tree):
    """Returns D₁ and D₂ of eqs. 6.26 and 6.27."""
    d = tree.depths + 1
    return int((d - 1).sum()), int((d * (d - 1)).sum()) // 2


def test_expanded_parents():
    assert [parent + 1 for parent in TREES["the book's"].parents] == [0, 1, 2, 3, 1, 4, 4, 5]


@EVERY
def test_factors(name):
    """Factors are triangular, have no fill-in, and multiply to the matrix."""
    tree = TREES[name]
    matrix = some_factor(tree).T @ some_factor(tree)

    @jax.jit
    def run(matrix):
        packed = pack(tree, matrix)
        lower, pivots = ltdl(tree, packed)
        return unpack(tree, packed), ltl(tree, packed).matrix, lower.matrix, pivots

    unpacked, cholesky, lower, pivots = jax.device_get(run(matrix))
    assert_close(unpacked, np.tril(matrix))
    for factor in (cholesky, lower):
        assert not factor[~tree.supports].any()
    np.testing.assert_array_equal(np.diag(lower), 1)
    assert_close(cholesky, some_factor(tree), 1e-13)
    assert_close(lower.T @ (pivots[:, None] * lower), matrix, 1e-13)


@EVERY
def test_kernels(name):
    """Table 6.5."""
    tree = TREES[name]
    dense, x = some_factor(tree), np.arange(1.0, tree.size + 1)
    diagonal, full = np.diag(dense), dense.T @ dense

    @jax.jit
    def run(dense, full, x):
        factor = LowerFactor(pack(tree, dense - np.diag(diagonal)), jnp.asarray(diagonal), tree)
        matrix = TreeMatrix.of(tree, full)
        of_factor = (
            factor.matrix,
            factor.multiply(x),
            factor.multiply_transposed(x),
            factor.solve(x),
            factor.solve_transposed(x),
        )
        cholesky = matrix.ltl()
        product = cholesky.multiply_transposed(cholesky.multiply(x))
        return of_factor, (matrix.matrix, matrix.multiply(x), matrix.solve(full @ x), product)

    (same, along, across, solved, solved_across), of_matrix = jax.device_get(run(dense, full, x))
    assert_close(same, dense)
    assert_close(along, dense @ x)
    assert_close(across, dense.T @ x)
    assert_close(dense @ solved, x)
    assert_close(dense.T @ solved_across, x)
    for found, expected in zip(of_matrix, (full, full @ x, x, full @ x), strict=True):
        assert_close(found, expected)


@SLOW
@pytest.mark.parametrize("name", TREES)
def test_costs(name):
    """Operation counts with nonzero numbers equal table 6.6. In the default run `tests/book` counts for one tree."""
    tree = TREES[name]
    n, (d1, d2) = tree.size, depth_sums(tree)
    matrix = pack(tree, jnp.asarray(some_factor(tree).T @ some_factor(tree)))
    count = lambda function, *args: rbd.count_operations(function, *args, zeros=False)
    assert count(lambda m: ltl(tree, m), matrix) == rbd.Operations(d2, d2, d1, roots=n)
    assert count(lambda m: ltdl(tree, m), matrix) == rbd.Operations(d2, d2, d1)

    x, cholesky, (lower, pivots) = jnp.ones(n) + 0.5, ltl(tree, matrix), ltdl(tree, matrix)
    solve = lambda factor, x: factor.solve(factor.solve_transposed(x))
    assert count(solve, cholesky, x) == rbd.Operations(2 * d1, 2 * d1, 2 * n)
    # The unit diagonal is not known to be one here, which adds divisions.
    solved = count(lambda lower, pivots, x: ltdl_solve(lower, pivots, x), lower, pivots, x)
    assert solved == rbd.Operations(2 * d1, 2 * d1, 3 * n)
    for kernel in (LowerFactor.multiply, LowerFactor.multiply_transposed):
        assert count(kernel, cholesky, x) == rbd.Operations(n + d1, d1)
    assert count(TreeMatrix.multiply, TreeMatrix(matrix, tree), x) == rbd.Operations(n + 2 * d1, 2 * d1)


@pytest.mark.parametrize("name", each(("forest", "chain", "mixed")))
def test_mass_matrix(name):
    """The mass matrix has the sparsity of the column tree, and its factors solve linear systems."""
    case = case_of(name)
    tree, tau = case.model.topology.tree, case.states.a
    both = np.stack([tau, 2 * tau], axis=2)

    def run(model, q, tau, both):
        mass = rbd.mass_matrix(model, q)
        lower, pivots = ltdl(tree, pack(tree, mass))
        return mass, lower.matrix, pivots, ltdl_solve(lower, pivots, tau), ltdl_solve(lower, pivots, both)

    mass, lower, pivots, one, two = compiled(run)(case.model, case.states.q, tau, both)
    assert_close(transpose(lower) @ (pivots[..., None] * lower), mass)
    assert_close(apply(mass, one), tau)
    assert_close(mass @ two, both)


@pytest.mark.parametrize("name", each(("forest", "driven", "mixed")))
def test_sparse_mass_matrix(name):
    """M of a model, also with driven joints, which have no degree of freedom, and `M⁻¹` from its factors (book §6.4)."""
    case = case_of(name)
    a = case.states.a[0]

    @jax.jit
    def run(model, q, a):
        sparse, mass = rbd.dynamics.sparse_mass_matrix(model, q), rbd.mass_matrix(model, q)
        return sparse, mass, sparse.matrix, sparse.multiply(a), sparse.solve(mass @ a)

    sparse, mass, same, product, solved = jax.device_get(run(case.model, case.states.q[0], a))
    assert sparse.tree.size == case.model.nv
    assert not mass[~(sparse.tree.supports | sparse.tree.supports.T)].any()
    assert_close(same, mass)
    assert_close(product, mass @ a)
    assert_close(solved, a)


def forces_and_back(model, q, v, a):
    """Returns `M a`, the same by inverse dynamics, a recovered from it, and `M 1`."""
    force = rbd.inertia_force(model, q, a)
    return {
        "force": force,
        "by inverse dynamics": rbd.inverse_dynamics(model, q, v, a) - rbd.bias_force(model, q, v),
        "back": rbd.solve_mass_matrix(model, q, force),
        "columns": rbd.inertia_force(model, q, jnp.eye(model.nv)),
        "mass matrix": rbd.mass_matrix(model, q),
    }


@pytest.mark.parametrize("name", each(("forest", "coupled", "driven", "mixed")))
def test_inertia_force(name):
    """`M a` for a vector and for columns agrees with inverse dynamics minus bias, and inverts `solve_mass_matrix`.

    Table 6.1; for unit vectors it gives the columns of M (eq. 6.25).
    """
    case = case_of(name)
    states = case.states
    found = compiled(forces_and_back)(case.model, states.q, states.v, states.a)
    assert_close(found["force"], apply(found["mass matrix"], states.a))
    assert_close(found["force"], found["by inverse dynamics"])
    assert_close(found["back"], states.a)
    assert_close(found["columns"], found["mass matrix"])


@SLOW
def test_derivatives_of_inertia_force():
    """Derivatives by q and a agree with differences."""
    model = case_of("forest").model
    states = case_of("forest").states
    x = np.concatenate([states.q, states.a], axis=1)
    of = lambda x: rbd.inertia_force(model, x[: model.nq], x[model.nq :])
    assert_close(jax.jit(jax.vmap(jax.jacrev(of)))(x), differences(jax.jit(jax.vmap(of)), x), 1e-7)


def test_joints_that_follow_others_have_no_sparse_factors():
    model = case_of("coupled").model
    with pytest.raises(ValueError, match="mimic joints.*use mass_matrix"):
        rbd.dynamics.sparse_mass_matrix(model, rbd.neutral(model))
    with pytest.raises(ValueError, match=r"matrix has shape \(3, 3\)"):
        TreeMatrix.of(rbd.Tree([-1, 0]), jnp.ones((3, 3)))


def test_derivatives():
    """Derivatives of the solution by the matrix agree with differences."""
    tree = TREES["the book's"]
    dense = some_factor(tree).T @ some_factor(tree)
    packed = np.asarray(jax.jit(lambda dense: pack(tree, dense))(dense))
    step = np.where(packed != 0, np.random.default_rng(1).normal(size=packed.shape), 0)

    @jax.jit
    @jax.value_and_grad
    def solved(packed):
        return jnp.sin(ltdl_solve(*ltdl(tree, packed), jnp.ones(tree.size))).sum()

    slope = quotient(lambda h: float(solved(packed + h * step)[0]))
    np.testing.assert_allclose(np.sum(np.asarray(solved(packed)[1]) * step), slope, rtol=1e-8)
