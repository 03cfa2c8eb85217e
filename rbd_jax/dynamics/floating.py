"""Floating bodies with velocities in body axes, converted to non-rotating axes.

The velocity of a `Free` or a `Planar` joint is in axes that rotate with the body. In non-rotating axes, a body without forces
has a constant linear velocity, even if it spins.
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
    """Returns `ω × v`: the rate of linear velocity in non-rotating axes minus its rate in the body's axes."""
    return _of_floating(motion.model, lambda v: (jnp.zeros(3, v.dtype), cross(v[:3], v[3:])), motion.v)


def stepped_along_fixed_axes(
    model: Model, v: Float[Array, "nv"], a: Float[Array, "nv"], h: Float[Array, ""]
) -> tuple[Float[Array, "nv"], Float[Array, "nv"]]:
    """Returns `v⁺` after a step of length h, and the change of the configuration, `q ⊕ change`.

    For most joints the results are `v + h a` and `h v⁺`. For floating bodies, the linear velocity is integrated in non-rotating
    axes, and the displacement is `h` times the velocity at the end of the step in these axes.
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
    """Returns the floating joints, grouped by kind, and their entries in v; mimic joints are left out."""
    topology, found = model.topology, []
    for kind, joints in zip(topology.kinds, model.joints, strict=True):
        own = [place for place, body in enumerate(kind.bodies) if not topology.is_mimic[body]]
        if isinstance(joints, Free | Planar) and own:
            entries = np.array([np.arange(model.nv)[model.v_slice(kind.bodies[place])] for place in own])
            found.append((jax.tree.map(lambda leaf, own=own: leaf[np.array(own)], joints), entries))
    return found


def _of_floating(model: Model, twist: Callable, *given: Float[Array, "nv"]) -> Float[Array, "nv"]:
    """Applies a function of twists `[ω; v]`, which returns both parts of a twist, to all floating joints in v coordinates."""

    def one(joint, *own):
        columns = joint.columns().astype(given[0].dtype)
        return vecmat(jnp.concatenate(twist(*(matvec(columns, x) for x in own))), columns)

    parts, places = [jnp.zeros(0, given[0].dtype)], [np.zeros(0, int)]
    for joints, entries in _floating(model):
        parts.append(jax.vmap(one, axis_size=len(entries))(joints, *(x[entries] for x in given)).reshape(-1))
        places.append(entries.reshape(-1))
    return sum_rows(jnp.concatenate(parts), np.concatenate(places), model.nv)
