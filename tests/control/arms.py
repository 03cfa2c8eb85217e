"""Small robots for tests of controllers (`from arms import planar_arm`)."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

import rbd_jax as rbd


@functools.cache
def planar_arm(links=4, dtype=jnp.float64):
    """Returns a planar serial arm in the x-z plane, vertical at q = 0, with links of half a meter; `tip` is at the end."""
    builder = rbd.ModelBuilder(name="planar_arm")
    parent, reach = "world", 0.0
    for k in range(links):
        inertia = rbd.Inertia.from_mass_com(1.0, (0, 0, 0.25), 0.02 * np.eye(3))
        placement = rbd.Transform.from_xyz_rpy((0, 0, reach), (0, 0, 0))
        builder.add_body(
            f"link{k}", parent=parent, joint=rbd.joints.Revolute(axis=(0, 1, 0)), placement=placement,
            inertia=inertia, lower=-2.5, upper=2.5, velocity_limit=5.0, effort_limit=400.0,
        )  # fmt: skip
        parent, reach = f"link{k}", 0.5
    builder.attach(rbd.Site("tip", parent, (0, 0, 0.5)))
    return rbd.astype(builder.build(), dtype)


def accelerating(residual, model, q, v, a):
    """Returns a configuration residual and its first and second time derivative, by differentiation along the motion."""
    from rbd_jax.control import Knot
    from rbd_jax.simulate.systems import system_of

    system = system_of(model, jnp.zeros(model.nv))

    def along(s):
        moved = rbd.integrate(model, q, s * v + 0.5 * s * s * a)
        state = rbd.State(moved, jnp.zeros(model.nv))
        return residual(Knot(system, jnp.int32(0), jnp.zeros(()), state, None))

    rate = lambda s: jax.jvp(along, (s,), (jnp.ones(()),))
    (value, first), (_, second) = jax.jvp(rate, (jnp.zeros(()),), (jnp.ones(()),))
    return value, first, second


#: Each frame of a Panda relative to the previous one, in Craig's convention (a, alpha, d), and its joint limits.
PANDA = (
    (0.0, 0.0, 0.333, -2.8973, 2.8973),
    (0.0, -np.pi / 2, 0.0, -1.7628, 1.7628),
    (0.0, np.pi / 2, 0.316, -2.8973, 2.8973),
    (0.0825, np.pi / 2, 0.0, -3.0718, -0.0698),
    (-0.0825, -np.pi / 2, 0.384, -2.8973, 2.8973),
    (0.0, np.pi / 2, 0.0, -0.0175, 3.7525),
    (0.088, np.pi / 2, 0.0, -2.8973, 2.8973),
)


@functools.cache
def panda(dtype=jnp.float64):
    """Returns an arm with the kinematics of a Panda and a site `hand` at its flange."""
    builder = rbd.ModelBuilder(name="panda")
    parent = "world"
    for k, (a, alpha, d, lower, upper) in enumerate(PANDA):
        turned = rbd.Transform.from_xyz_rpy((a, 0, 0), (alpha, 0, 0)) @ rbd.Transform.from_xyz_rpy(
            (0, 0, d), (0, 0, 0)
        )
        inertia = rbd.Inertia.from_mass_com(2.0, (0, 0, 0), 0.01 * np.eye(3))
        builder.add_body(
            f"link{k + 1}", parent=parent, joint=rbd.joints.Revolute(axis=(0, 0, 1)), placement=turned,
            inertia=inertia, lower=lower, upper=upper, velocity_limit=2.2, effort_limit=87.0,
        )  # fmt: skip
        parent = f"link{k + 1}"
    builder.attach(rbd.Site("hand", parent, (0, 0, 0.107)))
    return rbd.astype(builder.build(), dtype)
