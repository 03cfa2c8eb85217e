"""Hybrid dynamics: at some freedoms the acceleration is given and the force wanted, at the others the reverse (book §9.1, §9.2).

Forward and inverse dynamics are its two ends. Both algorithms of the book are here: with articulated bodies, O(n), and
with the mass matrix taken apart, for models in which joints mimic others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..model import Model
from ..model._arguments import takes_sample
from ._external import ExternalForces
from ._implicit import implicit
from .forward import forward_with_inverse, inverse_of_dense
from .inverse import inertia_force, inverse_dynamics
from .mass_matrix import mass_matrix


class HybridMotion(eqx.Module):
    """All accelerations and all forces of a motion; it unpacks as `acceleration, tau`."""

    acceleration: Float[Array, "*batch nv"]
    tau: Float[Array, "*batch nv"]

    def __iter__(self) -> Iterator[Array]:
        return iter((self.acceleration, self.tau))


@takes_sample
def hybrid_dynamics(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    tau: Float[Array, "nv"],
    a: Float[Array, "nv"],
    prescribed: Sequence[str | int] | Bool[Array, "nv"],
    f_ext: ExternalForces = None,
) -> HybridMotion:
    """The motion with the accelerations `a` at the prescribed freedoms and the forces `tau` at the others (book table 9.3).

    As for `forward_dynamics`, damping, friction and springs of the joints are not part of it. Derivatives are those of the
    equation that it solves.

    **Arguments**

    - `tau`, `a`: of all freedoms; those entries of `tau` that are prescribed are not looked at, nor those of `a` that are not.
    - `prescribed`: the joints, by name or by the index of their body; or a flag for each freedom, which may be traced.
    """
    flags = jnp.asarray(prescribed)  # the names have become flags where the arguments were checked
    acceleration = _hybrid(jnp.where(flags, a, tau), model, q, v, f_ext, flags)
    needed = inverse_dynamics(model, q, v, acceleration, f_ext)
    return HybridMotion(acceleration, jnp.where(flags, needed, tau))


def _solve(known, model: Model, q, v, f_ext, prescribed):
    """All accelerations, and the inverse of what leads from them to `known`."""
    if len(model.topology.followers):
        return by_mass_matrix(known, model, q, v, f_ext, prescribed)
    return by_articulated_bodies(known, model, q, v, f_ext, prescribed)


def by_articulated_bodies(known, model: Model, q, v, f_ext, prescribed):
    """The articulated-body algorithm. A freedom with an infinite armature accelerates by itself only.

    Then `U D⁻¹ = 0`, so that `I^a = I^A` and `p^a = p^A + I^A c`, with the given `S q̈` a part of c: table 9.2.
    """
    held = replace(model, armature=jnp.where(prescribed, jnp.inf, model.armature))
    driven = jnp.where(prescribed, known, 0)
    acceleration, solve = forward_with_inverse(known, held, q, v, f_ext, driven)
    return acceleration + driven, _inverse(model, q, prescribed, solve)


def by_mass_matrix(known, model: Model, q, v, f_ext, prescribed):
    """The four steps of §9.1: `H₁₁ q̈₁ = τ₁ - C'₁` with C' the forces for the prescribed accelerations alone (eq. 9.3).

    The rows and columns of H that are not in `H₁₁` are those of the unit matrix, so that the flags may be traced.
    """
    free = ~prescribed
    unit = jnp.eye(model.nv, dtype=q.dtype)
    kept = jnp.where(free[:, None] & free[None, :], mass_matrix(model, q), unit)
    invert = inverse_of_dense(kept)

    def solve(rhs):
        return jnp.where(prescribed, 0, invert(rhs))

    driven = jnp.where(prescribed, known, 0)
    missing = known - inverse_dynamics(model, q, v, driven, f_ext)
    return driven + solve(missing), _inverse(model, q, prescribed, solve)


def _inverse(model: Model, q, prescribed, solve):
    """The inverse of `[[H₁₁, H₁₂], [0, 1]]`, from `solve` which applies that of `H₁₁` and gives zero elsewhere."""

    def apply(rhs):
        driven = jnp.where(prescribed, rhs, 0)
        return driven + solve(rhs - inertia_force(model, q, driven))

    return apply


def _known(x, model: Model, q, v, f_ext, prescribed):
    """What is known of a motion, from all its accelerations."""
    return jnp.where(prescribed, x, inverse_dynamics(model, q, v, x, f_ext))


_hybrid = implicit(_solve, _known)
