"""What may be of space or of a plane: the two algebras have transforms and inertias of one interface.

The type checker sees those of space. It reads the library as that of spatial models, which is more than planar ones can do; what
planar models can do is checked where they enter (`takes(planar=True)`).
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
    """A frame in another one, of space (`Transform`) or of a plane (`spatial.planar.Transform`).

    >>> print(isinstance(rbd.Transform.identity(jnp.float64), rbd.spatial.AnyTransform))
    True
    """
    AnyInertia = Inertia | planar.Inertia
    """The inertia of a rigid body, of space (`Inertia`) or of a plane (`spatial.planar.Inertia`).

    >>> print(isinstance(rbd.planar(rbd.load("pendulum")).inertias, rbd.spatial.AnyInertia))
    True
    """
