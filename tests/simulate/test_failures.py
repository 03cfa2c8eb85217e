"""Failing steps: the code, the number of the step, and NaN afterward, for each sample of a batch separately."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from schemes import result, scheme
from simulated import pendulum

import rbd_jax as rbd


Result = result()
DT = 0.1

#: Strengths of the force: finite for five steps, diverging in the first step, and in the fourth.
STRENGTHS = np.array([0.1, 3.0, 1.5])


def mass():
    builder = rbd.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_body("mass", joint=rbd.joints.Prismatic(), inertia=rbd.Inertia.sphere(1.0, 0.1))
    return builder.build()


def fleeing(strength, name, steps=20, save_every=1):
    """A mass under the force `strength v²` reaches infinite speed in the time `1/strength`."""
    return rbd.rollout(
        mass(),
        rbd.State(np.zeros(1), np.ones(1)),
        dt=DT,
        steps=steps,
        save_every=save_every,
        scheme=scheme(name),
        forces=(lambda model, state, t: strength * state.v**2,),
    )


def implicit_failure(strength, steps=20):
    """Returns the step from which `v⁺ = v + h k v⁺²` has no root."""
    v = 1.0
    for number in range(steps):
        if 4 * DT * strength * v > 1:
            return number
        v = (1 - np.sqrt(1 - 4 * DT * strength * v)) / (2 * DT * strength) if strength else v
    return -1


@pytest.mark.slow
@pytest.mark.parametrize("save_every", [1, 4])
def test_of_an_implicit_scheme(save_every):
    strengths = np.array([0.0, 0.6, 0.9, 3.0])
    path = jax.jit(jax.vmap(lambda k: fleeing(k, "BDF1", save_every=save_every)))(strengths)
    expected = [implicit_failure(float(k)) for k in strengths]
    assert path.failed_step.tolist() == expected
    assert expected[0] == -1 and expected[1] > expected[2] > expected[3] == 0
    assert path.code.tolist() == [Result.SUCCESS] + [Result.NOT_CONVERGED] * 3
    for row, failed in enumerate(expected):
        lost = np.arange(0, 21, save_every) > (20 if failed < 0 else failed)
        for numbers in (path.q[row], path.v[row]):
            assert np.all(np.isnan(numbers[lost])) and np.all(np.isfinite(numbers[~lost]))


@pytest.mark.slow
def test_derivatives_of_a_failure_are_not_numbers():
    """Derivatives of a failed sample are NaN, and those of other samples are not.

    Parameters that act only in the failing step have a zero derivative.
    """
    value = lambda k: jnp.sum(fleeing(k, "BDF1", steps=5).final.v)
    path = jax.jit(jax.vmap(lambda k: fleeing(k, "BDF1", steps=5)))(STRENGTHS)
    assert path.failed_step.tolist() == [-1, 0, 3]
    gradients = jax.jit(jax.vmap(jax.grad(value)))(STRENGTHS)
    assert np.isfinite(gradients[0]) and gradients[1] == 0 and not np.isfinite(gradients[2])


@pytest.mark.slow
def test_a_failure_that_is_masked_does_not_spoil_the_others():
    """Shared parameters have the derivative of the samples that count, in forward and reverse mode."""
    strengths = jnp.array([0.1, 0.2, 30.0])

    def value(factor):
        path = jax.vmap(lambda k: fleeing(factor * k, "BDF1", steps=2))(strengths)
        return jnp.sum(jnp.where(path.code == Result.SUCCESS, path.final.v[:, 0], 0))

    reverse, forward = jax.jit(lambda x: (jax.grad(value)(x), jax.jvp(value, (x,), (1.0,))[1]))(1.0)
    ends = jax.jit(jax.vmap(value))(jnp.array([1 + 1e-5, 1 - 1e-5]))
    np.testing.assert_allclose(reverse, (ends[0] - ends[1]) / 2e-5, rtol=1e-8)
    np.testing.assert_allclose(forward, reverse, rtol=1e-12)


@pytest.mark.parametrize("save_every", [pytest.param(1, marks=pytest.mark.slow), 20])
def test_of_an_explicit_scheme(save_every):
    """Unbounded speeds are reported once they exceed the speed of light."""
    run = jax.jit(jax.vmap(lambda k: fleeing(k, "LieEuler", steps=40, save_every=save_every)))
    path = jax.tree.map(np.asarray, run(np.array([0.0, 1e3])))
    v, lost = 1.0, 0
    while v + DT * 1e3 * np.square(v) < 299_792_458:
        v, lost = v + DT * 1e3 * np.square(v), lost + 1
    assert path.code.tolist() == [Result.SUCCESS, Result.DIVERGED]
    assert path.failed_step.tolist() == [-1, lost] and 0 < lost < 19
    gone = np.arange(0, 41, save_every) > lost
    assert np.isfinite(path.v[0]).all() and not np.isfinite(path.v[1, gone]).any()
    assert np.isfinite(path.v[1, ~gone]).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["RungeKutta4", "LinearlyImplicitEuler"])
def test_constraints_that_cannot_be_satisfied(name):
    """A slide moves until its rod no longer reaches a circle at a distance of 2; another rod starts off the circle."""
    builder = rbd.ModelBuilder()
    rod, tip = rbd.Inertia.box(1.0, (1.0, 0.1, 0.1), (0.5, 0.0, 0.0)), jnp.array([1.0, 0.0, 0.0])
    builder.add_body("slide", joint=rbd.joints.Prismatic(tip), inertia=rod)
    builder.add_body("rod", "slide", rbd.joints.Revolute(), inertia=rod)
    builder.add_constraint(rbd.constraints.Distance("rod", tip, "world", jnp.zeros(3), 1.0))
    builder.add_constraint(rbd.constraints.PrescribedCoordinate("slide", lambda t: 1.9 + t))
    model, angle = builder.build(), np.arccos(-0.95)

    def run(angle):
        state = rbd.State(jnp.stack([1.9, angle]), jnp.array([1.0, 0.5 / np.sin(np.arccos(-0.95))]))
        return rbd.rollout(model, state, dt=0.01, steps=40, scheme=scheme(name))

    path = jax.jit(jax.vmap(run))(jnp.array([angle, angle + 1]))
    assert path.code.tolist() == [Result.CONSTRAINTS_OPEN] * 2
    # It is out of reach at the tenth step; a scheme that closes loops to first order opens slightly earlier.
    assert 8 <= path.failed_step[0] < 40 and path.failed_step[1] == 0
    # The states remain finite as long as possible, to make the drift visible.
    for row, failed in enumerate(path.failed_step):
        assert np.isfinite(path.q[row, : failed + 2]).all()
    with pytest.raises(eqx.EquinoxRuntimeError, match="finite|code"):
        rbd.checked(lambda path: path)(path)


@pytest.mark.parametrize("save_every", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_where_states_are_lost_the_code_says_why(save_every):
    """A loop without position correction opens with long steps; then the motion diverges or remains finite."""
    builder = rbd.ModelBuilder(gravity=(0.0, -9.81, 0.0))
    tip = rbd.Transform.from_xyz_rpy((1.0, 0.0, 0.0))
    rod = rbd.Inertia.box(1.0, (1.0, 0.05, 0.05), (0.5, 0.0, 0.0))
    builder.add_body("crank", "world", rbd.joints.Revolute(), inertia=rod)
    builder.add_body("coupler", "crank", rbd.joints.Revolute(), tip, rod)
    builder.add_body("follower", "world", rbd.joints.Revolute(), tip, rod)
    builder.add_constraint(rbd.constraints.HingeLoop("coupler", tip, "follower", tip))
    model = builder.build()

    @jax.jit
    @jax.vmap
    def run(dt, open_by):
        q = jnp.array([0.3, -0.3, 0.3]) + open_by * jnp.array([0.0, 1.0, 0.0])
        start = rbd.State(q, jnp.array([5.0, -5.0, 5.0]))
        return rbd.rollout(model, start, dt=dt, steps=40, save_every=save_every, stabilization=None)

    path = jax.tree.map(np.asarray, run(np.array([0.01, 0.01, 0.3, 0.3]), np.array([0.0, 0.01, 0.0, 0.01])))
    diverged = np.isin(path.code, [Result.DIVERGED, Result.NOT_FINITE])
    assert diverged.tolist() == [False, False, True, True]
    assert path.code[:2].tolist() == [Result.SUCCESS, Result.CONSTRAINTS_OPEN] and path.failed_step[1] == 0
    assert (path.opening[1:] > 1e-3).all()
    lost = np.isnan(path.q).all(axis=2)
    assert (np.isnan(path.q).any(axis=2) == lost).all()
    made = np.arange(0, 41, save_every)
    assert (lost == (diverged[:, None] & (made > path.failed_step[:, None]))).all()


@pytest.mark.slow
@pytest.mark.parametrize("size", [0.1, 10.0])
def test_lengths_are_open_as_shares_of_the_reach(size):
    """The closure error of a rotated rod is relative to its reach, which is the rod's length."""
    tip = np.array([size, 0.0, 0.0])
    builder = rbd.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_body(
        "rod", joint=rbd.joints.Revolute(), inertia=rbd.Inertia.box(1.0, tip + 0.01 * size, tip / 2)
    )
    builder.add_constraint(rbd.constraints.PointOnPlane("rod", tip, (0.0, 1.0, 0.0), "world", tip))
    builder.add_constraint(rbd.constraints.PrescribedCoordinate("rod", lambda t: 0.01))
    model = builder.build()
    np.testing.assert_allclose(rbd.constraints.reach(model), size)

    def code(angle, tolerance):
        start = rbd.State(angle[None], jnp.zeros(1))
        return rbd.rollout(model, start, dt=0.01, steps=1, constraint_tolerance=tolerance).code

    # The tip's error is the sine of the angle, the coordinate's error is angle - 0.01.
    angles = jnp.array([0.09, 0.12, -0.08, -0.1])
    codes = jax.jit(jax.vmap(lambda angle: (code(angle, 0.1), code(angle, 0.2))))(angles)
    assert (codes[0] == Result.CONSTRAINTS_OPEN).tolist() == [False, True, False, True]
    assert (codes[1] == Result.SUCCESS).all()


