"""User-defined joints that depend on time and have degrees of freedom; methods left out follow by differentiation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd
from rbd_jax import joints


class GrowingScrew(joints.Joint):
    """A screw whose pitch grows, in meters per radian."""

    pitch: jax.Array
    growth: jax.Array
    time: jax.Array

    nv = 1
    rheonomic = True

    def transform(self, q):
        slide = (self.pitch + self.growth * self.time) * q[0]
        turn = joints.Revolute().transform(q)
        return rbd.Transform(turn.rotation, jnp.stack([0 * slide, 0 * slide, slide]))


class SlideOnACart(joints.ConstantSubspaceJoint):
    """A slide whose base oscillates sideways. Its motion subspace is constant."""

    time: jax.Array

    nv = 1
    rheonomic = True

    def transform(self, q):
        return rbd.Transform.from_position(jnp.stack([q[0], jnp.sin(3 * self.time), 0 * q[0]]))

    def columns(self):
        return jnp.eye(6)[:, 3:4]


def screw():
    return GrowingScrew(jnp.array(0.1), jnp.array(0.2), jnp.array(0.0))


JOINTS = {
    "growing screw": screw,
    "slide on a cart": lambda: SlideOnACart(jnp.array(0.0)),
    "within others": lambda: joints.Composite(
        [joints.Revolute((0.0, 1.0, 0.2)), screw(), joints.Spherical()]
    ),
}


def model(joint):
    builder = rbd.ModelBuilder(name="of time")
    inertia = rbd.Inertia.from_mass_com(1.3, (0.1, 0.2, 0.3), np.diag([0.2, 0.3, 0.4]) + 0.02)
    builder.add_body("arm", "world", joints.Revolute((0.3, 1.0, 0.0)), inertia=inertia)
    place = rbd.Transform.from_xyz_rpy((0.2, 0.1, 0.4), (0.3, 0.2, -0.5))
    builder.add_body("nut", "arm", joint, place, inertia)
    return builder.build()


def test_a_growing_screw_slides_by_itself():
    """At t = 0.5 its pitch is 0.2 m/rad, and the slide rate is `0.2 * 1.3 + 0.2 * 0.7`."""
    builder = rbd.ModelBuilder()
    builder.add_body("nut", joint=screw(), inertia=rbd.Inertia.sphere(1.0, 0.1))
    now = rbd.at_time(builder.build(), 0.5)
    twist = rbd.body_velocities(now, jnp.array([0.7]), jnp.array([1.3]))
    np.testing.assert_allclose(twist, [[0, 0, 1.3, 0, 0, 0.4]], atol=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["slide on a cart", "growing screw", "within others"])
def test_lagranges_equation(name):
    """`tau = d/dt ∂L/∂ẋ - ∂L/∂x` in a chart `q ⊕ x` with time dependence; forward dynamics and its derivative invert it."""
    still, time = model(JOINTS[name]()), 0.5
    v, a, direction = (jnp.asarray(x) for x in np.random.default_rng(3).normal(size=(3, still.nv)))
    q = rbd.integrate(still, rbd.neutral(still), 0.4 * direction)

    def lagrangian(x, rate, t):
        now, here = rbd.at_time(still, time + t), rbd.integrate(still, q, x)
        ahead = lambda step: rbd.difference(still, here, rbd.integrate(still, q, x + step * rate))
        velocity = jax.jvp(ahead, (0.0,), (1.0,))[1]
        return rbd.kinetic_energy(now, here, velocity) - rbd.potential_energy(now, here)

    slopes = lambda t: jax.grad(lagrangian, (0, 1))(t * v + t**2 / 2 * a, v + t * a, t)

    @jax.jit
    def run():
        now = rbd.at_time(still, time)
        tau = rbd.inverse_dynamics(now, q, v, a)
        back = lambda s: rbd.forward_dynamics(now, rbd.integrate(now, q, s * direction), v + s * a, tau)
        slope = jax.jvp(back, (0.0,), (1.0,))[1]
        by_x, momenta = jax.vmap(slopes)(1e-4 * jnp.array([0.0, 1.0, -1.0]))
        expected = (momenta[1] - momenta[2]) / 2e-4 - by_x[0]
        return tau, expected, back(0.0), slope, (back(1e-5) - back(-1e-5)) / 2e-5

    tau, expected, back, slope, quotient = run()
    np.testing.assert_allclose(tau, expected, atol=1e-6)
    np.testing.assert_allclose(back, a, atol=1e-11)
    np.testing.assert_allclose(slope, quotient, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=pytest.mark.slow if x == "within others" else ()) for x in JOINTS]
)
def test_the_motion_is_that_of_the_frames(name):
    """Velocities and accelerations of the last body are time derivatives of its placement."""
    still, time, step = model(JOINTS[name]()), 0.5, 1e-3
    v, a = (jnp.asarray(x) for x in np.random.default_rng(5).normal(size=(2, still.nv)))
    q = rbd.integrate(still, rbd.neutral(still), 0.4 * v)

    @jax.jit
    @jax.vmap
    def place(t):
        now = rbd.at_time(still, time + t)
        return rbd.forward_kinematics(now, rbd.integrate(now, q, t * v + t**2 / 2 * a)).position[-1]

    @jax.jit
    def seen():
        now = rbd.at_time(still, time)
        options = {"frame": "world_aligned"}
        return (
            rbd.body_velocities(now, q, v, **options)[-1],
            rbd.body_accelerations(now, q, v, a, **options)[-1],
        )

    twist, acceleration = seen()
    far, near, here, then, there = np.asarray(place(step * jnp.arange(-2.0, 3.0)))
    np.testing.assert_allclose(twist[3:], (8 * (then - near) - (there - far)) / (12 * step), atol=1e-9)
    # The acceleration of the point is that of the body plus the rotation of the velocity.
    moving = acceleration[3:] + np.cross(twist[:3], twist[3:])
    bent = (16 * (then + near) - there - far - 30 * here) / (12 * step**2)
    np.testing.assert_allclose(moving, bent, atol=1e-6)


def test_it_needs_the_time():
    class Timeless(joints.Joint):
        nv = 1
        rheonomic = True

        def transform(self, q):
            return rbd.Transform.identity()

    with pytest.raises(TypeError, match="Timeless is rheonomic, so it needs .* a field `time`"):
        Timeless()
