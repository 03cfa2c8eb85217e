"""Quadratic programs against the optimality conditions, SciPy, and ProxSuite if installed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from support import assert_close, assert_each_close, quotient

import rbd_jax as rbd
from rbd_jax.control import Code


N, EQUAL, UNEQUAL = 6, 3, 8
INF = np.inf


def convex(draw, rank=N):
    half = draw.normal(size=(N, rank))
    return half @ half.T


def program(seed, **changes):
    """Returns a random program with a feasible interior.

    `changes` replaces parts, by values or functions of the other parts.
    """
    draw = np.random.default_rng(seed)
    inside = draw.normal(size=N)
    A, G = draw.normal(size=(EQUAL, N)), draw.normal(size=(UNEQUAL, N))
    parts = {
        "P": convex(draw),
        "q": 3 * draw.normal(size=N),
        "A": A,
        "b": A @ inside,
        "G": G,
        "h": G @ inside + draw.uniform(0, 0.3, UNEQUAL),
        "lower": inside - draw.uniform(0.1, 1, N),
        "upper": inside + draw.uniform(0.1, 1, N),
    }
    for name, change in changes.items():
        parts[name] = change(parts) if callable(change) else change
    return {name: np.asarray(part, float) for name, part in parts.items()}


def twice(name, by):
    """Replaces the second row by a multiple of the first."""

    def change(parts):
        rows = parts[name].copy()
        rows[1] = by * rows[0]
        return rows

    return change


OPEN = {"h": np.full(UNEQUAL, INF), "lower": np.full(N, -INF), "upper": np.full(N, INF)}
FREE = {**OPEN, "A": np.zeros((EQUAL, N)), "b": np.zeros(EQUAL)}

#: Programs with a minimum.
SOLVABLE = {
    "any": program(6),
    "another": program(1),
    "far from its bounds": program(2, lower=-1e3, upper=1e3),
    "no rows and no bounds": program(3, **FREE),
    "bounds on one side": program(4, upper=INF, h=INF),
    "equalities alone": program(5, **OPEN),
    "P of rank two": program(15, P=convex(np.random.default_rng(6), 2)),
    "a linear program": program(7, P=np.zeros((N, N))),
    "nothing to minimize": program(8, P=np.zeros((N, N)), q=np.zeros(N)),
    "equalities twice": program(9, A=twice("A", -2.0), b=twice("b", -2.0)),
    "inequalities twice": program(10, G=twice("G", 1.0), h=twice("h", 1.0)),
    "what is fixed": program(11, A=0, b=0, h=10, upper=lambda own: np.where(np.arange(N) < 2, own["lower"], own["upper"])),
    "one point alone": program(
        12,
        G=lambda own: np.concatenate([own["A"], -own["A"], own["G"][:2]]),
        h=lambda own: np.concatenate([own["b"], -own["b"], own["h"][:2]]),
    ),
    "a corner of many": program(
        13, P=0.1 * np.eye(N), q=-np.ones(N), A=0, b=0, G=np.tri(UNEQUAL, N), h=np.tri(UNEQUAL, N).sum(1), lower=-INF, upper=1
    ),
    "numbers of all sizes": program(14, P=np.diag(10.0 ** np.arange(-3, 3))),
}  # fmt: skip

#: Programs without a minimum, and their codes.
NOT = {
    "bounds that cross": (program(20, upper=lambda own: own["lower"] - 0.1), Code.INFEASIBLE),
    "equalities that contradict": (program(21, A=twice("A", 1.0), b=[0.0, 1.0, 0.0], **OPEN), Code.INFEASIBLE),
    "inequalities that contradict": (
        program(22, G=twice("G", -1.0), h=lambda own: np.r_[own["h"][0], -own["h"][0] - 0.5, own["h"][2:]]),
        Code.INFEASIBLE,
    ),
    "out of bounds": (program(23, b=lambda own: own["b"] + 1e2, h=INF), Code.INFEASIBLE),
    "downhill without end": (program(24, **FREE | {"P": np.diag([1.0, 1, 1, 1, 1, 0])}), Code.UNBOUNDED),
    "a line without end": (program(25, P=np.zeros((N, N)), **FREE | {"upper": np.zeros(N)}, q=np.ones(N)), Code.UNBOUNDED),
}  # fmt: skip


def filled(parts):
    """Broadcasts all parts to full shapes."""
    shapes = {"P": (N, N), "q": (N,), "A": (EQUAL, N), "b": (EQUAL,), "G": (UNEQUAL, N), "h": (UNEQUAL,)}
    return {name: np.broadcast_to(part, shapes.get(name, (N,))) for name, part in parts.items()}


def stacked(programs, dtype=np.float64):
    return {name: np.stack([np.asarray(filled(one)[name], dtype) for one in programs]) for name in program(0)}


def solved(parts):
    parts = dict(parts)
    return rbd.control.quadratic_program(parts.pop("P"), parts.pop("q"), **parts)


@pytest.fixture(scope="module")
def batched():
    return jax.jit(jax.vmap(solved))


@pytest.fixture(scope="module")
def found(batched):
    names, programs = [*SOLVABLE, *NOT], [*SOLVABLE.values(), *(given for given, _ in NOT.values())]
    all = jax.tree.map(np.asarray, batched(stacked(programs)))
    return {name: jax.tree.map(lambda x, i=i: jax.device_put(x[i]), all) for i, name in enumerate(names)}


def missed(parts, found):
    """Returns the largest violation of the optimality conditions."""
    P, q, A, b, G, h, lower, upper = (np.asarray(part, float) for part in filled(parts).values())
    x, y, z, w = (np.asarray(part, float) for part in (found.x, found.y, found.z, found.bounds))
    above, below = np.maximum(w, 0), np.maximum(-w, 0)
    slacks = [(z, h - G @ x), (above, upper - x), (below, x - lower)]
    return max(
        np.abs(P @ x + q + A.T @ y + G.T @ z + w).max(),
        np.abs(A @ x - b).max(),
        -z.min(),
        *(-slack.min() for _, slack in slacks),
        *(np.abs(by * np.where(np.isfinite(slack), slack, 1)).max() for by, slack in slacks),
    )


@pytest.mark.parametrize("name", SOLVABLE)
def test_the_conditions_of_a_minimum_hold(found, name):
    assert found[name].code == Code.CONVERGED and found[name].converged
    assert found[name].iterations <= 25
    assert missed(SOLVABLE[name], found[name]) < 1e-5


@pytest.mark.parametrize("name", NOT)
def test_where_there_is_none_the_code_says_why(found, name):
    assert found[name].code == NOT[name][1] and not found[name].converged
    assert np.isfinite(found[name].x).all()


def test_linear_programs_as_scipy_has_them(found):
    given = SOLVABLE["a linear program"]
    other = scipy.optimize.linprog(
        given["q"],
        given["G"],
        given["h"],
        given["A"],
        given["b"],
        list(zip(given["lower"], given["upper"], strict=True)),
    )
    assert_close(found["a linear program"].x, other.x, 1e-6)


def test_least_squares_within_bounds_as_scipy_has_them():
    draw = np.random.default_rng(30)
    J, r = draw.normal(size=(9, N)), draw.normal(size=9)
    other = scipy.optimize.lsq_linear(J, r, (-0.1, 0.3), method="bvls", tol=1e-12)
    own = rbd.control.quadratic_program(jnp.asarray(J.T @ J), jnp.asarray(-J.T @ r), lower=-0.1, upper=0.3)
    assert_close(own.x, other.x, 1e-6)


@pytest.mark.parametrize("name", ["any", "another", "equalities twice", "numbers of all sizes"])
def test_as_proxsuite_has_them(found, name):
    proxsuite = pytest.importorskip("proxsuite")
    given = filled(SOLVABLE[name])
    rows = np.concatenate([given["G"], np.eye(N)])
    low, high = (
        np.concatenate(pair)
        for pair in ((np.full(UNEQUAL, -1e20), given["lower"]), (given["h"], given["upper"]))
    )
    other = proxsuite.proxqp.dense.solve(
        given["P"], given["q"], given["A"], given["b"], rows, low, high, eps_abs=1e-10
    )
    assert_close(found[name].x, other.x, 1e-6)


def test_one_by_one_it_is_the_same(found):
    for name in ("any", "P of rank two", "bounds that cross", "downhill without end"):
        given = SOLVABLE[name] if name in SOLVABLE else NOT[name][0]
        one = solved(jax.device_put(filled(given)))
        assert one.code == found[name].code
        if one.converged:
            assert_close(one.x, found[name].x, 1e-7)


def test_parts_may_be_left_out():
    P, q, turn = jax.device_put(
        (np.diag([2.0, 4.0]), np.array([-2.0, -8.0]), np.array([[0, 1.0], [-1.0, 0]]))
    )
    free = rbd.control.quadratic_program(P, q)
    assert_close(free.x, [1.0, 2.0], 1e-8)
    assert free.y.shape == free.z.shape == (0,)
    above = rbd.control.quadratic_program(P, q, upper=jax.device_put(np.array([np.inf, 1.0])))
    assert_close(above.x, [1.0, 1.0], 1e-7)
    assert_close(above.bounds, [0.0, 4.0], 1e-6)
    # Only the symmetric part counts.
    assert_close(rbd.control.quadratic_program(P + turn, q).x, free.x, 1e-8)


def test_single_precision(batched, found):
    single = batched(stacked([*SOLVABLE.values(), *(given for given, _ in NOT.values())], np.float32))
    assert single.x.dtype == jnp.float32
    codes = dict(zip([*SOLVABLE, *NOT], single.code.tolist(), strict=True))
    # Directions of descent and single feasible points need more digits.
    unsure = {"downhill without end", "one point alone"}
    assert {name for name, one in found.items() if codes[name] != one.code} <= unsure
    assert Code.CONVERGED not in [codes[name] for name in NOT]
    unique = [
        i for i, name in enumerate(SOLVABLE) if np.linalg.eigvalsh(filled(SOLVABLE[name])["P"])[0] > 1e-2
    ]
    expected = np.stack([found[list(SOLVABLE)[i]].x for i in unique])
    assert_close(np.asarray(single.x)[unique], expected, 1e-2)


@pytest.fixture(scope="module")
def changed():
    """Compiled functions that return results, and their derivatives along a direction of all numbers of a program."""
    outputs = lambda parts: (lambda at: (at.x, at.y, at.z, at.bounds))(solved(parts))
    return jax.jit(outputs), jax.jit(lambda parts, by: jax.jvp(outputs, (parts,), (by,))[1])


def of(parts):
    return {name: np.array(part) for name, part in filled(parts).items()}


@pytest.mark.parametrize("name", ["P", "q", "A", "b", "G", "h", "lower", "upper"])
def test_derivatives_are_those_of_the_minimum(changed, name):
    values, derivative = changed
    given = of(SOLVABLE["any"])
    _, _, z, bounds = map(np.asarray, values(given))
    assert (np.abs(bounds) > 1e-3).any() and (z > 1e-3).any() and (z < 1e-6).any()
    by = jax.tree.map(np.zeros_like, given)
    by[name] = np.random.default_rng(40).normal(size=given[name].shape)
    at = lambda s: jax.device_get(values({key: given[key] + s * by[key] for key in given}))
    expected = quotient(at, 1e-4)
    assert_each_close(derivative(given, by), expected, 2e-5)


def test_what_is_at_a_bound_goes_with_it(changed):
    _, derivative = changed
    given = of(SOLVABLE["no rows and no bounds"])
    free = np.linalg.solve(given["P"], -given["q"])
    given["upper"][2] = free[2] - 0.5
    by = jax.tree.map(np.zeros_like, given)
    by["upper"][2] = 1.0
    change = np.asarray(derivative(given, by)[0])
    assert_close(change[2], 1.0, 1e-6)
    others = np.delete(np.arange(N), 2)
    P = np.asarray(given["P"])
    assert_close(change[others], -np.linalg.solve(P[np.ix_(others, others)], P[others, 2]), 1e-5)


@pytest.mark.parametrize("name", SOLVABLE)
def test_gradients_are_finite(changed, name):
    _, derivative = changed
    given = of(SOLVABLE[name])
    by = jax.tree.map(lambda x: np.where(np.isfinite(x), 1.0, 0.0), given)
    assert all(np.isfinite(part).all() for part in derivative(given, by))


def test_backwards_is_forwards_transposed(changed):
    _, derivative = changed
    given = of(SOLVABLE["any"])
    draw = np.random.default_rng(50)
    by = {name: draw.normal(size=part.shape) for name, part in given.items()}
    weights = [draw.normal(size=size) for size in (N, EQUAL, UNEQUAL, N)]
    total = lambda at: sum(
        jnp.sum(w * x) for w, x in zip(weights, (at.x, at.y, at.z, at.bounds), strict=True)
    )
    back = jax.device_get(jax.jit(jax.grad(lambda parts: total(solved(parts))))(given))
    forth = sum(np.sum(w * np.asarray(x)) for w, x in zip(weights, derivative(given, by), strict=True))
    np.testing.assert_allclose(sum(np.sum(back[name] * by[name]) for name in given), forth, rtol=1e-7)


def test_numbers_that_are_none_are_told():
    assert solved(jax.device_put(filled(program(0, q=np.nan)))).code == Code.NOT_FINITE


def test_steps_that_run_out_are_told():
    given = of(SOLVABLE["any"])
    P, q = jax.device_put((given["P"], given["q"]))
    found = rbd.control.quadratic_program(P, q, lower=-0.1, upper=0.1, max_steps=2)
    assert found.code == Code.NOT_CONVERGED and found.iterations == 2


@pytest.mark.parametrize(
    "change, words",
    [
        ({"P": np.eye(3)}, r"P has shape \(3, 3\), and q has 2 entries"),
        ({"q": np.zeros((2, 1))}, r"q has shape \(2, 1\)"),
        ({"A": np.eye(2)}, "A and b belong together"),
        ({"h": np.zeros(1)}, "G and h belong together"),
        ({"A": np.ones(2), "b": np.ones(1)}, r"A has shape \(2,\); it is \(rows, 2\)"),
        ({"G": np.ones((1, 2)), "h": np.ones(2)}, r"h has shape \(2,\); G has 1 rows"),
        ({"lower": np.zeros(3)}, r"lower has shape \(3,\)"),
        ({"upper": "much"}, "upper is 'much'"),
        ({"tolerance": 0.0}, "tolerance is 0.0"),
        ({"max_steps": 0}, "max_steps is 0"),
    ],
)
def test_bad_input(unchecked, change, words):
    given = {"P": np.eye(2), "q": np.zeros(2)} | change
    with pytest.raises(ValueError, match=f"quadratic_program: {words}"):
        rbd.control.quadratic_program(given.pop("P"), given.pop("q"), **given)
