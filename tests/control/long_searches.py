"""Searches of optimal control that are killed: `python long_searches.py NAME FILE SAVE MOMENT` is one.

It ends itself by SIGKILL at a save, "before" the new file has its name or "after". Tests make the same searches by `SEARCHES`.
"""

import os
import signal
import sys

import jax
import jax.numpy as jnp

import rbd_jax as rbd


C = rbd.control


def pendulum(steps=15, goal=0.5, effort=5.0):
    """A pendulum that is to be at rest at an angle after a second."""
    model = rbd.load("pendulum")
    return C.Problem(
        model,
        rbd.State(jnp.zeros(1), jnp.zeros(1)),
        steps=steps,
        dt=1.0 / steps,
        running=[1e-2 * C.Effort()],
        constraints=[
            C.Constraint(C.Posture(jnp.array([goal])), at="end"),
            C.Constraint(C.Velocity(), at="end"),
        ],
        bounds=C.Bounds(control=(-effort, effort)),
    )


SOLVERS = {
    "ddp": C.DDP(),
    "shooting": C.Shooting(),
    "collocation": C.Collocation(),
    "samples": C.MPPI(samples=16, max_iterations=6, knots=4, key=jax.random.key(3)),
    "elites": C.CEM(samples=16, max_iterations=6, knots=4),
}


def search(name, checkpoint=None, on_iteration=None, solver=None, **changes):
    """What the solver of that name finds for the pendulum."""
    solver = SOLVERS[name] if solver is None else solver
    return C.solve(pendulum(**changes), solver, on_iteration=on_iteration, checkpoint=checkpoint)


def killed_at(save: int, moment: str, number: int = signal.SIGKILL) -> None:
    """From now on this process ends at so many saves, by a signal."""
    rename, left = os.replace, [save]

    def replace(*names):
        left[0] -= 1
        if not left[0] and moment == "before":
            os.kill(os.getpid(), number)
        rename(*names)
        if not left[0]:
            os.kill(os.getpid(), number)

    os.replace = replace


if __name__ == "__main__":
    name, file, save, moment = sys.argv[1:]
    killed_at(int(save), moment)
    search(name, rbd.Checkpoint(file, every=0))
