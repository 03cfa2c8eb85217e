"""Event-driven rigid contact: closed forms of bouncing, sliding and rolling, all kinds of systems, and derivatives."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import rbd_jax as rbd
from rbd_jax import Result
from rbd_jax.contact import Hard


G = 9.81


def thing(shape, height, law, mu=0.3, tilt=0.0, **joint):
    """Returns a free body above a floor, with tilted gravity."""
    gravity = G * np.array([np.sin(tilt), 0, -np.cos(tilt)])
    builder = rbd.ModelBuilder(tuple(gravity), "thing")
    at = np.array([0, 0, height, 1.0, 0, 0, 0])
    builder.add_body("body", "world", rbd.joints.Free(), None, shape.inertia(1000.0), reference=at)
    builder.attach(
        rbd.Shape("body", "body", shape, friction=(mu, 0, 0)),
        rbd.Shape("floor", "world", rbd.shapes.Plane(), friction=(mu, 0, 0)),
        law,
    )
    return builder.build()


def bounced(height, time, e):
    """Returns the height of a bouncing ball after it falls from a given height."""
    speed, now = np.sqrt(2 * G * height), np.sqrt(2 * height / G)
    assert time > now
    while True:
        speed *= e
        if now + 2 * speed / G > time:
            return speed * (time - now) - 0.5 * G * (time - now) ** 2
        now += 2 * speed / G


BALL = rbd.shapes.Sphere(0.1)


@pytest.fixture(scope="module")
def thrown():
    """Returns a function of speed and height that simulates a frictionless ball for one second."""
    model = thing(BALL, 0.1, Hard(0.8), mu=0.0)

    def run(speed, height):
        state = rbd.State(model.reference.at[2].add(height), jnp.zeros(6).at[3].set(speed))
        return rbd.rollout(model, state, dt=0.02, steps=50)

    return run


@pytest.mark.slow
def test_a_ball_bounces_as_it_should(thrown):
    """The path is exact to rounding, although no impact is at the end of a step. Book table 11.1."""
    path = thrown(1.5, 0.5)
    assert path.code == Result.SUCCESS
    assert_allclose(path.q[-1, 0], 1.5, atol=1e-12)
    assert_allclose(path.q[-1, 2] - 0.1, bounced(0.5, 1.0, 0.8), atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_derivatives_are_those_of_the_closed_form(thrown, mode):
    def end(x):
        path = thrown(x[0], x[1])
        return path.q[-1, 0] + path.q[-1, 2]

    slopes = jax.jit((jax.jacfwd if mode == "forward" else jax.grad)(end))(jnp.array([1.5, 0.5]))
    expected = (bounced(0.5 + 1e-6, 1.0, 0.8) - bounced(0.5 - 1e-6, 1.0, 0.8)) / 2e-6
    assert_allclose(slopes, [1.0, expected], rtol=1e-7)


@pytest.fixture(scope="module")
def slid():
    """Returns a function that simulates a sliding block on a floor at an angle."""
    model = thing(rbd.shapes.Box((0.1, 0.1, 0.05)), 0.05, Hard(), mu=0.5)

    def run(speed, tilt):
        gravity = G * jnp.stack([jnp.sin(tilt), 0 * tilt, -jnp.cos(tilt)])
        own = replace(model, gravity=gravity)
        return rbd.rollout(own, rbd.State(own.reference, jnp.zeros(6).at[3].set(speed)), dt=0.01, steps=60)

    return jax.jit(run)


@pytest.mark.slow
def test_a_block_comes_to_rest_after_its_way(slid):
    """The rollout locates the stop within a step: the distance is v² / (2 μ g), to rounding."""
    path = slid(1.0, 0.0)
    assert path.code == Result.SUCCESS
    assert_allclose(path.q[-1, 0], 1 / (2 * 0.5 * G), atol=1e-9)
    assert np.abs(path.v[-1]).max() < 1e-9
    assert_allclose(path.q[:, 2], 0.05, atol=1e-12)


@pytest.mark.slow
def test_a_block_sticks_below_and_slides_above_the_angle_of_friction(slid):
    limit = np.arctan(0.5)
    sticks, slides = slid(0.0, limit - 1e-3), slid(0.0, limit + 1e-3)
    assert np.abs(sticks.v).max() < 1e-9
    a = G * (np.sin(limit + 1e-3) - 0.5 * np.cos(limit + 1e-3))
    # Four corners share the load. Lemke's algorithm solves for it to about 1e-8 of gravity.
    assert_allclose(slides.v[-1, 3] - slides.v[-11, 3], 0.1 * a, atol=0.1 * 1e-8 * G)


@pytest.mark.slow
def test_a_ball_slides_and_then_rolls():
    """From a speed without spin the ball rolls after 2 v / (7 μ g), at 5/7 of the speed."""
    model = thing(BALL, 0.1, Hard(), mu=0.2)
    path = jax.jit(
        lambda speed: rbd.rollout(
            model, rbd.State(model.reference, jnp.zeros(6).at[3].set(speed)), dt=0.01, steps=50
        )
    )(1.0)
    moves = jax.vmap(rbd.lie.quaternion.rotate)(path.q[:, 3:7], path.v[:, 3:])
    # Sticking contacts hold to 1e-8 m/s.
    assert_allclose(moves[-1, 0], 5 / 7, atol=2e-7)
    rolls = 2 / (7 * 0.2 * G)
    before = int(rolls / 0.01)
    assert_allclose(moves[before, 0], 1 - 0.2 * G * 0.01 * before, atol=2e-7)


@pytest.mark.slow
def test_loops_and_reduced_models_bounce_alike():
    """A ball on a slope z = 2 x above a floor bounces equally as two constrained slides and as a reduced model."""
    builder = rbd.ModelBuilder(name="slider")
    builder.add_body("x", "world", rbd.joints.Prismatic((1, 0, 0)), None, rbd.Inertia.sphere(0.5, 0.1))
    builder.add_body("z", "x", rbd.joints.Prismatic((0, 0, 1)), None, rbd.Inertia.sphere(1.0, 0.1))
    builder.attach(
        rbd.Shape("ball", "z", rbd.shapes.Sphere(0.1), friction=(0, 0, 0)),
        rbd.Shape("floor", "world", rbd.shapes.Plane(), (0, 0, -0.3), friction=(0, 0, 0)),
        Hard(0.5),
    )
    tree = builder.build()
    tied = rbd.add_constraints(tree, rbd.constraints.CoordinateCoupling({"x": [0, -2], "z": [0, 1]}))
    reduced = rbd.ReducedModel(tree, lambda y: jnp.concatenate([0.5 * y, y]), 1)
    whole = rbd.rollout(tied, rbd.State(jnp.zeros(2), jnp.zeros(2)), dt=0.01, steps=60)
    few = rbd.rollout(reduced, rbd.State(jnp.zeros(1), jnp.zeros(1)), dt=0.01, steps=60)
    assert whole.code == few.code == Result.SUCCESS
    assert_allclose(whole.q[:, 1], few.q[:, 0], atol=1e-8)
    # Along the slope the inertia is 1 + 1.5 / 4, and the acceleration is smaller by this factor.
    fall = G / (1 + 1.5 / 4)
    speed, first = 0.5 * np.sqrt(2 * fall * 0.2), np.sqrt(2 * 0.2 / fall)
    since = 0.4 - first
    assert_allclose(few.q[40, 0], -0.2 + speed * since - 0.5 * fall * since**2, atol=1e-9)


@pytest.mark.slow
def test_single_precision_and_batches():
    model = rbd.astype(thing(BALL, 0.1, Hard(0.8), mu=0.3), jnp.float32)

    def end(height):
        q = model.reference.at[2].add(height)
        return rbd.rollout(model, rbd.State(q, jnp.zeros(6, jnp.float32)), dt=0.02, steps=50).q[-1, 2]

    heights = jnp.array([0.3, 0.5], jnp.float32)
    found = jax.jit(jax.vmap(end))(heights)
    assert found.dtype == jnp.float32
    assert_allclose(found - 0.1, [bounced(float(h), 1.0, 0.8) for h in heights], atol=2e-4)


def test_what_does_not_go(unchecked):
    model = thing(BALL, 0.2, Hard(0.5))
    state = rbd.State(model.reference, np.zeros(6))
    with pytest.raises(ValueError, match="SemiImplicitEuler does not find; pass scheme=rbd.EventDriven"):
        rbd.rollout(model, state, dt=0.01, steps=2, scheme=rbd.SemiImplicitEuler())
    with pytest.raises(ValueError, match="dt must be positive"):
        rbd.rollout(model, state, dt=-0.01, steps=2)
    with pytest.raises(TypeError, match="EventDriven: scheme must be"):
        rbd.EventDriven(rbd.BDF2())
    with pytest.raises(ValueError, match="restitution"):
        Hard(1.5)
    with pytest.raises(ValueError, match="events"):
        rbd.EventDriven(events=0)


@pytest.mark.slow
def test_more_events_than_are_looked_for_are_told():
    model = thing(BALL, 0.101, Hard(0.9, rest_speed=1e-9), mu=0.0)
    state = rbd.State(model.reference, jnp.zeros(6))
    path = rbd.rollout(model, state, dt=0.2, steps=1, scheme=rbd.EventDriven(events=2))
    assert path.code == Result.TOO_MANY_EVENTS


def test_where_nothing_may_touch():
    """Without candidate pairs the contact model has no effect, and every scheme supports it."""
    free, start = rbd.load("pendulum"), rbd.State(jnp.array([0.5]), jnp.zeros(1))
    under = rbd.attach(free, rbd.contact.Hard())
    run = lambda model, scheme: rbd.rollout(model, start, dt=0.01, steps=3, scheme=scheme).q
    np.testing.assert_array_equal(run(under, rbd.EventDriven()), run(free, rbd.RungeKutta4()))
    np.testing.assert_allclose(
        run(under, rbd.SemiImplicitEuler()), run(free, rbd.SemiImplicitEuler()), atol=1e-15
    )
