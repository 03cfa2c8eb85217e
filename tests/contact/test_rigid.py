"""Rigid contact: blocks, balls, stacks and joints, all kinds of systems, and gradients."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from support import quotient

import rbd_jax as rbd
from rbd_jax.contact import Rigid


def on_floor(*shapes, law, mu=0.5, apart=0.0, gravity=(0, 0, -9.81)):
    """Returns free bodies of 1 kg in a column above a floor, with gaps of `apart`."""
    builder = rbd.ModelBuilder(gravity, "things")
    height = 0.0
    for k, shape in enumerate(shapes):
        half = float(shape.radius if isinstance(shape, rbd.shapes.Sphere) else shape.half_sizes[2])
        height += apart + half
        inertia = shape.inertia(1.0)
        inertia = jax.tree.map(lambda x, m=inertia.mass: x / m, inertia)
        at = np.array([0, 0, height, 1.0, 0, 0, 0])
        builder.add_body(f"b{k}", "world", rbd.joints.Free(), None, inertia, reference=at)
        builder.attach(rbd.Shape(f"b{k}", f"b{k}", shape, friction=(mu, 0, 0)))
        height += half
    builder.attach(rbd.Shape("floor", "world", rbd.shapes.Plane(), friction=(mu, 0, 0)))
    return rbd.attach(builder.build(), law)


def path(model, v=None, dt=0.005, steps=100, **options):
    v = jnp.zeros(model.nv, model.dtype) if v is None else v
    return rbd.rollout(model, rbd.State(model.reference, v), dt=dt, steps=steps, **options)


BLOCK = on_floor(rbd.shapes.Box((0.1, 0.1, 0.1)), law=Rigid())


@pytest.fixture(scope="module")
def slid():
    """Returns a function of the floor's angle and the speed along it that simulates a block."""

    def run(angle, speed):
        gravity = 9.81 * jnp.stack([jnp.sin(angle), 0 * angle, -jnp.cos(angle)])
        model = replace(BLOCK, gravity=gravity)
        return path(model, jnp.zeros(6).at[3].set(speed))

    return jax.jit(run)


@pytest.mark.slow
def test_a_block_sticks_below_and_slides_above_the_angle_of_friction(slid):
    limit = np.arctan(0.5)
    sticks, slides = slid(limit - 0.001, 0.0), slid(limit + 0.001, 0.0)
    assert np.abs(sticks.v).max() < 1e-6
    speed = slides.v[:, 3]
    a = 9.81 * (np.sin(limit + 0.001) - 0.5 * np.cos(limit + 0.001))
    assert_allclose(speed[-1] - speed[-51], 50 * 0.005 * a, rtol=1e-5)
    # The block hovers above the floor by the relaxation error of the convex problem.
    assert_allclose(slides.q[-1, 2] - 0.1, 0.005 * 0.5 * speed[-1], rtol=0.05)


@pytest.mark.slow
def test_a_block_comes_to_rest(slid):
    """The distance is v² / (2 μ g), to first order in the time step. Sueda eqs. 1.80, 1.88."""
    end = slid(0.0, 1.0)
    assert np.abs(end.v[-1]).max() < 1e-8
    assert_allclose(end.q[-1, 0], 1 / (2 * 0.5 * 9.81), rtol=0.03)


