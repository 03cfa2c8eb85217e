"""Bodies whose velocity is in their own frame, seen along the axes that they move against.

The velocity of a `Free` or a `Planar` joint is in axes that turn with the body. In those that do not, a body on which nothing
acts has a constant linear velocity, also when it spins.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.array import cross, matvec, sum_rows, vecmat
from ..joints import Free, Planar
from ..lie import SO3
from ..model import Model
from .motion import Motion


def turning_rates(motion: Motion) -> Float[Array, "nv"]:
    """`ω × v`: by how much the linear velocities in axes that do not turn change faster than those in the body's own."""
    return _of_floating(motion.model, lambda v: (jnp.zeros(3, v.dtype), cross(v[:3], v[3:])), motion.v)


def stepped_along_fixed_axes(
    model: Model, v: Float[Array, "nv"], a: Float[Array, "nv"], h: Float[Array, ""]
) -> tuple[Float[Array, "nv"], Float[Array, "nv"]]:
    """`v⁺` after a step of length h, and the change of the configuration, `q ⊕ change`.

    Both are `v + h a` and `h v⁺` but for floating bodies: their linear velocity is that in axes that do not turn, and so is
    the way that they go, `h` times the velocity at the end.
    """
    after, change = v + h * a, h * (v + h * a)
    if not _floating(model):
        return after, change

    def velocity(v, a):
        turned = v + h * (a + jnp.concatenate([jnp.zeros(3, v.dtype), cross(v[:3], v[3:])]))
        return jnp.zeros(3, v.dtype), matvec(SO3.exp(-h * turned[:3]), turned[3:]) - (v + h * a)[3:]

    def way(v):
        turn = h * v[:3]
        along = matvec(SO3.dexp_left_inverse(turn), matvec(SO3.exp(turn), v[3:]))
        return jnp.zeros(3, v.dtype), h * (along - v[3:])

    after = after + _of_floating(model, velocity, v, a)
    return after, h * after + _of_floating(model, way, after)


def _floating(model: Model) -> list[tuple]:
    """The joints of those bodies, of one kind each, and their entries in v."""
    topology, found = model.topology, []
    for kind, joints in zip(topology.kinds, model.joints, strict=True):
        own = [place for place, body in enumerate(kind.bodies) if not topology.is_mimic[body]]
        if isinstance(joints, Free | Planar) and own:
            entries = np.array([np.arange(model.nv)[model.v_slice(kind.bodies[place])] for place in own])
            found.append((jax.tree.map(lambda leaf, own=own: leaf[np.array(own)], joints), entries))
    return found


def _of_floating(model: Model, twist: Callable, *given: Float[Array, "nv"]) -> Float[Array, "nv"]:
    """A function of twists `[ω; v]` that gives both parts of another, for all such bodies, along their degrees of freedom."""

    def one(joint, *own):
        columns = joint.columns().astype(given[0].dtype)
        return vecmat(jnp.concatenate(twist(*(matvec(columns, x) for x in own))), columns)

    parts, places = [jnp.zeros(0, given[0].dtype)], [np.zeros(0, int)]
    for joints, entries in _floating(model):
        parts.append(jax.vmap(one, axis_size=len(entries))(joints, *(x[entries] for x in given)).reshape(-1))
        places.append(entries.reshape(-1))
    return sum_rows(jnp.concatenate(parts), np.concatenate(places), model.nv)
