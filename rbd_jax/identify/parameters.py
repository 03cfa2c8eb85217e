"""The estimated parameters of a model as one vector, with names, units, bounds and prior, and maps to and from a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import a_model, instance, vector
from .._core.array import by_numpy, is_known
from .._core.errors import ModelError
from .._core.jit import compiled
from ..model import Model
from ..spatial.inertia import Inertia
from .kind import Kind


class Block(NamedTuple):
    """The values of one parameter group: `shape` values from index `start`."""

    start: int
    shape: tuple[int, int]
    places: tuple[int, ...]

    @property
    def stop(self) -> int:
        return self.start + self.shape[0] * self.shape[1]

    def of(self, x):
        """Returns the block's part of a vector, a row for each object."""
        return by_numpy(lambda _, x: x[self.start : self.stop].reshape(self.shape), x)


class Parameters(eqx.Module):
    """Estimated parameters of a model: a map between vectors and models, differentiable in both directions.

    There are two vectors of the same length. *Values* are physical, with `names` and `units` such as kilograms or N m s.
    *x* is unconstrained, for optimizers and samplers: for any x, inertias are physically consistent, damping is
    nonnegative, and bounds hold.

    - `reference`: the initial model. All other parameters keep its values; placements and offsets are relative to it.
    - `kinds`: the parameter groups.
    - `blocks`: the part of the vector of each group.
    - `names`, `units`: names and units of the values.

    >>> model = rbd.load("double_pendulum")
    >>> parameters = rbd.identify.Parameters(model, [rbd.identify.masses("upper"), rbd.identify.damping()])
    >>> parameters.names, parameters.units
    (('upper mass', 'shoulder damping', 'elbow damping'), ('kg', 'N m s/rad', 'N m s/rad'))
    >>> heavier = parameters.with_values(jnp.array([2.0, 0.1, 0.2]))
    >>> print(heavier.inertias.mass, heavier.damping, parameters.values_of(heavier))
    [2. 1.] [0.1 0.2] [2.  0.1 0.2]
    """

    reference: Model
    kinds: tuple[Kind, ...]
    blocks: tuple[Block, ...] = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)
    units: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, model: Model, free: Kind | Sequence[Kind]):
        a_model("identify.Parameters", model)
        if not is_known(model):
            raise ModelError("identify.Parameters requires concrete numbers; construct it outside of jit.")
        given = (free,) if isinstance(free, Kind) else tuple(free)
        if not given:
            raise ModelError(
                "identify.Parameters: free is empty. Pass parameter groups: [identify.inertias('link*'), identify.damping()]."
            )
        for kind in given:
            instance(
                "identify.Parameters",
                "free",
                kind,
                Kind,
                "what identify.inertias, identify.damping, ... return",
            )
        self.reference, self.kinds = model, tuple(kind.bound(model) for kind in given)
        blocks, names, units, start, taken = [], [], [], 0, {}
        for number, kind in enumerate(self.kinds):
            chosen = kind.chosen(model)
            _claim(number, self.kinds, chosen, taken, model)
            places = tuple(one.place for one in chosen)
            blocks.append(Block(start, (len(places), len(kind.components)), places))
            start = blocks[-1].stop
            for one in chosen:
                for name, turning, sliding in kind.components:
                    names.append(f"{one.label} {name}".strip())
                    units.append(turning if one.turns else sliding)
        self.blocks, self.names, self.units = tuple(blocks), tuple(names), tuple(units)
        _refuse_contradictions(self)
        _refuse_impossible(self)

    @property
    def size(self) -> int:
        """Number of estimated parameters."""
        return len(self.names)

    @property
    def linear(self) -> bool:
        """True if generalized forces are linear in the values."""
        return all(kind.linear for kind in self.kinds)

    def values(self, x: Float[Array, "n"]) -> Float[Array, "n"]:
        """Returns the physical values at unconstrained coordinates."""
        return self._each("values", self._vector("x", x))

    def with_values(self, values: Float[Array, "n"]) -> Model:
        """Returns the reference model with these values; they are not validated and may be physically inconsistent."""
        model, values = self.reference, self._vector("values", values)
        for kind, block in zip(self.kinds, self.blocks):
            model = kind.write(model, np.array(block.places, int), block.of(values))
        return model

    def model(self, x: Float[Array, "n"]) -> Model:
        """Returns the model at unconstrained coordinates."""
        return self.with_values(self.values(x))

    @compiled
    def values_of(self, model: Model) -> Float[Array, "n"]:
        """Returns the values of a model that differs from the reference only in the estimated parameters."""
        parts = [
            kind.read(model, np.array(block.places, int), self.reference).reshape(-1)
            for kind, block in zip(self.kinds, self.blocks)
        ]
        return jnp.concatenate(parts).astype(self.reference.dtype)

    def x_of(self, model: Model) -> Float[Array, "n"]:
        """Returns the unconstrained coordinates of a model; a value on its bound is moved slightly inside."""
        return self.unbounded(self.values_of(model))

    def unbounded(self, values: Float[Array, "n"]) -> Float[Array, "n"]:
        """Returns the unconstrained coordinates of values, the inverse of `values`."""
        return self._each("chart", self._vector("values", values))

    @compiled
    def bounds(self) -> tuple[Float[Array, "n"], Float[Array, "n"]]:
        """Returns the lower and the upper bound of each value; infinite without a bound."""
        ends = [kind.limits(self.reference.dtype) for kind in self.kinds]
        low, high = (
            jnp.concatenate([jnp.tile(end[side], block.shape[0]) for end, block in zip(ends, self.blocks)])
            for side in (0, 1)
        )
        return low, high

    @compiled
    def prior(self) -> tuple[Float[Array, "n"], Float[Array, "n"]]:
        """Returns mean and standard deviation of the prior of each value; the deviation is infinite without a prior."""
        own, dtype = self.values_of(self.reference), self.reference.dtype
        means, deviations = [], []
        for kind, block in zip(self.kinds, self.blocks):
            mean, deviation = (None, np.inf) if kind.prior is None else kind.prior
            means.append(
                block.of(own) if mean is None else jnp.broadcast_to(jnp.asarray(mean, dtype), block.shape)
            )
            deviations.append(jnp.broadcast_to(jnp.asarray(deviation, dtype), block.shape))
        mean, deviation = (
            jnp.concatenate([part.reshape(-1) for part in parts]) for parts in (means, deviations)
        )
        return mean, deviation

    def inertial(self) -> list[tuple[slice, float]]:
        """Returns the slice of the ten values of each estimated inertia, and the relative standard deviation of its prior."""
        found = []
        for kind, block in zip(self.kinds, self.blocks):
            if kind.inertial:
                spread = float(getattr(kind, "spread", 1.0))
                found += [(slice(i, i + 10), spread) for i in range(block.start, block.stop, 10)]
        return found

    def __repr__(self) -> str:
        return f"Parameters({self.size} of {self.reference.name!r}: {', '.join(self.names[:6])}{', ...' * (self.size > 6)})"

    @compiled
    def _each(self, method: str, vector):
        """Applies a method of the groups to their values and concatenates the results."""
        kinds = zip(self.kinds, self.blocks)
        parts = [getattr(kind, method)(block.of(vector)).reshape(-1) for kind, block in kinds]
        return jnp.concatenate(parts)

    def _vector(self, name, value):
        return vector("identify.Parameters", name, value, self.size, f"there are {self.size} parameters")


