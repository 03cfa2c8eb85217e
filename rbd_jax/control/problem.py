"""A problem of optimal control: a system, its initial state and horizon, its costs, and its constraints.

    minimize    ∫ l(t, x, u) dt + l_end(x_N)
    subject to  x₀ given,  x_{k+1} = step(x_k, u_k),  constraints and bounds at the knots

The unknowns are the controls u_k of all steps and, if it is free, the duration. A state x is one of the simulation, for any
system that `rbd.rollout` simulates, with any forces and scheme. Controls are held over a step. Changes of a state are those
of `rbd.step_derivatives`: of q on the tangent space, of v, and of the internal states of force elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, SupportsIndex

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import a_model, instance, number, whole_number
from .._core.array import is_known
from ..constraints import Stabilization
from ..forces.actuators.drive import actuators_of
from ..simulate import Simulated
from ..simulate.begin import Begin, begun
from ..simulate.control import Control, Controls
from ..simulate.controls import Actuation, refuse_delays
from ..simulate.scheme import Scheme
from ..simulate.state import State
from ..simulate.systems import tree_of
from ..simulate.tree_system import Acting
from .constraint import Bounds, Constraint
from .driven import driven
from .naming import dof_names
from .residual import Cost, Residual, Value, cost_of


class Problem(eqx.Module):
    """A motion to find: `steps` steps from `state`, at the least cost, within constraints and bounds.

    The decision variables of a step, `control`, are the controls of the model's actuators, (nu,). For a model without
    actuators they are the generalized forces of all joints except those of free bodies. `actuation` selects other joints.

    A problem is a PyTree: its arrays (the model's parameters, the state, targets, weights, bounds) can be batched by
    `jax.vmap`, and solutions are differentiable with respect to them.

    Args:
      model: The model.
      state: The initial state.
      steps: Number of steps.
      dt: Length of a step in s; by default the timestep of the model's file.
      running: Costs per second: residuals times weights (`1e-2 * Effort()`), or `Value(function)`. Each knot where a step
        begins counts for the length of that step.
      terminal: Costs of the last state.
      constraints: `Constraint`s.
      bounds: `Bounds` on controls and states, by default none.
      duration: Pair of bounds on the duration, which is then free. All steps have the same length, and `dt` is the initial
        guess.
      duration_cost: The cost of a second.
      actuation: The driven joints, `rbd.Actuation(joints=[...])`; controls are then their efforts.
      scheme, forces, stabilization, t0: As for `rbd.rollout`. Each step starts without memory, as in `rbd.step`.

    >>> model = rbd.load("acrobot")
    >>> problem = rbd.control.Problem(
    ...     model,
    ...     rbd.State(jnp.array([jnp.pi, 0.0]), jnp.zeros(2)),
    ...     steps=100,
    ...     dt=0.02,
    ...     running=[1e-3 * rbd.control.Effort()],
    ...     terminal=[1e2 * rbd.control.Posture(), 10.0 * rbd.control.Velocity()],
    ... )
    >>> problem.nu
    1
    """

    model: Simulated
    state: State
    dt: Float[Array, ""]
    t0: Float[Array, ""]
    running: tuple[Cost | Value, ...]
    terminal: tuple[Cost | Value, ...]
    constraints: tuple[Constraint, ...]
    bounds: Bounds
    duration: tuple[Array, Array] | None
    duration_cost: Float[Array, ""]
    forces: tuple[Acting, ...]
    actuation: Actuation | None
    scheme: Scheme
    stabilization: Stabilization | None
    steps: int = eqx.field(static=True)

    def __init__(
        self,
        model: Simulated,
        state: State,
        *,
        steps: SupportsIndex,
        dt: float | Float[Array, ""] | None = None,
        running: Sequence[Cost | Value | Residual] = (),
        terminal: Sequence[Cost | Value | Residual] = (),
        constraints: Sequence[Constraint] = (),
        bounds: Bounds | None = None,
        duration: tuple[Any, Any] | None = None,
        duration_cost: Any = 0.0,
        actuation: Actuation | None = None,
        scheme: Scheme | None = None,
        forces: Sequence[Acting] = (),
        stabilization: Stabilization | Literal["auto"] | None = "auto",
        t0: float | Float[Array, ""] = 0.0,
    ):
        owner = "control.Problem"
        a_model(owner, model, planar=True)
        self.steps = whole_number(owner, "steps", steps)
        begin = begun(owner, model, state, dt, t0, scheme, forces, stabilization)
        dtype = begin.dt.dtype
        self.model, self.state, self.scheme = begin.system.simulated, begin.state, begin.scheme
        self.dt, self.t0, self.forces = begin.dt, begin.time, tuple(forces)
        # "auto" is resolved at this point.
        self.stabilization = getattr(begin.system, "stabilization", None)
        self.actuation = driven(owner, model, actuation)
        if self.told_actuators:
            refuse_delays(owner, self.model, Controls(jnp.zeros(self.nu)))
        self.running = tuple(
            cost_of(f"{owner}: running", one) for one in _sequence(owner, "running", running)
        )
        self.terminal = tuple(
            cost_of(f"{owner}: terminal", one) for one in _sequence(owner, "terminal", terminal)
        )
        self.constraints = tuple(_sequence(owner, "constraints", constraints))
        for one in self.constraints:
            instance(owner, "constraints", one, Constraint, "control.Constraints")
            one.knots(self.steps)
        self.bounds = Bounds() if bounds is None else bounds
        instance(owner, "bounds", self.bounds, Bounds, "control.Bounds, or None")
        self.duration = None if duration is None else _duration(owner, duration, dtype)
        self.duration_cost = number(owner, "duration_cost", duration_cost, dtype=dtype)

    @property
    def begin(self) -> Begin:
        """The prepared rollout."""
        return begun(
            "control.Problem",
            self.model,
            self.state,
            self.dt,
            self.t0,
            self.scheme,
            self.forces,
            self.stabilization,
        )

    def starting(self, state: State) -> Problem:
        """Returns the same problem from another state, for batches of initial states and receding-horizon control.

        >>> model = rbd.load("double_pendulum")
        >>> start = rbd.State(jnp.zeros(2), jnp.zeros(2))
        >>> problem = rbd.control.Problem(model, start, steps=10, dt=0.01, running=[rbd.control.Effort()])
        >>> other = problem.starting(rbd.State(jnp.array([0.1, 0.0]), jnp.zeros(2)))
        """
        return replace(self, state=state)

    # Decision variables.

    @property
    def nu(self) -> int:
        """The number of decision variables of a step."""
        if self.told_actuators:
            return tree_of(self.model).nu
        return self.model.nv if self.actuation is None else len(self.actuation.dof(tree_of(self.model)))

    @property
    def told_actuators(self) -> bool:
        """True if the decision variables are controls of actuators, and not efforts."""
        return self.actuation is None and tree_of(self.model).nu > 0

    def told(self, control: Float[Array, "nu"]) -> Control:
        """Returns the model's control for given decision variables."""
        tree = tree_of(self.model)
        if self.told_actuators:
            return Control(control, jnp.zeros(self.model.nv, control.dtype))
        still = jnp.zeros(tree.nu, control.dtype)
        return Control(still, control if self.actuation is None else self.actuation.effort(tree, control))

    @property
    def control_names(self) -> tuple[str, ...]:
        """The name of each decision variable: an actuator, or a joint."""
        tree = tree_of(self.model)
        if self.told_actuators:
            return tuple(one.name or f"u[{i}]" for i, one in enumerate(actuators_of(tree)))
        names = dof_names(self.model)
        return names if self.actuation is None else tuple(names[i] for i in self.actuation.dof(tree))


def _sequence(owner: str, name: str, given) -> Sequence[Any]:
    if not isinstance(given, tuple | list):
        raise TypeError(f"{owner}: {name} is {given!r}; it takes a list")
    return given


def _duration(owner: str, duration, dtype) -> tuple[Array, Array]:
    if not isinstance(duration, tuple | list) or len(duration) != 2:
        raise ValueError(
            f"{owner}: duration is {duration!r}; it takes a pair (shortest, longest), in seconds"
        )
    shortest, longest = (
        number(owner, f"duration[{i}]", one, dtype=dtype, above=0) for i, one in enumerate(duration)
    )
    if is_known((shortest, longest)) and shortest > longest:
        raise ValueError(f"{owner}: duration is from {shortest:g} to {longest:g} s: the bounds cross")
    return shortest, longest
