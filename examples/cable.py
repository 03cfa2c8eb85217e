"""A heavy cable of forty links, fixed at one end, falls from level and whips. Writes a film."""

import sys

import jax.numpy as jnp

import rbd_jax as rbd
from rbd_jax import joints, shapes


LINKS, LENGTH, RADIUS = 40, 0.05, 0.025
builder = rbd.ModelBuilder(name="cable")
link = rbd.Inertia.cylinder(0.02, RADIUS, LENGTH, (0, 0, -LENGTH / 2))
parent = "world"
for i in range(LINKS):
    place = (0, 0, 0) if i == 0 else (0, 0, -LENGTH)
    builder.add_body(
        f"link {i}", parent, joints.Revolute((0, 1, 0)), place, link, damping=1e-4, stiffness=2e-3
    )
    color = (0.85, 0.45, 0.2, 1) if i % 8 < 4 else (0.25, 0.3, 0.4, 1)
    capsule = shapes.Capsule(RADIUS, LENGTH / 2)
    builder.attach(rbd.Shape(f"shape {i}", f"link {i}", capsule, (0, 0, -LENGTH / 2), rgba=color))
    parent = f"link {i}"
model = builder.build()

level = rbd.State(jnp.zeros(LINKS).at[0].set(-jnp.pi / 2), jnp.zeros(LINKS))
steps = 100 if "--short" in sys.argv else 6000
path = rbd.rollout(model, level, dt=5e-4, steps=steps, save_every=20, scheme=rbd.RungeKutta4())
rbd.save_video(model, path, "cable.gif", size=(320, 240), fps=25, camera={"azimuth": -90})
