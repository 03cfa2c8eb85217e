"""Solvers of convex contact problems: quadratic, complementarity, friction cones, and staggered projections.

Solutions can be verified without a solver. Most tests therefore construct problems and check the residual of the
optimality conditions.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import assert_close

from rbd_jax.contact.solvers.friction import solve_cone, solve_pyramid
from rbd_jax.contact.solvers.lcp import lemke, solve_lcp
from rbd_jax.contact.solvers.qp import solve_qp
from rbd_jax.contact.solvers.staggered import staggered_projections
from rbd_jax.optimize.outcome import Code


BATCH = 200
qps = jax.jit(jax.vmap(lambda *data: solve_qp(*data)))
lcps = jax.jit(jax.vmap(lambda M, d: solve_lcp(M, d)))
lemkes = jax.jit(jax.vmap(lambda M, d: lemke(M, d)))
cones = jax.jit(jax.vmap(lambda *data: solve_cone(*data)))
pyramids = jax.jit(jax.vmap(lambda *data: solve_pyramid(*data)))


@pytest.fixture
def rng():
    return np.random.default_rng(14)


def largest(*parts):
    return max(float(np.max(np.abs(part), initial=0)) for part in parts)


def times(a, x):
    return np.einsum("...ij,...j->...i", a, x)


def semidefinite(rng, batch, n, rank):
    r = rng.normal(size=(batch, rank, n))
    return np.einsum("bij,bik->bjk", r, r)


def feasible_qps(rng, batch, n=5, m=8, p=1):
    """Constructs problems from known solutions; a third of the rows are at their limit with zero force."""
    P, G, A = (
        semidefinite(rng, batch, n, n - 2),
        rng.normal(size=(batch, m, n)),
        rng.normal(size=(batch, p, n)),
    )
    x, y = rng.normal(size=(batch, n)), rng.normal(size=(batch, p))
    kind, amount = rng.integers(3, size=(batch, m)), rng.uniform(0.1, 1, size=(batch, m))
    z, s = np.where(kind == 0, amount, 0), np.where(kind == 1, amount, 0)
    q = -times(P, x) - times(np.swapaxes(G, 1, 2), z) - times(np.swapaxes(A, 1, 2), y)
    return [P, q, G, times(G, x) + s, A, times(A, x)]


def missing(data, found):
    """Returns the largest residual of the optimality conditions over the batch, relative to the problem's numbers."""
    P, q, G, h, A, b = (np.asarray(part, float) for part in data)
    x, s, z, y = (np.asarray(part, float) for part in found[:4])
    balance = times(P, x) + q + times(np.swapaxes(G, 1, 2), z) + times(np.swapaxes(A, 1, 2), y)
    assert s.min() >= 0 and z.min() >= 0
    return largest(balance, times(G, x) + s - h, times(A, x) - b, s * z) / largest(1, q, h, x, z)


def in_precision(data, dtype):
    return [np.asarray(part, dtype) for part in data]


@pytest.mark.parametrize(
    "dtype, tolerance", [pytest.param(np.float64, 1e-8, marks=pytest.mark.slow), (np.float32, 1e-4)]
)
def test_qp_of_every_ending(rng, dtype, tolerance):
    """One batch has solved, infeasible (a row and its opposite) and unbounded (free descent) problems, each with its
    certificate.
    """
    data = feasible_qps(rng, BATCH)
    P, q, G, h, A, b = data
    bad, endless = slice(150, 175), slice(175, None)
    G[bad, 1], h[bad, 1] = -G[bad, 0], -h[bad, 0] - 0.5
    for part in (P, G, A):
        part[endless, :, 0] = 0
    P[endless, 0, :] = 0
    G[endless, :4, 0], q[endless, 0], h[endless], b[endless] = -1, -1, 1, 0
    found = qps(*in_precision(data, dtype))
    assert all(np.isfinite(part).all() for part in found)
    expected = np.full(BATCH, Code.SOLVED)
    expected[bad], expected[endless] = Code.INFEASIBLE, Code.UNBOUNDED
    np.testing.assert_array_equal(found.code, expected)
    # The last iterations towards a degenerate solution are limited by round-off: up to three of 200 problems take 40
    # iterations.
    assert np.quantile(found.iterations, 0.95) < 30
    solved = slice(0, 150)
    assert missing([part[solved] for part in data], [part[solved] for part in found]) <= tolerance
    near = tolerance**0.5
    z, y, x = (np.asarray(part, float) for part in (found.multipliers, found.equality_multipliers, found.x))
    pulled = times(np.swapaxes(G, 1, 2), z) + times(np.swapaxes(A, 1, 2), y)
    assert np.all(np.abs(pulled[bad]) < near)
    assert np.all(np.sum(h * z, 1)[bad] + np.sum(b * y, 1)[bad] < 0)
    assert largest(times(P, x)[endless], times(A, x)[endless]) < near
    assert np.max(times(G, x)[endless]) < near and np.all(np.sum(q * x, 1)[endless] < 0)


