"""Articulated bodies described at their handles: responses to forces, and assembly of mechanisms (book §7.1 to §7.5).

A handle is a body at which an articulated body interacts with other bodies. There are two descriptions:

- `Handles`: accelerations as functions of the forces on any number of handles, `a = Φ f + b` (eq. 7.4). This form exists for
  every mechanism, fixed or floating. The projection method computes it for a model (eqs. 7.9, 7.10). Joints between handles
  change it by variant 1 of table 7.2, and by eq. 7.63 for handles on different bodies.
- `ArticulatedBody`: the force on one handle as a function of its acceleration, `f = I a + p` (eq. 7.2), which requires six
  degrees of freedom. Joints combine such bodies by the standard formulae of table 7.2 or by its variant 2.

All quantities are in the world's axes about the world's origin, so that quantities of different bodies can be added.
"""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import body_names, configuration, takes, velocity, wrenches
from .._core.array import gather, matmul, matvec, transpose, vecmat
from ..model import Model
from .external import ExternalForces
from .forward import articulated_body, solve_inertia
from .jacobians import body_jacobian
from .kinematics import express_by_body
from .motion import Motion


class ArticulatedBody(eqx.Module):
    """A handle with the equation of motion `f = I a + p` (eq. 7.2), about one origin in one set of axes.

    >>> stone = rbd.dynamics.ArticulatedBody(2.0 * jnp.eye(6), jnp.array([0.0, 0.0, 0.0, 0.0, 0.0, 19.62]))
    >>> print(jnp.linalg.solve(stone.inertia, -stone.bias)[3:])  # how it moves when nothing holds it
    [ 0.    0.   -9.81]
    """

    inertia: Float[Array, "6 6"]
    bias: Float[Array, "6"]

    def carrying(
        self, other: ArticulatedBody, subspace: Float[Array, "6 n"], tau, product
    ) -> ArticulatedBody:
        """Returns this body with another one attached by a joint: the standard formulae of table 7.2 (eqs. 7.19, 7.20).

        Args:
          other: The attached articulated body.
          subspace: Motion subspace S of the joint, (6, n).
          tau: Force of the joint, (n,).
          product: Acceleration of the joint without `q̈`, (6,).

        >>> box, cylinder = rbd.Inertia.box(2.0, (1, 1, 1)).matrix, rbd.Inertia.sphere(1.0, 0.5).matrix
        >>> handle = rbd.dynamics.ArticulatedBody(box, jnp.zeros(6))
        >>> turn_and_slide = jnp.eye(6)[:, jnp.array([0, 4])]  # about x and along y
        >>> other = rbd.dynamics.ArticulatedBody(cylinder, jnp.zeros(6))
        >>> print(jnp.diagonal(handle.carrying(other, turn_and_slide, jnp.zeros(2), jnp.zeros(6)).inertia))
        [0.333 0.433 0.433 3.    2.    3.   ]
        """
        force = matmul(other.inertia, subspace)
        inner = matmul(transpose(subspace), force)
        apparent = other.inertia - matmul(force, jnp.linalg.solve(inner, transpose(force)))
        effort = jnp.linalg.solve(inner, tau - vecmat(other.bias, subspace))
        bias = other.bias + matvec(apparent, product) + matvec(force, effort)
        return ArticulatedBody(self.inertia + apparent, self.bias + bias)

    def constrained_to(
        self, other: ArticulatedBody, constraints: Float[Array, "6 m"], active: Float[Array, "6"], product
    ) -> ArticulatedBody:
        """Computes the same as `carrying` from the constraint forces of the joint: variant 2 of table 7.2.

        Args:
          other: The attached articulated body; its inertia must be invertible.
          constraints: Constraint forces T of the joint, `Tᵀ S = 0`, (6, m).
          active: Active force `T_a tau` on the other body, (6,).
          product: Acceleration of the joint without `q̈`, (6,).
        """
        answer = jnp.linalg.inv(other.inertia)
        inner = matmul(transpose(constraints), matmul(answer, constraints))
        open_by = vecmat(product - matvec(answer, active - other.bias), constraints)
        inertia = matmul(constraints, jnp.linalg.solve(inner, transpose(constraints)))
        bias = active + matvec(constraints, jnp.linalg.solve(inner, open_by))
        return ArticulatedBody(self.inertia + inertia, self.bias + bias)


