"""Parameter groups: which parameters of a model are estimated, their names, and their unconstrained coordinates.

A group selects parameters by names with wildcards (`"link_*"`, as in a shell). It reads values from a model and writes
values to a model. Both operations are JAX functions, so models are differentiable with respect to the values. `Parameters`
builds on these groups and provides vectors, names and priors. A group of your own is a class with `candidates`, `read` and
`write`.
"""

from __future__ import annotations

import abc
import fnmatch
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.array import by_numpy, gather
from .._core.errors import UnknownNameError, suggest
from ..model import Model


class Candidate(NamedTuple):
    """An object whose parameters may be estimated.

    - `name`: the name that patterns are matched with.
    - `place`: its index in the model among objects of this type.
    - `label`: its name in results, which may be more specific than `name`.
    - `turns`: whether it rotates, with moments as forces; this determines the units.

    >>> print([one.name for one in rbd.identify.damping().candidates(rbd.load("double_pendulum"))])
    ['shoulder', 'elbow']
    """

    name: str
    place: int
    label: str
    turns: bool = True


class Kind(eqx.Module):
    """A group of estimated parameters of all objects whose name matches one of several patterns.

    - `patterns`: names with wildcards.
    - `bounds`: lower and upper bound, each a number or one number per component; None for the group's default.
    - `prior`: mean and standard deviation of the prior; a mean of None is the model's own value.

    A group of your own implements `candidates`, `read` and `write`, and defines `components`: names with the units for
    rotation and for translation. Override `chart` and `values` if bounds are not the only restriction.

    >>> free = rbd.identify.damping("elbow", bounds=(0.0, 5.0))
    >>> print(isinstance(free, rbd.identify.Kind), free.patterns, free.bounds)
    True ('elbow',) (0.0, 5.0)
    """

    patterns: tuple[str, ...] = eqx.field(static=True)
    bounds: tuple[Any, Any] | None = None
    prior: tuple[Any, Any] | None = None

    #: The type of object that the patterns match: "body", "joint", "shape", ...
    of: ClassVar[str] = "body"
    #: The name of each component, with its units for rotation and for translation.
    components: ClassVar[tuple[tuple[str, str, str], ...]]
    #: The default bounds.
    range: ClassVar[tuple[float, float]] = (-np.inf, np.inf)
    #: The typical size, one for all or one for each component: the unit of unconstrained coordinates.
    size: ClassVar[float] = 1.0
    #: The properties that the group writes; two groups must not write the same property of an object.
    sets: ClassVar[tuple[str, ...]] = ()
    #: True if generalized forces are linear in the values.
    linear: ClassVar[bool] = False
    #: True if the ten values of an object are an inertia, which must be physically consistent.
    inertial: ClassVar[bool] = False
    #: True if `mirrored` supports mirror images.
    has_mirror_images: ClassVar[bool] = True

    @abc.abstractmethod
    def candidates(self, model: Model) -> Sequence[Candidate]:
        """Returns all objects of a model that have these parameters."""

    @abc.abstractmethod
    def read(self, model: Model, places: np.ndarray, reference: Model) -> Float[Array, "n k"]:
        """Returns the values of the objects at these places; relative values are relative to `reference`."""

    @abc.abstractmethod
    def write(self, model: Model, places: np.ndarray, values: Float[Array, "n k"]) -> Model:
        """Returns the model with these values at these places; relative values are relative to `model`."""

    def chosen(self, model: Model) -> list[Candidate]:
        """Returns the objects whose names match, in the order of the model."""
        known = list(self.candidates(model))
        found = {}
        for pattern in self.patterns:
            fits = [one for one in known if fnmatch.fnmatchcase(one.name, pattern)]
            if not fits:
                raise UnknownNameError(
                    f"{self.owner}: no {self.of} of model {model.name!r} that has such parameters is called "
                    f"{pattern!r}{suggest(pattern, list(dict.fromkeys(one.name for one in known)))}"
                )
            found |= {one.place: one for one in fits}
        return [found[place] for place in sorted(found)]

    def bound(self, model: Model) -> Kind:
        """Returns the group for this model; the last opportunity to inspect concrete numbers of the model."""
        return self

    def written(self, places: Sequence[int]) -> list[int]:
        """Returns the places that `write` changes for these places."""
        return list(places)

    @property
    def owner(self) -> str:
        """The name of the group in messages."""
        return f"identify.{type(self).__name__}"

    def limits(self, dtype) -> tuple[Float[Array, "k"], Float[Array, "k"]]:
        """Returns the lower and the upper bound of each component."""
        given = self.range if self.bounds is None else self.bounds
        low, high = (jnp.broadcast_to(jnp.asarray(end, dtype), (len(self.components),)) for end in given)
        return low, high

    def chart(self, values: Float[Array, "n k"]) -> Float[Array, "n k"]:
        """Returns the unconstrained coordinates of values.

        A value on a bound is moved inside by a thousandth of its typical size, or of the range between two bounds.
        """
        low, high = self.limits(values.dtype)
        size = jnp.asarray(self.size, values.dtype)
        return jax.vmap(lambda row: _unbounded(row, low, high, size))(values)

    def values(self, x: Float[Array, "n k"]) -> Float[Array, "n k"]:
        """Returns the values at unconstrained coordinates, the inverse of `chart`."""
        low, high = self.limits(x.dtype)
        size = jnp.asarray(self.size, x.dtype)
        return jax.vmap(lambda row: _bounded(row, low, high, size))(x)

    def mirrored(
        self, values: Float[Array, "n k"], linear: Float[Array, "n 3 3"], shift: Float[Array, "n 3"]
    ) -> Float[Array, "n k"]:
        """Returns the values of mirror images; by default the same values, for groups without direction.

        Args:
          values: The values of the original objects.
          linear: Linear part of the reflection between the frames: a point x maps to `linear x + shift`.
          shift: Translational part of the reflection.
        """
        return values


