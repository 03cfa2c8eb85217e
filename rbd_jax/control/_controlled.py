"""A robot as force controllers represent it: `M a + h = Sᵀ τ + Cᵀ λ` with the rows C of its loops and contacts."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..model import Model
from ..simulate import Simulated
from ..simulate.controls import Actuation
from ..simulate.state import State
from ..simulate.system import System
from ..simulate.systems import system_of, tree_of
from .driven import driven_joints


class Controlled(NamedTuple):
    """The quantities of a state that a force controller requires.

    - `system`: the system without a contact model, because the controller decides on contact forces.
    - `inertia`, `bias`: M and h. h contains all forces except the control and contacts, on the left side of the equation.
    - `loops`, `loop_bias`: the rows G of the model's own constraints, with `G a = -loop_bias` under them.
    - `driven`: the degrees of freedom that the control acts on.
    """

    system: System
    time: Float[Array, ""]
    state: State
    inertia: Float[Array, "nv nv"]
    bias: Float[Array, "nv"]
    loops: Float[Array, "m nv"]
    loop_bias: Float[Array, "m"]
    driven: np.ndarray


def believed(model: Simulated) -> Simulated:
    """Returns the model without a contact model."""
    tree = tree_of(model)
    if not tree.attached_as("contact law"):
        return model
    bare = replace(tree, attached=tuple(thing for thing in tree.attached if thing.role != "contact law"))
    return bare if isinstance(model, Model) else replace(model, model=bare)


def controlled(
    owner: str, model: Simulated, time: Float[Array, ""], state: State, actuation: Actuation | None
) -> Controlled:
    """Returns the robot in a state, with zero control."""
    model = believed(model)
    system = system_of(model, jnp.zeros_like(state.v))
    state = state if state.own is not None or not system.own.size else replace(state, own=system.own)
    still = jnp.zeros_like(state.v)
    rows = system.constraint_rows

    def opening(s):
        moved = State(system.move(state.q, s * state.v), state.v, state.own)
        return system.evaluate(time + s, moved).constraint_velocity()

    here = system.evaluate(time, state)
    none = jnp.zeros((0, still.size), still.dtype)
    loops = here.constraint_jacobian() if rows else none
    start, one = jnp.zeros_like(time), jnp.ones_like(time)
    bias = jax.jvp(opening, (start,), (one,))[1] if rows else none[:, 0]
    return Controlled(
        system,
        time,
        state,
        here.mass_matrix(),
        here.residual(still),
        loops,
        bias,
        driven_joints(owner, model, actuation),
    )
