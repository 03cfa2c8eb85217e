"""Forward dynamics by divide and conquer: assemblies of articulated bodies in logarithmic depth (book §7.4, §7.5).

The articulated-body algorithm processes a chain link by link. Here neighboring bodies are joined in pairs, then
pairs of pairs, so that the number of sequential steps grows with the logarithm of the number of bodies.
`contraction` computes the order for any tree.

The joined units are *segments*: bodies in a row with two handles, the body above the first joint and the last body. The
book describes both handles by inverse inertias (eq. 7.57), which do not exist for a massless body. Here a segment maps
the acceleration above and the force below:

    a_last = A a_above + b - C f_below        f_above = J a_above + η + Aᵀ f_below

J is the inertia at the upper handle with a free end. C is the mobility of the end with the upper handle fixed. Both are
positive semidefinite. A single body with its joint has, with `U = I S` and `D = Sᵀ I S`,

    A = (1 - S D⁻¹ Uᵀ) X    b = c + S D⁻¹ (u - Uᵀ c)    C = S D⁻¹ Sᵀ    J = Xᵀ I^a X

and two segments are joined with `W = (1 + C₁ J₂)⁻¹`, the counterpart of the book's eqs. 7.60 to 7.63:

    A = A₂ W A₁    C = C₂ + A₂ W C₁ A₂ᵀ    J = J₁ + A₁ᵀ J₂ W A₁

Only D is inverted for a single body. D is singular if the body alone has no inertia along its joint, as a massless body
between two hinges. Therefore each body of a segment gets an auxiliary rigid inertia R, of the size of the inertia that it
carries, and the segment below subtracts it again: I becomes `I + R` in the first and J becomes `J - R` in the second. The
result does not change. Each inverse then exists if M is regular: the determinants are ratios of the determinants of M for
parts of the tree, with R at their ends.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from .._core.arguments import configuration, takes, velocity, wrenches
from .._core.array import (
    blocks,
    columnwise,
    dot,
    gather,
    gather_or_zero,
    matmul,
    matvec,
    skew,
    sum_rows,
    transpose,
    vecmat,
)
from ..model import Model
from ..model.contraction import Round, contraction
from ..model.edit import with_traversal
from ..optimize.implicit import implicit
from ..spatial import cross_force, moment_shift, motion_shift
from ._frame import base_acceleration
from .columns import column_armature, from_columns, to_columns
from .external import ExternalForces, external_forces
from .forward import BodyFrames
from .inverse import inertia_product, recursive_newton_euler
from .motion import Motion


@takes(q=configuration, v=velocity, tau=velocity, f_ext=wrenches)
def forward_dynamics_by_assembly(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    tau: Float[Array, "nv"],
    f_ext: ExternalForces = None,
) -> Float[Array, "nv"]:
    """Computes `forward_dynamics` in a number of sequential steps logarithmic in the number of bodies (book §7.5).

    Use it for long chains and large trees on parallel hardware. It does several times the arithmetic of `forward_dynamics`,
    and takes longer on a CPU. Kinematics and derivatives also have logarithmic depth.

    Args:
      model: The model, without mimic joints.
      q: Configuration, shape (nq,).
      v: Velocity, shape (nv,).
      tau: Generalized forces, shape (nv,).
      f_ext: External forces, see `ExternalForces`.

    Returns:
      The acceleration, shape (nv,).

    Raises:
      ValueError: If the model has mimic joints, which couple branches of the tree.

    >>> model, q, v = rbd.load("double_pendulum"), jnp.array([0.5, 1.0]), jnp.array([1.0, 2.0])
    >>> print(rbd.forward_dynamics_by_assembly(model, q, v, tau=jnp.zeros(2)))
    [  2.283 -14.132]
    """
    if len(model.topology.mimic_joints):
        names = [model.topology.joint_names[body] for body in model.topology.mimic_joints]
        raise ValueError(
            f"forward_dynamics_by_assembly: joints {names} of model {model.name!r} are mimic joints, which couple branches of "
            "its tree; use forward_dynamics"
        )
    motion = Motion(with_traversal(model, "doubling"), q, v)
    return _accelerations(tau, motion.computed("velocities", "velocity_products"), f_ext)


class _Bodies(eqx.Module):
    """The coefficients of single bodies with their joints, `k` columns each (table 7.1).

    `shift` is X, from above the joint to the body's own origin; `gain` `U D⁻¹`, `inverse` `D⁻¹`,
    and `apparent` `I^a = I - U D⁻¹ Uᵀ`.
    """

    subspace: Float[Array, "m 6 k"]
    shift: Float[Array, "m 6 6"]
    gain: Float[Array, "m 6 k"]
    inverse: Float[Array, "m k k"]
    apparent: Float[Array, "m 6 6"]

    @staticmethod
    def of(columns: _Columns, bodies: np.ndarray, shifts, inertias) -> _Bodies:
        subspace, armature = columns.subspace(bodies), columns.armature(bodies)
        force = matmul(inertias, subspace)
        inverse = _inverse(matmul(transpose(subspace), force) + armature)
        gain = matmul(force, inverse)
        apparent = _symmetric(inertias - matmul(gain, transpose(force)))
        return _Bodies(subspace, gather(shifts, bodies), gain, inverse, apparent)

    def segments(self, lent: Float[Array, "m 6"]) -> _Segments:
        passed = self.shift - matmul(self.subspace, matmul(transpose(self.gain), self.shift))
        mobility = matmul(self.subspace, matmul(self.inverse, transpose(self.subspace)))
        inertia = matmul(transpose(self.shift), matmul(self.apparent, self.shift))
        return _Segments(passed, mobility, _symmetric(inertia), lent)

    def felt(self, tau, bias, product) -> tuple[Array, Array, Array]:
        """Returns `D⁻¹ u`, and the b and the η of the segments."""
        effort = tau - vecmat(bias, self.subspace)
        drive = matvec(self.inverse, effort)
        left = bias + matvec(self.apparent, product) + matvec(self.gain, effort)
        free = product + matvec(self.subspace, drive - vecmat(product, self.gain))
        return drive, free, vecmat(left, self.shift)

    def accelerations(self, above, force, product, drive) -> Float[Array, "m k"]:
        """Returns `q̈ = D⁻¹ (u - Sᵀ f_below - Uᵀ (X a + c))` from the accelerations above and the forces below (eq. 7.49)."""
        free = matvec(self.shift, above) + product
        return drive - matvec(self.inverse, vecmat(force, self.subspace)) - vecmat(free, self.gain)


class _Segments(eqx.Module):
    """The matrices of segments, and the auxiliary inertias of their last bodies (the diagonal of R)."""

    A: Float[Array, "m 6 6"]
    C: Float[Array, "m 6 6"]
    J: Float[Array, "m 6 6"]
    lent: Float[Array, "m 6"]

    def rows(self, rows: np.ndarray) -> _Segments:
        return jax.tree.map(lambda x: gather(x, rows), self)

    def and_then(self, more: _Segments) -> _Segments:
        return jax.tree.map(lambda a, b: jnp.concatenate([a, b]), self, more)


class _Meetings(eqx.Module):
    """The joints between segments and the parts below their last bodies: `J` is the inertia below, and `W = (1 + C J)⁻¹`."""

    A: Float[Array, "m 6 6"]
    C: Float[Array, "m 6 6"]
    J: Float[Array, "m 6 6"]
    W: Float[Array, "m 6 6"]

    @staticmethod
    def of(above: _Segments, J: Float[Array, "m 6 6"]) -> _Meetings:
        unit = jnp.eye(6, dtype=J.dtype)[None]
        J = J - above.lent[:, :, None] * unit
        return _Meetings(above.A, above.C, J, _inverse(unit + matmul(above.C, J)))

    def inertia(self, own: Float[Array, "m 6 6"]) -> Float[Array, "m 6 6"]:
        """Returns `J₁ + A₁ᵀ J₂ W A₁`."""
        return _symmetric(own + matmul(transpose(self.A), matmul(self.J, matmul(self.W, self.A))))

    def force(self, b, η, below) -> tuple[Array, Array]:
        """Returns `η₁ + A₁ᵀ (η₂ + J₂ m)` and m, the acceleration `W (b₁ - C₁ η₂)`."""
        middle = matvec(self.W, b - matvec(self.C, below))
        return η + vecmat(below + matvec(self.J, middle), self.A), middle

    def between(self, above, b, below) -> tuple[Array, Array]:
        """Returns the acceleration of the last bodies, and the forces below them: `J a + below`."""
        a = matvec(self.W, matvec(self.A, above) + b - matvec(self.C, below))
        return a, matvec(self.J, a) + below


class _Joined(eqx.Module):
    """The matrices of one round.

    They are the bodies that become segments, the joints of the raked and then the upper segments with the parts below them, and
    the A of the lower segments.
    """

    bodies: _Bodies
    meetings: _Meetings
    lower_A: Float[Array, "p 6 6"]


class Assembly(eqx.Module):
    """M, factored round by round."""

    joined: list[_Joined]

    @staticmethod
    def of(motion: Motion, frames: BodyFrames) -> Assembly:
        model, joined = motion.model, []
        loads, columns = frames.inertias(model).matrix, _Columns(model, frames)
        shifts, lent = columns.shifts(), _lent(model, loads, columns.reach())
        none = jnp.zeros((0, 6, 6), loads.dtype)
        segments = _Segments(none, none, none, none[:, 0])
        for one in contraction(model.topology.moving_tree.parents):
            # Raked segments get no auxiliary inertia: everything below them is already joined.
            has_below = np.isin(one.converted, np.concatenate([one.upper, one.lower]))
            own = jnp.where(has_below[:, None], gather(lent, one.converted_bodies), 0)
            inertias = gather(loads, one.converted) + own[:, :, None] * jnp.eye(6, dtype=own.dtype)[None]
            bodies = _Bodies.of(columns, one.converted_bodies, shifts, inertias)
            segments = segments.and_then(bodies.segments(own))

            above, lower = segments.rows(_meeting(one)), segments.rows(one.lower_rows)
            borne = jnp.where(one.ending[:, None, None], gather(loads, one.raked), 0)
            meetings = _Meetings.of(above, jnp.concatenate([borne, lower.J]))
            felt = meetings.inertia(above.J)
            raked, through = len(one.raked), matmul(lower.A, meetings.W[len(one.raked) :])
            mobility = matmul(through, matmul(above.C[raked:], transpose(lower.A)))
            made = _Segments(
                matmul(through, above.A[raked:]), _symmetric(lower.C + mobility), felt[raked:], lower.lent
            )
            segments = segments.rows(one.kept_rows).and_then(made)
            loads = _carried(loads, felt[:raked], one)
            joined.append(_Joined(bodies, meetings, lower.A))
        return Assembly(joined)

    def inverse(self, model: Model) -> jax.tree_util.Partial:
        """Returns a function that applies `M⁻¹`."""
        return jax.tree_util.Partial(Assembly.solve, self, model)

    def solve(self, model: Model, rhs: Float[Array, "nv *k"]) -> Float[Array, "nv *k"]:
        """Returns `M⁻¹ rhs`."""
        if rhs.ndim == 2:
            return columnwise(lambda column: self.solve(model, column), rhs)
        nothing = jnp.zeros((len(model.topology.moving_bodies), 6), rhs.dtype)
        return self.accelerations(model, rhs, nothing, nothing, jnp.zeros(6, rhs.dtype))

    def accelerations(self, model: Model, tau, bias, products, base) -> Float[Array, "nv"]:
        """Returns `q̈`: assembles forces from the leaves to the root, then computes accelerations from the root to the leaves.

        Args:
          model: The model.
          tau: Generalized forces, shape (nv,).
          bias: The bias force of each moving body at zero acceleration, about its own origin.
          products: The acceleration of each moving body's joint without `q̈`, about the body's own origin.
          base: The acceleration of the world.
        """
        rounds, efforts = contraction(model.topology.moving_tree.parents), to_columns(model, tau)
        if not rounds:
            return tau
        loads, b = bias, jnp.zeros((0, 6), bias.dtype)
        η, passed = b, []
        for one, known in zip(rounds, self.joined, strict=True):
            product = gather(products, one.converted_bodies)
            own = _of_bodies(model, efforts, one.converted_bodies)
            drive, own_b, own_η = known.bodies.felt(own, gather(loads, one.converted), product)
            b, η = jnp.concatenate([b, own_b]), jnp.concatenate([η, own_η])
            borne = jnp.where(one.ending[:, None], gather(loads, one.raked), 0)
            below, above_b = jnp.concatenate([borne, gather(η, one.lower_rows)]), gather(b, _meeting(one))
            felt, middle = known.meetings.force(above_b, gather(η, _meeting(one)), below)
            passed.append((product, drive, above_b, below))
            raked = len(one.raked)
            made = matvec(known.lower_A, middle[raked:]) + gather(b, one.lower_rows)
            b = jnp.concatenate([gather(b, one.kept_rows), made])
            η = jnp.concatenate([gather(η, one.kept_rows), felt[raked:]])
            loads = _carried(loads, felt[:raked], one)

        found = []
        # After each round: the accelerations of the last bodies, and for segments the acceleration above and the force below.
        ends = above = force = jnp.zeros((0, 6), bias.dtype)
        for one, known, (product, drive, above_b, below) in zip(
            reversed(rounds), reversed(self.joined), reversed(passed), strict=True
        ):
            kept, raked = len(one.kept_rows), len(one.raked)
            entering, leaving = above[kept:], force[kept:]
            # Order: kept, lower, world, raked, upper.
            outer = gather(jnp.concatenate([ends, base[None]]), _order_after(one)[one.above])
            entering = jnp.concatenate([outer, entering])
            below = jnp.concatenate([below[:raked], below[raked:] + vecmat(leaving, known.lower_A)])
            last, pushed = known.meetings.between(entering, above_b, below)
            above = jnp.concatenate([above[:kept], entering, last[raked:]])
            force = jnp.concatenate([force[:kept], pushed, leaving])
            order = np.argsort(np.concatenate([one.kept_rows, _meeting(one), one.lower_rows]))
            above, force = gather(above, order), gather(force, order)
            ends = gather(jnp.concatenate([ends, base[None], last]), _order_before(one))
            found.append(known.bodies.accelerations(above[one.rows :], force[one.rows :], product, drive))
            above, force = above[: one.rows], force[: one.rows]
        bodies = [one.converted_bodies for one in reversed(rounds)]
        return from_columns(model, _to_all_columns(model, found, bodies))


def _forward(tau, motion: Motion, f_ext: ExternalForces):
    """Returns the result of forward dynamics and a function that applies `M⁻¹`."""
    model = motion.model
    frames = BodyFrames.of(model, motion.common)
    assembly = Assembly.of(motion, frames)
    products = motion_shift(gather(motion.velocity_products, model.topology.last_column), frames.origins)
    moving = motion_shift(motion.velocities, frames.origins)
    bias = cross_force(moving, frames.inertias(model).momentum(moving))
    external = external_forces(motion, f_ext)
    bias = bias if external is None else bias - moment_shift(external, frames.origins)
    found = assembly.accelerations(model, tau, bias, products, base_acceleration(model))
    return found, assembly.inverse(model)


_accelerations = implicit(
    _forward,
    lambda a, motion, f_ext: recursive_newton_euler(motion, a, f_ext),
    lambda a, motion, f_ext: inertia_product(motion, a),
)


def _lent(model: Model, inertias: Float[Array, "m 6 6"], reach: Float[Array, "m 3"]) -> Float[Array, "m 6"]:
    """Returns the auxiliary inertia of each body as a diagonal.

    It consists of the mean mass of the bodies that it carries, and the mean of their inertias about their own and their
    parents' origins. It has the size of the inertias nearby, so that subtracting it again loses no digits.
    """
    mass = inertias[:, 5, 5]
    turning = jnp.trace(inertias[:, :3, :3], axis1=1, axis2=2) / 3 + mass * dot(reach, reach)
    sums = model.topology.moving_tree.subtree_sum(jnp.stack([turning, mass, jnp.ones_like(mass)], axis=1))
    return jnp.repeat(sums[:, :2] / sums[:, 2:], 3, axis=1, total_repeat_length=6)


def _meeting(one: Round) -> np.ndarray:
    """Returns the rows of the segments joined to a part below: first the raked, then the upper ones."""
    return np.concatenate([one.raked_rows, one.upper_rows])


def _order_after(one: Round) -> np.ndarray:
    """Maps each place before a round to its place after the round; the last entry is for the world."""
    places = np.concatenate([one.kept, one.lower])
    order = np.full(one.places + 1, len(places))
    order[places] = np.arange(len(places))
    return order


def _order_before(one: Round) -> np.ndarray:
    """Maps each place before a round to its index in the order kept, lower, world, raked, upper."""
    return np.argsort(np.concatenate([one.kept, one.lower, [one.places], one.raked, one.upper]))[:-1]


def _carried(loads: Float[Array, "m *k"], felt: Float[Array, "r *k"], one: Round) -> Float[Array, "n *k"]:
    """Returns the load at each place after a round: the load of the kept places plus the loads of the raked segments.

    Places with similar numbers of loads are summed together, since a table of all places
    would be as wide as the largest number.
    """
    flat = felt.reshape(len(felt), int(np.prod(felt.shape[1:])))
    count, owners = len(one.kept) + len(one.lower), _order_after(one)[one.above]
    taken, counts = np.unique(owners[owners < count], return_counts=True)
    parts, order, sizes = [flat[:0]], np.full(count, -1), np.ceil(np.log2(np.maximum(counts, 1)))
    for size in np.unique(sizes):
        places = taken[sizes == size]
        order[places] = sum(map(len, parts)) + np.arange(len(places))
        groups = np.where(np.isin(owners, places), np.searchsorted(places, owners), -1)
        parts.append(sum_rows(flat, groups, len(places)))
    received = gather_or_zero(jnp.concatenate(parts), order).reshape(count, *felt.shape[1:])
    return received + jnp.concatenate([gather(loads, one.kept), jnp.zeros_like(loads[: len(one.lower)])])


class _Columns:
    """The columns of the tree, grouped by body; bodies with fewer columns than others are padded with idle columns."""

    def __init__(self, model: Model, frames: BodyFrames):
        self.model, self.frames = model, frames

    def subspace(self, bodies: np.ndarray) -> Float[Array, "m 6 k"]:
        table = _table(self.model, bodies)
        rows = gather_or_zero(self.frames.subspace, table.reshape(-1))
        return transpose(rows.reshape(*table.shape, 6))

    def armature(self, bodies: np.ndarray) -> Float[Array, "m k k"]:
        own = _of_bodies(self.model, column_armature(self.model), bodies)
        own = own + jnp.asarray(_table(self.model, bodies) < 0, own.dtype)
        return own[:, :, None] * jnp.eye(own.shape[1], dtype=own.dtype)[None]

    def reach(self) -> Float[Array, "m 3"]:
        """Returns the vector from the origin of each moving body's parent to its own origin."""
        topology = self.model.topology
        return gather(self.frames.reach, topology.last_column - topology.column_counts + 1)

    def shifts(self) -> Float[Array, "m 6 6"]:
        """Returns X of every moving body, from motions about its parent's origin to motions about its own."""
        arms = skew(self.reach())
        unit = jnp.broadcast_to(jnp.eye(3, dtype=arms.dtype), arms.shape)
        return blocks(unit, jnp.zeros_like(arms), -arms, unit)