@pytest.mark.slow
def test_a_ball_rolls_at_five_sevenths():
    gravity = 9.81 * np.array([np.sin(0.3), 0, -np.cos(0.3)])
    end = path(on_floor(rbd.shapes.Sphere(0.1), law=Rigid(), gravity=gravity), steps=40)
    v = rbd.lie.quaternion.rotate(end.q[-1, 3:], end.v[-1, 3:])
    assert_allclose(v, [9.81 * np.sin(0.3) * 5 / 7 * 0.2, 0, 0], atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("e", [0.0, 0.5, 1.0])
def test_a_ball_bounces(e):
    """The ball starts at 0.1 m, loses speed by restitution at each bounce, and never rises above its previous height."""
    model = on_floor(rbd.shapes.Sphere(0.1), law=Rigid(restitution=e), apart=0.1)
    height = np.asarray(path(model, dt=0.001, steps=500).q[:, 2]) - 0.1
    bottom = np.argmin(height[:200])
    top = height[bottom:].max()
    assert_allclose(top, e**2 * 0.1, atol=2e-3)
    assert top <= 0.1 + 1e-9 and height.min() > -1e-9


@pytest.mark.slow
def test_a_stack_stands():
    model = on_floor(*[rbd.shapes.Box((0.1, 0.1, 0.1))] * 10, law=Rigid())
    q = np.asarray(path(model, steps=2000, save_every=100).q).reshape(-1, 10, 7)
    assert np.abs(q - q[0]).max() < 1e-4


def pendulum(*things, friction=0.0, limits=(-np.inf, np.inf)):
    builder = rbd.ModelBuilder(name="pendulum")
    inertia = rbd.Inertia.sphere(1.0, 0.1, (0, 0, -1.0))
    lower, upper = limits
    builder.add_body(
        "bob", "world", rbd.joints.Revolute((0, 1, 0)), None, inertia,
        friction=friction, lower=lower, upper=upper, damping=0.4, stiffness=3.0,
    )  # fmt: skip
    builder.attach(*things)
    return builder.build()


@pytest.mark.slow
def test_stops_and_dry_friction_of_joints():
    """Dry friction is the same as without a contact model; a joint limit is reached and not passed."""
    run = jax.jit(lambda model: path(replace(model, reference=jnp.array([1.0])), steps=800))
    own, other = run(pendulum(Rigid(), friction=2.0)), run(pendulum(friction=2.0))
    assert_allclose(own.q, other.q, atol=1e-6)
    assert own.v[-1, 0] == pytest.approx(0, abs=1e-7) and abs(own.q[-1, 0]) > 0.01
    stopped = run(pendulum(Rigid(), friction=2.0, limits=(0.3, 3.0)))
    assert_allclose(stopped.q[-1, 0], 0.3, atol=1e-6)
    assert (stopped.q >= 0.3 - 1e-6).all()


@pytest.mark.slow
def test_constraints_are_held():
    """A ball on a slope z = 2 x above a floor moves equally as two constrained slides and as a reduced model."""
    builder = rbd.ModelBuilder(name="slider")
    builder.add_body("x", "world", rbd.joints.Prismatic((1, 0, 0)), None, rbd.Inertia.sphere(0.5, 0.1))
    builder.add_body(
        "z", "x", rbd.joints.Prismatic((0, 0, 1)), None, rbd.Inertia.sphere(1.0, 0.1), damping=2.0
    )
    builder.attach(rbd.Shape("ball", "z", rbd.shapes.Sphere(0.1), friction=(0.3, 0, 0)))
    floor = rbd.Shape("floor", "world", rbd.shapes.Plane(), (0, 0, -0.3), friction=(0.3, 0, 0))
    builder.attach(floor, Rigid())
    tree = builder.build()
    tied = rbd.add_constraints(tree, rbd.constraints.CoordinateCoupling({"x": [0, -2], "z": [0, 1]}))
    reduced = rbd.ReducedModel(tree, lambda y: jnp.concatenate([0.5 * y, y]), 1)
    whole = rbd.rollout(tied, rbd.State(jnp.zeros(2), jnp.zeros(2)), dt=0.005, steps=80)
    few = rbd.rollout(reduced, rbd.State(jnp.zeros(1), jnp.zeros(1)), dt=0.005, steps=80)
    assert whole.code == few.code == 0
    assert_allclose(few.q[-1], [-0.2], atol=1e-7)
    assert_allclose(whole.q[:, 1], few.q[:, 0], atol=1e-7)
    assert_allclose(whole.q[:, 0], 0.5 * whole.q[:, 1], atol=1e-10)
    assert np.abs(whole.v[-1]).max() < 1e-6


@pytest.mark.slow
def test_derivatives_through_a_bounce():
    """Smoother contact models stay close to the original."""
    model = on_floor(rbd.shapes.Sphere(0.1), law=Rigid(restitution=0.5, smoothing=1e-3), apart=0.05)

    def end(speed, smoothing=None):
        p = path(model, jnp.array([0, 0, 0, 1.0, 0, -1.0]).at[3].set(speed), dt=0.004, steps=60)
        return p.q[-1, 0] + p.q[-1, 2]

    both = jax.jit(jax.value_and_grad(end))
    assert_allclose(both(1.3)[1], quotient(lambda h: both(1.3 + h)[0], 1e-5), rtol=1e-5)


@pytest.mark.slow
def test_single_precision():
    double = path(BLOCK, jnp.zeros(6).at[3].set(1.0))
    single = path(rbd.astype(BLOCK, jnp.float32), jnp.zeros(6, jnp.float32).at[3].set(1.0))
    assert single.q.dtype == jnp.float32
    assert_allclose(single.q, double.q, atol=1e-3)


@pytest.mark.parametrize(
    "words", [{"restitution": 1.5}, {"cone": "square"}, {"smoothing": 0.0}, {"stabilization": -1.0}]
)
def test_what_no_law_is(words, unchecked):
    with pytest.raises(ValueError, match=f"{next(iter(words))} is"):
        Rigid(**words)
