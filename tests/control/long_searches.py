"""Optimal control solves that are killed: `python long_searches.py NAME FILE SAVE MOMENT` runs one.

The process ends itself by SIGKILL at a save, "before" or "after" the new file has its name. Tests run the same solves
with `SOLVERS`.
"""

import sys

import jax
import numpy as np

import rbd_jax as rbd
from tests.killed import killed_at


C = rbd.control


def pendulum(steps=15, goal=0.5, effort=5.0):
    """Returns the problem of a pendulum that must be at rest at an angle after one second."""
    model = rbd.load("pendulum")
    return C.Problem(
        model,
        rbd.State(*jax.device_put((np.zeros(1), np.zeros(1)))),
        steps=steps,
        dt=1.0 / steps,
        running=[1e-2 * C.Effort()],
        constraints=[
            C.Constraint(C.Posture(np.array([goal])), at="end"),
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
    """Returns the solution of the named solver for the pendulum."""
    solver = SOLVERS[name] if solver is None else solver
    return C.solve(pendulum(**changes), solver, on_iteration=on_iteration, checkpoint=checkpoint)


if __name__ == "__main__":
    name, file, save, moment = sys.argv[1:]
    killed_at(int(save), moment)
    search(name, rbd.Checkpoint(file, every=0))