def _table(model: Model, bodies: np.ndarray) -> np.ndarray:
    """Returns the columns of moving bodies, one row per body, padded with -1."""
    topology = model.topology
    counts = topology.column_counts[bodies]
    across = np.arange(counts.max(initial=1))
    first = topology.last_column[bodies] - counts + 1
    return np.where(across[None, :] < counts[:, None], first[:, None] + across[None, :], -1)


def _of_bodies(model: Model, x: Float[Array, "n"], bodies: np.ndarray) -> Float[Array, "m k"]:
    """Returns the entries of `x` for the columns of moving bodies."""
    table = _table(model, bodies)
    return gather_or_zero(x, table.reshape(-1)).reshape(table.shape)


def _to_all_columns(model: Model, found: list[Array], bodies: list[np.ndarray]) -> Float[Array, "n"]:
    """Scatters values of moving bodies to one vector over columns."""
    table = np.concatenate([_table(model, group).reshape(-1) for group in bodies])
    order = np.zeros(model.topology.tree.size, int)
    order[table[table >= 0]] = np.flatnonzero(table >= 0)
    return gather(jnp.concatenate([x.reshape(-1) for x in found]), order)


def _inverse(matrix: Float[Array, "m k k"]) -> Float[Array, "m k k"]:
    """Inverts small matrices by Gauss-Jordan elimination with column pivoting.

    One loop over columns handles all matrices at once. Library calls per matrix compile more
    slowly and run more slowly on a GPU.
    """
    size = matrix.shape[-1]
    if size == 1:
        return 1 / matrix
    rows = jnp.arange(size)

    def at(x, j, axis):
        return lax.dynamic_index_in_dim(x, j, axis, keepdims=False, allow_negative_indices=False)

    def eliminate(j, both):
        column = at(both, j, 2)
        best = jnp.argmax(jnp.where(rows >= j, jnp.abs(column), -1), axis=1)
        here, there = (rows == j)[None, :], rows[None, :] == best[:, None]
        pivot_row = jnp.sum(jnp.where(there[:, :, None], both, 0), axis=1)
        own_row = at(both, j, 1)
        # Swap the two rows, scale the pivot row, and subtract it from all other rows.
        column = jnp.where(there, at(column, j, 1)[:, None], column)
        both = jnp.where(there[:, :, None], own_row[:, None, :], both)
        pivot_row = pivot_row / at(pivot_row, j, 1)[:, None]
        reduced = both - column[:, :, None] * pivot_row[:, None, :]
        return jnp.where(here[:, :, None], pivot_row[:, None, :], reduced)

    unit = jnp.broadcast_to(jnp.eye(size, dtype=matrix.dtype), matrix.shape)
    both = jnp.concatenate([matrix, unit], axis=2)
    return lax.fori_loop(0, size, eliminate, both)[:, :, size:]


def _symmetric(matrix):
    return 0.5 * (matrix + transpose(matrix))
