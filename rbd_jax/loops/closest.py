"""The best-fitting configuration of a joint, for joints with only the `Joint` protocol.

The search selects starts among many configurations, runs damped Gauss–Newton steps from each, and takes the best fit. The
result is a smooth function of the placement: its derivatives are those of the equation that it solves.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Float

from .._core.array import dot, identity_like, matmul, transpose, vecmat
from .._core.derivatives import custom_jvp
from ..joints import Free, Joint, Prismatic, Spherical, SplineCurve, SplineSurface, Translational
from ..spatial.transform import Transform


#: Number of candidate configurations, drawn over the joint's range with a fixed seed, and number of starts among them. The
#: nearest candidate may converge to a local minimum, so the search continues from several.
DRAWN = 64
STARTS = 8
#: Number of steps of the search, and of final Newton steps.
STEPS = 10
NEWTON_STEPS = 3

#: Joints whose configurations do not count turns. (The general test would detect this, but splines are expensive to evaluate.)
TURNLESS = (Free, Prismatic, Spherical, SplineCurve, SplineSurface, Translational)

#: The difference d between a joint in a configuration and a placement, and the directions A in which the joint's motion
#: changes it: the derivative of d along the tangent space, up to the sign and to terms that vanish with d. Third, the squared
#: distance that selects the starts; |d| may be zero at other placements too.
Off = Callable[
    [Joint, Float[Array, "nq"], Transform], tuple[Float[Array, "m"], Float[Array, "m nv"], Float[Array, ""]]
]


@partial(custom_jvp, nondiff_argnums=(0,))
def closest(off: Off, joint: Joint, relative: Transform) -> Float[Array, "nq"]:
    """Returns the configuration q with `Aᵀ d = 0`; if there are several, the search aims at the nearest.

    If the displacement determines the number of full turns, as along a screw, it is included; otherwise turns are in (-π, π].
    """
    dtype = relative.position.dtype

    def improve(_, state):
        q, damping = state
        d, directions, _ = off(joint, q, relative)
        normal = matmul(transpose(directions), directions)
        scaled = damping * jnp.trace(normal) * identity_like(normal)
        moved = joint.integrate(q, jnp.linalg.solve(normal + scaled, vecmat(d, directions)))
        new = off(joint, moved, relative)[0]
        better = dot(new, new) <= dot(d, d)
        return jnp.where(better, moved, q), jnp.where(better, 1e-3 * damping, 30 * damping + 1e-6)

    drawn = jax.vmap(joint.random)(jax.random.split(jax.random.key(0), DRAWN - 1))
    starts = jnp.concatenate([joint.neutral()[None], drawn]).astype(dtype)
    turns = not isinstance(joint, TURNLESS)
    if turns:
        starts = jnp.concatenate([starts, jax.vmap(lambda q: _whole_turns(joint, relative, q))(starts)])
    far = jax.vmap(lambda q: off(joint, q, relative)[2])
    starts = starts[lax.top_k(-far(starts), STARTS)[1]]
    search = lambda q: lax.fori_loop(0, STEPS, improve, (q, jnp.asarray(1e-3, dtype)))[0]
    ends = jax.vmap(search)(starts)
    near = ends[jnp.argmin(far(ends))]
    # The minimum of d is not exactly where `Aᵀ d = 0` if d is not zero, and the derivatives are those of the latter.
    found = lax.fori_loop(
        0, NEWTON_STEPS, lambda _, q: joint.integrate(q, _newton(off, joint, relative, q)), near
    )
    return _whole_turns(joint, relative, found) if turns else found


def _whole_turns(joint, relative, q):
    """Returns q plus the number of full turns that leads nearest to the placement, or into (-π, π] if turns have no effect.

    After a full turn about a degree of freedom the joint has the same rotation; every further turn adds the same displacement.
    """
    tolerance = 1000 * jnp.finfo(q.dtype).eps

    def along(q, direction):
        here, there = joint.transform(q), joint.transform(joint.integrate(q, 2 * jnp.pi * direction))
        shift, left = there.position - here.position, relative.position - here.position
        same = jnp.max(jnp.abs(there.rotation - here.rotation)) < tolerance
        square, size = dot(shift, shift), 1 + jnp.max(jnp.abs(here.position))
        shifted = square > (tolerance * size) ** 2
        nearest = jnp.round(dot(left, shift) / jnp.where(shifted, square, 1))
        turned = dot(joint.difference(joint.neutral().astype(q.dtype), q), direction)
        first = -jnp.ceil(turned / (2 * jnp.pi) - 0.5)
        turns = jnp.where(same, jnp.where(shifted, nearest, first), 0)
        return jnp.where(turns == 0, q, joint.integrate(q, 2 * jnp.pi * turns * direction)), None

    return lax.scan(along, q, jnp.eye(joint.nv, dtype=q.dtype))[0]


def _equation(off, joint, relative, q, step):
    """Returns `Aᵀ d` a step away from q."""
    d, directions, _ = off(joint, joint.integrate(q, step), relative)
    return vecmat(d, directions)


def _newton(off, joint, relative, q, moved=None):
    """Returns the step that cancels a change of `Aᵀ d` at q; the default is a step to zero."""
    still = jnp.zeros(joint.nv, q.dtype)
    curvature = jax.jacfwd(lambda step: _equation(off, joint, relative, q, step))(still)
    # At a singularity the joint's motion is not determined. The ridge keeps the step finite.
    ridge = 100 * jnp.finfo(q.dtype).eps * jnp.trace(curvature) * identity_like(curvature)
    moved = _equation(off, joint, relative, q, still) if moved is None else moved
    return -jnp.linalg.solve(curvature + ridge, moved)


def _rule(off, primals, tangents):
    joint, relative = primals
    q = closest(off, joint, relative)
    still = jnp.zeros(joint.nv, q.dtype)

    # Usually few of the joint's parameters change, and differentiating a spline by all its parameters is slow.
    leaves, structure = jax.tree.flatten(primals)
    changes = jax.tree.leaves(tangents, is_leaf=_is_zero)
    moving = [i for i, change in enumerate(changes) if not _is_zero(change)]

    def of_moving(*values):
        replaced = list(leaves)
        for i, value in zip(moving, values, strict=True):
            replaced[i] = value
        joint, relative = jax.tree.unflatten(structure, replaced)
        return _equation(off, joint, relative, q, still)

    if not moving:
        return q, jnp.zeros_like(q)
    moved = jax.jvp(of_moving, [leaves[i] for i in moving], [changes[i] for i in moving])[1]
    step = _newton(off, joint, relative, q, moved)
    return q, jax.jvp(lambda step: joint.integrate(q, step), (still,), (step,))[1]


closest.defjvp(_rule, symbolic_zeros=True)


def _is_zero(x) -> bool:
    return isinstance(x, SymbolicZero)