@pytest.mark.slow
def test_from_a_guess_it_takes_less_than_half(rng):
    """A guess saves iterations for slowly changing problems, and a guess far off still leads to the solution."""
    data = in_precision(feasible_qps(rng, BATCH), float)
    warm = jax.jit(jax.vmap(lambda data, guess: solve_qp(*data, guess=guess)))
    found = qps(*data)
    for change in (1e-3, 1e-2, 3.0):
        data[1] = data[1] + change * rng.normal(size=data[1].shape) * (np.arange(BATCH) % 2)[:, None]
        cold, found = qps(*data), warm(data, found)
        # P may be zero along one direction, so that a change of q is unbounded there.
        ends = np.asarray(cold.code) == Code.SOLVED
        np.testing.assert_array_equal(found.code, cold.code)
        assert_close(found.slack[ends], cold.slack[ends], 1e-7)
        if change < 1:
            assert 2 * found.iterations[ends].sum() <= cold.iterations[ends].sum()


def tiled(*parts):
    """Returns a few problems repeated to the batch size of the other tests, to avoid recompilation."""
    return [np.asarray(np.resize(part, (BATCH, *part.shape[1:])), float) for part in parts]


def padded(M, d, size=4):
    """Pads a problem with decoupled unknowns."""
    n = len(d)
    whole = np.eye(size)
    whole[:n, :n] = M
    return whole, np.concatenate([d, np.ones(size - n)])


def test_lcp_of_the_book():
    """A box (M = 1.75), a disc in a slot (book example 11.1), a block on four corners, and limits without forces."""
    slot = np.array([[2.0, -2], [-2, 2]])
    corners = np.array([[1, x, y] for x, y in itertools.product((-1.0, 1), repeat=2)])
    block = corners @ np.diag([1, 3, 3]) @ corners.T
    problems = [
        padded([[1.75]], [-9.81]),
        padded(slot, [1.0, -2.0]),
        padded(slot, [-1.0, 2.0]),
        padded(slot, [-1.0, -1e-3]),
        padded(slot, [1.0, -1.0]),
        (block, np.full(4, -9.81)),
        (np.zeros((4, 4)), np.array([0.0, 1, 0, 2])),
        (np.zeros((4, 4)), np.array([0.0, 1, -1, 2])),
        (np.eye(4), np.zeros(4)),
    ]
    M, d = tiled(*(np.stack(part) for part in zip(*problems)))
    codes = [
        Code.SOLVED,
        Code.INFEASIBLE,
        Code.SOLVED,
        Code.INFEASIBLE,
        Code.SOLVED,
        Code.SOLVED,
        Code.SOLVED,
    ]
    codes += [Code.INFEASIBLE, Code.SOLVED]
    for found in (lcps(M, d), lemkes(M, d)):
        found = jax.tree.map(np.asarray, found)
        np.testing.assert_array_equal(found.code[: len(codes)], codes)
        assert_close(found.force[0, 0], 5.605714285714286, 1e-12)
        assert_close(found.force[2, :2], [0.5, 0], 1e-12)
        assert_close(times(M[5], found.force[5]), np.full(4, 9.81), 1e-9)
        assert_close(found.slack[6], d[6], 1e-9)
        for k in np.flatnonzero(np.asarray(codes) == Code.SOLVED):
            force, slack = found.force[k], found.slack[k]
            assert min(force.min(), slack.min()) >= 0
            assert largest(times(M[k], force) + d[k] - slack, force * slack) < 1e-8
    # All four corners of the block carry load.
    assert np.asarray(lcps(M, d).force)[5].min() > 1


