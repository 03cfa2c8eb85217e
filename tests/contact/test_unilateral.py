"""Rigid contact in terms of forces and accelerations: the book's numbers, three formulations, states, friction,
derivatives.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from support import quotient

import rbd_jax as rbd
from rbd_jax.contact import ContactState, contact_problem, unilateral_dynamics
from rbd_jax.contact.solvers import Code, lemke, solve_lcp, solve_qp


def body(mass, moments, *feet, at=(0, 0, 0), turned=None, mu=0.0, size=0.01):
    """Returns a free body with small spherical feet above a floor at height zero."""
    builder = rbd.ModelBuilder(name="body")
    inertia = rbd.Inertia.from_mass_com(mass, (0, 0, 0), np.diag(np.array(moments, float)))
    reference = np.concatenate([np.array(at, float), [1.0, 0, 0, 0] if turned is None else turned])
    builder.add_body("body", "world", rbd.joints.Free(), None, inertia, reference=reference)
    for k, foot in enumerate(feet):
        builder.attach(rbd.Shape(f"foot{k}", "body", rbd.shapes.Sphere(size), foot, friction=(mu, 0, 0)))
    builder.attach(rbd.Shape("floor", "world", rbd.shapes.Plane(), friction=(mu, 0, 0)))
    return builder.build()


STILL = jnp.zeros(6)


@pytest.mark.slow
def test_one_contact():
    """`M = 1/m + r²/I`, `d = -g` and `λ = -d/M`. Eqs. 11.4 to 11.10."""
    model = body(2.0, (0.1, 0.2, 0.3), (0.5, 0, 0.01))
    problem = contact_problem(model, model.reference, STILL)
    assert_allclose(problem.M, [[1.75]], rtol=1e-12)
    assert_allclose(problem.d, [-9.81], rtol=1e-12)
    found = unilateral_dynamics(model, model.reference, STILL)
    assert_allclose(found.force, [5.605714], atol=1e-6)
    assert_allclose(found.separation, [0.0], atol=1e-9)
    assert found.state == ContactState.HELD and found.code == Code.SOLVED


CORNERS = [(x, y, -0.09) for x in (-0.2, 0.2) for y in (-0.1, 0.1)]


@pytest.fixture(scope="module")
def block():
    return body(3.0, (0.1, 0.2, 0.3), *CORNERS, at=(0, 0, 0.1), mu=0.4)


@pytest.mark.slow
def test_three_formulations(block):
    """Three formulations agree: complementarity problem, and quadratic problems in forces and in accelerations.

    Book eqs. 11.34, 11.43, 11.44; Sueda eqs. 2.105, 2.127. The forces of four corners are not unique, but their
    resultant is.
    """
    tau = jnp.array([0.2, -0.4, 0.1, 1.0, 0.5, 2.0])
    problem = contact_problem(block, block.reference, STILL, tau)
    force, pivots = solve_lcp(problem.M, problem.d).force, lemke(problem.M, problem.d).force
    least = solve_qp(problem.M, problem.d, -jnp.eye(4), jnp.zeros(4)).x
    assert np.abs(force - pivots).max() > 0.1
    for other in (pivots, least):
        assert_allclose(problem.normals @ other, problem.normals @ force, atol=1e-8)
    h = rbd.mass_matrix(block, block.reference)
    free = rbd.forward_dynamics(block, block.reference, STILL, tau)
    rows = problem.normals.T
    a = solve_qp(h, -h @ free, -rows, problem.d - rows @ free).x
    found = unilateral_dynamics(block, block.reference, STILL, tau)
    assert_allclose(found.acceleration, a, atol=1e-8)
    assert_allclose(found.acceleration, free + jnp.linalg.solve(h, problem.normals @ pivots), atol=1e-8)
    assert_allclose(found.force.sum(), 3 * 9.81 - 2.0, rtol=1e-8)


@pytest.mark.slow
def test_what_contacts_are_doing(block):
    """A block rests, tips over an edge, rises, falls, and hovers (figure 11.4)."""
    run = jax.jit(lambda q, v, tau: unilateral_dynamics(block, q, v, tau).state)
    q, none = block.reference, jnp.zeros(6)
    assert (run(q, none, none) == ContactState.HELD).all()
    # A torque about y larger than the weight can balance: the corners at x < 0 lift off.
    assert run(q, none, none.at[1].set(8.0)).tolist() == 2 * [ContactState.LEAVING] + 2 * [ContactState.HELD]
    assert (run(q, none.at[5].set(0.1), none) == ContactState.PARTING).all()
    assert (run(q, none.at[5].set(-0.1), none) == ContactState.HITTING).all()
    assert (run(q.at[2].add(0.1), none, none) == ContactState.APART).all()


def test_on_a_ball_by_its_curvature():
    """A ball on top of another has the contact force `m (g - v² / R)`, and leaves when it would be negative."""
    builder = rbd.ModelBuilder(name="balls")
    at, ball = np.array([0, 0, 0.5]), rbd.Inertia.sphere(2.0, 0.1)
    builder.add_body("top", "world", rbd.joints.Translational(), None, ball, reference=at)
    builder.attach(
        rbd.Shape("top", "top", rbd.shapes.Sphere(0.1)), rbd.Shape("under", "world", rbd.shapes.Sphere(0.4))
    )
    model = builder.build()
    run = jax.jit(lambda v: unilateral_dynamics(model, model.reference, jnp.zeros(3).at[0].set(v)))
    assert_allclose(run(1.5).force, [2 * (9.81 - 1.5**2 / 0.5)], rtol=1e-8)
    gone = run(3.0)
    assert_allclose(gone.force, [0.0], atol=1e-12)
    assert_allclose(gone.separation, [3.0**2 / 0.5 - 9.81], rtol=1e-8)


@pytest.mark.slow
def test_friction_holds_and_opposes(block):
    run = jax.jit(lambda v, tau: unilateral_dynamics(block, block.reference, v, tau, friction=True))
    held = run(STILL, STILL.at[3].set(0.99 * 0.4 * 3 * 9.81))
    assert held.code == Code.SOLVED
    assert np.abs(held.acceleration).max() < 1e-9
    moved = run(STILL, STILL.at[3].set(2 * 0.4 * 3 * 9.81))
    assert_allclose(moved.acceleration, [0, 0, 0, 0.4 * 9.81, 0, 0], atol=1e-8)
    slides = run(STILL.at[3].set(1.0), STILL)
    assert_allclose(slides.acceleration, [0, 0, 0, -0.4 * 9.81, 0, 0], atol=1e-8)
    assert not slides.paradox.any()


@pytest.mark.slow
def test_painleves_rod():
    """A rod slides on its tip at the angle atan 2: `M = (1 + 3 cos θ (cos θ - μ sin θ)) / m` is negative for μ > 4/3."""
    angle = np.arctan(2)
    quaternion = np.array([np.cos(angle / 2), 0, -np.sin(angle / 2), 0])  # the rod's x axis, up
    foot = (-1.0, 0.0, 0.0)
    tip = np.array([-np.cos(angle), 0, -np.sin(angle)])

    def run(mu, direction, tau=STILL):
        at = (0, 0, -tip[2] + 1e-3)
        model = body(2.0, (0.01, 2 / 3, 2 / 3), foot, at=at, turned=quaternion, mu=mu, size=1e-3)
        v = rbd.lie.quaternion.rotate(
            rbd.lie.quaternion.conjugate(quaternion), jnp.array([direction, 0, 0.0])
        )
        return unilateral_dynamics(model, model.reference, STILL.at[3:].set(v), tau, friction=True)

    ordinary = run(1.0, -1.0)
    assert ordinary.code == Code.SOLVED and not ordinary.paradox.any()
    expected = 9.81 / ((1 + 3 * np.cos(angle) * (np.cos(angle) - 1.0 * np.sin(angle))) / 2)
    assert_allclose(ordinary.force, [expected], rtol=0.005)  # the foot is spherical
    paradox = run(2.0, -1.0)
    assert paradox.paradox.all() and paradox.code == Code.INFEASIBLE
    other_way = run(2.0, 1.0)
    assert other_way.code == Code.SOLVED and not other_way.paradox.any()


@pytest.mark.slow
@pytest.mark.parametrize("corners", [1, 4])
def test_derivatives_and_batches(corners):
    model = body(3.0, (0.1, 0.2, 0.3), *CORNERS[:corners], at=(0, 0, 0.1))

    def value(x):
        found = unilateral_dynamics(model, model.reference, 0.1 * x, x)
        return jnp.sum(found.acceleration**2)

    x = jnp.asarray(np.random.default_rng(0).normal(size=(3, 6))).at[:, 2:6].set(0.0)
    values, slopes = jax.jit(jax.vmap(jax.value_and_grad(value)))(x)
    assert np.isfinite(slopes).all()
    moved = lambda h: jax.vmap(lambda x: value(x.at[0].add(h)))(x)
    assert_allclose(slopes[:, 0], quotient(jax.jit(moved), 1e-6), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_constraints_are_held_and_nothing_is_there():
    builder = rbd.ModelBuilder(name="slider")
    builder.add_body("x", "world", rbd.joints.Prismatic((1, 0, 0)), None, rbd.Inertia.sphere(0.5, 0.1))
    builder.add_body("z", "x", rbd.joints.Prismatic((0, 0, 1)), None, rbd.Inertia.sphere(1.0, 0.1))
    tree = builder.build()
    assert unilateral_dynamics(tree, jnp.zeros(2), jnp.zeros(2)).force.size == 0
    shapes = (
        rbd.Shape("ball", "z", rbd.shapes.Sphere(0.1)),
        rbd.Shape("floor", "world", rbd.shapes.Plane(), (0, 0, -0.1)),
    )
    tied = rbd.add_constraints(
        rbd.attach(tree, *shapes), rbd.constraints.CoordinateCoupling({"x": [0, -2], "z": [0, 1]})
    )
    found = unilateral_dynamics(tied, jnp.zeros(2), jnp.zeros(2))
    assert_allclose(found.force, [9.81], rtol=1e-9)
    assert_allclose(found.acceleration, [0, 0], atol=1e-9)
