"""Forward dynamics: the articulated-body algorithm (book ch. 7)."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._array import dot, gather, matvec, outer
from ..model import Model
from ..model._arguments import takes_sample
from ..model.lumping import mover_inertias
from ..spatial import Inertia, Transform, cross_force
from ._external import ExternalForces, external_forces
from ._frame import (
    CommonFrame,
    at_last_column,
    base_acceleration,
    column_armature,
    from_columns,
    inertia_shift,
    moment_shift,
    motion_shift,
    to_columns,
)
from ._implicit import implicit
from .inverse import bias_force, inertia_force, inverse_dynamics
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

    Derivatives are `M⁻¹ (d tau - d inverse_dynamics)` with the factors of M that the algorithm has made.
    """
    return _forward_dynamics(tau, model, q, v, f_ext)


@takes_sample
def solve_mass_matrix(
    model: Model, q: Float[Array, "nq"], rhs: Float[Array, "nv *k"]
) -> Float[Array, "nv *k"]:
    """`M⁻¹ rhs` without the matrix M: the articulated-body algorithm at rest, O(n) for each column of `rhs`."""
    return _solve(rhs, model, q)


class BodyFrames(eqx.Module):
    """A model in a configuration with every body seen about its own origin, in the world's axes.

    The inertia of a finger about the foot of the robot is mostly that of its distance, and single precision would keep little
    of its own. So the articulated-body algorithm, which takes inertias apart, does not use one common origin; handing
    something on to the parent means moving it by `reach`.

    - `rotations`, `origins`: of the movers, in the common frame.
    - `reach`: from the origin of the parent of each column to its own; zero within a joint.
    - `subspace`: the motion of each column.
    """

    rotations: Float[Array, "m 3 3"]
    origins: Float[Array, "m 3"]
    reach: Float[Array, "n 3"]
    subspace: Float[Array, "n 6"]

    @staticmethod
    def of(model: Model, common: CommonFrame) -> BodyFrames:
        topology, origins = model.topology, common.placements.position
        roots = jnp.zeros((1, 3), origins.dtype)
        columns = jnp.concatenate([gather(origins, topology.column_mover), roots])
        reach = columns[:-1] - gather(columns, topology.tree.parents)
        return BodyFrames(common.placements.rotation, origins, reach, common.directions)

    def inertias(self, model: Model) -> Inertia:
        return mover_inertias(model).placed(Transform(self.rotations, jnp.zeros_like(self.origins)))


class Factors(eqx.Module):
    """M factored along the tree: what the articulated-body algorithm knows of each column once it has been up the tree.

    `gain` `I^A S / D` and `pivot` `D = Sᵀ I^A S`, armature included. `M = L D Lᵀ` in the book's terms (§6.5).
    """

    frames: BodyFrames
    gain: Float[Array, "n 6"]
    pivot: Float[Array, "n"]

    def solve(self, model: Model, rhs: Float[Array, "nv *k"]) -> Float[Array, "nv *k"]:
        """`M⁻¹ rhs`: the articulated-body algorithm with its inertias known, at rest and without gravity."""
        if rhs.ndim == 2:
            return jax.vmap(lambda column: self.solve(model, column), in_axes=1, out_axes=1)(rhs)
        tree, nothing = model.topology.tree, jnp.zeros(6, rhs.dtype)
        subspace, reach = self.frames.subspace, self.frames.reach

        def assemble(bias, own):
            subspace, reach, gain, tau = own
            effort = tau - dot(subspace, bias)
            return moment_shift(bias + gain * effort, -reach), effort

        columns = (subspace, reach, self.gain, to_columns(model, rhs))
        _, effort = tree.up(assemble, nothing, columns)
        _, x = tree.down(_accelerate, nothing, (subspace, reach, self.gain, effort / self.pivot, None))
        return from_columns(model, x)


def articulated_body(
    model: Model, frames: BodyFrames, inertia, bias, products, tau, base
) -> tuple[Float[Array, "n"], Factors]:
    """The two recursions of the articulated-body algorithm, one column at a time (eqs. 7.43 to 7.50).

    Up the tree, with `U = I^A S`, `D = Sᵀ U` and `u = τ - Sᵀ p^A`, each column hands on the inertia
    `I^a = I^A - U D⁻¹ Uᵀ` and the bias force `p^A + I^a c + U D⁻¹ u`; down the tree `q̈ = D⁻¹ (u - Uᵀ (a_λ + c))`.

    **Arguments**, each with a leading axis of columns: `inertia` (n, 6, 6), `bias` p, `products` c, `tau`; and
    `base`, the acceleration of the world. **Returns** `q̈` and the factors of M.
    """

    def assemble(children, own):
        subspace, reach, own_inertia, own_bias, product, tau, armature = own
        inertia, bias = children[0] + own_inertia, children[1] + own_bias
        force = matvec(inertia, subspace)
        pivot = dot(subspace, force) + armature
        gain, effort = force / pivot, tau - dot(subspace, bias)
        apparent = inertia - outer(gain, force)
        bias = bias + matvec(apparent, product) + gain * effort
        return (inertia_shift(apparent, reach), moment_shift(bias, -reach)), (gain, pivot, effort)

    tree = model.topology.tree
    nothing = (jnp.zeros((6, 6), inertia.dtype), jnp.zeros(6, bias.dtype))
    columns = (frames.subspace, frames.reach, inertia, bias, products, tau, column_armature(model))
    _, (gain, pivot, effort) = tree.up(assemble, nothing, columns)
    columns = (frames.subspace, frames.reach, gain, effort / pivot, products)
    _, accelerations = tree.down(_accelerate, base, columns)
    return accelerations, Factors(frames, gain, pivot)


