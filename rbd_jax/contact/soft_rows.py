"""The rows of soft constraints of a model in motion, with MuJoCo's stiffness, damping and reference accelerations.

Each row has a position r, a velocity v, and softness parameters. The position must not be negative, or must be zero. `solimp`
defines the impedance d as a function of the position. `solref` is a time constant and a damping ratio or, if negative, stiffness
and damping. The reference acceleration of a row is `-B v - K d r`, and its stiffness is `D = d / ((1 - d) A)`. A approximates
the acceleration that a unit force causes along the row, in the reference configuration of the model.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from .._core.array import at_least, clamped, dot, gather, gather_or_zero, matmul, matvec
from .._core.branches import only_if
from .._core.derivatives import custom_jvp
from .._core.positive import solve_positive
from ..dynamics import Motion
from ..dynamics.floating import turning_rates
from ..dynamics.mass_matrix import composite_rigid_body
from ..forces.tendon import Tendon, Tendons, tendons_of
from ..model import Model
from .contacts import columns_that_move, contact_jacobian, of_pairs, point_jacobians
from .each import each
from .groups import Groups, rows_of_body
from .massless import centers_of_mass
from .solvers.terms import Cones, Coordinates, EllipticCones, Pyramids, Rows, Skipped, Term


#: MuJoCo's bounds on impedances, and its lower bound on divisors.
LEAST_IMPEDANCE, MOST_IMPEDANCE, TINY = 1e-4, 0.9999, 1e-15


class Mobilities(NamedTuple):
    """Approximate mobilities of degrees of freedom, bodies and tendons, in the reference configuration of a model.

    - `dof`: the acceleration of each degree of freedom by a unit force. Ball joints have the mean of their three, free joints
      the mean of each three.
    - `bodies`: the mean acceleration of the center of mass of each body by unit forces, and the mean angular one by torques.
    - `tendons`: the acceleration of the length by a unit tension, of tendons with limits or dry friction (`held_tendons`).
    - `tied`: the same for tendons in soft equality constraints (see `tied_tendons`).
    """

    dof: Float[Array, "nv"]
    bodies: Float[Array, "nb 2"]
    tendons: Float[Array, "t"]
    tied: Float[Array, "e"]


def mobilities(model: Model) -> Mobilities:
    """Returns the mobilities of a model. They do not depend on its motion."""
    motion = Motion(model, model.reference)
    inertia, topology = composite_rigid_body(motion), model.topology
    inverse = jax.vmap(solve_positive, in_axes=(None, 0))(inertia, jnp.eye(model.nv, dtype=inertia.dtype))
    diagonal = jnp.diagonal(inverse)
    means = np.eye(model.nv)
    for body in range(model.nb):
        size = int(topology.joint_nv[body])
        if topology.is_mimic[body] or size not in (3, 6) or model.joint(body).flat:
            continue
        own = np.arange(model.nv)[model.v_slice(body)]
        for part in np.split(own, size // 3):
            means[np.ix_(part, part)] = 1 / 3
    moved = jnp.asarray(columns_that_move(model, np.arange(model.nb)), inertia.dtype)
    centres = motion.world_frames.point(centers_of_mass(model))
    axes = jnp.broadcast_to(jnp.eye(3, dtype=inertia.dtype), (model.nb, 3, 3))
    j = point_jacobians(motion, moved, centres, axes)
    answers = jnp.sum(j * matmul(j, inverse), axis=2)
    bodies = jnp.stack([jnp.mean(answers[:, part], axis=1) for part in (slice(0, 3), slice(3, 6))], axis=1)
    arms = [Tendons(motion, some).moments for some in (held_tendons(model), tied_tendons(model))]
    tendons, tied = (dot(own, matmul(own, inverse)) for own in arms)
    return Mobilities(matvec(jnp.asarray(means, diagonal.dtype), diagonal), bodies, tendons, tied)


def held_tendons(model: Model) -> tuple[Tendon, ...]:
    """Returns the tendons of a model that have limits or dry friction."""
    return tuple(tendon for tendon in tendons_of(model) if tendon.held)


def tied_tendons(model: Model) -> tuple[Tendon, ...]:
    """Returns the tendons of all soft equality constraints of a model, in their order."""
    known = {tendon.name: tendon for tendon in tendons_of(model)}
    tied = model.attached_as("soft equality")
    return tuple(known[name] for one in tied for name in getattr(one, "tendons", ()))


class Softness(NamedTuple):
    """Impedance d of rows, and stiffness K and damping B of their reference accelerations."""

    impedance: Float[Array, "k"]
    stiffness: Float[Array, "k"]
    damping: Float[Array, "k"]


def softness(
    position: Float[Array, "k"],
    solref: Float[Array, "k 2"],
    solimp: Float[Array, "k 5"],
    least_time: Float[Array, ""],
) -> Softness:
    """Returns MuJoCo's impedance, stiffness and damping of rows at given positions.

    Time constants are at least `least_time`, so that a time step can resolve them.
    """
    least, most = (clamped(solimp[:, i], LEAST_IMPEDANCE, MOST_IMPEDANCE) for i in (0, 1))
    width, power = at_least(solimp[:, 2], 0), at_least(solimp[:, 4], 1)
    middle = clamped(solimp[:, 3], LEAST_IMPEDANCE, MOST_IMPEDANCE)
    wide = width > TINY
    x = jnp.where(wide, jnp.abs(position) / jnp.where(wide, width, 1), 1)
    inside = (x > 0) & (x < 1)
    x = jnp.where(inside, x, 0.5)
    rising = x <= middle
    base = jnp.where(rising, x / middle, (1 - x) / (1 - middle))
    raised = _power(base, power)
    share = jnp.where(rising, middle * raised, 1 - (1 - middle) * raised)
    beyond = jnp.abs(position) >= width
    share = jnp.where(inside, share, jnp.where(beyond, jnp.ones_like(share), 0))
    impedance = jnp.where(wide, least + share * (most - least), 0.5 * (least + most))
    time = jnp.where(solref[:, 0] > 0, at_least(solref[:, 0], least_time), 1)
    ratio = jnp.where(solref[:, 1] > 0, solref[:, 1], 1)
    stiffness = jnp.where(
        solref[:, 0] > 0, 1 / jnp.maximum(TINY, (most * time * ratio) ** 2), -solref[:, 0] / most**2
    )
    damping = jnp.where(solref[:, 1] > 0, 2 / (most * time), -solref[:, 1] / most)
    return Softness(impedance, stiffness, damping)


@custom_jvp
def _power(base, power):
    """Returns `base**power`. A power of two is by far the most common, and other powers are expensive."""
    return lax.cond(jnp.all(power == 2), lambda: base**2, lambda: base**power)


_power.defjvp(lambda at, change: jax.jvp(jnp.power, at, change))


class Hold(eqx.Module):
    """How reference accelerations and stiffness of rows are chosen."""

    @abc.abstractmethod
    def softness(
        self, position: Float[Array, "k"], solref: Float[Array, "k 2"], solimp: Float[Array, "k 5"]
    ) -> Softness:
        """Returns the softness of rows at given positions, with MuJoCo's parameters."""

    @abc.abstractmethod
    def near(self, position: Float[Array, "k"]) -> Bool[Array, "k"]:
        """Returns which rows may exert a force, of those whose position must not be below zero."""


