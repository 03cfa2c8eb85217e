"""What the bundled robots are put together from, worked out in NumPy: JAX takes long for a few numbers."""

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
    return _solid(mass, (start + end) / 2, across * (np.eye(3) - along) + mass * radius**2 / 2 * along)


def box(mass, sides, com=(0.0, 0.0, 0.0)) -> Inertia:
    """A uniform cuboid about its centre, as `Inertia.box`."""
    square = np.array(sides, float) ** 2
    return _solid(mass, com, mass / 12 * np.diag(square.sum() - square))


def ball(mass, radius, com=(0.0, 0.0, 0.0)) -> Inertia:
    """A uniform ball about its centre, as `Inertia.sphere`."""
    return _solid(mass, com, 0.4 * mass * radius**2 * np.eye(3))


def _solid(mass, com, central) -> Inertia:
    """As `Inertia.from_mass_com`, without a compilation."""
    com = np.array(com, float)
    about_origin = central + mass * (com @ com * np.eye(3) - np.outer(com, com))
    triangle = about_origin[np.tril_indices(3)]
    return Inertia(*(jnp.asarray(np.asarray(x, float)) for x in (mass, mass * com, triangle)))
