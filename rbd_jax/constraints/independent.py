"""Independent joints: all velocities and accelerations in terms of some joints (book §8.5, §8.8).

`v = G ẏ` and `a = G ÿ + g`, with G and g from the constraints themselves, where `closure.py` has them from a function of the
independent variables. The user selects these joints (end of §8.8), so no pivoting is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .._core.arguments import configuration, joint_names, takes, velocity
from .._core.array import is_known, matmul, matvec
from ..dynamics import Motion
from ..model import Model
from ._factors import pseudo_inverse, rank_tolerance
from .closure import Closure
from .evaluate import bias_of, matrix_of, with_constraints


@takes(compile=False, q=configuration, v=velocity, joints=joint_names)
def independent_joints(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], joints: Sequence[str]
) -> Closure:
    """Returns the motion of the mechanism in terms of the chosen joints: `v = G ẏ`, `a = G ÿ + g` (book eq. 8.51).

    With the columns of the constraint Jacobian K split into those of the independent joints and the others,
    `G = [1; -K₂⁺ K₁]` and `g = [0; K₂⁺ k]`, each in its place. Redundant constraints are not an error.

    The number of joints must equal the mobility of the mechanism. The joints must determine the others in this
    configuration, as a crank at its dead points does not. Otherwise the function raises an error; under `jit`, where values
    cannot be checked, G and g are NaN.

    Args:
      model: The model, with constraints.
      q: Configuration that satisfies the constraints, shape (nq,).
      v: Velocity that satisfies the constraints, shape (nv,).
      joints: The names of the independent joints; y is their part of v, in the order given.

    Returns:
      A `Closure`: q, v, `jacobian` G and `bias` g.

    For inverse dynamics of the loop with actuators in some joints, see `constrained_inverse_dynamics`; with G it is
    `G_uᵀ u = Gᵀ inverse_dynamics(q, v, a)` (eq. 8.63).

    >>> slider = rbd.constraints.PointOnPlane("world", (0, 0, 0), (1, 0, 0), "lower", (0, 0, -1))
    >>> model = rbd.add_constraints(rbd.load("double_pendulum"), slider)
    >>> at = rbd.constraints.independent_joints(model, jnp.array([0.5, -1.0]), jnp.array([1.0, -2.0]), ["shoulder"])
    >>> print(at.jacobian[:, 0], at.bias)
    [ 1. -2.] [0. 0.]
    """
    entries = [np.arange(model.nv)[model.v_slice(joint)] for joint in joints]
    chosen = np.concatenate([np.zeros(0, int), *entries])
    if len(set(chosen.tolist())) < len(chosen):
        raise ValueError(f"independent_joints: joints has a joint twice: {list(joints)}")
    closure, determined = _split(model, q, v, tuple(chosen.tolist()))
    if is_known(determined) and not determined:
        raise ValueError(
            f"independent_joints: joints {list(joints)} of model {model.name!r} do not determine how the others move in this "
            "configuration, or are too many. Choose as many degrees of freedom as mobility(model, q) returns, and no crank at "
            "its dead point"
        )
    return closure


@partial(jax.jit, static_argnums=3)
def _split(model: Model, q, v, chosen: tuple[int, ...]) -> tuple[Closure, Bool[Array, ""]]:
    motion, others = with_constraints(Motion(model, q, v)), np.setdiff1d(np.arange(model.nv), chosen)
    matrix, order = matrix_of(motion).matrix, np.argsort([*chosen, *others])
    independent, dependent = matrix[:, np.array(chosen, int)], matrix[:, others]
    backwards = pseudo_inverse(dependent)
    determined = _determined(dependent, independent, backwards)
    jacobian = jnp.concatenate([jnp.eye(len(chosen), dtype=q.dtype), -matmul(backwards, independent)])
    g = jnp.concatenate([jnp.zeros(len(chosen), q.dtype), -matvec(backwards, bias_of(motion))])
    known = lambda x: jnp.where(determined, x[order], jnp.nan)
    return Closure(q, v, known(jacobian), known(g)), determined


def _determined(
    dependent: Float[Array, "m d"], independent: Float[Array, "m i"], backwards: Float[Array, "d m"]
) -> Bool[Array, ""]:
    """Returns whether the other columns have full rank and the columns of the independent joints are combinations of them."""
    tolerance = rank_tolerance(max(dependent.shape), dependent.dtype) ** 0.5
    identity = jnp.eye(dependent.shape[1], dtype=dependent.dtype)
    free = jnp.max(jnp.abs(matmul(backwards, dependent) - identity), initial=0)
    left = jnp.max(jnp.abs(independent - matmul(dependent, matmul(backwards, independent))), initial=0)
    size = jnp.max(jnp.abs(independent), initial=0)
    return (free < 0.5) & (left <= tolerance * jnp.where(size > 0, size, 1))