class AsMujoco(Hold):
    """Springs and dampers as in MuJoCo, with time constants of at least `least_time`."""

    least_time: Float[Array, ""]

    def softness(self, position, solref, solimp):
        return softness(position, solref, solimp, self.least_time)

    def near(self, position):
        return position < 0


class WithinStep(Hold):
    """Rows that reach a position of zero at the end of a step, or move away from it, by a first-order prediction.

    - `step`: the time step.
    - `share`: the fraction of a negative position that one step removes.
    - `compliance`: the compliance of the rows relative to that of the bodies.
    """

    step: Float[Array, ""]
    share: Float[Array, ""]
    compliance: Float[Array, ""]

    def softness(self, position, solref, solimp):
        all_of = jnp.ones_like(position)
        impedance = all_of / (1 + self.compliance)
        share = jnp.where(position < 0, self.share, 1)
        return Softness(impedance, share / (self.step**2 * impedance), all_of / self.step)

    def near(self, position):
        return jnp.isfinite(position)


#: MuJoCo's least coefficient of friction.
LEAST_FRICTION = 1e-5


class Pushes(NamedTuple):
    """Kinematics and parameters of contacts with the same number of axes.

    - `rows`: the contact Jacobian.
    - `velocity`: the contact velocities, and `drift`, their rates of change without acceleration.
    - `friction`: the friction coefficients.
    - `wanted`: the reference acceleration along the normal.
    - `damping`: the damping across the normal.
    - `give`: the approximate mobility of both bodies.
    - `impedance`: the impedance.
    - `there`: whether a contact may exert a force.
    """

    rows: Float[Array, "n d k"]
    velocity: Float[Array, "n d"]
    drift: Float[Array, "n d"]
    friction: Float[Array, "n 5"]
    wanted: Float[Array, "n"]
    damping: Float[Array, "n"]
    give: Float[Array, "n"]
    impedance: Float[Array, "n"]
    there: Bool[Array, "n"]


