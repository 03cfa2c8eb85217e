"""The algorithms of the book in body coordinates (tables 5.1, 6.2 and 6.3), for models with known parameters.

The rest of this library works in one common frame: vectors pass from body to body unchanged, and every inertia is rotated to
the common axes. For known model parameters, body coordinates cost less. The inertia of a body is constant in its own frame, and
well-chosen frames reduce the cost of the remaining transformations between frames (§10.3.1):

- The frame of a body on a revolute or prismatic joint follows Denavit and Hartenberg. Its z is the joint axis, its origin
  lies on the common perpendicular with the preceding axis, and x is along the common perpendicular to the axis of the first
  child. The transform to another frame is then a rotation about x and a rotation about z, with four multiplications each, and a
  translation with two coordinates.
- The part of a body's inertia that moves exactly as the parent does is transferred to the parent (§9.7). About a hinge, this
  part is a mass, its first moment and its second moment along the axis, so that three of the ten parameters vanish. Along a
  slide, it is the second moment of mass in all directions.

An inertia consists of a mass, a first moment and a second moment `K = Σ m r rᵀ`. Products with the acceleration
matrix `Ω = ω̇× + ω×ω×` give forces and moments: `f = m a + Ω h`, and `n` is `h × a` plus the axial part of `Ω K`.
Only angular velocities are needed.

In a tree only one child of each body has such a frame; the book counts the extra cost of the others (eqs. 10.4 to 10.12).

Loops over bodies are Python loops, so the traced program grows with the model. The functions serve `rbd_jax.specialize`.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.array import cross, dot, is_known, matvec, vecmat
from ..joints import Prismatic, Revolute
from ..model import Model, Tree
from ..model.lumping import moving_inertias, moving_placements
from .columns import from_columns, to_columns
from .external import ExternalForces, external_forces
from .factorization import dof_tree, ltdl_by_reciprocals, pack
from .inverse import joint_forces
from .motion import Motion


#: Angles and distances below this multiple of the rounding error count as zero, so that axes are parallel or intersect.
ROUNDING = 64


class Turn:
    """A rotation from a body's frame to its parent's, as a product of rotations about axes or of general matrices.

    - `factors`: from the parent's side: `("x" | "z", cosine, sine)` or a matrix.
    """

    def __init__(self, factors):
        self.factors = factors

    def up(self, x: Float[Array, "3"]) -> Float[Array, "3"]:
        """Transforms a vector from the body's axes to the parent's."""
        for factor in reversed(self.factors):
            x = _turned(factor, x, 1)
        return x

    def down(self, x: Float[Array, "3"]) -> Float[Array, "3"]:
        """Transforms a vector from the parent's axes to the body's."""
        for factor in self.factors:
            x = _turned(factor, x, -1)
        return x

    def tensor_up(self, k: Float[Array, "3 3"]) -> Float[Array, "3 3"]:
        """Transforms a symmetric matrix from the body's axes to the parent's."""
        for factor in reversed(self.factors):
            k = _turned_tensor(factor, k)
        return k


def _turned(factor, x, sign):
    if not isinstance(factor, tuple):
        return matvec(factor, x) if sign > 0 else vecmat(x, factor)
    axis, c, s = factor
    s = s if sign > 0 else -s
    if axis == "z":
        return jnp.stack([c * x[0] - s * x[1], s * x[0] + c * x[1], x[2]])
    return jnp.stack([x[0], c * x[1] - s * x[2], s * x[1] + c * x[2]])


def _turned_tensor(factor, k):
    """Rotates a symmetric matrix (§A.5): eight multiplications, and two for `s²` and `c s`."""
    if not isinstance(factor, tuple):
        return _product(factor, _product(factor, k).T)
    axis, c, s = factor
    i, j, o = (0, 1, 2) if axis == "z" else (1, 2, 0)
    square, product = s * s, c * s
    difference = k[j, j] - k[i, i]
    change = square * difference - (product + product) * k[i, j]
    mixed = (1 - (square + square)) * k[i, j] - product * difference
    entries = {
        (i, i): k[i, i] + change,
        (j, j): k[j, j] - change,
        (i, j): mixed,
        (i, o): c * k[i, o] - s * k[j, o],
        (j, o): s * k[i, o] + c * k[j, o],
        (o, o): k[o, o],
    }
    entries |= {(b, a): x for (a, b), x in entries.items()}
    return jnp.stack([jnp.stack([entries[a, b] for b in range(3)]) for a in range(3)])


def _product(a, b):
    return jnp.stack([vecmat(row, b) for row in a])


@dataclass
class Link:
    """A moving body in the frame chosen for it.

    - `parent`: the index of its parent among the moving bodies, or -1.
    - `turn`, `reach`: the rotation from its frame to its parent's, and the position of its origin in the parent's frame.
    - `joint`: "revolute" or "prismatic" about or along z, or the matrix of the joint's motion subspace: (6, k).
    - `columns`: the columns of its degrees of freedom.
    - `rate`, `product`: the joint's velocity without `S q̇` and its acceleration without `S q̈`, or None.
    - `mass`, `first`, `second`: its inertia, with `Σ m r rᵀ` as the second moment.
    """

    parent: int
    turn: Turn
    reach: Array
    joint: object
    columns: list[int]
    rate: Array | None
    product: Array | None
    mass: Array
    first: Array
    second: Array


def links(model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"] | None = None) -> list[Link]:
    """Returns the moving bodies of a model, in the frames that minimize the arithmetic."""
    topology = model.topology
    bodies = [int(body) for body in topology.moving_bodies]
    # Known model parameters stay known while a function is traced.
    with jax.ensure_compile_time_eval():
        placements, inertias = moving_placements(model), moving_inertias(model)
        joints = [model.joint(body) for body in bodies]
        places = [(placements.rotation[i], placements.position[i]) for i in range(len(bodies))]
    coordinates = model.joint_configurations(q)
    velocities = None if v is None else model.joint_velocities(v)
    parents = [int(parent) for parent in topology.moving_tree.parents]
    plain = [type(joint) in (Revolute, Prismatic) for joint in joints]
    known = is_known((placements, [joint for joint, is_plain in zip(joints, plain) if is_plain]))
    frames = _frames(placements, joints, parents, plain) if known else None

    found = []
    for index, (body, parent, joint) in enumerate(zip(bodies, parents, joints)):
        own = (
            jnp.stack([coordinates[int(i)] for i in topology.joint_q(body)]) if joint.nq else coordinates[:0]
        )
        last, width = int(topology.last_column[index]), int(topology.column_counts[index])
        columns = list(range(last - width + 1, last + 1))
        mass, first = inertias.mass[index], inertias.first_moment[index]
        second = _second_moment(inertias.rotational_matrix[index])
        rotation, position = places[index]
        above = np.eye(3), np.zeros(3)
        if frames is not None and parent >= 0:
            above = frames[parent]
        rate = product = None
        if frames is not None and plain[index]:
            turn, reach, kind = _axial(above, frames[index], rotation, position, joint, own[0])
            chosen = frames[index]
        else:
            local = joint.transform(own)
            down = jnp.asarray(above[0].T, model.dtype)
            turn = Turn(
                [jnp.asarray(above[0].T @ rotation if known else _product(down, rotation)), local.rotation]
            )
            offset = position + matvec(rotation, local.position) - jnp.asarray(above[1], model.dtype)
            reach, chosen = matvec(down, offset), (np.eye(3), np.zeros(3))
            kind = joint.motion_subspace(own) if joint.nv else jnp.zeros((6, 1), q.dtype)
            if joint.rheonomic and velocities is not None:
                rate = joint.drift(own)
            if velocities is not None and joint.nv + joint.rheonomic:
                speeds = (
                    jnp.stack([velocities[int(i)] for i in topology.joint_v(body)])
                    if joint.nv
                    else velocities[:0]
                )
                product = joint.velocity_product(own, speeds)
        if frames is not None:
            mass, first, second = _in_frame(chosen, mass, first, second)
        found.append(Link(parent, turn, reach, kind, columns, rate, product, mass, first, second))
    return _regrouped(found, is_known(model.inertias) and frames is not None)


def _second_moment(rotational):
    """Converts a rotational inertia `Σ m (r² 1 - r rᵀ)` to `Σ m r rᵀ`."""
    half = (rotational[0, 0] + rotational[1, 1] + rotational[2, 2]) / 2
    return half * jnp.eye(3, dtype=rotational.dtype) - rotational


def _in_frame(frame, mass, first, second):
    """Returns an inertia in another frame on the same body."""
    rotation, origin = (jnp.asarray(x, first.dtype) for x in frame)
    moved = first - mass * origin
    spread = first[:, None] * origin[None, :]
    second = second - spread - spread.T + mass * (origin[:, None] * origin[None, :])
    return mass, vecmat(moved, rotation), _product(rotation.T, _product(second, rotation))


# Frames.


def _frames(placements, joints, parents, plain):
    """Returns the frame (rotation and origin) of each body in its joint's successor frame; all its joints must be known."""
    rotations, positions = (np.asarray(x, np.float64) for x in (placements.rotation, placements.position))
    epsilon = ROUNDING * float(np.finfo(np.asarray(placements.position).dtype).eps)
    first_child = {}
    for index, parent in enumerate(parents):
        if plain[index]:
            first_child.setdefault(parent, index)
    frames = []
    for index, parent in enumerate(parents):
        if not plain[index]:
            frames.append((np.eye(3), np.zeros(3)))
            continue
        z = _unit(np.asarray(joints[index].axis, np.float64))
        # The preceding axis, in this frame at q = 0. The axis of a slide has no position; it passes through the frame's origin.
        before = None
        if parent >= 0 and plain[parent]:
            above, origin = frames[parent]
            before = rotations[index].T @ above[:, 2], rotations[index].T @ (origin - positions[index])
        at = np.zeros(3)
        turns = isinstance(joints[index], Revolute)
        if before is not None and turns:
            at = _foot(before, z, epsilon)
        x = None
        child = first_child.get(index)
        if child is not None:
            axis = rotations[child] @ _unit(np.asarray(joints[child].axis, np.float64))
            x = _perpendicular(z, at, axis, positions[child], isinstance(joints[child], Revolute), epsilon)
        if x is None:
            x = _any_perpendicular(z)
        frames.append((np.stack([x, np.cross(z, x), z], axis=1), at))
    return frames


