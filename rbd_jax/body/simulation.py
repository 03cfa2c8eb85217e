"""Simulation of a body with directors: many steps of a scheme, and how each of them went."""

from __future__ import annotations

import reprlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from .._core.arguments import accuracy, instance, number, rotation, vector, whole_number
from .._core.array import is_known, with_precision
from .._core.failures import Failure, lost
from ..optimize.outcome import Code
from ._director_scheme import DirectorScheme, Moment
from .directors import DirectorConstraints, DirectorState, NonTwisting, director_state
from .energy_momentum import DirectorEnergyMomentum
from .rotating_body import RotatingBody


class DirectorTrajectory(eqx.Module):
    """States over time, the initial one first, and for each step how Newton's method ended and after how many steps.

    `t` and `state` have N + 1 rows; `code` and `iterations` have N. A step whose code is not `Code.CONVERGED` (0) has
    failed: the states after it are NaN to the end, and later codes repeat it.

    >>> top = rbd.body.RotatingBody(jnp.diag(jnp.array([1.0, 2.0, 3.0])))
    >>> path = rbd.body.simulate(top, jnp.eye(3), jnp.array([0.1, 1.0, 0.0]), dt=0.1, steps=50)
    >>> print(path.t[-1], path.code.sum(), path.iterations.max())
    5.0 0 4
    """

    t: Float[Array, "*batch saved"]
    state: DirectorState
    code: Int[Array, "*batch steps"]
    iterations: Int[Array, "*batch steps"]


def simulate(
    body: RotatingBody,
    frame: Float[Array, "3 3"],
    velocity: Float[Array, "3"],
    moment: Moment | None = None,
    *,
    dt: float | Float[Array, ""],
    steps: int,
    constraints: DirectorConstraints | None = None,
    scheme: DirectorScheme | None = None,
) -> DirectorTrajectory:
    """Simulate `steps` steps of length `dt` from the frame Λ and the angular velocity w, both in space.

    **Arguments**

    - `dt`: negative to go back in time.
    - `moment`: a function `(time, frame) -> m` of the moment in space, asked in the middle of each step with the mean
      of the directors at its ends; none by default.
    - `constraints`: `NonTwisting()` by default, for which `velocity` must be perpendicular to `d₃`; or
      `Orthonormal()`, the standard rigid body.
    - `scheme`: `DirectorEnergyMomentum()` by default.

    To differentiate by what `moment` depends on let it close over that. What is remembered for reverse-mode
    differentiation is one linear system a step, none of Newton's iterations.

    >>> top = rbd.body.RotatingBody(jnp.diag(jnp.array([1.0, 2.0, 3.0])))
    >>> path = rbd.body.simulate(top, jnp.eye(3), jnp.array([0.1, 1.0, 0.0]), dt=0.1, steps=50)
    >>> energy = jax.vmap(lambda rates: rbd.body.director_energy(top, rates))(path.state.rates)
    >>> print(path.state.frame.shape, jnp.ptp(energy) < 1e-9)
    (51, 3, 3) True
    """
    steps = whole_number("simulate", "steps", steps)
    constraints = NonTwisting() if constraints is None else constraints
    scheme = DirectorEnergyMomentum() if scheme is None else scheme
    instance("simulate", "body", body, RotatingBody, "a RotatingBody")
    instance("simulate", "constraints", constraints, DirectorConstraints, "NonTwisting() or Orthonormal()")
    instance("simulate", "scheme", scheme, DirectorScheme, "a scheme such as DirectorEnergyMomentum()")
    if moment is not None and not callable(moment):
        raise ValueError(
            f"simulate: moment is {reprlib.repr(moment)}; it is a function (time, frame) -> moment in space, or None"
        )
    frame, velocity = rotation("simulate", "frame", frame), vector("simulate", "velocity", velocity)
    dt = number("simulate", "dt", dt)
    if is_known(dt) and dt == 0:
        raise ValueError("simulate: dt is 0; a step of time is not zero")
    dtype = jnp.result_type(body.inertia, frame, velocity)
    body = with_precision(body, dtype)
    frame, velocity, dt = frame.astype(dtype), velocity.astype(dtype), dt.astype(dtype)
    if isinstance(constraints, NonTwisting) and is_known((frame, velocity)):
        _check_twist(np.asarray(frame), np.asarray(velocity), accuracy(dtype))

    def asked(time, frame):
        if moment is None:
            return jnp.zeros(3, dtype)
        return vector("simulate", "the result of moment", moment(time, frame)).astype(dtype)

    def advance(carry, number):
        state, failure = carry
        after, code, iterations = scheme.step(body, constraints, asked, number.astype(dtype) * dt, state, dt)
        failure = failure.noted(code, number)
        # A failed simulation stays where it was: what is computed from there counts for nothing, but is finite.
        state = jax.tree.map(lambda a, b: jnp.where(failure.happened, b, a), after, state)
        return (state, failure), (state, failure.code, iterations)

    start = director_state(body, frame, velocity)
    _, (states, code, iterations) = lax.scan(advance, (start, Failure.none()), jnp.arange(steps))
    states = lost(states, code != Code.CONVERGED)
    states = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), start, states)
    return DirectorTrajectory(dt * jnp.arange(steps + 1).astype(dtype), states, code, iterations)


def _check_twist(frame: np.ndarray, velocity: np.ndarray, tolerance: float):
    twist = frame[:, 2] @ velocity
    if abs(twist) > tolerance * np.max(np.abs(velocity)):
        raise ValueError(
            f"simulate: velocity turns the body about its third director at {twist:.3g} rad/s; a NonTwisting "
            "body has no such component (constraints=Orthonormal() lets it)"
        )
