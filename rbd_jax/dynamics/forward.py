"""Forward dynamics: the articulated-body algorithm (book ch. 7)."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from .._core.arguments import configuration, dof_columns, takes, velocity, wrenches
from .._core.array import (
    columnwise,
    dot,
    gather,
    gather_or_zero,
    is_known,
    matvec,
    outer,
    products,
    transpose,
    with_zero_row,
)
from ..model import Model, Tree
from ..model.lumping import moving_inertias
from ..optimize.implicit import implicit
from ..spatial import AnyInertia, AnyTransform, cross_force, inertia_shift, moment_shift, motion_shift
from ._frame import CommonFrame, base_acceleration, has_constant_subspaces
from .columns import among_dofs, at_last_column, column_armature, from_columns, to_columns
from .external import ExternalForces, external_forces
from .inverse import inertia_product, recursive_newton_euler
from .mass_matrix import composite_rigid_body
from .motion import Motion


#: Pivots below this multiple of the unreduced diagonal's rounding error count as zero.
ROUNDING = 64

#: Maximum number of columns for which the inverse of M is computed as a matrix product.
MULTIPLIED = 64


@takes(planar=True, q=configuration, v=velocity, tau=velocity, f_ext=wrenches)
def forward_dynamics(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    tau: Float[Array, "nv"],
    f_ext: ExternalForces = None,
) -> Float[Array, "nv"]:
    """Returns the acceleration `M⁻¹ (tau - C v - g + Jᵀ f_ext)` under generalized forces (book table 7.1; eqs. 1.2, 3.3).

    Damping, friction and springs of the joints are not included: add `passive_force` to `tau`, as `rollout` does. A
    degree of freedom that moves no inertia (a massless end of a chain, without armature) has no defined
    acceleration, and the result is not finite.

    Derivatives are `M⁻¹ (d tau - d inverse_dynamics)` and reuse the factors of M from the algorithm.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      v: Velocity, shape (nv,).
      tau: Generalized forces, shape (nv,).
      f_ext: External wrenches `[n; f]`, `{body: wrench}` or (nb, 6), in the world's axes about the world's origin.

    Returns:
      The acceleration, shape (nv,).

    >>> model, q, v = rbd.load("double_pendulum"), jnp.array([0.5, 1.0]), jnp.array([1.0, 2.0])
    >>> print(rbd.forward_dynamics(model, q, v, tau=jnp.zeros(2)))
    [  2.283 -14.132]
    """
    return articulated_body(Motion(model, q, v), tau, f_ext)


@takes(planar=True, q=configuration, rhs=dof_columns)
def solve_mass_matrix(
    model: Model, q: Float[Array, "nq"], rhs: Float[Array, "nv *k"]
) -> Float[Array, "nv *k"]:
    """Returns `M⁻¹ rhs` without M: the articulated-body algorithm at rest, O(n) for each column of `rhs`.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      rhs: A vector or matrix, shape (nv,) or (nv, k).

    >>> model, q = rbd.load("double_pendulum"), jnp.array([0.5, 1.0])
    >>> print(rbd.solve_mass_matrix(model, q, jnp.array([1.0, 0.0])))
    [ 0.585 -0.901]
    """
    return solve_inertia(Motion(model, q), rhs)


def articulated_body(
    motion: Motion, tau: Float[Array, "nv"], f_ext: ExternalForces = None
) -> Float[Array, "nv"]:
    """Computes `forward_dynamics` for a model in motion."""
    return _accelerations(tau, motion.computed("velocities", "velocity_products"), f_ext)


def solve_inertia(motion: Motion, rhs: Float[Array, "nv *k"]) -> Float[Array, "nv *k"]:
    """Computes `solve_mass_matrix` for a model in motion."""
    return _solve(rhs, motion.computed("common"))


class BodyFrames(eqx.Module):
    """A model in a configuration, with every body about its own origin, in the world's axes.

    The inertia of a finger about the foot of the robot is dominated by their distance, and single precision would lose the
    finger's own inertia. The articulated-body algorithm subtracts inertias, so it uses no common origin. Quantities passed to
    the parent are shifted by `reach`.

    - `turns`, `origins`: the orientations and the positions of the moving bodies, in the common frame.
    - `reach`: the vector from the origin of each column's parent to its own origin; zero within a joint.
    - `subspace`: the motion of each column.
    """

    turns: AnyTransform
    origins: Float[Array, "m k"]
    reach: Float[Array, "n k"]
    subspace: Float[Array, "n d"]

    @staticmethod
    def of(model: Model, common: CommonFrame) -> BodyFrames:
        topology, origins = model.topology, common.placements.position
        turns = common.placements.at(jnp.zeros_like(origins))
        columns = gather(origins, topology.column_owner)
        reach = columns - gather_or_zero(columns, topology.tree.parents)
        return BodyFrames(turns, origins, reach, common.directions)

    def inertias(self, model: Model) -> AnyInertia:
        return moving_inertias(model).placed(self.turns)


class TreeFactors(eqx.Module):
    """M factored along the tree: the result of the articulated-body algorithm's pass up the tree, per column.

    `gain` `I^A S / D` and `pivot` `D = Sᵀ I^A S`, armature included. `M = L D Lᵀ` in the book's terms (§6.5).
    """

    frames: BodyFrames
    gain: Float[Array, "n d"]
    pivot: Float[Array, "n"]

    def solve(self, model: Model, rhs: Float[Array, "nv *k"]) -> Float[Array, "nv *k"]:
        """Returns `M⁻¹ rhs`: the articulated-body algorithm with known inertias, at rest and without gravity."""
        if rhs.ndim == 2:
            return columnwise(lambda column: self.solve(model, column), rhs)
        tree, nothing = model.topology.tree, jnp.zeros(model.vector_size, rhs.dtype)
        subspace, reach = self.frames.subspace, self.frames.reach

        def assemble(bias, own):
            subspace, reach, gain, tau = own
            effort = tau - dot(subspace, bias)
            return moment_shift(bias + gain * effort, -reach), effort

        columns = (subspace, reach, self.gain, to_columns(model, rhs))
        _, effort = tree.up(assemble, nothing, columns)
        return self._rates(model, effort / self.pivot)

    def inverse(self, model: Model) -> Float[Array, "nv nv"]:
        """Returns `M⁻¹ = Uᵀ D⁻¹ U`: a pass up the tree with a unit force along each column, and a pass down.

        For few columns the pass down is a matrix product, which has fewer steps. Otherwise
        each column has its own traversal.
        """
        efforts = self._efforts(model.topology.tree)
        if len(efforts) <= MULTIPLIED:
            inverse = products(transpose(efforts), transpose(efforts / self.pivot[:, None]))
        else:
            inverse = columnwise(lambda column: self._rates(model, column), efforts / self.pivot[:, None])
        return among_dofs(model, inverse)

    def _efforts(self, tree: Tree) -> Float[Array, "n n"]:
        """Returns U: entry (j, k) is the effort at column j of a unit force along column k, zero unless j carries k.

        All forces pass up the tree at once, one generation per step.
        """
        subspace, gain, reach = (
            with_zero_row(x) for x in (self.frames.subspace, self.gain, self.frames.reach)
        )

        def step(bias, generation):
            own, above = generation
            effort = own - dot(subspace[above], bias)
            return moment_shift(bias + gain[above] * effort[:, None], -reach[above]), effort

        above = tree.generations
        own = jnp.asarray(np.arange(len(above)) == 0, gain.dtype)
        efforts = lax.scan(step, jnp.zeros_like(self.gain), (own, above))[1]
        between = tree.depths[None, :] - tree.depths[:, None]
        entries = efforts[np.maximum(between, 0), np.arange(tree.size)[None, :]]
        return jnp.where(tree.supports.T, entries, 0)

    def _rates(self, model: Model, drive: Float[Array, "n"]) -> Float[Array, "nv"]:
        """Computes the pass down the tree from the acceleration of each column with its ancestors at rest."""
        subspace, reach = self.frames.subspace, self.frames.reach
        nothing = jnp.zeros(model.vector_size, drive.dtype)
        _, x = model.topology.tree.down(_accelerate, nothing, (subspace, reach, self.gain, drive, None))
        return from_columns(model, x)


class TreeInverse(eqx.Module):
    """A callable that applies `M⁻¹`, for M factored along the tree."""

    factors: TreeFactors
    model: Model

    def __call__(self, rhs: Float[Array, "nv *k"]) -> Float[Array, "nv *k"]:
        return self.factors.solve(self.model, rhs)

    @property
    def matrix(self) -> Float[Array, "nv nv"]:
        return self.factors.inverse(self.model)


class DenseInverse(eqx.Module):
    """A callable that applies the inverse of a positive definite matrix, by its Cholesky factor."""

    factor: Float[Array, "k k"]

    @staticmethod
    def of(matrix: Float[Array, "k k"]) -> DenseInverse:
        return DenseInverse(jax.scipy.linalg.cho_factor(matrix, lower=True)[0])

    def __call__(self, rhs: Float[Array, "k *m"]) -> Float[Array, "k *m"]:
        return jax.scipy.linalg.cho_solve((self.factor, True), rhs)

    @property
    def matrix(self) -> Float[Array, "k k"]:
        return self(jnp.eye(len(self.factor), dtype=self.factor.dtype))


def articulated_body_recursions(
    model: Model, frames: BodyFrames, inertia, bias, products, tau, base, armature
) -> tuple[Float[Array, "n"], TreeFactors]:
    """Runs the two passes of the articulated-body algorithm, column by column (eqs. 7.21 to 7.25, 7.43 to 7.50).

    Up the tree, with `U = I^A S`, `D = Sᵀ U` and `u = τ - Sᵀ p^A`, each column passes on the inertia
    `I^a = I^A - U D⁻¹ Uᵀ` and the bias force `p^A + I^a c + U D⁻¹ u`. Down the tree, `q̈ = D⁻¹ (u - Uᵀ (a_λ + c))`.

    Args:
      model: The model.
      frames: The frames of its bodies.
      inertia: Inertia of each column, (n, d, d).
      bias: Bias force p of each column, (n, d).
      products: Velocity-product acceleration c of each column, (n, d).
      tau: Generalized force of each column, (n,).
      base: Acceleration of the world, (d,).
      armature: Armature of each column, (n,).

    Returns:
      `q̈` of each column, and the factors of M.
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
    nothing = tuple(jnp.zeros(x.shape[1:], x.dtype) for x in (inertia, bias))
    columns = (frames.subspace, frames.reach, inertia, bias, products, tau, armature)
    _, (gain, pivot, effort) = tree.up(assemble, nothing, columns)
    columns = (frames.subspace, frames.reach, gain, effort / pivot, products)
    _, accelerations = tree.down(_accelerate, base, columns)
    return accelerations, TreeFactors(frames, gain, pivot)