def _claim(number: int, kinds: Sequence[Kind], chosen, taken: dict, model: Model) -> None:
    """Records what a group writes; raises an error if another group writes it already."""
    kind = kinds[number]
    for place in kind.written([one.place for one in chosen]):
        for what in kind.sets:
            # Attachments share one list of places, regardless of their role.
            of = kind.of if kind.of in ("body", "joint") else ""
            before = taken.setdefault((of, what, place), number)
            if before != number:
                name = model.body_names[place] if kind.of == "body" else f"{kind.of} {place}"
                both = f"{kind.owner} and {kinds[before].owner} both free"
                if kinds[before].owner == kind.owner:
                    both = f"{kind.owner} is there twice, and frees"
                raise ModelError(f"identify.Parameters: {both} the {what} of {name!r}. Omit one.")


def _equal(one: Model, other: Model) -> bool:
    """Returns whether two models are identical to the last bit; uses NumPy to avoid compilation."""
    leaves, structure = jax.tree.flatten(one)
    others, other_structure = jax.tree.flatten(other)
    same = lambda a, b: a.dtype == b.dtype and np.array_equal(a, b)
    return structure == other_structure and all(map(same, map(np.asarray, leaves), map(np.asarray, others)))


def of_model(owner: str, model: Model, free: Kind | Sequence[Kind] | Parameters) -> Parameters:
    """Returns the parameters of a model; raises an error if they belong to another model."""
    if not isinstance(free, Parameters):
        return Parameters(model, free)
    if free.reference is not model and not _equal(free.reference, model):
        raise ModelError(
            f"{owner}: free was made of model {free.reference.name!r}, but this is another model, {model.name!r}, or has other "
            "numbers; take Parameters(model, ...) of this model, or pass the parameter groups."
        )
    return free


def _refuse_contradictions(parameters: Parameters) -> None:
    """Raises an error for empty bounds, and for priors that are invalid or outside of the bounds."""
    low, high = (np.asarray(end, float) for end in parameters.bounds())
    mean, deviation = (np.asarray(part, float) for part in parameters.prior())
    for kind, block in zip(parameters.kinds, parameters.blocks):
        for i in range(block.start, block.stop):
            name, owner = parameters.names[i], kind.owner
            if not low[i] < high[i]:
                raise ModelError(
                    f"{owner}: the bounds of {name!r} are {low[i]:g} and {high[i]:g}; the first is the lower bound."
                )
            if kind.prior is None:
                continue
            if not deviation[i] > 0:
                raise ModelError(
                    f"{owner}: the prior of {name!r} has the standard deviation {deviation[i]:g}; it must be positive. Do not "
                    "estimate parameters that are known exactly."
                )
            if not np.isfinite(mean[i]):
                raise ModelError(f"{owner}: the prior of {name!r} has the non-finite mean {mean[i]:g}")
            if not low[i] <= mean[i] <= high[i]:
                raise ModelError(
                    f"{owner}: the prior of {name!r} has the mean {mean[i]:g}, but its bounds are {low[i]:g} and {high[i]:g}."
                )


@jax.jit
def _chart(values):
    return Inertia.from_parameters(values).to_log_cholesky()


def _refuse_impossible(parameters: Parameters) -> None:
    """Raises an error that names the inertias without unconstrained coordinates, since a search cannot start there."""
    for kind, block in zip(parameters.kinds, parameters.blocks):
        if not kind.inertial:
            continue
        values = kind.read(parameters.reference, np.array(block.places, int), parameters.reference)
        numbers = _chart(values)
        bad = np.flatnonzero(~np.isfinite(np.asarray(numbers)).all(axis=1))
        if len(bad):
            listed = ", ".join(
                repr(parameters.names[block.start + 10 * i].removesuffix(" mass")) for i in bad
            )
            raise ModelError(
                f"{kind.owner}: for {listed} the model has an inertia that no body has that extends in all directions. "
                "Physically consistent estimates cannot start from it. Take identify.made_physical(model)"
            )
