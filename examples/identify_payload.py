"""Identifies the payload of an arm from its torques along a motion. Prints the result, and writes the torques and a film."""

import sys

import equinox as eqx
import jax
import numpy as np

import rbd_jax as rbd


model, payload = rbd.load("arm7"), rbd.Inertia.box(1.5, (0.1, 0.06, 0.2), (0.0, 0.03, 0.1))
held = model.inertias.parameters.at[model.body_index("hand")].add(payload.parameters)
robot = eqx.tree_at(lambda m: m.inertias, model, rbd.Inertia.from_parameters(held))

t = np.arange(400 if "--short" in sys.argv else 4000) / 200
size, rate = np.random.default_rng(0).uniform(0.2, 0.6, (2, 7)) * [[1.0], [6.0]]
angle, speed = rate * t[:, None], size * rate
q, v, a = size * np.sin(angle), speed * np.cos(angle), -speed * rate * np.sin(angle)
torque = lambda q, v, a: rbd.inverse_dynamics(robot, q, v, a) - rbd.passive_force(robot, q, v)
tau = np.asarray(jax.vmap(torque)(*(np.float32(x) for x in (q, v, a))))
tau = tau + np.random.default_rng(1).normal(0, 0.05, q.shape)
log = rbd.identify.Log(t, q, v, a, tau)
found = rbd.identify.physical_least_squares(model, log, rbd.identify.inertias("hand"))
print(found.table())
mass = found.model.inertias.mass - model.inertias.mass
print(f"it holds {mass[model.body_index('hand')]:.3f} kg; it was {payload.mass:.3f} kg")
run = rbd.Trajectory(*(np.float32(x[::20]) for x in (t, q, v)), np.float32(tau[:-1:20]))
rbd.plot.torques(robot, run).savefig("identify_payload.png")
rbd.save_video(robot, run, "identify_payload.gif", size=(320, 240), fps=20, speed=2)
