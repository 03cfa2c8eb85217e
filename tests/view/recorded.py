"""Motions without simulation, for tests of drawing."""

import jax
import numpy as np

import rbd_jax as rbd


_moved = rbd.batch_map(lambda model, step: rbd.integrate(model, model.reference, step), (None, 0))


def swaying(model, rows=41, seconds=2.0, batch=()):
    """Returns a trajectory of a tree in which every joint sways differently; amplitudes differ between samples."""
    rate = 1 + np.arange(model.nv) % 5 + 0.3 * np.arange(model.nv) / max(model.nv, 1)
    t = np.linspace(0, seconds, rows)
    size = np.linspace(0.5, 1.0, int(np.prod(batch)))
    step = 0.3 * size[:, None, None] * np.sin(rate * t[:, None])
    q = _moved(model, step.reshape(-1, model.nv).astype(model.dtype))
    return of(t, np.asarray(q).reshape(*batch, rows, model.nq), model.nv)


def of(t, q, nv):
    """Returns the trajectory of configurations (..., rows, nq) at times (rows,)."""
    batch = q.shape[:-2]
    over = lambda x: jax.device_put(np.broadcast_to(x, (*batch, *np.shape(x))))
    v = np.zeros((len(t), nv), q.dtype)
    codes = (jax.device_put(np.full(batch, code, np.int32)) for code in (0, -1))
    return rbd.Trajectory(over(t), jax.device_put(q), over(v), over(v[1:]), *codes)


def failing(path, row, code=rbd.Result.NOT_FINITE):
    """Returns the same path, failed at the step to a row."""
    gone = (np.arange(path.q.shape[-2]) >= row)[:, None]
    q, v = (np.where(gone, np.nan, x) for x in (path.q, path.v))
    codes = (np.full(path.code.shape, one, np.int32) for one in (int(code), row - 1))
    return rbd.Trajectory(path.t, *map(jax.device_put, (q, v, path.tau, *codes)))