def feasible_lcps(rng, batch, n=4):
    M = semidefinite(rng, batch, n, n - 1)
    kind, amount = rng.integers(3, size=(batch, n)), rng.uniform(0.1, 1, size=(batch, n))
    force, slack = np.where(kind == 0, amount, 0), np.where(kind == 1, amount, 0)
    return M, slack - times(M, force), slack


def test_pivots_and_interior_points_agree(rng):
    """Slacks, which are unique, agree for problems with many contacts at zero force."""
    M, d, slack = feasible_lcps(rng, BATCH)
    for found in (lcps(M, d), lemkes(M, d)):
        np.testing.assert_array_equal(found.code, Code.SOLVED)
        assert_close(found.slack, slack, 1e-7)
        assert largest(times(M, found.force) + d - found.slack, found.force * found.slack) < 1e-8


def test_lemke_solves_what_is_not_convex(rng):
    """A solution exists for every d if M has positive principal minors, also for a nonsymmetric M.

    The test uses matrices with dominant diagonals.
    """
    M = rng.normal(size=(BATCH, 4, 4))
    M = M + np.eye(4) * np.abs(M).sum(2).max(1)[:, None, None]
    d = rng.normal(size=(BATCH, 4))
    found = lemkes(M, d)
    np.testing.assert_array_equal(found.code, Code.SOLVED)
    assert largest(times(M, found.force) + d - found.slack, found.force * found.slack) < 1e-12
    late = jax.jit(lambda M, d: lemke(M, d, max_pivots=1))(M[0], -np.ones(4))
    assert late.code == Code.NOT_CONVERGED


def feasible_cones(rng, batch, k=2, d=3):
    """Constructs sticking, sliding, touching and separating contacts, with singular A and some contacts without friction."""
    A = semidefinite(rng, batch, k * d, k * d - 1)
    friction = rng.uniform(0.2, 1.2, size=(batch, k, d - 1))
    friction[: batch // 20] = 0
    kind = rng.integers(4, size=(batch, k, 1))
    across = rng.normal(size=(batch, k, d - 1))
    across /= np.linalg.norm(across, axis=2, keepdims=True)
    force = np.concatenate([np.ones((batch, k, 1)), -across * friction * np.where(kind == 0, 0.5, 1)], axis=2)
    force = np.where(kind >= 2, 0, force)
    # Sliding opposes the force; contacts separate as fast as the convex problem predicts, or faster.
    slides = across / np.where(friction > 0, friction, 1)
    speed = np.concatenate([np.where(friction[..., :1] > 0, 1, 0.0), slides], axis=2)
    speed = np.where(kind == 0, 0, np.where(kind == 3, speed + np.eye(d)[0] * 0.5, speed))
    return A, speed - times(A, force.reshape(batch, -1)).reshape(speed.shape), friction, speed


IN_SINGLE = pytest.param(np.float32, 1e-3, marks=pytest.mark.slow)


@pytest.mark.parametrize("dtype, tolerance", [(np.float64, 1e-8), IN_SINGLE])
def test_cones(rng, dtype, tolerance):
    """The velocity is the constructed one; forces are in their cones and do no work."""
    A, b, friction, speed = feasible_cones(rng, BATCH)
    found = cones(*in_precision((A, b, friction), dtype))
    np.testing.assert_array_equal(found.code, Code.SOLVED)
    force, velocity = np.asarray(found.force, float), np.asarray(found.velocity, float)
    assert_close(velocity, speed, tolerance * 10)
    assert largest(np.sum(force * velocity, axis=2)) < tolerance
    length = np.linalg.norm(force[..., 1:] / np.where(friction > 0, friction, np.inf), axis=2)
    assert np.max(length - force[..., 0]) < 1e-5 * np.max(np.abs(force)) and force[..., 0].min() > -tolerance
    assert largest(force[..., 1:][friction == 0]) == 0


def test_a_contact_that_cannot_be_is_told():
    """Two opposed contacts that approach are reported as unbounded, for both cone types; also with huge friction."""
    J = np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, -1], [1, 0, 0], [0, 1, 0]], float)
    A, b = np.broadcast_to(J @ J.T, (4, 6, 6)), np.zeros((4, 2, 3))
    b[..., 0] = [[1, -2], [1, -1], [-1, 3], [-1, 3]]
    b[3] += 0.1
    friction = np.full((4, 2, 2), 0.5)
    friction[3] = 1e3
    for solve in (cones, pyramids):
        found = jax.tree.map(np.asarray, solve(*tiled(A, b, friction)))
        np.testing.assert_array_equal(found.code[:4], [Code.UNBOUNDED, Code.SOLVED, Code.SOLVED, Code.SOLVED])
        assert all(np.isfinite(part).all() for part in found)
        assert np.sum(found.force[0] * b[0]) < 0 and largest(times(A[0], found.force[0].reshape(-1))) < 1e-6
        assert largest(np.sum(found.force[1:4] * found.velocity[1:4], axis=2)) < 1e-8


