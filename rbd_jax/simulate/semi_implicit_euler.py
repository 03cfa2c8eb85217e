"""The semi-implicit (symplectic) Euler scheme."""

from typing import Literal

import equinox as eqx
import jax.numpy as jnp

from .._core.arguments import choice
from .scheme import Scheme, code_of
from .state import State


class SemiImplicitEuler(Scheme):
    """The scheme `v⁺ = v + h v̇(t, q, v)`, then `q⁺ = q ⊕ h v⁺`: first order, one evaluation (Sueda eqs. 1.28, 1.29).

    It is symplectic, and so has no energy drift, if the mass matrix is constant: prismatic joints, a single hinge. Otherwise
    the velocity-product forces take their values at the start of the step and the energy drifts at first order in h. The
    energy of a free body that spins and falls fast grows by about `½ m (ω v h)²` per step.

    - `passive`: the treatment of passive joint forces. `"implicit"`, the default, is stable at every step. Damping takes its
      value at the end of the step. Springs and soft joint limits (`rbd.forces.JointLimit`) are as stiff as the step can
      resolve, without energy loss. Dry friction follows its own model, under which a joint sticks: Coulomb's law, or
      bristles (`rbd.forces.BristleFriction`). Internal states of forces (activations, currents) are implicit as well,
      together with their effect on the force if they follow the velocity. With `"explicit"`, all of these take their values
      at the start of the step, like other forces, and friction is smoothed as in `passive_force`.

    >>> model, start = rbd.load("pendulum"), rbd.State(jnp.array([0.5]), jnp.zeros(1))
    >>> path = rbd.rollout(model, start, dt=0.01, steps=100, scheme=rbd.SemiImplicitEuler())
    >>> print(path.q[-1])
    [-0.5]
    """

    passive: Literal["implicit", "explicit"] = eqx.field(static=True, default="implicit")

    def __check_init__(self):
        choice("SemiImplicitEuler", "passive", self.passive, ("implicit", "explicit"))

    @property
    def stiff(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.passive == "implicit"

    def init(self, system, time, state, dt):
        return jnp.zeros_like(state.v) if system.searches else ()

    def step(self, here, memory, dt):
        searches = here.system.searches
        if searches:
            here = here.guessing(memory)
        if self.passive == "implicit":
            a, own, unsolved = here.accelerated(dt)
        else:
            a, rate, unsolved = here.accelerated()
            own = here.state.internal + dt * rate
        q, v = here.system.advanced(here.q, here.v, a, dt)
        return State(q, v, own), a if searches else (), code_of(unsolved)
