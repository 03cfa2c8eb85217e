"""Simulation: a state carried over many steps, with controls, and its trajectory."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from .._array import floating
from ..constraints import Stabilization, check_consistent
from ..model import Model, at_time
from ..model._arguments import check_length
from ._event import Crossing, EventFunction, choose
from ._progress import progress_bar
from ._reduced import Simulated, system_of
from ._result import Result, first_failure
from ._scheme import Scheme
from ._system import Force, State, System
from .semi_implicit_euler import SemiImplicitEuler
from .trajectory import Trajectory


#: Generalized forces for every step, or a function of time and state that is asked at the start of every step, or none.
Controls: TypeAlias = (
    Float[Array, "steps nv"] | Callable[[Float[Array, ""], State], Float[Array, "nv"]] | None
)


def rollout(
    model: Simulated,
    state: State,
    controls: Controls = None,
    *,
    dt: float | Float[Array, ""],
    scheme: Scheme | None = None,
    steps: SupportsIndex | None = None,
    forces: Sequence[Force] = (),
    save_every: SupportsIndex = 1,
    checkpoint: SupportsIndex | None = None,
    t0: float | Float[Array, ""] = 0.0,
    event: EventFunction | None = None,
    stabilization: Stabilization | None = None,
    constraint_tolerance: float = 0.1,
    progress: bool = False,
) -> Trajectory:
    """Simulate `steps` steps of length `dt` from `state`.

    A model with constraints moves under them; its initial state must satisfy them (see `rbd.project`). A
    `rbd.constraints.ReducedModel` moves in its independent variables.

    What acts: the controls, held constant over each step; the joints' own `passive_force`; gravity; and `forces`.

    A step that fails (a diverged motion, an implicit step without solution) makes its state and all later ones NaN;
    `Trajectory.code` and `failed_step` say what happened and where. Derivatives of a failed sample are not finite either,
    unless they count for nothing: a loss masked by `code == 0` has the gradient of the other samples.

    **Arguments**

    - `controls`: an array (steps, nv), a policy `(t, state) -> tau`, or None for none.
    - `scheme`: `SemiImplicitEuler()` by default.
    - `steps`: the number of steps; not needed where `controls` is an array.
    - `forces`: functions `(model, q, v) -> tau`, asked wherever the scheme asks what acts.
    - `save_every`: keep every so manieth state.
    - `checkpoint`: what reverse-mode differentiation remembers. By default every state, and nothing of what happens within
      a step; with True about √steps states, and with an integer every so manieth saved one, at the price of running
      the steps between once more.
    - `t0`: the time of the initial state.
    - `event`: a function `(t, state) -> number`; the motion stops where it first changes its sign, and the rows from there on
      repeat the state in which it did (see `Trajectory`). It is looked at after every step `dt`, so it should not change its
      sign twice within one; zero at the start is no event.
    - `stabilization`: how constraints are held, which schemes that ask for accelerations do not do by themselves: a
      `rbd.constraints.Baumgarte` or `rbd.constraints.Projection`. By default they drift as the scheme errs. Implicit schemes
      close them in positions anyway.
    - `constraint_tolerance`: by how much (m or rad) constraints may be open, at the start or after a step, before
      that counts as a failure.
    - `progress`: show a progress bar.
    """
    scheme = SemiImplicitEuler() if scheme is None else scheme
    if not isinstance(scheme, Scheme):
        raise TypeError(
            f"rollout: scheme is {scheme!r}; it must be one of the library's, made: rbd.RungeKutta4(), or, of a solver of "
            "diffrax, rbd.Adaptive(solver)"
        )
    steps = _count_steps(model, controls, steps)
    divisor = f"it must divide the number of steps, {steps}"
    save_every = _whole("save_every", save_every, divisor)
    if steps % save_every:
        raise ValueError(f"rollout: save_every is {save_every}; {divisor}")
    q = check_length("rollout", model, "q", state.q, "nq")
    v = check_length("rollout", model, "v", state.v, "nv")
    dtype = jnp.result_type(q, v)
    state = State(q.astype(dtype), v.astype(dtype))
    dt, t0 = _number("dt", dt, dtype), _number("t0", t0, dtype)
    if isinstance(model, Model):
        check_consistent(at_time(model, t0), state.q, state.v)
    control, inputs = _control(model, controls, dtype)
    saves = steps // save_every

    constrained = isinstance(model, Model) and bool(model.constraints)
    # Otherwise the rows tell whether and when the motion diverged, and nothing has to be asked on the way.
    watched = scheme.fallible or constrained or save_every > 1

    @jax.checkpoint  # differentiation remembers the state at each step, not what was computed on the way
    def advance(carry, number, given):
        state, memory, failure, crossing = carry
        if event is not None:
            number = jnp.where(crossing.happened(), crossing.step, number)
        time = t0 + number.astype(dtype) * dt
        tau = control(time, state, given)
        system = system_of(model, tau, tuple(forces), stabilization)
        new, kept, code = scheme.step(system, time, state, memory, dt)
        new = system.settled(time + dt, new)
        if watched:
            code = first_failure(code, jnp.where(_is_finite(new), Result.SUCCESS, Result.NOT_FINITE))
            if constrained:
                code = first_failure(code, _opened(system, time + dt, new, constraint_tolerance))
            if event is not None:  # nothing that happens after it counts
                code = jnp.where(crossing.happened(), Result.SUCCESS, code)
            first, _ = failure
            first = _first(first, code, number)
            failure = first, State(_spoiled(first[0], new.q), _spoiled(first[0], new.v))
            # The loop goes on from the last good state: what it computes there counts for nothing, but is finite.
            new, kept = choose(first[0] == Result.SUCCESS, (new, kept), (state, memory))
        if event is not None:
            new, crossing = crossing.watch(event, time, tau, state, new, dt, number)
        return (new, kept, failure, crossing), tau

    def shown(carry):
        state, _, failure, _ = carry
        return failure[1] if watched else state

    bar = progress_bar(steps) if progress else None

    def save(carry, block):
        numbers, given = block

        def one(carry, step):
            return advance(carry, *step)

        if save_every == 1:
            carry, tau = advance(carry, numbers[0], jax.tree.map(lambda x: x[0], given))
        else:
            carry, taus = lax.scan(one, carry, (numbers, given))
            tau = taus[0]
        if bar is not None:
            bar(numbers[-1] + 1)
        return carry, (shown(carry), tau)

    numbers = jnp.arange(steps, dtype=jnp.int32).reshape(saves, save_every)
    blocks = (numbers, jax.tree.map(lambda x: x.reshape(saves, save_every, *x.shape[1:]), inputs))
    first = system_of(
        model, control(t0, state, jax.tree.map(lambda x: x[0], inputs)), tuple(forces), stabilization
    )
    memory = scheme.init(first, t0, state, dt)
    failed = jnp.int32(Result.SUCCESS), jnp.int32(-1)
    if constrained:
        failed = _first(failed, _opened(first, t0, state, constraint_tolerance), jnp.int32(0))
    failure = (failed, state) if watched else ()
    crossing = () if event is None else Crossing.none(first.tau, state)
    carry: Any = (state, memory, failure, crossing)
    (_, _, failure, crossing), (states, tau) = _scan(save, carry, blocks, _segment(checkpoint, saves))
    states = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), state, states)
    t = t0 + dt * (jnp.arange(saves + 1) * save_every).astype(dtype)
    code, failed_step = failure[0] if watched else _seen_failure(states)
    path = Trajectory(t, states.q, states.v, tau, code, failed_step)
    if event is None:
        return path
    crossed = system_of(model, crossing.tau, tuple(forces), stabilization)
    return crossing.cut(scheme, crossed, event, path, t0, dt, save_every)


def _is_finite(state: State):
    return jnp.all(jnp.isfinite(state.q)) & jnp.all(jnp.isfinite(state.v))


def _opened(system: System, time, state: State, tolerance: float):
    """Whether a constraint is open, as a code."""
    gap = jnp.max(jnp.abs(lax.stop_gradient(system.constraint_residual(time, state.q))), initial=0)
    return jnp.where(gap > tolerance, Result.CONSTRAINTS_OPEN, Result.SUCCESS)


def _first(failure, code, number):
    """The first failure's code and step, after one more step."""
    earlier, step = failure
    first = (earlier == Result.SUCCESS) & (code != Result.SUCCESS)
    return first_failure(earlier, code).astype(earlier.dtype), jnp.where(
        first, number.astype(step.dtype), step
    )


