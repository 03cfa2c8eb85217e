"""The inertia of a rigid body with a fixed point (Gebhardt & Romero 2020, §3.2 and eqs. 66, 111)."""

from __future__ import annotations

import warnings

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import accuracy, as_array
from .._core.array import dot, is_known, matvec
from .._core.errors import ModelError, ModelWarning
from .._core.jit import compiled
from ..model.faults import triangle_fault


class RotatingBody(eqx.Module):
    """A rigid body with a fixed point, by its inertia tensor `J` about that point in its own axes.

    The third axis is a principal axis: `J` splits into `J_⊥` on the plane of the first two axes and `J_∥` along the third
    (eq. 32). All formulations of this package describe this body. An inertia that is not physical emits a
    `ModelWarning` and is used unchanged.

    >>> top = rbd.body.RotatingBody(jnp.diag(jnp.array([1.0, 2.0, 3.0])))
    >>> print(top.momentum(jnp.array([1.0, 0.0, 1.0])), top.kinetic_energy(jnp.array([1.0, 0.0, 3.0])))
    [1. 0. 3.] 2.0
    """

    inertia: Float[Array, "3 3"]

    def __init__(self, inertia):
        inertia = as_array("RotatingBody", "inertia", inertia, "a matrix of shape (3, 3)")
        if inertia.shape != (3, 3):
            raise ModelError(f"RotatingBody: inertia has shape {inertia.shape}; it must be (3, 3)")
        if is_known(inertia):
            _check(np.asarray(inertia, np.float64), accuracy(inertia.dtype))
        self.inertia = inertia

    @property
    @compiled
    def euler_inertia(self) -> Float[Array, "3 3"]:
        """Euler's tensor `𝒥 = ½ tr(J) I - J`, the second moments `∫ρ θⁱθʲ` of the mass (eqs. 66, 111)."""
        trace = jnp.trace(self.inertia)
        return trace / 2 * jnp.eye(3, dtype=self.inertia.dtype) - self.inertia

    def momentum(self, velocity: Float[Array, "3"]) -> Float[Array, "3"]:
        """Returns `Π = J W`, the angular momentum at the angular velocity `W`, both in the body's axes (eq. 38)."""
        return matvec(self.inertia, velocity)

    def velocity(self, momentum: Float[Array, "3"]) -> Float[Array, "3"]:
        """Returns `W = J⁻¹ Π`, in the body's axes."""
        return jnp.linalg.solve(self.inertia, momentum)

    def kinetic_energy(self, momentum: Float[Array, "3"]) -> Float[Array, ""]:
        """Returns `½ Π·J⁻¹Π` for an angular momentum in the body's axes (eqs. 33, 36)."""
        return dot(momentum, self.velocity(momentum)) / 2


def _check(inertia: np.ndarray, tolerance: float):
    scale = np.max(np.abs(inertia))
    if not np.all(np.isfinite(inertia)):
        raise ModelError("RotatingBody: inertia has a number that is not finite")
    if np.max(np.abs(inertia - inertia.T)) > tolerance * scale:
        raise ModelError("RotatingBody: inertia is not symmetric")
    if np.max(np.abs(inertia[2, :2])) > tolerance * scale:
        raise ModelError(
            "RotatingBody: the third axis is not a principal one; choose the body's axes so that inertia[0, 2] and "
            "inertia[1, 2] are zero"
        )
    moments = np.linalg.eigvalsh(inertia)
    if moments[0] <= 0:
        raise ModelError("RotatingBody: inertia is not positive definite")
    fault = triangle_fault(moments, max(1e-6, tolerance) * scale)
    if fault is not None:
        message = f"RotatingBody: inertia is not physical: {fault}. It is used unchanged"
        warnings.warn(
            message, ModelWarning, stacklevel=5
        )  # the line that creates the body: Equinox has two frames in between
