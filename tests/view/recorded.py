"""Motions without a simulation, for what draws them."""

import jax.numpy as jnp
import numpy as np

import rbd_jax as rbd


def swaying(model, rows=41, seconds=2.0, batch=()):
    """A trajectory of a tree in which every joint sways by its own about the reference; one sample more than the other."""
    rate = 1 + np.arange(model.nv) % 5 + 0.3 * np.arange(model.nv) / max(model.nv, 1)
    t = np.linspace(0, seconds, rows)
    size = np.linspace(0.5, 1.0, int(np.prod(batch)))
    step = 0.3 * size[:, None, None] * np.sin(rate * t[:, None])
    q = rbd.batch_map(lambda step: rbd.integrate(model, jnp.asarray(model.reference), step))(
        jnp.asarray(step.reshape(-1, model.nv), model.dtype)
    )
    return of(t, np.asarray(q).reshape(*batch, rows, model.nq), model.nv)


def of(t, q, nv):
    """The trajectory of configurations (..., rows, nq) at times (rows,)."""
    batch = q.shape[:-2]
    over = lambda x: jnp.asarray(np.broadcast_to(x, (*batch, *np.shape(x))))
    v = np.zeros((len(t), nv), q.dtype)
    codes = (jnp.full(batch, code, jnp.int32) for code in (0, -1))
    return rbd.Trajectory(over(t), jnp.asarray(q), over(v), over(v[1:]), *codes)


def failing(path, row, code=rbd.Result.NOT_FINITE):
    """The same path, failed with the step to a row."""
    gone = (jnp.arange(path.q.shape[-2]) >= row)[:, None]
    q, v = (jnp.where(gone, jnp.nan, x) for x in (path.q, path.v))
    one = jnp.ones_like(path.code)
    return rbd.Trajectory(path.t, q, v, path.tau, int(code) * one, (row - 1) * one)