def test_pyramids(rng):
    """Forces are in the pyramid and do no work, and velocities are in the dual.

    With friction in one direction only, the pyramid is the cone. Sueda eqs. 1.85 to 1.88.
    """
    A, b, friction, _ = feasible_cones(rng, BATCH)
    found = pyramids(*in_precision((A, b, friction), float))
    np.testing.assert_array_equal(found.code, Code.SOLVED)
    force, velocity = np.asarray(found.force), np.asarray(found.velocity)
    length = np.sum(np.abs(force[..., 1:]) / np.where(friction > 0, friction, np.inf), axis=2)
    assert np.max(length - force[..., 0]) < 1e-8
    assert np.max(np.max(friction * np.abs(velocity[..., 1:]), axis=2) - velocity[..., 0]) < 1e-7
    assert largest(np.sum(force * velocity, axis=2)) < 1e-7
    friction[..., 1] = 0
    data = in_precision((A, b, friction), float)
    assert_close(pyramids(*data).velocity, cones(*data).velocity, 1e-7)


@pytest.mark.slow
def test_derivatives(rng):
    """Gradients by all data agree with differences, smoothed or not; smoothed Hessians too; all are finite in
    degenerate cases.
    """
    data = [jnp.asarray(part[0]) for part in feasible_qps(rng, 1)]
    G, h, q = data[2], data[3], data[1]
    data[0] = data[0] + jnp.eye(5)
    moves = [jnp.asarray(rng.normal(size=part.shape)) for part in data]
    moves[0] = moves[0] + moves[0].T

    def value(t, data, smoothing):
        found = solve_qp(*(part + t * move for part, move in zip(data, moves)), smoothing=smoothing)
        return jnp.sum(jnp.sin(found.x)) + jnp.sum(found.multipliers * found.slack)

    @jax.jit
    def all_(t, data, smoothing):
        first = jax.grad(value)
        second, along = jax.jvp(
            lambda t: (value(t, data, smoothing), first(t, data, smoothing)), (t,), (t * 0 + 1,)
        )
        return *second, *along

    step = 1e-4
    # Moves rows away from their limits where the force is zero.
    data[1] = q + 0.1 * jnp.asarray(rng.normal(size=5))
    data[3] = h + 0.1 * jnp.asarray(rng.uniform(size=8))
    for smoothing in (0.0, 0.01):
        at, before, after = (all_(jnp.asarray(t), data, smoothing) for t in (0.0, -step, step))
        assert_close(at[1], at[2], 1e-9)
        assert_close(at[1], (after[0] - before[0]) / (2 * step), 1e-5)
        assert_close(at[3], (after[1] - before[1]) / (2 * step), 1e-4)
    # A triplicated row, a zero row, and a row at its limit with zero force.
    twice = G.at[1].set(G[0]).at[2].set(G[0]).at[3].set(0)
    data[2], data[3] = twice, h.at[:4].set(jnp.array([h[0], h[0], h[0], 0]))
    at = all_(jnp.asarray(0.0), data, 0.0)
    assert np.isfinite(at).all() and abs(at[1]) < 1e6


