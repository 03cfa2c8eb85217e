"""How a model moves on whose shapes touch: forces that only push, at places that only part (book §11.1 to §11.5)."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from .._arguments import anything, configuration, takes, velocity, wrenches
from .._array import dot, matmul, matvec, transpose, vecmat
from ..constraints.dynamics import motion_under_constraints
from ..dynamics import ExternalForces, Motion
from ..model import Model, integrate
from .contacts import Contacts, contact_jacobian, contacts_of
from .impact import TOUCHING, response
from .solvers.codes import Code
from .solvers.lcp import lemke, solve_lcp


#: Slower than this, in m/s, nothing parts, comes or slides; what accelerates less, in m/s², is held.
STILL = 1e-6


class ContactState(enum.IntEnum):
    """What a contact is doing (book figure 11.4). Values are as printed, but for what the book leaves to an impulse."""

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
    """

    acceleration: Float[Array, "*batch nv"]
    force: Float[Array, "*batch n"]
    friction: Float[Array, "*batch n 2"]
    separation: Float[Array, "*batch n"]
    state: Int[Array, "*batch n"]
    paradox: Bool[Array, "*batch n"]
    contacts: Contacts
    code: Int[Array, "*batch"]


class _Setting(NamedTuple):
    """A model in motion at its contacts.

    - `rows`: along the normal and two tangents of each contact; `rates` by v, and `bias`, what these accelerate by besides.
    - `answers`: how the model accelerates by each row (n, 3, nv).
    - `free`: how it accelerates without contacts.
    """

    contacts: Contacts
    closed: Bool[Array, "n"]
    rows: Float[Array, "n 3 nv"]
    rates: Float[Array, "n 3"]
    bias: Float[Array, "n 3"]
    answers: Float[Array, "n 3 nv"]
    free: Float[Array, "nv"]


def _setting(model: Model, q, v, tau, f_ext: ExternalForces) -> _Setting:
    motion, tau = Motion(model, q, v), jnp.zeros_like(v) if tau is None else tau
    found = contacts_of(motion)

    def rows_at(time):
        there = Motion(model, integrate(model, q, time * v))
        return contact_jacobian(there, contacts_of(there), 3)

    rows, rate = jax.jvp(rows_at, (jnp.zeros((), q.dtype),), (jnp.ones((), q.dtype),))
    closed = found.distance <= jnp.maximum(found.margin, TOUCHING)
    rows, rate = (jnp.where(closed[:, None, None], x, 0) for x in (rows, rate))
    along = lambda x: matvec(x, jnp.broadcast_to(v, (len(x), *v.shape)))
    answers = jax.vmap(jax.vmap(lambda row: response(motion, row)))(rows) if len(rows) else rows
    free = motion_under_constraints(motion, tau, f_ext).acceleration
    return _Setting(found, closed, rows, along(rows), along(rate), answers, free)


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

    Constraints of the model are held. `rbd.contact.solvers.solve_lcp` solves it.

    >>> ball = rbd.Shape("ball", "bob", rbd.shapes.Sphere(0.1), (0, 0, -1))
    >>> wall = rbd.Shape("wall", "world", rbd.shapes.Box((0.1, 1, 1)), (-0.2, 0, -1))
    >>> pendulum = rbd.attach(rbd.detach(rbd.load("pendulum"), "shape"), ball, wall)
    >>> problem = rbd.contact.contact_problem(pendulum, jnp.array([0.0]), jnp.array([0.0]), jnp.array([2.0]))
    >>> print(problem.M, problem.d)
    [[1.]] [-2.]
    """
    return _problem(_setting(model, q, v, tau, f_ext))


def _problem(at: _Setting) -> ContactProblem:
    # What parts already does so whatever pushes.
    closed = at.closed & (at.rates[:, 0] <= STILL)
    normals = jnp.where(closed[:, None], at.rows[:, 0], 0)
    both = closed[:, None] & closed[None, :]
    unit = jnp.eye(len(closed), dtype=normals.dtype)
    m = jnp.where(both, matmul(at.rows[:, 0], transpose(at.answers[:, 0])), unit)
    d = jnp.where(closed, _apart(at)[:, 0], 1)
    return ContactProblem(m, d, transpose(normals), closed)


def _apart(at: _Setting) -> Float[Array, "n 3"]:
    """How contacts accelerate without forces."""
    return matvec(at.rows, jnp.broadcast_to(at.free, (len(at.rows), *at.free.shape))) + at.bias


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
    at = _setting(model, q, v, tau, f_ext)
    n, dtype = len(at.closed), q.dtype
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
    problem = _problem(at)
    if friction:
        force, across, paradox, code = _with_friction(at, problem)
    else:
        found = solve_lcp(problem.M, problem.d)
        force, code = jnp.where(problem.closed, found.force, 0), found.code
        across, paradox = jnp.zeros((n, 2), dtype), jnp.zeros(n, bool)
    pushes = jnp.concatenate([force[:, None], across], axis=1)
    moved = vecmat(pushes.reshape(-1), at.answers.reshape(3 * n, -1))
    separation = _apart(at)[:, 0] + matvec(at.rows[:, 0], moved)
    state = jnp.where(
        at.rates[:, 0] > STILL,
        ContactState.PARTING,
        jnp.where(separation > STILL, ContactState.LEAVING, ContactState.HELD),
    )
    state = jnp.where(at.rates[:, 0] < -STILL, ContactState.HITTING, state)
    state = jnp.where(at.closed, state, ContactState.APART)
    return Unilateral(at.free + moved, force, across, separation, state, paradox, at.contacts, code)


def _with_friction(at: _Setting, problem: ContactProblem):
    """By Lemke's pivots: the unknowns of each contact are the normal force, those along four edges, and how it begins to slide.

    `ζ̇ ≥ 0 ⟂ λ`, along the edges `D a + σ ≥ 0 ⟂ β`, and `μ λ - Σ β ≥ 0 ⟂ σ`. What slides has no edges: its friction is `-μ λ`
    along the way that it goes.
    """
    n, dtype = len(at.closed), at.free.dtype
    closed, mu = problem.closed, at.contacts.friction[:, :2]
    speed = jnp.sqrt(jnp.maximum(jnp.sum(at.rates[:, 1:] ** 2, axis=1), STILL**2))
    slides = closed & (speed > STILL) & (np.array(at.contacts.condim) > 1)
    rests = closed & ~slides & (np.array(at.contacts.condim) > 1)
    way = jnp.where(slides[:, None], at.rates[:, 1:] / speed[:, None], 0)
    # What unit forces do, in the frame of each contact: along the normal with the friction of sliding, and along the edges.
    normal = jnp.concatenate([jnp.ones((n, 1), dtype), -mu * way], axis=1)
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
    d = dot(asked, _apart(at)[:, None])
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
    return pushes[:, 0], pushes[:, 1:], paradox, jnp.where(found.code == Code.SOLVED, Code.SOLVED, found.code)