def _unit(x):
    return x / np.linalg.norm(x)


def _any_perpendicular(z):
    x = np.eye(3)[np.argmin(np.abs(z))]
    return _unit(x - (x @ z) * z)


def _foot(before, z, epsilon):
    """Returns the foot on the axis z through zero of the common perpendicular with the preceding axis, if not parallel.

    For parallel axes it is the point next to the origin of the preceding axis.
    """
    axis, point = before
    normal = np.cross(axis, z)
    square = normal @ normal
    if square < epsilon**2:
        return (point @ z) * z
    return (np.cross(point, axis) @ normal / square) * z


def _perpendicular(z, at, axis, point, turns, epsilon):
    """Returns the direction of the common perpendicular from the axis z through `at` to another axis, or None."""
    normal = np.cross(z, axis)
    size = np.linalg.norm(normal)
    if size > epsilon:
        return normal / size
    between = point - at
    between = between - (between @ z) * z
    far = np.linalg.norm(between)
    return between / far if turns and far > epsilon * (1 + np.linalg.norm(point)) else None


def _axial(above, own, rotation, position, joint, q):
    """Returns rotation, translation and type of a revolute or prismatic joint, from the chosen frame to its parent's."""
    dtype = q.dtype
    epsilon = ROUNDING * float(np.finfo(dtype).eps)
    rotation, position = np.asarray(rotation, np.float64), np.asarray(position, np.float64)
    fixed = above[0].T @ rotation @ own[0]
    at = above[0].T @ (position + rotation @ own[1] - above[1])
    at = np.where(np.abs(at) > epsilon * (1 + np.abs(at).max()), at, 0)
    # Rz(first) Rx(twist) Rz(last).
    cosine, sine = fixed[2, 2], np.hypot(fixed[0, 2], fixed[1, 2])
    if sine > epsilon:
        first, last = np.arctan2(fixed[0, 2], -fixed[1, 2]), np.arctan2(fixed[2, 0], fixed[2, 1])
    else:
        first, last, sine, cosine = 0.0, np.arctan2(-fixed[0, 1], fixed[0, 0]), 0.0, np.sign(cosine)
    if abs(first) > np.pi / 2:  # the twist may be negative instead
        first, last, sine = first - np.copysign(np.pi, first), last + np.pi, -sine
    constant = lambda x: jnp.asarray(_round(x, epsilon), dtype)
    factors = [] if abs(first) < epsilon else [("z", constant(np.cos(first)), constant(np.sin(first)))]
    factors.append(("x", constant(cosine), constant(sine)))
    last = (last + np.pi) % (2 * np.pi) - np.pi
    fixed_turn = ("z", constant(np.cos(last)), constant(np.sin(last)))
    if isinstance(joint, Revolute):
        # For multiples of 90°, use the cosine and sine of q; otherwise those of q + last.
        quarter = round(last / (np.pi / 2))
        if abs(last - quarter * np.pi / 2) < epsilon:
            c, s = jnp.cos(q), jnp.sin(q)
            c, s = ((c, s), (-s, c), (-c, -s), (s, -c))[quarter % 4]
        else:
            c, s = jnp.cos(q + constant(last)), jnp.sin(q + constant(last))
        return Turn([*factors, ("z", c, s)]), jnp.asarray(at, dtype), "revolute"
    along = jnp.asarray(_rounded(fixed[:, 2], epsilon), dtype) * q
    return Turn([*factors, fixed_turn]), jnp.asarray(at, dtype) + along, "prismatic"


