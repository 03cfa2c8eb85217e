"""What happens to the velocities when bodies hit each other (book §11.7)."""

from __future__ import annotations

import functools
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from .._core.arguments import choice, configuration, number, takes, velocity, wrenches
from .._core.array import matmul, matvec, times, transpose, vecmat
from ..constraints import Closure
from ..constraints.closure import reduced_inertia
from ..constraints.dynamics import motion_under_constraints
from ..dynamics import ExternalForces, Motion
from ..dynamics.forward import solve_inertia
from ..dynamics.inverse import inertia_product
from ..model import Model
from ..optimize.implicit import remembered
from ._energy import as_energy_allows
from .contacts import Contacts, contact_jacobian, contacts_of
from .solvers import Code
from .solvers.friction import solve_cone


#: Shapes that are not farther apart than this touch, in m.
TOUCHING = 1e-6

#: So many times it is looked for how fast contacts slide, until that changes by no more than this share.
ROUNDS, SHARE = 100, 1e-13


class Impact(eqx.Module):
    """What an impact does.

    - `velocity`: after it.
    - `impulse`: of each contact, what the first shape gives the second: `[f; n]` in its frame, N s and N m s.
    - `contacts`: where the shapes touch.
    - `code`: how the search for the impulses ended, a `rbd.contact.solvers.Code`.

    >>> ball = rbd.Shape("ball", "bob", rbd.shapes.Sphere(0.1), (0, 0, -1))
    >>> wall = rbd.Shape("wall", "world", rbd.shapes.Box((0.1, 1, 1)), (-0.2, 0, -1))
    >>> pendulum = rbd.attach(rbd.detach(rbd.load("pendulum"), "shape"), ball, wall)
    >>> hit = rbd.contact.impact(pendulum, jnp.array([0.0]), jnp.array([2.0]), restitution=0.5)
    >>> print(hit.velocity, jnp.abs(hit.impulse).max().round(2), int(hit.code))
    [-1.] 3.34 0
    """

    velocity: Float[Array, "*batch nv"]
    impulse: Float[Array, "*batch n 6"]
    contacts: Contacts
    code: Int[Array, "*batch"]


@takes(q=configuration, impulse=velocity, f_ext=wrenches)
def impulse_response(
    model: Model, q: Float[Array, "nq"], impulse: Float[Array, "nv"], f_ext: ExternalForces = None
) -> Float[Array, "nv"]:
    """By how much impulses change the velocity: `M Δv = u + Jᵀ ι` (eq. 11.57), the model's constraints held.

    - `impulse`: u, along the degrees of freedom.
    - `f_ext`: impulses `[n; f]` on bodies, in the world's axes about the world's origin.

    >>> model = rbd.load("double_pendulum")
    >>> print(rbd.contact.impulse_response(model, jnp.zeros(2), jnp.zeros(2), {"lower": jnp.array([0, -2.0, 0, 1, 0, 0])}))
    [-0.001 -0.997]
    """
    return response(Motion(model, q), impulse, f_ext)


def response(motion: Motion, impulse, f_ext: ExternalForces = None):
    """Of a model at rest: what it accelerates by beside what it does anyway."""
    zero = jnp.zeros_like(impulse)
    pushed = motion_under_constraints(motion, impulse, f_ext).acceleration
    return pushed - motion_under_constraints(motion, zero).acceleration


def answers_of(
    motion: Motion, rows: Float[Array, "m dof"], within: Closure | None = None
) -> Float[Array, "m dof"]:
    """How a model at rest answers to each of these generalized impulses, or along the few variables that it moves with."""
    if within is not None:
        return transpose(jnp.linalg.solve(reduced_inertia(motion, within.jacobian), transpose(rows)))
    if not motion.model.constraints:
        return transpose(solve_inertia(motion, transpose(rows)))
    return jax.vmap(lambda row: response(motion, row))(rows) if len(rows) else rows


def touches(found: Contacts) -> Bool[Array, "n"]:
    """Which contacts are closed."""
    return found.distance <= jnp.maximum(found.margin, TOUCHING)


