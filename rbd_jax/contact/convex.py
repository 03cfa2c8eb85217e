"""Laws of contact that are one convex problem in the acceleration."""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Literal, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.array import matmul, times, transpose, with_precision
from .._core.branches import only_if
from .._core.positive import Pattern
from ..constraints.closure import Closure, reduced_inertia
from ..constraints.evaluate import matrix_of
from ..dynamics import Motion
from ..dynamics.mass_matrix import composite_rigid_body
from ..model import Model
from .contacts import contacts_of, deepest, with_contacts
from .groups import Group, contact_groups, together
from .law import ContactLaw, Reaction
from .on_bodies import OnBodies
from .soft_rows import (
    Hold,
    Mobilities,
    Pushes,
    StopNumbers,
    contact_term,
    held_tendons,
    joint_rows,
    mobilities,
    near_enough,
    pushes,
    tendon_rows,
)
from .softness import stop_numbers
from .solvers.soft import Problem, Solution, solve_soft
from .solvers.terms import Skipped, Term


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
        """Returns the solution of the problem, or what the law makes of it."""
        return solve_soft(posed.problem(posed.pushes), guess)

    def prepared(self, model: Model) -> Prepared:
        return Prepared(mobilities(model), *stop_numbers(model))

    def reaction(self, motion, free, prepared, step=None, guess=None, within=None, phase=None):
        model, dtype = motion.model, motion.q.dtype
        own = with_precision(prepared, dtype)
        hold = self.hold(model, dtype, step)
        found = contacts_of(motion, self.most, self.pairs)
        ratio = self.impratio.astype(dtype)
        groups = contact_groups(motion, found, self.most)
        # Rows of contacts that are apart are neither computed nor searched.
        acts = [jnp.any(near_enough(group.contacts, hold)) for group in groups]
        others: list[Term] = []
        if self.limits or self.friction:
            others += joint_rows(motion, own.joints, own.give, hold, self.limits, self.friction)
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
        pattern = _pattern(model, groups) if within is None else None

        def problem(asked: tuple[Pushes, ...]) -> Problem:
            touching = [
                Skipped(only_if(act, partial(contact_term, group, push, self.cone, ratio)), act)
                for act, group, push in zip(acts, groups, asked)
            ]
            terms = _terms(motion, groups, touching) + others
            if within is not None:
                terms = [term.along(within.jacobian, within.bias) for term in terms]
            return Problem(inertia, acting, tuple(terms), pattern)

        held = tuple(
            only_if(act, partial(pushes, motion, group, own.give, hold)) for act, group in zip(acts, groups)
        )
        posed = Posed(motion, tuple(groups), held, hold, within, problem)
        solution = self.solved(posed, guess)
        # And not from the forces of the rows: those that hardly give way multiply the rounding of what they miss.
        force = times(inertia, solution.acceleration) - acting
        touching = together(groups, _forces(groups, solution.forces), found)
        if self.most is not None:
            touching = deepest(touching, self.most)
        return Reaction(
            force,
            replace(touching, force=None),
            touching.force,
            solution.acceleration,
            solution.steps,
            solution.converged,
        )


def _terms(motion: Motion, groups: list[Group], terms: list[Term]) -> list[Term]:
    """Returns the terms of groups of contacts as functions of the model's acceleration."""
    on_bodies = [(term, group.end) for group, term in zip(groups, terms) if group.end is not None]
    found = [term for group, term in zip(groups, terms) if group.end is None]
    if on_bodies:
        parts, ends = zip(*on_bodies)
        found.append(OnBodies.of(motion, parts, ends))
    return found


def _forces(groups: list[Group], forces: tuple) -> list[Array]:
    """Returns the forces of each group, from those of the terms of `_terms`."""
    apart = iter(forces)
    own = {k: next(apart) for k, group in enumerate(groups) if group.end is None}
    if len(own) < len(groups):
        on_bodies = iter(next(apart))
        own |= {k: next(on_bodies) for k, group in enumerate(groups) if group.end is not None}
    return [own[k] for k in range(len(groups))]


def _pattern(model: Model, groups: list[Group]) -> Pattern | None:
    """Returns where the Hessian may be other than zero; None if that can be everywhere."""
    if (
        model.constraints
        or held_tendons(model)
        or not model.topology.columns_are_v
        or any(group.end is None for group in groups)
    ):
        return None
    supports = model.topology.tree.supports
    return Pattern(supports | supports.T)


class Posed(NamedTuple):
    """What a law solves.

    - `motion`: the model in motion, `within` how it moves with a few variables, if it does.
    - `groups`, `pushes`: its contacts, and how they are held.
    - `hold`: how rows are held.
    - `problem`: the problem for given pushes.
    """

    motion: Motion
    groups: tuple[Group, ...]
    pushes: tuple[Pushes, ...]
    hold: Hold
    within: Closure | None
    problem: Callable[[tuple[Pushes, ...]], Problem]


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