def _accelerate(above, own):
    """Returns `a = a_λ + c + S q̈` and `q̈ = D⁻¹ u - (U D⁻¹)ᵀ (a_λ + c)` (eqs. 7.48 to 7.50)."""
    subspace, reach, gain, drive, product = own
    free = motion_shift(above, reach)
    free = free if product is None else free + product
    acceleration = drive - dot(gain, free)
    return free + subspace * acceleration, acceleration


def forward_with_inverse(tau, motion: Motion, f_ext: ExternalForces, armature=None, driven=None):
    """Returns the result of forward dynamics and a callable that applies `M⁻¹`.

    Args:
      tau: Generalized forces.
      motion: The model in a state, with its velocities and velocity products.
      f_ext: External forces.
      armature: Armature to use instead of the model's.
      driven: Prescribed accelerations of degrees of freedom with infinite armature; the result does not include them.
    """
    model, common = motion.model, motion.common
    if len(model.topology.mimic_joints):
        solve = _dense_inverse(motion)
        return solve(tau - recursive_newton_euler(motion, jnp.zeros_like(tau), f_ext)), solve
    frames = BodyFrames.of(model, common)
    products = motion_shift(motion.velocity_products, gather(frames.origins, model.topology.column_owner))
    if driven is not None:
        products = products + frames.subspace * to_columns(model, driven)[:, None]
    inertias = frames.inertias(model)
    moving_body = motion_shift(motion.velocities, frames.origins)
    bias = cross_force(moving_body, inertias.momentum(moving_body))
    external = external_forces(motion, f_ext)
    bias = bias if external is None else bias - moment_shift(external, frames.origins)
    acceleration, factors = articulated_body_recursions(
        model,
        frames,
        at_last_column(model, inertias.matrix),
        at_last_column(model, bias),
        products,
        to_columns(model, tau),
        base_acceleration(model),
        column_armature(model, armature),
    )
    return from_columns(model, acceleration), TreeInverse(factors, model)


