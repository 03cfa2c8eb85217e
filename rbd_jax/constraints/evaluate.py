"""The equations of all constraints of a model: residual, Jacobian, rate and bias, from one pass of forward kinematics.

Constraints of equal structure are evaluated together, as joints are. Bodies of one tree are expressed relative to the root
of the tree. So a loop closes as exactly far from the world's origin as near it (book §8.2, §8.7).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import anything, configuration, takes, velocity
from .._core.array import gather, gather_or_zero, products, sum_rows, transpose, with_zero_row
from .._core.module import changed
from ..dynamics import Motion
from ..dynamics.columns import from_columns, to_columns
from ..dynamics.inverse import joint_forces
from ..loops import Constraint
from ..model import Model, Tree
from ..model.attachments import grouped
from ..spatial.transform import Transform


@takes(q=configuration)
def constraint_residual(model: Model, q: Float[Array, "nq"]) -> Float[Array, "m"]:
    """Returns the residual of each constraint equation of the model, in order; zero for constraints on velocities alone.

    >>> slider = rbd.constraints.PointOnPlane("world", (0, 0, 0), (1, 0, 0), "lower", (0, 0, -1))
    >>> model = rbd.add_constraints(rbd.load("double_pendulum"), slider)
    >>> print(rbd.constraint_residual(model, jnp.array([0.5, -1.1])))
    [0.085]
    """
    return residual_of(Motion(model, q))


@takes(q=configuration)
def constraint_jacobian(model: Model, q: Float[Array, "nq"]) -> Float[Array, "m nv"]:
    """Returns G: the rate of the residual is `G v + g_t`, and `Gᵀ λ` are the forces of the constraints.

    Book eqs. 8.6, 8.17, 8.32; table 8.4 has it for loop joints.

    >>> slider = rbd.constraints.PointOnPlane("world", (0, 0, 0), (1, 0, 0), "lower", (0, 0, -1))
    >>> model = rbd.add_constraints(rbd.load("double_pendulum"), slider)
    >>> print(rbd.constraint_jacobian(model, jnp.array([0.5, -1.0])))
    [[-1.755 -0.878]]
    """
    return matrix_of(Motion(model, q)).matrix


@takes(q=configuration, multipliers=anything)
def constraint_force(
    model: Model, q: Float[Array, "nq"], multipliers: Float[Array, "m"]
) -> Float[Array, "nv"]:
    """Returns `Gᵀ λ`, the generalized forces of the constraints, in O(n) and without the matrix.

    >>> slider = rbd.constraints.PointOnPlane("world", (0, 0, 0), (1, 0, 0), "lower", (0, 0, -1))
    >>> model = rbd.add_constraints(rbd.load("double_pendulum"), slider)
    >>> print(rbd.constraint_force(model, jnp.array([0.5, -1.0]), jnp.array([10.0])))
    [-17.552  -8.776]
    """
    rows = sum(constraint.rows for constraint in model.constraints)
    if jnp.shape(multipliers) != (rows,):
        raise ValueError(
            f"constraint_force: multipliers has shape {jnp.shape(multipliers)}; the constraints of model {model.name!r} have "
            f"{rows} rows, so it must be ({rows},)"
        )
    return matrix_of(Motion(model, q)).transposed(multipliers)


@takes(q=configuration, v=velocity)
def constraint_velocity(model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, "m"]:
    """Returns `G v + g_t`, the rate of the residual, or the left side of velocity constraints.

    `g_t` is the explicit time derivative.

    >>> slider = rbd.constraints.PointOnPlane("world", (0, 0, 0), (1, 0, 0), "lower", (0, 0, -1))
    >>> model = rbd.add_constraints(rbd.load("double_pendulum"), slider)
    >>> print(rbd.constraint_velocity(model, jnp.array([0.5, -1.0]), jnp.array([1.0, 0.0])))
    [-1.755]
    """
    return rate_of(Motion(model, q, v))


@takes(q=configuration, v=velocity)
def constraint_bias(model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, "m"]:
    """Returns the second rate of the residual at zero acceleration: it is `G a + bias` (the book's -k, eqs. 3.44, 8.15).

    >>> slider = rbd.constraints.PointOnPlane("world", (0, 0, 0), (1, 0, 0), "lower", (0, 0, -1))
    >>> model = rbd.add_constraints(rbd.load("double_pendulum"), slider)
    >>> print(rbd.constraint_bias(model, jnp.array([0.5, -1.1]), jnp.array([1.0, 0.0])))
    [-0.085]
    """
    return bias_of(Motion(model, q, v))


# The same quantities for a model in motion.


def with_constraints(motion: Motion, *what: Literal["matrix", "bias"]) -> Motion:
    """Returns the motion with the frames of its constraints stored.

    Args:
      motion: The motion.
      what: Further quantities to store, for callers that need them more than once.
    """
    if not motion.model.constraints:
        return motion
    motion = motion.computed("frames").knowing("constraint groups", _placed)
    if "matrix" in what:
        motion = motion.knowing("constraint gradients", _gradients)
    if "bias" in what:
        motion = motion.computed("twists", "velocity_products").knowing(
            "constraint bias", bias_of, velocity=True
        )
    return motion


def motion_of_constraints(motion: Motion, constraints: Sequence[Constraint]) -> Motion:
    """Returns the motion of the same tree with these constraints in place of its attachments.

    The stored kinematic quantities are shared.
    """
    model = replace(motion.model, attached=tuple(constraints))
    shared = lambda stored: {key: x for key, x in stored.items() if not key.startswith("constraint")}
    return changed(
        motion,
        model=model,
        of_configuration=shared(motion.of_configuration),
        of_velocity=shared(motion.of_velocity),
    )


def residual_of(motion: Motion) -> Float[Array, "m"]:
    """Returns `constraint_residual` of a model in motion."""
    return _collect(motion.model, [group.of("residual").reshape(-1) for group in _groups(motion)])


def rate_of(motion: Motion) -> Float[Array, "m"]:
    """Returns `constraint_velocity` of a model in motion."""
    if not motion.model.constraints:
        return _collect(motion.model, [])
    motion = motion.computed("twists")
    rates = [group.of("rate", *group.seen(motion)).reshape(-1) for group in _groups(motion)]
    return _collect(motion.model, rates)


def bias_of(motion: Motion) -> Float[Array, "m"]:
    """Returns `constraint_bias` of a model in motion."""
    if (known := motion.known("constraint bias")) is not None:
        return known
    if not motion.model.constraints:
        return _collect(motion.model, [])
    motion, biases = motion.computed("twists", "bias_accelerations"), []
    for group in _groups(motion):
        twists, speeds = group.seen(motion)
        accelerations = group.twists(with_zero_row(motion.bias_accelerations))
        biases.append(group.of("bias", twists, speeds, accelerations).reshape(-1))
    return _collect(motion.model, biases)


def matrix_of(motion: Motion) -> ConstraintMatrix:
    """Returns G of a model in motion."""
    known = motion.known("constraint gradients")
    return ConstraintMatrix(motion, _gradients(motion) if known is None else known)


def constraint_rows(model: Model) -> tuple[slice, ...]:
    """Returns the entries of residuals and multipliers of each constraint.

    >>> pin = rbd.constraints.Connect("world", (0.0, 0.0, -2.0), "lower", (0.0, 0.0, -1.0))
    >>> coupling = rbd.constraints.CoordinateCoupling({"elbow": (0.0, 1.0), "shoulder": (0.0, -1.0)})
    >>> print(rbd.constraints.constraint_rows(rbd.add_constraints(rbd.load("double_pendulum"), pin, coupling)))
    (slice(0, 3, None), slice(3, 4, None))
    """
    ends = np.cumsum([0, *(constraint.rows for constraint in model.constraints)])
    return tuple(slice(int(a), int(b)) for a, b in zip(ends[:-1], ends[1:]))


def holonomic(model: Model) -> np.ndarray:
    """Returns a flag per equation: True for a position constraint, False for a constraint on velocities alone."""
    return np.array([row for one in model.constraints for row in one.holonomic], bool)


def constraint_scales(model: Model) -> Float[Array, "m"]:
    """Returns the scale of each equation: one radian for an angle, the reach of the mechanism for a length."""
    angles = np.array([angle for one in model.constraints for angle in one.angles], bool)
    return jnp.where(angles, jnp.ones((), model.dtype), reach(model))


def reach(model: Model) -> Float[Array, ""]:
    """Returns the length of a mechanism when it is stretched out: the sum of the lengths of its bodies along the tree.

    A body's length is the distance from its own joint to the next, and at the end to its center of mass or a constraint's
    frame. If all lengths are zero, the reach is one.

    >>> print(rbd.constraints.reach(rbd.load("double_pendulum")))
    2.0
    """
    parents = np.array(model.topology.parents, int)
    # The position of a mechanism in the world does not count as a length.
    links = jnp.where(parents < 0, 0, _lengths(model.placements.position))
    joints = Tree(model.topology.parents).path_sum(links)
    ends = [joints, joints + _lengths(model.inertias.com)]
    for one in model.constraints:
        slots = [slot for slot, body in enumerate(one.bodies) if body != "world"]
        bodies = [_body(model, one.bodies[slot]) for slot in slots]
        ends.append(gather(joints, bodies) + _lengths(gather(one.frames.position, slots)))
    reached = jnp.max(jnp.concatenate(ends), initial=0)
    return jnp.where(reached > 0, reached, 1)


def _lengths(vectors: Float[Array, "n 3"]) -> Float[Array, "n"]:
    """Returns the lengths of vectors, with a zero derivative for zero vectors."""
    square = jnp.sum(vectors**2, axis=1)
    some = square > 0
    return jnp.where(some, jnp.sqrt(jnp.where(some, square, 1)), 0)


class _Group(eqx.Module):
    """Constraints that are evaluated together.

    - `constraint`: All of them, with their leaves stacked.
    - `placements`: The placements of their frames from the root of their tree, (g, k).
    - `shifts`: The shifts of the placements to a common origin.
    - `members`: The indices of the constraints in the model.
    - `bodies`, `q_entries`, `v_entries`: For each constraint, the bodies (the world is the last) and the coordinates.
    """

    constraint: Constraint
    placements: Transform
    shifts: Float[Array, "g k 3"]
    coordinates: Float[Array, "g j"]
    members: tuple[int, ...] = eqx.field(static=True)
    bodies: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    q_entries: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    v_entries: tuple[tuple[int, ...], ...] = eqx.field(static=True)

    def of(self, method: str, *arguments):
        """Returns the results of a method for all the constraints: (g, ...)."""
        placements = Transform(self.placements.rotation, self.placements.position + self.shifts)

        def one(constraint, *arguments):
            return getattr(constraint, method)(*arguments)

        return jax.vmap(one)(self.constraint, placements, self.coordinates, *arguments)

    def twists(self, motions: Float[Array, "bodies 6"]) -> Float[Array, "g k 6"]:
        """Converts motions of bodies to motions of the frames on them."""
        table = np.array(self.bodies, int)
        own = gather(motions, table.reshape(-1)).reshape(*table.shape, 6)
        return self.constraint.frames.inverse_motion(own)

    def rows(self, model: Model) -> list[np.ndarray]:
        """Returns the rows of each of the constraints."""
        rows = constraint_rows(model)
        return [np.arange(rows[index].start, rows[index].stop) for index in self.members]

    def seen(self, motion: Motion):
        """Returns the twists of the frames and the rates of the coordinates."""
        speeds = motion.model.joint_velocities(motion.v)
        return self.twists(with_zero_row(motion.twists)), _entries(speeds, self.v_entries)


def _groups(motion: Motion) -> list[_Group]:
    """Returns the constraints of a model in motion, grouped by structure."""
    if not motion.model.constraints:
        return []
    known = motion.known("constraint groups")
    return _placed(motion) if known is None else known


def _gradients(motion: Motion) -> list[_Gradients]:
    """Returns the Jacobians of all groups."""
    return [_Gradients(group, *group.of("jacobian")) for group in _groups(motion)]


def _placed(motion: Motion) -> list[_Group]:
    model, topology = motion.model, motion.model.topology
    coordinates, here = model.joint_configurations(motion.q), Transform.identity(motion.q.dtype)
    frames = jax.tree.map(lambda all, one: jnp.concatenate([all, one[None]]), motion.frames, here)
    carriers = np.append(topology.carriers, -1)
    origins = gather_or_zero(motion.common.origins, carriers)
    roots = np.append(topology.moving_tree.roots, -1)[carriers]
    groups = []
    for members, constraint in grouped(model.constraints):
        own = [model.constraints[index] for index in members]
        bodies = [tuple(_body(model, body) for body in one.bodies) for one in own]
        joints = [[topology.joint_index(joint) for joint in one.joints] for one in own]
        q_entries = [tuple(int(topology.joint_q(joint)[0]) for joint in row) for row in joints]
        v_entries = [tuple(int(topology.joint_v(joint)[0]) for joint in row) for row in joints]
        table = np.array(bodies, int)
        apart = np.zeros(len(own), bool)
        if table.size:
            apart = (roots[table] != roots[table[:, :1]]).any(axis=1)
        shifts = gather(origins, table.reshape(-1)).reshape(*table.shape, 3)
        shifts = jnp.where(apart[:, None, None], shifts, 0)
        at = frames.gather(table.reshape(-1))
        at = jax.tree.map(lambda x, shape=table.shape: x.reshape(*shape, *x.shape[1:]), at)
        groups.append(
            _Group(
                constraint,
                at @ constraint.frames,
                shifts,
                _entries(coordinates, q_entries),
                tuple(members),
                tuple(bodies),
                tuple(q_entries),
                tuple(v_entries),
            )
        )
    return groups


class _Gradients(eqx.Module):
    """The derivatives of the rates of a group by the twists of its frames, and by the rates of its coordinates."""

    group: _Group
    by_twists: Float[Array, "g rows k 6"]
    by_speeds: Float[Array, "g rows j"]


class ConstraintMatrix:
    """G of a model in motion, stored by group."""

    def __init__(self, motion: Motion, gradients: list[_Gradients]):
        self.motion, self.model, self.gradients = motion, motion.model, gradients

    def times(self, v: Float[Array, "nv"]) -> Float[Array, "m"]:
        """Returns `G v`."""
        model, tree = self.model, self.model.topology.tree
        columns = tree.path_sum(self.motion.common.subspace * to_columns(model, v)[:, None])
        bodies = with_zero_row(self.motion.in_bodies(gather(columns, model.topology.last_column)))
        coordinates = model.joint_velocities(v)
        rates = []
        for own in self.gradients:
            twists, speeds = own.group.twists(bodies), _entries(coordinates, own.group.v_entries)
            rate = jnp.sum(own.by_twists * twists[:, None], axis=(2, 3)) + jnp.sum(
                own.by_speeds * speeds[:, None], axis=2
            )
            rates.append(rate.reshape(-1))
        return _collect(model, rates)

    def transposed(self, multipliers: Float[Array, "m"]) -> Float[Array, "nv"]:
        """Returns `Gᵀ λ`: the wrenches of the multipliers, summed by body and then down the tree."""
        topology, dtype = self.model.topology, multipliers.dtype
        # A planar model has no constraints; its wrenches have three entries.
        wrenches, moving_bodies = [jnp.zeros((0, self.model.vector_size), dtype)], [np.zeros(0, int)]
        efforts, columns = [jnp.zeros(0, dtype)], [np.zeros(0, int)]
        for own in self.gradients:
            rows = np.concatenate(own.group.rows(self.model))
            forces = gather(multipliers, rows).reshape(own.by_twists.shape[:2])
            wrenches.append(
                own.group.placements.force(jnp.sum(own.by_twists * forces[:, :, None, None], axis=1)).reshape(
                    -1, 6
                )
            )
            moving_bodies.append(
                np.append(topology.carriers, -1)[np.array(own.group.bodies, int).reshape(-1)]
            )
            efforts.append(jnp.sum(own.by_speeds * forces[:, :, None], axis=1).reshape(-1))
            columns.append(topology.v_column[np.array(own.group.v_entries, int).reshape(-1)])
        forces = sum_rows(
            jnp.concatenate(wrenches), np.concatenate(moving_bodies), len(topology.moving_bodies)
        )
        direct = sum_rows(jnp.concatenate(efforts), np.concatenate(columns), topology.tree.size)
        return joint_forces(self.motion, forces) + from_columns(self.model, direct)

    @property
    def matrix(self) -> Float[Array, "m nv"]:
        """G as a dense matrix."""
        if not self.gradients:
            return jnp.zeros((0, self.model.nv), self.model.dtype)
        columns = [transpose(self._columns(own)) for own in self.gradients]
        return transpose(from_columns(self.model, transpose(_collect(self.model, columns))))

    def _columns(self, own: _Gradients) -> Float[Array, "n rows"]:
        """Returns `Gᵀ` of a group: the power of the unit forces of the multipliers at the motion of each column."""
        topology, common = self.model.topology, self.motion.common
        rows = own.by_twists.shape[1]
        total = jnp.zeros((topology.tree.size, own.by_twists.shape[0] * rows), common.subspace.dtype)
        carriers = np.append(topology.carriers, -1)
        nothing = np.zeros((1, topology.tree.size), bool)
        supports = np.concatenate([topology.tree.supports[topology.last_column], nothing])
        for slot in range(own.by_twists.shape[2]):
            placement = Transform(
                own.group.placements.rotation[:, slot], own.group.placements.position[:, slot]
            )
            spread = jax.tree.map(lambda x: x[:, None], placement)
            wrenches = spread.force(own.by_twists[:, :, slot]).reshape(-1, 6)
            moved = supports[carriers[np.array(own.group.bodies, int)[:, slot]]]
            moved = np.repeat(moved, rows, axis=0).T
            total = total + jnp.where(moved, products(common.subspace, wrenches), 0)
        for slot in range(own.by_speeds.shape[2]):
            entries = topology.v_column[np.array(own.group.v_entries, int)[:, slot]]
            driven = np.repeat(entries, rows)[None, :] == np.arange(topology.tree.size)[:, None]
            total = total + jnp.where(driven, own.by_speeds[:, :, slot].reshape(1, -1), 0)
        return total

    def attachments(self) -> tuple[Float[Array, "w 6"], Float[Array, "c"]]:
        """Returns the unit forces of each multiplier on bodies and on coordinates.

        Forces on bodies are about the moving body's origin, in the world's axes. The order is by constraint, then by body or
        coordinate, then by row.
        """
        topology, common = self.model.topology, self.motion.common
        dtype = common.subspace.dtype
        origins = with_zero_row(common.placements.position)
        wrenches, efforts = [jnp.zeros((0, 6), dtype)], [jnp.zeros(0, dtype)]
        counts = np.zeros((2, len(self.model.constraints)), int)
        for own in self.gradients:
            table = np.array(own.group.bodies, int)
            origin = gather(origins, np.append(topology.carriers, -1)[table.reshape(-1)]).reshape(
                *table.shape, 3
            )
            about = Transform(own.group.placements.rotation, own.group.placements.position - origin)
            spread = jax.tree.map(lambda x: x[:, :, None], about)
            wrenches.append(spread.force(jnp.swapaxes(own.by_twists, 1, 2)).reshape(-1, 6))
            efforts.append(jnp.swapaxes(own.by_speeds, 1, 2).reshape(-1))
            counts[:, list(own.group.members)] = [[own.by_twists[0, :, :, 0].size], [own.by_speeds[0].size]]
        members = [member for own in self.gradients for member in own.group.members]
        of_bodies, of_coordinates = (_laid_out(members, count) for count in counts)
        return gather(jnp.concatenate(wrenches), of_bodies), gather(jnp.concatenate(efforts), of_coordinates)


def _laid_out(members: list[int], counts) -> np.ndarray:
    """Returns the permutation from the concatenated groups to the order of the constraints."""
    owners = np.concatenate([np.zeros(0, int), *[np.full(counts[member], member) for member in members]])
    return np.argsort(owners, kind="stable")


def _collect(model: Model, parts: list) -> Float[Array, "m ..."]:
    """Concatenates the results of the groups, one row per equation, in the order of the constraints."""
    if not parts:
        return jnp.zeros(0, model.dtype)
    members = [index for members, _ in grouped(model.constraints) for index in members]
    counts = [one.rows for one in model.constraints]
    return gather(jnp.concatenate(parts), _laid_out(members, counts))


def _entries(x, entries):
    table = np.array(entries, int).reshape(len(entries), -1)
    return gather(x, table.reshape(-1)).reshape(table.shape)


def _body(model: Model, body: str) -> int:
    return model.nb if body == "world" else model.body_index(body)
