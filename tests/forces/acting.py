"""A model for all force families, one force of each family, and a state in which they act."""

import jax.numpy as jnp
import numpy as np

import rbd_jax as rbd
from rbd_jax import forces


BOX = rbd.Inertia.box(2.0, (0.4, 0.6, 0.9), (0.1, 0.0, 0.1))
ROD = rbd.Inertia.box(1.0, (0.1, 0.1, 1.0), (0.0, 0.05, -0.5))


def mechanism(gravity=(0.3, -0.2, -9.81)):
    """Returns a floating body with an arm and a welded part, a second floating body, and a mechanism on the ground."""
    joints, at = rbd.joints, rbd.Transform.from_xyz_rpy
    builder = rbd.ModelBuilder(gravity, "mechanism")
    builder.add_body("trunk", "world", joints.Free(), inertia=BOX)
    builder.add_body("arm", "trunk", joints.Spherical(), at((0.1, 0.3, -0.4)), ROD)
    builder.add_body(
        "forearm", "arm", joints.Revolute((1.0, 0.2, 0.0)), at((0.0, 0.0, -1.0)), ROD, lower=-0.4, upper=0.3
    )
    builder.add_body("tool", "forearm", placement=at((0.0, 0.1, -1.0), (0.4, 0.2, 0.1)), inertia=ROD)
    builder.add_body("stone", "world", joints.Free(), at((0.5, 0.0, 0.0)), BOX)
    builder.add_body("post", "world", placement=at((2.0, 0.3, 0.1), (0.3, 0.0, 0.4)))
    builder.add_body("slide", "post", joints.Prismatic((0.0, 0.6, 0.8)), inertia=ROD, lower=-0.1, upper=0.2)
    builder.add_body("wheel", "slide", joints.Revolute((0.0, 0.0, 1.0)), inertia=BOX)
    builder.add_body(
        "pinion",
        "slide",
        joints.Revolute((0.0, 0.0, 1.0)),
        at((0.2, 0.0, 0.0)),
        ROD,
        mimic=rbd.Mimic("wheel", -2.0),
    )
    return builder.build()


def points(seed, count):
    return np.random.default_rng(seed).uniform(-0.5, 0.5, (count, 3))


FRAMES = rbd.Transform(
    jnp.asarray(
        np.stack([rbd.Transform.from_xyz_rpy((0, 0, 0), (a, 0.2, 0.1)).rotation for a in (0.4, 0.9)])
    ),
    jnp.asarray(points(4, 2)),
)

#: One force of each family, all active in the states below.
ALL = {
    "viscous damping": forces.ViscousDamping("forearm", (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)),
    "box drag": forces.BoxDrag(("tool", "stone"), FRAMES, points(2, 2) + 1, 1.2, 0.3, (0.3, -0.2, 0.5)),
    "ellipsoid drag": forces.EllipsoidDrag(
        ("tool", "stone"), FRAMES, points(3, 2) + 1, 1.2, 0.3, (0.3, -0.2, 0.5), added_masses=(0.1, 0.2, 0.3)
    ),
    "directional force": forces.DirectionalForce("tool", points(0, 1)[0], (1.0, -2.0, 3.0)),
    "point to point": forces.PointToPoint(("tool", "stone"), points(1, 2), 30.0),
    "spring": forces.SpringDamper(("arm", "stone"), points(6, 2), 0.4, 50.0, 3.0),
    "network": forces.SpringNetwork(
        ("trunk", "arm", "world", "stone", "arm"),
        points(7, 5),
        [(0, 3), (1, 3), (2, 1), (3, 4)],
        (0.3, 0.4, 0.5, 0.6),
        (20.0, 30.0, 40.0, 50.0),
        (1.0, 2.0, 3.0, 4.0),
    ),
    "cable": forces.Cable(("trunk", "post", "wheel", "world", "stone"), points(5, 5), 2.0, 60.0, 2.0, 0.1),
    "muscle": forces.Muscle(("forearm", "trunk", "pinion"), points(9, 3), 40.0, 2.0, 0.3, 2.0, 0.7),
    "gear": forces.Gear("slide", "forearm", 1.7, 20.0, 3.0, 0.3),
    "joint limits": forces.JointLimit(100.0, 4.0, 0.1),
    "central field": forces.GravityField(forces.CentralPotential(4e3, (30.0, 20.0, -10.0))),
}

ON_BODIES = {name: force for name, force in ALL.items() if isinstance(force, forces.BodyForce)}


def state(model, seed=0):
    """Returns a state near zero, so that limits and springs are active; quaternions are not normalized."""
    rng = np.random.default_rng(seed)
    q = np.asarray(rbd.neutral(model)) + rng.uniform(-0.5, 0.5, model.nq)
    return jnp.asarray(q), jnp.asarray(rng.normal(size=model.nv))
