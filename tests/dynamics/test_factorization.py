"""Branch-induced sparsity: the factors, the kernels with them, and what they cost (book tables 6.3 to 6.6)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import assert_close, case_of, each
from support import differences, quotient

import rbd_jax as rbd
from rbd_jax.dynamics import LowerFactor, TreeMatrix
from rbd_jax.dynamics.factorization import ltdl, ltdl_solve, ltl, pack, unpack


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
    [pytest.param(x, marks=() if x in ("the book's", "a forest") else pytest.mark.slow) for x in TREES],
)


def some_factor(tree, seed=0):
    """A lower triangular matrix with the sparsity of the tree, no entry of it zero or one by chance."""
    rng = np.random.default_rng(seed)
    lower = np.where(tree.supports, rng.uniform(0.3, 0.9, tree.supports.shape), 0)
    return jnp.array(lower + np.diag(rng.uniform(2.0, 3.0, tree.size)))


def depth_sums(tree):
    """D₁ and D₂ of eqs. 6.26 and 6.27."""
    d = tree.depths + 1
    return int((d - 1).sum()), int((d * (d - 1)).sum()) // 2


def test_expanded_parents():
    assert [parent + 1 for parent in TREES["the book's"].parents] == [0, 1, 2, 3, 1, 4, 4, 5]


@EVERY
def test_factors(name):
    """They are triangular, have no entry where the matrix has none, and multiply up to it."""
    tree = TREES[name]
    matrix = some_factor(tree).T @ some_factor(tree)
    assert_close(unpack(tree, pack(tree, matrix)), jnp.tril(matrix))
    cholesky, (lower, pivots) = ltl(tree, pack(tree, matrix)), ltdl(tree, pack(tree, matrix))
    for factor in (cholesky.matrix, lower.matrix):
        assert not factor[~tree.supports].any()
    np.testing.assert_array_equal(jnp.diag(lower.matrix), 1)
    assert_close(cholesky.matrix, some_factor(tree), 1e-13)
    assert_close(lower.matrix.T @ (pivots[:, None] * lower.matrix), matrix, 1e-13)


@EVERY
def test_kernels(name):
    """Table 6.5."""
    tree = TREES[name]
    dense = some_factor(tree)
    factor = LowerFactor(pack(tree, dense - jnp.diag(jnp.diag(dense))), jnp.diag(dense), tree)
    x = jnp.arange(1.0, tree.size + 1)
    assert_close(factor.matrix, dense)
    assert_close(factor.multiply(x), dense @ x)
    assert_close(factor.multiply_transposed(x), dense.T @ x)
    assert_close(dense @ factor.solve(x), x)
    assert_close(dense.T @ factor.solve_transposed(x), x)
    full = dense.T @ dense
    matrix = TreeMatrix.of(tree, full)
    assert_close(matrix.matrix, full)
    assert_close(matrix.multiply(x), full @ x)
    assert_close(matrix.solve(full @ x), x)
    assert_close(matrix.ltl().multiply_transposed(matrix.ltl().multiply(x)), full @ x)


@EVERY
def test_costs(name):
    """Operations with numbers that are not zero: exactly those of table 6.6."""
    tree = TREES[name]
    n, (d1, d2) = tree.size, depth_sums(tree)
    matrix = pack(tree, some_factor(tree).T @ some_factor(tree))
    count = lambda function, *args: rbd.count_operations(function, *args, zeros=False)
    assert count(lambda m: ltl(tree, m), matrix) == rbd.Operations(d2, d2, d1, roots=n)
    assert count(lambda m: ltdl(tree, m), matrix) == rbd.Operations(d2, d2, d1)

    x, cholesky, (lower, pivots) = jnp.ones(n) + 0.5, ltl(tree, matrix), ltdl(tree, matrix)
    solve = lambda factor, x: factor.solve(factor.solve_transposed(x))
    assert count(solve, cholesky, x) == rbd.Operations(2 * d1, 2 * d1, 2 * n)
    # Here the unit diagonal is not known to be one, and divided by.
    solved = count(lambda lower, pivots, x: ltdl_solve(lower, pivots, x), lower, pivots, x)
    assert solved == rbd.Operations(2 * d1, 2 * d1, 3 * n)
    for kernel in (LowerFactor.multiply, LowerFactor.multiply_transposed):
        assert count(kernel, cholesky, x) == rbd.Operations(n + d1, d1)
    assert count(TreeMatrix.multiply, TreeMatrix(matrix, tree), x) == rbd.Operations(n + 2 * d1, 2 * d1)


@pytest.mark.parametrize("name", each(("forest", "chain", "mixed")))
def test_mass_matrix(name):
    """The mass matrix has the sparsity of the tree of columns, and its factors solve what the articulated bodies do."""
    case = case_of(name)
    tree = case.model.topology.tree
    for mass, tau in zip(case.seen["mass matrix"], case.states.a, strict=True):
        lower, pivots = ltdl(tree, pack(tree, jnp.asarray(mass)))
        assert_close(lower.matrix.T @ (pivots[:, None] * lower.matrix), mass)
        assert_close(mass @ ltdl_solve(lower, pivots, tau), tau)
        both = jnp.stack([tau, 2 * tau], axis=1)
        assert_close(mass @ ltdl_solve(lower, pivots, both), both)


@pytest.mark.parametrize("name", each(("forest", "driven", "mixed")))
def test_sparse_mass_matrix(name):
    """Of a model, also with joints that move by themselves, which have no degree of freedom: M, and `M⁻¹` of its factors.

    Book §6.4.
    """
    case = case_of(name)
    q, a = case.states.q[0], case.states.a[0]
    sparse = rbd.dynamics.sparse_mass_matrix(case.model, q)
    mass = rbd.mass_matrix(case.model, q)
    assert sparse.tree.size == case.model.nv
    assert not np.asarray(mass)[~(sparse.tree.supports | sparse.tree.supports.T)].any()
    assert_close(sparse.matrix, mass)
    assert_close(sparse.multiply(a), mass @ a)
    assert_close(sparse.solve(mass @ a), a)


@pytest.mark.parametrize("name", each(("forest", "coupled", "driven", "mixed")))
def test_inertia_force(name):
    """`M a` of one vector and of columns; what inverse dynamics has beside the bias; and the inverse of `solve_mass_matrix`.

    Table 6.1; of unit vectors it gives the columns of M (eq. 6.25).
    """
    case = case_of(name)
    states, found = case.states, {}
    for i, (q, v, a) in enumerate(zip(states.q, states.v, states.a, strict=True)):
        found = rbd.inertia_force(case.model, q, a)
        assert_close(found, case.seen["mass matrix"][i] @ np.asarray(a))
        assert_close(found, rbd.inverse_dynamics(case.model, q, v, a) - rbd.bias_force(case.model, q, v))
        assert_close(rbd.solve_mass_matrix(case.model, q, found), a)
    eye = jnp.eye(case.model.nv)
    assert_close(rbd.inertia_force(case.model, states.q[0], eye), case.seen["mass matrix"][0])


def test_derivatives_of_inertia_force():
    """By q and a, against differences."""
    model = case_of("forest").model
    states = case_of("forest").states
    x = jnp.concatenate([states.q, states.a], axis=1)
    of = lambda x: rbd.inertia_force(model, x[: model.nq], x[model.nq :])
    assert_close(jax.jit(jax.vmap(jax.jacrev(of)))(x), differences(jax.jit(jax.vmap(of)), x), 1e-7)


def test_joints_that_follow_others_have_no_sparse_factors():
    model = case_of("coupled").model
    with pytest.raises(ValueError, match="follow others.*use mass_matrix"):
        rbd.dynamics.sparse_mass_matrix(model, rbd.neutral(model))
    with pytest.raises(ValueError, match=r"matrix has shape \(3, 3\)"):
        TreeMatrix.of(rbd.Tree([-1, 0]), jnp.ones((3, 3)))


def test_derivatives():
    """Of the solution by the matrix, against differences."""
    tree = TREES["the book's"]
    packed, x = pack(tree, some_factor(tree).T @ some_factor(tree)), jnp.ones(tree.size)
    step = jnp.where(packed != 0, jnp.asarray(np.random.default_rng(1).normal(size=packed.shape)), 0)

    @jax.jit
    def solved(packed):
        return jnp.sin(ltdl_solve(*ltdl(tree, packed), x)).sum()

    slope = quotient(lambda h: solved(packed + h * step))
    np.testing.assert_allclose(jnp.sum(jax.jit(jax.grad(solved))(packed) * step), slope, rtol=1e-8)
