"""The free numbers of a model as one vector: to a model and back, by name, with units, bounds and what is known beforehand."""

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
    """What one kind frees: `shape` values from `start` on."""

    start: int
    shape: tuple[int, int]
    places: tuple[int, ...]

    @property
    def stop(self) -> int:
        return self.start + self.shape[0] * self.shape[1]

    def of(self, x):
        """Its part of a vector, a row for each thing."""
        return by_numpy(lambda _, x: x[self.start : self.stop].reshape(self.shape), x)


class Parameters(eqx.Module):
    """What of a model is free: a map between vectors and models, differentiable both ways.

    There are two vectors of the same length. *Values* are physical, with `names` and `units`: kilograms, N m s. *x* has no bounds
    and is what optimizers and samplers move: whatever its numbers, inertias are those of bodies that can be, damping is not
    negative, and what has bounds keeps them.

    - `reference`: the model whose numbers are free. All others stay as they are, and placements and offsets are counted from it.
    - `kinds`: what is free.

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
            raise ModelError("identify.Parameters looks at numbers of the model, so make it outside of jit")
        given = (free,) if isinstance(free, Kind) else tuple(free)
        if not given:
            raise ModelError(
                "identify.Parameters: free is empty; it says what is free, as in [identify.inertias('link*'), identify.damping()]"
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
        """How many numbers are free."""
        return len(self.names)

    @property
    def linear(self) -> bool:
        """Whether generalized forces are linear in the values."""
        return all(kind.linear for kind in self.kinds)

    def values(self, x: Float[Array, "n"]) -> Float[Array, "n"]:
        """The physical values at a point without bounds."""
        return self._each("values", self._vector("x", x))

    def with_values(self, values: Float[Array, "n"]) -> Model:
        """The reference with these values; they are not looked at, and may be impossible."""
        model, values = self.reference, self._vector("values", values)
        for kind, block in zip(self.kinds, self.blocks):
            model = kind.write(model, np.array(block.places, int), block.of(values))
        return model

    def model(self, x: Float[Array, "n"]) -> Model:
        """The model at a point without bounds."""
        return self.with_values(self.values(x))

    @compiled
    def values_of(self, model: Model) -> Float[Array, "n"]:
        """The values of a model that differs from the reference in free numbers alone."""
        parts = [
            kind.read(model, np.array(block.places, int), self.reference).reshape(-1)
            for kind, block in zip(self.kinds, self.blocks)
        ]
        return jnp.concatenate(parts).astype(self.reference.dtype)

    def x_of(self, model: Model) -> Float[Array, "n"]:
        """The point without bounds where a model is. A value on its bound is taken as a little inside."""
        return self.unbounded(self.values_of(model))

    def unbounded(self, values: Float[Array, "n"]) -> Float[Array, "n"]:
        """The point without bounds where values are, the other way round from `values`."""
        return self._each("chart", self._vector("values", values))

    @compiled
    def bounds(self) -> tuple[Float[Array, "n"], Float[Array, "n"]]:
        """The lowest and the highest possible of each value, infinite where there is none."""
        ends = [kind.limits(self.reference.dtype) for kind in self.kinds]
        low, high = (
            jnp.concatenate([jnp.tile(end[side], block.shape[0]) for end, block in zip(ends, self.blocks)])
            for side in (0, 1)
        )
        return low, high

    @compiled
    def prior(self) -> tuple[Float[Array, "n"], Float[Array, "n"]]:
        """What is known of each value beforehand: mean and standard deviation, infinite where nothing is."""
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
        """Where the ten values of each free inertia are, and how far the model's own are thought to be off, relatively."""
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
        """What a method of the kinds returns for their values."""
        kinds = zip(self.kinds, self.blocks)
        parts = [getattr(kind, method)(block.of(vector)).reshape(-1) for kind, block in kinds]
        return jnp.concatenate(parts)

    def _vector(self, name, value):
        return vector("identify.Parameters", name, value, self.size, f"there are {self.size} free numbers")


def _claim(number: int, kinds: Sequence[Kind], chosen, taken: dict, model: Model) -> None:
    """Note what a kind sets; what another has set already is refused."""
    kind = kinds[number]
    for place in kind.written([one.place for one in chosen]):
        for what in kind.sets:
            # What a model carries has one place among all of it, whatever its role.
            of = kind.of if kind.of in ("body", "joint") else ""
            before = taken.setdefault((of, what, place), number)
            if before != number:
                name = model.body_names[place] if kind.of == "body" else f"{kind.of} {place}"
                both = f"{kind.owner} and {kinds[before].owner} both free"
                if kinds[before].owner == kind.owner:
                    both = f"{kind.owner} is there twice, and frees"
                raise ModelError(f"identify.Parameters: {both} the {what} of {name!r}; leave it to one")


def _equal(one: Model, other: Model) -> bool:
    """Whether two models are the same to the last bit; by NumPy, so that nothing is compiled for it."""
    leaves, structure = jax.tree.flatten(one)
    others, other_structure = jax.tree.flatten(other)
    same = lambda a, b: a.dtype == b.dtype and np.array_equal(a, b)
    return structure == other_structure and all(map(same, map(np.asarray, leaves), map(np.asarray, others)))


def of_model(owner: str, model: Model, free: Kind | Sequence[Kind] | Parameters) -> Parameters:
    """What is free of a model; refused if it was made of another one."""
    if not isinstance(free, Parameters):
        return Parameters(model, free)
    if free.reference is not model and not _equal(free.reference, model):
        raise ModelError(
            f"{owner}: free was made of model {free.reference.name!r}, and this is another one, {model.name!r}, or has other "
            "numbers; take Parameters(model, ...) of this model, or give the kinds"
        )
    return free


def _refuse_contradictions(parameters: Parameters) -> None:
    """Bounds without values between them, and what is known beforehand that cannot be."""
    low, high = (np.asarray(end, float) for end in parameters.bounds())
    mean, deviation = (np.asarray(part, float) for part in parameters.prior())
    for kind, block in zip(parameters.kinds, parameters.blocks):
        for i in range(block.start, block.stop):
            name, owner = parameters.names[i], kind.owner
            if not low[i] < high[i]:
                raise ModelError(
                    f"{owner}: the bounds of {name!r} are {low[i]:g} and {high[i]:g}; the first is the lower one"
                )
            if kind.prior is None:
                continue
            if not deviation[i] > 0:
                raise ModelError(
                    f"{owner}: the prior of {name!r} has the standard deviation {deviation[i]:g}; it is positive, and what is "
                    "known exactly is not free"
                )
            if not np.isfinite(mean[i]):
                raise ModelError(f"{owner}: the prior of {name!r} has the mean {mean[i]:g}")
            if not low[i] <= mean[i] <= high[i]:
                raise ModelError(
                    f"{owner}: the prior of {name!r} has the mean {mean[i]:g}, and its bounds are {low[i]:g} and {high[i]:g}"
                )


@jax.jit
def _chart(values):
    return Inertia.from_parameters(values).to_log_cholesky()


def _refuse_impossible(parameters: Parameters) -> None:
    """Refuse inertias without a chart, by name: there is nothing to start from."""
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
                f"{kind.owner}: of {listed} the model has an inertia that no body has that extends in all directions; estimates "
                "that keep bodies possible start from it. Take identify.made_physical(model)"
            )
