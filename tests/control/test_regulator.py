"""The linear-quadratic regulator, sequential and parallel in time, against the dense problem."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from support import assert_close, assert_each_close, quotient

import rbd_jax as rbd


C = rbd.control
N, NX, NU = 7, 3, 2


def positive(draw, rows, n):
    half = draw.normal(size=(rows, n, n))
    return half @ np.swapaxes(half, 1, 2) + 0.1 * np.eye(n)


@pytest.fixture(scope="module")
def problem():
    """Returns a time-varying convex problem with offsets, linear and mixed terms."""
    draw = np.random.default_rng(0)
    both = positive(draw, N, NX + NU)
    return C.LinearQuadratic(
        draw.normal(size=(N, NX, NX)),
        draw.normal(size=(N, NX, NU)),
        c=draw.normal(size=(N, NX)),
        Q=np.concatenate([both[:, :NX, :NX], positive(draw, 1, NX)]),
        q=draw.normal(size=(N + 1, NX)),
        R=both[:, NX:, NX:],
        S=both[:, NX:, :NX],
        r=draw.normal(size=(N, NU)),
    )


def dense(problem, start):
    """Returns states and controls from the optimality conditions of the dense problem, in NumPy."""
    A, B, c, Q, q, R, S, r = (
        np.asarray(x)
        for x in (problem.A, problem.B, problem.c, problem.Q, problem.q, problem.R, problem.S, problem.r)
    )
    n = (N + 1) * NX
    H, g = np.zeros((n + N * NU,) * 2), np.zeros(n + N * NU)
    G, h = np.zeros((n, n + N * NU)), np.zeros(n)
    G[:NX, :NX], h[:NX] = np.eye(NX), start
    for k in range(N + 1):
        x, u = slice(k * NX, (k + 1) * NX), slice(n + k * NU, n + (k + 1) * NU)
        H[x, x], g[x] = Q[k], q[k]
        if k < N:
            after = slice((k + 1) * NX, (k + 2) * NX)
            H[u, u], H[u, x], H[x, u], g[u] = R[k], S[k], S[k].T, r[k]
            G[after, after], G[after, x], G[after, u], h[after] = np.eye(NX), -A[k], -B[k], c[k]
    KKT = np.block([[H, G.T], [G, np.zeros((n, n))]])
    z = np.linalg.solve(KKT, np.concatenate([-g, h]))
    return z[:n].reshape(N + 1, NX), z[n : n + N * NU].reshape(N, NU)


START = np.array([0.3, -1.0, 2.0])


@pytest.mark.parametrize("parallel", [False, True])
def test_it_is_the_minimum_of_the_dense_problem(problem, parallel):
    policy = C.lqr(problem, parallel=parallel)
    x, u = C.lqr_rollout(problem, policy, START, parallel=parallel)
    expected = dense(problem, START)
    assert policy.positive
    assert_close(x, expected[0], 1e-11)
    assert_close(u, expected[1], 1e-11)


def test_both_are_the_same(problem):
    assert_each_close(C.lqr(problem, parallel=True), C.lqr(problem), 1e-11)


@pytest.mark.parametrize("parallel", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_derivatives_by_all_numbers(problem, parallel):
    draw = np.random.default_rng(1)
    drawn = lambda tree: jax.tree.map(lambda x: draw.normal(size=x.shape), tree)

    def solved(problem):
        policy = C.lqr(problem, parallel=parallel)
        return C.lqr_rollout(problem, policy, START, parallel=parallel)

    @jax.jit
    def derivatives(problem, change, weights):
        """Returns the derivative along a change, and the gradient of a weighted sum of the results."""
        _, forward = jax.jvp(solved, (problem,), (change,))
        _, pull = jax.vjp(solved, problem)
        return forward, pull(weights)[0]

    change, run = drawn(problem), jax.jit(solved)
    at = lambda h: run(jax.tree.map(lambda x, d: jax.device_put(np.asarray(x) + h * d), problem, change))
    expected = quotient(lambda h: jax.device_get(at(h)), 1e-5)
    weights = drawn(expected)
    forward, back = jax.device_get(derivatives(problem, change, weights))
    assert_each_close(forward, expected, 1e-6)
    total = lambda a, b: sum(
        np.sum(x * np.asarray(y)) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    )
    np.testing.assert_allclose(total(back, change), total(forward, weights), rtol=1e-10)


@pytest.mark.parametrize("parallel", [False, True])
def test_where_there_is_no_minimum_it_says_so(problem, parallel):
    R = np.array(problem.R)
    R[3] -= 100 * np.eye(NU)
    broken = dataclasses.replace(problem, R=jax.device_put(R))
    assert not C.lqr(broken, parallel=parallel).positive


def test_controls_that_cost_nothing_are_as_good_where_the_next_state_does():
    A, B = np.array([[1.0, 0.1], [0.0, 1.0]]), np.array([[0.005], [0.1]])
    problem = C.LinearQuadratic(A, B, Q=np.eye(2), R=np.zeros((1, 1)), steps=20)
    assert_each_close(C.lqr(problem, parallel=True), C.lqr(problem), 1e-9)


def test_batches_and_float32(problem):
    double = jax.tree.map(lambda x: 2 * np.asarray(x), problem)
    many = jax.tree.map(lambda x, y: jax.device_put(np.stack([x, y]).astype(np.float32)), problem, double)
    found = jax.jit(jax.vmap(C.lqr))(many)
    assert found.K.dtype == jnp.float32
    one = C.lqr(jax.device_put(double))
    assert_close(np.asarray(found.K)[1], one.K, 2e-4)


def test_without_an_end_it_solves_the_riccati_equation():
    draw = np.random.default_rng(2)
    A, B = 1.2 * draw.normal(size=(4, 4)), draw.normal(size=(4, 2))
    Q, R, S = positive(draw, 1, 4)[0], positive(draw, 1, 2)[0], 0.1 * draw.normal(size=(2, 4))
    K, P = C.lqr_gain(A, B, Q, R, S)
    expected = scipy.linalg.solve_discrete_are(A, B, Q, R, s=S.T)
    assert_close(P, expected, 1e-10)
    assert np.abs(np.linalg.eigvals(A + B @ np.asarray(K))).max() < 1
    longest = C.lqr(C.LinearQuadratic(A, B, Q=Q, R=R, S=S, steps=300))
    assert_close(np.asarray(longest.K)[0], K, 1e-10)
    by_A = jax.jit(jax.jacfwd(lambda A: C.lqr_gain(A, B, Q, R, S)[1]))(A)
    moved = lambda h: np.asarray(C.lqr_gain(A + h * np.eye(4), B, Q, R, S)[1])
    assert_close(np.einsum("ijkk", np.asarray(by_A)), quotient(moved, 1e-6), 1e-6)


@pytest.mark.parametrize(
    "change, message",
    [
        (
            dict(Q=np.eye(3)),
            r"Q has shape \(3, 3\); it is an array of shape \(6, 2, 2\), or \(2, 2\) for all steps",
        ),
        (dict(steps=None), "the number of steps is missing"),
        (dict(end=np.eye(3)), r"end has shape \(3, 3\); it is an array of shape \(2, 2\)$"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(change, message):
    given = dict(A=np.eye(2), B=np.ones((2, 1)), Q=np.eye(2), R=np.eye(1), steps=5) | change
    with pytest.raises(ValueError, match=message):
        C.LinearQuadratic(given.pop("A"), given.pop("B"), **given)
