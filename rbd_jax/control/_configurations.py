"""What is asked of a configuration, as numbers: residuals, constraints and limits, linearized along the tangent space."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from .._core.arguments import instance
from .._core.array import gather, is_known
from ..constraints.evaluate import holonomic, matrix_of, residual_of
from ..model import Model
from ..simulate import Simulated
from ..simulate.state import State
from ..simulate.systems import system_of
from .constraint import Bounds, Constraint
from .knot import Knot
from .residual import Cost, Residual


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


#: What is known at `q ⊕ step`.
At: TypeAlias = Callable[[Float[Array, "nq"], Float[Array, "nv"]], Local]


def empty(at: At, q: Float[Array, "nq"], still: Float[Array, "nv"]) -> Local:
    """A configuration of which nothing is known yet."""
    shapes = jax.eval_shape(at, q, still)
    return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)._replace(q=q)


def apart(local: Local) -> Float[Array, "m"]:
    """By how much each row is not between its bounds."""
    return local.r - jnp.clip(local.r, local.low, local.high)


def weights(local: Local, rows: Rows, reached: Bool[Array, ""]) -> Float[Array, "m"]:
    """What the squares of rows count where something is left to choose: if the targets are reached, those of secondary costs, and
    if they are not, their own, and those of secondary costs so little beside that they decide between what is as near."""
    whose = lambda part: jnp.where(jnp.zeros(len(local.r), bool).at[part].set(True), local.weight, 0)
    targets, secondary = whose(rows.targets), whose(rows.secondary)
    most = jnp.max(lax.stop_gradient(secondary), initial=0)
    little = float(jnp.finfo(local.r.dtype).eps) ** 0.25 * jnp.max(lax.stop_gradient(targets), initial=0)
    little = little / jnp.where(most > 0, most, 1)
    return jnp.where(reached, secondary, targets + little * secondary)


class Rows(NamedTuple):
    """Which rows are targets', constraints' and secondary costs', and those of each residual."""

    targets: slice
    constraints: slice
    secondary: slice
    each: tuple[slice, ...]


class Closed(Residual):
    """How far the loops of a model are from closed, as far as its constraints hold positions."""

    def __call__(self, knot):
        return gather(residual_of(knot.motion), np.flatnonzero(holonomic(knot.motion.model)))

    def jacobian(self, knot):
        rows = np.flatnonzero(holonomic(knot.motion.model))
        return knot.along(gather(matrix_of(knot.motion).matrix, rows))


class Coordinates(Residual):
    """The entries of q that can have limits, of the tree of a reduced model."""

    def __call__(self, knot):
        return gather(knot.motion.q, limited_entries(knot.motion.model))


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

    @property
    def asked(self) -> list[Residual]:
        """All residuals, in the order of the rows."""
        return [part.residual for part in (*self.targets, *self.constraints, *self.secondary)]

    def rows(self) -> Rows:
        """Which rows are whose."""
        q = jax.ShapeDtypeStruct((self.model.nq,), self.dtype)
        shapes = jax.eval_shape(lambda q: [one(self.knot(self.system, q)) for one in self.asked], q)
        ends = np.cumsum([0, *(shape.shape[0] for shape in shapes)])
        slices = [slice(int(a), int(b)) for a, b in zip(ends[:-1], ends[1:], strict=True)]
        first, last = len(self.targets), len(self.targets) + len(self.constraints)
        part = lambda a, b: slice(int(ends[a]), int(ends[b]))
        return Rows(part(0, first), part(first, last), part(last, len(slices)), tuple(slices))

    def at(self, q: Float[Array, "nq"], step: Float[Array, "nv"]) -> Local:
        """What is known at `q ⊕ step`."""
        system = self.system
        q = system.move(q, step)
        # At a limit to the last bit: that is rounding, and no part of how q moves.
        q = q + lax.stop_gradient(jnp.clip(q, self.lower, self.upper) - q)
        knot = self.knot(system, q)
        found = [one(knot) for one in self.asked]
        numbers = zip((*self.targets, *self.constraints, *self.secondary), found, strict=True)
        weight, low, high = (
            jnp.concatenate(x) for x in zip(*(_numbers(*each) for each in numbers), strict=True)
        )
        jacobian = jnp.concatenate([one.jacobian(knot) for one in self.asked])
        return Local(q, jnp.concatenate(found), jacobian, weight, low, high, *self.room(q))

    def room(self, q: Float[Array, "nq"]) -> tuple[Float[Array, "nv"], Float[Array, "nv"]]:
        """How far each degree of freedom may move from there."""
        places = flat_entries(self.model)
        entries = np.maximum(places, 0)
        least = jnp.where(places >= 0, gather(self.lower - q, entries), -jnp.inf)
        most = jnp.where(places >= 0, gather(self.upper - q, entries), jnp.inf)
        held = np.zeros(self.model.nv, bool)
        held[self.system.dof(self.hold)] = True
        return jnp.where(held, 0, least), jnp.where(held, 0, most)