class HeldContacts:
    """Groups of contacts of a model in motion, with their softness.

    Args:
      motion: The model in motion.
      groups: The groups.
      give: The mobilities of the model.
      hold: The rule for reference accelerations and stiffness.
    """

    def __init__(self, motion: Motion, groups: Groups, give: Mobilities, hold: Hold):
        self.motion, self.groups, self.hold = motion, groups, hold
        ends = groups.contacts.bodies(motion.model)
        first, second = (gather_or_zero(give.bodies[:, 0], ends[:, k]) for k in (0, 1))
        self.give: Float[Array, "g c"] = groups.stacked(of_pairs(groups.contacts, first + second))

    @property
    def acts(self) -> Bool[Array, "g"]:
        """True for each group in which a contact may exert a force."""
        found = self.groups.contacts
        return jnp.any(self.hold.near(self.groups.stacked(found.distance - found.margin)), axis=1)

    def each(self, compute: Callable[[Pushes], Any]) -> Any:
        """Applies `compute` to the `Pushes` of each group; returns zeros for groups that do not act."""
        return each(lambda own: only_if(own.acts, lambda: compute(self._pushes(own))), self._groups())

    def term(self, change: Callable[[Pushes], Pushes], cone: str, ratio: Float[Array, ""]) -> Skipped:
        """Returns the terms of all groups, after `change` has been applied to their `Pushes`."""
        held = lambda own: contact_term(change(self._pushes(own)), cone, ratio)
        return each(lambda own: Skipped(only_if(own.acts, lambda: held(own)), own.acts), self._groups())

    def _groups(self) -> _Group:
        motion, groups, found = self.motion, self.groups, self.groups.contacts
        # Velocities of floating bodies are along world axes. Without `a`, rows accelerate only by this rotation of the axes.
        v, turning = (groups.unknowns(motion, x) for x in (motion.v, turning_rates(motion)))
        hold = jax.tree.map(lambda x: jnp.broadcast_to(x, (len(self.give), *x.shape)), self.hold)
        own = {
            name: groups.stacked(getattr(found, name))
            for name in ("position", "frame", "friction", "solref", "solimp")
        }
        distance = groups.stacked(found.distance - found.margin)
        origin = None if groups.ends is None else groups.origins(motion)
        signs = jnp.asarray(groups.signs, v.dtype)
        return _Group(hold, self.acts, origin, signs, v, turning, self.give, distance, **own)

    def _pushes(self, own: _Group) -> Pushes:
        if own.origin is None:
            rows = self._rows_of_model()
        else:
            rows = rows_of_body(own.position, own.frame, own.origin, own.sign, self.groups.size)
        velocity, drift = (jnp.sum(rows * x[None, None], axis=2) for x in (own.v, own.turning))
        there = own.hold.near(own.distance)
        depth = jnp.where(there, own.distance, 0)
        soft = own.hold.softness(depth, own.solref, own.solimp)
        wanted = -soft.damping * velocity[:, 0] - soft.stiffness * soft.impedance * depth
        return Pushes(
            rows, velocity, drift, own.friction, wanted, soft.damping, own.give, soft.impedance, there
        )

    def _rows_of_model(self) -> Float[Array, "n d nv"]:
        """Returns the contact Jacobian of a group that depends on the whole model; zero rows for contacts that exert no force."""
        found, size = self.groups.contacts, self.groups.size
        if found.of_pair is not None:
            return contact_jacobian(self.motion, found, size)

        def one(own):
            row = jax.tree.map(lambda leaf: leaf[None], own)
            there = self.hold.near(row.distance - row.margin)[0]
            return only_if(
                there, lambda: contact_jacobian(self.motion, replace(row, condim=(size,)), size)[0]
            )

        return each(one, replace(found, lost=None, condim=()))


