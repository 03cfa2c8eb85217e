"""Derivatives of complementarity problems where a force and its slack are both zero: a contact that only touches.

Every choice of which of the two stays zero is a branch with its own derivative. `lemke` returns the derivative of one
branch, `solve_lcp` a mean of several.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import nnls
from support import assert_close

from rbd_jax.contact.solvers import Code, lemke, solve_lcp


CHAIN = [[2.0, 1.0, 0.0], [1.0, 2.0, 1.0], [0.0, 1.0, 2.0]]
PLAIN = [[2.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 3.0]]

#: M and d. Ties occur at one contact that another one lifts, at several contacts, and at all.
DEGENERATE = {
    "lifted": ([[2, 1, 0], [1, 2, 0], [0, 0, 1]], [-1, -0.5, 1]),
    "lifted exactly, and pressed": ([[2, 1, 0], [1, 2, 0], [0, 0, 1]], [-1, -0.5, -1]),
    "one at zero": (CHAIN, [0, 1, -1]),
    "two at zero": (CHAIN, [0, 1, 0]),
    "all at zero": (CHAIN, [0, 0, 0]),
    "alone at zero": (PLAIN, [0, -1, 0]),
    "two lifted": ([[2, 1, 1], [1, 2, 0.5], [1, 0.5, 2]], [-2, -1, -1]),
    "not symmetric": ([[2, -1, 0], [1, 2, 1], [0.5, 0, 1]], [-1, -0.5, -0.25]),
    "not symmetric, one at zero": ([[1, 2, 0], [0, 1, 2], [2, 0, 1]], [-1, 0, -1]),
    "not convex": ([[1, 2, 0], [2, 1, 0], [0, 0, 1]], [-1, -2, 0]),
    "redundant": ([[1, 1, 0], [1, 1, 0], [0, 0, 1]], [-1, -1, 0]),
    "friction that is zero": ([[1, 0, 0], [0, 1, 1], [0, -1, 0]], [-1, -0.5, 0]),
}
PROBLEMS = (
    np.array([M for M, _ in DEGENERATE.values()], float),
    np.array([d for _, d in DEGENERATE.values()], float),
)
SYMMETRIC = [name for name, (M, _) in DEGENERATE.items() if np.linalg.eigvalsh(M).min() > 0.1
             and np.array_equal(M, np.transpose(M))]  # fmt: skip


def branches(M, d, force):
    """Returns derivatives of the force by d and the entries of M, for all bases with this solution."""
    slack = M @ force + d
    touching = np.flatnonzero((force < 1e-9) & (slack < 1e-9))
    found = []
    for size in range(len(touching) + 1):
        for more in itertools.combinations(touching, size):
            basis = np.union1d(np.flatnonzero(force >= 1e-9), more).astype(int)
            inner = M[np.ix_(basis, basis)]
            if not len(basis) or abs(np.linalg.det(inner)) > 1e-9:
                rows = np.zeros((3, 3))
                rows[np.ix_(basis, basis)] = -np.linalg.inv(inner) if len(basis) else 0
                found.append(
                    np.concatenate([rows, np.einsum("ij,k->ijk", rows, force).reshape(3, 9)], axis=1)
                )
    return np.array(found)


def asked(solve):
    """Returns force, slack and code of all problems, and their derivatives in both modes."""

    def one(M, d):
        def of(x):
            found = solve(x[3:].reshape(3, 3), x[:3])
            return jnp.concatenate([found.force, found.slack]), found.code

        x = jnp.concatenate([d, M.reshape(-1)])
        values, push, code = jax.linearize(of, x, has_aux=True)
        pull = jax.linear_transpose(push, x)
        return (
            values,
            code,
            jax.vmap(push, out_axes=-1)(jnp.eye(12)),
            jax.vmap(lambda y: pull(y)[0])(jnp.eye(6)),
        )

    return jax.tree.map(np.asarray, jax.jit(jax.vmap(one))(*PROBLEMS))


@pytest.fixture(scope="module")
def pivoted():
    return asked(lemke)


@pytest.mark.parametrize("name", DEGENERATE)
def test_pivots_end_in_a_branch(pivoted, name):
    place = list(DEGENERATE).index(name)
    values, code, forward, reverse = (part[place] for part in pivoted)
    M, d = (part[place] for part in PROBLEMS)
    force, slack = values[:3], values[3:]
    assert code == Code.SOLVED and ((force < 1e-9) & (slack < 1e-9)).any()
    assert_close(slack, M @ force + d, 1e-12)
    assert_close(reverse, forward, 1e-12)
    # The slack changes as the equation requires.
    by_M = np.einsum("ij,k->ijk", np.eye(3), force).reshape(3, 9)
    assert_close(forward[3:], M @ forward[:3] + np.concatenate([np.eye(3), by_M], axis=1), 1e-9)
    known = branches(M, d, force)
    nearest = known[np.argmin(np.abs(known - forward[:3]).max(axis=(1, 2)))]
    assert_close(forward[:3], nearest, 1e-9)


@pytest.mark.parametrize("turn", range(3))
def test_derivatives_predict_changes_into_their_branch(pivoted, turn):
    """Derivatives predict changes of d that keep the branch's solution: forces and slacks of its basis increase."""
    values, _, forward, _ = pivoted
    M, d = PROBLEMS
    rng, step = np.random.default_rng(turn), 1e-6
    changes = rng.normal(size=d.shape)
    moved = np.einsum("pij,pj->pi", forward[:, :, :3], changes)
    # Basic variables that are zero get a change that increases them.
    tied = (values[:, :3] < 1e-9) & (values[:, 3:] < 1e-9)
    pushes = np.abs(forward[:, :3, :3]).max(axis=2) > 1e-12
    grow = np.where(tied, np.where(pushes, np.abs(moved[:, :3]), 0), moved[:, :3])
    open_ = np.where(tied, np.where(pushes, 0, np.abs(moved[:, 3:])), moved[:, 3:])
    changes = open_ - np.einsum("pij,pj->pi", M, grow)
    basic = np.concatenate([grow, open_], axis=1)
    found = jax.jit(jax.vmap(lambda M, d: lemke(M, d)))(M, d + step * changes)
    quotients = (np.concatenate([found.force, found.slack], axis=1) - values) / step
    unique = [name not in ("not convex", "redundant") for name in DEGENERATE]
    assert_close(np.einsum("pij,pj->pi", forward[:, :, :3], changes)[unique], basic[unique], 1e-9)
    assert_close(quotients[unique], basic[unique], 1e-7)


def test_interior_points_end_in_a_mean_of_branches():
    (values, _, forward, _), weight = asked(solve_lcp), 1e3
    for name in SYMMETRIC:
        place = list(DEGENERATE).index(name)
        M, d = (part[place] for part in PROBLEMS)
        force = np.where(values[place, :3] < 1e-6, 0, values[place, :3])
        known = branches(M, d, force).reshape(-1, 36)
        sides = np.concatenate([known.T, weight * np.ones((1, len(known)))])
        share, off = nnls(sides, np.append(forward[place, :3].reshape(-1), weight))
        assert off < 1e-5, (name, share)