class Handles(eqx.Module):
    """Handles with the equation of motion `a = Φ f + b` (eq. 7.4).

    - `mobility`: Φ, symmetric and positive semidefinite; its rank is the number of independent motions of the handles.
    - `free`: b, the accelerations without forces on the handles.

    `len()` returns the number of handles.

    >>> stone = rbd.dynamics.Handles(jnp.eye(6) / 2.0, jnp.array([0.0, 0.0, 0.0, 0.0, 0.0, -9.81]))  # one handle: 2 kg that fall
    >>> print(len(stone), stone.accelerations(jnp.array([[0.0, 0.0, 0.0, 0.0, 0.0, 19.62]]))[0])  # held
    1 [0. 0. 0. 0. 0. 0.]
    """

    mobility: Float[Array, "n n"]
    free: Float[Array, "n"]

    def __len__(self) -> int:
        return self.free.shape[0] // 6

    def accelerations(self, forces: Float[Array, "h 6"]) -> Float[Array, "h 6"]:
        """Returns the accelerations of the handles under forces on them."""
        return (matvec(self.mobility, forces.reshape(-1)) + self.free).reshape(-1, 6)

    def beside(self, other: Handles) -> Handles:
        """Returns the handles of two separate mechanisms, this object's handles first."""
        return Handles(
            jax.scipy.linalg.block_diag(self.mobility, other.mobility),
            jnp.concatenate([self.free, other.free]),
        )

    def only(self, chosen: Sequence[int]) -> Handles:
        """Returns a subset of the handles, in the given order."""
        rows = (6 * np.asarray(chosen, int)[:, None] + np.arange(6)[None, :]).reshape(-1)
        return Handles(self.mobility[rows[:, None], rows[None, :]], self.free[rows])

    def joined(
        self,
        first: int,
        second: int,
        constraints: Float[Array, "6 m"],
        active: Float[Array, "6"],
        product: Float[Array, "6"],
    ) -> Handles:
        """Returns the handles with a joint between two of them; both joined handles remain (table 7.2, variant 1; eq. 7.63).

        For handles 2 and 3 of two mechanisms, `Y = Tᵀ (Φ₂ + Φ₃) T`. If both are on one mechanism, the joint closes a loop and
        Φ₂₃ is included. Y is singular if the joint repeats an existing constraint. Y is then replaced by its pseudoinverse,
        and the accelerations are still unique.

        Args:
          first: Index of the handle that is the predecessor of the joint.
          second: Index of the handle that is the successor of the joint.
          constraints: T, the constraint forces of the joint, `Tᵀ S = 0`, (6, m).
          active: `T_a tau`, the active force of the joint on the successor; the predecessor gets the opposite force.
          product: c, the acceleration of the successor relative to the predecessor without `q̈`.

        >>> model, still = rbd.load("double_pendulum"), jnp.zeros(2)
        >>> arm = rbd.dynamics.handles(model, jnp.array([0.5, 1.0]), still, still, ["upper", "lower"])
        >>> load = rbd.dynamics.Handles(rbd.Inertia.sphere(1.0, 0.1).inverse_matrix, jnp.zeros(6))
        >>> held = arm.beside(load).joined(1, 2, jnp.eye(6), jnp.zeros(6), jnp.zeros(6))  # welded to the lower arm
        >>> print(jnp.allclose(held.only([1]).mobility, held.only([2]).mobility))
        True
        """
        for number in (first, second):
            if not 0 <= number < len(self):
                raise ValueError(
                    f"Handles.joined: got handle index {number}, but there are only {len(self)} handles, counted from 0"
                )
        if first == second:
            raise ValueError(
                f"Handles.joined: first and second must differ, got {first} for both; a joint is between two handles"
            )
        take = lambda number: slice(6 * number, 6 * number + 6)
        between = self.mobility[:, take(second)] - self.mobility[:, take(first)]
        relative = lambda x: x[take(second)] - x[take(first)]
        free = self.free + matvec(between, active)
        columns = matmul(between, constraints)
        inner = matmul(transpose(constraints), relative(columns))
        inner = 0.5 * (inner + transpose(inner))
        inverse = jnp.linalg.pinv(inner, rtol=float(jnp.finfo(inner.dtype).eps) ** (2 / 3), hermitian=True)
        multipliers = matvec(inverse, vecmat(product - relative(free), constraints))
        mobility = self.mobility - matmul(columns, matmul(inverse, transpose(columns)))
        return Handles(0.5 * (mobility + transpose(mobility)), free + matvec(columns, multipliers))


@takes(q=configuration, v=velocity, tau=velocity, bodies=body_names, f_ext=wrenches)
def handles(
    model: Model,
    q: Float[Array, "nq"],
    v: Float[Array, "nv"],
    tau: Float[Array, "nv"],
    bodies: str | int | Sequence[str | int],
    f_ext: ExternalForces = None,
) -> Handles:
    """Returns bodies of a model as handles: `Φ = J M⁻¹ Jᵀ` and `b = J q̈ + J̇ v` (projection method, eqs. 7.9, 7.10).

    For one body on one joint these are eqs. 3.54 and 3.55. Φ is `inverse_operational_inertia` in the world's frame. b contains
    the spatial accelerations of `forward_dynamics`.

    Args:
      model: The model.
      q: Configuration, shape (nq,).
      v: Velocity, shape (nv,).
      tau: Generalized forces, shape (nv,).
      bodies: Names or indices of the bodies.
      f_ext: External forces, see `ExternalForces`.

    >>> model, q, still = rbd.load("double_pendulum"), jnp.array([0.5, 1.0]), jnp.zeros(2)
    >>> both = rbd.dynamics.handles(model, q, still, still, ["upper", "lower"])
    >>> print(len(both), jnp.linalg.matrix_rank(both.mobility))
    2 2
    """
    chosen = [bodies] if isinstance(bodies, str | int | np.integer) else list(bodies)
    motion = Motion(model, q, v)
    rows = jnp.concatenate([body_jacobian(motion, body) for body in chosen])
    mobility = matmul(rows, solve_inertia(motion, transpose(rows)))
    a = articulated_body(motion, tau, f_ext)
    columns = motion.accelerations(a, jnp.zeros(6, a.dtype))
    of_bodies = express_by_body(motion, gather(columns, model.topology.last_column), "world")
    free = gather(of_bodies, [model.body_index(body) for body in chosen]).reshape(-1)
    return Handles(0.5 * (mobility + transpose(mobility)), free)
