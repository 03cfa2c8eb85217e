"""Inverse dynamics: the recursive Newton–Euler algorithm and its special cases (book ch. 5)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import configuration, dof_columns, takes, velocity, wrenches
from .._core.array import columnwise, dot, gather
from .._core.derivatives import custom_jvp, linear
from ..model import Model
from ..optimize.implicit import instantiated, moves, moving_arguments
from ..spatial import cross_force
from ._changes import newton_euler_along
from ._frame import base_acceleration
from .columns import at_last_column, from_columns, to_columns
from .external import ExternalForces, external_forces
from .motion import Motion


@takes(planar=True, q=configuration, v=velocity, a=velocity, f_ext=wrenches)
def inverse_dynamics(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    a: Float[Array, "nv"],
    f_ext: ExternalForces = None,
) -> Float[Array, "nv"]:
    """Returns the generalized forces `M a + C v + g - Jᵀ f_ext` that produce an acceleration (book eqs. 1.3, 3.4, table 5.1).

    Damping, friction and springs of the joints are not included: see `passive_force`.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      v: Velocity, shape (nv,).
      a: Acceleration, shape (nv,).
      f_ext: External wrenches `[n; f]`, `{body: wrench}` or (nb, 6), in the world's axes about the world's origin.

    Returns:
      The generalized forces, shape (nv,).

    >>> model, q, v = rbd.load("double_pendulum"), jnp.array([0.5, 1.0]), jnp.array([1.0, 2.0])
    >>> print(rbd.inverse_dynamics(model, q, v, a=jnp.array([1.0, 0.0])))
    [16.543 12.168]
    """
    return recursive_newton_euler(Motion(model, q, v), a, f_ext)


@takes(planar=True, q=configuration, v=velocity, f_ext=wrenches)
def bias_force(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], f_ext: ExternalForces = None
) -> Float[Array, "nv"]:
    """Returns the forces that produce no acceleration, `C v + g - Jᵀ f_ext` (book eq. 6.2).

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      v: Velocity, shape (nv,).
      f_ext: External wrenches in the world's axes about the world's origin, as for `inverse_dynamics`.

    >>> model, q, v = rbd.load("double_pendulum"), jnp.array([0.5, 1.0]), jnp.array([1.0, 2.0])
    >>> print(rbd.bias_force(model, q, v))
    [12.46  10.627]
    """
    return recursive_newton_euler(Motion(model, q, v), jnp.zeros_like(v), f_ext)


@takes(planar=True, q=configuration)
def gravity_force(model: Model, q: Float[Array, "nq"]) -> Float[Array, "nv"]:
    """Returns the forces `g` that hold the model at rest against gravity, the gradient of `potential_energy` (eq. 5.12).

    >>> model, q = rbd.load("double_pendulum"), jnp.array([0.5, 1.0])
    >>> print(rbd.gravity_force(model, q))
    [19.192  9.785]
    """
    return weight(Motion(model, q))


@takes(planar=True, q=configuration, a=dof_columns)
def inertia_force(model: Model, q: Float[Array, "nq"], a: Float[Array, "nv *k"]) -> Float[Array, "nv *k"]:
    """Returns `M a`: `inverse_dynamics` without velocity, gravity and external forces (book table 6.1, ID_δ).

    For unit vectors, the results are the columns of M (eq. 6.25). The cost is O(n) for each column of `a`; the matrix M is not
    formed. `solve_mass_matrix` is the inverse.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      a: A vector or matrix, shape (nv,) or (nv, k).

    >>> model, q = rbd.load("double_pendulum"), jnp.array([0.5, 1.0])
    >>> print(rbd.inertia_force(model, q, jnp.array([1.0, 0.0])))
    [4.083 1.541]
    """
    return inertia_product(Motion(model, q), a)


def recursive_newton_euler(
    motion: Motion, a: Float[Array, "nv"], f_ext: ExternalForces = None
) -> Float[Array, "nv"]:
    """Computes `inverse_dynamics` for a model in motion (table 5.1).

    In the common frame, down the tree `v_i = v_λ + S q̇` and `a_i = a_λ + S q̈ + c_J + v × v_J`, then for each body
    `f = I a + v ×* I v - f_ext` (eqs. 1.5, 2.68; in its own frame Sueda eq. 1.21), and up the tree `tau_i = Sᵀ Σ f` over
    the subtree. `newton_euler_along` computes the derivatives with respect to q, v, a and f_ext.
    """
    motion = motion.computed("inertias", "velocities", "velocity_products")
    return _newton_euler(motion, a, f_ext) + motion.model.armature * a


def newton_euler_forces(motion: Motion, a: Float[Array, "nv"], f_ext: ExternalForces) -> Float[Array, "nv"]:
    """Computes `recursive_newton_euler` without the armature, differentiable by JAX through the recursion."""
    inertias, velocities = motion.inertias, motion.velocities
    accelerations = gather(motion.biased_accelerations(a), motion.model.topology.last_column)
    forces = inertias.momentum(accelerations) + cross_force(velocities, inertias.momentum(velocities))
    external = external_forces(motion, f_ext)
    return joint_forces(motion, forces if external is None else forces - external)


_newton_euler = custom_jvp(newton_euler_forces)


def _along(primals, tangents):
    """Computes the derivative with respect to q, v, a and f_ext in closed form; cached quantities of the motion depend on these.

    If parameters of the model change too, the recursion is differentiated instead.
    """
    motion, a, f_ext = primals
    moved, by_a, by_f_ext = tangents
    model = moved.model
    numbers = (model.gravity, model.placements, model.inertias, model.joints)
    moving = moving_arguments(primals, tangents)
    if moving is not None and moves((*numbers, model.mimic_multiplier, model.mimic_offset)):
        function, at, by = moving
        return jax.jvp(lambda *values: newton_euler_forces(*function(*values)), at, by)
    given = (moved.q, moved.v, by_a, by_f_ext)
    changes = [
        instantiated(x, change) if moves(change) else None
        for x, change in zip((motion.q, motion.v, a, f_ext), given)
    ]
    return _newton_euler(*primals), linear(lambda *changes: newton_euler_along(*primals, *changes), *changes)


_newton_euler.defjvp(_along, symbolic_zeros=True)


def weight(motion: Motion) -> Float[Array, "nv"]:
    """Computes `gravity_force` for a model in motion."""
    return joint_forces(motion, motion.inertias.momentum(base_acceleration(motion.model)[None]))


def inertia_product(motion: Motion, a: Float[Array, "nv *k"]) -> Float[Array, "nv *k"]:
    """Computes `inertia_force` for a model in motion."""
    model, common, inertias = motion.model, motion.common, motion.inertias

    def of_column(a):
        accelerations = model.topology.tree.path_sum(common.subspace * to_columns(model, a)[:, None])
        forces = inertias.momentum(gather(accelerations, model.topology.last_column))
        return joint_forces(motion, forces) + model.armature * a

    return of_column(a) if a.ndim == 1 else columnwise(of_column, a)


def joint_forces(motion: Motion, forces: Float[Array, "m d"]) -> Float[Array, "nv"]:
    """Returns `Sᵀ Σ f` per degree of freedom over the bodies that it carries, for forces in the common frame."""
    transmitted = motion.model.topology.tree.subtree_sum(at_last_column(motion.model, forces))
    return from_columns(motion.model, dot(motion.common.subspace, transmitted))
