"""Hybrid dynamics: at some degrees of freedom the acceleration is given and the force wanted, at the others the reverse
(book §9.1, §9.2).

Forward and inverse dynamics are its two ends. Both algorithms of the book are here: with articulated bodies, O(n), and
with the mass matrix taken apart, for models in which joints mimic others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from .._arguments import configuration, dof_flags, takes, velocity, wrenches
from .._implicit import implicit
from ..model import Model
from .external import ExternalForces
from .forward import forward_with_inverse, inverse_of_dense
from .inverse import inertia_product, recursive_newton_euler
from .mass_matrix import composite_rigid_body
from .motion import Motion


class HybridMotion(eqx.Module):
    """All accelerations and all forces of a motion; it unpacks as `acceleration, tau`."""

    acceleration: Float[Array, "*batch nv"]
    tau: Float[Array, "*batch nv"]

    def __iter__(self) -> Iterator[Array]:
        return iter((self.acceleration, self.tau))


@takes(
    planar=True, q=configuration, v=velocity, tau=velocity, a=velocity, prescribed=dof_flags, f_ext=wrenches
)
def hybrid_dynamics(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    tau: Float[Array, "nv"],
    a: Float[Array, "nv"],
    prescribed: Sequence[str | int] | Bool[Array, "nv"],
    f_ext: ExternalForces = None,
) -> HybridMotion:
    """The motion with the accelerations `a` at the prescribed degrees of freedom and the forces `tau` at the others (book
    table 9.3; Sueda's algorithm 9).

    As for `forward_dynamics`, damping, friction and springs of the joints are not part of it. Derivatives are those of the
    equation that it solves.

    **Arguments**

    - `tau`, `a`: of all degrees of freedom; those entries of `tau` that are prescribed are not looked at, nor those of `a`
      that are not.
    - `prescribed`: the joints, by name or by the index of their body; or a flag for each degree of freedom, which may be traced.
    - `f_ext`: wrenches `[n; f]` on bodies, in the world's axes about the world's origin.

    >>> model, q, v = rbd.load("double_pendulum"), jnp.array([0.5, 1.0]), jnp.array([1.0, 2.0])
    >>> a, tau = rbd.hybrid_dynamics(model, q, v, tau=jnp.zeros(2), a=jnp.zeros(2), prescribed=["shoulder"])
    >>> print(a, tau)
    [  0.    -10.616] [-3.903  0.   ]
    """
    flags = jnp.asarray(prescribed)  # the names have become flags where the arguments were checked
    motion = Motion(model, q, v).computed("velocities", "velocity_products")
    acceleration = _hybrid(jnp.where(flags, a, tau), motion, f_ext, flags)
    needed = recursive_newton_euler(motion, acceleration, f_ext)
    return HybridMotion(acceleration, jnp.where(flags, needed, tau))


def _solve(known, motion: Motion, f_ext, prescribed):
    """All accelerations, and the inverse of what leads from them to `known`."""
    if len(motion.model.topology.mimic_joints):
        return by_mass_matrix(known, motion, f_ext, prescribed)
    return by_articulated_bodies(known, motion, f_ext, prescribed)


def by_articulated_bodies(known, motion: Motion, f_ext, prescribed):
    """The articulated-body algorithm. A degree of freedom with an infinite armature accelerates by itself only.

    Then `U D⁻¹ = 0`, so that `I^a = I^A` and `p^a = p^A + I^A c`, with the given `S q̈` a part of c: table 9.2.
    """
    held = jnp.where(prescribed, jnp.inf, motion.model.armature)
    driven = jnp.where(prescribed, known, 0)
    acceleration, solve = forward_with_inverse(known, motion, f_ext, held, driven)
    return acceleration + driven, _inverse(motion, prescribed, solve)


def by_mass_matrix(known, motion: Motion, f_ext, prescribed):
    """The four steps of §9.1: `H₁₁ q̈₁ = τ₁ - C'₁` with C' the forces for the prescribed accelerations alone (eq. 9.3).

    The rows and columns of H that are not in `H₁₁` are those of the unit matrix, so that the flags may be traced.
    """
    free = ~prescribed
    unit = jnp.eye(motion.model.nv, dtype=known.dtype)
    kept = jnp.where(free[:, None] & free[None, :], composite_rigid_body(motion), unit)
    invert = inverse_of_dense(kept)

    def solve(rhs):
        return jnp.where(prescribed, 0, invert(rhs))

    driven = jnp.where(prescribed, known, 0)
    missing = known - recursive_newton_euler(motion, driven, f_ext)
    return driven + solve(missing), _inverse(motion, prescribed, solve)


def _inverse(motion: Motion, prescribed, solve):
    """The inverse of `[[H₁₁, H₁₂], [0, 1]]`, from `solve` which applies that of `H₁₁` and gives zero elsewhere."""

    def apply(rhs):
        driven = jnp.where(prescribed, rhs, 0)
        return driven + solve(rhs - inertia_product(motion, driven))

    return apply


def _known(x, motion: Motion, f_ext, prescribed):
    """What is known of a motion, from all its accelerations."""
    return jnp.where(prescribed, x, recursive_newton_euler(motion, x, f_ext))


_hybrid = implicit(_solve, _known)
