"""Places on a robot: sites, bodies, and frames on bodies."""

from __future__ import annotations

from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.errors import UnknownNameError, suggest
from ..dynamics import Bodies, Motion
from ..dynamics.jacobians import body_jacobian
from ..dynamics.sites import frames_on
from ..model import Model
from ..sensors import OnBody
from ..spatial.transform import Transform


#: The name of a site or a body (sites first), or a frame on a body, `rbd.sensors.OnBody(body, placement)`.
Place: TypeAlias = str | OnBody


class Located(eqx.Module):
    """A place, to be resolved on a model.

    - `owner`: the function or class that uses it, for messages.
    - `name`: of a site or a body; with a `placement`, of a body.
    """

    owner: str = eqx.field(static=True)
    name: str = eqx.field(static=True)
    placement: Transform | None

    def __init__(self, owner: str, place: Place):
        if not isinstance(place, str | OnBody):
            raise TypeError(
                f"{owner}: place is {place!r}; it must be the name of a site or of a body, or rbd.sensors.OnBody(body, placement)"
            )
        self.owner = owner
        self.name = place.body if isinstance(place, OnBody) else place
        self.placement = place.placement if isinstance(place, OnBody) else None

    def frame(self, motion: Motion) -> Transform:
        """Returns the frame in the world."""
        return jax.tree.map(lambda x: x[0], self._on(motion).world_frames)

    def velocity(self, motion: Motion) -> Float[Array, "6"]:
        """Returns the velocity `[ω; v]` about the place's origin, in the world's axes."""
        placed = self._on(motion)
        axes = Transform(placed.frames.rotation, jnp.zeros_like(placed.frames.position))
        return axes.motion(placed.twists)[0]

    def jacobian(self, motion: Motion) -> Float[Array, "6 nv"]:
        """Returns the J for which `J v` is the velocity."""
        body, placement = self._found(motion.model)
        if body == "world":
            return jnp.zeros((6, motion.model.nv), motion.q.dtype)
        point = None if placement is None else placement.position.astype(motion.q.dtype)
        return body_jacobian(motion, body, point, "world_aligned")

    def _on(self, motion: Motion) -> Bodies:
        body, placement = self._found(motion.model)
        placement = Transform.identity(motion.q.dtype) if placement is None else placement
        return frames_on(motion, [body], jax.tree.map(lambda x: x[None], placement))

    def _found(self, model: Model) -> tuple[str, Transform | None]:
        """Returns the body of the place, and the placement on it or None."""
        body, placement = self.name, self.placement
        sites = {site.name: site for site in model.sites} if placement is None else {}
        if body in sites:
            body, placement = sites[body].bodies[0], sites[body].frames[0]
        if body != "world" and body not in model.body_names:
            known = [*sites, *model.body_names]
            what = "site or body" if self.placement is None else "body"
            raise UnknownNameError(
                f"{self.owner}: model {model.name!r} has no {what} {body!r}{suggest(body, known)}"
            )
        return body, placement
