"""What the bundled robots are put together from: rods and places, worked out in NumPy, since there are many of them."""

import jax.numpy as jnp
import numpy as np

from ..spatial import Inertia, Transform


def at(x, y, z, *, roll=0.0, pitch=0.0) -> Transform:
    """A frame at a point, turned by `pitch` about y and then by `roll` about the turned x."""
    (cr, cp), (sr, sp) = np.cos([roll, pitch]), np.sin([roll, pitch])
    rotation = np.array([[cp, sp * sr, sp * cr], [0.0, cr, -sr], [-sp, cp * sr, cp * cr]])
    return Transform(jnp.asarray(rotation), jnp.asarray(np.array([x, y, z], float)))


def rod(mass, start, end, radius) -> Inertia:
    """A uniform solid cylinder from one point to another."""
    start, end = np.array(start, float), np.array(end, float)
    length = np.linalg.norm(end - start)
    along = np.outer(end - start, end - start) / length**2
    across = mass * (radius**2 / 4 + length**2 / 12)
    return Inertia.from_mass_com(
        mass, (start + end) / 2, across * (np.eye(3) - along) + mass * radius**2 / 2 * along
    )