class _Group(NamedTuple):
    """The data from which the `Pushes` of a group are computed."""

    hold: Hold
    acts: Bool[Array, ""]
    origin: Float[Array, "3"] | None
    sign: Float[Array, ""]
    v: Float[Array, "k"]
    turning: Float[Array, "k"]
    give: Float[Array, "n"]
    distance: Float[Array, "n"]
    position: Float[Array, "n 3"]
    frame: Float[Array, "n 3 3"]
    friction: Float[Array, "n 5"]
    solref: Float[Array, "n 2"]
    solimp: Float[Array, "n 5"]


def stiffness_of(gives: Float[Array, "..."], impedance: Float[Array, "..."], there: Bool[Array, "..."]):
    """Returns `D = 1 / R` with `R = (1 - d) / d A`; zero for rows that exert no force."""
    r = jnp.maximum(TINY, (1 - impedance) / impedance * gives)
    return jnp.where(there, 1 / r, 0)


def contact_term(own: Pushes, cone: str, ratio: Float[Array, ""]) -> Rows | Cones:
    """Returns the term of contacts. Across the normal they are `ratio` times stiffer."""
    rows, size = own.rows, own.rows.shape[1]
    if size == 1:
        stiffness = stiffness_of(own.give, own.impedance, own.there)
        return Rows.one_sided(rows[:, 0], own.wanted - own.drift[:, 0], stiffness)
    mu = at_least(own.friction[:, : size - 1], LEAST_FRICTION)
    across = -own.damping[:, None] * own.velocity[:, 1:]
    wanted = jnp.concatenate([own.wanted[:, None], across], axis=1) - own.drift
    if cone == "pyramidal":
        first = stiffness_of(own.give * (1 + mu[:, 0] ** 2), own.impedance, own.there)
        # Scaled by the first edge, so that the pyramid is about as stiff as the cone.
        return Pyramids(rows, wanted, mu, first * ratio / (2 * mu[:, 0] ** 2))
    normal = stiffness_of(own.give, own.impedance, own.there)[:, None]
    stiffness = jnp.concatenate([normal, normal * ratio * (mu / mu[:, :1]) ** 2], axis=1)
    return EllipticCones(rows, wanted, mu, stiffness, mu[:, 0] / jnp.sqrt(ratio))


class StopNumbers(eqx.Module):
    """Softness parameters of the limits and the dry friction of degrees of freedom, or of tendons.

    - `limit`: margin, solref and solimp.
    - `friction`: solref and solimp.
    """

    limit: Float[Array, "n 8"]
    friction: Float[Array, "n 7"]