def _round(x, epsilon):
    """Returns a cosine or sine, rounded to 0 or ±1 where it differs by rounding error only."""
    nearest = np.round(x)
    return nearest if abs(x - nearest) < epsilon else x


def _rounded(x, epsilon):
    return np.array([_round(entry, epsilon) for entry in x])


def _regrouped(found: list[Link], known: bool) -> list[Link]:
    """Transfers the inertia that moves with the parent to the parent (§9.7)."""
    if not known:
        return found
    for index in reversed(range(len(found))):
        link = found[index]
        if link.joint == "revolute" and all(isinstance(x, tuple) for x in link.turn.factors):
            # A rod on the axis: its mass, its first moment along z and its second moment along z.
            fixed = Turn(link.turn.factors[:-1])
            mass, along, spread = link.mass, link.first[2], link.second[2, 2]
            z = jnp.array([0, 0, 1], link.first.dtype)
            moved = mass, along * z, spread * (z[:, None] * z[None, :])
            link.mass, link.first = jnp.zeros_like(mass), link.first * (1 - z)
            link.second = link.second - moved[2]
            # The products x z and y z rotate with the body, so they remain.
        elif link.joint == "prismatic":
            fixed = link.turn
            moved = jnp.zeros_like(link.mass), jnp.zeros_like(link.first), link.second
            link.second = jnp.zeros_like(link.second)
            if link.parent < 0:
                continue
            parent = found[link.parent]
            parent.second = parent.second + fixed.tensor_up(moved[2])
            continue
        else:
            continue
        if link.parent >= 0:
            parent = found[link.parent]
            mass, first, second = _carried(fixed, link.reach, *moved)
            parent.mass, parent.first, parent.second = (
                parent.mass + mass,
                parent.first + first,
                parent.second + second,
            )
    return found