def limits_of(
    owner: str, model: Simulated, bounds: Bounds | None, dtype
) -> tuple[Float[Array, "nq"], Float[Array, "nq"]]:
    """The limits for each entry of q: the model's, or those of bounds that are given."""
    if bounds is not None:
        instance(owner, "bounds", bounds, Bounds, "control.Bounds, or None for the limits of the model")
        pair = bounds.q
    else:
        pair = (model.lower, model.upper) if isinstance(model, Model) else None
    pair = (jnp.asarray(-jnp.inf), jnp.asarray(jnp.inf)) if pair is None else pair
    places = flat_entries(model)
    for side, missing in zip(pair, (-np.inf, np.inf), strict=True):
        if side.shape not in ((), (model.nq,)):
            raise ValueError(
                f"{owner}: a bound of q has shape {side.shape}; it is one number, or ({model.nq},)"
            )
        if (
            is_known(side)
            and side.ndim
            and (np.delete(np.asarray(side), places[places >= 0]) != missing).any()
        ):
            raise ValueError(
                f"{owner}: q has finite limits for a joint whose configuration is no vector (a ball, a free body); limit what "
                "you mean by a Constraint, and give bounds without them"
            )
    # One number for all is for those that can have a limit.
    limited = np.zeros(model.nq, bool)
    limited[places[places >= 0]] = True
    lower, upper = (jnp.broadcast_to(side, (model.nq,)).astype(dtype) for side in pair)
    return jnp.where(limited, lower, -jnp.inf), jnp.where(limited, upper, jnp.inf)


def speeds_of(
    owner: str, model: Simulated, bounds: Bounds | None, dtype
) -> tuple[Float[Array, "nv"], Float[Array, "nv"]]:
    """Between which numbers velocities are: the limits of the model, or those of bounds that are given."""
    pair = None if bounds is None else bounds.v
    if bounds is None and hasattr(model, "velocity_limit"):
        pair = -model.velocity_limit, model.velocity_limit  # pyright: ignore[reportAttributeAccessIssue]
    pair = (jnp.asarray(-jnp.inf), jnp.asarray(jnp.inf)) if pair is None else pair
    for side in pair:
        if side.shape not in ((), (model.nv,)):
            raise ValueError(
                f"{owner}: a bound of v has shape {side.shape}; it is one number, or ({model.nv},)"
            )
    lower, upper = (jnp.broadcast_to(side, (model.nv,)).astype(dtype) for side in pair)
    return lower, upper


def own_constraints(model: Simulated) -> tuple[Constraint, ...]:
    """What a model has to keep to beside the limits of its q: the closure of its loops; of a reduced model, the limits of the
    joints that it moves."""
    if isinstance(model, Model):
        return (Constraint(Closed()),) if model.constraints else ()
    tree, places = model.model, limited_entries(model.model)
    return (Constraint(Coordinates(), gather(tree.lower, places), gather(tree.upper, places)),)


def _numbers(part: Cost | Constraint, r: Float[Array, "k"]):
    """Weights and bounds of some rows."""
    if isinstance(part, Constraint):
        return jnp.ones_like(r), *part.sides(r.size, r.dtype)
    return part.weights(r.size, r.dtype), jnp.zeros_like(r), jnp.zeros_like(r)


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
