"""Couplings of joint coordinates: gears, differentials, mimics (book §9.6)."""

from __future__ import annotations

from collections.abc import Mapping

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import as_array, number
from .._core.array import by_numpy
from ..spatial import no_frames
from .constraint import Constraint


class CoordinateCoupling(Constraint):
    """`Σ_j p_j(q_j) = 0`, with a polynomial for each joint.

    `polynomials` maps the name of a joint to its coefficients, starting with the constant: `{"b": (0, 1), "a": (-0.1, -2)}`
    makes joint b follow joint a as `q_b = 0.1 + 2 q_a`. Each joint must have one degree of freedom.

    >>> coupling = rbd.constraints.CoordinateCoupling({"elbow": (0.0, 1.0), "shoulder": (-0.1, -2.0)})  # elbow = 0.1 + 2 shoulder
    >>> model = rbd.add_constraints(rbd.load("double_pendulum"), coupling)
    >>> print(rbd.constraint_residual(model, jnp.array([0.2, 0.5])))
    [0.]
    """

    coefficients: Float[Array, "j degree"]

    rows = 1

    def __init__(self, polynomials: Mapping[str, object]):
        if not polynomials:
            raise ValueError("CoordinateCoupling: no joint is named; give {joint: coefficients}")
        rows = {name: _coefficients(name, given) for name, given in polynomials.items()}
        width = max(row.size for row in rows.values())
        self.bodies = ()
        self.frames = no_frames()
        self.joints = tuple(rows)
        filled = lambda xp, *rows: xp.stack([xp.pad(row, (0, width - row.size)) for row in rows])
        self.coefficients = by_numpy(filled, *rows.values())

    def residual(self, placements, coordinates):
        total = jnp.zeros_like(coordinates)
        for column in range(self.coefficients.shape[1])[::-1]:
            total = self.coefficients[:, column] + coordinates * total
        return jnp.sum(total)[None]


def _coefficients(joint: str, given) -> Array:
    name, expected = f"polynomials[{joint!r}]", "coefficients, the constant one first"
    row = as_array("CoordinateCoupling", name, given, expected)
    if row.ndim != 1 or not row.size:
        raise ValueError(f"CoordinateCoupling: {name} has shape {row.shape}; it takes {expected}")
    return number("CoordinateCoupling", name, row, row.shape)
