"""Simulation settings of a model file, and its other contents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.arguments import number
from .._core.errors import ModelError


@dataclass(frozen=True, init=False)
class Settings:
    """The simulation settings of a model file; static, like the names of its bodies.

    - `timestep`: the default of `dt` in simulations, or None.
    - `integrator`: the name of the method in the file: `"euler"`, `"rk4"`, `"implicit"`, `"implicitfast"`; or None.
    - `custom`: custom numbers (tuples) and texts of the file, by name.
    - `unsupported`: descriptions of the parts of the file that have no effect on the model.
    - `switched_off`: features that the file disables for the complete model, by their names in the file: `"contact"`,
      `"constraint"`. Such a model has no contact model, and it is written without one.

    >>> settings = rbd.model.Settings(timestep=0.002, integrator="implicitfast")
    >>> model = rbd.ModelBuilder(settings=settings).build()
    >>> print(model.settings.timestep, model.settings.integrator)
    0.002 implicitfast
    """

    timestep: float | None
    integrator: str | None
    unsupported: tuple[str, ...]
    switched_off: tuple[str, ...]
    _custom: tuple[tuple[str, str | tuple[float, ...]], ...]

    def __init__(
        self,
        timestep: float | None = None,
        integrator: str | None = None,
        custom: Mapping[str, Any] | None = None,
        unsupported: Iterable[str] = (),
        switched_off: Iterable[str] = (),
    ):
        if timestep is not None:
            try:
                number("Settings", "timestep", timestep, above=0)
                timestep = float(timestep)
            except ValueError as error:
                raise ModelError(str(error)) from None
        entries = tuple(
            (name, value if isinstance(value, str) else tuple(np.ravel(np.asarray(value, float)).tolist()))
            for name, value in (custom or {}).items()
        )
        for field, value in (
            ("timestep", timestep),
            ("integrator", integrator),
            ("unsupported", tuple(unsupported)),
            ("switched_off", tuple(switched_off)),
            ("_custom", entries),
        ):
            object.__setattr__(self, field, value)

    @property
    def custom(self) -> dict[str, str | tuple[float, ...]]:
        return dict(self._custom)

    @staticmethod
    def together(settings: Iterable[Settings], prefixes: Iterable[str]) -> Settings:
        """Returns the settings of several models in one world: the shortest timestep, and the integrator if all agree."""
        settings = list(settings)
        steps = [one.timestep for one in settings if one.timestep is not None]
        integrators = {one.integrator for one in settings}
        custom, unsupported = {}, []
        for one, prefix in zip(settings, prefixes, strict=True):
            custom |= {prefix + name: value for name, value in one.custom.items()}
            unsupported += [line for line in one.unsupported if line not in unsupported]
        return Settings(
            min(steps, default=None),
            integrators.pop() if len(integrators) == 1 else None,
            custom,
            unsupported,
            # A feature is disabled in the world only if it is disabled in all models.
            [
                what
                for what in (settings[0].switched_off if settings else ())
                if all(what in one.switched_off for one in settings)
            ],
        )
