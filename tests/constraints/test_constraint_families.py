"""Jacobian, rate and bias of every constraint family are derivatives of its residual, and allowed motions keep it zero."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from joints.families import FAMILIES
from mechanisms import loose, placement

import rbd_jax as rbd
from rbd_jax import constraints as rc, joints
from rbd_jax.loops.loop_joint import deviation


def swing(time):
    return 0.3 + 0.5 * jnp.sin(2 * time)


def point(rng):
    return rng.uniform(-0.5, 0.5, 3)


def few():
    """Returns a loop joint, a distance, coupled coordinates and a prescribed coordinate."""
    every = simple()
    return [every[i] for i in (1, 16, 20, 21)]


def some():
    """Returns one constraint for each form of residual."""
    every = simple()
    return [every[i] for i in (1, 3, 12, 14, 16, 17, 20, 21)]


def simple():
    """Returns one constraint per family, and one loop joint for each joint type with a known complement."""
    rng = np.random.default_rng(1)
    known = (
        joints.Fixed(),
        joints.Revolute((1.0, -2.0, 0.5)),
        joints.Prismatic((0.3, 0.2, -1.0)),
        joints.Helical((1.0, 0.2, -0.4), 0.3),
        joints.Helical((0.0, 0.0, 1.0), 0.0),
        joints.Cylindrical((0.4, 1.0, 0.3)),
        joints.Planar((0.3, -0.5, -1.0)),
        joints.Translational(),
        joints.Spherical(),
        joints.Free(),
        joints.Universal((1.0, 0.2, 0.1), (0.3, 1.0, -0.2)),
        joints.RackAndPinion(0.4),
        joints.Driven(joints.Revolute(), lambda time: swing(time)[None]),
    )
    loops = [rc.LoopJoint("ball", placement(rng), "other", placement(rng), joint) for joint in known]
    return [
        *loops,
        rc.Connect("ball", point(rng), "leg", point(rng)),
        rc.Connect("tail", point(rng), "world", point(rng)),
        rc.Weld("world", placement(rng), "leg", placement(rng)),
        rc.Distance("ball", point(rng), "other", point(rng), 0.8),
        rc.PointOnLine("ball", point(rng), (1.0, 2.0, 0.3), "leg", point(rng)),
        rc.PointOnPlane("leg", point(rng), (1.0, 2.0, 0.3), "ball", point(rng)),
        rc.HingeLoop("ball", placement(rng), "leg", placement(rng), (0.0, 1.0, 1.0)),
        rc.CoordinateCoupling({"arm": (0.1, 2.0, 0.3), "leg": (0.0, -1.0), "tail": (0.0, 0.3, 0.2, 0.1)}),
        rc.PrescribedCoordinate("tail", swing),
    ]


def found():
    """Returns constraints whose joint coordinates need an iterative solution."""
    rng = np.random.default_rng(1)
    frames = rbd.lie.SE3.exp(jnp.asarray(0.6 * rng.uniform(-1, 1, (5, 6))))
    curve = joints.SplineCurve(frames)
    surface = joints.SplineSurface(jnp.asarray(rng.uniform(-0.7, 0.7, (4, 5, 6))))
    return [
        rc.LoopJoint("ball", placement(rng), "other", placement(rng), joints.Free2D()),
        rc.LoopJoint("ball", placement(rng), "other", placement(rng), curve),
        rc.PointOnCurve("ball", placement(rng), curve, "leg", point(rng)),
        rc.PointOnSurface("leg", placement(rng), surface, "other", point(rng)),
    ]


@pytest.mark.slow
def test_angles_are_what_does_not_change_where_bodies_are_shifted():
    """`angles` marks exactly the equations that do not change with translations of the bodies.

    They have a tolerance in rad, and the others a tolerance of length.
    """
    rng, told = np.random.default_rng(5), set()
    for constraint in simple():
        count = len(constraint.bodies)
        if not count:
            assert constraint.angles == (True,) * constraint.rows, constraint.label
            continue
        turns = rbd.lie.SE3.exp(jnp.asarray(rng.uniform(-0.7, 0.7, (count, 6)))).rotation

        def residual(positions, constraint=constraint, turns=turns):
            return constraint.residual(rbd.Transform(turns, positions), jnp.zeros(0))

        slopes = jax.jacfwd(residual)(jnp.asarray(rng.normal(size=(count, 3))))
        still = np.abs(slopes).max(axis=(1, 2), initial=0) < 1e-12
        assert constraint.angles == tuple(still), constraint.label
        told |= set(constraint.angles)
    assert told == {True, False}


@pytest.mark.slow
@pytest.mark.parametrize("family", [few, some, simple, found])
def test_rates_are_derivatives_of_the_residual(family):
    """At an inconsistent, time-dependent state `G v + g_t` is ġ and `G a + bias` is g̈.

    Book eqs. 3.44, 8.15, 8.17 and table 8.4; Sueda eqs. 2.93 to 2.97.
    """
    constraints = family()
    model = rbd.add_constraints(loose(), *constraints)
    rng, time = np.random.default_rng(5), 0.3
    q = jax.jit(rbd.random_configuration)(model, jax.random.key(1))
    v, a = jnp.asarray(rng.normal(size=(2, model.nv)))

    @jax.jit
    def rates(model, q, v, a):
        now = rbd.at_time(model, time)
        jacobian = rbd.constraint_jacobian(now, q)
        first = rbd.constraint_velocity(now, q, v)
        linear = rbd.constraint_velocity(now, q, v + a) - first - jacobian @ a
        return first, jacobian @ a + rbd.constraint_bias(now, q, v), linear

    @jax.jit
    @jax.vmap
    def residual(step):
        # The path with velocity v and acceleration a, to third order, which central differences need.
        now = rbd.at_time(model, time + step)
        return rbd.constraint_residual(now, rbd.integrate(model, q, step * v + step**2 / 2 * a))

    first, second, linear = rates(model, q, v, a)
    step = 1e-3
    g = np.asarray(residual(step * jnp.arange(-2.0, 3.0)))
    for constraint, rows in zip(constraints, rc.constraint_rows(model), strict=True):
        near, far = g[3, rows] - g[1, rows], g[4, rows] - g[0, rows]
        np.testing.assert_allclose(
            first[rows], (8 * near - far) / (12 * step), atol=1e-7, err_msg=constraint.label
        )
        bent = 16 * (g[3, rows] + g[1, rows]) - g[4, rows] - g[0, rows] - 30 * g[2, rows]
        np.testing.assert_allclose(second[rows], bent / (12 * step**2), atol=1e-6, err_msg=constraint.label)
    np.testing.assert_allclose(linear, 0, atol=1e-11)
    assert first.shape == (sum(constraint.rows for constraint in constraints),)


@pytest.mark.parametrize(
    "members",
    [
        ("helical", "planar", "universal"),
        pytest.param(
            ("fixed", "revolute", "prismatic", "helical", "cylindrical", "planar", "translational")
            + ("spherical", "free", "universal", "euler zyx", "exponential", "rack and pinion"),
            marks=pytest.mark.slow,
        ),
        pytest.param(("composite", "free 2d", "spline curve", "spline surface"), marks=pytest.mark.slow),
    ],
)
def test_a_loop_joint_allows_what_the_joint_does(members):
    """The residual is zero at each placement of the joint and along its motion, and its derivative has full rank (book
    table 8.1).
    """

    @jax.jit
    def looked_at(joints):
        results = []
        for joint in joints:
            q = joint.random(jax.random.key(3))
            placed = joint.transform(q)

            def rate(twist, placed=placed, joint=joint):
                moved = lambda step: placed @ rbd.lie.SE3.exp(step * twist)
                along = lambda step: deviation(joint, moved(step))
                return jax.jvp(along, (jnp.zeros(()),), (jnp.ones(()),))[1]

            slope = jax.vmap(rate, out_axes=1)(jnp.eye(6))
            results.append((deviation(joint, placed), slope, slope @ joint.motion_subspace(q)))
        return results

    for name, (off, slope, along) in zip(members, looked_at([FAMILIES[name] for name in members])):
        assert off.shape == (6 - FAMILIES[name].nv,), name
        np.testing.assert_allclose(off, 0, atol=1e-11, err_msg=name)
        np.testing.assert_allclose(along, 0, atol=1e-10, err_msg=name)
        if off.size:
            assert np.linalg.svd(slope, compute_uv=False)[-1] > 0.05, name
