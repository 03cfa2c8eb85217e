"""Forward dynamics: the articulated-body algorithm (book ch. 7)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._array import dot, matvec, outer
from ..model import Model
from ..model._arguments import check_matrix, takes_sample
from ..model.topology import gather
from ..spatial import cross_force
from ._external import ExternalForces, external_forces
from ._frame import CommonFrame, at_last_column, base_acceleration, column_armature, from_columns, to_columns
from .inverse import bias_force
from .mass_matrix import mass_matrix


@takes_sample
def forward_dynamics(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    tau: Float[Array, "nv"],
    f_ext: ExternalForces = None,
) -> Float[Array, "nv"]:
    """The acceleration that the generalized forces `tau` produce: `M⁻¹ (tau - C v - g + Jᵀ f_ext)` (book table 7.1).

    Damping, friction and springs of the joints are not part of it: add `passive_force` to `tau`, as `rollout` does.
    A freedom that moves no inertia (a massless end of a chain, without armature) has no acceleration: the result
    is not finite.
    """
    if len(model.topology.followers):
        return _solve_dense(model, q, tau - bias_force(model, q, v, f_ext))
    common = CommonFrame.at(model, q)
    velocities = common.column_velocities(model, to_columns(model, v))
    products = common.velocity_products(model, q, v, velocities)
    inertias = common.inertias(model)
    mover = gather(velocities, model.topology.last_column)
    bias = cross_force(mover, inertias.momentum(mover))
    external = external_forces(model, common, f_ext)
    bias = bias if external is None else bias - external
    acceleration = articulated_body(
        model,
        common.subspace,
        at_last_column(model, inertias.matrix),
        at_last_column(model, bias),
        products,
        to_columns(model, tau),
        base_acceleration(model),
    )
    return from_columns(model, acceleration)


def articulated_body(model: Model, subspace, inertia, bias, products, tau, base) -> Float[Array, "n"]:
    """The two recursions of the articulated-body algorithm, one column at a time (eqs. 7.43 to 7.50).

    Up the tree, with `U = I^A S`, `D = Sᵀ U` and `u = τ - Sᵀ p^A`, each column hands on the inertia `I^A - U D⁻¹ Uᵀ` and the
    bias force `p^A + I^a c + U D⁻¹ u`; down the tree `q̈ = D⁻¹ (u - Uᵀ (a_λ + c))`.

    **Arguments**, each with a leading axis of columns: `subspace` S, `inertia` (n, 6, 6), `bias` p, `products` c, `tau`; and
    `base`, the acceleration of the world.
    """

    def assemble(children, own):
        inertia, bias = children
        subspace, own_inertia, own_bias, product, tau, armature = own
        inertia, bias = inertia + own_inertia, bias + own_bias
        force = matvec(inertia, subspace)
        gain = force / (dot(subspace, force) + armature)
        effort = tau - dot(subspace, bias)
        apparent = inertia - outer(gain, force)
        drive = effort / (dot(subspace, force) + armature)
        return (apparent, bias + matvec(apparent, product) + force * drive), (gain, drive)

    def accelerate(above, own):
        subspace, product, gain, drive = own
        free = above + product
        acceleration = drive - dot(gain, free)
        return free + subspace * acceleration, acceleration

    tree = model.topology.tree
    nothing = (jnp.zeros((6, 6), inertia.dtype), jnp.zeros(6, bias.dtype))
    columns = (subspace, inertia, bias, products, tau, column_armature(model))
    _, (gain, drive) = tree.up(assemble, nothing, columns)
    _, accelerations = tree.down(accelerate, base, (subspace, products, gain, drive))
    return accelerations


def solve_mass_matrix(
    model: Model, q: Float[Array, "nq"], rhs: Float[Array, "nv *k"]
) -> Float[Array, "nv *k"]:
    """`M⁻¹ rhs` without the matrix M: the articulated-body algorithm at rest, O(n) for each column of `rhs`."""
    return _solve(model, q, check_matrix("solve_mass_matrix", model, "rhs", rhs))


@takes_sample
def _solve(model: Model, q, rhs):
    if len(model.topology.followers):
        return _solve_dense(model, q, rhs)
    common = CommonFrame.at(model, q)
    inertia = at_last_column(model, common.inertias(model).matrix)
    nothing = jnp.zeros_like(common.subspace)

    def solve(column):
        tau = to_columns(model, column)
        base = jnp.zeros(6, rhs.dtype)
        return from_columns(model, articulated_body(model, common.subspace, inertia, nothing, nothing, tau, base))

    return solve(rhs) if rhs.ndim == 1 else jax.vmap(solve, in_axes=1, out_axes=1)(rhs)


def _solve_dense(model: Model, q, rhs):
    """`M⁻¹ rhs` by a dense factorization: joints that mimic others tie branches together, and M is no tree's."""
    return jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(mass_matrix(model, q)), rhs)
