"""Laws of contact that are one convex problem in the acceleration."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Literal, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.array import gather_or_zero, matmul, times, transpose, with_precision
from ..constraints.closure import Closure, reduced_inertia
from ..constraints.evaluate import matrix_of
from ..dynamics import Motion
from ..dynamics.mass_matrix import composite_rigid_body
from ..model import Model
from .contacts import contacts_of, with_contacts
from .law import ContactLaw, Reaction
from .soft_rows import (
    Hold,
    Mobilities,
    Pushes,
    StopNumbers,
    contact_term,
    held_tendons,
    joint_rows,
    mobilities,
    pushes,
    tendon_rows,
)
from .softness import stop_numbers
from .solvers.soft import Problem, Solution, solve_soft
from .solvers.terms import Term


class ConvexLaw(ContactLaw):
    """All contacts, stops and dry friction as one convex problem in the acceleration: see `solve_soft`.

    - `cone`: of friction, `"pyramidal"` or `"elliptic"`.
    - `impratio`: how much stiffer friction is than the normal force.
    - `most`: so many contacts at most act at once, of each number of dimensions; None if all that there are.
    - `pairs`: so many pairs of shapes of each two kinds are looked at; None if all that there are.
    """

    fixed_axes = True

    cone: eqx.AbstractVar[Literal["pyramidal", "elliptic"]]
    impratio: eqx.AbstractVar[Float[Array, ""]]
    most: eqx.AbstractVar[int | None]
    pairs: eqx.AbstractVar[int | None]

    @abc.abstractmethod
    def hold(self, model: Model, dtype, step: Float[Array, ""] | None) -> Hold:
        """How rows are held over a step, if one is being made."""

    def placed(self, motion):
        return with_contacts(motion.computed("frames"), self.most, self.pairs)

    def lost(self, motion):
        bounded = self.most is not None or self.pairs is not None
        return contacts_of(motion, self.most, self.pairs).lost if bounded else None

    def solved(self, posed: Posed, guess: Float[Array, "n"] | None) -> Solution:
        """The solution of the problem, or what the law makes of it."""
        return solve_soft(posed.problem(posed.pushes), guess)

    def prepared(self, model: Model) -> Prepared:
        return Prepared(mobilities(model), *stop_numbers(model))

    def reaction(self, motion, free, prepared, step=None, guess=None, within=None, phase=None):
        model, dtype = motion.model, motion.q.dtype
        own = with_precision(prepared, dtype)
        hold = self.hold(model, dtype, step)
        found = contacts_of(motion, self.most, self.pairs)
        groups = {size: np.flatnonzero(np.array(found.condim) == size) for size in sorted(set(found.condim))}
        ratio = self.impratio.astype(dtype)
        others: list[Term] = []
        if self.limits or self.friction:
            others.append(joint_rows(motion, own.joints, own.give, hold, self.limits, self.friction))
            if held_tendons(model):
                others.append(tendon_rows(motion, own.tendons, own.give, hold, self.limits, self.friction))
        inertia = _held(motion)
        resisting = None if free.resisting is None or self.as_implicitfast else jnp.diag(free.resisting)
        if within is not None:
            inertia = reduced_inertia(motion, within.jacobian)
            if resisting is not None:
                resisting = matmul(transpose(within.jacobian), matmul(resisting, within.jacobian))
        acting = free.force(inertia)
        if resisting is not None:
            inertia = inertia + resisting

        def problem(asked: Pushes) -> Problem:
            touching = [
                contact_term(asked, found.friction, of, size, self.cone, ratio) for size, of in groups.items()
            ]
            terms = touching + others
            if within is not None:
                terms = [term.along(within.jacobian, within.bias) for term in terms]
            return Problem(inertia, acting, tuple(terms))

        posed = Posed(motion, pushes(motion, found, own.give, hold), hold, within, problem)
        solution = self.solved(posed, guess)
        # And not from the forces of the rows: those that hardly give way multiply the rounding of what they miss.
        force = times(inertia, solution.acceleration) - acting
        return Reaction(
            force,
            found,
            _in_order(len(found.condim), groups, solution.forces, dtype),
            solution.acceleration,
            solution.steps,
            solution.converged,
        )


class Posed(NamedTuple):
    """What a law is asked: the model in motion, what its contacts share, how they are held, how it moves with a few variables if
    it does, and the problem that comes of contacts, which may be asked for more than how they are held."""

    motion: Motion
    pushes: Pushes
    hold: Hold
    within: Closure | None
    problem: Callable[[Pushes], Problem]


class Prepared(eqx.Module):
    """What does not depend on the motion."""

    give: Mobilities
    joints: StopNumbers
    tendons: StopNumbers


#: What holds a model's hard constraints against the soft ones is heavier by this than what moves along them.
HOLD = 1e7


def _held(motion):
    """The inertia, which is large across what the model's constraints allow: no force of the law moves it there."""
    inertia = composite_rigid_body(motion)
    if not motion.model.constraints:
        return inertia
    g = matrix_of(motion).matrix
    heavy = HOLD if motion.q.dtype == jnp.float64 else HOLD**0.5
    weight = heavy * jnp.max(jnp.diagonal(inertia)) / jnp.maximum(jnp.sum(g**2, axis=1), 1e-12)
    return inertia + matmul(transpose(g), weight[:, None] * g)


def _in_order(count: int, groups: dict[int, np.ndarray], forces, dtype) -> Float[Array, "n 6"]:
    """The forces of all contacts in their order, from those of each size."""
    order = np.argsort(np.concatenate([np.zeros(0, int), *groups.values()]), kind="stable")
    padded = [
        jnp.pad(given[:, None] if size == 1 else given, ((0, 0), (0, 6 - size)))
        for size, given in zip(groups, forces)
    ]
    return gather_or_zero(jnp.concatenate([jnp.zeros((0, 6), dtype), *padded]), order)