def joint_rows(
    motion: Motion,
    own: StopNumbers,
    give: Mobilities,
    hold: Hold,
    limits: bool,
    friction: bool,
) -> list[Term]:
    """Returns the terms of the limits of joints, below and above, and of their dry friction."""
    model = motion.model
    none, entries = jnp.full(1, jnp.inf, motion.q.dtype), limited_entries(model)
    of_dofs = lambda given: gather(jnp.concatenate([given, none]), entries)
    ends = (of_dofs(model.lower), of_dofs(model.upper)) if limits else None
    rubs = model.friction if friction else None
    rows = _stops(of_dofs(motion.q), motion.v, ends, rubs, own, give.dof, hold)
    return [_of_dofs(own) for own in (rows[:2], rows[2:]) if own] if limits else [_of_dofs(rows)]


def _of_dofs(rows: list[tuple]) -> Coordinates:
    sign, *rest = zip(*rows)
    return Coordinates(jnp.asarray(sign, rest[0][0].dtype)[:, None], *map(jnp.stack, rest))


def tendon_rows(
    motion: Motion,
    own: StopNumbers,
    give: Mobilities,
    hold: Hold,
    limits: bool,
    friction: bool,
) -> Rows:
    """Returns the term of the limits of tendons, below and above, and of their dry friction."""
    held = held_tendons(motion.model)
    known = Tendons(motion, held)
    of = lambda given, otherwise: jnp.asarray(otherwise if given is None else given, motion.q.dtype)
    low, high = jnp.stack([of(one.limits, (-jnp.inf, jnp.inf)) for one in held]).T
    rubs = jnp.stack([of(one.friction, 0.0) for one in held])
    rows = _stops(
        known.lengths,
        known.rates,
        (low, high) if limits else None,
        rubs if friction else None,
        own,
        give.tendons,
        hold,
    )
    sign, wanted, *rest = zip(*rows)
    arms = known.moments
    drift = matvec(arms, turning_rates(motion))
    return Rows(
        jnp.concatenate([side * arms for side in sign]),
        jnp.concatenate([one - side * drift for side, one in zip(sign, wanted)]),
        *map(jnp.concatenate, rest),
    )


def _stops(position, rate, ends, friction, own: StopNumbers, give, hold: Hold) -> list[tuple]:
    """Returns sign, reference, stiffness, and least and largest force of the rows of coordinates or lengths.

    The rows are lower and upper limits, if `ends` is given, and dry friction, if `friction` is given.
    """
    zero, infinite = jnp.zeros_like(rate), jnp.full_like(rate, jnp.inf)
    margin, soft_limit = own.limit[:, 0], (own.limit[:, 1:3], own.limit[:, 3:])
    rows = []
    for side, bound in zip((1.0, -1.0), () if ends is None else ends):
        stops = jnp.isfinite(bound)
        room = jnp.where(stops, side * (position - jnp.where(stops, bound, 0)), jnp.inf)
        there = hold.near(room - margin)
        depth = jnp.where(there, room - margin, 0)
        soft = hold.softness(depth, *soft_limit)
        wanted = -soft.damping * side * rate - soft.stiffness * soft.impedance * depth
        rows.append((side, wanted, stiffness_of(give, soft.impedance, there), zero, infinite))
    if friction is not None:
        soft = hold.softness(zero, own.friction[:, :2], own.friction[:, 2:])
        # Rows without friction stay, because derivatives by friction are those of a row at its force limit.
        stiffness = stiffness_of(give, soft.impedance, jnp.ones_like(friction, bool))
        rows.append((1.0, -soft.damping * rate, stiffness, -friction, friction))
    return rows


def limited_entries(model: Model) -> np.ndarray:
    """Returns the index of the coordinate with the limits of each degree of freedom; -1 for joints that are not flat."""
    topology, found = model.topology, np.full(model.nv, -1)
    for body in range(model.nb):
        if not topology.is_mimic[body] and model.joint(body).flat:
            found[model.v_slice(body)] = np.arange(model.nq)[model.q_slice(body)]
    return found