def _carried(turn: Turn, reach, mass, first, second):
    """Returns an inertia in the parent's frame."""
    first, second = turn.up(first), turn.tensor_up(second)
    spread = first[:, None] * reach[None, :]
    moved = second + (spread + spread.T) + mass * (reach[:, None] * reach[None, :])
    return mass, first + mass * reach, moved


# Algorithms.


def newton_euler(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"] | None,
    a: Float[Array, "nv"] | None,
    f_ext: ExternalForces = None,
    gravity: bool = True,
) -> Float[Array, "nv"]:
    """Computes `inverse_dynamics` in body coordinates (table 5.1); None stands for zero `v` or `a`."""
    bodies = links(model, q, v)
    tau = _newton_euler(model, bodies, v, a, gravity)
    if f_ext is not None:
        motion = Motion(model, q)
        external = external_forces(motion, f_ext)
        tau = tau if external is None else tau - joint_forces(motion, external)
    return tau


def _newton_euler(model: Model, bodies: list[Link], v, a, gravity):
    dtype = model.dtype
    zero = jnp.zeros(3, dtype)
    speeds, rates = (None if x is None else to_columns(model, x) for x in (v, a))
    count = model.topology.tree.size
    moving = []
    forces = []
    for link in bodies:
        if link.parent < 0:
            above = zero, zero, (-model.gravity if gravity else zero), jnp.zeros((3, 3), dtype)
        else:
            above = moving[link.parent]
        spin, change, acceleration, matrix = above
        turned = link.turn.down(spin)
        acceleration = link.turn.down(acceleration + matvec(matrix, link.reach))
        change = link.turn.down(change)
        own, own_rate = _joint_motion(link, speeds, rates, dtype)
        change = change + own_rate[:3] + cross(turned, own[:3])
        acceleration = acceleration + own_rate[3:] + 2 * cross(turned, own[3:]) + cross(own[:3], own[3:])
        spin = turned + own[:3]
        matrix = _acceleration_matrix(spin, change)
        moving.append((spin, change, acceleration, matrix))
        force = link.mass * acceleration + matvec(matrix, link.first)
        moment = cross(link.first, acceleration) + _axial_part(matrix, link.second)
        forces.append((force, moment))
    tau: list[Array | None] = [None] * count
    for index in reversed(range(len(bodies))):
        link = bodies[index]
        force, moment = forces[index]
        if link.joint == "revolute":
            tau[link.columns[0]] = moment[2]
        elif link.joint == "prismatic":
            tau[link.columns[0]] = force[2]
        else:
            whole = jnp.concatenate([moment, force])
            for place, column in enumerate(link.columns):
                tau[column] = dot(link.joint[:, place], whole)  # pyright: ignore[reportIndexIssue]
        if link.parent >= 0:
            force, moment = link.turn.up(force), link.turn.up(moment)
            before = forces[link.parent]
            forces[link.parent] = before[0] + force, before[1] + moment + cross(link.reach, force)
    total = jnp.stack(tau) if count else jnp.zeros(0, dtype)  # pyright: ignore[reportArgumentType]
    total = from_columns(model, total)
    return total if a is None else total + model.armature * a


