"""Identification runs that are killed: `python long_runs.py NAME FILE SAVE MOMENT` starts one.

The process kills itself by SIGKILL at a save, "before" or "after" the new file is renamed. Tests make the same runs by
`RUNS`.
"""

import dataclasses
import sys

import jax
import numpy as np

import rbd_jax as rbd
from tests.killed import killed_at


I = rbd.identify


@jax.jit
def torques(model, q, v, a):
    """Returns the torques that drive a model along a motion."""
    return jax.vmap(lambda *x: rbd.inverse_dynamics(model, *x) - rbd.passive_force(model, *x[:2]))(q, v, a)


def pendulum_log(seconds=1.0, seed=0):
    """Returns a pendulum, and a log of a heavier and damped one with some outliers."""
    model = rbd.load("pendulum")
    truth = dataclasses.replace(
        model,
        inertias=rbd.Inertia.from_parameters(jax.device_put(1.3 * np.asarray(model.inertias.parameters))),
        damping=jax.device_put(np.array([0.2])),
    )
    random = np.random.default_rng(seed)
    t = np.arange(round(100 * seconds) + 1) / 100
    q, v, a = np.sin(3 * t)[:, None], 3 * np.cos(3 * t)[:, None], -9 * np.sin(3 * t)[:, None]
    tau = np.array(torques(truth, q, v, a)) + 1e-2 * random.normal(size=(len(t), 1))
    tau[::17] += 1.0
    return model, I.Log(t, q + 1e-4 * random.normal(size=q.shape), v, a, tau, name=f"run {seed}")


def equations(checkpoint=None, chunk=64, logs=2):
    model = pendulum_log()[0]
    found = I.Equations.of(
        model, (pendulum_log(4.0, i)[1] for i in range(logs)), chunk=chunk, checkpoint=checkpoint
    )
    return {"factors": found.factors, "counts": found.counts}


def searches(checkpoint=None, starts=3, seed=0, **changes):
    model, log = pendulum_log(2.0, seed)
    free = changes.pop("free", [I.masses(), I.damping()])
    problem = I.Problem(model, log, free, I.EquationError(rows=64), robust=changes.pop("robust", True))
    return numbers(I.solve(problem, starts=starts, scatter=1.0, checkpoint=checkpoint, **changes))


def robust(checkpoint=None):
    model, log = pendulum_log(2.0)
    free = [I.inertias(), I.damping()]
    return numbers(I.physical_least_squares(model, log, free, robust=True, checkpoint=checkpoint))


def windows(checkpoint=None, starts=2):
    model, log = pendulum_log(1.0)
    log = dataclasses.replace(log, v=None, a=None)
    problem = I.Problem(model, log, [I.masses(), I.damping()], I.OutputError(0.25))
    return numbers(I.solve(problem, starts=starts, turns=12, checkpoint=checkpoint))


def gradients(checkpoint=None, steps=40, rate=0.03):
    import optax

    model, log = pendulum_log(2.0)
    problem = I.Problem(model, log, [I.masses(), I.damping()], I.EquationError(rows=32))
    solver = optax.chain(optax.add_noise(1e-3, 0.5, jax.random.key(3)), optax.adam(rate))
    with jax.numpy_dtype_promotion("standard"):  # the solver relies on it
        return numbers(I.solve(problem, solver, steps=steps, windows=2, checkpoint=checkpoint))


def numbers(found):
    """Returns all results of an estimate."""
    said = {one.name: getattr(found, one.name) for one in dataclasses.fields(found)}
    return {
        "values": found.values,
        "covariance": found.covariance,
        "standard errors": found.standard_errors,
        "noise": found.noise,
        "errors": found.errors,
        "directions": found.seen.directions,
        "grouping": found.seen.grouping,
        "counts": found.counts,
        "masses": np.asarray(found.model.inertias.mass),
        "missing": [name for name, value in said.items() if value is None],
        "compare": repr(found.compare),
        "rest": (found.iterations, found.converged, found.at_bounds, found.seen.kept),
    }


RUNS = {
    "equations": equations,
    "robust": robust,
    "searches": searches,
    "windows": windows,
    "gradients": gradients,
}


if __name__ == "__main__":
    name, file, save, moment = sys.argv[1:]
    jax.config.update("jax_enable_x64", True)
    run = RUNS[name]
    killed_at(int(save), moment)
    run(rbd.Checkpoint(file, every=0))
