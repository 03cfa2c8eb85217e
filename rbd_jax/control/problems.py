"""Bundled problems of optimal control, each with a solver and a guess that solve it.

These are classical problems of the bundled robots, with realistic limits, goals as constraints, and guesses without
knowledge of the solution. Comments explain the guesses and weights where they are set.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.errors import UnknownNameError, suggest
from ..dynamics import forward_kinematics, gravity_force
from ..model import Model, neutral
from ..robots import acrobot, arm7, cartpole, double_pendulum
from ..simulate.state import State
from .constraint import Bounds, Constraint
from .ddp import DDP
from .places import Located, Place
from .problem import Problem
from .residual import Residual
from .residuals import Effort, Pose, Posture, Velocity
from .shooting import Shooting
from .solver import Guess, Solver


class Posed(NamedTuple):
    """A problem with a solver and a guess: `rbd.control.solve(*posed)`.

    >>> posed = rbd.control.problems.load("cartpole_swing_up")
    >>> print(isinstance(posed, rbd.control.problems.Posed), type(posed.solver).__name__)
    True DDP
    """

    problem: Problem
    solver: Solver
    guess: Guess | None


def load(name: str) -> Posed:
    """Returns a bundled problem by its name, one of `NAMES`.

    >>> problem, solver, guess = rbd.control.problems.load("cartpole_swing_up")
    >>> problem.control_names, problem.steps
    (('motor',), 100)
    """
    if name not in _BUNDLED:
        raise UnknownNameError(f"control.problems.load: there is no problem {name!r}{suggest(name, NAMES)}")
    return _BUNDLED[name]()


def cartpole_swing_up() -> Posed:
    """A cart swings its pole up in 2.5 s, and comes to rest under it at its initial position.

    The motor has at most 20 N, and the rail 2 m to each side.

    >>> problem, solver, guess = rbd.control.problems.cartpole_swing_up()
    >>> print(problem.model.name, problem.steps)
    cartpole 100
    """
    model = cartpole()
    hanging = State(jnp.array([0.0, jnp.pi], model.dtype), jnp.zeros(2, model.dtype))
    problem = Problem(
        model,
        hanging,
        steps=100,
        dt=0.025,
        running=[1e-2 * Effort()],
        constraints=_at_rest(Posture()),
        bounds=Bounds.of(model, v=False),
    )
    return Posed(problem, DDP(), None)


def acrobot_swing_up() -> Posed:
    """A double pendulum with a 20 Nm motor at its elbow only swings up in 3 s from hanging down, and is then at rest.

    >>> problem, solver, guess = rbd.control.problems.acrobot_swing_up()
    >>> print(problem.model.name, problem.steps)
    acrobot 150
    """
    model = acrobot()
    hanging, upright = neutral(model), jnp.array([jnp.pi, 0.0], model.dtype)
    problem = Problem(
        model,
        State(hanging, jnp.zeros(2, model.dtype)),
        steps=150,
        dt=0.02,
        running=[1e-2 * Effort()],
        constraints=_at_rest(Posture(upright)),
        bounds=Bounds.of(model, q=False, v=False),
    )
    return Posed(problem, DDP(), None)


def arm7_reach() -> Posed:
    """The arm moves its hand around to the left, turned by a quarter, in 1.2 s, within limits of joints and motors.

    The goal is the pose of the hand at rest; the search finds the posture. The guess is the constant torques that hold the
    arm in its initial posture.

    >>> problem, solver, guess = rbd.control.problems.arm7_reach()
    >>> print(problem.model.name, len(problem.constraints))
    arm7 2
    """
    model = arm7()
    rest, still = neutral(model), jnp.zeros(model.nv, model.dtype)
    there = jnp.array([0.9, 0.2, 0.0, -0.4, 0.0, 0.2, jnp.pi / 2], model.dtype)
    steps = 60
    problem = Problem(
        model,
        State(rest, still),
        steps=steps,
        dt=0.02,
        running=[1e-3 * Effort(), 1e-1 * Velocity()],
        constraints=_at_rest(Pose("tool", _frame(model, there, "tool"))),
        bounds=Bounds.of(model),
    )
    return Posed(problem, DDP(), Guess(control=_held(model, rest, steps)))


def arm7_throw() -> Posed:
    """The arm throws an object into a bin on the floor 1.5 m away, and comes to rest.

    The hand releases the object after 0.8 s. The search finds the place and velocity of the release; the constraint is on
    the landing point of the free flight. The guess is the constant torques that hold the arm in its initial posture.

    >>> problem, solver, guess = rbd.control.problems.arm7_throw()
    >>> print(problem.model.name, problem.steps)
    arm7 70
    """
    model = arm7()
    rest, still = neutral(model), jnp.zeros(model.nv, model.dtype)
    steps, released = 70, 40
    land = Constraint(Landing("tool", (1.5, 0.4), height=0.3), at=[released])
    problem = Problem(
        model,
        State(rest, still),
        steps=steps,
        dt=0.02,
        running=[1e-3 * Effort(), 1e-1 * Velocity()],
        constraints=[land, Constraint(Velocity(), at="end")],
        bounds=Bounds.of(model),
    )
    return Posed(problem, DDP(), Guess(control=_held(model, rest, steps)))


def double_pendulum_minimum_time() -> Posed:
    """A double pendulum with motors of 8 Nm at both joints swings up from hanging down in minimum time.

    Neither motor could hold it sideways. The duration is free between 0.5 and 4 s. The cost is the duration, plus a small
    cost of effort that makes the solution unique.

    >>> problem, solver, guess = rbd.control.problems.double_pendulum_minimum_time()
    >>> print(problem.model.name, type(solver).__name__)
    double_pendulum Shooting
    """
    model = double_pendulum()
    steps = 80
    problem = Problem(
        model,
        State(neutral(model), jnp.zeros(2, model.dtype)),
        steps=steps,
        dt=2.0 / steps,
        running=[1e-4 * Effort()],
        constraints=_at_rest(Posture(jnp.array([jnp.pi, 0.0], model.dtype))),
        bounds=Bounds(control=(-8.0, 8.0)),
        duration=(0.5, 4.0),
        duration_cost=1.0,
    )
    # The guess is hanging at rest, far from any solution: the search takes some five hundred iterations.
    return Posed(problem, Shooting(max_iterations=1000), None)


class Landing(Residual):
    """The landing point of an object released at a place, less a target: x and y, in m. The object flies freely.

    - `place`: the name of a site or a body, or `rbd.sensors.OnBody(body, placement)`.
    - `target`: x and y.
    - `height`: the height of the landing surface.

    >>> model = rbd.load("double_pendulum")
    >>> system, state = rbd.simulate.system_of(model, jnp.zeros(2)), rbd.State(jnp.zeros(2), jnp.array([-1.0, 0.0]))
    >>> knot = rbd.control.Knot(system, jnp.int32(0), jnp.array(0.0), state, None)
    >>> print(rbd.control.problems.Landing("lower", (0.0, 0.0), height=-2.0)(knot))
    [0.452 0.   ]
    """

    place: Located
    target: Float[Array, "2"]
    height: Float[Array, ""]

    def __init__(self, place: Place, target, height=0.0):
        self.place = Located("control.problems.Landing", place)
        self.target, self.height = jnp.asarray(target), jnp.asarray(height)

    def __call__(self, knot):
        position, velocity = self.place.frame(knot.motion).position, self.place.velocity(knot.motion)[3:]
        gravity = -knot.motion.model.gravity[2]
        height = position[2] - self.height.astype(position.dtype)
        # An object below the surface never lands. Its time is extended smoothly, for intermediate iterates.
        squared = velocity[2] ** 2 + 2 * gravity * height
        time = (velocity[2] + jnp.sqrt(jnp.maximum(squared, 1e-6))) / gravity
        return position[:2] + time * velocity[:2] - self.target.astype(position.dtype)


def _at_rest(goal: Residual) -> list[Constraint]:
    """Returns constraints that the last state is a goal, at rest."""
    return [Constraint(goal, at="end"), Constraint(Velocity(), at="end")]


def _frame(model: Model, q: Array, body: str):
    """Returns the frame of a body in a configuration."""
    frames = forward_kinematics(model, q)
    return jax.tree.map(lambda x: x[model.body_index(body)], frames)


def _held(model: Model, q: Array, steps: int) -> Array:
    """Returns the torques that hold a configuration."""
    return jnp.broadcast_to(gravity_force(model, q), (steps, model.nv))


_BUNDLED = {
    make.__name__: make
    for make in (cartpole_swing_up, acrobot_swing_up, arm7_reach, arm7_throw, double_pendulum_minimum_time)
}

#: The names of the bundled problems.
NAMES = tuple(_BUNDLED)
