"""Shapes: geometries on bodies, for contact and display."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import instance, names, number, vector
from .._core.array import from_numpy, is_known, pick
from .._core.errors import ModelError
from ..spatial.attached import Attached
from ..spatial.inertia import Inertia
from ..spatial.transform import Transform
from .geometry import Geometry


class Shape(Attached):
    """A geometry on a body, for display, for contact, or both.

    - `body`: The name of the body, or "world".
    - `geometry`: A `Sphere`, a `Box`, a `Mesh`, ...
    - `placement`: The frame of the geometry in the frame of the body, or the position of its origin.
    - `visual`: If True, it is drawn.
    - `collision`: If True, it takes part in contact.
    - `group`: A number for sorting shapes.
    - `rgba`: Red, green, blue and opacity, from 0 to 1.
    - `material`: The name of its material.

    Contact parameters, with MuJoCo's meaning:

    - `contype`, `conaffinity`: Two shapes may touch if a bit of one's `contype` is set in the other's `conaffinity`.
    - `condim`: The number of contact directions, 1, 3, 4 or 6: normal, tangential, torsional, and rolling.
    - `priority`: The shape with the higher priority provides the parameters of a contact.
    - `margin`, `gap`: Contacts are detected at the distance `margin` and act at `margin - gap`.
    - `friction`: Coefficients of sliding, torsional (a length) and rolling (a length) friction.
    - `solref`, `solimp`: The stiffness and damping of contact.
    - `solmix`: The weight of these parameters when they are mixed with the parameters of the other shape.

    The last six (`margin` to `solmix`) are concatenated in one leaf, `contact`, of shape (13,): a model has many shapes, and
    each leaf has a cost.

    >>> ball = rbd.Shape("ring", "bob", rbd.shapes.Sphere(0.1), (0.0, 0.0, -0.5))
    >>> model = rbd.attach(rbd.load("pendulum"), ball)
    >>> print(rbd.shape_frames(model, jnp.array([jnp.pi / 2])).position[-1])
    [-0.5  0.   0. ]
    """

    name: str = eqx.field(static=True)
    body: str = eqx.field(static=True)
    geometry: Geometry
    placement: Transform
    visual: bool = eqx.field(static=True)
    collision: bool = eqx.field(static=True)
    group: int = eqx.field(static=True)
    rgba: tuple[float, ...] = eqx.field(static=True)
    material: str = eqx.field(static=True)
    contype: int = eqx.field(static=True)
    conaffinity: int = eqx.field(static=True)
    condim: int = eqx.field(static=True)
    priority: int = eqx.field(static=True)
    contact: Float[Array, "13"]

    role = "shape"
    joints = ()

    def __init__(
        self,
        name: str,
        body: str,
        geometry: Geometry,
        placement: Transform | Float[Array, "3"] | tuple = (0.0, 0.0, 0.0),
        *,
        visual: bool = True,
        collision: bool = True,
        group: int = 0,
        rgba: Any = (0.5, 0.5, 0.5, 1.0),
        material: str = "",
        contype: int = 1,
        conaffinity: int = 1,
        condim: int = 3,
        margin: Any = 0.0,
        gap: Any = 0.0,
        friction: Any = (1.0, 0.005, 0.0001),
        solref: Any = (0.02, 1.0),
        solimp: Any = (0.9, 0.95, 0.001, 0.5, 2.0),
        solmix: Any = 1.0,
        priority: int = 0,
    ):
        (self.name,), (self.body,) = names("Shape", "name", name, 1), names("Shape", "body", body, 1)
        owner = f"Shape {name!r}"
        instance(owner, "geometry", geometry, Geometry, "a geometry, such as rbd.shapes.Sphere(0.1)")
        if not isinstance(placement, Transform):
            expected = "it takes a Transform, or a point, of shape (3,)"
            placement = Transform.from_position(vector(owner, "placement", placement, 3, expected))
        self.geometry, self.placement = geometry, placement
        self.visual, self.collision, self.material = bool(visual), bool(collision), str(material)
        number(owner, "rgba", rgba, (4,), least=0, most=1)
        if not is_known(rgba):
            raise ValueError(f"{owner}: rgba is traced; colors are not differentiated: give plain numbers")
        self.rgba = tuple(np.asarray(rgba, float).tolist())
        self.group, self.priority = int(group), int(priority)
        self.contype, self.conaffinity, self.condim = int(contype), int(conaffinity), int(condim)
        if self.condim not in (1, 3, 4, 6):
            raise ValueError(f"{owner}: condim is {condim}; it is 1, 3, 4 or 6")
        given = {
            "margin": number(owner, "margin", margin),
            "gap": number(owner, "gap", gap),
            "friction": number(owner, "friction", friction, (3,), least=0),
            "solref": number(owner, "solref", solref, (2,)),
            "solimp": number(owner, "solimp", solimp, (5,)),
            "solmix": number(owner, "solmix", solmix, least=0),
        }
        xp = np if is_known(given) else jnp  # NumPy avoids compiling and dispatching small operations
        contact = xp.concatenate([xp.atleast_1d(xp.asarray(value)) for value in given.values()])
        self.contact = from_numpy(contact)

    @property
    def bodies(self):
        return (self.body,)

    @property
    def frames(self):
        return jax.tree.map(lambda leaf: pick(leaf, None), self.placement)

    @property
    def margin(self) -> Float[Array, ""]:
        return pick(self.contact, 0)

    @property
    def gap(self) -> Float[Array, ""]:
        return pick(self.contact, 1)

    @property
    def friction(self) -> Float[Array, "3"]:
        return pick(self.contact, slice(2, 5))

    @property
    def solref(self) -> Float[Array, "2"]:
        return pick(self.contact, slice(5, 7))

    @property
    def solimp(self) -> Float[Array, "5"]:
        return pick(self.contact, slice(7, 12))

    @property
    def solmix(self) -> Float[Array, ""]:
        return pick(self.contact, 12)

    def attached(self, bodies, frames, joints):
        return self.changed(body=bodies[0], placement=frames[0])

    def inertia(self, density: Any) -> Inertia:
        """Returns the inertia of a uniform body of this shape, in the frame of its body."""
        try:
            return self.geometry.inertia(density).placed(self.placement)
        except ModelError as error:
            raise type(error)(f"{self.label}: {error}") from None

    def __repr__(self) -> str:
        return f"Shape({self.name!r}, {type(self.geometry).__name__} on {self.body!r})"
