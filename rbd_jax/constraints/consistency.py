"""States that satisfy the constraints: told from others, projected, and found from a rough guess."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from .._array import identity_like, is_known, matmul, matvec, transpose, vecmat
from ..dynamics import solve_mass_matrix
from ..dynamics.inverse import inertia_force
from ..model import Model, difference, integrate
from ..model._arguments import takes_sample
from ._factors import rank_tolerance
from ._systems import factorize, solve_system
from .evaluate import constraint_jacobian, constraint_residual, constraint_rows, constraint_velocity


#: Newton steps of `project`, and of `assemble` at most.
PROJECTION_STEPS = 8
ASSEMBLY_STEPS = 100


@takes_sample
def check_consistent(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"], tolerance: float | None = None
) -> None:
    """Refuse a state that breaks the model's constraints by more than `tolerance` (m or rad, or a second of them).

    Says which constraint, by how much, and what to do. A state under `jit` cannot be looked at: it passes. By default the
    tolerance is 1e-6 in double precision and 1e-3 in single.
    """
    if not model.constraints or not is_known((model, q, v)):
        return
    allowed = float(jnp.finfo(q.dtype).eps) ** 0.4 if tolerance is None else tolerance
    faults = []
    with jax.ensure_compile_time_eval():  # a state that a function under `jit` closes over can be looked at
        broken = {"position": _residual(model, q), "velocity": _velocity(model, q, v)}
    for constraint, rows in zip(model.constraints, constraint_rows(model), strict=True):
        for what, by in broken.items():
            worst = float(np.max(np.abs(np.asarray(by)[rows]), initial=0))
            if not worst <= allowed:
                faults.append(f"{constraint.label} in {what} by {worst:.3g}")
    if faults:
        raise ValueError(
            f"the state of model {model.name!r} breaks its constraints: {'; '.join(faults[:6])}"
            f"{'; ...' if len(faults) > 6 else ''}. Make it consistent with rbd.project(model, q, v), or find a "
            "configuration from a rough guess with rbd.assemble(model, q)"
        )


@jax.jit
def _residual(model, q):
    return constraint_residual(model, q)


@jax.jit
def _velocity(model, q, v):
    return constraint_velocity(model, q, v)


@takes_sample
def project(
    model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]
) -> tuple[Float[Array, "nq"], Float[Array, "nv"]]:
    """The state moved onto the constraints, in the metric of the mass matrix.

    `q ⊕ M⁻¹ Gᵀ μ` with M and G of the given q, and the μ that closes the constraints, found by Newton's method from
    nearby (from afar, `assemble` first). Then `v + M⁻¹ Gᵀ ν` with M and G of the new q: the velocity after the blow that
    makes the constraints hold. Derivatives are those of these equations.
    """
    return closed(model, q, v, PROJECTION_STEPS)


def closed(model: Model, q, v, steps: int):
    """The state moved onto the constraints by so many steps of Newton's method, and two that are differentiated."""
    if not model.constraints:
        return q, v
    directions = solve_mass_matrix(model, q, transpose(constraint_jacobian(model, q)))

    def moved(mu):
        return integrate(model, q, matvec(directions, mu))

    def newton(mu, slope):
        return mu - matvec(_pseudo_inverse(slope), constraint_residual(model, moved(mu)))

    def improve(_, mu):  # the slope but for what moving on the manifold does to directions
        return newton(mu, matmul(constraint_jacobian(model, moved(mu)), directions))

    mu = lax.stop_gradient(lax.fori_loop(0, steps, improve, jnp.zeros(directions.shape[1], q.dtype)))
    for _ in range(2):  # steps that are differentiated: what they start from no longer matters
        mu = newton(mu, jax.jacfwd(lambda mu: constraint_residual(model, moved(mu)))(mu))
    q = moved(mu)
    return q, project_velocity(model, q, v)


