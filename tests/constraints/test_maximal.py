"""Maximal coordinates: round trips beyond half a revolution, body frames, and rejected arguments."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mechanisms import at, inertia, placement

import rbd_jax as rbd
from rbd_jax import constraints as rc, joints


def chain(*members):
    """Returns a serial chain of the given joints, with arbitrary centers of mass."""
    rng = np.random.default_rng(1)
    builder = rbd.ModelBuilder(name="chain")
    for index, joint in enumerate(members):
        parent = f"body {index - 1}" if index else "world"
        builder.add_body(f"body {index}", parent, joint, placement(rng), inertia(rng))
    return builder.build()


def there_and_back(model, q, v, frame):
    """Returns the state after a round trip through maximal coordinates, and the poses before and after."""
    maximal = rbd.maximal_coordinates(model, frame=frame)
    back, rate = rbd.from_maximal(model, maximal, *rbd.to_maximal(model, maximal, q, v, frame), frame)
    return back, rate, rbd.forward_kinematics(model, q), rbd.forward_kinematics(model, back)


@pytest.mark.slow
def test_turns_come_back():
    """A helical joint keeps all its revolutions, for fine and coarse pitches. With zero pitch its angle is in (-π, π]."""
    pitches, angles = np.array([0.2, 1e-3, -30.0, 0.0]), np.array([7.0, 3.1, -29.3, 0.4, 6.3, np.pi, -0.5])

    @jax.jit
    @jax.vmap
    @functools.partial(jax.vmap, in_axes=(None, 0))
    def run(pitch, angle):
        model = chain(joints.Helical((0.2, 1.0, 0.0), pitch))
        return there_and_back(model, angle[None], jnp.array([0.7]), "com")

    back, rate, pose, again = jax.device_get(run(pitches, np.broadcast_to(angles, (4, 7))))
    np.testing.assert_allclose(again.position, pose.position, atol=1e-9)
    np.testing.assert_allclose(again.rotation, pose.rotation, atol=1e-9)
    np.testing.assert_allclose(rate, 0.7, atol=1e-9)
    np.testing.assert_allclose(back[:3, :, 0], np.broadcast_to(angles, (3, 7)), atol=1e-9)
    turned = np.asarray(back[3, :, 0])
    assert (turned > -np.pi).all() and (turned <= np.pi + 1e-12).all()


@pytest.mark.slow
def test_turns_of_other_joints_come_back():
    """The first joint preserves its number of revolutions, all placements are preserved, and the last angle is in (-π, π]."""
    model = chain(
        joints.RackAndPinion(0.3),
        joints.SphericalEuler("xyz"),
        joints.Composite([joints.Helical(pitch=0.2), joints.Revolute((0.0, 1.0, 0.0))]),
        joints.Revolute((1.0, 0.0, 0.3)),
    )
    rng = np.random.default_rng(2)
    q = rng.uniform(-1.0, 1.0, (40, model.nq)) * np.array([30.0, 1.2, 1.2, 1.2, 9.0, 3.0, 9.0])
    q[0, -1], q[1, -1] = np.pi, 3.1  # 3.1 rad is closer to initial guesses on the other side
    v = rng.normal(size=q.shape)
    run = jax.jit(jax.vmap(lambda q, v: there_and_back(model, q, v, "body")))
    back, rate, pose, again = run(q, v)
    np.testing.assert_allclose(again.position, pose.position, atol=1e-8)
    np.testing.assert_allclose(again.rotation, pose.rotation, atol=1e-8)
    np.testing.assert_allclose(back[:, 0], q[:, 0], atol=1e-8)
    np.testing.assert_allclose(rate[:, [0, -1]], v[:, [0, -1]], atol=1e-7)
    turned = np.asarray(back[:, -1])
    assert (turned > -np.pi).all() and (turned <= np.pi + 1e-12).all()
    np.testing.assert_allclose(np.remainder(q[:, -1] - turned + 1, 2 * np.pi), 1, atol=1e-8)


@pytest.mark.parametrize("frame", ["com", pytest.param("body", marks=pytest.mark.slow)])
def test_frames_of_free_bodies(frame):
    """Positions, energy, and residuals of joints and a loop are correct for frames at the center of mass and body frames."""
    model = chain(joints.Revolute(), joints.Revolute((0.0, 1.0, 0.3)))
    loop = rc.Connect("world", (0.1, 0.2, 0.3), "body 1", at((0.3, 0.1, 0.0)))
    model = rbd.add_constraints(model, loop)
    maximal = rbd.maximal_coordinates(model, {"body 1": joints.Free3D()}, frame)
    q, v = np.array([0.4, -1.1]), np.array([0.7, 2.0])

    @jax.jit
    def run(model, maximal, q, v):
        free = rbd.to_maximal(model, maximal, q, v, frame)
        energies = [rbd.kinetic_energy(model, q, v), rbd.kinetic_energy(maximal, *free)]
        weights = [rbd.potential_energy(model, q), rbd.potential_energy(maximal, free[0])]
        residuals = [rbd.constraint_residual(model, q), rbd.constraint_residual(maximal, free[0])]
        pose, inertias = rbd.forward_kinematics(model, q), (model.inertias, maximal.inertias)
        expected = pose.point(model.inertias.com) if frame == "com" else pose.position
        return free, (energies, weights), residuals, expected, [own.com for own in inertias]

    seen = jax.device_get(run(model, maximal, q, v))
    free, pairs, (loop, residual), expected, (com, com_of_free) = seen
    for own, other in pairs:
        np.testing.assert_allclose(other, own, rtol=1e-10)
    np.testing.assert_allclose(residual, [0] * 10 + loop.tolist(), atol=1e-10)
    np.testing.assert_allclose(free[0].reshape(-1, 7)[:, :3], expected, atol=1e-10)
    np.testing.assert_allclose(com_of_free, 0 if frame == "com" else com, atol=1e-12)


def pair(*names, joint=joints.Revolute, tip="world"):
    builder = rbd.ModelBuilder(name="pair")
    ball = rbd.Inertia.sphere(1.0, 0.1, (0.1, 0.0, 0.0))
    builder.add_body(names[0], "world", joint(), inertia=ball)
    builder.add_body(names[1], tip, joint(), inertia=ball)
    return builder.build()


def test_unfit_arguments_are_refused(unchecked):
    model, joint = pair("a", "b"), joints
    maximal = rbd.maximal_coordinates(model, joint.Free())
    centred = rbd.maximal_coordinates(model, frame="com")
    q, v, free_q, free_v = np.zeros(2), np.zeros(2), np.zeros(14), np.zeros(12)
    there, back, make = rbd.to_maximal, rbd.from_maximal, rbd.maximal_coordinates
    turned = rbd.maximal_coordinates(pair("b", "a"))
    attached_to_world = pair("a", "b", joint=joints.Free, tip="a")
    for function, arguments, message in (
        (make, (3,), "maximal_coordinates: model is a int; it takes a Model"),
        (make, (model, "Free"), "joint is 'Free'; it takes rbd.joints.Free or"),
        (make, (model, {"a": None}), "joint is None; it takes rbd.joints.Free or"),
        (make, (model, joint.Revolute()), "body 'a' is attached by a Revolute with nq = 1"),
        (make, (model, {"c": joint.Free}), "no body 'c'"),
        (make, (model, joint.Free, "joint"), "frame is 'joint'; it must be one of"),
        (there, (model, q, maximal, v), r"are to_maximal\(model, maximal, q, v, frame\)"),
        (back, (model, q, v, maximal), r"are from_maximal\(model, maximal, q, v, frame\)"),
        (
            there,
            (model, rbd.maximal_coordinates(pair("a", "c")), q, v),
            "'b' is in model only; 'c' is in maximal",
        ),
        (back, (model, turned, free_q, free_v), r"in another order, \('b', 'a'\) instead of \('a', 'b'\)"),
        (there, (model, model, q, v), "not made of free bodies: 'a' is attached to 'world' by a Revolute"),
        (
            back,
            (model, attached_to_world, free_q, free_v),
            "not made of free bodies: 'b' is attached to 'a' by a Free",
        ),
        (there, (model, maximal, free_q, v), r"q has shape \(14,\), but model 'pair' has nq = 2"),
        (back, (model, maximal, q, free_v), r"q has shape \(2,\), but model 'pair, maximal' has nq = 14"),
        (there, (model, centred, q, v), "frame is 'body', but maximal was made with frame='com'"),
        (
            back,
            (model, maximal, free_q, free_v, "com"),
            "frame is 'com', but maximal was made with frame='body'",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            function(*arguments)


def test_the_order_of_arguments_before(unchecked):
    """The old order `(model, q, v, maximal)` still works, with a warning."""
    model, q, v = pair("a", "b"), np.array([0.3, -0.2]), np.array([1.0, 2.0])
    maximal = rbd.maximal_coordinates(model)
    both = jax.jit(lambda q, v: (rbd.to_maximal(model, q, v, maximal), rbd.to_maximal(model, maximal, q, v)))
    with pytest.warns(DeprecationWarning, match=r"Use to_maximal\(model, maximal, q, v\)"):
        before, now = both(q, v)
    for old, new in zip(before, now, strict=True):
        np.testing.assert_array_equal(old, new)
