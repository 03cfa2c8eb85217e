"""Maximal coordinates: states there and back beyond half a turn, other frames of the bodies, and what is refused."""

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from mechanisms import at, compiled, inertia, placement

import rbd_jax as rbd
from rbd_jax import constraints as rc, joints


def screws():
    """Joints whose displacement tells how often they have turned, and one of which nothing does."""
    rng = np.random.default_rng(1)
    builder = rbd.ModelBuilder(name="screws")
    for name, parent, joint in (
        ("nut", "world", joints.Helical((0.2, 1.0, 0.0), 0.2)),
        ("fine", "nut", joints.Helical(pitch=1e-3)),
        ("pinion", "fine", joints.RackAndPinion(0.3)),
        ("hinge", "pinion", joints.Revolute((1.0, 0.0, 0.3))),
        ("both", "world", joints.Composite([joints.Helical(pitch=0.2), joints.Revolute((0.0, 1.0, 0.0))])),
    ):
        builder.add_body(name, parent, joint, placement(rng), inertia(rng))
    return builder.build()


def test_turns_come_back():
    """With the displacement where it tells them, else within (-π, π]; derivatives as of the identity."""
    model = screws()
    maximal = rc.maximal_coordinates(model)
    q = np.random.default_rng(3).uniform(-30.0, 30.0, (40, model.nq))
    q[0] = [7.0, 7.0, 7.0, 7.0, 7.0, 7.0]
    q[1] = [3.1, -3.1, 3.14, np.pi, 3.1, 0.3]
    q[2, 3] = 3.1  # nearest to starts on the other side
    q[:, 5] = np.clip(q[:, 5], -1.5, 1.5)
    v = np.random.default_rng(4).normal(size=q.shape)

    def there_and_back(q, v):
        return rc.from_maximal(model, maximal, *rc.to_maximal(model, q, v, maximal))

    def run(q, v):
        (back, rate), (moved, _) = jax.jvp(there_and_back, (q, v), (v, 0 * v))
        return back, rate, moved, rbd.forward_kinematics(model, q), rbd.forward_kinematics(model, back)

    back, rate, moved, pose, again = compiled(jax.vmap(run))(jnp.asarray(q), jnp.asarray(v))
    np.testing.assert_allclose(again.position, pose.position, atol=1e-9)
    np.testing.assert_allclose(again.rotation, pose.rotation, atol=1e-9)
    np.testing.assert_allclose(back[:, :3], q[:, :3], atol=1e-9)
    turned = np.asarray(back[:, 3])
    assert (turned > -np.pi).all() and (turned <= np.pi + 1e-12).all()
    np.testing.assert_allclose(np.remainder(q[:, 3] - turned + 1, 2 * np.pi), 1, atol=1e-9)
    np.testing.assert_allclose(rate[:, :4], v[:, :4], atol=1e-8)
    np.testing.assert_allclose(moved[:, :4], v[:, :4], atol=1e-6)


def jointed():
    """An arm with two hinges and a ball joint to the ground, with centres of mass that are nowhere special."""
    rng = np.random.default_rng(5)
    builder = rbd.ModelBuilder(name="jointed")
    builder.add_body("arm", "world", joints.Revolute(), placement(rng), inertia(rng))
    builder.add_body("leg", "arm", joints.Revolute((0.0, 1.0, 0.3)), placement(rng), inertia(rng))
    builder.add_constraint(rc.Connect("world", (0.1, 0.2, 0.3), "leg", at((0.3, 0.1, 0.0))))
    return builder.build()


