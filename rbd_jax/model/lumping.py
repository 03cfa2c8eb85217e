"""A model without welds: each moving body merged with all bodies that are welded to it.

A welded body never moves relative to its carrier, so the recursions skip it. The results depend on the model only, not on
its state; the compiler computes them once outside of a loop over samples.
"""

from collections.abc import Mapping
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from .._core.array import sum_rows
from ..spatial import AnyInertia, AnyTransform
from ..spatial.inertia import Inertia
from .model import Model


def weld_frames(model: Model) -> AnyTransform:
    """Returns each body's frame in the frame of the moving body (or of the world) that carries it: (nb,).

    The frame of a moving body is the identity.
    """
    topology = model.topology
    rows, row_of = [unmoved(model)], np.zeros(model.nb + 1, int)  # entry nb, also index -1, is the world
    pending = np.flatnonzero(topology.fixed)
    known = 1
    depth = np.zeros(model.nb + 1, int)
    for body in pending:
        depth[body] = depth[topology.parents[body]] + 1
    for level in range(1, depth.max() + 1):
        bodies = np.flatnonzero(depth[:-1] == level)
        above = rows[0].followed_by(*rows[1:]).gather(row_of[np.array(topology.parents)[bodies]])
        rows.append(above @ model.placements.gather(bodies))
        row_of[bodies] = known + np.arange(len(bodies))
        known += len(bodies)
    return rows[0].followed_by(*rows[1:]).gather(row_of[:-1])


def moving_placements(model: Model) -> AnyTransform:
    """Returns the joint frame of each moving body, in the frame of the moving body above it."""
    topology = model.topology
    own = model.placements.gather(topology.moving_bodies)
    if not topology.fixed.any():
        return own
    parents = np.array(topology.parents)[topology.moving_bodies]
    above = weld_frames(model).followed_by(unmoved(model)).gather(parents)
    return above @ own


def moving_inertias(model: Model) -> AnyInertia:
    """Returns the inertia of each moving body with all bodies welded to it, in the moving body's frame."""
    topology = model.topology
    if not topology.fixed.any():
        return model.inertias
    parameters = model.inertias.placed(weld_frames(model)).parameters
    return model.inertias.from_parameters(sum_by_moving_body(model, parameters))


def sum_by_moving_body(model: Model, x):
    """Sums the rows of `x`, one per body, over the bodies that each moving body carries; the world's are omitted."""
    topology = model.topology
    if not topology.fixed.any():
        return x
    return sum_rows(x, topology.carriers, len(topology.moving_bodies))


def with_inertias_added(model: Model, added: Mapping[int, Inertia]) -> Model:
    """Returns the model with inertias added to some bodies, by their index, each in the body's frame."""
    none = jnp.zeros(10, model.dtype)
    change = [
        added[body].parameters.astype(model.dtype) if body in added else none for body in range(model.nb)
    ]
    return replace(model, inertias=Inertia.from_parameters(model.inertias.parameters + jnp.stack(change)))


def unmoved(model: Model) -> AnyTransform:
    """Returns the identity transform as a batch of one: (1,)."""
    return jax.tree.map(lambda x: x[None], model.placements.identity(model.dtype))
