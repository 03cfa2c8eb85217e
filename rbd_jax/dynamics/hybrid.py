"""Hybrid dynamics: given accelerations at some degrees of freedom and given forces at the others (book §9.1, §9.2).

Forward and inverse dynamics are its special cases. Both algorithms of the book are implemented: articulated bodies, O(n), and
partitioning of the mass matrix, for models with mimic joints and for small matrices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .._core.arguments import configuration, dof_flags, takes, velocity, wrenches
from .._core.array import gather, gather_or_zero
from .._core.positive import solve_positive
from ..model import Model
from ..optimize.implicit import implicit
from .external import ExternalForces
from .forward import DenseInverse, forward_with_inverse
from .inverse import inertia_product, recursive_newton_euler
from .mass_matrix import composite_rigid_body, mass_matrix_among
from .motion import Motion


#: Up to this number of unprescribed degrees of freedom, their block of the mass matrix is faster than articulated bodies.
FEW = 3


def _led(function: str, model: Model, name: str, value):
    """Checks `prescribed`, and returns flags or a tuple of joint names.

    It returns names if joints are given and few degrees of freedom remain; the joints are then static in the compiled program.
    """
    flags = dof_flags(function, model, name, value)
    if hasattr(value, "dtype") or len(model.topology.mimic_joints):
        return flags
    bodies = {model.topology.joint_index(joint) for joint in value}
    left = model.nv - sum(int(model.topology.joint_nv[body]) for body in bodies)
    return tuple(model.joint_names[body] for body in sorted(bodies)) if 1 <= left <= FEW else flags


class HybridMotion(eqx.Module):
    """All accelerations and generalized forces of a motion; it unpacks as `acceleration, tau`.

    >>> model, zero = rbd.load("cartpole"), jnp.zeros(2)
    >>> motion = rbd.hybrid_dynamics(model, jnp.array([0.0, 0.1]), zero, tau=zero, a=jnp.ones(2), prescribed=["slide"])
    >>> print(motion.acceleration, motion.tau)  # of the cart as prescribed, of the pole as follows
    [ 1.    -0.023] [1.198 0.   ]
    """

    acceleration: Float[Array, "*batch nv"]
    tau: Float[Array, "*batch nv"]

    def __iter__(self) -> Iterator[Array]:
        return iter((self.acceleration, self.tau))


@takes(planar=True, q=configuration, v=velocity, tau=velocity, a=velocity, prescribed=_led, f_ext=wrenches)
def hybrid_dynamics(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    tau: Float[Array, "nv"],
    a: Float[Array, "nv"],
    prescribed: Sequence[str | int] | Bool[Array, "nv"],
    f_ext: ExternalForces = None,
) -> HybridMotion:
    """Returns the motion with accelerations `a` at the prescribed degrees of freedom and forces `tau` at the others.

    It implements book table 9.3 and Sueda's algorithm 9. As in `forward_dynamics`, damping, friction and springs of the
    joints are not included. Derivatives follow from implicit differentiation of the solved equation.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      v: Velocity, shape (nv,).
      tau: Generalized forces, shape (nv,). Entries of prescribed degrees of freedom are ignored.
      a: Accelerations, shape (nv,). Entries of the other degrees of freedom are ignored.
      prescribed: The joints, by name or by the index of their body, or one flag per degree of freedom, which may be traced.
        Joints that leave one to three degrees of freedom compile to a separate program, 1.2 to 1.8 times as fast on a CPU.
      f_ext: External wrenches `[n; f]` on bodies, in the world's axes about the world's origin.

    Returns:
      A `HybridMotion` with the accelerations and forces of all degrees of freedom.

    >>> model, q, v = rbd.load("double_pendulum"), jnp.array([0.5, 1.0]), jnp.array([1.0, 2.0])
    >>> a, tau = rbd.hybrid_dynamics(model, q, v, tau=jnp.zeros(2), a=jnp.zeros(2), prescribed=["shoulder"])
    >>> print(a, tau)
    [  0.    -10.616] [-3.903  0.   ]
    """
    motion = Motion(model, q, v).computed("velocities", "velocity_products")
    if isinstance(prescribed, tuple):
        flags = np.zeros(model.nv, bool)
        for joint in prescribed:
            flags[model.v_slice(joint)] = True
        acceleration = _with_few_left(flags)(jnp.where(flags, a, tau), motion, f_ext)
    else:
        flags = jnp.asarray(prescribed)  # the argument check has converted joints to flags
        acceleration = _hybrid(jnp.where(flags, a, tau), motion, f_ext, flags)
    needed = recursive_newton_euler(motion, acceleration, f_ext)
    return HybridMotion(acceleration, jnp.where(flags, needed, tau))


def _solve(known, motion: Motion, f_ext, prescribed):
    """Returns all accelerations, and the inverse of the linear map from them to `known`."""
    if len(motion.model.topology.mimic_joints):
        return by_mass_matrix(known, motion, f_ext, prescribed)
    return by_articulated_bodies(known, motion, f_ext, prescribed)


def by_articulated_bodies(known, motion: Motion, f_ext, prescribed):
    """Runs the articulated-body algorithm with infinite armature at the prescribed degrees of freedom.

    Then `U D⁻¹ = 0`, so that `I^a = I^A` and `p^a = p^A + I^A c`, with the given `S q̈` as part of c: table 9.2.
    """
    held = jnp.where(prescribed, jnp.inf, motion.model.armature)
    driven = jnp.where(prescribed, known, 0)
    acceleration, solve = forward_with_inverse(known, motion, f_ext, held, driven)
    return acceleration + driven, _inverse(motion, prescribed, solve)


def by_mass_matrix(known, motion: Motion, f_ext, prescribed):
    """Runs the four steps of §9.1: `H₁₁ q̈₁ = τ₁ - C'₁`, with C' the forces for the prescribed accelerations alone (eq. 9.3).

    The rows and columns outside `H₁₁` are replaced by those of the unit matrix, so that the flags may be traced.
    """
    free = ~prescribed
    unit = jnp.eye(motion.model.nv, dtype=known.dtype)
    kept = jnp.where(free[:, None] & free[None, :], composite_rigid_body(motion), unit)
    invert = DenseInverse.of(kept)

    def solve(rhs):
        return jnp.where(prescribed, 0, invert(rhs))

    driven = jnp.where(prescribed, known, 0)
    missing = known - recursive_newton_euler(motion, driven, f_ext)
    return driven + solve(missing), _inverse(motion, prescribed, solve)


def by_small_matrix(known, motion: Motion, f_ext, prescribed: np.ndarray):
    """Computes `by_mass_matrix` from only the required block of the matrix (book table 9.1), for static flags."""
    free = np.flatnonzero(~prescribed)
    places = np.full(len(prescribed), -1)
    places[free] = np.arange(len(free))
    matrix = mass_matrix_among(motion, free)

    def solve(rhs):
        return gather_or_zero(solve_positive(matrix, gather(rhs, free)), places)

    driven = jnp.where(prescribed, known, 0)
    missing = known - recursive_newton_euler(motion, driven, f_ext)
    return driven + solve(missing), _inverse(motion, prescribed, solve)


def _with_few_left(prescribed: np.ndarray):
    """Returns hybrid dynamics for static prescribed joints."""
    return implicit(
        lambda known, motion, f_ext: by_small_matrix(known, motion, f_ext, prescribed),
        lambda x, motion, f_ext: _known(x, motion, f_ext, prescribed),
    )


def _inverse(motion: Motion, prescribed, solve):
    """Returns the inverse of `[[H₁₁, H₁₂], [0, 1]]`; `solve` applies the inverse of `H₁₁` and returns zero elsewhere."""

    def apply(rhs):
        driven = jnp.where(prescribed, rhs, 0)
        return driven + solve(rhs - inertia_product(motion, driven))

    return apply


def _known(x, motion: Motion, f_ext, prescribed):
    """Returns the known quantities of a motion from all its accelerations."""
    return jnp.where(prescribed, x, recursive_newton_euler(motion, x, f_ext))


_hybrid = implicit(_solve, _known)
