"""Writes docs/films/quadruped.html, the film on the start page of the documentation. scripts/docs.sh runs this first.

Three quadrupeds are dropped on a floor from different poses, and their servos return them to standing.
"""

from pathlib import Path

import equinox as eqx
import jax

import rbd_jax as rbd


FILM = Path(__file__).resolve().parent.parent / "docs" / "films" / "quadruped.html"


def main() -> None:
    model = rbd.attach(rbd.load("quadruped"), rbd.contact.Soft())
    states = rbd.parallel.random_states(model, 3, jax.random.key(3), spread=0.12, speed=0.3)
    states = eqx.tree_at(lambda states: states.q, states, states.q.at[:, 2].add(0.25))
    path = jax.jit(rbd.batch_map(lambda state: rbd.rollout(model, state, dt=0.004, steps=625)))(states)
    camera = {"azimuth": 40.0, "elevation": 20.0}
    FILM.parent.mkdir(exist_ok=True)
    rbd.save_html(
        model,
        path,
        FILM,
        ghosts=(1, 2),
        fps=30,
        camera=camera,
        title="Three quadrupeds that land on their feet",
    )


if __name__ == "__main__":
    main()