def _restitution(function: str, model: Model, name: str, value):
    return number(function, name, value, dtype=model.dtype, least=0, most=1)


def _coefficient(function: str, model: Model, name: str, value):
    return None if value is None else number(function, name, value, dtype=model.dtype, least=0)


def _law(function: str, model: Model, name: str, value):
    return choice(function, name, value, ("newton", "poisson"))


@takes(q=configuration, v=velocity, restitution=_restitution, friction=_coefficient, law=_law)
def impact(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    restitution: float | Float[Array, ""] = 0.0,
    friction: float | Float[Array, ""] | None = None,
    law: Literal["newton", "poisson"] = "newton",
) -> Impact:
    """The velocity after all shapes that touch have hit each other at once, with the model's constraints held.

    Two bodies at one point: (11.65) without friction, (11.72) where they stick.

    **Arguments**

    - `restitution`: e, from 0 (they stay together) to 1.
    - `friction`: a coefficient for all; by default those of the shapes. The impulse of a contact is in its cone, and what slides
      afterwards is opposed by all that there is of it.
    - `law`: with Newton's, what touches parts e times as fast as it came, or faster; with Poisson's, the impulse that stops it is
      given once more, times e. Of a single contact without friction they are the same.

    Neither law alone would keep the energy from growing where several contacts or friction play together. The velocity is
    then that of the law as far as the energy allows, on the way from the impact without restitution.

    >>> ball = rbd.Shape("ball", "bob", rbd.shapes.Sphere(0.1), (0, 0, -1))
    >>> wall = rbd.Shape("wall", "world", rbd.shapes.Box((0.1, 1, 1)), (-0.2, 0, -1))
    >>> pendulum = rbd.attach(rbd.detach(rbd.load("pendulum"), "shape"), ball, wall)
    >>> hit = rbd.contact.impact(pendulum, jnp.array([0.0]), jnp.array([2.0]), restitution=0.5)
    >>> print(hit.velocity)
    [-1.]
    """
    still = Motion(model, q)
    found = contacts_of(still)
    rows = contact_jacobian(still, found, max(found.condim, default=1))
    return jumped(still, found, rows, v, restitution, friction, law)


def jumped(
    motion: Motion,
    found: Contacts,
    rows: Float[Array, "n d dof"],
    v: Float[Array, "dof"],
    restitution: float | Float[Array, "*n"],
    friction: float | Float[Array, ""] | None,
    law: Literal["newton", "poisson"],
    within: Closure | None = None,
    answers: Float[Array, "n d dof"] | None = None,
) -> Impact:
    """`impact` of a model in a configuration, along its degrees of freedom or along a few variables that it moves with.

    - `answers`: `answers_of` the rows, where they are known.
    """
    count, size = rows.shape[:2]
    if not count:
        return Impact(v, jnp.zeros((0, 6), v.dtype), found, jnp.zeros((), jnp.int32))
    there = touches(found)
    if answers is None:
        answers = answers_of(motion, rows.reshape(-1, rows.shape[-1]), within).reshape(rows.shape)
    rows, answers = (jnp.where(there[:, None, None], x, 0) for x in (rows, answers))
    flat, answers = (x.reshape(-1, x.shape[-1]) for x in (rows, answers))
    mu = _friction(found, friction, size)
    coming = matvec(rows, jnp.broadcast_to(v, (count, *v.shape)))
    # What is not there is going apart.
    coming = coming.at[:, 0].set(jnp.where(there, coming[:, 0], 1))
    hits = _Hits(matmul(flat, transpose(answers)), mu)
    closing = jnp.minimum(coming[:, 0], 0)
    if law == "newton":
        less = jnp.stack([0 * closing, restitution * closing])
        (plastic, full), codes = jax.vmap(lambda less: hits.impulse(coming, less))(less)
    else:
        plastic, code = hits.impulse(coming, 0 * closing)
        again = jnp.zeros_like(plastic).at[:, 0].set(restitution * plastic[:, 0])
        more, other = hits.impulse(coming + hits.given(plastic + again), 0 * closing)
        full, codes = plastic + again + more, jnp.stack([code, other])
    before, (stopped, after) = v, (v + vecmat(x.reshape(-1), answers) for x in (plastic, full))
    if within is None:
        inertia = lambda u: inertia_product(motion, u[:, None])[:, 0]
    else:
        inertia = functools.partial(times, reduced_inertia(motion, within.jacobian))
    share = as_energy_allows(inertia, before, stopped, after)
    impulse = plastic + share * (full - plastic)
    padded = jnp.pad(jnp.where(there[:, None], impulse, 0), ((0, 0), (0, 6 - size)))
    return Impact(stopped + share * (after - stopped), padded, found, jnp.max(codes))


