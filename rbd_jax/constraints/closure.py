"""Loops with a known closure function: independent variables instead of constraints (book §8.11).

`q = γ(y)`, so `v = G ẏ` and `a = G ÿ + g`, and the equation of motion is `Gᵀ M G ÿ = Gᵀ (tau - C - M g)` (8.46). Nothing
drifts, so no stabilization is needed. Gears are the simplest use (§9.6).

These are also the hyper-reduced coordinates of Sueda's notes (§2.6): y is his q_R, `G = J_rR` and `g = J̇_rR q̇_R`, and
with `M = J_mrᵀ M_m J_mr` of the tree, the book's (8.46) is Sueda's (2.83).
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import function_tree
from .._core.array import matmul, matvec, transpose, vecmat
from .._core.errors import ModelError
from ..dynamics import ExternalForces, Motion
from ..dynamics.inverse import inertia_product, recursive_newton_euler
from ..model import Model, difference
from ..model.attachments import without_constraints


class Closure(eqx.Module):
    """A configuration in terms of independent variables, with its velocity and acceleration: `v = G ẏ`, `a = G ÿ + bias`.

    >>> model = rbd.load("double_pendulum")
    >>> closure = rbd.constraints.close(model, lambda y: jnp.concatenate([y, y**2]), jnp.array([0.5]), jnp.array([1.0]))
    >>> print(closure.q, closure.v, closure.bias)
    [0.5  0.25] [1. 1.] [0. 2.]
    """

    q: Float[Array, "nq"]
    v: Float[Array, "nv"]
    jacobian: Float[Array, "nv ny"]
    bias: Float[Array, "nv"]


def close(
    model: Model,
    closure: Callable[[Float[Array, "ny"]], Float[Array, "nq"]],
    y: Float[Array, "ny"],
    y_rate: Float[Array, "ny"],
) -> Closure:
    """Returns the state of the model, and G and g (eqs. 3.11, 3.12, 8.57 to 8.60), by differentiating `q = closure(y)`.

    >>> model = rbd.load("double_pendulum")
    >>> closure = rbd.constraints.close(model, lambda y: jnp.concatenate([y, -2 * y]), jnp.array([0.5]), jnp.array([1.0]))
    >>> print(closure.jacobian[:, 0])
    [ 1. -2.]
    """

    def velocity(y, rate):
        def along(step):
            return difference(model, closure(y), closure(y + step * rate))

        return jax.jvp(along, (jnp.zeros((), y.dtype),), (jnp.ones((), y.dtype),))[1]

    jacobian = jax.vmap(lambda rate: velocity(y, rate), out_axes=1)(jnp.eye(len(y), dtype=y.dtype))
    v, bias = jax.jvp(lambda y: velocity(y, y_rate), (y,), (y_rate,))
    return Closure(closure(y), v, jacobian, bias)


class ReducedModel(eqx.Module):
    """A model that moves with a few independent variables y, by `q = closure(y)`: hyper-reduced coordinates (Sueda §2.6).

    `rollout` takes it in place of a model, with every scheme. States are then `State(y, ẏ)`, controls are generalized
    forces along y, and `forces` act on the model as usual. Motions in y are added without wrapping angles.

    - `model`: The model. Its own constraints, which `closure` must satisfy, are removed.
    - `closure`: A function of y, differentiable twice, that returns a configuration of the model. It may be a PyTree (an
      `equinox.Module` with `__call__`), whose arrays are then parameters.
    - `size`: The number of variables.

    >>> model = rbd.load("double_pendulum")
    >>> mirrored = rbd.ReducedModel(model, lambda y: jnp.concatenate([y, -2 * y]), size=1)  # the lower arm folds back
    >>> print(mirrored.nv, rbd.rollout(mirrored, rbd.State(jnp.array([0.3]), jnp.zeros(1)), dt=0.01, steps=20).q[-1])
    1 [0.166]
    """

    model: Model
    closure: Callable
    size: int = eqx.field(static=True)

    def __init__(self, model: Model, closure: Callable, size: int):
        _refuse_nonholonomic("ReducedModel", model)
        shape = jnp.shape(jax.eval_shape(closure, jax.ShapeDtypeStruct((size,), model.dtype)))
        if shape != (model.nq,):
            raise ValueError(
                f"ReducedModel: closure returns an array of shape {shape}; for model {model.name!r} it must be a "
                f"configuration, of length nq = {model.nq}"
            )
        self.model = without_constraints(model)
        self.closure = function_tree(closure)
        self.size = size

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def dtype(self):
        """The precision of the model."""
        return self.model.dtype

    @property
    def nq(self) -> int:
        """The number of variables."""
        return self.size

    @property
    def nv(self) -> int:
        """The number of variables."""
        return self.size

    def at(self, y: Float[Array, "ny"], y_rate: Float[Array, "ny"]) -> Closure:
        """Returns the configuration and velocity of the model, and their dependence on the variables."""
        return close(self.model, self.closure, y, y_rate)


def closure_force(
    model: ReducedModel,
    y: Float[Array, "ny"],
    y_rate: Float[Array, "ny"],
    tau: Float[Array, "nv"],
    f_ext: ExternalForces = None,
) -> Float[Array, "nv"]:
    """Returns the constraint force `τ_c` that holds the joints to the variables, while `tau` acts along the joints.

    It is the `τ_c` of the system in `q̈`, `τ_c` and `ÿ` (book eq. 3.18), which contains no constraint Jacobian and covers
    gears, mimics and loops. The function does not assemble that system. It solves the last rows (eq. 3.19) for `ÿ` by (3.20),
    and the first row gives `τ_c = M (G ÿ + g) + C - τ`. The force does no work: `Gᵀ τ_c = 0`. For the wrenches that the joints
    transmit, see `joint_wrenches`.

    Args:
      model: The reduced model.
      y: The independent variables, shape (ny,).
      y_rate: Their rates, shape (ny,).
      tau: Generalized forces along the joints of the model, shape (nv,).
      f_ext: Wrenches `[n; f]` on bodies, in the world's axes about the world's origin.

    >>> pair = rbd.ReducedModel(rbd.load("double_pendulum"), lambda y: jnp.array([y[0], -y[0]]), 1)
    >>> force = rbd.constraints.closure_force(pair, jnp.array([0.5]), jnp.zeros(1), jnp.zeros(2))
    >>> print(force)
    [-4.125 -4.125]
    """
    at = close(model.model, model.closure, y, y_rate)
    motion = Motion(model.model, at.q, at.v).computed("inertias", "velocity_products")
    change = reduced_acceleration(motion, at, vecmat(tau, at.jacobian), f_ext)
    return recursive_newton_euler(motion, matvec(at.jacobian, change) + at.bias, f_ext) - tau


def closure_dynamics(
    model: Model,
    closure: Callable[[Float[Array, "ny"]], Float[Array, "nq"]],
    y: Float[Array, "ny"],
    y_rate: Float[Array, "ny"],
    tau: Float[Array, "nv"],
    f_ext: ExternalForces = None,
) -> Float[Array, "ny"]:
    """Returns `ÿ` of the independent variables; the model's own constraints, which `closure` must satisfy, are ignored.

    >>> model, closure = rbd.load("double_pendulum"), lambda y: jnp.concatenate([y, -2 * y])
    >>> print(rbd.constraints.closure_dynamics(model, closure, jnp.array([0.5]), jnp.zeros(1), jnp.zeros(2)))
    [-7.343]
    """
    _refuse_nonholonomic("closure_dynamics", model)
    at = close(model, closure, y, y_rate)
    return reduced_acceleration(Motion(model, at.q, at.v), at, vecmat(tau, at.jacobian), f_ext)


def _refuse_nonholonomic(owner: str, model: Model) -> None:
    for constraint in model.constraints:
        if not all(constraint.holonomic):
            raise ModelError(
                f"{owner}: {constraint.label} of model {model.name!r} holds velocities, which no function of variables "
                "satisfies; simulate the model itself, or take it off: rbd.detach(model, constraint)"
            )


def reduced_acceleration(
    motion: Motion, at: Closure, force: Float[Array, "ny"], f_ext: ExternalForces = None
) -> Float[Array, "ny"]:
    """Returns `ÿ` of a model in motion under forces along the independent variables (eqs. 3.20, 8.46)."""
    missing = force - vecmat(recursive_newton_euler(motion, at.bias, f_ext), at.jacobian)
    return jnp.linalg.solve(reduced_inertia(motion, at.jacobian), missing)


def reduced_inertia(motion: Motion, jacobian: Float[Array, "nv ny"]) -> Float[Array, "ny ny"]:
    """Returns `Gᵀ M G`, the mass matrix of the independent variables (eq. 8.46; Sueda eq. 2.83)."""
    return matmul(transpose(jacobian), inertia_product(motion, jacobian))
