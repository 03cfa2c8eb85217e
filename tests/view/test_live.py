"""An interactive simulation equals a rollout, pulling moves bodies, and it can restart."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import assert_close

import rbd_jax as rbd
from rbd_jax.view.live import Live, Pull


def frame_of(model, q, body):
    return jax.tree.map(lambda x: x[body], rbd.forward_kinematics(model, q))


def placed(model, q, body, point):
    """Returns the position of a point of a body."""
    frames = jax.device_get(rbd.forward_kinematics(model, q))
    return frames.position[body] + frames.rotation[body] @ point


def test_it_goes_as_a_rollout_does():
    model = rbd.load("double_pendulum")
    begin = rbd.State(jnp.array([0.5, 1.0]), jnp.array([0.1, 0.0]))
    live = Live(model, begin, dt=0.004)
    assert live.substeps == 4 and not live.said
    assert live.advance(2.5 * live.span) == pytest.approx(2 * live.span)
    assert live.advance(0.5 * live.span) == pytest.approx(live.span)  # the remaining time
    path = rbd.rollout(model, begin, dt=0.004, steps=12)
    assert_close(live.state.q, np.asarray(path.q)[12], 1e-12)
    assert_close(live.state.v, np.asarray(path.v)[12], 1e-12)
    assert live.time == pytest.approx(0.048)
    # Time that cannot be caught up is dropped.
    assert live.advance(100.0, at_most=2) == pytest.approx(2 * live.span)
    assert live.advance(0.0) == 0
    live.reset()
    np.testing.assert_array_equal(live.state.q, begin.q)
    assert live.time == 0


def test_a_pull_is_a_spring_and_a_damper():
    model = rbd.load("arm7")
    q, v = np.linspace(-0.5, 0.6, 7), np.linspace(0.3, -0.2, 7)
    body, point, target = 4, np.array([0.02, 0.1, -0.03]), np.array([0.3, 0.2, 0.5])

    @jax.jit
    def run(q, v, point, target):
        pull = Pull(jnp.asarray(body, jnp.int32), point, target, jnp.asarray(50.0), jnp.asarray(3.0))
        frame = frame_of(model, q, body)
        jacobian = rbd.jacobian(model, q, body, point, frame="world_aligned")[3:]
        energy, slope = jax.value_and_grad(lambda q: pull.energy(model, q))(q)
        found = pull(model, q, v), pull(model, q, jnp.zeros(7)), Pull.none(q.dtype)(model, q, v)
        return found, energy, slope, frame.position + frame.rotation @ point, jacobian

    (moving, still, none), energy, slope, where, jacobian = jax.tree.map(np.asarray, run(q, v, point, target))
    force = 50.0 * (target - where) - 3.0 * jacobian @ v
    assert_close(moving, jacobian.T @ force, 1e-10)
    assert_close(energy, 25.0 * np.sum((target - where) ** 2), 1e-10)
    assert_close(-slope, still, 1e-10)
    assert not none.any()


def test_what_is_pulled_comes_along_and_is_let_go():
    model = rbd.detach(rbd.load("pendulum"), "shape")
    model = rbd.attach(model, rbd.Keyframe("up", {model.joint_names[0]: [3.0]}))
    live = Live(model, dt=0.005)
    point = np.array([0.0, 0.0, -1.0])
    live.grab(0, point)
    body, held, target = live.held
    assert_close(target, placed(model, live.state.q, 0, point), 1e-9)
    live.pull(np.asarray(target) + [1.0, 0.0, 1.0])
    for _ in range(200):
        live.advance(live.span)
    pulled = placed(model, live.state.q, 0, point)
    assert live.failed is None and pulled[0] > 0.5
    live.release()
    assert live.held is None
    live.reset("up")
    assert_close(live.state.q, [3.0], 1e-12)
    assert live.keyframes == ("up",)
    live.put(rbd.State(jnp.array([0.7]), jnp.zeros(1)))
    live.advance(live.span)
    live.reset()
    assert_close(live.state.q, [0.7], 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    "joint",
    [rbd.joints.Prismatic(), rbd.joints.Free()],
    ids=lambda joint: type(joint).__name__,
)
def test_a_light_body_does_not_blow_up_at_any_strength(joint):
    builder = rbd.ModelBuilder()
    builder.add_body("heavy", joint=joint, inertia=rbd.Inertia.box(50.0, (1, 1, 1)))
    builder.add_body(
        "light", "heavy", rbd.joints.Revolute(), (0.6, 0.0, 0.0), rbd.Inertia.box(1e-3, (0.1, 0.02, 0.02))
    )
    live = Live(builder.build(), dt=0.005)
    live.grab(1, np.array([0.05, 0.0, 0.0]), strength=1e3)
    live.pull(np.array([0.6, 0.4, 0.3]))
    for _ in range(60):
        live.advance(live.span)
    assert live.failed is None and np.abs(np.asarray(live.state.v)).max() < 1e3


@pytest.mark.slow
def test_what_a_model_does_not_say_is_said():
    ball = rbd.Shape("ball", "ball", rbd.shapes.Sphere(0.1))
    floor = rbd.Shape("floor", "world", rbd.shapes.Plane())
    builder = rbd.ModelBuilder()
    builder.add_body("ball", joint=rbd.joints.Free(), inertia=rbd.Inertia.box(1.0, (0.1, 0.1, 0.1)))
    model = rbd.attach(builder.build(), ball, floor)
    begin = rbd.State(rbd.neutral(model).at[2].set(0.15), jnp.zeros(6))
    falls, lands = Live(model, begin, contact=False), Live(model, begin)
    assert falls.said == "" and lands.said == "contacts by contact.Soft()"
    for _ in range(60):
        falls.advance(falls.span)
        lands.advance(lands.span)
    assert float(falls.state.q[2]) < -1 and float(lands.state.q[2]) == pytest.approx(0.1, abs=0.01)
    own = rbd.attach(model, rbd.contact.Soft(cone="elliptic"))
    assert Live(own, begin).model is own and Live(own, begin).said == ""


def test_actuators_are_told_by_hand_or_by_a_policy():
    model = rbd.attach(rbd.load("double_pendulum"), rbd.actuators.Motor("motor", "elbow", delay=0.1))
    live = Live(model, dt=0.01)
    assert live.said == "actuators without their delays"
    live.set_control(0, 2.0)
    live.advance(live.span)
    held = live.state
    live.put(live.state, jnp.array([3.0]))
    live.set_control(0, 1.0)
    live.reset()
    assert_close(live.controls.u, [3.0], 1e-12)
    policy = lambda t, state: rbd.Controls(jnp.full(1, 2.0))
    by_policy = Live(model, dt=0.01, policy=policy)
    by_policy.advance(by_policy.span)
    assert_close(by_policy.state.v, held.v, 1e-12)
    assert_close(by_policy.controls.u, [2.0], 1e-12)
    assert abs(float(held.v[1])) > 1e-3

    def counting(t, state, memory):
        return rbd.Controls(jnp.zeros(1)), memory + 1

    counted = Live(model, dt=0.01, policy=counting, memory=jnp.asarray(0))
    counted.advance(2 * counted.span)
    assert int(counted._memory) == 2 * counted.substeps


def test_what_fails_stops_and_says_so():
    model = rbd.load("double_pendulum")
    live = Live(model, rbd.State(jnp.zeros(2), jnp.array([1e200, -1e200])), dt=0.01)
    live.advance(live.span)
    assert live.failed.startswith("failed at t = 0 s")
    assert np.isfinite(live.state.q).all() and live.advance(1.0) == 0
    live.put(rbd.State(jnp.zeros(2), jnp.zeros(2)))
    assert live.failed is None and live.advance(live.span) > 0


def test_a_reduced_model_is_pulled():
    tree = rbd.load("double_pendulum")
    model = rbd.ReducedModel(tree, lambda y: jnp.concatenate([y, -2 * y]), 1)
    live = Live(model, rbd.State(jnp.array([0.1]), jnp.zeros(1)))
    live.grab(1, np.zeros(3))
    live.pull(live.held[2] + [-0.5, 0.0, 0.0])
    for _ in range(20):
        live.advance(live.span)
    assert live.failed is None and float(live.state.q[0]) > 0.1
