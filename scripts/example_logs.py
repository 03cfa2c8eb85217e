"""Generates the example logs: an arm with a payload and with joint friction that its model does not have.

    python scripts/example_logs.py [FOLDER]

The robot is `arm7` with a payload of 1.8 kg in its hand, and with friction in each joint. Its controller has
neither in its model. It tracks two motions that `rbd.identify.excitation` designs; encoders and torque sensors
have noise. The logs contain the signals of a real arm: times, positions, torques. The true parameters are
`TRUTH` below and `robot()`.
"""

import sys
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import rbd_jax as rbd


FOLDER = Path(__file__).resolve().parent.parent / "rbd_jax" / "identify" / "examples"
#: The payload: mass in kg, radius of its sphere, and position in the frame of the hand.
PAYLOAD = 1.8, 0.05, (0.03, 0.0, 0.12)
#: Viscous damping (N m s/rad) and Coulomb friction (N m) of the seven joints.
DAMPING = (1.6, 1.9, 1.3, 1.2, 0.4, 0.35, 0.25)
FRICTION = (2.4, 3.1, 1.9, 1.7, 0.6, 0.5, 0.4)
#: Noise of the torques (N m) and of the positions (rad).
TORQUES = (0.6, 0.6, 0.4, 0.4, 0.1, 0.1, 0.1)
POSITIONS = 2e-5
SECONDS, RATE, SUBSTEPS = 12.0, 100, 10


def robot(model: rbd.Model) -> rbd.Model:
    """Returns the true robot: the model with the payload and friction added."""
    mass, radius, place = PAYLOAD
    hand = model.body_names.index("hand")
    parameters = model.inertias.parameters.at[hand].add(rbd.Inertia.sphere(mass, radius, place).parameters)
    return replace(
        model,
        inertias=rbd.Inertia.from_parameters(parameters),
        damping=jnp.array(DAMPING),
        friction=jnp.array(FRICTION),
    )


def noisy(values, size, random) -> np.ndarray:
    """Returns values with white noise of this size, in single precision."""
    return (np.asarray(values) + random.normal(size=values.shape) * np.asarray(size)).astype(np.float32)


def main(folder: Path) -> None:
    jax.config.update("jax_enable_x64", True)
    model = rbd.load("arm7")
    free = [rbd.identify.inertias("hand"), rbd.identify.friction()]
    for number in (1, 2):
        best = rbd.identify.excitation(
            model, free, seconds=SECONDS, rate=RATE, starts=2, steps=60, seed=number, clearance=None
        )
        print(best)
        start = rbd.State(best.motion.q(0.0), best.motion.v(0.0))
        steps = round(SECONDS * RATE) * SUBSTEPS
        path = rbd.rollout(
            robot(model),
            start,
            best.motion.policy(model),
            dt=1 / (RATE * SUBSTEPS),
            steps=steps,
            save_every=SUBSTEPS,
        )
        random = np.random.default_rng(number)
        np.savez_compressed(
            folder / f"arm7_{number}.npz",
            t=np.round(np.asarray(path.t[:-1]), 6),
            q=noisy(path.q[:-1], POSITIONS, random),
            tau=noisy(path.tau, TORQUES, random),
        )
        off = np.abs(np.asarray(path.q) - np.asarray(jax.vmap(best.motion.q)(path.t))).max()
        print(f"run {number}: {len(path.t) - 1} samples, at most {off:.2g} rad beside the motion")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