@pytest.mark.slow
def test_derivatives_where_forces_are_not_unique_or_not_there():
    """For a block on four corners the derivative of the resultant is correct. An infeasible disc has zero derivatives.

    With smoothing the forces are unique, and all products of force and slack equal the requested value.
    """
    corners = np.array([[1, x, y] for x, y in itertools.product((-1.0, 1), repeat=2)])
    inverse = np.diag([1.0, 3, 3])
    slot, approach = padded(np.array([[2.0, -2], [-2, 2]]), [-1.0, -1])
    block, load = corners @ inverse @ corners.T, corners @ inverse @ [-9.81, 0.3, 0.2]
    M, d = np.stack([block, slot, block]), np.stack([load, approach, load])
    arms = np.stack([corners, np.eye(4)[:, :3], corners])

    @jax.jit
    @jax.vmap
    def whole(M, d, arms, smoothing):
        def together(load):
            found = solve_lcp(M, d + arms @ load, smoothing=smoothing)
            return found.force @ arms, found

        return jax.jacrev(together, has_aux=True)(jnp.zeros(3))

    jacobian, found = jax.tree.map(np.asarray, whole(M, d, arms, np.array([0.0, 0, 0.01])))
    np.testing.assert_array_equal(found.code, [Code.SOLVED, Code.INFEASIBLE, Code.SOLVED])
    assert_close(found.force[2] * found.slack[2], np.full(4, 0.01), 1e-10)
    assert_close(corners.T @ found.force[0], np.array([9.81, -0.3, -0.2]), 1e-9)
    assert_close(jacobian[0] @ inverse, -np.eye(3), 1e-7)
    assert_close(jacobian[1], np.zeros((3, 3)), 0)


@pytest.mark.slow
def test_derivatives_of_cones(rng):
    """Sliding and sticking contacts, smoothed and not, also by the friction coefficients."""
    A, b, friction, _ = (jnp.asarray(part[-6:]) for part in feasible_cones(rng, 12))
    A = A + 0.3 * jnp.eye(6)[None]
    weights = jnp.asarray(rng.normal(size=b.shape[1:]))
    moves = [jnp.asarray(rng.normal(size=part.shape)) for part in (A, b, friction)]
    moves[0] = moves[0] + jnp.swapaxes(moves[0], 1, 2)

    def value(t, data, moves, smoothing):
        data = [part + t * move for part, move in zip(data, moves)]
        return jnp.sum(weights * solve_cone(*data, smoothing=smoothing).force)

    @jax.jit
    def each(t, smoothing):
        own = lambda data, moves: jax.value_and_grad(value)(t, data, moves, smoothing)
        return jax.vmap(own)((A, b + 0.05, friction), tuple(moves))

    step = 1e-5
    for smoothing in (0.0, 0.01):
        at, before, after = (each(jnp.asarray(t), smoothing) for t in (0.0, -step, step))
        assert_close(at[1], (after[0] - before[0]) / (2 * step), 1e-5)


