"""Operational-space inertia: the response of bodies of a mechanism to forces on them (book §7.2)."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import body_names, configuration, frame_name, space_points, takes
from .._core.array import matmul, transpose
from ..model import Model
from .forward import solve_inertia
from .jacobians import body_jacobian
from .kinematics import Frame
from .motion import Motion


@takes(q=configuration, bodies=body_names, points=space_points, frame=frame_name)
def inverse_operational_inertia(
    model: Model,
    q: Float[Array, "nq"],
    bodies: str | int | Sequence[str | int],
    points: Float[Array, "k 3"] | None = None,
    frame: Frame = "world",
) -> Float[Array, "rows rows"]:
    """Returns `Λ⁻¹ = J M⁻¹ Jᵀ`, the accelerations of bodies under unit forces on them (eq. 7.9).

    J stacks the Jacobians of the bodies. The matrix is symmetric, and singular if the bodies cannot move in all directions. The
    cost is O(n) for each column.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      bodies: A name or an index, or a sequence of them.
      points: A point on each body, in its own frame, shape (k, 3); as for `jacobian`.
      frame: As for `jacobian`.

    Returns:
      The matrix, shape (6k, 6k) for k bodies, (6, 6) for one.

    >>> model, q = rbd.load("double_pendulum"), jnp.array([0.5, 1.0])
    >>> answer = rbd.inverse_operational_inertia(model, q, "lower", frame="world_aligned")
    >>> print(answer[3:, 3:])  # how the elbow accelerates under unit forces on it
    [[ 0.451  0.    -0.246]
     [ 0.     0.     0.   ]
     [-0.246  0.     0.134]]
    """
    chosen = [bodies] if isinstance(bodies, str | int | np.integer) else list(bodies)
    if points is not None and len(points) != len(chosen):
        raise ValueError(f"inverse_operational_inertia: got {len(points)} points for {len(chosen)} bodies")
    at = [None] * len(chosen) if points is None else list(points)
    motion = Motion(model, q)
    rows = jnp.concatenate(
        [body_jacobian(motion, body, point, frame) for body, point in zip(chosen, at, strict=True)]
    )
    inverse = matmul(rows, solve_inertia(motion, transpose(rows)))
    return 0.5 * (inverse + transpose(inverse))


@takes(q=configuration, bodies=body_names, points=space_points, frame=frame_name)
def operational_inertia(
    model: Model,
    q: Float[Array, "nq"],
    bodies: str | int | Sequence[str | int],
    points: Float[Array, "k 3"] | None = None,
    frame: Frame = "world",
) -> Float[Array, "rows rows"]:
    """Returns the operational-space inertia Λ of bodies at points, the inverse of `inverse_operational_inertia` (eq. 7.12).

    It is not finite if Λ⁻¹ is singular, as in a straight arm or for a body with fewer than six degrees of freedom. For such a
    body, select rows of the Jacobian, and invert `J M⁻¹ Jᵀ` of these rows.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      bodies: A name or an index, or a sequence of them.
      points: A point on each body, in its own frame, shape (k, 3); as for `jacobian`.
      frame: As for `jacobian`.

    >>> builder = rbd.ModelBuilder()
    >>> _ = builder.add_body("ball", joint=rbd.joints.Free(), inertia=rbd.Inertia.sphere(mass=2.0, radius=0.1))
    >>> model = builder.build()
    >>> print(jnp.diagonal(rbd.operational_inertia(model, rbd.neutral(model), "ball")))
    [0.008 0.008 0.008 2.    2.    2.   ]
    """
    return jnp.linalg.inv(inverse_operational_inertia(model, q, bodies, points, frame))