def _joint_motion(link: Link, speeds, rates, dtype):
    """Returns the velocity and the acceleration across a joint, `S q̇ + σ` and `S q̈ + c`."""
    own = jnp.zeros(6, dtype) if link.rate is None else link.rate
    own_rate = jnp.zeros(6, dtype) if link.product is None else link.product
    for place, column in enumerate(link.columns):
        if isinstance(link.joint, str):
            direction = jnp.asarray(np.eye(6)[2 if link.joint == "revolute" else 5], dtype)
        else:
            direction = link.joint[:, place]  # pyright: ignore[reportIndexIssue]
        own = own if speeds is None else own + direction * speeds[column]
        own_rate = own_rate if rates is None else own_rate + direction * rates[column]
    return own, own_rate


def _acceleration_matrix(spin, change):
    """Returns `Ω = ω̇× + ω× ω×`, which maps a position in the body to the acceleration there."""
    x, y, z = (spin[i] for i in range(3))
    xx, yy, zz, xy, xz, yz = x * x, y * y, z * z, x * y, x * z, y * z
    return jnp.stack(
        [
            jnp.stack([-(yy + zz), xy - change[2], xz + change[1]]),
            jnp.stack([xy + change[2], -(xx + zz), yz - change[0]]),
            jnp.stack([xz - change[1], yz + change[0], -(xx + yy)]),
        ]
    )


