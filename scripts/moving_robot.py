"""Draws the picture at the top of the README: a trotting quadruped with open-loop servo commands.

    python scripts/moving_robot.py [--out docs/images/quadruped.gif]

Diagonal legs move together, half a cycle apart from the other pair. The thigh servos swing, and the calf servos
bend while the foot is in the air. Only the contacts support the robot.
"""

import argparse
from pathlib import Path

import jax.numpy as jnp

import rbd_jax as rbd


#: Steps of each leg per second, swing of thighs and bend of calves (rad), and ramp-up time (s).
RATE, SWING, BEND, BEGIN = 2.5, 0.2, 0.8, 0.5

#: Phase of each leg, in cycles.
LEGS = {"FL": 0.0, "FR": 0.5, "RL": 0.5, "RR": 0.0}


def trot(t, state):
    """Returns the commanded servo angles, relative to standing."""
    angles, grown = [], jnp.minimum(t / BEGIN, 1)
    for part in LEGS.values():
        turn = 2 * jnp.pi * (RATE * t + part)
        lift = BEND * jnp.maximum(jnp.sin(turn), 0)
        angles += [jnp.zeros_like(turn), grown * (SWING * jnp.cos(turn) + lift / 2), -grown * lift]
    return rbd.Controls(jnp.stack(angles))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("docs/images/quadruped.gif"))
    parser.add_argument("--seconds", type=float, default=3.2)
    arguments = parser.parse_args()
    model = rbd.attach(rbd.load("quadruped"), rbd.contact.Soft())
    start = rbd.State(rbd.neutral(model), jnp.zeros(model.nv))
    steps = round(arguments.seconds / 0.02) * 5
    path = rbd.rollout(model, start, trot, dt=0.004, steps=steps, save_every=5)
    camera = rbd.view.Camera(azimuth=-50, elevation=14)
    rbd.save_video(model, path, arguments.out, size=(420, 280), fps=20, camera=camera, follow=True)


if __name__ == "__main__":
    main()
