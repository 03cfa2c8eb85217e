"""Sampling-based solvers where derivatives are of little use: swing-ups, and motions through contact."""

import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd


KINDS = {"MPPI": rbd.control.MPPI, "CEM": rbd.control.CEM}
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", KINDS)
def test_the_cartpole_swings_up(kind):
    model = rbd.load("cartpole")
    hanging = rbd.State(jnp.array([0.0, jnp.pi]), jnp.zeros(2))
    problem = rbd.control.Problem(
        model,
        hanging,
        steps=80,
        dt=0.025,
        running=[1e-3 * rbd.control.Effort(), 0.1 * rbd.control.Posture()],
        terminal=[100.0 * rbd.control.Posture(), 10.0 * rbd.control.Velocity()],
        bounds=rbd.control.Bounds.of(model, q=False, v=False),
    )
    solver = KINDS[kind](samples=256, max_iterations=80, knots=10)
    found = rbd.control.solve(problem, solver)
    assert np.abs(found.q[-1]).max() < 0.15 and np.abs(found.v[-1]).max() < 0.5
    assert np.abs(found.control).max() <= 20 and found.cost < 5
    # A simulation gives the same motion.
    path = rbd.rollout(model, hanging, rbd.Controls(found.control), dt=0.025)
    np.testing.assert_allclose(path.q, found.q, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_the_cartpole_is_swung_up_and_held_with_a_receding_horizon(kind):
    model = rbd.load("cartpole")
    hanging = rbd.State(jnp.array([0.0, jnp.pi]), jnp.zeros(2))
    upright = 10.0 * rbd.control.Function(
        lambda t, state, control: jnp.stack(
            [2 * jnp.sin(state.q[1] / 2), 0.5 * state.q[0], 0.2 * state.v[1], 0.1 * state.v[0]]
        )
    )
    problem = rbd.control.Problem(
        model,
        hanging,
        steps=40,
        dt=0.04,
        running=[1e-3 * rbd.control.Effort(), upright],
        terminal=[2 * upright.residual],
        bounds=rbd.control.Bounds.of(model, q=False, v=False),
    )
    solver = KINDS[kind](samples=256, max_iterations=3, knots=10, spread=2.0)
    controller = rbd.control.RecedingHorizon(problem, solver)
    memory = controller.start(hanging)
    path = rbd.rollout(model, hanging, controller, memory=memory, dt=0.02, steps=300)
    angle = (np.asarray(path.q[:, 1]) + np.pi) % (2 * np.pi) - np.pi
    assert np.abs(angle[200:]).max() < 0.6 and np.abs(path.q[200:, 0]).max() < 2
    assert path.memory.failures == 0 and path.memory.plans == 150


def hopper(law):
    """Returns a trunk over a sliding leg on a vertical guide, which must push off to leave the floor."""
    builder = rbd.ModelBuilder(name="hopper")
    along = rbd.joints.Prismatic(axis=(0, 0, 1))
    builder.add_body("trunk", joint=along, inertia=rbd.Inertia.sphere(2.0, 0.1))
    hip = rbd.Transform.from_xyz_rpy((0, 0, -0.5), (0, 0, 0))
    builder.add_body("leg", "trunk", along, hip, rbd.Inertia.sphere(0.2, 0.05))
    builder.attach(
        rbd.Shape("foot", "leg", rbd.shapes.Sphere(0.05)),
        rbd.Shape("floor", "world", rbd.shapes.Plane()),
        law,
        rbd.forces.actuators.Motor("leg", "leg", control_range=(-80.0, 80.0)),
    )
    return builder.build()


LAWS = {"rigid": rbd.contact.Rigid, "soft": rbd.contact.Soft}


@pytest.mark.parametrize("kind, law", [("MPPI", "rigid"), ("CEM", "rigid"), ("MPPI", "soft")])
def test_a_hopper_leaves_the_floor(kind, law):
    """The cost is the height of the foot. It does not change with small forces, so that its derivative is zero."""
    model = hopper(LAWS[law]())
    standing = rbd.State(jnp.array([0.55, 0.0]), jnp.zeros(2))
    height = lambda state: state.q[0] + state.q[1] - 0.55
    stroke = jnp.array([-jnp.inf, -0.2]), jnp.array([jnp.inf, 0.2])
    problem = rbd.control.Problem(
        model,
        standing,
        steps=60,
        dt=0.01,
        running=[rbd.control.Value(lambda t, state, control: -jnp.minimum(height(state), 0.3))],
        bounds=rbd.control.Bounds(control=(-80.0, 80.0), q=stroke),
    )
    solver = KINDS[kind](samples=128, max_iterations=30, knots=8, interpolation="linear")
    found = rbd.control.solve(problem, solver)
    foot = found.q[:, 0] + found.q[:, 1] - 0.55
    assert foot.max() > 0.25 and foot.min() > -0.01
    assert found.violation < 1e-3 and np.abs(found.q[:, 1]).max() <= 0.2 + found.violation
    assert np.abs(found.control).max() <= 80
