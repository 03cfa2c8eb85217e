"""Soft contact as MuJoCo has it."""

from __future__ import annotations

from typing import Any, Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._arguments import choice, names, number, whole_number
from .._array import gather_or_zero, matmul, transpose, with_precision
from .._errors import ModelError
from ..constraints.closure import reduced_inertia
from ..constraints.evaluate import matrix_of
from ..dynamics.mass_matrix import composite_rigid_body
from ..model import Model
from ..spatial import Attached, Reference, no_frames
from .contacts import contacts_of
from .law import ContactLaw, Reaction
from .soft_rows import (
    Mobilities,
    StopNumbers,
    contact_term,
    held_tendons,
    joint_rows,
    mobilities,
    pushes,
    tendon_rows,
)
from .solvers.soft import Problem, solve_soft


#: MuJoCo's numbers where nothing is said.
SOLREF, SOLIMP = (0.02, 1.0), (0.9, 0.95, 0.001, 0.5, 2.0)


class Soft(ContactLaw):
    """MuJoCo's contact: all contacts, stops and dry friction of joints and tendons as one convex problem in the acceleration.

    Each of them is a spring and a damper towards the acceleration that it should have, as stiff as `solref` and `solimp` of
    the shapes (and `rbd.contact.Softness` of joints and tendons) say. The problem always has one solution; see `solve_soft`.
    An MJCF file thus moves here as it moves there.

    - `cone`: of friction, `"pyramidal"` or `"elliptic"`.
    - `impratio`: how much stiffer friction is than the normal force.
    - `most`: so many contacts at most act at once (of each number of dimensions), the deepest; the fewer, the faster a step. By
      default all that there are. More than that are told: `Result.CONTACTS_LOST`, `Contacts.lost`.
    - `limits`, `friction`: whether the law takes the stops of joints and tendons, and their dry friction. Without it, stops of
      joints are left to `rbd.forces.JointLimit`, and their friction to the scheme.

    Constraints of the model stay hard.
    """

    as_implicitfast = True

    cone: Literal["pyramidal", "elliptic"] = eqx.field(static=True)
    impratio: Float[Array, ""]
    limits: bool = eqx.field(static=True)
    friction: bool = eqx.field(static=True)
    most: int | None = eqx.field(static=True)

    def __init__(
        self,
        cone: Literal["pyramidal", "elliptic"] = "pyramidal",
        impratio: Any = 1.0,
        *,
        limits: bool = True,
        friction: bool = True,
        most: int | None = None,
    ):
        self.cone = choice("Soft", "cone", cone, ("pyramidal", "elliptic"))  # pyright: ignore[reportAttributeAccessIssue]
        self.impratio = number("Soft", "impratio", impratio, above=0)
        self.limits, self.friction = bool(limits), bool(friction)
        self.most = None if most is None else whole_number("Soft", "most", most)

    def lost(self, motion):
        return None if self.most is None else contacts_of(motion, self.most).lost

    def prepared(self, model: Model) -> _Prepared:
        return _Prepared(mobilities(model), *self._numbers(model))

    def reaction(self, motion, free, prepared, step=None, guess=None, within=None):
        model, dtype = motion.model, motion.q.dtype
        own = with_precision(prepared, dtype)
        timestep = step if step is not None else model.settings.timestep
        # A time constant of less than two steps would not be followed.
        least_time = jnp.asarray(0 if timestep is None else 2 * timestep, dtype)
        found = contacts_of(motion, self.most)
        all_rows = pushes(motion, found, own.give, least_time)
        groups = {size: np.flatnonzero(np.array(found.condim) == size) for size in sorted(set(found.condim))}
        ratio = self.impratio.astype(dtype)
        terms = [
            contact_term(all_rows, found.friction, of, size, self.cone, ratio) for size, of in groups.items()
        ]
        if self.limits or self.friction:
            terms.append(joint_rows(motion, own.joints, own.give, least_time, self.limits, self.friction))
            if held_tendons(model):
                terms.append(
                    tendon_rows(motion, own.tendons, own.give, least_time, self.limits, self.friction)
                )
        inertia = _held(motion)
        if within is not None:
            inertia = reduced_inertia(motion, within.jacobian)
            terms = [term.along(within.jacobian, within.bias) for term in terms]
        acting = free.force(inertia)
        solution = solve_soft(Problem(inertia, acting, tuple(terms)), guess)
        force = sum(
            (term.pushed(given) for term, given in zip(terms, solution.forces)), jnp.zeros_like(acting)
        )
        return Reaction(
            force,
            found,
            _in_order(len(found.condim), groups, solution.forces, dtype),
            solution.acceleration,
            solution.steps,
            solution.converged,
        )

    def _numbers(self, model: Model) -> tuple[StopNumbers, StopNumbers]:
        """Of each degree of freedom, and of each tendon that is held."""
        names = [tendon.name for tendon in held_tendons(model)]
        joints, tendons = _usual(model.nv, model.dtype), _usual(len(names), model.dtype)
        things: tuple[Softness, ...] = model.attached_as("softness")  # pyright: ignore[reportAssignmentType]
        for thing in things:
            if thing.joint is None:
                tendons = thing.over(tendons, np.array(names) == thing.tendon)
                continue
            own = np.zeros(model.nv, bool)
            if not model.topology.is_mimic[model.topology.joint_index(thing.joint)]:
                own[model.v_slice(thing.joint)] = True
            joints = thing.over(joints, own)
        return joints, tendons


