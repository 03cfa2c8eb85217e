"""Sensor readings, by name and as one vector."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import equinox as eqx
from jaxtyping import Array, Float

from .._core.errors import UnknownNameError, suggest
from .._core.text import can_be_shown, numbers
from .sensor import Sensor


class Readings(eqx.Module):
    """The readings of the sensors of a model: by name, `readings["imu"]`, or concatenated, `readings.vector`.

    The reading of a sensor of several numbers has an additional last axis. Along a trajectory, time is the first axis. The
    object is a mapping: `dict(readings)` is a dictionary of arrays.

    - `names`, `sizes`: The names of the sensors in the order of the vector, and the number of entries of each.

    >>> model = rbd.load("cartpole")
    >>> readings = rbd.sense(model, rbd.State(jnp.array([0.1, 0.2]), jnp.array([0.3, 0.4])))
    >>> print(list(readings), readings["hinge_position"], readings.vector)
    ['slide_position', 'slide_velocity', 'hinge_position', 'hinge_velocity'] 0.2 [0.1 0.3 0.2 0.4]
    """

    vector: Float[Array, "*batch n"]
    names: tuple[str, ...] = eqx.field(static=True)
    sizes: tuple[int, ...] = eqx.field(static=True)

    @staticmethod
    def of(sensors: Sequence[Sensor], vector: Float[Array, "*batch n"]) -> Readings:
        """Returns the readings of sensors, in their order."""
        return Readings(vector, tuple(one.name for one in sensors), tuple(one.size for one in sensors))

    def place(self, name: str) -> slice:
        """Returns the slice of a sensor in the vector."""
        if name not in self.names:
            raise UnknownNameError(f"there is no sensor {name!r}{suggest(name, self.names)}")
        index = self.names.index(name)
        start = sum(self.sizes[:index])
        return slice(start, start + self.sizes[index])

    def __getitem__(self, name: str) -> Float[Array, "..."]:
        own = self.place(name)
        return self.vector[..., own.start] if own.stop == own.start + 1 else self.vector[..., own]

    def keys(self) -> tuple[str, ...]:
        return self.names

    def items(self) -> list[tuple[str, Float[Array, "..."]]]:
        return [(name, self[name]) for name in self.names]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name) -> bool:
        return name in self.names

    def __repr__(self) -> str:
        if not can_be_shown(self):
            return super().__repr__()
        return "\n".join(["Readings:", *(f"  {name} {numbers(value)}" for name, value in self.items())])
