"""Dynamics of models with rigid unilateral contacts (book §11.1 to §11.5)."""

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


#: Speed in m/s below which a contact neither opens, closes nor slides; also the acceleration in m/s² below which it is held.
STILL = 1e-6


class ContactState(enum.IntEnum):
    """The state of a contact (book figure 11.4). Values are as in the figure, except HITTING, which the book leaves to impulses.

    >>> print([state.name for state in rbd.contact.ContactState])
    ['APART', 'PARTING', 'LEAVING', 'HELD', 'HITTING']
    """

    #: 1: the contact is open.
    APART = 1
    #: 2a: the contact is closed and has a separation velocity.
    PARTING = 2
    #: 2b: the contact is closed and at rest, and has a separation acceleration.
    LEAVING = 3
    #: 3: the contact stays closed.
    HELD = 4
    #: The contact is closed and has an approach velocity, which only an impact can end.
    HITTING = 5


class ContactProblem(NamedTuple):
    """`ζ̇ = M λ + d` (eqs. 11.34 to 11.36): separation accelerations of contacts as a function of their normal forces.

    - `M`, `d`: the matrix and the vector.
    - `normals`: T, which maps normal forces to generalized forces: `τ = T λ`.
    - `closed`: which contacts are closed without separation velocity, so that they can exert forces. The rows and columns of
      the other contacts are those of the unit matrix, and their d is one.

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
    """The accelerations and contact forces of a model with rigid contacts.

    - `acceleration`: the acceleration of the degrees of freedom.
    - `force`: λ, the normal force of each contact. It need not be unique with redundant contacts; the acceleration is.
    - `friction`: the friction force of each contact, along its two tangents.
    - `separation`: ζ̇, the separation acceleration of each contact.
    - `state`: the `ContactState` of each contact.
    - `paradox`: True where the normal force of a sliding contact, with its friction, does not accelerate the contact apart
      (Painlevé's paradox). There may then be no solution, or several.
    - `contacts`: the contact points.
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
    """The contact mode between two events.

    - `held`: which contacts stay closed, so that they can exert forces.
    - `slides`: which of the closed contacts slide; the others stick.
    - `way`: the unit sliding direction.
    """

    held: Bool[Array, "n"]
    slides: Bool[Array, "n"]
    way: Float[Array, "n 2"]


class Setting(NamedTuple):
    """Contact kinematics of a model in motion, for its degrees of freedom or for a few independent variables.

    - `contacts`: the contact points.
    - `touching`: which contacts are closed.
    - `rows`: the contact Jacobian along the normal and two tangents of each contact.
    - `rates`: the contact velocities, and `bias`, their rates of change without acceleration.
    - `answers`: the accelerations that a unit force along each row causes.
    - `free`: the acceleration without contacts.
    """

    contacts: Contacts
    touching: Bool[Array, "n"]
    rows: Float[Array, "n 3 dof"]
    rates: Float[Array, "n 3"]
    bias: Float[Array, "n 3"]
    answers: Float[Array, "n 3 dof"]
    free: Float[Array, "dof"]

    def phase(self) -> Phase:
        """Returns the phase of this state. Contacts with an approach velocity count as held."""
        held = self.touching & (self.rates[:, 0] <= STILL)
        speed = length_of(self.rates[:, 1:])
        moves = speed > STILL
        way = jnp.where(moves[:, None], self.rates[:, 1:] / jnp.where(moves, speed, 1)[:, None], 0)
        return Phase(held, held & moves & (np.array(self.contacts.condim) > 1), way)

    def separation(self) -> Float[Array, "n 3"]:
        """Returns the accelerations of the contacts without contact forces."""
        return matvec(self.rows, jnp.broadcast_to(self.free, (len(self.rows), *self.free.shape))) + self.bias


def setting(
    motion: Motion,
    free: Float[Array, "dof"],
    within: Closure | None = None,
    touching: Bool[Array, "n"] | None = None,
) -> Setting:
    """Returns the contact kinematics of a model in motion.

    Args:
      motion: The model in motion.
      free: The acceleration without contacts.
      within: The map from a few independent variables to the model's velocities, if any.
      touching: Which contacts are closed; by default this follows from the distance.
    """
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
    """Returns the contact problem `ζ̇ = M λ + d` of a model.

    `M = Tᵀ H⁻¹ T` and `d = Tᵀ a₀ + Ṫᵀ v`, with the acceleration without contact a₀. For one body with one contact these are M
    and d of (11.8) and (11.9); for several contacts those of (11.21) and (11.22). Constraints of the model hold.
    `rbd.contact.solvers.solve_lcp` solves the problem.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      v: Velocity, shape (nv,).
      tau: Generalized force, shape (nv,); zero by default.
      f_ext: External wrenches on bodies.

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
    """Returns the accelerations and contact forces of a model whose shapes touch rigidly.

    Damping and springs of joints are not included. The complementarity problem (11.18), (11.42) is solved as the quadratic
    program in the forces (11.43); its accelerations are those of (11.44), Sueda's (2.105) and (2.127). Closed contacts without
    separation velocity exert forces such that no contact penetrates. Constraints of the model hold.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      v: Velocity, shape (nv,).
      tau: Generalized force, shape (nv,); zero by default.
      f_ext: External wrenches on bodies.
      friction: If True, contacts have Coulomb friction with the coefficients of the shapes. Sliding friction has its full
        magnitude; sticking friction is limited by a pyramid of four edges.

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
    """Contact forces along the normal and both tangents, with `paradox` and `code` as in `Unilateral`."""

    pushes: Float[Array, "n 3"]
    paradox: Bool[Array, "n"]
    code: Int[Array, ""]


def pushes_of(at: Setting, phase: Phase, friction: bool) -> Pushing:
    """Returns the contact forces in a phase."""
    if friction:
        return _with_friction(at, phase)
    problem = _problem(at, phase.held)
    found = solve_lcp(problem.M, problem.d)
    force = jnp.where(phase.held, found.force, 0)[:, None]
    none = jnp.zeros((len(force), 2), force.dtype)
    return Pushing(jnp.concatenate([force, none], axis=1), jnp.zeros(len(force), bool), found.code)


def _with_friction(at: Setting, phase: Phase) -> Pushing:
    """Returns the contact forces with friction, by Lemke's method.

    The unknowns of each contact are the normal force λ, the forces β along four edges, and the onset of sliding σ:
    `ζ̇ ≥ 0 ⟂ λ`, along the edges `D a + σ ≥ 0 ⟂ β`, and `μ λ - Σ β ≥ 0 ⟂ σ`. Sliding contacts have no edges: their friction
    is `-μ λ` along the sliding direction.
    """
    n, dtype = len(at.touching), at.free.dtype
    closed, mu = phase.held, at.contacts.friction[:, :2]
    slides, way = closed & phase.slides, phase.way
    rests = closed & ~slides & (np.array(at.contacts.condim) > 1)
    # Unit forces in the contact frames: along the normal with sliding friction, and along the edges.
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
    # The rows of σ, and of the distance to the limits of the pyramid.
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
