"""A body in a viscous fluid (Sueda's notes, §1.9.1)."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..model._arguments import check_body
from ._body import BodyForce
from ._numbers import names, number


class ViscousDamping(BodyForce):
    """`-d φ`: against the twist of a body `[ω; v]`, in the body's frame and about its origin.

    `coefficients` is one number for turning and moving alike, or six, one for each component: N m s, then N s/m.
    """

    body: str = eqx.field(static=True)
    coefficients: Float[Array, "6"]

    def __init__(self, body, coefficients):
        (self.body,) = names("ViscousDamping", "body", body, 1)
        shape = () if np.shape(coefficients) == () else (6,)
        given = number("ViscousDamping", "coefficients", coefficients, shape, least=0)
        self.coefficients = jnp.broadcast_to(given, (6,))

    def acts_on(self, model):
        return [model.body_index(check_body("ViscousDamping", model, "body", self.body))]

    def body_wrenches(self, model, bodies):
        return -self.coefficients[None] * bodies.twists

    def body_energy(self, model, bodies):
        return jnp.zeros((), bodies.twists.dtype)