def test_numbers_that_are_none_to_begin_with():
    path = rbd.rollout(pendulum(1), rbd.State(np.full(1, np.nan), np.zeros(1)), dt=DT, steps=2)
    assert (path.code, path.failed_step) == (Result.NOT_FINITE, 0)


def test_a_failure_can_be_made_an_exception():
    with pytest.raises(eqx.EquinoxRuntimeError, match="not finite"):
        rbd.checked(fleeing)(1e3, "LieEuler")


def gimbal():
    builder = rbd.ModelBuilder(name="gimbal")
    builder.add_body("body", joint=rbd.joints.SphericalEuler(), inertia=rbd.Inertia.sphere(1.0, 0.1))
    return builder.build(), [0.0, np.pi / 2, 0.0]


def coaxial(**along):
    """Returns two hinges on one axis with no mass between them."""
    builder = rbd.ModelBuilder(name="coaxial")
    axis = rbd.joints.Revolute((0.3, 0.0, 1.0))
    builder.add_body("massless", joint=axis, **along)
    builder.add_body("body", "massless", axis, inertia=rbd.Inertia.box(1.0, (0.1, 0.2, 0.3), (0.3, 0.0, 0.1)))
    return builder.build(), [0.4, 0.7]


@pytest.mark.parametrize("make", [pytest.param(gimbal, marks=pytest.mark.slow), coaxial])
@pytest.mark.parametrize("save_every", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_singular_mass_matrix(make, save_every):
    """A singular mass matrix has its own code, not that of divergence. Armature regularizes it.

    The code of another failure has precedence.
    """
    model, q = make()
    state = rbd.State(np.array(q), np.array([0.3, -0.2, 0.5])[: model.nv])

    @jax.jit
    def run(model, tau):
        return rbd.rollout(model, state, jnp.full((4, model.nv), tau), dt=1e-3, save_every=save_every)

    for tau in (1.0, 0.0):
        path = run(model, tau)
        assert path.code == Result.SINGULAR and path.failed_step == 0
        v = np.asarray(path.v)
        assert np.isfinite(v[0]).all() and np.isnan(v[1:]).all()
    heavier = eqx.tree_at(lambda m: m.armature, model, jnp.asarray(np.full(model.nv, 0.01)))
    assert run(heavier, 1.0).code == Result.SUCCESS
    assert run(heavier, 1e20).code == Result.DIVERGED
    assert run(heavier, jnp.nan).code == Result.NOT_FINITE
    assert "armature" in Result.SINGULAR.message


def test_fewer_variables_may_be_singular():
    """A reduced variable without effect on the motion is reported as singular."""
    reduced = rbd.ReducedModel(pendulum(1), lambda y: y[:1] * 0 + y[1:] ** 2, 2)
    path = rbd.rollout(reduced, rbd.State(np.array([0.1, 0.4]), np.ones(2)), dt=1e-3, steps=2)
    assert path.code == Result.SINGULAR
