"""Viscous damping of a body in a fluid (Sueda's notes, §1.9.1)."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import body_name, names, number
from .._core.errors import ModelError
from ..spatial.transform import Transform, rigid_fault
from ._body import BodyForce


class ViscousDamping(BodyForce):
    """The wrench `-d φ`, opposite to the twist `[ω; v]` of a frame on a body, in that frame.

    - `coefficients`: one value for rotation and translation, or six, one per component: N m s, then N s/m.
    - `frame`: the frame on the body, by default the body's own.

    >>> damper = rbd.forces.ViscousDamping("bob", 0.5)
    >>> print(damper(rbd.load("pendulum"), jnp.zeros(1), jnp.array([2.0])))
    [-1.]
    """

    body: str = eqx.field(static=True)
    coefficients: Float[Array, "6"]
    frame: Transform

    def __init__(self, body, coefficients, frame: Transform | None = None):
        (self.body,) = names("ViscousDamping", "body", body, 1)
        shape = () if np.shape(coefficients) == () else (6,)
        given = number("ViscousDamping", "coefficients", coefficients, shape, least=0)
        self.coefficients = jnp.broadcast_to(given, (6,))
        self.frame = Transform.identity(given.dtype) if frame is None else frame
        fault = rigid_fault(self.frame)
        if fault is not None:
            raise ModelError(f"ViscousDamping: frame: {fault}")

    @property
    def bodies(self):
        return (self.body,)

    @property
    def frames(self):
        return jax.tree.map(lambda x: x[None], self.frame)

    def attached(self, bodies, frames, joints):
        return self.changed(body=bodies[0], frame=frames[0])

    def acts_on(self, model):
        if self.body == "world":  # after an edit that welded its body there
            return []
        return [model.body_index(body_name("ViscousDamping", model, "body", self.body))]

    def body_wrenches(self, model, bodies):
        frame = self.frames
        return frame.force(-self.coefficients[None] * frame.inverse_motion(bodies.twists))

    def body_energy(self, model, bodies):
        return jnp.zeros((), bodies.twists.dtype)
