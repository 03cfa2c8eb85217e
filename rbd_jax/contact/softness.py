"""Softness of the limits and the dry friction of joints and tendons."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import names, number
from .._core.array import by_numpy
from .._core.errors import ModelError
from ..model import Model
from ..spatial import Reference, no_frames
from ..spatial.attached import Attached
from .soft_rows import StopNumbers, held_tendons


#: MuJoCo's default parameters.
SOLREF, SOLIMP = (0.02, 1.0), (0.9, 0.95, 0.001, 0.5, 2.0)


class Softness(Attached):
    """MuJoCo's softness parameters for the limits and the dry friction of a joint or a tendon, under `rbd.contact.Soft`.

    - `joint`: the name of the joint.
    - `tendon`: the name of the tendon, instead of a joint.
    - `solref`, `solimp`, `margin`: the parameters of the limits.
    - `friction_solref`, `friction_solimp`: the parameters of the dry friction.

    >>> soft_stop = rbd.contact.Softness("swing", solref=(0.1, 1.0))
    >>> model = rbd.attach(rbd.load("pendulum"), soft_stop)
    >>> print(model.attached_as("softness")[0].joint)
    swing
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
            raise ModelError("Softness: pass either a joint or a tendon")
        kind, of = ("joint", joint) if tendon is None else ("tendon", tendon)
        names("Softness", kind, of, 1)
        self.joint, self.tendon = joint, tendon
        owner = f"Softness of {of!r}"
        sizes = {"solref": (2,), "solimp": (5,), "margin": (1,)}
        of_limit = {"margin": np.atleast_1d(margin), "solref": solref, "solimp": solimp}
        of_friction = {"solref": friction_solref, "solimp": friction_solimp}
        row = lambda xp, *values: xp.concatenate(values)
        self.limit = by_numpy(
            row, *(number(owner, key, value, sizes[key]) for key, value in of_limit.items())
        )
        self.rubbing = by_numpy(
            row,
            *(number(owner, f"friction_{key}", value, sizes[key]) for key, value in of_friction.items()),
        )

    @property
    def usual(self) -> bool:
        """True if all parameters have their default values."""
        limit, friction = [0.0, *SOLREF, *SOLIMP], [*SOLREF, *SOLIMP]
        return np.array_equal(self.limit, limit) and np.array_equal(self.rubbing, friction)

    def over(self, numbers: StopNumbers, own: np.ndarray) -> StopNumbers:
        """Returns the parameters, with those of the rows selected by `own` replaced."""
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


def stop_numbers(model: Model) -> tuple[StopNumbers, StopNumbers]:
    """Returns the softness parameters of each degree of freedom, and of each tendon with limits or dry friction."""
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
    """Returns the default parameters for `count` rows."""
    limit, friction = [0.0, *SOLREF, *SOLIMP], [*SOLREF, *SOLIMP]
    return StopNumbers(*(jnp.asarray(np.broadcast_to(x, (count, len(x))), dtype) for x in (limit, friction)))
