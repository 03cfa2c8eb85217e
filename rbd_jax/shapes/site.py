"""Named frames on bodies."""

from __future__ import annotations

import equinox as eqx
import jax
from jaxtyping import Array, Float

from .._core.arguments import names, vector
from ..spatial.attached import Attached
from ..spatial.transform import Transform


class Site(Attached):
    """A named frame on a body: the location of a sensor, a thruster, the end of a tendon, or the tip of a tool.

    - `body`: The name of the body, or "world".
    - `placement`: The frame in the frame of the body, or the position of its origin.

    >>> model = rbd.attach(rbd.load("double_pendulum"), rbd.Site("tip", "lower", (0.0, 0.0, -1.0)))
    >>> print(rbd.site_frames(model, jnp.zeros(2)).position)
    [[ 0.  0. -2.]]
    """

    name: str = eqx.field(static=True)
    body: str = eqx.field(static=True)
    placement: Transform

    role = "site"
    joints = ()

    def __init__(
        self, name: str, body: str, placement: Transform | Float[Array, "3"] | tuple = (0.0, 0.0, 0.0)
    ):
        (self.name,), (self.body,) = names("Site", "name", name, 1), names("Site", "body", body, 1)
        if not isinstance(placement, Transform):
            point = vector(
                f"Site {name!r}", "placement", placement, 3, "it takes a Transform, or a point, of shape (3,)"
            )
            placement = Transform.from_position(point)
        self.placement = placement

    @property
    def bodies(self):
        return (self.body,)

    @property
    def frames(self):
        return jax.tree.map(lambda leaf: leaf[None], self.placement)

    def attached(self, bodies, frames, joints):
        return self.changed(body=bodies[0], placement=frames[0])

    def __repr__(self) -> str:
        return f"Site({self.name!r}, on {self.body!r})"
