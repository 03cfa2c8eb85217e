"""Consistent states by projection and assembly, edits of models with constraints, and rejected input."""

import functools
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mechanisms import TIP, at, four_bar, four_bars, four_bars_state, loose

import rbd_jax as rbd
from rbd_jax import constraints as rc, joints
from rbd_jax.constraints._factors import pseudo_inverse
from rbd_jax.constraints.solving import factorize


@pytest.mark.parametrize("count", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_projection_is_the_nearest_in_the_mass_metric(count):
    """Projected states satisfy the constraints, and consistent states do not change.

    The removed velocity is orthogonal to the constraints in the metric of M.
    """
    model = four_bars(count)
    state = four_bars_state(count, np.array(1.1), np.array(0.7))
    rng, project = np.random.default_rng(0), jax.jit(rbd.project)
    q = state.q + 0.02 * rng.normal(size=model.nv)
    v = state.v + 0.1 * rng.normal(size=model.nv)

    near = jax.device_get(project(model, rbd.State(q, v)))
    same = jax.device_get(project(model, near))
    (near_q, near_v), (same_q, same_v) = (near.q, near.v), (same.q, same.v)

    @jax.jit
    def run(model, v, near_q, near_v):
        broken = rbd.constraint_residual(model, near_q), rbd.constraint_velocity(model, near_q, near_v)
        blow = rbd.mass_matrix(model, near_q) @ (near_v - v)
        slope = rbd.constraint_jacobian(model, near_q)
        return broken, blow, slope

    broken, blow, slope = jax.device_get(run(model, v, near_q, near_v))
    for x in (*broken, same_q - near_q, same_v - near_v):
        np.testing.assert_allclose(x, 0, atol=1e-12)
    multipliers = np.linalg.lstsq(slope.T, blow)[0]
    np.testing.assert_allclose(multipliers @ slope, blow, atol=1e-10)


def crank(angle, length):
    """Returns a four-bar with another coupler length, assembled with its crank held."""
    model = four_bar("revolute")
    frames = eqx.tree_at(
        lambda it: it.position, model.constraints[0].frames, jnp.array([[1.0, 0, 0], [1.0, 0, 0]])
    )
    frames = rbd.Transform(frames.rotation, frames.position.at[0, 0].set(length))
    model = eqx.tree_at(lambda it: it.constraints[0].frames, model, frames)
    found = rbd.assemble(
        model, jnp.stack([angle, jnp.zeros_like(angle), jnp.ones_like(angle)]), hold=("crank",)
    )
    return found.q, found.closed


STEP = 1e-6


@jax.jit
@jax.vmap
def assembled(x):
    """Assembles a batch of angles and lengths."""
    return crank(x[0], x[1])


@functools.cache
def cranks():
    """Returns assemblies at an angle of 1.1 and a length of 1.2, and at steps in both directions of each."""
    at, steps = np.array([[1.1, 1.2]]), STEP * np.eye(2)
    return jax.device_get(assembled(np.concatenate([at, at + steps, at - steps])))


def test_assembly_follows_from_held_joints():
    """Assembly starts from a rough initial guess and does not move the held joint."""
    q, closed = cranks()
    assert closed.all()
    angle, length = 1.1, 1.2
    tip = np.array([np.cos(angle), np.sin(angle)])
    coupler = q[0, 0] + q[0, 1]
    end = tip + length * np.array([np.cos(coupler), np.sin(coupler)])
    np.testing.assert_allclose(end, [1 + np.cos(q[0, 2]), np.sin(q[0, 2])], atol=1e-12)
    assert q[0, 0] == angle


@pytest.mark.slow
def test_derivatives_of_assembly():
    """Derivatives of an assembly by held joints and geometry are those of the equations."""
    q, _ = cranks()
    slope = jax.jit(jax.jacrev(lambda x: crank(x[0], x[1])[0]))(np.array([1.1, 1.2]))
    np.testing.assert_allclose(slope, ((q[1:3] - q[3:]) / (2 * STEP)).T, atol=1e-8)


@pytest.mark.parametrize("derivative", [jax.jacfwd, jax.jacrev])
def test_least_squares_in_a_loop_can_be_differentiated(derivative):
    """The pseudo-inverse of assembly, projection and inverse dynamics is differentiable in a scan: d/dx of `1/(x s)`."""

    def total(x):
        body = lambda carry, scale: (carry + pseudo_inverse(x * scale * np.ones((1, 1)))[0, 0], None)
        return jax.lax.scan(body, np.zeros(()), np.array([1.0, 2.0]))[0]

    np.testing.assert_allclose(jax.jit(derivative(total))(np.array(2.0)), -0.375, rtol=1e-14)


def test_what_cannot_be_closed_says_so():
    q, closed = jax.device_get(assembled(np.tile([0.4, 5.0], (5, 1))))
    assert not closed.any() and np.isfinite(q).all()


@pytest.mark.slow
def test_loops_that_contradict_each_other_are_told():
    """A strut that does not fit makes the state invalid, and assembly does not close.

    A strut that fits leaves no mobility, which is not an error.
    """

    def with_strut(length):
        return rbd.add_constraints(
            four_bar(), rc.Distance("crank", TIP.position, "world", (1.0, 0, 0), length)
        )

    q, rest = np.array([1.1, -1.1, 1.1]), np.zeros(3)
    with pytest.raises(ValueError, match=r"Distance\('crank', 'world'\) in position by"):
        rbd.rollout(with_strut(2.5), rbd.State(q, rest), dt=1e-3, steps=2)

    @jax.jit
    def run(length):
        model = with_strut(length)
        found = rbd.assemble(model, q)
        return found, rbd.mobility(model, found.q)

    found, dofs = run(np.array(2 * np.sin(0.55)))
    assert found.closed and dofs == 0
    found, _ = run(np.array(2.5))  # longer than crank plus ground
    assert not found.closed
    assert 0.4 < found.residual < 1 and np.isfinite(found.q).all()


def test_baumgarte_brings_back():
    """With `α = β = 1/T` a residual decays as `(1 + t/T) e^{-t/T}` (book eq. 8.22; Sueda eq. 1.82)."""
    model, time = four_bar(), 0.05
    q = np.array([1.1, -1.1, 1.1]) + np.array([1e-6, 0.0, 0.0])
    state = rbd.State(q, np.zeros(3))

    @jax.jit
    def run(state):
        hold, scheme = rc.Baumgarte.within(time), rbd.RungeKutta4()
        path = rbd.rollout(model, state, dt=1e-3, steps=100, scheme=scheme, stabilization=hold)
        residuals = jax.vmap(lambda q: rbd.constraint_residual(model, q))(path.q)
        return residuals[0], residuals[1:]

    before, after = jax.device_get(run(state))
    times = np.arange(1, 101) * 1e-3 / time
    expected = before[None] * ((1 + times) * np.exp(-times))[:, None]
    np.testing.assert_allclose(after, expected, atol=2e-10)


def test_an_inconsistent_start_is_told():
    model = four_bar()
    state = rbd.State(np.array([1.1, -1.0, 1.1]), np.zeros(3))
    with pytest.raises(
        ValueError, match=r"HingeLoop\('coupler', 'follower'\) in position by 0\.\d+.*rbd\.project"
    ):
        rbd.rollout(model, state, dt=1e-3, steps=2)
    with pytest.raises(ValueError, match=r"in velocity by 1\.45"):
        rbd.check_consistent(model, np.array([1.1, -1.1, 1.1]), np.array([1.0, 0.0, 0.0]))
    rbd.check_consistent(model, np.array([1.1, -1.1, 1.1]), np.array([1.0, -1.0, 1.0]))


BAD = {
    "no such body": (
        lambda: rc.Connect("coupler", None, "folower", None),
        "no body 'folower'.*'follower'",
    ),
    "itself": (lambda: rc.Weld("crank", None, "crank", TIP), "against itself"),
    "no such joint": (lambda: rc.CoordinateCoupling({"crank": (0, 1), "cran": (0, 1)}), "no joint 'cran'"),
}


@pytest.mark.parametrize("make, message", BAD.values(), ids=BAD)
def test_bad_constraints_are_refused(make, message):
    with pytest.raises(rbd.ModelError, match=message):
        rbd.add_constraints(four_bar(), make())


def test_more_bad_input():
    with pytest.raises(rbd.ModelError, match="joint 'base' has 6 degrees of freedom"):
        rbd.add_constraints(loose(), rc.CoordinateCoupling({"base": (0.0, 1.0)}))
    with pytest.raises(
        ValueError, match="length is 0.0; it must be greater than 0; for no distance use Connect"
    ):
        rc.Distance("a", None, "b", None, 0.0)
    with pytest.raises(ValueError, match=r"2 degree\(s\) of freedom"):
        rc.PointOnSurface("a", None, joints.Revolute(), "b", None)
    with pytest.raises(ValueError, match="one number"):
        rc.PrescribedCoordinate("a", lambda t: np.zeros(2))
    with pytest.raises(ValueError, match="method is 'qr'"):
        jax.jit(lambda q: factorize(rbd.Motion(four_bar(), q), "qr"))(np.zeros(3))
    builder = rbd.ModelBuilder()
    builder.add_body("a", "world", joints.Fixed())
    builder.add_constraint(rc.Weld("world", None, "a", None))
    with pytest.raises(rbd.ModelError, match="welded together"):
        builder.build()
    with pytest.raises(rbd.ModelError, match="mimic"):
        rbd.maximal_coordinates(loose())
    with pytest.raises(
        rbd.ModelError, match="frame on body a is 'tip'; it takes a Transform, a point or None"
    ):
        rc.Connect("crank", "tip", "follower", None)
    stretched = rbd.Transform.from_rotation(jax.device_put(1.1 * np.eye(3)))
    with pytest.raises(rbd.ModelError, match=r"Weld: frame_b: its rotation is no rotation matrix.* by 0\.21"):
        rc.Weld("crank", None, "follower", stretched)
    model, zero = four_bar(), np.zeros(3)
    with pytest.raises(ValueError, match=r"hold is 'crank'; it takes a sequence of joints: \['crank'\]"):
        rbd.assemble(model, zero, hold="crank")
    with pytest.raises(ValueError, match=r"actuators is 'crank'; it takes a sequence"):
        rbd.constrained_inverse_dynamics(model, zero, zero, zero, actuators="crank")
    with pytest.raises(rbd.UnknownNameError, match="no joint 'crnk'; did you mean 'crank'"):
        rbd.assemble(model, zero, hold=["crnk"])


@pytest.mark.parametrize(
    "edits",
    [("fuse",), pytest.param(("lock", "join", "cast"), marks=pytest.mark.slow)],
    ids=lambda edits: ", ".join(edits),
)
def test_edits_carry_constraints(edits):
    """Locking, fusing, joining and casting preserve the residual, and `repr` lists the constraints."""
    model = arm_with_loops()
    assert "LoopJoint('post', 'c', Revolute), 5 rows" in repr(model)
    ball = np.array([0.7, -0.1, 0.5, 0.5])
    q = np.array([0.8, *(ball / np.linalg.norm(ball)), -1.3])
    residual = rbd.constraint_residual
    expected = np.asarray(residual(model, q))
    for what in edits:
        if what == "fuse":
            np.testing.assert_allclose(residual(rbd.fuse_fixed(model), q), expected, atol=1e-14)
        elif what == "lock":
            locked = rbd.lock_joints(model, {"a": q[0]})
            np.testing.assert_allclose(residual(locked, q[1:]), expected, atol=1e-14)
        elif what == "join":
            away = at((30.0, 1.0, 2.0))
            both = rbd.concatenate(model, model, names=("l", "r"), placements=(None, away))
            twice = np.concatenate([q, q])
            np.testing.assert_allclose(residual(both, twice), np.tile(expected, 2), atol=1e-13)
        else:
            single = rbd.astype(model, jnp.float32)
            np.testing.assert_allclose(residual(single, q.astype(np.float32)), expected, atol=1e-6)


def arm_with_loops():
    builder = rbd.ModelBuilder(name="arm")
    block = rbd.Inertia.box(1.0, (0.2, 0.3, 0.4))
    builder.add_body("post", "world", joints.Fixed(), at((0.3, 0.1, 0.0), (0.2, 0.1, 0.4)), block)
    builder.add_body("a", "post", joints.Revolute(), at((0.1, 0.2, 0.3)), block)
    builder.add_body("plate", "a", joints.Fixed(), at((0.0, 0.2, 0.1), (0.5, 0.1, 0.0)), block)
    builder.add_body("b", "plate", joints.Spherical(), at((0.3, 0.0, 0.0)), block)
    builder.add_body("c", "b", joints.Revolute((0.0, 1.0, 0.0)), at((0.3, 0.0, 0.0)), block)
    builder.add_constraint(rc.LoopJoint("post", TIP, "c", TIP, joints.Revolute()))
    builder.add_constraint(rc.Connect("plate", (0.1, 0.2, 0.3), "c", None))
    builder.add_constraint(rc.Connect("world", (0.1, 0.2, 0.3), "b", None))
    return builder.build()


def test_edits_that_constraints_forbid():
    model = arm_with_loops()
    coupled = rbd.add_constraints(model, rc.CoordinateCoupling({"a": (0.0, 1.0), "c": (0.0, 2.0)}))
    with pytest.raises(
        rbd.ModelError, match=r"CoordinateCoupling\('a', 'c'\).*joint 'a' has 0 degrees of freedom"
    ):
        rbd.lock_joints(coupled, "a")
    with pytest.raises(rbd.ModelError, match="coordinates of joints"):
        rbd.maximal_coordinates(rbd.fuse_fixed(coupled))
    assert rc.without_constraints(coupled).constraints == ()


@pytest.mark.parametrize("axis", [(0.0, 0.0, 1.0), (0.0, -1.0, 0.0)])
def test_a_hinge_loop_across_another_plane_is_told(axis):
    """A four-bar with hinges about y and a loop axis z has two degrees of freedom: its loop is not closed."""
    tip = rbd.Transform.from_xyz_rpy((1.0, 0.0, 0.0))
    builder = rbd.ModelBuilder(name="four-bar")
    for name, parent, placement in (
        ("crank", "world", None),
        ("coupler", "crank", tip),
        ("follower", "world", tip),
    ):
        builder.add_body(
            name, parent, rbd.joints.Revolute((0, 1, 0)), placement, rbd.Inertia.sphere(1.0, 0.1)
        )
    model, loop = builder.build(), rc.HingeLoop("coupler", tip, "follower", tip, axis)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        closed = rbd.add_constraints(model, loop)
    fits = axis[1] != 0
    assert [("give axis=(0.0, 1.0, 0.0)" in str(one.message)) for one in said] == ([] if fits else [True])
    assert int(rbd.mobility(closed, np.array([0.7, -0.7, 0.7]))) == (1 if fits else 2)


def test_held_velocities_stay():
    """A held joint keeps its prescribed velocity, and the others take the nearest consistent velocities."""
    model = rbd.load("arm7")
    plane = rc.PointOnPlane("world", (0, 0, 0.3), (0.1, 0.2, 1.0), model.body_names[-1], (0, 0, 0.1))
    model = rbd.add_constraints(model, plane)
    q, v = np.random.default_rng(1).normal(size=(2, model.nv))
    crank = model.joint_names[1]
    at = model.v_slice(crank)
    v[at] = 210.0

    @jax.jit
    def run(v):
        held = rbd.project_velocity(model, q, v, hold=[crank])
        rows = (
            rbd.constraint_velocity(model, q, held),
            rbd.constraint_jacobian(model, q),
            rbd.mass_matrix(model, q),
        )
        slope = jax.jacfwd(lambda v: rbd.project_velocity(model, q, v, hold=[crank]))(v)
        return held, rbd.project_velocity(model, q, v), *rows, slope

    held, free, broken, jacobian, mass, slope = map(np.asarray, run(v))
    np.testing.assert_allclose(held[at], 210.0, rtol=1e-14)
    assert np.abs(free[at] - 210.0).max() > 0.1
    np.testing.assert_allclose(broken, 0, atol=1e-9)
    # In the metric of M the change is orthogonal to all velocities that the constraints allow with the crank at rest.
    _, singular, basis = np.linalg.svd(np.vstack([jacobian, np.eye(model.nv)[at]]))
    allowed = basis[np.sum(singular > 1e-9) :]
    assert len(allowed) == model.nv - 2
    np.testing.assert_allclose(allowed @ mass @ (held - v), 0, atol=1e-8)
    np.testing.assert_allclose(slope @ v, held, rtol=1e-9)  # linear in v


def test_wrong_states_are_refused(unchecked):
    model, state = rbd.load("arm7"), rbd.State(np.zeros(7), np.zeros(7))
    for given, message in (
        ((model, rbd.State(np.zeros(3), np.zeros(7))), r"project: q has shape \(3,\)"),
        ((model, rbd.State(np.zeros(7), None)), "project: v is None"),
        ((state, state), "project: model is a State"),
    ):
        with pytest.raises(ValueError, match=message):
            rbd.project(*given)
    with pytest.raises(TypeError, match="project: state must be a State, got a list"):
        rbd.project(model, [0.0])
