"""Rotations and translations side by side, SO(3) x R³: `Transform`s whose two parts do not act on each other.

It has the elements of SE(3) and another product: positions add regardless of the rotation. Its velocities are the
rotation vector and the rate of the position (Müller & Terze 2013 eqs. 16 to 24). A scheme on this group moves
a body's reference point along a straight line, where a scheme on SE(3) moves it along a screw.
"""

from collections.abc import Iterable

from jaxtyping import Array, Float

from ..spatial.transform import Transform
from .group import Group
from .product import DirectProduct
from .rn import Rn
from .so3 import SO3


class RotationsAndTranslations(DirectProduct):
    """Rotations and translations. Elements are `Transform`s, vectors are `[ω; v]` in rad and m."""

    groups: tuple[Group, ...] = (SO3, Rn(3))

    def __repr__(self) -> str:
        return "SO3xR3"

    def join(self, components: Iterable[Float[Array, "..."]]) -> Transform:
        return Transform(*components)

    def components(self, g: Transform) -> tuple[Float[Array, "*batch 3 3"], Float[Array, "*batch 3"]]:
        return g.rotation, g.position


SO3xR3 = RotationsAndTranslations()
"""Rotations and translations side by side, as `Transform`s. The methods are those of `Group`.

>>> G = rbd.lie.SO3xR3
>>> X = G.exp(jnp.array([0.0, 0.0, jnp.pi / 2, jnp.pi / 2, 0.0, 0.0]))  # straight on, while it turns
>>> print(X.position, G.log(X))
[1.571 0.    0.   ] [0.    0.    1.571 1.571 0.    0.   ]
"""
