"""Drops quadrupeds from different poses; their servos make them stand up. Writes a film and their heights."""

import sys

import equinox as eqx
import jax

import rbd_jax as rbd


steps = 20 if "--short" in sys.argv else 500
model = rbd.attach(rbd.load("quadruped"), rbd.contact.Soft())
states = rbd.parallel.random_states(model, 4, jax.random.key(3), spread=0.05, speed=0.3)
states = eqx.tree_at(lambda state: state.q, states, states.q.at[:, 2].add(0.3))
drop = lambda state: rbd.rollout(model, state, dt=0.004, steps=steps, save_every=5)
path = jax.jit(rbd.batch_map(drop))(states)
rbd.plot.fan(model, path, joints=["trunk"], sample=1).savefig("quadruped_drop.png")
rbd.save_video(model, path, "quadruped_drop.gif", size=(320, 240), fps=25, sample=1, ghosts=[0, 2, 3])