def _axial_part(matrix, second):
    """Returns `Σ m r × (Ω r)` from the second moment: the differences of `Ω K` across its diagonal."""
    parts = []
    for i, j in ((1, 2), (2, 0), (0, 1)):
        o = 3 - i - j
        parts.append(
            second[i, o] * matrix[j, o]
            - second[j, o] * matrix[i, o]
            + second[i, j] * (matrix[j, j] - matrix[i, i])
            + second[i, i] * matrix[j, i]
            - second[j, j] * matrix[i, j]
        )
    return jnp.stack(parts)


def composite_bodies(model: Model, q: Float[Array, "nq"]) -> Float[Array, "nv nv"]:
    """Computes `mass_matrix` in body coordinates (table 6.2)."""
    bodies = links(model, q)
    matrix = _composite_bodies(model, bodies)
    reduced = from_columns(model, from_columns(model, matrix).T)
    return reduced + jnp.where(np.eye(model.nv, dtype=bool), model.armature, 0)


def _composite_bodies(model: Model, bodies: list[Link]):
    composite = [(link.mass, link.first, link.second) for link in bodies]
    for index in reversed(range(len(bodies))):
        link = bodies[index]
        if link.parent >= 0:
            moved = _carried(link.turn, link.reach, *composite[index])
            composite[link.parent] = tuple(x + y for x, y in zip(composite[link.parent], moved))  # pyright: ignore
    count = model.topology.tree.size
    nothing = jnp.zeros((), model.dtype)
    entries = [[nothing] * count for _ in range(count)]
    for index, link in enumerate(bodies):
        for place, column in enumerate(link.columns):
            moment, force = _momentum(link, place, *composite[index])
            at = index
            while True:
                carrier = bodies[at]
                for other, row in enumerate(carrier.columns):
                    entries[row][column] = entries[column][row] = _along(carrier, other, moment, force)
                if carrier.parent < 0:
                    break
                force, moment = carrier.turn.up(force), carrier.turn.up(moment)
                moment = moment + cross(carrier.reach, force)
                at = carrier.parent
    return jnp.stack([jnp.stack(row) for row in entries]) if count else jnp.zeros((0, 0), model.dtype)


def _momentum(link: Link, place: int, mass, first, second):
    """Returns the momentum (moment and force) of an inertia that moves along one column of a joint."""
    if link.joint == "revolute":
        z_column = jnp.stack([-second[0, 2], -second[1, 2], second[0, 0] + second[1, 1]])
        return z_column, jnp.stack([-first[1], first[0], jnp.zeros_like(mass)])
    if link.joint == "prismatic":
        zero = jnp.zeros_like(mass)
        return jnp.stack([first[1], -first[0], zero]), jnp.stack([zero, zero, mass])
    direction = link.joint[:, place]  # pyright: ignore[reportIndexIssue]
    turning, sliding = direction[:3], direction[3:]
    trace = second[0, 0] + second[1, 1] + second[2, 2]
    moment = trace * turning - matvec(second, turning) + cross(first, sliding)
    return moment, mass * sliding - cross(first, turning)


def _along(link: Link, place: int, moment, force):
    """Returns the power of a force along one column of a joint."""
    if link.joint == "revolute":
        return moment[2]
    if link.joint == "prismatic":
        return force[2]
    return dot(link.joint[:, place], jnp.concatenate([moment, force]))  # pyright: ignore[reportIndexIssue]


def solve_by_factors(
    model: Model, matrix: Float[Array, "nv nv"], rhs: Float[Array, "nv"]
) -> Float[Array, "nv"]:
    """Returns `M⁻¹ rhs` by LTDL along the tree (table 6.3), or dense LTDL with mimic joints, which destroy the sparsity."""
    if not model.nv:
        return rhs
    tree = Tree(range(-1, model.nv - 1)) if len(model.topology.mimic_joints) else dof_tree(model)
    factor, inverses = ltdl_by_reciprocals(tree, pack(tree, matrix))
    return factor.solve(factor.solve_transposed(rhs) * inverses)


def forward_by_factors(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    tau: Float[Array, "nv"],
    f_ext: ExternalForces = None,
) -> Float[Array, "nv"]:
    """Computes `forward_dynamics` from the mass matrix (§6.1), with the least work for few degrees of freedom."""
    return solve_by_factors(model, composite_bodies(model, q), tau - newton_euler(model, q, v, None, f_ext))
