"""Articulated bodies by their handles: how bodies answer to forces, and mechanisms put together (book §7.1 to §7.5).

A handle is a body through which an articulated body meets the rest. Two descriptions:

- `Handles`: accelerations as functions of the forces on any number of handles, `a = Φ f + b` (eq. 7.4). Such an answer exists for
  every mechanism, fixed or floating. It comes from a model by the projection method (eqs. 7.9, 7.10), and joints between
  handles change it by variant 1 of table 7.2, and by eq. 7.63 where the handles are on different bodies.
- `ArticulatedBody`: the force on one handle as a function of its acceleration, `f = I a + p` (eq. 7.2), which takes six degrees
  of freedom. Joined by the standard formulae of table 7.2 or by its variant 2.

All are in the world's axes about the world's origin, where what belongs to different bodies can be added.
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
    """A handle that is felt as `f = I a + p` (eq. 7.2), about one origin in one set of axes.

    >>> stone = rbd.dynamics.ArticulatedBody(2.0 * jnp.eye(6), jnp.array([0.0, 0.0, 0.0, 0.0, 0.0, 19.62]))
    >>> print(jnp.linalg.solve(stone.inertia, -stone.bias)[3:])  # how it moves when nothing holds it
    [ 0.    0.   -9.81]
    """

    inertia: Float[Array, "6 6"]
    bias: Float[Array, "6"]

    def carrying(
        self, other: ArticulatedBody, subspace: Float[Array, "6 n"], tau, product
    ) -> ArticulatedBody:
        """Itself with another on a joint: the standard formulae of table 7.2 (eqs. 7.19, 7.20).

        **Arguments**: of the joint its motion `subspace` S, its force `tau`, (n,), and the acceleration `product` that it has
        without `q̈`, (6,).

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
        """The same by the forces that the joint transmits: variant 2 of table 7.2.

        **Arguments**: the constraint forces T of the joint, `Tᵀ S = 0`; the `active` force `T_a tau` on the other; and `product`
        as for `carrying`. The inertia of the other must have an inverse.
        """
        answer = jnp.linalg.inv(other.inertia)
        inner = matmul(transpose(constraints), matmul(answer, constraints))
        open_by = vecmat(product - matvec(answer, active - other.bias), constraints)
        inertia = matmul(constraints, jnp.linalg.solve(inner, transpose(constraints)))
        bias = active + matvec(constraints, jnp.linalg.solve(inner, open_by))
        return ArticulatedBody(self.inertia + inertia, self.bias + bias)


class Handles(eqx.Module):
    """Handles that answer to forces on them as `a = Φ f + b` (eq. 7.4).

    - `mobility`: Φ, symmetric and positive semidefinite; its rank is the number of ways in which the handles can move.
    - `free`: b, the accelerations without force on the handles.

    `len()` of it is the number of handles.

    >>> stone = rbd.dynamics.Handles(jnp.eye(6) / 2.0, jnp.array([0.0, 0.0, 0.0, 0.0, 0.0, -9.81]))  # one handle: 2 kg that fall
    >>> print(len(stone), stone.accelerations(jnp.array([[0.0, 0.0, 0.0, 0.0, 0.0, 19.62]]))[0])  # held
    1 [0. 0. 0. 0. 0. 0.]
    """

    mobility: Float[Array, "n n"]
    free: Float[Array, "n"]

    def __len__(self) -> int:
        return self.free.shape[0] // 6

    def accelerations(self, forces: Float[Array, "h 6"]) -> Float[Array, "h 6"]:
        """Of the handles, under forces on them."""
        return (matvec(self.mobility, forces.reshape(-1)) + self.free).reshape(-1, 6)

    def beside(self, other: Handles) -> Handles:
        """Those of two mechanisms that do not touch: own ones first."""
        return Handles(
            jax.scipy.linalg.block_diag(self.mobility, other.mobility),
            jnp.concatenate([self.free, other.free]),
        )

    def only(self, chosen: Sequence[int]) -> Handles:
        """Some of them, in this order."""
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
        """With a joint from one handle to another; all stay handles, the joined ones too (table 7.2, variant 1; eq. 7.63).

        `Y = Tᵀ (Φ₂ + Φ₃) T` for handles 2 and 3 of two mechanisms. Of one mechanism (a loop that is closed) Φ₂₃ counts as
        well. Y is singular where the joint repeats a constraint that is there already. It is then inverted as far as it has rank:
        accelerations are unique all the same.

        **Arguments**

        - `first`, `second`: the predecessor and the successor of the joint, by their numbers.
        - `constraints`: T, the forces across which the joint does not move, `Tᵀ S = 0`.
        - `active`: `T_a tau`, the force that drives the joint, on the successor (and against it, on the predecessor).
        - `product`: `c`, the acceleration of the successor beyond the predecessor's that is there without `q̈`.

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
                    f"Handles.joined: there is no handle number {number}: there are {len(self)}, from 0"
                )
        if first == second:
            raise ValueError(
                f"Handles.joined: first and second are both {first}; a joint is between two handles"
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
    """Bodies of a model as handles, by the projection method: `Φ = J M⁻¹ Jᵀ` and `b = J q̈ + J̇ v` (eqs. 7.9, 7.10; of one body
    on one joint, eqs. 3.54 and 3.55).

    Φ is `inverse_operational_inertia` in the world's frame. `b` are the spatial accelerations of `forward_dynamics`.

    `bodies`: names or indices.

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
