"""What became of the energy of samples: what was dissipated, and what integration added, which nothing does."""

from __future__ import annotations

import numpy as np

from ..model import Model
from ..parallel import energies_along
from ..simulate import Result, Trajectory


#: A sample that gains more than this share of the energy in its motion is in error.
GAIN = 0.05


def energies(model: Model, path: Trajectory) -> tuple[np.ndarray, np.ndarray]:
    """Of every sample, relative to the energy in its motion: the change of its energy, and how far it ever rose.

    Looked at are 21 times. Of samples that came to no end both are not numbers.
    """
    frames = np.unique(np.linspace(0, path.t.shape[1] - 1, 21).astype(int)).tolist()
    with np.errstate(all="ignore"):
        kinetic, potential = np.moveaxis(energies_along(model, path, frames), -1, 0)
    return relative(kinetic, potential)


def relative(kinetic: np.ndarray, potential: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The change of energy and how far it ever rose, of energies along axis 0."""
    with np.errstate(all="ignore"):
        total = kinetic + potential
        # The most that the motion could have had as kinetic energy, in its lowest potential. All that it can lose is less than
        # that, so no more than 100 % is dissipated; and where nothing is lost, it is what goes to and fro.
        scale = np.maximum(total.max(axis=0) - potential.min(axis=0), np.finfo(np.float32).tiny)
        risen = (total - np.minimum.accumulate(total, axis=0)).max(axis=0)
        change, risen = (total[-1] - total[0]) / scale, risen / scale
    whole = np.isfinite(total).all(axis=0) & np.isfinite(scale)
    return np.where(whole, change, np.nan), np.where(whole, risen, np.nan)


def in_error(model: Model, path: Trajectory) -> np.ndarray:
    """The samples that shorter steps may help: those that diverged, and those that gained energy of nothing."""
    code = np.asarray(path.code)
    failed = (code != Result.SUCCESS) & (code != Result.SINGULAR) & (code != Result.CONSTRAINTS_OPEN)
    if model.topology.rheonomic:  # joints that are led do work
        return failed
    return failed | (energies(model, path)[1] > GAIN)


def loses(model: Model) -> bool:
    """Whether something dissipates energy."""
    return bool(np.any(np.asarray(model.damping)) or np.any(np.asarray(model.friction)) or model.forces)
