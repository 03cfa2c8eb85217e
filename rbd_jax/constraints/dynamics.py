"""Forward dynamics under constraints (book §3.2, §8.1 to §8.8)."""

from __future__ import annotations

from collections.abc import Iterator

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from .._core.arguments import anything, configuration, takes, velocity, wrenches
from ..dynamics import ExternalForces, Motion
from ..dynamics.forward import articulated_body
from ..dynamics.inverse import recursive_newton_euler
from ..model import Model
from ._factors import Factors
from .evaluate import bias_of, with_constraints
from .solving import Method, Solution, factorize, solve_system
from .stabilization import Stabilization


class ConstrainedMotion(eqx.Module):
    """The result of constrained dynamics; it unpacks as `acceleration, multipliers`.

    - `acceleration`: Unique, also for redundant constraints.
    - `multipliers`: λ, the forces of the constraints, with least norm among all solutions.
    - `rank`: The number of independent constraints.
    - `unmet`: The residual of `G a = -bias` that no acceleration can satisfy. It is zero, up to rounding, unless constraints
      contradict each other. It is a constant for differentiation.

    >>> coupling = rbd.constraints.CoordinateCoupling({"elbow": (0.0, 1.0), "shoulder": (0.0, -1.0)})
    >>> model = rbd.add_constraints(rbd.load("double_pendulum"), coupling)
    >>> motion = rbd.constrained_dynamics(model, jnp.array([0.5, 0.5]), jnp.zeros(2), jnp.zeros(2))
    >>> print(motion.acceleration, motion.multipliers, motion.rank)
    [-2.724 -2.724] [0.412] 1
    """

    acceleration: Float[Array, "*batch nv"]
    multipliers: Float[Array, "*batch m"]
    rank: Int[Array, "*batch"]
    unmet: Float[Array, "*batch m"]

    def __iter__(self) -> Iterator[Array]:
        return iter((self.acceleration, self.multipliers))


@takes(q=configuration, v=velocity, tau=velocity, f_ext=wrenches, method=anything, stabilization=anything)
def constrained_dynamics(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    tau: Float[Array, "nv"],
    f_ext: ExternalForces = None,
    method: Method = "auto",
    stabilization: Stabilization | None = None,
) -> ConstrainedMotion:
    """Returns the motion that `tau` produces under the model's constraints.

    The equations are `M a + C v + g - Jᵀ f_ext = tau + Gᵀ λ` and `G a + bias = 0`, (3.17) and (8.6), and Sueda's (2.98). As in
    `forward_dynamics`, damping, friction and springs of the joints are not included.

    Redundant constraints are not an error: the acceleration is unique, and derivatives are valid where the rank does not
    change. Where it changes (a linkage that passes through a straight line), they are finite. Contradictory constraints are
    satisfied in the sense of least squares, and `unmet` is not zero.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      v: Velocity, shape (nv,).
      tau: Generalized forces, shape (nv,).
      f_ext: Wrenches `[n; f]` on bodies, in the world's axes about the world's origin.
      method: All methods give the same result at different costs. `"elimination"` is O(n), and for each constraint quadratic
        in the number of constraints open with it, so linear for a chain of loops. `"range_space"` is O(n) for each row and
        cubic in the rows. `"null_space"` is cubic in the degrees of freedom. `"kkt"` is cubic in the sum of both. `"auto"`
        selects elimination, unless long chains are coupled along their length.
      stabilization: By default none: constraints hold for accelerations, and existing violations persist or grow.

    Returns:
      A `ConstrainedMotion`.

    >>> slider = rbd.constraints.PointOnPlane("world", (0, 0, 0), (1, 0, 0), "lower", (0, 0, -1))
    >>> model = rbd.add_constraints(rbd.load("double_pendulum"), slider)
    >>> a, multipliers = rbd.constrained_dynamics(model, jnp.array([0.5, -1.0]), jnp.array([1.0, -2.0]), jnp.zeros(2))
    >>> print(a, multipliers)
    [-8.219 16.439] [2.003]
    """
    return motion_under_constraints(Motion(model, q, v), tau, f_ext, method, stabilization)


def motion_under_constraints(
    motion: Motion,
    tau: Float[Array, "nv"],
    f_ext: ExternalForces = None,
    method: Method = "auto",
    stabilization: Stabilization | None = None,
) -> ConstrainedMotion:
    """Returns `constrained_dynamics` of a model in motion."""
    if not motion.model.constraints:
        a = articulated_body(motion, tau, f_ext)
        return ConstrainedMotion(a, jnp.zeros(0, a.dtype), jnp.zeros((), int), jnp.zeros(0, a.dtype))
    x, factors, wanted = solved_system(motion, tau, f_ext, method, stabilization)
    wanted = lax.stop_gradient(wanted)
    return ConstrainedMotion(x.a, x.multipliers, factors.rank, wanted - factors.onto(wanted))


def prepared(motion: Motion) -> Motion:
    """Returns the motion with all quantities stored that do not depend on forces or armature."""
    motion = motion.computed("velocity_products")
    if motion.model.constraints:
        motion = motion.computed("inertias")
    return with_constraints(motion, "matrix", "bias")


def solved_system(
    motion: Motion,
    tau: Float[Array, "nv"],
    f_ext: ExternalForces,
    method: Method,
    stabilization: Stabilization | None,
) -> tuple[Solution, Factors, Float[Array, "m"]]:
    """Returns the solution of the equations of constrained motion, the factorization, and the required `G a`."""
    motion = prepared(motion)
    factors, wanted = factorize(motion, method), wanted_rate(motion, stabilization)
    force = tau - recursive_newton_euler(motion, jnp.zeros_like(tau), f_ext)
    return solve_system((force, wanted, None), factors, motion), factors, wanted


def wanted_rate(motion: Motion, stabilization: Stabilization | None) -> Float[Array, "m"]:
    """Returns the required value of `G a`."""
    steered = None if stabilization is None else stabilization.second_rate(motion)
    return -bias_of(motion) if steered is None else steered - bias_of(motion)


@takes(q=configuration)
def mobility(model: Model, q: Float[Array, "nq"]) -> Int[Array, ""]:
    """Returns the number of degrees of freedom of the mechanism in this configuration: `nv - rank G` (book eq. 8.52).

    Constraints on velocities count as well. Without them it is the number of ways in which the position can change.

    >>> slider = rbd.constraints.PointOnPlane("world", (0, 0, 0), (1, 0, 0), "lower", (0, 0, -1))
    >>> model = rbd.add_constraints(rbd.load("double_pendulum"), slider)
    >>> print(rbd.mobility(model, jnp.array([0.5, -1.0])))
    1
    """
    if not model.constraints:
        return jnp.asarray(model.nv)
    return model.nv - factorize(Motion(model, q)).rank
