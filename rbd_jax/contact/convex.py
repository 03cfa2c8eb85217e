"""Contact models that solve one convex problem in the acceleration."""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import replace
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.array import matmul, times, transpose, with_precision
from .._core.positive import Pattern
from ..constraints.closure import Closure, reduced_inertia
from ..constraints.evaluate import matrix_of
from ..dynamics import Motion
from ..dynamics.mass_matrix import composite_rigid_body
from ..model import Model
from .contacts import contacts_of, deepest, with_contacts
from .equality import equality_rows, soft_equalities
from .groups import Groups, contact_groups, together
from .law import ContactLaw, Reaction
from .on_bodies import OnBodies
from .soft_rows import (
    HeldContacts,
    Hold,
    Mobilities,
    Pushes,
    StopNumbers,
    held_tendons,
    joint_rows,
    mobilities,
    tendon_rows,
)
from .softness import stop_numbers
from .solvers.soft import Problem, Solution, solve_soft
from .solvers.terms import Skipped, Term


class ConvexLaw(ContactLaw):
    """Base class of contact models with contacts, limits and dry friction as one convex problem; see `solve_soft`.

    - `cone`: the friction cone, `"pyramidal"` or `"elliptic"`.
    - `impratio`: the ratio of frictional to normal stiffness.
    - `most`: the maximum number of contacts that act at once, for each `condim`; None for no limit.
    - `pairs`: the maximum number of tested pairs of shapes, for each pair of geometry types; None for no limit.
    """

    fixed_axes = True
    holds_equalities = True

    cone: eqx.AbstractVar[Literal["pyramidal", "elliptic"]]
    impratio: eqx.AbstractVar[Float[Array, ""]]
    most: eqx.AbstractVar[int | None]
    pairs: eqx.AbstractVar[int | None]

    @abc.abstractmethod
    def hold(self, model: Model, dtype, step: Float[Array, ""] | None) -> Hold:
        """Returns the rule for reference accelerations and stiffness. `step` is the time step; None outside of a step."""

    def placed(self, motion):
        return with_contacts(motion.computed("frames"), self.most, self.pairs)

    def lost(self, motion):
        bounded = self.most is not None or self.pairs is not None
        return contacts_of(motion, self.most, self.pairs).lost if bounded else None

    def solved(self, posed: Posed, guess: Float[Array, "n"] | None) -> Solution:
        """Returns the solution of the problem. Subclasses may modify it."""
        return solve_soft(posed.problem(), guess)

    def prepared(self, model: Model) -> Prepared:
        return Prepared(mobilities(model), *stop_numbers(model))

    def reaction(self, motion, free, prepared, step=None, guess=None, within=None, phase=None):
        model, dtype = motion.model, motion.q.dtype
        own = with_precision(prepared, dtype)
        hold = self.hold(model, dtype, step)
        found = contacts_of(motion, self.most, self.pairs)
        ratio = self.impratio.astype(dtype)
        groups = contact_groups(motion, found, self.most)
        touching = [HeldContacts(motion, group, own.give, hold) for group in groups]
        others: list[Term] = []
        if self.limits or self.friction:
            others += joint_rows(motion, own.joints, own.give, hold, self.limits, self.friction)
            if held_tendons(model):
                others.append(tendon_rows(motion, own.tendons, own.give, hold, self.limits, self.friction))
        others += equality_rows(motion, own.give, hold)
        inertia = _held(motion)
        resisting = None if free.resisting is None or self.as_implicitfast else jnp.diag(free.resisting)
        if within is not None:
            inertia = reduced_inertia(motion, within.jacobian)
            if resisting is not None:
                resisting = matmul(transpose(within.jacobian), matmul(resisting, within.jacobian))
        acting = free.force(inertia)
        if resisting is not None:
            inertia = inertia + resisting
        pattern = _pattern(model) if within is None else None
        coupling = [jnp.any(one.acts) for one in touching if one.groups.ends is None]
        couples = jnp.any(jnp.stack(coupling)) if coupling else None

        def problem(change: Callable[[Pushes], Pushes] = lambda own: own) -> Problem:
            held = [one.term(change, self.cone, ratio) for one in touching]
            terms = _terms(motion, groups, held) + others
            if within is not None:
                terms = [term.along(within.jacobian, within.bias) for term in terms]
            return Problem(inertia, acting, tuple(terms), pattern, couples if pattern else None)

        posed = Posed(motion, tuple(touching), hold, within, problem)
        solution = self.solved(posed, guess)
        # This does not sum the forces of the rows, because nearly rigid rows amplify the rounding errors of their residuals.
        force = times(inertia, solution.acceleration) - acting
        pushed = together(groups, _forces(groups, solution.forces), found)
        if self.most is not None:
            pushed = deepest(pushed, self.most)
        forces = pushed.force
        assert forces is not None
        return Reaction(
            force,
            replace(pushed, force=None),
            forces,
            solution.acceleration,
            solution.steps,
            solution.converged,
        )


def _terms(motion: Motion, groups: list[Groups], terms: list[Skipped]) -> list[Term]:
    """Returns the terms of groups of contacts as functions of the model's acceleration."""
    found: list[Term] = [
        jax.tree.map(lambda leaf: leaf[0], term) for group, term in zip(groups, terms) if group.ends is None
    ]
    own = [(term, tuple(group.ends.tolist())) for group, term in zip(groups, terms) if group.ends is not None]
    return [*found, OnBodies.of(motion, *zip(*own))] if own else found


def _forces(groups: list[Groups], forces: tuple) -> list[Array]:
    """Returns the forces of each group of contacts, given the forces of the terms that `_terms` returned.

    `contact_groups` lists the groups of bodies last.
    """
    alone = sum(group.ends is None for group in groups)
    return [*(force[None] for force in forces[:alone]), *(forces[alone] if alone < len(groups) else ())]


def _pattern(model: Model) -> Pattern | None:
    """Returns the sparsity pattern of the Hessian without contacts between moving bodies; None if it is dense."""
    if model.constraints or held_tendons(model) or soft_equalities(model) or not model.topology.columns_are_v:
        return None
    supports = model.topology.tree.supports
    return Pattern(supports | supports.T)


class Posed(NamedTuple):
    """The input of `ConvexLaw.solved`.

    - `motion`: the model in motion.
    - `touching`: its contacts.
    - `hold`: the rule for reference accelerations and stiffness.
    - `within`: the map from a few independent variables to the model's velocities, if any.
    - `problem`: returns the problem. An optional argument is a function that modifies the `Pushes` of contacts.
    """

    motion: Motion
    touching: tuple[HeldContacts, ...]
    hold: Hold
    within: Closure | None
    problem: Callable[..., Problem]


class Prepared(eqx.Module):
    """Quantities that do not depend on the motion."""

    give: Mobilities
    joints: StopNumbers
    tendons: StopNumbers


#: Ratio of the inertia across the hard constraints of a model to its largest inertia.
HOLD = 1e7


def _held(motion):
    """Returns the inertia, made large across the hard constraints, so that contact forces do not violate them."""
    inertia = composite_rigid_body(motion)
    if not motion.model.constraints:
        return inertia
    g = matrix_of(motion).matrix
    heavy = HOLD if motion.q.dtype == jnp.float64 else HOLD**0.5
    weight = heavy * jnp.max(jnp.diagonal(inertia)) / jnp.maximum(jnp.sum(g**2, axis=1), 1e-12)
    return inertia + matmul(transpose(g), weight[:, None] * g)
