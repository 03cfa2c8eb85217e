"""Simulations satisfy their constraints by projection, at the velocity level, and with redundant loops."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mechanisms import ROD, TIP, at, four_bar

import rbd_jax as rbd
from rbd_jax import constraints as rc, joints


def crooked():
    """Returns a four-bar with sides 1, 1.3, 0.9 and 1.1."""
    builder = rbd.ModelBuilder(gravity=(0.0, -9.81, 0.0), name="crooked four-bar")
    builder.add_body("crank", "world", joints.Revolute(), inertia=ROD)
    builder.add_body("coupler", "crank", joints.Revolute(), TIP, ROD)
    builder.add_body("follower", "world", joints.Revolute(), at((1.1, 0.0, 0.0)), ROD)
    end = at((1.3, 0.0, 0.0)), at((0.9, 0.0, 0.0))
    builder.add_constraint(rc.HingeLoop("coupler", end[0], "follower", end[1]))
    return builder.build()


@jax.jit
def start(model):
    q = rbd.assemble(model, jnp.array([1.1, -1.1, 1.1]), hold=["crank"]).q
    return rbd.State(q, rbd.project_velocity(model, q, jnp.array([-2.0, 2.0, -2.0])))


MODEL = crooked()


@pytest.fixture(scope="module")
def state():
    return start(MODEL)


def run(model, state, scheme, dt=0.01, steps=50, **options):
    """Returns the trajectory, and its largest residuals in position and velocity."""
    path = rbd.rollout(model, state, dt=dt, steps=steps, scheme=scheme, **options)
    positions = jax.vmap(lambda q: rbd.constraint_residual(model, q))(path.q)
    velocities = jax.vmap(lambda q, v: rbd.constraint_velocity(model, q, v))(path.q, path.v)
    return path, (jnp.abs(positions).max(), jnp.abs(velocities).max())


@pytest.mark.slow
def test_projection(state):
    """An explicit scheme drifts without projection and not with it. The motion is the same to the order of the scheme."""

    @jax.jit
    def both(state):
        free = run(MODEL, state, rbd.SemiImplicitEuler(), stabilization=None)
        held = run(MODEL, state, rbd.SemiImplicitEuler())
        exact, _ = run(MODEL, state, rbd.RungeKutta4())
        return free, held, exact

    (free, drift), (held, left), exact = both(state)
    assert drift[0] > 1e-3 and drift[1] > 1e-3
    assert max(left) < 1e-10  # residual of 1e-3 after two Newton iterations
    assert np.abs(held.q - exact.q).max() < 0.1


@pytest.mark.slow
def test_projection_is_differentiated(state):
    def end(gravity):
        model = eqx.tree_at(lambda m: m.gravity, MODEL, gravity * MODEL.gravity)
        path, _ = run(model, state, rbd.SemiImplicitEuler(), steps=10, stabilization=rc.Projection())
        return jnp.sum(path.q[-1])

    @jax.jit
    def slopes(gravity):
        return jax.grad(end)(gravity), (end(gravity + 1e-5) - end(gravity - 1e-5)) / 2e-5

    np.testing.assert_allclose(*slopes(jnp.array(1.0)), rtol=1e-7)


@pytest.mark.slow
def test_constraints_on_both_levels(state):
    """Generalized-α satisfies position constraints, and with `stabilized` also velocity constraints; both are of second
    order.
    """

    @jax.jit
    def errors(state):
        exact, _ = run(MODEL, state, rbd.RungeKutta4(), 0.001, 400)
        found = []
        for stabilized in (False, True):
            scheme = rbd.GeneralizedAlpha(0.8, stabilized=stabilized)
            coarse, left = run(MODEL, state, scheme, 0.01, 40)
            fine, _ = run(MODEL, state, scheme, 0.005, 80)
            off = [jnp.abs(path.q[-1] - exact.q[-1]).max() for path in (coarse, fine)]
            found.append((left, jnp.log2(off[0] / off[1])))
        return found

    (plain, plain_order), (both, order) = errors(state)
    assert plain[0] < 1e-12 and plain[1] > 1e-6
    assert max(both) < 1e-12
    assert abs(plain_order - 2) < 0.2 and abs(order - 2) < 0.2


REDUNDANT = [
    rbd.LinearlyImplicitEuler(),
    rbd.ImplicitMidpoint(),
    rbd.GeneralizedAlpha(0.8, stabilized=True),
    rbd.BDF2(),
    rbd.Rattle(),
    rbd.VariationalMidpoint(),
    rbd.EnergyMomentum(),
]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", REDUNDANT, ids=lambda scheme: type(scheme).__name__)
def test_redundant_loops_in_implicit_schemes(scheme):
    """A four-bar with three redundant rows of five moves like one that is closed by two rows, and has the same
    derivatives.
    """
    q, v = jnp.array([1.1, -1.1, 1.1]), jnp.array([-2.0, 2.0, -2.0])

    def end(loop, speed):
        path = rbd.rollout(four_bar(loop), rbd.State(q, speed * v), dt=0.01, steps=5, scheme=scheme)
        return path.q[-1], path.code

    @jax.jit
    def compare(speed):
        return [jax.jvp(lambda s, x=loop: end(x, s), (speed,), (1.0,)) for loop in ("hinge", "revolute")]

    ((expected, code), (slope, _)), ((found, other_code), (found_slope, _)) = compare(jnp.array(1.0))
    assert code == other_code == 0
    np.testing.assert_allclose(found, expected, atol=1e-10)
    np.testing.assert_allclose(found_slope, slope, atol=1e-9)