def _bounded(x, low, high, size):
    """Returns `x size` mapped into the bounds: by `softplus` for one bound, by a sigmoid for two."""
    one_sided = jax.nn.softplus(x) * size
    below, above = jnp.isfinite(low), jnp.isfinite(high)
    lowest, highest = jnp.where(below, low, 0), jnp.where(above, high, 0)
    between = lowest + (highest - lowest) * jax.nn.sigmoid(x)
    return jnp.where(
        below & above,
        between,
        jnp.where(below, lowest + one_sided, jnp.where(above, highest - one_sided, x * size)),
    )


def _unbounded(value, low, high, size):
    below, above = jnp.isfinite(low), jnp.isfinite(high)
    lowest, highest = jnp.where(below, low, 0), jnp.where(above, high, 0)
    share = jnp.clip((value - lowest) / jnp.where(below & above, highest - lowest, 1), 1e-3, 1 - 1e-3)
    away = jnp.maximum(jnp.where(below, value - lowest, highest - value) / size, 1e-3)
    # The inverse of softplus; it approaches the identity for large arguments.
    one_sided = away + jnp.log(-jnp.expm1(-away))
    return jnp.where(
        below & above, jnp.log(share / (1 - share)), jnp.where(below | above, one_sided, value / size)
    )


def replaced(
    rows: Float[Array, "m *k"], places: np.ndarray, values: Float[Array, "n *k"]
) -> Float[Array, "m *k"]:
    """Returns the rows with other values at some places, as a gather."""
    order = np.arange(rows.shape[0])
    order[places] = rows.shape[0] + np.arange(len(places))
    both = by_numpy(lambda xp, rows, values: xp.concatenate([rows, values.astype(rows.dtype)]), rows, values)
    return gather(both, order)


def column(x: Float[Array, "m"], places: np.ndarray) -> Float[Array, "n 1"]:
    """Returns the numbers at some places, a row for each."""
    return by_numpy(lambda _, x: x[:, None], gather(x, places))
