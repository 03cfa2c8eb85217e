"""Simulation of a body in director coordinates: many steps of a scheme, and the outcome of each."""

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
    """States over time, starting with the initial state, and the outcome of Newton's method for each step.

    `t` and `state` have N + 1 rows; `code` and `iterations` have N. A step whose code is not `Code.CONVERGED` (0) has
    failed: all later states are NaN, and later codes repeat its code.

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
    """Simulates a body in director coordinates.

    Reverse-mode differentiation stores one linear system per step, not Newton's iterations. To differentiate with respect to
    parameters of `moment`, let the function close over them.

    Args:
      body: The body.
      frame: The initial frame Λ, in space.
      velocity: The initial angular velocity w, in space.
      moment: A function `(time, frame) -> m` that returns the moment in space. It is evaluated at the midpoint of each step
        with the mean of the directors at its ends. By default there is no moment.
      dt: The step size, in s; negative to integrate backward in time.
      steps: The number of steps.
      constraints: `NonTwisting()` by default, for which `velocity` must be perpendicular to `d₃`; or
        `Orthonormal()`, the standard rigid body.
      scheme: `DirectorEnergyMomentum()` by default.

    Returns:
      A `DirectorTrajectory` with `steps + 1` states.

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
        # A failed simulation keeps its last state: later values are discarded, but must be finite.
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
