"""Products with the Jacobians of all bodies at once, O(n), and a solve with the inertia that they make (Sueda §2.10, §2.13).

`J` stacks the Jacobians of the bodies: it leads from generalized to maximal coordinates. Nowhere is it formed.
"""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._array import cross, dot, gather, matmul, matvec, transpose
from ..model import Model
from ..model._arguments import as_array, takes_sample
from ..model.lumping import sum_by_mover
from ..spatial import Transform, cross_motion
from ._frame import (
    CommonFrame,
    at_last_column,
    body_frames,
    from_columns,
    moment_shift,
    to_columns,
)
from ._implicit import implicit
from .forward import BodyFrames, inverse_of_articulated, inverse_of_dense
from .inverse import inertia_force
from .kinematics import Frame, express_by_body
from .mass_matrix import mass_matrix


@takes_sample
def jacobian_product(
    model: Model, q: Float[Array, "nq"], dv: Float[Array, "nv"], frame: Frame = "world"
) -> Float[Array, "nb 6"]:
    """`J dv` of every body (algorithm 5): its velocity, where no joint moves by itself."""
    common = CommonFrame.at(model, q)
    moved = model.topology.tree.path_sum(common.subspace * to_columns(model, dv)[:, None])
    return express_by_body(model, common, gather(moved, model.topology.last_column), frame)


@takes_sample
def jacobian_derivative_product(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    dv: Float[Array, "nv"],
    frame: Frame = "world",
) -> Float[Array, "nb 6"]:
    """`J̇ dv` of every body while the model moves at `v` (algorithm 5)."""
    topology, common = model.topology, CommonFrame.at(model, q)
    tree, along = topology.tree, to_columns(model, dv)[:, None]
    velocities = common.column_velocities(model, to_columns(model, v))
    rates = tree.path_sum(common.subspace_rates(model, q, v, velocities) * along)
    velocities, rates, moved = (
        gather(rows, topology.last_column)
        for rows in (velocities, rates, tree.path_sum(common.subspace * along))
    )
    if frame == "body":  # the axes move too
        rates = rates - cross_motion(velocities, moved)
    seen = express_by_body(model, common, rates, frame)
    if frame != "world_aligned":
        return seen
    origins, turned = (express_by_body(model, common, x, frame) for x in (velocities, moved))
    moving = cross(origins[:, 3:], turned[:, :3])  # the reference point moves while the axes stay
    return seen - jnp.concatenate([jnp.zeros_like(moving), moving], axis=1)


@takes_sample
def jacobian_transposed_product(
    model: Model, q: Float[Array, "nq"], wrenches: Float[Array, "nb 6"], frame: Frame = "world"
) -> Float[Array, "nv"]:
    """`Jᵀ f`: the generalized force of a wrench `[n; f]` on every body (algorithm 6), expressed as `frame` says."""
    wrenches = as_array("jacobian_transposed_product", "wrenches", wrenches, "an array (nb, 6)")
    if wrenches.shape != (model.nb, 6):
        raise ValueError(
            f"jacobian_transposed_product: wrenches has shape {wrenches.shape}; "
            f"for model {model.name!r} it must be (nb, 6) = ({model.nb}, 6)"
        )
    common = CommonFrame.at(model, q)
    bodies = body_frames(model, common.placements, Transform.identity(q.dtype))
    if frame == "body":
        wrenches = bodies.force(wrenches)
    elif frame == "world_aligned":
        wrenches = moment_shift(wrenches, -bodies.position)
    acting = sum_by_mover(model, wrenches)
    if frame == "world":
        acting = moment_shift(acting, common.origins)
    transmitted = model.topology.tree.subtree_sum(at_last_column(model, acting))
    return from_columns(model, dot(common.subspace, transmitted))


@takes_sample
def solve_augmented_mass_matrix(
    model: Model,
    q: Float[Array, "nq"],
    rhs: Float[Array, "nv *k"],
    joint_terms: Float[Array, "nv"],
    body_terms: Float[Array, "nb 6 6"],
) -> Float[Array, "nv *k"]:
    """`(M + diag(joint_terms) + Jᵀ blkdiag(body_terms) J)⁻¹ rhs`, O(n) for each column (algorithm 10).

    With `h D - h² K` of joints and bodies it is the matrix of the linearly implicit Euler scheme, or a preconditioner for
    it where forces couple joints or bodies that the blocks leave out.

    **Arguments**

    - `joint_terms`: for each freedom.
    - `body_terms`: symmetric, for each body in its own frame; those of bodies welded to the world do nothing.
    """
    return _solve(rhs, model, q, joint_terms, body_terms)


def _run(rhs, model: Model, q, joint_terms, body_terms):
    """The solution, and how to solve again."""
    stiffer = replace(model, armature=model.armature + joint_terms)
    if len(model.topology.followers):
        columns = jax.vmap(lambda dv: jacobian_product(model, q, dv, "body"))(
            jnp.eye(model.nv, dtype=q.dtype)
        )
        columns = jnp.swapaxes(columns, 0, 1)
        added = jnp.sum(matmul(columns, matmul(body_terms, transpose(columns))), axis=0)
        solve = inverse_of_dense(mass_matrix(stiffer, q) + added)
    else:
        common = CommonFrame.at(model, q)
        frames = BodyFrames.of(model, common)
        inertias = frames.inertias(model).matrix + _about_movers(model, common, body_terms)
        solve = inverse_of_articulated(stiffer, frames, inertias)
    return solve(rhs), solve


def _about_movers(model: Model, common: CommonFrame, body_terms):
    """Matrices of the bodies as those of the movers, about the movers' origins and in the world's axes."""
    bodies = body_frames(model, common.placements, Transform.identity(common.subspace.dtype))
    origins = jnp.concatenate([common.placements.position, jnp.zeros((1, 3), common.subspace.dtype)])
    arms = bodies.position - gather(origins, model.topology.carriers)
    seen = Transform(bodies.rotation, arms).inverse().motion_matrix
    terms = matmul(transpose(seen), matmul(body_terms, seen))
    return sum_by_mover(model, terms.reshape(-1, 36)).reshape(-1, 6, 6)


def _augmented_force(x, model: Model, q, joint_terms, body_terms):
    """The augmented matrix times x, by its definition."""
    if x.ndim == 2:
        one = lambda column: _augmented_force(column, model, q, joint_terms, body_terms)
        return jax.vmap(one, in_axes=1, out_axes=1)(x)
    wrenches = matvec(body_terms, jacobian_product(model, q, x, "body"))
    own = jacobian_transposed_product(model, q, wrenches, "body")
    return inertia_force(model, q, x) + joint_terms * x + own


_solve = implicit(_run, _augmented_force)
