"""Products with the Jacobians of all bodies in O(n), and solves with the inertia formed by them (Sueda §2.10, §2.13).

`J` stacks the Jacobians of the bodies (eqs. 2.14 and 2.16). It maps generalized to maximal coordinates, and the equation of
motion is (2.18). J is never formed.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import (
    configuration,
    dof_columns,
    frame_name,
    matrix_of_each_body,
    takes,
    velocity,
    wrench_on_each_body,
)
from .._core.array import cross, gather, gather_or_zero, matmul, matvec, transpose
from ..model import Model
from ..model.lumping import sum_by_moving_body
from ..optimize.implicit import implicit
from ..spatial import cross_motion, moment_shift
from ..spatial.transform import Transform
from .columns import to_columns
from .forward import BodyFrames, DenseInverse, TreeInverse, articulated_factors
from .inverse import inertia_product, joint_forces
from .kinematics import Frame, express_by_body
from .mass_matrix import composite_rigid_body
from .motion import Motion


@takes(q=configuration, dv=velocity, frame=frame_name)
def jacobian_product(
    model: Model, q: Float[Array, "nq"], dv: Float[Array, "nv"], frame: Frame = "world"
) -> Float[Array, "nb 6"]:
    """Returns `J dv` of every body (algorithm 5), which is its velocity if no joint is rheonomic.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      dv: Velocity, shape (nv,).
      frame: As for `body_velocities`; by default the world's axes about the world's origin.

    >>> model, q, dv = rbd.load("double_pendulum"), jnp.array([0.5, 1.0]), jnp.array([1.0, 2.0])
    >>> print(rbd.jacobian_product(model, q, dv, "body"))
    [[ 0.     1.     0.     0.     0.     0.   ]
     [ 0.     3.     0.    -0.54   0.    -0.841]]
    """
    return bodies_moved(Motion(model, q), dv, frame)


@takes(q=configuration, v=velocity, dv=velocity, frame=frame_name)
def jacobian_derivative_product(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    dv: Float[Array, "nv"],
    frame: Frame = "world",
) -> Float[Array, "nb 6"]:
    """Returns `J̇ dv` of every body while the model moves at `v` (algorithm 5).

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      v: Velocity, shape (nv,).
      dv: The vector multiplied by J̇, shape (nv,).
      frame: As for `body_velocities`; by default the world's axes about the world's origin.

    >>> model, q, v = rbd.load("double_pendulum"), jnp.array([0.5, 1.0]), jnp.array([1.0, 2.0])
    >>> print(rbd.jacobian_derivative_product(model, q, v, v))
    [[ 0.     0.     0.     0.     0.     0.   ]
     [ 0.     0.     0.    -0.959  0.    -1.755]]
    """
    motion, topology = Motion(model, q, v), model.topology
    along, last = to_columns(model, dv)[:, None], topology.last_column
    rates = gather(topology.tree.path_sum(motion.subspace_rates * along), last)
    moved = gather(topology.tree.path_sum(motion.common.subspace * along), last)
    if frame == "body":  # the axes move too
        rates = rates - cross_motion(motion.velocities, moved)
    seen = express_by_body(motion, rates, frame)
    if frame != "world_aligned":
        return seen
    origins, turned = (express_by_body(motion, x, frame) for x in (motion.velocities, moved))
    moving = cross(origins[:, 3:], turned[:, :3])  # the reference point moves, the axes are constant
    return seen - jnp.concatenate([jnp.zeros_like(moving), moving], axis=1)


@takes(q=configuration, wrenches=wrench_on_each_body, frame=frame_name)
def jacobian_transposed_product(
    model: Model, q: Float[Array, "nq"], wrenches: Float[Array, "nb 6"], frame: Frame = "world"
) -> Float[Array, "nv"]:
    """Returns `Jᵀ f`: the generalized force of a wrench `[n; f]` on every body (algorithm 6).

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      wrenches: One wrench per body, shape (nb, 6).
      frame: The frame of the wrenches. `"world"`: world's axes about the world's origin; `"world_aligned"`: world's axes
        about the body's origin; `"body"`: body's axes about the body's origin.

    >>> model, q = rbd.load("double_pendulum"), jnp.array([0.5, 1.0])
    >>> wrenches = jnp.zeros((model.nb, 6)).at[model.body_index("lower"), 3].set(1.0)  # along the body's x, at its origin
    >>> print(rbd.jacobian_transposed_product(model, q, wrenches, "body"))
    [-0.54  0.  ]
    """
    return bodies_pushed(Motion(model, q), wrenches, frame)


def bodies_moved(motion: Motion, dv: Float[Array, "nv"], frame: Frame) -> Float[Array, "nb 6"]:
    """Computes `jacobian_product` for a model in motion."""
    model = motion.model
    moved = model.topology.tree.path_sum(motion.common.subspace * to_columns(model, dv)[:, None])
    return express_by_body(motion, gather(moved, model.topology.last_column), frame)


def bodies_pushed(motion: Motion, wrenches: Float[Array, "nb 6"], frame: Frame) -> Float[Array, "nv"]:
    """Computes `jacobian_transposed_product` for a model in motion."""
    if frame == "body":
        wrenches = motion.frames.force(wrenches)
    elif frame == "world_aligned":
        wrenches = moment_shift(wrenches, -motion.frames.position)
    acting = sum_by_moving_body(motion.model, wrenches)
    if frame == "world":
        acting = moment_shift(acting, motion.common.origins)
    return joint_forces(motion, acting)


@takes(q=configuration, rhs=dof_columns, joint_terms=velocity, body_terms=matrix_of_each_body)
def solve_augmented_mass_matrix(
    model: Model,
    q: Float[Array, "nq"],
    rhs: Float[Array, "nv *k"],
    joint_terms: Float[Array, "nv"],
    body_terms: Float[Array, "nb 6 6"],
) -> Float[Array, "nv *k"]:
    """Returns `(M + diag(joint_terms) + Jᵀ blkdiag(body_terms) J)⁻¹ rhs`, O(n) for each column (algorithm 10).

    With `h D - h² K` of joints and bodies as terms, it is the matrix of the linearly implicit Euler scheme. If forces couple
    joints or bodies outside of these blocks, it is a preconditioner for that matrix.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      rhs: A vector or matrix, shape (nv,) or (nv, k).
      joint_terms: One term per degree of freedom, shape (nv,).
      body_terms: Symmetric, for each body in its own frame, shape (nb, 6, 6); terms of bodies
        welded to the world have no effect.

    >>> model, q = rbd.load("double_pendulum"), jnp.array([0.5, 1.0])
    >>> stiffer = jnp.array([10.0, 10.0]), jnp.zeros((model.nb, 6, 6))
    >>> print(rbd.solve_augmented_mass_matrix(model, q, jnp.array([1.0, 0.0]), *stiffer))
    [ 0.072 -0.01 ]
    """
    return _solve(rhs, Motion(model, q).computed("common"), joint_terms, body_terms)


def _run(rhs, motion: Motion, joint_terms, body_terms):
    """Returns the solution, and a callable that solves again."""
    model, stiffer = motion.model, motion.model.armature + joint_terms
    if len(model.topology.mimic_joints):
        motion = motion.computed("common", "frames")
        units = jnp.eye(model.nv, dtype=motion.q.dtype)
        columns = jnp.swapaxes(jax.vmap(lambda dv: bodies_moved(motion, dv, "body"))(units), 0, 1)
        added = jnp.sum(matmul(columns, matmul(body_terms, transpose(columns))), axis=0)
        solve = DenseInverse.of(composite_rigid_body(motion, stiffer) + added)
    else:
        frames = BodyFrames.of(model, motion.common)
        inertias = frames.inertias(model).matrix + _about_moving_bodies(motion, body_terms)
        solve = TreeInverse(articulated_factors(model, frames, inertias, stiffer), model)
    return solve(rhs), solve


def _about_moving_bodies(motion: Motion, body_terms):
    """Sums matrices of the bodies over the moving bodies, about the moving bodies' origins and in the world's axes."""
    carriers = motion.model.topology.carriers
    arms = motion.frames.position - gather_or_zero(motion.common.placements.position, carriers)
    seen = Transform(motion.frames.rotation, arms).inverse().motion_matrix
    terms = matmul(transpose(seen), matmul(body_terms, seen))
    return sum_by_moving_body(motion.model, terms.reshape(-1, 36)).reshape(-1, 6, 6)


def _augmented_force(x, motion: Motion, joint_terms, body_terms):
    """Returns the augmented matrix times x, by its definition."""
    motion = motion.computed("common", "frames", "inertias")
    if x.ndim == 2:
        one = lambda column: _augmented_force(column, motion, joint_terms, body_terms)
        return jax.vmap(one, in_axes=1, out_axes=1)(x)
    own = bodies_pushed(motion, matvec(body_terms, bodies_moved(motion, x, "body")), "body")
    return inertia_product(motion, x) + joint_terms * x + own


_solve = implicit(_run, _augmented_force)
