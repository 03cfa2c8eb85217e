"""A satellite turns with only its three reaction wheels, which exchange momentum with it. Writes a film and the torques."""

import sys

import jax.numpy as jnp

import rbd_jax as rbd
from rbd_jax import joints, shapes


builder = rbd.ModelBuilder(gravity=(0, 0, 0), name="satellite")
builder.add_body("bus", "world", joints.Free(), inertia=rbd.Inertia.box(40.0, (0.6, 0.6, 0.8)))
builder.attach(rbd.Shape("bus", "bus", shapes.Box((0.3, 0.3, 0.4)), rgba=(0.85, 0.7, 0.3, 0.6)))
builder.attach(rbd.Shape("panels", "bus", shapes.Box((0.25, 1.5, 0.01)), rgba=(0.2, 0.3, 0.6, 1)))
for name, rpy in {"x": (0, jnp.pi / 2, 0), "y": (-jnp.pi / 2, 0, 0), "z": (0, 0, 0)}.items():
    turned, wheel = rbd.Transform.from_xyz_rpy((0, 0, 0), rpy), rbd.Inertia.cylinder(5.0, 0.2, 0.05)
    builder.add_body(name, "bus", joints.Revolute(), turned, wheel)
    builder.attach(rbd.Shape(name, name, shapes.Cylinder(0.2, 0.025), rgba=(0.8, 0.3, 0.25, 1)))
model = builder.build()


def point(t, state):  # the reaction to each wheel's torque turns the bus toward its target attitude
    push = 4 * jnp.sign(state.q[3]) * state.q[4:7] + 8 * state.v[:3]
    return jnp.concatenate([jnp.zeros(6), jnp.clip(push, -0.6, 0.6)])


start = rbd.State(rbd.neutral(model).at[3:7].set(jnp.array([0.3, 0.7, -0.5, 0.4])), jnp.zeros(9))
path = rbd.rollout(model, start, point, dt=0.01, steps=100 if "--short" in sys.argv else 3000, save_every=10)
rbd.plot.torques(model, path, joints=["x", "y", "z"]).savefig("satellite_with_wheels.png")
rbd.save_video(model, path, "satellite_with_wheels.gif", size=(320, 240), fps=20, speed=4)
