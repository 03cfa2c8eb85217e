"""Chaos: 512 double pendulums start a thousandth of a degree apart. Writes a film and a plot of their divergence."""

import sys

import jax
import jax.numpy as jnp

import rbd_jax as rbd


steps = 100 if "--short" in sys.argv else 1500
model = rbd.load("double_pendulum")
apart = jnp.radians(1e-3) * jax.random.normal(jax.random.key(0), (512, 2))
states = rbd.State(jnp.array([2.2, 1.0]) + apart, jnp.zeros((512, 2)))
path = rbd.simulate_batch(model, states, dt=0.01, steps=steps, frames=steps // 2, scheme=rbd.RungeKutta4())
rbd.plot.fan(model, path).savefig("double_pendulum_chaos.png")
rbd.save_video(model, path, "double_pendulum_chaos.gif", size=(320, 240), fps=20, ghosts=range(1, 9))