@jax.custom_jvp
def _spoiled(code, x):
    """Numbers that are none after a failure. Their derivatives are infinite, but for what counts zero times."""
    return jnp.where(code == Result.SUCCESS, x, jnp.nan)


@_spoiled.defjvp
def _spoiled_slope(primals, tangents):
    code, x = primals
    _, dx = tangents
    # Times infinity would make NaN of zero; times the largest number, twice, leaves it zero.
    large = jnp.where(code == Result.SUCCESS, 1, jnp.finfo(x.dtype).max).astype(x.dtype)
    return _spoiled(code, x), dx * large * large


def _seen_failure(states: State):
    """What the states tell of a scheme whose steps can only diverge, if all are saved: whether, and in which step."""
    finite = jax.vmap(_is_finite)(states)
    diverged = ~finite[-1]
    step = jnp.where(diverged, jnp.maximum(jnp.argmin(finite) - 1, 0), -1).astype(jnp.int32)
    return jnp.where(diverged, Result.NOT_FINITE, Result.SUCCESS).astype(jnp.int32), step


def _scan(body, carry, inputs, segment: int | None):
    """`lax.scan`, remembering only every `segment`-th carry for differentiation."""
    length = jax.tree.leaves(inputs)[0].shape[0]
    if segment is None or segment >= length:
        return lax.scan(body, carry, inputs)
    whole = length // segment * segment

    @jax.checkpoint
    def run(carry, rows):
        return lax.scan(body, carry, rows)

    segments = jax.tree.map(lambda x: x[:whole].reshape(whole // segment, segment, *x.shape[1:]), inputs)
    carry, outputs = lax.scan(run, carry, segments)
    outputs = jax.tree.map(lambda y: y.reshape(whole, *y.shape[2:]), outputs)
    if whole < length:
        carry, tail = run(carry, jax.tree.map(lambda x: x[whole:], inputs))
        outputs = jax.tree.map(lambda y, z: jnp.concatenate([y, z]), outputs, tail)
    return carry, outputs


def _segment(checkpoint: SupportsIndex | None, saves: int) -> int | None:
    if checkpoint is None or checkpoint is False:
        return None
    if checkpoint is True:
        return max(1, math.isqrt(saves))
    return _whole("checkpoint", checkpoint, "it is None, True or a positive number of saved states")


def _whole(name: str, value, wanted: str = "it is a positive integer") -> int:
    """A positive whole number, of Python or of NumPy."""
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if number < 1 or isinstance(value, bool):
        raise ValueError(f"rollout: {name} is {value!r}; {wanted}")
    return number


def _number(name: str, value, dtype):
    number = jnp.asarray(value, dtype)
    if number.shape != ():
        raise ValueError(
            f"rollout: {name} has shape {number.shape}; it is one number, the same for all steps"
        )
    return number


def _count_steps(model: Simulated, controls: Controls, steps: SupportsIndex | None) -> int:
    steps = None if steps is None else _whole("steps", steps)
    if controls is None or callable(controls):
        if steps is None:
            raise ValueError("rollout: steps is missing; it is needed where controls is not an array")
        return steps
    shape = jnp.shape(controls)
    if len(shape) != 2 or shape[1] != model.nv or shape[0] == 0 or (steps is not None and shape[0] != steps):
        expected = f"({'steps' if steps is None else steps}, nv) with nv = {model.nv}"
        raise ValueError(
            f"rollout: controls has shape {shape}; for model {model.name!r} it must be {expected}"
        )
    return shape[0]


def _control(model: Simulated, controls: Controls, dtype):
    """How to get the control of a step, and what of it comes with the step."""
    if controls is None:
        return lambda time, state, given: jnp.zeros(model.nv, dtype), ()
    if callable(controls):

        def ask(time, state, given):
            tau = check_length("rollout", model, "the result of controls", controls(time, state), "nv")
            return tau.astype(dtype)

        return ask, ()
    return lambda time, state, given: given, floating(controls).astype(dtype)