@pytest.mark.slow
def test_staggered_projections():
    """A mass that hits a floor: sliding, sticking, separating, and bilateral with a duplicated contact; with derivatives.

    Sueda's algorithm 7, and eq. 2.118.
    """
    inertia, normal = 2 * jnp.eye(3), jnp.array([[0.0, 0, 1], [0, 0, 1]])
    tangent = jnp.broadcast_to(jnp.eye(3)[:2], (2, 2, 3))
    friction = jnp.array([0.5, 0.5])

    @jax.jit
    @jax.vmap
    def whole(*data):
        def after(free):
            friction, bilateral = data[1:]
            found = staggered_projections(inertia, free, normal, tangent, friction, bilateral=bilateral)
            return found.velocity, found

        return jax.jacrev(after, has_aux=True)(data[0])

    free = jnp.array([[3.0, 0, -1], [0.3, 0.1, -1], [0.3, 0.1, 1], [3, 0, 1]])
    held = jnp.array([[False, False]] * 3 + [[True, True]])
    jacobian, found = whole(free, jnp.broadcast_to(friction, (4, 2)), held)
    np.testing.assert_array_equal(found.code, Code.SOLVED)
    # Unlike with one convex problem, sliding does not cause separation.
    expected = jnp.array([[2.5, 0, 0], [0, 0, 0], [0.3, 0.1, 1], [2.5, 0, 0]])
    assert_close(found.velocity, expected, 1e-8)
    assert_close(jnp.sum(found.normal, axis=1), jnp.array([2.0, 2, 0, -2]), 1e-8)
    # Duplicated bilateral contacts have the smallest impulses.
    assert_close(found.normal[3], jnp.array([-1.0, -1]), 1e-5)
    sliding = jnp.array([[1, 0, 0.5], [0, 1 - 0.5 / 3, 0], [0, 0, 0]])
    assert_close(jacobian[0], sliding, 1e-6)
    assert_close(jacobian[1], jnp.zeros((3, 3)), 1e-6)
    assert_close(jacobian[2], jnp.eye(3), 1e-6)


def zeros(*shape):
    return jnp.asarray(np.zeros(shape))


def test_what_does_not_fit_is_told():
    one = jnp.asarray(np.eye(6))
    with pytest.raises(ValueError, match="2 contacts of dimension 3 have 6 rows; A has 5"):
        solve_cone(jnp.asarray(np.eye(5)), zeros(2, 3), zeros(2, 2))
    with pytest.raises(ValueError, match="friction must be"):
        solve_pyramid(one, zeros(2, 3), zeros(2, 3))
    with pytest.raises(ValueError, match="A and b belong together"):
        solve_qp(one, zeros(6), one, zeros(6), A=one)
    for solve in (solve_lcp, lemke):
        assert solve(zeros(0, 0), zeros(0)).code == Code.SOLVED
    for solve in (solve_cone, solve_pyramid):
        assert solve(zeros(0, 0), zeros(0, 3), zeros(0, 2)).force.shape == (0, 3)


@pytest.mark.slow
@pytest.mark.parametrize("dtype, tolerance", [(np.float64, 1e-8), (np.float32, 1e-4)])
def test_ten_thousand_problems(rng, dtype, tolerance):
    data = feasible_qps(rng, 10_000)
    found = qps(*in_precision(data, dtype))
    np.testing.assert_array_equal(found.code, Code.SOLVED)
    assert missing(data, found) <= tolerance
    M, d, _ = feasible_lcps(rng, 10_000)
    for solve in (lcps, lemkes):
        found = solve(*in_precision((M, d), dtype))
        # Some problems have unbounded forces and are infeasible up to rounding.
        ends = np.asarray(found.code) == Code.SOLVED
        assert np.mean(ends) >= 0.999
        force, gap = np.asarray(found.force, float), np.asarray(found.slack, float)
        assert largest(force * gap) <= tolerance**4
        beside = 1 + np.max(times(np.abs(M), force), axis=1, keepdims=True)
        assert largest(((times(M, force) + d - gap) / beside)[ends]) <= tolerance
    A, b, friction, speed = feasible_cones(rng, 10_000)
    found = cones(*in_precision((A, b, friction), dtype))
    np.testing.assert_array_equal(found.code, Code.SOLVED)
    assert_close(found.velocity, speed, 10 * tolerance)