@takes_sample
def project_velocity(model: Model, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, "nv"]:
    """The velocity nearest to `v`, in the metric of the mass matrix, with which the constraints keep holding."""
    if not model.constraints:
        return v
    own = constraint_velocity(model, q, jnp.zeros_like(v))
    factors = factorize(model, q)
    return solve_system(inertia_force(model, q, v), -own, None, factors, model, q).a


class Assembly(eqx.Module):
    """A configuration found, the largest residual that it leaves, and whether that is within the tolerance."""

    q: Float[Array, "*batch nq"]
    residual: Float[Array, "*batch"]
    closed: Bool[Array, "*batch"]


@takes_sample
def assemble(
    model: Model, q: Float[Array, "nq"], hold: Sequence[str] = (), tolerance: float | None = None
) -> Assembly:
    """A configuration that satisfies the constraints, from a guess that may be rough.

    Damped Gauss–Newton steps (Levenberg and Marquardt), all freedoms counting alike. A mechanism that cannot be
    closed from here comes back as near as it got, with `closed` false.

    **Arguments**

    - `hold`: joints that are not moved: cranks, say, from whose angles the rest shall follow.
    - `tolerance`: 1e-12 in double precision by default, 1e-5 in single.

    Derivatives by the numbers of the model, and by those of held joints, are those of the equations (in the directions
    that they leave open, nothing moves); by the rest of the guess they are zero.
    """
    if isinstance(hold, str):
        raise ValueError(f"assemble: hold is {hold!r}; it takes a sequence of joints: [{hold!r}]")
    allowed = float(jnp.finfo(q.dtype).eps) ** 0.75 if tolerance is None else tolerance
    free = np.ones(model.nv)
    for joint in hold:
        free[model.v_slice(joint)] = 0
    free = jnp.asarray(free, q.dtype)

    def equations(q):
        return constraint_residual(model, q), constraint_jacobian(model, q) * free[None, :]

    def unfinished(state):
        _, _, worst, steps = state
        return (worst > allowed) & (steps < ASSEMBLY_STEPS)

    def improve(state):
        q, damping, _, steps = state
        off, slope = equations(q)
        normal = matmul(transpose(slope), slope)
        step = -jnp.linalg.solve(normal + damping * identity_like(normal), vecmat(off, slope))
        moved = integrate(model, q, step)
        new = constraint_residual(model, moved)
        better = jnp.sum(new**2) < jnp.sum(off**2)
        q = jnp.where(better, moved, q)
        damping = jnp.where(better, damping / 10, jnp.minimum(10 * damping, 1e6))
        return q, damping, jnp.max(jnp.abs(jnp.where(better, new, off)), initial=0), steps + 1

    worst = jnp.max(jnp.abs(constraint_residual(model, q)), initial=0)
    start = q, jnp.asarray(1e-2, q.dtype), worst, jnp.zeros((), int)
    found, _, worst, _ = lax.stop_gradient(lax.while_loop(unfinished, improve, lax.stop_gradient(start)))
    closed = worst <= allowed
    # What is held keeps its place, and depends on the guess.
    result = integrate(model, found, (1 - free) * difference(model, found, q))
    for _ in range(2):  # steps that are differentiated: what they start from no longer matters
        off, slope = equations(result)
        better = integrate(model, result, -matvec(_pseudo_inverse(slope), off))
        result = jnp.where(closed, better, result)
    return Assembly(result, jnp.max(jnp.abs(constraint_residual(model, result)), initial=0), closed)


def _pseudo_inverse(matrix):
    """The inverse of what has rank; its derivative is that of the same rank, and free of singular vectors."""
    tolerance = rank_tolerance(max(matrix.shape), matrix.dtype) ** 0.5
    # A number of numpy: `pinv` keeps it for its derivative, and one of jax would be a leaked tracer in a loop.
    return jnp.linalg.pinv(matrix, rtol=np.asarray(tolerance, matrix.dtype))