def inertia_solver(motion: Motion) -> TreeInverse | DenseInverse:
    """Factors M, and returns a callable that applies `M⁻¹` to columns."""
    if len(motion.model.topology.mimic_joints):
        return _dense_inverse(motion)
    frames = BodyFrames.of(motion.model, motion.common)
    factors = articulated_factors(motion.model, frames, frames.inertias(motion.model).matrix)
    return TreeInverse(factors, motion.model)


def articulated_factors(
    model: Model, frames: BodyFrames, inertias: Float[Array, "m d d"], armature=None
) -> TreeFactors:
    """Returns the factors of M for moving bodies with these inertias, in world axes about their own origins, and armature."""
    nothing = jnp.zeros_like(frames.subspace)
    idle = jnp.zeros(frames.subspace.shape[0], nothing.dtype)
    inertia, armature = at_last_column(model, inertias), column_armature(model, armature)
    base = jnp.zeros(model.vector_size, nothing.dtype)
    return articulated_body_recursions(model, frames, inertia, nothing, nothing, idle, base, armature)[1]


def singular_inertia(motion: Motion) -> Bool[Array, ""]:
    """Returns whether M is singular to rounding: a pivot is negligible compared with the inertia that its column carries.

    A pivot is that inertia minus the compliance of the joints further out. Each subtraction adds rounding error.
    """
    model = motion.model
    if len(model.topology.mimic_joints):
        return singular_matrix(composite_rigid_body(motion))
    frames = BodyFrames.of(model, motion.common)
    pivots = articulated_factors(model, frames, frames.inertias(model).matrix).pivot
    carried = _carried_inertia(motion)
    return jnp.any(pivots <= ROUNDING * jnp.finfo(pivots.dtype).eps * carried)


