"""Impacts between bodies (book §11.7)."""

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


#: Distance in m up to which a contact counts as closed.
TOUCHING = 1e-6

#: Maximum number of iterations for the sliding speeds of contacts, and the relative change at which they stop.
ROUNDS, SHARE = 100, 1e-13


class Impact(eqx.Module):
    """The result of an impact.

    - `velocity`: the velocity after the impact.
    - `impulse`: the impulse of the first shape on the second at each contact, `[f; n]` in the contact frame, in N s and N m s.
    - `contacts`: the contact points.
    - `code`: the result code of the impulse solver, a `rbd.contact.solvers.Code`.

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
    """Returns the change of the velocity that impulses cause: `M Δv = u + Jᵀ ι` (eq. 11.57). Constraints of the model hold.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      impulse: The generalized impulse u, shape (nv,).
      f_ext: Impulses `[n; f]` on bodies, in world axes about the world origin.

    >>> model = rbd.load("double_pendulum")
    >>> print(rbd.contact.impulse_response(model, jnp.zeros(2), jnp.zeros(2), {"lower": jnp.array([0, -2.0, 0, 1, 0, 0])}))
    [-0.001 -0.997]
    """
    return response(Motion(model, q), impulse, f_ext)


def response(motion: Motion, impulse, f_ext: ExternalForces = None):
    """Returns the acceleration of a model at rest under impulses, minus its acceleration without them."""
    zero = jnp.zeros_like(impulse)
    pushed = motion_under_constraints(motion, impulse, f_ext).acceleration
    return pushed - motion_under_constraints(motion, zero).acceleration


def answers_of(
    motion: Motion, rows: Float[Array, "m dof"], within: Closure | None = None
) -> Float[Array, "m dof"]:
    """Returns the velocity change for each row as a generalized impulse, or that of the independent variables of `within`."""
    if within is not None:
        return transpose(jnp.linalg.solve(reduced_inertia(motion, within.jacobian), transpose(rows)))
    if not motion.model.constraints:
        return transpose(solve_inertia(motion, transpose(rows)))
    return jax.vmap(lambda row: response(motion, row))(rows) if len(rows) else rows


def touches(found: Contacts) -> Bool[Array, "n"]:
    """Returns which contacts are closed."""
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
    """Returns the velocity after a simultaneous impact at all closed contacts. Constraints of the model hold.

    For two bodies with one contact this is (11.65) without friction, and (11.72) with sticking. With several contacts or
    friction, both restitution laws may increase the energy. The result is then moved towards the impact without restitution
    until the energy does not increase.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      v: Velocity before the impact, shape (nv,).
      restitution: The coefficient of restitution e, from 0 (plastic) to 1 (elastic).
      friction: One friction coefficient for all contacts; by default those of the shapes. The impulse of each contact is in
        its friction cone, and on the cone if the contact slides after the impact.
      law: The restitution law. Under Newton's law, the separation speed is at least e times the approach speed. Under Poisson's
        law, the impulse that stops the contacts is applied again, times e. For one contact without friction both agree.

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
    """Computes `impact` from given contacts, for the degrees of freedom or for a few independent variables.

    Args:
      motion: The model in a configuration.
      found: Its contacts.
      rows: The contact Jacobian.
      v: The velocity before the impact.
      restitution: The coefficient of restitution, for all contacts or for each.
      friction: One friction coefficient for all contacts; by default those of the shapes.
      law: The restitution law.
      within: The map from a few independent variables to the model's velocities, if any.
      answers: `answers_of` the rows, if already computed.
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
    # Open contacts get a separation velocity, so that they have no impulse.
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
    """Returns the friction coefficients of all rows but the first, with zeros for rows that a contact does not have."""
    mu = found.friction
    if friction is not None:
        mu = mu.at[:, :2].set(jnp.asarray(friction, mu.dtype))
    acts = np.arange(1, 6)[None, :] < np.array(found.condim)[:, None]
    return jnp.where(acts, mu, 0)[:, : size - 1]


class _Hits(NamedTuple):
    """The change of all contact velocities by a unit impulse in each row, and the friction coefficients."""

    response: Float[Array, "m m"]
    friction: Float[Array, "n t"]

    def given(self, impulse: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """Returns the change of the contact velocities by an impulse."""
        return matvec(self.response, impulse.reshape(-1)).reshape(impulse.shape)

    def impulse(self, coming: Float[Array, "n d"], less: Float[Array, "n"]):
        """Returns the impulse after which the separation velocity is at least `-less`, with Coulomb friction, and a code.

        The convex problem gives sliding contacts a separation velocity of `μ` times the sliding speed. It is compensated with
        an assumed sliding speed. A fixed-point equation makes the assumed and the resulting speed equal; derivatives are those
        of this equation.
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
            """Returns the result for assumed speeds, its derivative, the Newton step of the speeds, and a code."""
            found, change, code = jax.linearize(tried, speeds, has_aux=True)
            slope, by_speed = jax.vmap(change, out_axes=-1)(jnp.eye(len(less), dtype=less.dtype))
            unit = jnp.eye(len(less), dtype=less.dtype)
            slope, by_speed = lax.stop_gradient((slope, by_speed))
            return found, by_speed, jnp.linalg.solve(unit - slope, found[0] - speeds), code

        def step(at):
            """Alternates fixed-point iterations, which approach the solution, with Newton steps, which converge to it."""
            speeds, count, _ = at
            (new, _), _, change, _ = newton(speeds)
            better = jnp.maximum(speeds + change, 0)
            ahead = (count % 2 == 1) & jnp.all(jnp.isfinite(better))
            return jnp.where(ahead, better, new), count + 1, jnp.max(jnp.abs(new - speeds)) > precision

        start = jnp.zeros_like(less), jnp.zeros((), jnp.int32), jnp.ones((), bool)
        held = lax.while_loop(lambda at: at[2] & (at[1] < ROUNDS), step, start)
        speeds, _, moves = remembered(lax.stop_gradient(held))
        (_, force), by_speed, missing, code = newton(speeds)
        # This changes only the derivatives, not the value.
        force = force + matvec(by_speed, jnp.broadcast_to(missing, (len(force), *missing.shape)))
        return force, jnp.where(moves, Code.NOT_CONVERGED, code).astype(jnp.int32)


def length_of(x: Float[Array, "n t"]) -> Float[Array, "n"]:
    """Returns the length of each row, with zero derivatives at zero."""
    square = jnp.sum(x**2, axis=1)
    moves = square > 0
    return jnp.where(moves, jnp.sqrt(jnp.where(moves, square, 1)), 0)
