"""What a force is: the protocol that every family implements, and what follows from it by differentiation."""

from __future__ import annotations

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._array import dot
from ..model import Model, integrate
from ..model._arguments import check_length
from ._motion import Motion


class Force(eqx.Module):
    """Something that acts on a model, as a function of its configuration and velocity.

    An instance is called as `force(model, q, v)`, so that `rollout(forces=(force, ...))` takes it. Parameters are leaves:
    differentiate with respect to them, batch over them, replace them with `equinox.tree_at`. They are cast to the
    precision of the state. To compile one by itself, `equinox.filter_jit(force)`.

    A family of your own implements `generalized_force` and `stored_energy`.
    """

    @abc.abstractmethod
    def generalized_force(self, motion: Motion) -> Float[Array, "nv"]:
        """`tau`, from a model in motion."""

    @abc.abstractmethod
    def stored_energy(self, motion: Motion) -> Float[Array, ""]:
        """The energy that the force keeps and gives back, from the configuration alone; zero where it keeps none."""

    def __call__(self, model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, "nv"]:
        """`tau`, the generalized force."""
        force, motion = self._in_motion(model, q, v)
        return force.generalized_force(motion)

    def energy(self, model: Model, q: Float[Array, "nq"]) -> Float[Array, ""]:
        """V, the energy that the force keeps and gives back: `tau = -∂V/∂q` where nothing else is in it."""
        force, motion = self._in_motion(model, q)
        return force.stored_energy(motion)

    def power(self, model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, ""]:
        """`tau · v`: the rate at which the force works on the freedoms of the model."""
        force, motion = self._in_motion(model, q, v)
        return dot(force.generalized_force(motion), motion.v)

    def dissipation(self, model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, ""]:
        """`-tau · v - dV/dt`: the rate at which energy is lost in the force; negative where it brings energy in."""
        _, motion = self._in_motion(model, q, v)

        def stored(step):
            return self.energy(model, integrate(model, motion.q, step * motion.v))

        zero, one = jnp.zeros((), motion.v.dtype), jnp.ones((), motion.v.dtype)
        return -self.power(model, q, v) - jax.jvp(stored, (zero,), (one,))[1]

    def stiffness(self, model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, "nv nv"]:
        """`K = ∂tau/∂q`, in the tangent space: the change of `tau` for a step `q ⊕ δ`. A spring's is negative."""
        _, motion = self._in_motion(model, q, v)

        def stepped(step):
            return self(model, integrate(model, motion.q, step), motion.v)

        return jax.jacfwd(stepped)(jnp.zeros_like(motion.v))

    def damping(self, model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, "nv nv"]:
        """`D = -∂tau/∂v`. A damper's is positive."""
        _, motion = self._in_motion(model, q, v)
        return -jax.jacfwd(lambda v: self(model, motion.q, v))(motion.v)

    def _in_motion(self, model: Model, q, v=None):
        """The force in the precision of the state, and the model in that state; at rest by default."""
        name = type(self).__name__
        q = check_length(name, model, "q", q, "nq")
        v = jnp.zeros(model.nv, q.dtype) if v is None else check_length(name, model, "v", v, "nv")

        def cast(leaf):
            return leaf.astype(q.dtype) if eqx.is_inexact_array(leaf) else leaf

        return jax.tree.map(cast, self), Motion(model, q, v)


class Together(Force):
    """Several forces as one, which work out where the bodies are and how they move only once."""

    forces: tuple[Force, ...]

    def __init__(self, *forces):
        for index, force in enumerate(forces):
            if not isinstance(force, Force):
                raise ValueError(f"Together: forces[{index}] is a {type(force).__name__}, not a Force")
        self.forces = forces

    def generalized_force(self, motion):
        return sum((force.generalized_force(motion) for force in self.forces), jnp.zeros_like(motion.v))

    def stored_energy(self, motion):
        return sum((force.stored_energy(motion) for force in self.forces), jnp.zeros((), motion.q.dtype))
