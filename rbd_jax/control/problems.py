"""Bundled problems of optimal control: of each what is to be moved, and the solver and the guess that solve it.

They are the classical ones, of the bundled robots, as one would pose them anew: real limits, goals as constraints, and guesses
that know nothing of the answer. What a guess or a weight is for is said where it is given.
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
    """A problem, and what solves it: `rbd.control.solve(*posed)`.

    >>> posed = rbd.control.problems.load("cartpole_swing_up")
    >>> print(isinstance(posed, rbd.control.problems.Posed), type(posed.solver).__name__)
    True DDP
    """

    problem: Problem
    solver: Solver
    guess: Guess | None


def load(name: str) -> Posed:
    """A bundled problem by its name, one of `NAMES`.

    >>> problem, solver, guess = rbd.control.problems.load("cartpole_swing_up")
    >>> problem.control_names, problem.steps
    (('motor',), 100)
    """
    if name not in _BUNDLED:
        raise UnknownNameError(f"control.problems.load: there is no problem {name!r}{suggest(name, NAMES)}")
    return _BUNDLED[name]()


def cartpole_swing_up() -> Posed:
    """A cart swings its pole up in 2.5 s, and stands still under it where it began.

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
    """A double pendulum with a motor at its elbow alone, of 20 Nm, stands up in 3 s from hanging down, and is still then.

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
    """The arm takes its hand around to the left, turned by a quarter, in 1.2 s, within the limits of its joints and motors.

    The goal is where the hand is and how it is turned, and that it rests there; in which posture is for the search to find. It
    begins with the torques that hold the arm where it is.

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
    """The arm throws what it holds into a bin on the floor 1.5 m away, and comes to rest.

    It lets go after 0.8 s. Where from and how fast is for the search to find: what counts is where a thing lands that flies off
    like that. It begins with the torques that hold the arm where it is.

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
    """A double pendulum with motors of 8 Nm at both joints goes from hanging down to standing up in the least time.

    Neither motor could hold it sideways. The duration is free from a half to 4 s, and what the motion costs is its duration,
    with a little for effort, so that the answer is one.

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
    # It begins hanging still, which is far from any answer: that takes some five hundred iterations.
    return Posed(problem, Shooting(max_iterations=1000), None)


class Landing(Residual):
    """Where something lands that is let go at a place, less a target: x and y, in m. It flies freely, down to a height.

    - `place`: a site or a body by its name, or `rbd.sensors.OnBody(body, placement)`.
    - `target`: x and y.
    - `height`: of what it lands on.

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
        # Something below would never land; its time goes on smoothly, for searches on their way.
        squared = velocity[2] ** 2 + 2 * gravity * height
        time = (velocity[2] + jnp.sqrt(jnp.maximum(squared, 1e-6))) / gravity
        return position[:2] + time * velocity[:2] - self.target.astype(position.dtype)


def _at_rest(goal: Residual) -> list[Constraint]:
    """The last state is a goal, and nothing moves."""
    return [Constraint(goal, at="end"), Constraint(Velocity(), at="end")]


def _frame(model: Model, q: Array, body: str):
    """Where a body is in a configuration."""
    frames = forward_kinematics(model, q)
    return jax.tree.map(lambda x: x[model.body_index(body)], frames)


def _held(model: Model, q: Array, steps: int) -> Array:
    """The torques under which it stays where it is."""
    return jnp.broadcast_to(gravity_force(model, q), (steps, model.nv))


_BUNDLED = {
    make.__name__: make
    for make in (cartpole_swing_up, acrobot_swing_up, arm7_reach, arm7_throw, double_pendulum_minimum_time)
}

#: The names of the bundled problems.
NAMES = tuple(_BUNDLED)