def surely_regular(model: Model) -> bool:
    """Returns whether M is surely regular in all configurations, for concrete (not traced) inertias.

    M is regular if no joint is singular and every moving body has an inertia of its own.
    """
    if not is_known(model.inertias) or not has_constant_subspaces(model):
        return False
    mass, first, rotational = (np.asarray(x, np.float64) for x in jax.tree.leaves(model.inertias))
    heavy = mass > 0
    if model.is_planar:
        solid = heavy & (rotational * mass - np.sum(first**2, axis=1) > 1e-6 * rotational * mass)
    else:
        solid = heavy & _solid(mass, first, rotational)
    carriers = model.topology.carriers
    return set(range(len(model.topology.moving_bodies))) <= set(carriers[solid].tolist())


def _solid(mass, first, rotational) -> np.ndarray:
    """Returns whether no principal moment of a body is negligible compared with its others."""
    com = first / np.where(mass > 0, mass, 1)[:, None]
    xx, xy, yy, xz, yz, zz = rotational.T
    about_origin = np.stack([xx, xy, xz, xy, yy, yz, xz, yz, zz], axis=1).reshape(-1, 3, 3)
    square = np.sum(com**2, axis=1)[:, None, None] * np.eye(3) - com[:, :, None] * com[:, None, :]
    moments = np.linalg.eigvalsh(about_origin - mass[:, None, None] * square)
    return moments[:, 0] > 1e-6 * moments[:, 2]


def _carried_inertia(motion: Motion) -> Float[Array, "n"]:
    """Returns the diagonal of M, per column."""
    model, subspace = motion.model, motion.common.subspace
    carried = model.topology.tree.subtree_sum(at_last_column(model, motion.inertias.parameters))
    return dot(subspace, motion.inertias.from_parameters(carried).momentum(subspace)) + column_armature(model)


def singular_matrix(matrix: Float[Array, "n n"]) -> Bool[Array, ""]:
    """Returns whether a dense mass matrix is singular to rounding."""
    diagonal = jnp.diagonal(matrix)
    pivots = jnp.diagonal(jnp.linalg.cholesky(matrix)) ** 2
    # The factors are NaN for a pivot that is not positive, although the matrix is finite.
    small = ~(pivots > ROUNDING * jnp.finfo(matrix.dtype).eps * diagonal)
    return jnp.any(small) & jnp.all(jnp.isfinite(matrix))


def _dense_inverse(motion: Motion) -> DenseInverse:
    """Returns `M⁻¹` from a dense factorization, because mimic joints couple branches and M loses the tree's sparsity."""
    return DenseInverse.of(composite_rigid_body(motion))


def _run_solve(rhs, motion: Motion):
    """Returns `M⁻¹ rhs` and a callable that applies `M⁻¹` again."""
    solve = inertia_solver(motion)
    return solve(rhs), solve


_accelerations = implicit(
    forward_with_inverse,
    lambda a, motion, f_ext: recursive_newton_euler(motion, a, f_ext),
    lambda a, motion, f_ext: inertia_product(motion, a),
)
_solve = implicit(
    _run_solve, lambda x, motion: inertia_product(motion, x), lambda x, motion: inertia_product(motion, x)
)