def _accelerate(above, own):
    """`q̈ = D⁻¹ u - (U D⁻¹)ᵀ (a_λ + c)` and `a = a_λ + c + S q̈` (eqs. 7.48 to 7.50)."""
    subspace, reach, gain, drive, product = own
    free = motion_shift(above, reach)
    free = free if product is None else free + product
    acceleration = drive - dot(gain, free)
    return free + subspace * acceleration, acceleration


def forward_with_inverse(tau, model: Model, q, v, f_ext: ExternalForces, driven=None):
    """Forward dynamics, and how to apply `M⁻¹` afterwards.

    `driven` are accelerations that freedoms of infinite armature have in any case; the result does not contain them.
    """
    if len(model.topology.followers):
        solve = _dense_inverse(model, q)
        return solve(tau - bias_force(model, q, v, f_ext)), solve
    common = CommonFrame.at(model, q)
    frames = BodyFrames.of(model, common)
    velocities = common.column_velocities(model, to_columns(model, v))
    products = common.velocity_products(model, q, v, velocities)
    products = motion_shift(products, gather(frames.origins, model.topology.column_mover))
    if driven is not None:
        products = products + frames.subspace * to_columns(model, driven)[:, None]
    inertias = frames.inertias(model)
    mover = motion_shift(gather(velocities, model.topology.last_column), frames.origins)
    bias = cross_force(mover, inertias.momentum(mover))
    external = external_forces(model, common, f_ext)
    bias = bias if external is None else bias - moment_shift(external, frames.origins)
    acceleration, factors = articulated_body(
        model,
        frames,
        at_last_column(model, inertias.matrix),
        at_last_column(model, bias),
        products,
        to_columns(model, tau),
        base_acceleration(model),
    )
    return from_columns(model, acceleration), lambda rhs: factors.solve(model, rhs)


def _run_solve(rhs, model: Model, q):
    """`M⁻¹ rhs`, and how to apply `M⁻¹` again."""
    solve = mass_matrix_solver(model, q)
    return solve(rhs), solve


def mass_matrix_solver(model: Model, q) -> jax.tree_util.Partial:
    """What applies `M⁻¹` to columns, with M factored already: a PyTree of the factors."""
    return _dense_inverse(model, q) if len(model.topology.followers) else _tree_inverse(model, q)


def _tree_inverse(model: Model, q):
    frames = BodyFrames.of(model, CommonFrame.at(model, q))
    return inverse_of_articulated(model, frames, frames.inertias(model).matrix)


def inverse_of_articulated(model: Model, frames: BodyFrames, inertias: Float[Array, "m 6 6"]):
    """`M⁻¹` of movers with these inertias, each about its own origin and in the world's axes, and the model's armature."""
    nothing = jnp.zeros_like(frames.subspace)
    idle = jnp.zeros(frames.subspace.shape[0], nothing.dtype)
    inertia = at_last_column(model, inertias)
    _, factors = articulated_body(model, frames, inertia, nothing, nothing, idle, nothing.sum(0))
    return jax.tree_util.Partial(Factors.solve, factors, model)


def _dense_inverse(model: Model, q):
    """`M⁻¹` by a dense factorization: joints that mimic others tie branches together, and M is no tree's."""
    return inverse_of_dense(mass_matrix(model, q))


def inverse_of_dense(matrix: Float[Array, "nv nv"]):
    factor, _ = jax.scipy.linalg.cho_factor(matrix, lower=True)
    return jax.tree_util.Partial(_cho_solve, factor)


def _cho_solve(factor, rhs):
    return jax.scipy.linalg.cho_solve((factor, True), rhs)


_forward_dynamics = implicit(
    forward_with_inverse, lambda a, model, q, v, f_ext: inverse_dynamics(model, q, v, a, f_ext)
)
_solve = implicit(_run_solve, lambda x, model, q: inertia_force(model, q, x))
