"""Small models to simulate."""

import jax
import jax.numpy as jnp
import numpy as np

import rbd_jax as rbd


ROD = rbd.Inertia.box(1.0, (0.05, 0.05, 1.0), (0.0, 0.0, -0.5))
HINGE = rbd.joints.Revolute((0.0, 1.0, 0.0))
BELOW = rbd.Transform.from_xyz_rpy((0.0, 0.0, -1.0))


def pendulum(links=2, gravity=9.81, **along):
    """Returns a chain of hanging rods."""
    builder = rbd.ModelBuilder(gravity=(0.0, 0.0, -gravity), name="pendulum")
    builder.add_body("link 0", "world", HINGE, inertia=ROD, **along)
    for i in range(1, links):
        builder.add_body(f"link {i}", f"link {i - 1}", HINGE, BELOW, ROD, **along)
    return builder.build()


def tumbler():
    """Returns a floating body with an arm on a ball joint: a fully curved configuration manifold."""
    builder = rbd.ModelBuilder(gravity=(0.3, -0.2, -9.81), name="tumbler")
    builder.add_body(
        "trunk", "world", rbd.joints.Free(), inertia=rbd.Inertia.box(2.0, (0.4, 0.6, 0.9), (0.1, 0.0, 0.1))
    )
    builder.add_body("arm", "trunk", rbd.joints.Spherical(), BELOW, ROD, damping=0.1, stiffness=0.5)
    builder.add_body(
        "wheel", "arm", rbd.joints.Revolute((1.0, 0.0, 0.0)), BELOW, ROD, damping=0.1, friction=0.2
    )
    return builder.build()


def heavy_top(motion=None):
    """Returns the fast heavy top of Brüls, Cardona & Arnold (2012); a function of time moves its pivot along z."""
    builder = rbd.ModelBuilder(name="top")
    pivot = "world"
    if motion is not None:
        pivot = "shaker"
        builder.add_body(pivot, joint=rbd.joints.Driven(rbd.joints.Prismatic((0.0, 0.0, 1.0)), motion))
    inertia = rbd.Inertia.from_mass_com(15.0, (0.0, 1.0, 0.0), np.diag([0.234375, 0.46875, 0.234375]))
    builder.add_body("top", pivot, rbd.joints.Spherical(), inertia=inertia)
    return builder.build()


#: Initial state of the top.
SPIN = rbd.State(jnp.array([1.0, 0.0, 0.0, 0.0]), jnp.array([0.0, 150.0, -4.61538]))


def floating_pair(gravity=(0.0, 0.0, 0.0), joint=None, arm=ROD):
    """Returns a floating body that carries another, both unbalanced."""
    builder = rbd.ModelBuilder(gravity=gravity, name="pair")
    trunk = rbd.Inertia.box(2.0, (0.4, 0.6, 0.9), (0.1, 0.0, 0.1))
    builder.add_body("trunk", joint=rbd.joints.Free(), inertia=trunk)
    builder.add_body("arm", "trunk", HINGE if joint is None else joint, BELOW, arm)
    return builder.build()


@jax.jit
def _drawn(model, seed):
    return rbd.random_configuration(model, jax.random.key(seed))


def moving(model, seed=0):
    """Returns a generic state."""
    q = _drawn(model, seed)
    return rbd.State(q, jnp.asarray(np.random.default_rng(seed).normal(size=model.nv)))


def energy(model, state):
    return rbd.kinetic_energy(model, state.q, state.v) + rbd.potential_energy(model, state.q)
