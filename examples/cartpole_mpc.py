"""Swings a pole up and keeps it upright with model predictive control at 50 Hz. Writes a film and a page."""

import sys

import jax.numpy as jnp

import rbd_jax as rbd
from rbd_jax.control import DDP, Bounds, Effort, Posture, Problem, RecedingHorizon, Velocity


model = rbd.load("cartpole")
costs = {
    "running": [1e-3 * Effort(), Posture(), 0.1 * Velocity()],
    "terminal": [20 * Posture(), 2 * Velocity()],
}
hanging = rbd.State(jnp.array([0.0, jnp.pi]), jnp.zeros(2))
problem = Problem(model, hanging, steps=40, dt=0.04, **costs, bounds=Bounds(control=(-20.0, 20.0)))
controller = RecedingHorizon(problem, DDP(max_iterations=3))
steps = 20 if "--short" in sys.argv else 250
path = rbd.rollout(model, hanging, controller, memory=controller.start(hanging), dt=0.02, steps=steps)
rbd.plot(model, path).savefig("cartpole_mpc.png", dpi=80)
rbd.save_video(model, path, "cartpole_mpc.gif", size=(320, 240), fps=25, camera={"azimuth": -90})
