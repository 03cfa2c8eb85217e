"""Residuals, constraints and limits of a configuration, linearized along the tangent space."""

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
    """The linearization at a configuration, with rows r of targets, constraints and secondary costs, in this order.

    - `q`, `r`: the configuration and its residuals.
    - `jacobian`: of r along the tangent space.
    - `weight`: of the square of each row; one for constraints.
    - `low`, `high`: bounds of r; both zero except for inequalities.
    - `least`, `most`: limits of the change of each degree of freedom.
    """

    q: Float[Array, "nq"]
    r: Float[Array, "m"]
    jacobian: Float[Array, "m nv"]
    weight: Float[Array, "m"]
    low: Float[Array, "m"]
    high: Float[Array, "m"]
    least: Float[Array, "nv"]
    most: Float[Array, "nv"]


#: A function that returns the linearization at `q ⊕ step`.
At: TypeAlias = Callable[[Float[Array, "nq"], Float[Array, "nv"]], Local]


def empty(at: At, q: Float[Array, "nq"], still: Float[Array, "nv"]) -> Local:
    """Returns a linearization of zeros at a configuration."""
    shapes = jax.eval_shape(at, q, still)
    return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)._replace(q=q)


def apart(local: Local) -> Float[Array, "m"]:
    """Returns the violation of the bounds of each row."""
    return local.r - jnp.clip(local.r, local.low, local.high)


def weights(local: Local, rows: Rows, reached: Bool[Array, ""]) -> Float[Array, "m"]:
    """Returns the weights of the squares of rows that determine a configuration that is not unique.

    If the targets are reached, these are the weights of the secondary costs. Otherwise they are the weights of the targets,
    plus small weights of the secondary costs that select among equally good configurations.
    """
    whose = lambda part: jnp.where(jnp.zeros(len(local.r), bool).at[part].set(True), local.weight, 0)
    targets, secondary = whose(rows.targets), whose(rows.secondary)
    most = jnp.max(lax.stop_gradient(secondary), initial=0)
    little = float(jnp.finfo(local.r.dtype).eps) ** 0.25 * jnp.max(lax.stop_gradient(targets), initial=0)
    little = little / jnp.where(most > 0, most, 1)
    return jnp.where(reached, secondary, targets + little * secondary)


class Rows(NamedTuple):
    """The rows of targets, constraints and secondary costs, and of each residual."""

    targets: slice
    constraints: slice
    secondary: slice
    each: tuple[slice, ...]


class Closed(Residual):
    """The residual of a model's holonomic constraints, such as closed loops."""

    def __call__(self, knot):
        return gather(residual_of(knot.motion), np.flatnonzero(holonomic(knot.motion.model)))

    def jacobian(self, knot):
        rows = np.flatnonzero(holonomic(knot.motion.model))
        return knot.along(gather(matrix_of(knot.motion).matrix, rows))


class Coordinates(Residual):
    """The entries of q that can have limits, for the tree of a reduced model."""

    def __call__(self, knot):
        return gather(knot.motion.q, limited_entries(knot.motion.model))


