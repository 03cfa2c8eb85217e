"""Motions without a simulation, for what draws them."""

import jax.numpy as jnp
import numpy as np

import rbd_jax as rbd


def swaying(model, rows=41, seconds=2.0, batch=()):
    """A trajectory in which every joint sways by its own about where it is in the model's reference."""
    rate = 1 + np.arange(model.nv) % 5 + 0.3 * np.arange(model.nv) / max(model.nv, 1)
    t = np.linspace(0, seconds, rows)
    size = np.linspace(0.5, 1.0, int(np.prod(batch)))
    step = 0.3 * size[:, None, None] * np.sin(rate * t[:, None])
    q = np.array([[rbd.integrate(model, model.reference, jnp.asarray(row)) for row in one] for one in step])
    of = lambda x: jnp.asarray(np.broadcast_to(x, (*batch, *x.shape)))
    whole = lambda kind: jnp.full(batch, kind, jnp.int32)
    zeros = np.zeros((rows, model.nv))
    return rbd.Trajectory(
        of(t), jnp.asarray(q.reshape(*batch, rows, model.nq)), of(zeros), of(zeros[1:]), whole(0), whole(-1)
    )


def failing(path, row, code=rbd.Result.NOT_FINITE if hasattr(rbd.Result, "NOT_FINITE") else 1):
    """The same path, NaN from a row on."""
    gone = jnp.arange(path.q.shape[-2])[:, None] >= row
    q, v = (jnp.where(gone, jnp.nan, x) for x in (path.q, path.v))
    return rbd.Trajectory(path.t, q, v, path.tau, path.code + int(code), path.failed_step + row)