def _friction(found: Contacts, friction: Any, size: int) -> Float[Array, "n t"]:
    """The coefficient of each row but the first, zero beyond those in which a contact acts."""
    mu = found.friction
    if friction is not None:
        mu = mu.at[:, :2].set(jnp.asarray(friction, mu.dtype))
    acts = np.arange(1, 6)[None, :] < np.array(found.condim)[:, None]
    return jnp.where(acts, mu, 0)[:, : size - 1]


class _Hits(NamedTuple):
    """The velocities at all contacts by a unit of impulse at each, and the coefficients of friction."""

    response: Float[Array, "m m"]
    friction: Float[Array, "n t"]

    def given(self, impulse: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """By how much an impulse changes the velocities."""
        return matvec(self.response, impulse.reshape(-1)).reshape(impulse.shape)

    def impulse(self, coming: Float[Array, "n d"], less: Float[Array, "n"]):
        """The impulse after which what comes at some velocity parts at `-less` or faster, with Coulomb's friction.

        The convex problem has what slides part as well, by `μ` times its speed. That is taken back, and the speed
        looked for that is then the one assumed. Its derivative is that of this equation.
        """

        def solved(speeds):
            off = coming.at[:, 0].add(less + speeds)
            return solve_cone(self.response, off, self.friction)

        def tried(speeds):
            found = solved(speeds)
            after = coming + self.given(found.force)
            return (length_of(self.friction * after[:, 1:]), found.force), found.code

        if not self.friction.shape[1]:
            found = solved(jnp.zeros_like(less))
            return found.force, found.code
        precision = max(SHARE, 10 * float(jnp.finfo(coming.dtype).eps)) * jnp.max(jnp.abs(coming), initial=0)

        def newton(speeds):
            """What comes of some speeds, how that changes, and by how much they should."""
            found, change, code = jax.linearize(tried, speeds, has_aux=True)
            slope, by_speed = jax.vmap(change, out_axes=-1)(jnp.eye(len(less), dtype=less.dtype))
            unit = jnp.eye(len(less), dtype=less.dtype)
            slope, by_speed = lax.stop_gradient((slope, by_speed))
            return found, by_speed, jnp.linalg.solve(unit - slope, found[0] - speeds), code

        def step(at):
            """By turns the speeds that come of those assumed, which gets nearer, and a step of Newton's, which gets there."""
            speeds, count, _ = at
            (new, _), _, change, _ = newton(speeds)
            better = jnp.maximum(speeds + change, 0)
            ahead = (count % 2 == 1) & jnp.all(jnp.isfinite(better))
            return jnp.where(ahead, better, new), count + 1, jnp.max(jnp.abs(new - speeds)) > precision

        start = jnp.zeros_like(less), jnp.zeros((), jnp.int32), jnp.ones((), bool)
        held = lax.while_loop(lambda at: at[2] & (at[1] < ROUNDS), step, start)
        speeds, _, moves = remembered(lax.stop_gradient(held))
        (_, force), by_speed, missing, code = newton(speeds)
        # Nothing but for derivatives.
        force = force + matvec(by_speed, jnp.broadcast_to(missing, (len(force), *missing.shape)))
        return force, jnp.where(moves, Code.NOT_CONVERGED, code).astype(jnp.int32)


def length_of(x: Float[Array, "n t"]) -> Float[Array, "n"]:
    """Of each row, with derivatives at zero."""
    square = jnp.sum(x**2, axis=1)
    moves = square > 0
    return jnp.where(moves, jnp.sqrt(jnp.where(moves, square, 1)), 0)