class Aims(eqx.Module):
    """The requirements on a configuration.

    - `targets`, `secondary`: costs.
    - `constraints`: conditions that hold in any case.
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
        """The system of the model."""
        return system_of(self.model, jnp.zeros(self.model.nv, self.dtype))

    def knot(self, system, q: Float[Array, "nq"]) -> Knot:
        """Returns a knot at rest in a configuration."""
        state = State(q, jnp.zeros(self.model.nv, q.dtype))
        return Knot(system, jnp.int32(0), self.time, state, None)

    @property
    def asked(self) -> list[Residual]:
        """All residuals, in the order of the rows."""
        return [part.residual for part in (*self.targets, *self.constraints, *self.secondary)]

    def rows(self) -> Rows:
        """Returns the rows of each part."""
        q = jax.ShapeDtypeStruct((self.model.nq,), self.dtype)
        shapes = jax.eval_shape(lambda q: [one(self.knot(self.system, q)) for one in self.asked], q)
        ends = np.cumsum([0, *(shape.shape[0] for shape in shapes)])
        slices = [slice(int(a), int(b)) for a, b in zip(ends[:-1], ends[1:], strict=True)]
        first, last = len(self.targets), len(self.targets) + len(self.constraints)
        part = lambda a, b: slice(int(ends[a]), int(ends[b]))
        return Rows(part(0, first), part(first, last), part(last, len(slices)), tuple(slices))

    def at(self, q: Float[Array, "nq"], step: Float[Array, "nv"]) -> Local:
        """Returns the linearization at `q ⊕ step`."""
        system = self.system
        q = system.move(q, step)
        # Put q exactly within the limits. This corrects rounding only, so it has no derivative.
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
        """Returns how far each degree of freedom may move from q."""
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
    """Returns the limits for each entry of q, from the given bounds or from the model."""
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
                f"{owner}: a bound of q has shape {side.shape}; it must be one number, or ({model.nq},)"
            )
        if (
            is_known(side)
            and side.ndim
            and (np.delete(np.asarray(side), places[places >= 0]) != missing).any()
        ):
            raise ValueError(
                f"{owner}: q has finite limits for a joint whose configuration is not a vector (a ball, a free body). "
                "Use a Constraint for it, and pass bounds without these limits."
            )
    # A single number applies to the entries that can have a limit.
    limited = np.zeros(model.nq, bool)
    limited[places[places >= 0]] = True
    lower, upper = (jnp.broadcast_to(side, (model.nq,)).astype(dtype) for side in pair)
    return jnp.where(limited, lower, -jnp.inf), jnp.where(limited, upper, jnp.inf)


def speeds_of(
    owner: str, model: Simulated, bounds: Bounds | None, dtype
) -> tuple[Float[Array, "nv"], Float[Array, "nv"]]:
    """Returns the limits of velocities, from the given bounds or from the model."""
    pair = None if bounds is None else bounds.v
    if bounds is None and hasattr(model, "velocity_limit"):
        pair = -model.velocity_limit, model.velocity_limit  # pyright: ignore[reportAttributeAccessIssue]
    pair = (jnp.asarray(-jnp.inf), jnp.asarray(jnp.inf)) if pair is None else pair
    for side in pair:
        if side.shape not in ((), (model.nv,)):
            raise ValueError(
                f"{owner}: a bound of v has shape {side.shape}; it must be one number, or ({model.nv},)"
            )
    lower, upper = (jnp.broadcast_to(side, (model.nv,)).astype(dtype) for side in pair)
    return lower, upper


def own_constraints(model: Simulated) -> tuple[Constraint, ...]:
    """Returns the constraints of a model beside the limits of its q.

    These are the closure of its loops or, for a reduced model, the limits of the joints that it moves.
    """
    if isinstance(model, Model):
        return (Constraint(Closed()),) if model.constraints else ()
    tree, places = model.model, limited_entries(model.model)
    return (Constraint(Coordinates(), gather(tree.lower, places), gather(tree.upper, places)),)


def _numbers(part: Cost | Constraint, r: Float[Array, "k"]):
    """Returns the weights and bounds of some rows."""
    if isinstance(part, Constraint):
        return jnp.ones_like(r), *part.sides(r.size, r.dtype)
    return part.weights(r.size, r.dtype), jnp.zeros_like(r), jnp.zeros_like(r)


def flat_entries(model: Simulated) -> np.ndarray:
    """Returns, for each degree of freedom, the entry of q that changes by addition, or -1 if there is no such entry."""
    if not isinstance(model, Model):
        return np.arange(model.nv)
    places = np.full(model.nv, -1)
    topology = model.topology
    for body, (kind, _) in enumerate(topology.kind_of):
        if model.joints[kind].flat and not topology.is_mimic[body]:
            places[model.v_slice(body)] = np.arange(model.nq)[model.q_slice(body)]
    return places


def limited_entries(model: Model) -> np.ndarray:
    """Returns the entries of q that can have limits."""
    places = flat_entries(model)
    return places[places >= 0]
