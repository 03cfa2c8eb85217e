"""Simulation: a state carried over many steps, with controls, and its trajectory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from .._array import floating
from ..constraints import check_consistent, constrained_dynamics
from ..dynamics import passive_force
from ..model import Model, at_time
from ..model._arguments import check_length
from ._progress import progress_bar
from ._scheme import Scheme, State
from .semi_implicit_euler import SemiImplicitEuler


#: A generalized force of the model's own making, from the model, its configuration and its velocity.
Force: TypeAlias = Callable[[Model, Float[Array, "nq"], Float[Array, "nv"]], Float[Array, "nv"]]

#: Generalized forces for every step, or a function of time and state that is asked at the start of every step, or none.
Controls: TypeAlias = (
    Float[Array, "steps nv"] | Callable[[Float[Array, ""], State], Float[Array, "nv"]] | None
)


class Trajectory(eqx.Module):
    """States over time, the initial one first.

    `t`, `q`, `v` have N + 1 rows; `tau` has N: `tau[i]` is the control of the step that leaves `q[i], v[i]`.
    """

    t: Float[Array, "*batch saved"]
    q: Float[Array, "*batch saved nq"]
    v: Float[Array, "*batch saved nv"]
    tau: Float[Array, "*batch saves nv"]

    @property
    def final(self) -> State:
        """The last state."""
        return State(self.q[..., -1, :], self.v[..., -1, :])


def rollout(
    model: Model,
    state: State,
    controls: Controls = None,
    *,
    dt: float | Float[Array, ""],
    scheme: Scheme | None = None,
    steps: int | None = None,
    forces: Sequence[Force] = (),
    save_every: int = 1,
    checkpoint: bool | int | None = None,
    t0: float | Float[Array, ""] = 0.0,
    progress: bool = False,
) -> Trajectory:
    """Simulate `steps` steps of length `dt` from `state`.

    A model with constraints moves under them; its initial state must satisfy them (see `rbd.project`).

    What acts: the controls, held constant over each step; the joints' own `passive_force`; gravity; and `forces`.

    **Arguments**

    - `controls`: an array (steps, nv), a policy `(t, state) -> tau`, or None for none.
    - `scheme`: `SemiImplicitEuler()` by default.
    - `steps`: the number of steps; not needed where `controls` is an array.
    - `forces`: functions `(model, q, v) -> tau`, asked wherever the scheme asks for the acceleration.
    - `save_every`: keep every so manieth state.
    - `checkpoint`: what reverse-mode differentiation remembers. By default every state, and nothing of what happens within
      a step; with True about √steps states, and with an integer every so manieth saved one, at the price of running
      the steps between once more.
    - `t0`: the time of the initial state.
    - `progress`: show a progress bar.
    """
    scheme = SemiImplicitEuler() if scheme is None else scheme
    steps = _count_steps(model, controls, steps)
    if not isinstance(save_every, int) or save_every < 1 or steps % save_every:
        raise ValueError(f"rollout: save_every is {save_every}; it must divide the number of steps, {steps}")
    q = check_length("rollout", model, "q", state.q, "nq")
    v = check_length("rollout", model, "v", state.v, "nv")
    dtype = jnp.result_type(q, v)
    state = State(q.astype(dtype), v.astype(dtype))
    dt, t0 = _number("dt", dt, dtype), _number("t0", t0, dtype)
    check_consistent(at_time(model, t0), state.q, state.v)
    control, inputs = _control(model, controls, dtype)
    saves = steps // save_every

    @jax.checkpoint  # differentiation remembers the state at each step, not what was computed on the way
    def advance(state, number, given):
        time = t0 + number.astype(dtype) * dt
        tau = control(time, state, given)

        def acceleration(time, state):
            now = at_time(model, time)
            acting = tau + passive_force(now, state.q, state.v)
            for index, force in enumerate(forces):
                own = force(now, state.q, state.v)
                acting = acting + check_length("rollout", model, f"the result of forces[{index}]", own, "nv")
            return constrained_dynamics(now, state.q, state.v, acting).acceleration

        return scheme.step(model, acceleration, time, state, dt), tau

    bar = progress_bar(steps) if progress else None

    def save(state, block):
        numbers, given = block

        def one(state, step):
            return advance(state, *step)

        if save_every == 1:
            state, tau = advance(state, numbers[0], jax.tree.map(lambda x: x[0], given))
        else:
            state, taus = lax.scan(one, state, (numbers, given))
            tau = taus[0]
        if bar is not None:
            bar(numbers[-1] + 1)
        return state, (state, tau)

    numbers = jnp.arange(steps).reshape(saves, save_every)
    blocks = (numbers, jax.tree.map(lambda x: x.reshape(saves, save_every, *x.shape[1:]), inputs))
    _, (states, tau) = _scan(save, state, blocks, _segment(checkpoint, saves))
    t = t0 + dt * (jnp.arange(saves + 1) * save_every).astype(dtype)
    states = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), state, states)
    return Trajectory(t, states.q, states.v, tau)


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


def _segment(checkpoint: bool | int | None, saves: int) -> int | None:
    if checkpoint is None or checkpoint is False:
        return None
    if checkpoint is True:
        return max(1, math.isqrt(saves))
    if isinstance(checkpoint, int) and checkpoint > 0:
        return checkpoint
    raise ValueError(
        f"rollout: checkpoint is {checkpoint!r}; it is None, True or a positive number of saved states"
    )


def _number(name: str, value, dtype):
    number = jnp.asarray(value, dtype)
    if number.shape != ():
        raise ValueError(
            f"rollout: {name} has shape {number.shape}; it is one number, the same for all steps"
        )
    return number


def _count_steps(model: Model, controls: Controls, steps: int | None) -> int:
    if steps is not None and (not isinstance(steps, int) or steps < 1):
        raise ValueError(f"rollout: steps is {steps!r}; it is a positive integer")
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


def _control(model: Model, controls: Controls, dtype):
    """How to get the control of a step, and what of it comes with the step."""
    if controls is None:
        return lambda time, state, given: jnp.zeros(model.nv, dtype), ()
    if callable(controls):

        def ask(time, state, given):
            tau = check_length("rollout", model, "the result of controls", controls(time, state), "nv")
            return tau.astype(dtype)

        return ask, ()
    return lambda time, state, given: given, floating(controls).astype(dtype)
