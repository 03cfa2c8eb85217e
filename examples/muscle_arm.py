"""Three muscles, excited in sequence, lift, bend and stretch an arm. Writes a film and the angles."""

import sys

import jax.numpy as jnp

import rbd_jax as rbd
from rbd_jax import joints, shapes
from rbd_jax.forces import ActivatedMuscle, JointLimit


builder = rbd.ModelBuilder(name="arm with muscles")
bone, look = rbd.Inertia.cylinder(1.5, 0.03, 0.3, (0, 0, -0.15)), shapes.Capsule(0.03, 0.15)
along, ivory = {"damping": 0.2, "lower": -2.2, "upper": 0.3}, (0.9, 0.85, 0.75, 1)
builder.add_body("upper arm", "world", joints.Revolute((0, 1, 0)), inertia=bone, **along)
builder.add_body("forearm", "upper arm", joints.Revolute((0, 1, 0)), (0, 0, -0.3), bone, **along)
for body in ("upper arm", "forearm"):
    builder.attach(rbd.Shape(body, body, look, (0, 0, -0.15), rgba=ivory))
pulse = lambda begin, size: lambda t: size * jnp.clip(jnp.sin(jnp.pi * (t - begin)), 0, 1)
elbow, x, z = ["upper arm", "forearm"], 0.03, -0.05
shoulder, front, back = [(2 * x, 0, -z), (x, 0, -0.12)], [(x, 0, z), (x, 0, z)], [(-x, 0, z), (-x, 0, 0)]
deltoid = ActivatedMuscle(["world", "upper arm"], shoulder, 900.0, 0.16, excitation=pulse(0.0, 0.8))
biceps = ActivatedMuscle(elbow, front, 500.0, 0.27, excitation=pulse(0.3, 0.7))
triceps = ActivatedMuscle(elbow, back, 500.0, 0.25, excitation=pulse(1.2, 0.5))
model = rbd.add_forces(builder.build(), deltoid, biceps, triceps, JointLimit(100.0, 2.0))
steps = 100 if "--short" in sys.argv else 4000
path = rbd.rollout(model, rbd.State(jnp.zeros(2), jnp.zeros(2)), dt=1e-3, steps=steps, save_every=10)
rbd.plot.positions(model, path).savefig("muscle_arm.png")
rbd.save_video(model, path, "muscle_arm.gif", size=(320, 240), fps=25, camera={"azimuth": -75})
