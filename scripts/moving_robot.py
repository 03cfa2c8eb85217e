"""The picture at the top of the README: a quadruped that trots, on servos that are told no more than when to lift which leg.

    python scripts/moving_robot.py [--out docs/images/quadruped.gif]

Diagonal legs move together, in half a turn from the others. A servo of a thigh swings, and one of a calf bends while the foot is
to be in the air; what holds it up are the contacts.
"""

import argparse
from pathlib import Path

import jax.numpy as jnp

import rbd_jax as rbd


#: Steps of each leg in a second, how far thighs swing and calves bend (rad), and in what time they begin to (s).
RATE, SWING, BEND, BEGIN = 2.5, 0.2, 0.8, 0.5

#: In which part of a turn each leg is.
LEGS = {"FL": 0.0, "FR": 0.5, "RL": 0.5, "RR": 0.0}


def trot(t, state):
    """The angles that the servos are told, from those of standing."""
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
