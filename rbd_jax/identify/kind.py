"""What a kind of free numbers is: where they are in a model, what they are called, and in which coordinates they have no bounds.

A kind says what it frees by names with wildcards (`"link_*"`, as in a shell). It reads values of a model and writes them
into one; both are JAX, so that a model depends differentiably on them. All else (vectors, names, priors, ties) is made of
these by `Parameters`. A kind of your own is a class with `candidates`, `read` and `write`.
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
    """Something whose numbers may be free.

    - `name`: what patterns are compared with.
    - `place`: its index among those of its kind in the model.
    - `label`: what to call it, where that says more than the name.
    - `turns`: whether it acts by turning, and has moments for forces; it decides on units.

    >>> print([one.name for one in rbd.identify.damping().candidates(rbd.load("double_pendulum"))])
    ['shoulder', 'elbow']
    """

    name: str
    place: int
    label: str
    turns: bool = True


class Kind(eqx.Module):
    """Numbers of one kind that are free, of all things whose name fits one of some patterns.

    - `patterns`: names with wildcards.
    - `bounds`: lowest and highest value, each one number or one for each component; None for those of the kind.
    - `prior`: what is known of them beforehand, as mean and standard deviation; a mean of None is the model's own value.

    A kind of your own implements `candidates`, `read` and `write`, and says what its numbers are called (`components`, each with
    its unit where it turns and where it slides). It overrides `chart` and `values` where bounds are not all that there is.

    >>> free = rbd.identify.damping("elbow", bounds=(0.0, 5.0))
    >>> print(isinstance(free, rbd.identify.Kind), free.patterns, free.bounds)
    True ('elbow',) (0.0, 5.0)
    """

    patterns: tuple[str, ...] = eqx.field(static=True)
    bounds: tuple[Any, Any] | None = None
    prior: tuple[Any, Any] | None = None

    #: What its patterns name: "body", "joint", "shape", ...
    of: ClassVar[str] = "body"
    #: The name of each number of a thing, and its unit where it turns and where it slides.
    components: ClassVar[tuple[tuple[str, str, str], ...]]
    #: Values that are possible at all.
    range: ClassVar[tuple[float, float]] = (-np.inf, np.inf)
    #: A usual size, one for all or one for each component: what steps in the chart are measured by.
    size: ClassVar[float] = 1.0
    #: What of a thing it sets: two kinds that set the same of one thing are refused.
    sets: ClassVar[tuple[str, ...]] = ()
    #: Whether generalized forces are linear in its values.
    linear: ClassVar[bool] = False
    #: Whether its ten values are an inertia, which is to be that of a body that can be.
    inertial: ClassVar[bool] = False
    #: Whether `mirrored` knows what its values are of mirror images.
    has_mirror_images: ClassVar[bool] = True

    @abc.abstractmethod
    def candidates(self, model: Model) -> Sequence[Candidate]:
        """All things of a model that have such numbers."""

    @abc.abstractmethod
    def read(self, model: Model, places: np.ndarray, reference: Model) -> Float[Array, "n k"]:
        """The values of the things in these places. What is measured from where it was is so from `reference`."""

    @abc.abstractmethod
    def write(self, model: Model, places: np.ndarray, values: Float[Array, "n k"]) -> Model:
        """The model with these values in these places; what is measured from where it was is so from `model`."""

    def chosen(self, model: Model) -> list[Candidate]:
        """The things whose names fit, in the order of the model."""
        known = list(self.candidates(model))
        found = {}
        for pattern in self.patterns:
            fits = [one for one in known if fnmatch.fnmatchcase(one.name, pattern)]
            if not fits:
                raise UnknownNameError(
                    f"{self.owner}: no {self.of} of model {model.name!r} that has such numbers is called "
                    f"{pattern!r}{suggest(pattern, list(dict.fromkeys(one.name for one in known)))}"
                )
            found |= {one.place: one for one in fits}
        return [found[place] for place in sorted(found)]

    def bound(self, model: Model) -> Kind:
        """As it is for this model, whose numbers can be looked at here for the last time."""
        return self

    def written(self, places: Sequence[int]) -> list[int]:
        """The places that it writes to for these."""
        return list(places)

    @property
    def owner(self) -> str:
        """What it is called in messages."""
        return f"identify.{type(self).__name__}"

    def limits(self, dtype) -> tuple[Float[Array, "k"], Float[Array, "k"]]:
        """The lowest and the highest value of each component."""
        given = self.range if self.bounds is None else self.bounds
        low, high = (jnp.broadcast_to(jnp.asarray(end, dtype), (len(self.components),)) for end in given)
        return low, high

    def chart(self, values: Float[Array, "n k"]) -> Float[Array, "n k"]:
        """The values in coordinates without bounds. A value on a bound is taken a thousandth of its usual size inside."""
        low, high = self.limits(values.dtype)
        size = jnp.asarray(self.size, values.dtype)
        return jax.vmap(lambda row: _unbounded(row, low, high, size))(values)

    def values(self, x: Float[Array, "n k"]) -> Float[Array, "n k"]:
        """And back."""
        low, high = self.limits(x.dtype)
        size = jnp.asarray(self.size, x.dtype)
        return jax.vmap(lambda row: _bounded(row, low, high, size))(x)

    def mirrored(
        self, values: Float[Array, "n k"], linear: Float[Array, "n 3 3"], shift: Float[Array, "n 3"]
    ) -> Float[Array, "n k"]:
        """The values as they are of mirror images, in whose frames a point x is at `linear x + shift`: the same, of kinds
        without direction."""
        return values


def _bounded(x, low, high, size):
    """`x size`, bent so that it stays between the bounds: by `softplus` at one, by a sigmoid between two."""
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
    # The inverse of softplus, which for large arguments is the identity.
    one_sided = away + jnp.log(-jnp.expm1(-away))
    return jnp.where(
        below & above, jnp.log(share / (1 - share)), jnp.where(below | above, one_sided, value / size)
    )


def replaced(
    rows: Float[Array, "m *k"], places: np.ndarray, values: Float[Array, "n *k"]
) -> Float[Array, "m *k"]:
    """The rows with others in some places, gathered."""
    order = np.arange(rows.shape[0])
    order[places] = rows.shape[0] + np.arange(len(places))
    both = by_numpy(lambda xp, rows, values: xp.concatenate([rows, values.astype(rows.dtype)]), rows, values)
    return gather(both, order)


def column(x: Float[Array, "m"], places: np.ndarray) -> Float[Array, "n 1"]:
    """The numbers in some places, a row for each."""
    return by_numpy(lambda _, x: x[:, None], gather(x, places))
