"""MuJoCo's semi-implicit Euler schemes."""

from typing import Literal

import equinox as eqx
import jax.numpy as jnp

from .._core.arguments import choice
from .scheme import Scheme, code_of
from .state import State


class MujocoEuler(Scheme):
    """MuJoCo's integrators `Euler` and `implicitfast`: `v⁺ = v + h v̇`, then `q⁺ = q ⊕ h v⁺`.

    Models from MJCF files use this scheme by default, with the integrator of the file. The velocities of floating bodies are
    integrated in axes that do not rotate. Springs, servo stiffness and internal states take their values at the start of the
    step, so stiff springs and servos require short steps; `rbd.SemiImplicitEuler` is stable for them.

    - `implicit`: the forces that take their velocity at the end of the step. `"damping"`: damping of joints, as MuJoCo's `Euler`.
      `"velocities"`: also actuators, damping of tendons and Coriolis forces of single free bodies, as MuJoCo's `implicitfast`. In
      models with hard constraints, only actuators on joints are added.

    >>> model, start = rbd.load("pendulum"), rbd.State(jnp.array([0.5]), jnp.zeros(1))
    >>> path = rbd.rollout(model, start, dt=0.01, steps=100, scheme=rbd.MujocoEuler())
    >>> print(path.q[-1])
    [-0.5]
    """

    implicit: Literal["damping", "velocities"] = eqx.field(static=True, default="damping")

    stiff = True

    def __check_init__(self):
        choice("MujocoEuler", "implicit", self.implicit, ("damping", "velocities"))

    def init(self, system, time, state, dt):
        return jnp.zeros_like(state.v) if system.searches else ()

    def step(self, here, memory, dt):
        searches = here.system.searches
        if searches:
            here = here.guessing(memory)
        a, own, unsolved = here.accelerated(dt, self.implicit)
        q, v = here.system.advanced(here.q, here.v, a, dt, fixed_axes=True)
        return State(q, v, own), a if searches else (), code_of(unsolved)
