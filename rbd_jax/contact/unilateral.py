"""How a model moves on whose shapes touch: forces that only push, at places that only part (book §11.1 to §11.5)."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from .._core.arguments import anything, configuration, takes, velocity, wrenches
from .._core.array import dot, matmul, matvec, transpose, vecmat
from ..constraints import Closure
from ..constraints.dynamics import motion_under_constraints
from ..dynamics import ExternalForces, Motion
from ..model import Model, configuration_rate
from .contacts import Contacts, contact_jacobian, contacts_of
from .impact import answers_of, length_of, touches
from .solvers.lcp import lemke, solve_lcp


#: Slower than this, in m/s, nothing parts, comes or slides; what accelerates less, in m/s², is held.
STILL = 1e-6


class ContactState(enum.IntEnum):
    """What a contact is doing (book figure 11.4). Values are as printed, but for what the book leaves to an impulse.

    >>> print([state.name for state in rbd.contact.ContactState])
    ['APART', 'PARTING', 'LEAVING', 'HELD', 'HITTING']
    """

    #: 1: there is a gap.
    APART = 1
    #: 2a: it touches, and is parting.
    PARTING = 2
    #: 2b: it touches and is at rest, and begins to part.
    LEAVING = 3
    #: 3: it touches, and stays.
    HELD = 4
    #: It touches, and comes nearer: only an impact ends that.
    HITTING = 5


class ContactProblem(NamedTuple):
    """`ζ̇ = M λ + d` (eqs. 11.34 to 11.36): how contacts accelerate apart, by the forces along their normals.

    - `normals`: T, whose columns say what these forces do: `τ = T λ`.
    - `closed`: which contacts touch and do not part, and can push. The rows and columns of the others are those of the unit
      matrix, and d is one.

    >>> ball = rbd.Shape("ball", "bob", rbd.shapes.Sphere(0.1), (0, 0, -1))
    >>> wall = rbd.Shape("wall", "world", rbd.shapes.Box((0.1, 1, 1)), (-0.2, 0, -1))
    >>> pendulum = rbd.attach(rbd.detach(rbd.load("pendulum"), "shape"), ball, wall)
    >>> problem = rbd.contact.contact_problem(pendulum, jnp.zeros(1), jnp.zeros(1), jnp.array([2.0]))
    >>> print(problem.closed, rbd.contact.solvers.solve_lcp(problem.M, problem.d).force)
    [ True] [2.]
    """

    M: Float[Array, "n n"]
    d: Float[Array, "n"]
    normals: Float[Array, "nv n"]
    closed: Bool[Array, "n"]


class Unilateral(eqx.Module):
    """How a model moves on.

    - `acceleration`: of its degrees of freedom.
    - `force`: λ, along the normal of each contact. Where many hold one body up it need not be unique; the acceleration is.
    - `friction`: across the normals, along the two tangents.
    - `separation`: ζ̇, the acceleration with which contacts part.
    - `state`: a `ContactState` of each.
    - `paradox`: where a contact slides so that a force at it, by friction, presses it closer (Painlevé): there may be no
      solution, or several.
    - `contacts`: where shapes touch.
    - `code`: a `rbd.contact.solvers.Code`.

    >>> ball = rbd.Shape("ball", "bob", rbd.shapes.Sphere(0.1), (0, 0, -1))
    >>> wall = rbd.Shape("wall", "world", rbd.shapes.Box((0.1, 1, 1)), (-0.2, 0, -1))
    >>> pendulum = rbd.attach(rbd.detach(rbd.load("pendulum"), "shape"), ball, wall)
    >>> held = rbd.contact.unilateral_dynamics(pendulum, jnp.array([0.0]), jnp.array([0.0]), jnp.array([2.0]))
    >>> print(held.acceleration, held.force, rbd.contact.ContactState(int(held.state[0])).name)
    [0.] [2.] HELD
    """

    acceleration: Float[Array, "*batch nv"]
    force: Float[Array, "*batch n"]
    friction: Float[Array, "*batch n 2"]
    separation: Float[Array, "*batch n"]
    state: Int[Array, "*batch n"]
    paradox: Bool[Array, "*batch n"]
    contacts: Contacts
    code: Int[Array, "*batch"]


class Phase(NamedTuple):
    """What contacts do for a while.

    - `held`: which touch and do not come or part, so that they can push.
    - `slides`: which of them slide, along `way`; the others are at rest.
    """

    held: Bool[Array, "n"]
    slides: Bool[Array, "n"]
    way: Float[Array, "n 2"]


class Setting(NamedTuple):
    """A model in motion at its contacts, along its degrees of freedom or along a few variables that it moves with.

    - `rows`: along the normal and two tangents of each contact; `rates` by v, and `bias`, what these accelerate by besides.
    - `answers`: how the model accelerates by each row (n, 3, dof).
    - `free`: how it accelerates without contacts.
    """

    contacts: Contacts
    touching: Bool[Array, "n"]
    rows: Float[Array, "n 3 dof"]
    rates: Float[Array, "n 3"]
    bias: Float[Array, "n 3"]
    answers: Float[Array, "n 3 dof"]
    free: Float[Array, "dof"]

    def phase(self) -> Phase:
        """What contacts do in this state: those that come nearer are held, too."""
        held = self.touching & (self.rates[:, 0] <= STILL)
        speed = length_of(self.rates[:, 1:])
        moves = speed > STILL
        way = jnp.where(moves[:, None], self.rates[:, 1:] / jnp.where(moves, speed, 1)[:, None], 0)
        return Phase(held, held & moves & (np.array(self.contacts.condim) > 1), way)

    def separation(self) -> Float[Array, "n 3"]:
        """How contacts accelerate without forces."""
        return matvec(self.rows, jnp.broadcast_to(self.free, (len(self.rows), *self.free.shape))) + self.bias


def setting(
    motion: Motion,
    free: Float[Array, "dof"],
    within: Closure | None = None,
    touching: Bool[Array, "n"] | None = None,
) -> Setting:
    """That of a model in motion, whose acceleration would be `free`; `touching`: which contacts count, by default by distance."""
    model, v, found = motion.model, motion.v, contacts_of(motion)

    along = lambda rows, x: matvec(rows, jnp.broadcast_to(x, (len(rows), *x.shape)))

    def rates_at(q):
        there = Motion(model, q, time=motion.time)
        rows = contact_jacobian(there, contacts_of(there), 3)
        return along(rows, v), rows

    rates, bias, rows = jax.jvp(
        rates_at, (motion.q,), (configuration_rate(model, motion.q, v),), has_aux=True
    )
    touching = touches(found) if touching is None else touching
    rates, bias = (jnp.where(touching[:, None], x, 0) for x in (rates, bias))
    rows = jnp.where(touching[:, None, None], rows, 0)
    if within is not None:
        bias = bias + along(rows, within.bias)
        rows = matmul(rows, within.jacobian)
    answers = answers_of(motion, rows.reshape(-1, rows.shape[-1]), within).reshape(rows.shape)
    return Setting(found, touching, rows, rates, bias, answers, free)


def _tree_setting(model: Model, q, v, tau, f_ext: ExternalForces) -> Setting:
    motion, tau = Motion(model, q, v), jnp.zeros_like(v) if tau is None else tau
    return setting(motion, motion_under_constraints(motion, tau, f_ext).acceleration)


def _tau(function: str, model: Model, name: str, value: Any):
    return None if value is None else velocity(function, model, name, value)


@takes(q=configuration, v=velocity, tau=_tau, f_ext=wrenches)
def contact_problem(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    tau: Float[Array, "nv"] | None = None,
    f_ext: ExternalForces = None,
) -> ContactProblem:
    """`ζ̇ = M λ + d` of a model whose shapes touch: `M = Tᵀ H⁻¹ T`, `d = Tᵀ a₀ + Ṫᵀ v`, with a₀ the acceleration without contact.

    Of one body at one point these are M and d of (11.8) and (11.9), at several those of (11.21) and (11.22).

    Constraints of the model are held. `rbd.contact.solvers.solve_lcp` solves it.

    >>> ball = rbd.Shape("ball", "bob", rbd.shapes.Sphere(0.1), (0, 0, -1))
    >>> wall = rbd.Shape("wall", "world", rbd.shapes.Box((0.1, 1, 1)), (-0.2, 0, -1))
    >>> pendulum = rbd.attach(rbd.detach(rbd.load("pendulum"), "shape"), ball, wall)
    >>> problem = rbd.contact.contact_problem(pendulum, jnp.array([0.0]), jnp.array([0.0]), jnp.array([2.0]))
    >>> print(problem.M, problem.d)
    [[0.999]] [-1.998]
    """
    at = _tree_setting(model, q, v, tau, f_ext)
    return _problem(at, at.phase().held)


def _problem(at: Setting, closed: Bool[Array, "n"]) -> ContactProblem:
    normals = jnp.where(closed[:, None], at.rows[:, 0], 0)
    both = closed[:, None] & closed[None, :]
    unit = jnp.eye(len(closed), dtype=normals.dtype)
    m = jnp.where(both, matmul(at.rows[:, 0], transpose(at.answers[:, 0])), unit)
    d = jnp.where(closed, at.separation()[:, 0], 1)
    return ContactProblem(m, d, transpose(normals), closed)


@takes(q=configuration, v=velocity, tau=_tau, f_ext=wrenches, friction=anything)
def unilateral_dynamics(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    tau: Float[Array, "nv"] | None = None,
    f_ext: ExternalForces = None,
    friction: bool = False,
) -> Unilateral:
    """How a model moves on under forces, where its shapes touch rigidly; damping and springs of joints are not part of it.

    The complementarity problem (11.18), (11.42) is solved as the quadratic one in the forces (11.43); its accelerations are those
    of (11.44), Sueda's (2.105) and (2.127).

    Contacts push so that none comes nearer, and only those that do not part. The model's constraints are held.

    **Arguments**

    - `friction`: whether Coulomb's law holds across the normals, with the shapes' coefficients: what slides is opposed by all
      that there is; what is at rest is held by a pyramid of four edges.

    >>> ball = rbd.Shape("ball", "bob", rbd.shapes.Sphere(0.1), (0, 0, -1))
    >>> wall = rbd.Shape("wall", "world", rbd.shapes.Box((0.1, 1, 1)), (-0.2, 0, -1))
    >>> pendulum = rbd.attach(rbd.detach(rbd.load("pendulum"), "shape"), ball, wall)
    >>> print(rbd.contact.unilateral_dynamics(pendulum, jnp.array([0.0]), jnp.array([0.0]), jnp.array([2.0])).force)
    [2.]
    """
    at = _tree_setting(model, q, v, tau, f_ext)
    n, dtype = len(at.touching), q.dtype
    if not n:
        none = jnp.zeros(0, dtype)
        still = jnp.zeros(0, bool)
        return Unilateral(
            at.free,
            none,
            jnp.zeros((0, 2), dtype),
            none,
            none.astype(int),
            still,
            at.contacts,
            jnp.zeros((), int),
        )
    found = pushes_of(at, at.phase(), friction)
    pushes, paradox, code = found.pushes, found.paradox, found.code
    moved = vecmat(pushes.reshape(-1), at.answers.reshape(3 * n, -1))
    separation = at.separation()[:, 0] + matvec(at.rows[:, 0], moved)
    state = jnp.where(
        at.rates[:, 0] > STILL,
        ContactState.PARTING,
        jnp.where(separation > STILL, ContactState.LEAVING, ContactState.HELD),
    )
    state = jnp.where(at.rates[:, 0] < -STILL, ContactState.HITTING, state)
    state = jnp.where(at.touching, state, ContactState.APART)
    return Unilateral(
        at.free + moved, pushes[:, 0], pushes[:, 1:], separation, state, paradox, at.contacts, code
    )


class Pushing(NamedTuple):
    """What contacts do: forces along the normal and both tangents of each, and what `Unilateral` says of them."""

    pushes: Float[Array, "n 3"]
    paradox: Bool[Array, "n"]
    code: Int[Array, ""]


def pushes_of(at: Setting, phase: Phase, friction: bool) -> Pushing:
    """The forces of contacts in a phase."""
    if friction:
        return _with_friction(at, phase)
    problem = _problem(at, phase.held)
    found = solve_lcp(problem.M, problem.d)
    force = jnp.where(phase.held, found.force, 0)[:, None]
    none = jnp.zeros((len(force), 2), force.dtype)
    return Pushing(jnp.concatenate([force, none], axis=1), jnp.zeros(len(force), bool), found.code)


def _with_friction(at: Setting, phase: Phase) -> Pushing:
    """By Lemke's pivots: the unknowns of each contact are the normal force, those along four edges, and how it begins to slide.

    `ζ̇ ≥ 0 ⟂ λ`, along the edges `D a + σ ≥ 0 ⟂ β`, and `μ λ - Σ β ≥ 0 ⟂ σ`. What slides has no edges: its friction is `-μ λ`
    along the way that it goes.
    """
    n, dtype = len(at.touching), at.free.dtype
    closed, mu = phase.held, at.contacts.friction[:, :2]
    slides, way = closed & phase.slides, phase.way
    rests = closed & ~slides & (np.array(at.contacts.condim) > 1)
    # What unit forces do, in the frame of each contact: along the normal with the friction of sliding, and along the edges.
    normal = jnp.concatenate([jnp.ones((n, 1), dtype), jnp.where(slides[:, None], -mu * way, 0)], axis=1)
    edges = jnp.broadcast_to(jnp.asarray([[0, 1, 0], [0, 0, 1], [0, -1, 0], [0, 0, -1]], dtype), (n, 4, 3))
    kinds = jnp.concatenate(
        [jnp.where(closed[:, None], normal, 0)[:, None], jnp.where(rests[:, None, None], edges, 0)], 1
    )
    whole = jnp.einsum("nku,num->nkm", kinds, at.answers)
    asked = jnp.concatenate(
        [jnp.where(closed[:, None], jnp.eye(3, dtype=dtype)[:1], 0)[:, None], kinds[:, 1:]], 1
    )
    rows = jnp.einsum("nku,num->nkm", asked, at.rows)
    m = jnp.einsum("akv,blv->akbl", rows, whole)
    d = dot(asked, at.separation()[:, None])
    # σ, how fast it begins to slide, and the room in the pyramid.
    own = jnp.eye(n, dtype=dtype)
    least = jnp.mean(jnp.where(rests[:, None], mu, 0), axis=1)
    by_slip = jnp.concatenate(
        [jnp.zeros((n, 1), dtype), jnp.where(rests[:, None], jnp.ones((n, 4), dtype), 0)], axis=1
    )
    room = jnp.concatenate([least[:, None], -by_slip[:, 1:]], axis=1)
    top = jnp.concatenate(
        [m.reshape(5 * n, 5 * n), (by_slip[:, :, None] * own[:, None, :]).reshape(5 * n, n)], axis=1
    )
    bottom = jnp.concatenate(
        [(own[:, :, None] * room[None]).reshape(n, 5 * n), jnp.zeros((n, n), dtype)], axis=1
    )
    acts = jnp.concatenate(
        [jnp.concatenate([closed[:, None], jnp.repeat(rests[:, None], 4, 1)], 1).reshape(-1), rests]
    )
    big = jnp.concatenate([top, bottom])
    big = jnp.where(acts[:, None] & acts[None, :], big, jnp.eye(6 * n, dtype=dtype))
    right = jnp.where(acts, jnp.concatenate([d.reshape(-1), jnp.zeros(n, dtype)]), 1)
    found = lemke(big, right)
    force = jnp.where(acts, found.force, 0)[: 5 * n].reshape(n, 5)
    pushes = jnp.einsum("nk,nku->nu", force, kinds)
    paradox = slides & (jnp.einsum("nkv,nkv->nk", rows, whole)[:, 0] <= 0)
    return Pushing(pushes, paradox, found.code)
