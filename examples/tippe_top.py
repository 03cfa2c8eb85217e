"""A ball with its center of mass below its center spins, turns over, and rises by friction. Writes a film."""

import sys

import jax.numpy as jnp

import rbd_jax as rbd
from rbd_jax import contact, joints, shapes


R, OFF, MASS = 0.025, 0.0075, 0.02
builder = rbd.ModelBuilder(name="tippe top")
weighted = rbd.Inertia.from_mass_com(MASS, jnp.array([0, 0, -OFF]), 0.4 * MASS * R**2 * jnp.eye(3))
builder.add_body("top", "world", joints.Free(), inertia=weighted)
stem = shapes.Cylinder(0.15 * R, 0.4 * R)
builder.attach(rbd.Shape("stem", "top", stem, (0, 0, 1.1 * R), collision=False, rgba=(0.8, 0.3, 0.2, 1)))
ball = rbd.Shape("ball", "top", shapes.Sphere(R), rgba=(0.3, 0.5, 0.8, 1))
builder.attach(ball, rbd.Shape("floor", "world", shapes.Plane()))
builder.attach(contact.Compliant("floor", "ball", 1e6, 2e6, 0.3, slip_speed=1e-2))
model = builder.build()

steps = 2000 if "--short" in sys.argv else 48000
start = rbd.State(jnp.array([0, 0, R, jnp.cos(0.05), jnp.sin(0.05), 0, 0]), jnp.array([0, 0, 150.0, 0, 0, 0]))
path = rbd.rollout(model, start, dt=5e-5, steps=steps, save_every=40, scheme=rbd.RungeKutta4())
rbd.save_video(model, path, "tippe_top.gif", size=(320, 240), fps=25, speed=0.4, follow=True)
