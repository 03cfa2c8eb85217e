"""Rigid contact from event to event (book table 11.1).

Between events, the forces of closed contacts solve a complementarity problem in the accelerations (`unilateral`), so that no
closed contact penetrates. An event is an impact, where a gap closes, or the time at which a sliding contact comes to rest. The
scheme `rbd.EventDriven` finds the events; this module defines them and their effects.
"""

from __future__ import annotations

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from .._core.arguments import choice, number
from .._core.array import dot, matmul, matvec, transpose, vecmat
from .._core.positive import solve_positive
from ..optimize.outcome import Code
from .contacts import contact_jacobian, contacts_of
from .impact import answers_of, jumped, touches
from .law import JumpingLaw, Reaction
from .unilateral import STILL, Phase, pushes_of, setting


#: Compliance of closed contacts relative to the compliance of the bodies. It regularizes redundant contacts of one body.
GIVE = 1e-10

#: Number of iterations that remove the remaining overlaps and velocities of closed contacts.
ROUNDS = 3


class Hard(JumpingLaw):
    """Rigid contact with unilateral forces and instantaneous impacts, for the event-driven scheme `rbd.EventDriven`.

    Closed contacts have Coulomb friction; the friction of sticking contacts is limited by a pyramid of four edges. This contact
    model does not cover the limits and the dry friction of joints: see `rbd.forces.JointLimit`.

    - `restitution`: the coefficient of restitution e, from 0 (plastic) to 1 (elastic).
    - `law`: the restitution law, `"newton"` or `"poisson"`; see `rbd.contact.impact`.
    - `friction_acts`: if True, contacts have friction with the coefficients of the shapes.
    - `rest_speed`: approach speed in m/s below which impacts have no restitution. Without this limit a bouncing ball would
      never come to rest.

    >>> builder = rbd.ModelBuilder()
    >>> ball = builder.add_body("ball", joint=rbd.joints.Prismatic(), inertia=rbd.Inertia.sphere(1.0, 0.1))
    >>> shapes = rbd.Shape("ball", "ball", rbd.shapes.Sphere(0.1)), rbd.Shape("floor", "world", rbd.shapes.Plane())
    >>> model = rbd.attach(builder.build(), *shapes, rbd.contact.Hard(restitution=0.8))
    >>> falling = rbd.State(jnp.array([0.1]), jnp.array([-1.0]))
    >>> print(rbd.contact.impact(model, falling.q, falling.v, restitution=0.8).velocity)
    [0.8]
    """

    restitution: Float[Array, ""]
    law: Literal["newton", "poisson"] = eqx.field(static=True)
    friction_acts: bool = eqx.field(static=True)
    rest_speed: Float[Array, ""]

    def __init__(
        self,
        restitution: Any = 0.0,
        *,
        law: Literal["newton", "poisson"] = "newton",
        friction_acts: bool = True,
        rest_speed: Any = 0.01,
    ):
        self.restitution = number("Hard", "restitution", restitution, least=0, most=1)
        self.law = choice("Hard", "law", law, ("newton", "poisson"))  # pyright: ignore[reportAttributeAccessIssue]
        self.friction_acts = bool(friction_acts)
        self.rest_speed = number("Hard", "rest_speed", rest_speed, above=0)

    @property
    def limits(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return False

    @property
    def friction(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return False

    def reaction(self, motion, free, prepared, step=None, guess=None, within=None, phase=None):
        found = contacts_of(motion)
        n = len(found.condim)
        if not n:
            none = jnp.zeros((0, 6), motion.q.dtype)
            a = free.acceleration
            return Reaction(jnp.zeros_like(a), found, none, a, jnp.int32(0), jnp.ones((), bool))
        at = setting(motion, free.acceleration, within, None if phase is None else phase.held)
        here = at.phase()
        if phase is not None:
            here = replace_way(phase, at.rates[:, 1:], here.way)
        given = pushes_of(at, here, self.friction_acts)
        pushes = given.pushes.reshape(-1)
        force = vecmat(pushes, at.rows.reshape(3 * n, -1))
        a = free.acceleration + vecmat(pushes, at.answers.reshape(3 * n, -1))
        padded = jnp.pad(given.pushes, ((0, 0), (0, 3)))
        return Reaction(force, found, padded, a, jnp.int32(0), given.code == Code.SOLVED)

    def begun(self, motion, v, within=None):
        # State jumps result from impacts, and from the correction of overlaps and velocities left by previous steps.
        found = contacts_of(motion)
        size = max(found.condim, default=1)
        rows = contact_jacobian(motion, found, max(3, size))
        if within is not None:
            rows = matmul(rows, within.jacobian)
        answers = answers_of(motion, rows.reshape(-1, rows.shape[-1]), within).reshape(rows.shape)
        along = lambda rows, v: matvec(rows, jnp.broadcast_to(v, (len(rows), *v.shape)))
        closed, rest = touches(found), self.rest_speed.astype(v.dtype)
        coming = jnp.where(closed, along(rows, v)[:, 0], 0)
        back = jnp.where(coming < -rest, self.restitution.astype(v.dtype), 0)
        mu = None if self.friction_acts else jnp.zeros((), v.dtype)
        hit = jumped(motion, found, rows[:, :size], v, back, mu, self.law, within, answers[:, :size]).velocity
        after = jnp.where(jnp.any(coming < -STILL), hit, v)
        rates = along(rows, after)
        # Below this speed a closed contact does not open.
        held = closed & (rates[:, 0] <= 0.01 * rest)
        speed2 = jnp.sum(rates[:, 1:3] ** 2, axis=1)
        moves = speed2 > STILL**2
        slides = held & moves & (np.array(found.condim) > 1)
        way = rates[:, 1:3] / jnp.sqrt(jnp.where(moves, speed2, 1))[:, None]
        phase = Phase(held, slides, jnp.where(slides[:, None], way, 0))
        sticks = held & ~slides & (np.array(found.condim) > 1) & self.friction_acts
        stays = jnp.stack([held, sticks, sticks], axis=1)
        holding, answers = (jnp.where(stays[:, :, None], x[:, :3], 0) for x in (rows, answers))
        depth = jnp.where(held, found.distance - found.margin, 0)
        left = jnp.stack([jnp.where(stays, rates[:, :3], 0), jnp.pad(depth[:, None], ((0, 0), (0, 2)))])
        slowed, moved = _undone(holding, answers, left)
        return phase, -moved, after - slowed

    def until(self, motion, phase):
        """Returns the gaps of open contacts and the speeds of sliding contacts; infinite where no event is possible."""
        found = contacts_of(motion)
        gaps = jnp.where(phase.held | ~jnp.isfinite(found.distance), jnp.inf, found.distance - found.margin)
        rows = contact_jacobian(motion, found, 3)[:, 1:]
        rates = matvec(rows, jnp.broadcast_to(motion.v, (len(rows), *motion.v.shape)))
        slips = jnp.where(phase.slides, dot(rates, phase.way), jnp.inf)
        return jnp.concatenate([gaps, slips])


def replace_way(phase: Phase, rates: Float[Array, "n 2"], way: Float[Array, "n 2"]) -> Phase:
    """Returns the phase with the current sliding directions, without reversals: a reversal passes rest, which is an event."""
    ahead = dot(rates, phase.way) >= 0
    speed2 = jnp.sum(way**2, axis=1)
    now = jnp.where((speed2 > 0)[:, None], jnp.where(ahead[:, None], way, -way), phase.way)
    return phase._replace(way=now)


def _undone(
    rows: Float[Array, "n d dof"], answers: Float[Array, "n d dof"], left: Float[Array, "k n d"]
) -> Float[Array, "k dof"]:
    """Returns the smallest changes, in the metric of M, that change the rows by `left`; `answers` is `M⁻¹` times the rows."""
    flat, answers = (x.reshape(-1, x.shape[-1]) for x in (rows, answers))
    left = left.reshape(len(left), -1)
    if not len(flat):
        return jnp.zeros((len(left), rows.shape[-1]), left.dtype)
    m = matmul(flat, transpose(answers))
    size = jnp.maximum(jnp.max(jnp.diagonal(m)), 1e-12)
    give = GIVE if left.dtype == jnp.float64 else GIVE**0.5
    soft = m + give * size * jnp.eye(len(m), dtype=left.dtype)

    def again(_, push):
        return push + jax.vmap(lambda x: solve_positive(soft, x))(left - matmul(push, m))

    return matmul(lax.fori_loop(0, ROUNDS, again, jnp.zeros_like(left)), answers)
