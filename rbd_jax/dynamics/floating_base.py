"""Mechanisms on a base that nothing holds: a satellite, a jumping robot (book §9.3 to §9.5).

Such a model has a `Free` joint at its root, and every algorithm of this room takes it. Here are those that treat the base apart:
nothing drives it, its acceleration is unknown, and what is given or asked are motions and forces of the joints. The equation of
motion is (9.13), in the axes of the base about its origin,

    [I₀ᶜ  F] [a₀]   [p₀ᶜ]   [0]
    [Fᵀ   H] [q̈ ] + [C  ] = [τ].

I₀ᶜ is the inertia of the whole with its joints locked, and p₀ᶜ what would hold the base still. Without a₀ it is
`Hᶠˡ q̈ + Cᶠˡ = τ` (9.14). The motion subspace of a free joint is the unit matrix, so the first six entries of v and of the
acceleration are the spatial velocity `v₀` and acceleration `a₀` of the base in its own frame. Where tables 9.5 and 9.6 print
`c_J + v_J × v_J`, it is `c_J + v_i × v_J`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import (
    as_array,
    body_name,
    configuration,
    frame_name,
    space_point,
    takes,
    velocity,
    wrenches,
)
from .._core.array import dot, matmul, matvec, transpose, vecmat
from .._core.errors import ModelError
from .._core.positive import solve_positive
from ..joints import Free
from ..model import Model
from ..spatial.inertia import Inertia
from ..spatial.transform import Transform
from .columns import from_columns
from .external import ExternalForces
from .forward import DenseInverse, forward_dynamics
from .inverse import recursive_newton_euler
from .jacobians import body_jacobian
from .kinematics import Frame
from .mass_matrix import composite_inertias, composite_rigid_body
from .motion import Motion


class FloatingBaseForces(eqx.Module):
    """How the base moves, and what moves the joints; it unpacks as `base_acceleration, tau`.

    >>> model = rbd.load("quadruped")
    >>> q, v, at_rest = rbd.neutral(model), jnp.zeros(model.nv), jnp.zeros(model.nv - 6)
    >>> forces = rbd.floating_base_inverse_dynamics(model, q, v, at_rest)
    >>> print(forces.base_acceleration[3:], jnp.abs(forces.tau).max() < 1e-9)  # it falls
    [ 0.    0.   -9.81] True
    """

    base_acceleration: Float[Array, "*batch 6"]
    tau: Float[Array, "*batch joints"]

    def __iter__(self) -> Iterator[Array]:
        return iter((self.base_acceleration, self.tau))


class FloatingBaseAcceleration(eqx.Module):
    """How base and joints accelerate; it unpacks as `base_acceleration, joint_acceleration`.

    >>> model = rbd.load("quadruped")
    >>> q, v, tau = rbd.neutral(model), jnp.zeros(model.nv), jnp.zeros(model.nv - 6)
    >>> print(rbd.floating_base_forward_dynamics(model, q, v, tau).base_acceleration[3:])
    [ 0.    0.   -9.81]
    """

    base_acceleration: Float[Array, "*batch 6"]
    joint_acceleration: Float[Array, "*batch joints"]

    def __iter__(self) -> Iterator[Array]:
        return iter((self.base_acceleration, self.joint_acceleration))


class FloatingBaseEquation(eqx.Module):
    """The coefficients of the equation of motion (9.13), in the axes of the base about its origin.

    - `base_inertia`: I₀ᶜ.
    - `coupling`: F, the force on the base that goes with unit accelerations of the joints.
    - `joint_inertia`: H.
    - `base_bias`, `joint_bias`: p₀ᶜ and C, gravity, velocities and external forces in them.

    >>> model = rbd.load("quadruped")
    >>> equation = rbd.floating_base_equation(model, rbd.neutral(model), jnp.zeros(model.nv))
    >>> print(equation.coupling.shape, equation.reduced_inertia.shape)
    (6, 12) (12, 12)
    """

    base_inertia: Float[Array, "6 6"]
    coupling: Float[Array, "6 joints"]
    joint_inertia: Float[Array, "joints joints"]
    base_bias: Float[Array, "6"]
    joint_bias: Float[Array, "joints"]

    @property
    def reduced_inertia(self) -> Float[Array, "joints joints"]:
        """`Hᶠˡ = H - Fᵀ (I₀ᶜ)⁻¹ F` (9.15): dense, whatever the branches."""
        reduced = self.joint_inertia + matmul(transpose(self.coupling), self.base_response)
        return 0.5 * (reduced + transpose(reduced))

    @property
    def reduced_bias(self) -> Float[Array, "joints"]:
        """`Cᶠˡ = C - Fᵀ (I₀ᶜ)⁻¹ p₀ᶜ` (9.16)."""
        return self.joint_bias + vecmat(self.base_bias, self.base_response)

    @property
    def base_response(self) -> Float[Array, "6 joints"]:
        """`-(I₀ᶜ)⁻¹ F`: how the base gives way when the joints move, without changing the momentum of the whole."""
        return -DenseInverse.of(self.base_inertia)(self.coupling)

    def solve(self, tau: Float[Array, "joints"]) -> FloatingBaseAcceleration:
        """The accelerations under joint forces: `q̈` of (9.14), and then `a₀` of the first row of (9.13)."""
        joints = DenseInverse.of(self.reduced_inertia)(tau - self.reduced_bias)
        base = -DenseInverse.of(self.base_inertia)(self.base_bias + matvec(self.coupling, joints))
        return FloatingBaseAcceleration(base, joints)


def joint_vector(function: str, model: Model, name: str, value) -> Array:
    """A vector over the degrees of freedom of the joints, those of the free base left out: (nv - 6,)."""
    _check_floating(function, model)
    joints = model.nv - 6
    array = as_array(function, name, value, f"an array of length nv - 6 = {joints}")
    if array.shape == (joints,):
        return array
    hint = "; leave out those of the base, the first six" if array.shape == (model.nv,) else ""
    raise ValueError(
        f"{function}: {name} has shape {array.shape}, but model {model.name!r} has {joints} degrees of freedom besides those "
        f"of its base{hint}"
    )


@takes(q=configuration, v=velocity, joint_acceleration=joint_vector, f_ext=wrenches)
def floating_base_inverse_dynamics(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    joint_acceleration: Float[Array, "joints"],
    f_ext: ExternalForces = None,
) -> FloatingBaseForces:
    """The acceleration of the base and the joint forces, when the joints accelerate as given and nothing drives the base.

    `a₀ = -(I₀ᶜ)⁻¹ p₀ᶜ` and `τ = Sᵀ (Iᶜ a₀ + pᶜ)`, pᶜ as if the base did not accelerate (book table 9.6, eqs. 9.24, 9.25). O(n).

    **Arguments**

    - `v`: of all degrees of freedom, those of the base first.
    - `joint_acceleration`: of the joints alone.
    - `f_ext`: wrenches `[n; f]` on bodies, in the world's axes about the world's origin, as for `inverse_dynamics`.

    The base acceleration is a spatial one in its own frame, as in `forward_dynamics`.

    >>> model = rbd.load("quadruped")
    >>> q, v = rbd.neutral(model), jnp.zeros(model.nv)
    >>> base, tau = rbd.floating_base_inverse_dynamics(model, q, v, jnp.zeros(model.nv - 6))
    >>> print(base, bool(abs(tau).max() < 1e-5))  # it falls, and no joint has to hold anything
    [ 0.    0.    0.    0.    0.   -9.81]  True
    """
    _check_floating("floating_base_inverse_dynamics", model)
    motion = Motion(model, q, v).computed("velocities", "velocity_products")
    still = jnp.concatenate([jnp.zeros(6, joint_acceleration.dtype), joint_acceleration])
    bias = recursive_newton_euler(motion, still, f_ext)
    composite = composite_inertias(motion)
    base = -solve_positive(_base_inertia(motion, composite), bias[:6])
    # In the common frame: the world's axes about the origin of the base.
    turn = motion.common.placements.rotation[0]
    carried = jnp.concatenate([matvec(turn, base[:3]), matvec(turn, base[3:])])
    felt = from_columns(model, dot(composite.momentum(motion.common.subspace), carried[None]))
    return FloatingBaseForces(base, (bias + felt)[6:])


@takes(q=configuration, v=velocity, tau=joint_vector, f_ext=wrenches)
def floating_base_forward_dynamics(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    tau: Float[Array, "joints"],
    f_ext: ExternalForces = None,
) -> FloatingBaseAcceleration:
    """The acceleration of base and joints under joint forces (book table 9.4). O(n).

    All bodies of a mechanism that nothing holds fall alike. So its motion is found without gravity, and the acceleration of free
    fall added to that of the base at the end: how the joints accelerate does not depend on gravity, not even in rounding.

    **Arguments**: as for `floating_base_inverse_dynamics`, which undoes it, with the forces `tau` of the joints alone.

    >>> model = rbd.load("quadruped")
    >>> q, v, tau = rbd.neutral(model), jnp.zeros(model.nv), jnp.ones(model.nv - 6)
    >>> base, joints = rbd.floating_base_forward_dynamics(model, q, v, tau)
    >>> again = rbd.floating_base_inverse_dynamics(model, q, v, joints)
    >>> print(again.tau[:3])
    [1. 1. 1.]
    """
    _check_floating("floating_base_forward_dynamics", model)
    turn = Motion(model, q).common.placements.rotation[0]
    fall = jnp.concatenate([jnp.zeros(3, q.dtype), vecmat(model.gravity, turn).astype(q.dtype)])
    # Armature along the base is no mass that would fall.
    forces = jnp.concatenate([-model.armature[:6] * fall, tau])
    weightless = replace(model, gravity=jnp.zeros_like(model.gravity))
    acceleration = forward_dynamics(weightless, q, v, forces, f_ext)
    return FloatingBaseAcceleration(acceleration[:6] + fall, acceleration[6:])


@takes(q=configuration, v=velocity, f_ext=wrenches)
def floating_base_equation(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], f_ext: ExternalForces = None
) -> FloatingBaseEquation:
    """The equation of motion by its coefficients: I₀ᶜ, F, H, p₀ᶜ and C (book table 9.5, eq. 9.13).

    From it the equation of the joints alone, with `reduced_inertia` and `reduced_bias` (9.14), and its solution.

    >>> model = rbd.load("quadruped")
    >>> equation = rbd.floating_base_equation(model, rbd.neutral(model), jnp.zeros(model.nv))
    >>> print(jnp.diagonal(equation.base_inertia)[3:])  # its mass
    [14.04 14.04 14.04]
    """
    _check_floating("floating_base_equation", model)
    motion = Motion(model, q, v)
    inertia = composite_rigid_body(motion)
    bias = recursive_newton_euler(motion, jnp.zeros_like(v), f_ext)
    return FloatingBaseEquation(inertia[:6, :6], inertia[:6, 6:], inertia[6:, 6:], bias[:6], bias[6:])


@takes(q=configuration)
def floating_base_mass_matrix(model: Model, q: Float[Array, "nq"]) -> Float[Array, "joints joints"]:
    """`Hᶠˡ = H - Fᵀ (I₀ᶜ)⁻¹ F`: the inertia that the joints feel when the base gives way (book eq. 9.15).

    `½ q̇ᵀ Hᶠˡ q̇` is the kinetic energy where the momentum is zero, and the least there is at these joint velocities.

    >>> model = rbd.load("quadruped")
    >>> H = rbd.floating_base_mass_matrix(model, rbd.neutral(model))
    >>> H.shape == (model.nv - 6, model.nv - 6)
    True
    """
    _check_floating("floating_base_mass_matrix", model)
    M = composite_rigid_body(Motion(model, q))
    still = jnp.zeros(model.nv, M.dtype)
    return FloatingBaseEquation(M[:6, :6], M[:6, 6:], M[6:, 6:], still[:6], still[6:]).reduced_inertia


@takes(q=configuration, body=body_name, point=space_point, frame=frame_name)
def floating_base_jacobian(
    model: Model,
    q: Float[Array, "nq"],
    body: str | int,
    point: Float[Array, "3"] | None = None,
    frame: Frame = "world",
) -> Float[Array, "6 joints"]:
    """`Jᶠˡ = J - (I₀ᶜ)⁻¹ F`: how a body moves with the joints when the base gives way (book ex. 9.4).

    `Jᶠˡ q̇` is its velocity where the momentum of the whole is zero, `Jᶠˡ δq̇` what an impulse within the mechanism does to it,
    and `Jᶠˡ q̈` the part of its acceleration that depends on that of the joints. For the base itself it is `-(I₀ᶜ)⁻¹ F`.

    **Arguments**: as for `jacobian`.

    >>> model = rbd.load("quadruped")
    >>> J = rbd.floating_base_jacobian(model, rbd.neutral(model), 0, frame="body")
    >>> v = jnp.concatenate([J, jnp.eye(model.nv - 6)]) @ jnp.ones(model.nv - 6)  # of the base, and of the joints
    >>> bool(abs(rbd.momentum(model, rbd.neutral(model), v)).max() < 1e-5)
    True
    """
    _check_floating("floating_base_jacobian", model)
    motion = Motion(model, q)
    J, M = body_jacobian(motion, body, point, frame), composite_rigid_body(motion)
    return J[:, 6:] - matmul(J[:, :6], DenseInverse.of(M[:6, :6])(M[:6, 6:]))


def _base_inertia(motion: Motion, composite: Inertia) -> Float[Array, "6 6"]:
    """I₀ᶜ in the axes of the base about its origin, with what armature there is along it."""
    model, turn = motion.model, motion.common.placements.rotation[0]
    whole = composite[int(model.topology.last_column[0])]
    own = whole.placed(Transform(transpose(turn), jnp.zeros(3, turn.dtype)))
    return own.matrix + jnp.where(np.eye(6, dtype=bool), model.armature[:6], 0)


def _check_floating(function: str, model: Model) -> None:
    """Refuse a model that is not one tree on a free joint."""
    topology = model.topology
    roots = [
        topology.moving_bodies[i] for i in np.flatnonzero(np.asarray(topology.moving_tree.parents, int) < 0)
    ]
    if len(roots) == 1 and isinstance(model.joints[topology.kind_of[roots[0]][0]], Free):
        return
    if len(roots) == 1:
        kind = type(model.joint(int(roots[0]))).__name__
        found = f"its root {model.body_names[roots[0]]!r} is on a {kind}"
    else:
        found = f"it has {len(roots)} trees that move"
    raise ModelError(
        f"{function}: model {model.name!r} is not one mechanism on a Free joint: {found}. hybrid_dynamics takes every model, "
        "and load_urdf(..., floating_base=True) frees a robot"
    )
