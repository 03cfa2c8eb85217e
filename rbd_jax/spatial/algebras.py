"""The interface that spatial and planar transforms and inertias share.

The type checker sees the spatial types, which have more functions than the planar ones. Functions that accept planar models are
marked by `takes(planar=True)`, which checks models on entry.
"""

from typing import TYPE_CHECKING

from . import planar
from .inertia import Inertia
from .transform import Transform


if TYPE_CHECKING:
    AnyTransform = Transform
    AnyInertia = Inertia
else:
    AnyTransform = Transform | planar.Transform
    """A frame placed in another: spatial (`Transform`) or planar (`spatial.planar.Transform`).

    >>> print(isinstance(rbd.Transform.identity(jnp.float64), rbd.spatial.AnyTransform))
    True
    """
    AnyInertia = Inertia | planar.Inertia
    """The inertia of a rigid body: spatial (`Inertia`) or planar (`spatial.planar.Inertia`).

    >>> print(isinstance(rbd.planar(rbd.load("pendulum")).inertias, rbd.spatial.AnyInertia))
    True
    """