def _usual(count: int, dtype) -> StopNumbers:
    """Of so many of which nothing is said."""
    limit, friction = [0.0, *SOLREF, *SOLIMP], [*SOLREF, *SOLIMP]
    return StopNumbers(*(jnp.asarray(np.broadcast_to(x, (count, len(x))), dtype) for x in (limit, friction)))


class _Prepared(eqx.Module):
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


class Softness(Attached):
    """How soft the stops and the dry friction of a joint, or of a tendon, are under `rbd.contact.Soft`, in MuJoCo's numbers.

    - `joint`, or `tendon`: its name.
    - `solref`, `solimp`, `margin`: of its stops.
    - `friction_solref`, `friction_solimp`: of its friction.
    """

    joint: str | None = eqx.field(static=True)
    tendon: str | None = eqx.field(static=True)
    limit: Float[Array, "8"]
    rubbing: Float[Array, "7"]

    role = "softness"
    scalar_joints = False
    bodies = ()

    def __init__(
        self,
        joint: str | None = None,
        *,
        tendon: str | None = None,
        solref: Any = SOLREF,
        solimp: Any = SOLIMP,
        margin: Any = 0.0,
        friction_solref: Any = SOLREF,
        friction_solimp: Any = SOLIMP,
    ):
        if (joint is None) == (tendon is None):
            raise ModelError("Softness: it is of a joint or of a tendon; give the name of one of them")
        kind, of = ("joint", joint) if tendon is None else ("tendon", tendon)
        names("Softness", kind, of, 1)
        self.joint, self.tendon = joint, tendon
        owner = f"Softness of {of!r}"
        sizes = {"solref": (2,), "solimp": (5,), "margin": (1,)}
        of_limit = {"margin": np.atleast_1d(margin), "solref": solref, "solimp": solimp}
        of_friction = {"solref": friction_solref, "solimp": friction_solimp}
        self.limit = jnp.concatenate(
            [jnp.asarray(number(owner, key, value, sizes[key])) for key, value in of_limit.items()]
        )
        self.rubbing = jnp.concatenate(
            [
                jnp.asarray(number(owner, f"friction_{key}", value, sizes[key]))
                for key, value in of_friction.items()
            ]
        )

    @property
    def usual(self) -> bool:
        """Whether it says what holds anyway."""
        limit, friction = [0.0, *SOLREF, *SOLIMP], [*SOLREF, *SOLIMP]
        return np.array_equal(self.limit, limit) and np.array_equal(self.rubbing, friction)

    def over(self, numbers: StopNumbers, own: np.ndarray) -> StopNumbers:
        """These numbers, with what is said here for some of them."""
        chosen = own[:, None]
        return StopNumbers(
            jnp.where(chosen, self.limit, numbers.limit), jnp.where(chosen, self.rubbing, numbers.friction)
        )

    @property
    def joints(self):
        return () if self.joint is None else (self.joint,)

    @property
    def frames(self):
        return no_frames()

    @property
    def refers(self):
        return () if self.tendon is None else (Reference("tendon", self.tendon),)

    def attached(self, bodies, frames, joints):
        return self.changed(joint=joints[0]) if joints else self

    def called(self, name, refers):
        return self.changed(tendon=refers[0].name) if refers else self

    def locked(self, joints):
        return None
