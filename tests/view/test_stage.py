"""The display of a model equals the library's results: frames, masses, balanced forces, readings."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from constraints.mechanisms import four_bar
from support import assert_close

import rbd_jax as rbd
from rbd_jax.view.stage import Moment, Stage, loads


def told(model):
    return rbd.Controls(np.zeros(model.nu), np.zeros(model.nv))


@pytest.fixture(scope="module")
def swinging():
    """Three samples of a double pendulum with sensors and a site; the last one fails during the motion."""
    site = rbd.Site("tip", "lower", rbd.Transform.from_xyz_rpy((0.0, 0.1, -1.0), (0.3, 0.0, 0.0)))
    model = rbd.attach(rbd.load("double_pendulum"), site, rbd.sensors.JointPosition("elbow", "elbow"))
    start = rbd.State(np.array([[0.5, 1.0], [0.1, -0.4], [0.0, 0.2]]), np.zeros((3, 2)))
    path = rbd.simulate_batch(model, start, dt=0.01, steps=20)
    q, tau = np.array(path.q), np.asarray(path.tau) + 1.0
    q[2, 10:] = np.nan
    codes = np.array([[0, 0, 1], [-1, -1, 9]], np.int32)
    path = rbd.Trajectory(path.t, jax.device_put(q), path.v, *map(jax.device_put, (tau, *codes)))
    return model, path, Stage(model, path)


def test_a_motion_is_that_of_the_bodies(swinging):
    model, path, stage = swinging
    motion = stage.motion(1)
    frames = rbd.forward_kinematics(model, np.asarray(path.q)[1, 7])
    assert_close(motion.position[7], frames.position, 1e-12)
    assert_close(motion.rotation[7], frames.rotation, 1e-12)
    assert stage.motion(1) is motion
    # A failing sample has the rows before the failure.
    assert len(stage.motion(2).t) == 10 and stage.motion(2).t[-1] == pytest.approx(0.09)


def test_a_moment_is_a_row_with_its_controls(swinging):
    model, path, stage = swinging
    moment = stage.moment(1, 0.055)
    assert moment.t == pytest.approx(0.05)
    q, tau = np.asarray(path.q), np.asarray(path.tau)
    np.testing.assert_array_equal(moment.state.q, q[1, 5])
    np.testing.assert_array_equal(moment.controls.tau, tau[1, 5])
    for sample, last in ((1, 20), (2, 9)):
        end = stage.moment(sample, 1e3)
        np.testing.assert_array_equal(end.state.q, q[sample, last])
        assert np.isfinite(end.state.q).all() and end.controls.tau.shape == (2,)


def test_what_is_fixed_to_bodies(swinging):
    model, path, stage = swinging
    q = np.asarray(path.q)[0, 12]
    poses = stage.poses(q)
    assert_close(stage.center_of_mass(poses), rbd.center_of_mass(model, q), 1e-12)
    (site,) = stage.sites
    frame = rbd.site_frames(model, q)
    assert site.name == "tip" and site.body == 1
    assert_close(
        poses.position[0, 1] + poses.rotation[0, 1] @ site.position, np.asarray(frame.position)[0], 1e-12
    )
    assert stage.weight == pytest.approx(9.81 * float(np.asarray(model.inertias.mass).sum()))


def test_readings_are_those_of_the_sensors(swinging):
    _, path, stage = swinging
    t, readings = stage.traces(1)
    np.testing.assert_allclose(readings["elbow"], np.asarray(path.q)[1, :-1, 1])
    np.testing.assert_allclose(t, np.asarray(path.t)[1, :-1])
    few, _ = stage.traces(1, most=5)
    np.testing.assert_allclose(few[[0, -1]], t[[0, -1]])
    assert len(few) == 5
    assert Stage(stage.model).traces(0) is None


def test_time_may_run_backwards(swinging):
    model, path, _ = swinging
    t, *moving = (np.asarray(x)[0] for x in (path.t, path.q, path.v, path.tau))
    back = rbd.Trajectory(*map(jax.device_put, (-t, *moving)))
    stage = Stage(model, back)
    assert stage.motion(0).t[0] == pytest.approx(-0.2) and stage.motion(0).t[-1] == 0
    moment = stage.moment(0, -0.05)
    np.testing.assert_array_equal(moment.state.q, moving[0][5])


def test_joints_bear_the_weight():
    model = rbd.load("double_pendulum")
    q, still = np.array([0.4, -0.7]), np.zeros(2)
    held = rbd.inverse_dynamics(model, q, still, still)
    found = Stage(model).loads(Moment(0.0, rbd.State(q, still), rbd.Controls(np.zeros(0), held)))
    assert_close(found.reactions.points, rbd.forward_kinematics(model, q).position, 1e-12)
    assert_close(found.reactions.vectors, [[0, 0, 2 * 9.81], [0, 0, 9.81]], 1e-9)
    assert not len(found.contacts.points)


@pytest.mark.slow
def test_a_closed_loop_is_held_from_outside_with_what_moves_it():
    """The forces at ground joints and at the loop accelerate the center of mass (of a mechanism at rest)."""
    model = four_bar("hinge")
    q = rbd.assemble(model, np.array([1.0, 0.3, 0.3])[: model.nq]).q
    still = np.zeros(model.nv)
    found = Stage(model).loads(Moment(0.0, rbd.State(q, still), told(model)))
    roots = [body for body, parent in enumerate(model.topology.parents) if parent < 0]
    (constraint,) = model.constraints
    if "world" in constraint.bodies:
        outside = found.reactions.vectors[[*roots, model.nb]].sum(axis=0)
    else:
        outside = found.reactions.vectors[roots].sum(axis=0)
    mass = float(np.asarray(model.inertias.mass).sum())
    a = np.asarray(rbd.constrained_dynamics(model, q, still, still).acceleration)
    needed = mass * (np.asarray(rbd.center_of_mass_jacobian(model, q)) @ a - np.asarray(model.gravity))
    assert_close(outside, needed, 1e-8)
    # The point where the loop closes.
    slot = max(i for i, name in enumerate(constraint.bodies) if name != "world")
    body = model.body_index(constraint.bodies[slot])
    frames = jax.tree.map(np.asarray, rbd.forward_kinematics(model, q))
    place = frames.position[body] + frames.rotation[body] @ np.asarray(constraint.frames.position)[slot]
    assert_close(found.reactions.points[model.nb], place, 1e-9)


@pytest.mark.slow
def test_the_floor_pushes_up_whichever_shape_comes_first():
    ball = rbd.Shape("ball", "ball", rbd.shapes.Sphere(0.1))
    floor = rbd.Shape("floor", "world", rbd.shapes.Plane())
    builder = rbd.ModelBuilder()
    inertia = rbd.Inertia.from_mass_com(2.0, (0.0, 0.0, 0.0), 0.01 * np.eye(3))
    builder.add_body("ball", joint=rbd.joints.Free(), inertia=inertia)
    for shapes in ((ball, floor), (floor, ball)):
        model = rbd.attach(builder.build(), *shapes, rbd.contact.Soft())
        q = np.array(rbd.neutral(model))
        q[2] = 0.099
        state = rbd.State(q, np.zeros(6))
        found = Stage(model).loads(Moment(0.0, state, told(model)))
        a = np.asarray(rbd.acceleration(model, state))
        assert_close(found.contacts.vectors, [[0, 0, 2 * (9.81 + a[5])]], 1e-6)
        assert_close(found.contacts.points[0, :2], np.zeros(2), 1e-6)


def test_forces_beside_the_model_are_counted():
    model = rbd.load("pendulum")
    push = lambda model, q, v: jnp.array([3.0], q.dtype)
    state = rbd.State(np.zeros(1), np.zeros(1))
    with_it = loads(model, (push,), Moment(0.0, state, told(model)))
    without = loads(model, (), Moment(0.0, state, told(model)))
    assert np.abs(with_it.reactions.vectors - without.reactions.vectors).max() > 0.1


def test_a_reduced_model_is_seen_by_its_tree():
    tree = rbd.load("double_pendulum")
    model = rbd.ReducedModel(tree, lambda y: jnp.concatenate([y, -2 * y]), 1)
    path = rbd.rollout(model, rbd.State(np.array([0.3]), np.zeros(1)), dt=0.01, steps=10)
    stage = Stage(model, path)
    assert not stage.knows_loads
    q = np.asarray(path.q)[4]
    frames = rbd.forward_kinematics(tree, np.concatenate([q, -2 * q]))
    assert_close(stage.motion(0).position[4], frames.position, 1e-12)
    assert_close(stage.poses(q).position[0], frames.position, 1e-12)
