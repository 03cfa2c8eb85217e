"""Messages about invalid parameters of bodies and joints, for a body under construction and for complete models.

All functions take known values, in NumPy, with a leading axis of bodies or degrees of freedom. They yield the index of each
invalid entry and a message.
"""

from __future__ import annotations

from collections.abc import Iterator

import jax
import numpy as np

from ..spatial import AnyInertia


Faults = Iterator[tuple[int, str]]


def of_numbers(name: str, leaves: list) -> Faults:
    """Yields faults of arrays with one row per body: numbers that are not finite."""
    finite = [np.isfinite(np.asarray(x)).reshape(len(x), -1) for x in leaves]
    if all(x.all() for x in finite):
        return
    for entry in np.flatnonzero(~np.all([x.all(axis=1) for x in finite], axis=0)).tolist():
        yield entry, f"its {name} has a number that is not finite"


def of_masses(masses: np.ndarray) -> Faults:
    for entry in np.flatnonzero(masses < 0).tolist() if masses.min(initial=0) < 0 else ():
        yield entry, f"its mass is {masses[entry]:g}; a mass must be positive or zero"


def of_coefficients(name: str, values: np.ndarray) -> Faults:
    """Yields faults of nonnegative coefficients, one per degree of freedom; only limits may be infinite."""
    fine = values >= 0 if "limit" in name else (values >= 0) & (values < np.inf)
    for entry in () if fine.all() else np.flatnonzero(~fine).tolist():
        negative = values[entry] < 0
        yield (
            entry,
            f"its {name} is {values[entry]:g}{'; it cannot be negative' if negative else ', which is not finite'}",
        )


def of_limits(lower: np.ndarray, upper: np.ndarray) -> Faults:
    """Yields faults of lower and upper position limits."""
    for entry in () if (lower <= upper).all() else np.flatnonzero(~(lower <= upper)).tolist():
        low, high = lower[entry], upper[entry]
        if np.isnan(low) or np.isnan(high):
            yield entry, f"its {'lower' if np.isnan(low) else 'upper'} limit is not a number"
        else:
            yield entry, f"its lower limit {low:g} is above its upper limit {high:g}"


def of_inertias(inertias: AnyInertia) -> Faults:
    """Yields the reasons why inertias are physically impossible; a zero mass without rotational inertia is valid."""
    mass, first, rotational = (np.asarray(x) for x in jax.tree.leaves(inertias))
    eps = np.finfo(rotational.dtype).eps
    mass, first, rotational = (x.astype(float) for x in (mass, first, rotational))
    if first.shape[-1] == 2:
        yield from _of_planar_inertias(mass, first, rotational, eps)
        return
    xx, xy, yy, xz, yz, zz = np.moveaxis(rotational, -1, 0)
    about_origin = np.stack([xx, xy, xz, xy, yy, yz, xz, yz, zz], axis=-1).reshape(-1, 3, 3)
    largest = np.abs(rotational).max(axis=1, initial=0)
    square = np.sum(first**2, axis=1)[:, None, None] * np.eye(3) - first[:, :, None] * first[:, None, :]
    heavy = mass != 0
    moments = np.linalg.eigvalsh(about_origin - square / np.where(heavy, mass, 1)[:, None, None])
    # Tolerate the rounding error of the shift to the center of mass.
    slack = 1e-6 * np.abs(moments).max(axis=1, initial=0) + 8 * eps * largest
    negative, thin = moments[:, 0] < -slack, moments[:, 2] > moments[:, 0] + moments[:, 1] + slack
    for entry in np.flatnonzero(np.where(heavy, negative | thin, largest > 0)).tolist():
        if not heavy[entry]:
            yield entry, f"rotational inertia {largest[entry]:.3g} without mass"
        elif negative[entry]:
            yield entry, f"the rotational inertia has the negative principal moment {moments[entry, 0]:.3g}"
        else:
            yield entry, triangle_fault(moments[entry], slack[entry]) or ""


def _of_planar_inertias(mass, first, rotational, eps) -> Faults:
    heavy = mass != 0
    central = rotational - np.sum(first**2, axis=-1) / np.where(heavy, mass, 1)
    for entry in np.flatnonzero(np.where(heavy, central < -8 * eps * rotational, rotational != 0)).tolist():
        if heavy[entry]:
            yield entry, f"the rotational inertia has the negative moment {central[entry]:.3g}"
        else:
            yield entry, f"rotational inertia {rotational[entry]:.3g} without mass"


def triangle_fault(moments: np.ndarray, slack: float) -> str | None:
    """Returns why principal moments, smallest first, are physically impossible, or None."""
    a, b, c = moments
    if c > a + b + slack:
        return f"the principal moments {a:.3g}, {b:.3g}, {c:.3g} break the triangle inequality"
    return None
