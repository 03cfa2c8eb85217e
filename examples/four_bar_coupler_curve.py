"""A crank turns, and a point on the coupler of its four-bar linkage traces a curve. Writes a film and the curve."""

import sys

import jax
import jax.numpy as jnp
from matplotlib.figure import Figure

import rbd_jax as rbd
from rbd_jax import constraints, joints


rod = lambda length: rbd.Inertia.box(length, (length, 0.05, 0.05), (length / 2, 0, 0))
builder = rbd.ModelBuilder(gravity=(0, -9.81, 0), name="four-bar linkage")
builder.add_body("crank", "world", joints.Revolute(), inertia=rod(0.4))
builder.add_body("coupler", "crank", joints.Revolute(), (0.4, 0, 0), rod(1.0))
builder.add_body("rocker", "world", joints.Revolute(), (1.0, 0, 0), rod(0.8))
builder.add_constraint(constraints.HingeLoop("coupler", (1.0, 0, 0), "rocker", (0.8, 0, 0)))
builder.attach(rbd.Site("pen", "coupler", (0.5, 0.6, 0.0)))
model = builder.build()

start = rbd.assemble(model, jnp.array([0.5, 0.5, 2.0])).q
state = rbd.State(start, rbd.project_velocity(model, start, jnp.array([6.0, 0, 0])))
turn = lambda t, state: jnp.array([20.0, 0, 0]) * (6 - state.v)
path = rbd.rollout(model, state, turn, dt=1e-3, steps=50 if "--short" in sys.argv else 2000, save_every=10)
pen = jax.vmap(lambda q: rbd.site_frames(model, q).position[0])(path.q)
figure = Figure(figsize=(4, 4))
figure.add_subplot(aspect="equal", title="coupler curve [m]").plot(*pen.T[:2])
figure.savefig("four_bar_coupler_curve.png")
rbd.save_video(model, path, "four_bar_coupler_curve.gif", size=(320, 240), fps=25, camera={"azimuth": -90})
