"""What is asked of a configuration, as numbers: residuals, constraints and limits, linearized along the tangent space."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from .._array import gather
from ..constraints.evaluate import holonomic, residual_of
from ..model import Model
from ..simulate import Simulated, State
from ..simulate.systems import system_of, tree_of
from .constraint import Constraint
from .knot import Knot
from .residual import Cost


class Local(NamedTuple):
    """What is known at a configuration: rows r, of targets, constraints and secondary costs one after the other.

    - `q`, `r`: where, and the residuals there.
    - `jacobian`: of r along the tangent space.
    - `weight`: of the square of each row; one for constraints.
    - `low`, `high`: between which r should be; zero both, but of inequalities.
    - `least`, `most`: how far each degree of freedom may move.
    """

    q: Float[Array, "nq"]
    r: Float[Array, "m"]
    jacobian: Float[Array, "m nv"]
    weight: Float[Array, "m"]
    low: Float[Array, "m"]
    high: Float[Array, "m"]
    least: Float[Array, "nv"]
    most: Float[Array, "nv"]


class Rows(NamedTuple):
    """Which rows are targets', constraints' and secondary costs', and which of the constraints' are inequalities."""

    targets: slice
    constraints: slice
    secondary: slice
    inequality: np.ndarray
    each: tuple[slice, ...]

    @property
    def count(self) -> int:
        return self.secondary.stop


class Aims(eqx.Module):
    """What is asked of a configuration.

    - `targets`, `secondary`: costs; `constraints`: what holds whatever they are.
    - `lower`, `upper`: limits for each entry of q.
    - `hold`: joints that do not move.
    """

    model: Simulated
    targets: tuple[Cost, ...]
    constraints: tuple[Constraint, ...]
    secondary: tuple[Cost, ...]
    lower: Float[Array, "nq"]
    upper: Float[Array, "nq"]
    time: Float[Array, ""]
    hold: tuple[str, ...] = eqx.field(static=True)

    @property
    def dtype(self):
        return self.lower.dtype

    @property
    def system(self):
        """What moves."""
        return system_of(self.model, jnp.zeros(self.model.nv, self.dtype))

    def knot(self, system, q: Float[Array, "nq"]) -> Knot:
        """A configuration at rest, as residuals are asked with."""
        state = State(q, jnp.zeros(self.model.nv, q.dtype))
        return Knot(system, jnp.int32(0), self.time, state, None)

    def rows(self) -> Rows:
        """Which rows are whose."""
        q = jax.ShapeDtypeStruct((self.model.nq,), self.dtype)
        sizes = lambda parts: [
            jax.eval_shape(lambda q: part.residual(self.knot(self.system, q)), q).shape[0] for part in parts
        ]
        held = sizes(self.constraints)
        inequality = [np.full(n, not one.equality) for one, n in zip(self.constraints, held, strict=True)]
        own = jax.eval_shape(lambda q: self._own(self.knot(self.system, q))[0], q).shape[0]
        inequality.append(np.full(own, not isinstance(self.model, Model)))
        each = [*sizes(self.targets), sum(held) + own, *sizes(self.secondary)]
        ends = np.cumsum([0, *each])
        slices = [slice(int(a), int(b)) for a, b in zip(ends[:-1], ends[1:], strict=True)]
        first, last = ends[len(self.targets)], ends[len(self.targets) + 1]
        own = slice(0, int(first)), slice(int(first), int(last)), slice(int(last), int(ends[-1]))
        return Rows(*own, np.concatenate(inequality), tuple(slices[: len(self.targets)]))

    def _own(self, knot: Knot):
        """What the model itself has to keep to beside its limits, and between which bounds: the closure of its loops; of a
        reduced model, the limits of the joints that it moves."""
        if isinstance(self.model, Model):
            r = gather(residual_of(knot.motion), np.flatnonzero(holonomic(self.model)))
            return r, jnp.zeros_like(r), jnp.zeros_like(r)
        tree = tree_of(self.model)
        places = limited_entries(tree)
        return tuple(gather(x.astype(self.dtype), places) for x in (knot.motion.q, tree.lower, tree.upper))

    def at(self, q: Float[Array, "nq"], step: Float[Array, "nv"]) -> Local:
        """What is known at `q ⊕ step`."""
        system = self.system
        q = system.move(q, step)
        # At a limit to the last bit: that is rounding, and no part of how q moves.
        q = q + lax.stop_gradient(jnp.clip(q, self.lower, self.upper) - q)

        def residuals(step):
            knot = self.knot(system, system.move(q, step))
            costs = [cost.residual(knot) for cost in self.targets]
            held = [one.residual(knot) for one in self.constraints]
            own, _, _ = self._own(knot)
            later = [cost.residual(knot) for cost in self.secondary]
            r = jnp.concatenate([*costs, *held, own, *later])
            return r, r

        still = jnp.zeros_like(step)
        jacobian, r = jax.jacfwd(residuals, has_aux=True)(still)
        least, most = self.room(q)
        return Local(q, r, jacobian, *self._numbers(system, q), least, most)

    def _numbers(self, system, q):
        """Weights and bounds of all rows."""
        knot = self.knot(system, q)
        sizes = lambda part: jax.eval_shape(lambda: part.residual(knot)).shape[0]
        weights = lambda costs: [cost.weights(sizes(cost), q.dtype) for cost in costs]
        own, low, high = self._own(knot)
        lows, highs = [], []
        for one in self.constraints:
            ends = one.sides(sizes(one), q.dtype)
            lows.append(ends[0])
            highs.append(ends[1])
        first, last = weights(self.targets), weights(self.secondary)
        zeros = lambda parts: [jnp.zeros_like(part) for part in parts]
        ones = [jnp.ones_like(x) for x in (*lows, own)]
        weight = jnp.concatenate([*first, *ones, *last])
        low = jnp.concatenate([*zeros(first), *lows, low, *zeros(last)])
        high = jnp.concatenate([*zeros(first), *highs, high, *zeros(last)])
        return weight, low, high

    def room(self, q: Float[Array, "nq"]) -> tuple[Float[Array, "nv"], Float[Array, "nv"]]:
        """How far each degree of freedom may move from there."""
        places = flat_entries(self.model)
        entries = np.maximum(places, 0)
        least = jnp.where(places >= 0, gather(self.lower - q, entries), -jnp.inf)
        most = jnp.where(places >= 0, gather(self.upper - q, entries), jnp.inf)
        held = np.zeros(self.model.nv, bool)
        held[self.system.dof(self.hold)] = True
        return jnp.where(held, 0, least), jnp.where(held, 0, most)


def flat_entries(model: Simulated) -> np.ndarray:
    """For each degree of freedom the entry of q that is moved by adding to it, -1 where there is none."""
    if not isinstance(model, Model):
        return np.arange(model.nv)
    places = np.full(model.nv, -1)
    topology = model.topology
    for body, (kind, _) in enumerate(topology.kind_of):
        if model.joints[kind].flat and not topology.is_mimic[body]:
            places[model.v_slice(body)] = np.arange(model.nq)[model.q_slice(body)]
    return places


def limited_entries(model: Model) -> np.ndarray:
    """The entries of q that can have limits."""
    places = flat_entries(model)
    return places[places >= 0]
