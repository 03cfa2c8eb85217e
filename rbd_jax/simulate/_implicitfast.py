"""Derivatives of forces by the velocity that MuJoCo's `implicitfast` takes implicitly, apart from the diagonal ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.array import cross, dot, gather, gather_or_zero, matmul
from ..dynamics import Motion
from ..dynamics.floating import turning_rates
from ..dynamics.inverse import recursive_newton_euler
from ..forces import Force
from ..forces.own_state import velocity_response
from ..joints import Free
from ..model import Model


def velocity_derivative(motion: Motion, elements: Sequence[Force]) -> Float[Array, "nv nv"] | None:
    """Returns the derivative of forces that do not act along separate degrees of freedom, or None if no such force exists.

    MuJoCo stores it with the zeros of the mass matrix.
    """
    response = velocity_response(elements, motion)
    if response is None:
        return None
    topology, derivative = motion.model.topology, matmul(*response)
    if not topology.columns_are_v:
        return derivative
    supports = topology.tree.supports
    return jnp.where(supports | supports.T, derivative, 0)


def single_free_bodies(model: Model) -> np.ndarray:
    """Returns the entries in v of each free joint whose body carries no other moving body: (k, 6)."""
    topology, found = model.topology, []
    carried = set(topology.moving_tree.parents)
    for kind, joints in zip(topology.kinds, model.joints, strict=True):
        for body in kind.bodies if isinstance(joints, Free) else ():
            if not topology.is_mimic[body] and int(topology.carriers[body]) not in carried:
                found.append(np.arange(model.nv)[model.v_slice(body)])
    return np.array(found, int).reshape(-1, 6)


def with_coriolis_forces(
    motion: Motion,
    bodies: np.ndarray,
    a: Float[Array, "nv"],
    solve: Callable[[Float[Array, "nv"]], Float[Array, "nv"]],
    step: Float[Array, ""],
) -> Float[Array, "nv"]:
    """Returns the acceleration over a step with the Coriolis forces of single free bodies at the end of the step.

    The forces change with the angular velocity by `C h α`, and `M a + h C α = f` has the solution `a₀ - h M⁻¹ C α` with
    `(1 + h M⁻¹ C) α = α₀` in the angular entries.

    Args:
      motion: The model in motion.
      bodies: The entries of `single_free_bodies`, angular ones first.
      a: The acceleration with the Coriolis forces at the start of the step, a₀.
      solve: Multiplies by M⁻¹.
      step: Length of the step, h.
    """

    def forces(v):
        # Without acceleration in axes that do not rotate.
        moving = motion.with_velocity(v)
        return recursive_newton_euler(moving, -turning_rates(moving))

    owner = np.full(motion.v.size, -1)
    owner[bodies] = np.arange(len(bodies))[:, None]
    angular = bodies[:, :3]
    responses = []
    for axis in range(3):
        turning = np.isin(np.arange(owner.size), angular[:, axis])
        change = jax.jvp(forces, (motion.v,), (jnp.asarray(turning, motion.v.dtype),))[1]
        responses.append(solve(jnp.where(owner >= 0, change, 0)))
    of_bodies = lambda x: gather(x, angular.reshape(-1)).reshape(-1, 3)
    matrices = jnp.eye(3, dtype=a.dtype)[None] + step * jnp.stack([*map(of_bodies, responses)], axis=2)
    alpha = _solved(matrices, of_bodies(a))
    for axis, response in enumerate(responses):
        a = a - step * response * gather_or_zero(alpha[:, axis], owner)
    return a


def _solved(matrices: Float[Array, "k 3 3"], x: Float[Array, "k 3"]) -> Float[Array, "k 3"]:
    """Returns the solutions of systems of three equations, by Cramer's rule."""
    first, second, third = (matrices[:, :, column] for column in range(3))
    normals = cross(second, third), cross(third, first), cross(first, second)
    return jnp.stack([dot(x, normal) for normal in normals], axis=1) / dot(first, normals[0])[:, None]