@pytest.mark.parametrize("frame", ["com", pytest.param("body", marks=pytest.mark.slow)])
def test_other_frames_are_the_same_mechanism(frame):
    """Free bodies by their centres of mass: where those are, the same energy and residual, and states come back."""
    model = jointed()
    maximal = rc.maximal_coordinates(model, {"leg": joints.Free3D()}, frame)
    q = compiled(rbd.random_configuration)(model, jax.random.key(5))
    v = jnp.asarray(np.random.default_rng(8).normal(size=model.nv))

    @compiled
    def run(model, maximal, q, v):
        free = rc.to_maximal(model, q, v, maximal, frame)
        back = rc.from_maximal(model, maximal, *free, frame)
        apart = rbd.difference(model, q, back[0]), back[1] - v
        energies = [rbd.kinetic_energy(model, q, v), rbd.kinetic_energy(maximal, *free)]
        weights = [rbd.potential_energy(model, q), rbd.potential_energy(maximal, free[0])]
        residuals = [rc.constraint_residual(model, q), rc.constraint_residual(maximal, free[0])]
        return free, apart, (energies, weights), residuals, rbd.forward_kinematics(model, q)

    free, apart, pairs, (loop, residual), pose = run(model, maximal, q, v)
    for x in apart:
        np.testing.assert_allclose(x, 0, atol=1e-9)
    for own, other in pairs:
        np.testing.assert_allclose(other, own, rtol=1e-10)
    np.testing.assert_allclose(residual[:-3], 0, atol=1e-10)
    np.testing.assert_allclose(residual[-3:], loop, atol=1e-10)
    expected = pose.point(model.inertias.com) if frame == "com" else pose.position
    np.testing.assert_allclose(free[0].reshape(-1, 7)[:, :3], expected, atol=1e-10)
    np.testing.assert_allclose(maximal.inertias.com, 0 if frame == "com" else model.inertias.com, atol=1e-12)


@pytest.fixture
def unchecked():
    """As for users, whose types nobody checks but the function itself."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def pair(*names, joint=joints.Revolute, tip="world"):
    builder = rbd.ModelBuilder(name="pair")
    ball = rbd.Inertia.sphere(1.0, 0.1, (0.1, 0.0, 0.0))
    builder.add_body(names[0], "world", joint(), inertia=ball)
    builder.add_body(names[1], tip, joint(), inertia=ball)
    return builder.build()


def test_unfit_arguments_are_refused(unchecked):
    model, joint = pair("a", "b"), joints
    maximal = rc.maximal_coordinates(model, joint.Free())
    centred = rc.maximal_coordinates(model, frame="com")
    q, v, free_q, free_v = jnp.zeros(2), jnp.zeros(2), jnp.zeros(14), jnp.zeros(12)
    there, back, make = rc.to_maximal, rc.from_maximal, rc.maximal_coordinates
    turned = rc.maximal_coordinates(pair("b", "a"))
    hung = pair("a", "b", joint=joints.Free, tip="a")
    for function, arguments, message in (
        (make, (3,), "model is 3; it takes a Model"),
        (make, (model, "Free"), "joint is 'Free'; it takes rbd.joints.Free or"),
        (make, (model, {"a": None}), "joint is None; it takes rbd.joints.Free or"),
        (make, (model, joint.Revolute()), "body 'a' is hung by a Revolute with nq = 1"),
        (make, (model, {"c": joint.Free}), "no body 'c'"),
        (make, (model, joint.Free, "joint"), "frame is 'joint'; it is one of"),
        (there, (model, maximal, q, v), r"are to_maximal\(model, q, v, maximal, frame\)"),
        (back, (model, q, v, maximal), r"are from_maximal\(model, maximal, q, v, frame\)"),
        (
            there,
            (model, q, v, rc.maximal_coordinates(pair("a", "c"))),
            "'b' is in model only; 'c' is in maximal",
        ),
        (back, (model, turned, free_q, free_v), r"in another order, \('b', 'a'\) instead of \('a', 'b'\)"),
        (there, (model, q, v, model), "not made of free bodies: 'a' hangs on 'world' by a Revolute"),
        (back, (model, hung, free_q, free_v), "not made of free bodies: 'b' hangs on 'a' by a Free"),
        (there, (model, free_q, v, maximal), r"q has shape \(14,\), but model 'pair' has nq = 2"),
        (back, (model, maximal, q, free_v), r"q has shape \(2,\), but model 'pair, maximal' has nq = 14"),
        (there, (model, q, v, centred), "frame is 'body', but maximal was made with frame='com'"),
        (
            back,
            (model, maximal, free_q, free_v, "com"),
            "frame is 'com', but maximal was made with frame='body'",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            function(*arguments)
