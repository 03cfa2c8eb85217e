"""Soft equality constraints, as rows of the convex contact problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import names, number
from .._core.array import gather, gather_or_zero, matvec, sum_rows, vecmat
from .._core.errors import ModelError
from ..constraints.evaluate import bias_of, matrix_of, motion_of_constraints, rate_of, residual_of
from ..dynamics import Motion
from ..dynamics.floating import turning_rates
from ..forces.tendon import Tendons, tendons_of
from ..lie import quaternion
from ..loops import Constraint
from ..loops.relative import RelativeConstraint
from ..model import Model
from ..spatial import Reference, no_frames
from ..spatial.attached import Attached
from .soft_rows import Hold, Mobilities, stiffness_of, tied_tendons
from .softness import SOLIMP, SOLREF
from .solvers.terms import Rows


class SoftEquality(Attached):
    """A constraint held by a spring and a damper, as MuJoCo holds the equality constraints of a file.

    The contact model `rbd.contact.Soft` computes its force together with the contact forces. Under `rbd.contact.Rigid` the
    constraint holds at the end of each step. Other contact models do not support it.

    Args:
      constraint: A constraint on positions, such as `rbd.constraints.Connect` or `rbd.constraints.CoordinateCoupling`.
      solref: MuJoCo's `solref`: time constant and damping ratio, or negative stiffness and damping.
      solimp: MuJoCo's `solimp`.

    >>> coupling = rbd.constraints.CoordinateCoupling({"elbow": (0.0, 1.0), "shoulder": (0.0, -1.0)})
    >>> tie = rbd.contact.SoftEquality(coupling, solref=(0.01, 1.0))
    >>> model = rbd.attach(rbd.load("double_pendulum"), tie, rbd.contact.Soft())
    >>> path = rbd.rollout(model, rbd.State(jnp.array([0.5, 0.5]), jnp.zeros(2)), dt=0.005, steps=40)
    >>> print(jnp.max(jnp.abs(path.q[:, 0] - path.q[:, 1])) < 0.01)
    True
    """

    constraint: Constraint
    solref: Float[Array, "2"]
    solimp: Float[Array, "5"]

    role = "soft equality"

    def __init__(self, constraint: Constraint, *, solref: Any = SOLREF, solimp: Any = SOLIMP):
        if not isinstance(constraint, Constraint):
            raise ModelError(
                f"SoftEquality: constraint is a {type(constraint).__name__}; pass a constraint such as rbd.constraints.Connect"
            )
        if not all(constraint.holonomic):
            raise ModelError(
                f"SoftEquality: {constraint.label} constrains velocities alone; pass a constraint on positions"
            )
        self.constraint = constraint
        self.solref, self.solimp = _numbers("SoftEquality", solref, solimp)

    @property
    def bodies(self):
        return self.constraint.bodies

    @property
    def frames(self):
        return self.constraint.frames

    @property
    def joints(self):
        return self.constraint.joints

    @property
    def name(self):
        return self.constraint.name

    @property
    def rheonomic(self):
        return self.constraint.rheonomic

    @property
    def scalar_joints(self):
        return self.constraint.scalar_joints

    def at_time(self, time):
        return self.changed(constraint=self.constraint.at_time(time))

    def fault(self, carriers):
        return self.constraint.fault(carriers)

    def joint_fault(self, joint, nq, nv):
        return self.constraint.joint_fault(joint, nq, nv)

    def doubt(self, loop):
        return self.constraint.doubt(loop)

    def attached(self, bodies, frames, joints):
        return self.changed(constraint=self.constraint.attached(bodies, frames, joints))

    def called(self, name, refers):
        return self.changed(constraint=self.constraint.called(name, refers))

    def locked(self, joints):
        left = self.constraint.locked(joints)
        return None if left is None else self.changed(constraint=left)


class SoftTendonEquality(Attached):
    """`y - y₀ = p(x - x₀)` between the lengths of two tendons, held by a spring and a damper; see `SoftEquality`.

    Args:
      tendons: The names of the tendons of y and x. With one name, x is x₀.
      rest: The lengths y₀ and x₀, one per tendon.
      polynomial: The five coefficients of p, the constant first.
      solref: MuJoCo's `solref`.
      solimp: MuJoCo's `solimp`.

    >>> tendon = rbd.forces.FixedTendon("sum", {"shoulder": 1.0, "elbow": 1.0})
    >>> tie = rbd.contact.SoftTendonEquality(["sum"], [0.0])
    >>> model = rbd.attach(rbd.load("double_pendulum"), tendon, tie, rbd.contact.Soft())
    >>> path = rbd.rollout(model, rbd.State(jnp.array([0.5, -0.5]), jnp.zeros(2)), dt=0.005, steps=40)
    >>> print(jnp.max(jnp.abs(path.q.sum(axis=1))) < 0.01)
    True
    """

    tendons: tuple[str, ...] = eqx.field(static=True)
    rest: Float[Array, "t"]
    polynomial: Float[Array, "5"]
    solref: Float[Array, "2"]
    solimp: Float[Array, "5"]

    role = "soft equality"
    bodies = ()
    joints = ()

    def __init__(
        self,
        tendons: str | Sequence[str],
        rest: Any,
        polynomial: Any = (0.0, 1.0, 0.0, 0.0, 0.0),
        *,
        solref: Any = SOLREF,
        solimp: Any = SOLIMP,
    ):
        self.tendons = names("SoftTendonEquality", "tendons", tendons)
        if len(self.tendons) not in (1, 2):
            raise ModelError(f"SoftTendonEquality: tendons has {len(self.tendons)} names; pass one or two")
        self.rest = number("SoftTendonEquality", "rest", rest, (len(self.tendons),))
        self.polynomial = number("SoftTendonEquality", "polynomial", polynomial, (5,))
        self.solref, self.solimp = _numbers("SoftTendonEquality", solref, solimp)

    @property
    def frames(self):
        return no_frames()

    @property
    def label(self):
        return f"SoftTendonEquality({', '.join(map(repr, self.tendons))})"

    @property
    def refers(self):
        return tuple(Reference("tendon", name) for name in self.tendons)

    def attached(self, bodies, frames, joints):
        return self

    def called(self, name, refers):
        return self.changed(tendons=tuple(one.name for one in refers))

    def lengths_in_reference(self, model: Model) -> Float[Array, "t"]:
        """Returns the lengths of the tendons in the reference configuration of a model."""
        known = {tendon.name: tendon for tendon in tendons_of(model)}
        return Tendons(Motion(model, model.reference), [known[name] for name in self.tendons]).lengths

    def residual(self, lengths: Float[Array, "t"]) -> tuple[Float[Array, ""], Float[Array, "t"]]:
        """Returns the residual and its derivatives by the lengths."""
        away = lengths - self.rest
        if len(self.tendons) == 1:
            return away[0] - self.polynomial[0], jnp.ones_like(away)
        value, slope = jnp.zeros_like(away[1]), jnp.zeros_like(away[1])
        for coefficient in self.polynomial[::-1]:
            slope = value + away[1] * slope
            value = coefficient + away[1] * value
        return away[0] - value, jnp.stack([jnp.ones_like(slope), -slope])


class QuaternionWeld(RelativeConstraint):
    """Two frames that coincide, with MuJoCo's residual: a displacement, and `torquescale` times the vector part of a quaternion.

    Args:
      body_a, frame_a: The first body and the frame on it.
      body_b, frame_b: The second body and the frame on it.
      torquescale: The weight of rotations, in meters.

    >>> weld = rbd.contact.QuaternionWeld("world", None, "lower", None, 0.5)
    >>> print(rbd.constraint_residual(rbd.add_constraints(rbd.load("double_pendulum"), weld), jnp.array([0.2, 0.0])))
    [-0.199  0.    -0.98   0.     0.05   0.   ]
    """

    torquescale: Float[Array, ""]

    rows = 6
    meets = True
    angles = (False,) * 3 + (True,) * 3

    def __init__(self, body_a: str, frame_a, body_b: str, frame_b, torquescale: Any = 1.0):
        self.attach(body_a, frame_a, body_b, frame_b)
        self.torquescale = number("QuaternionWeld", "torquescale", torquescale)

    def deviation(self, relative):
        turned = quaternion.from_matrix(relative.rotation)
        return jnp.concatenate([relative.position, self.torquescale * turned[1:]])


def _numbers(owner: str, solref: Any, solimp: Any) -> tuple[Array, Array]:
    return number(owner, "solref", solref, (2,)), number(owner, "solimp", solimp, (5,))


def soft_equalities(model: Model) -> tuple[Attached, ...]:
    """Returns the soft equality constraints of a model."""
    return model.attached_as("soft equality")


def equality_rows(motion: Motion, mobilities: Mobilities, hold: Hold) -> list[Rows]:
    """Returns the term of the soft equality constraints, or nothing if the model has none."""
    own = [one for one in soft_equalities(motion.model) if isinstance(one, SoftEquality)]
    tied = [one for one in soft_equalities(motion.model) if isinstance(one, SoftTendonEquality)]
    if not own and not tied:
        return []
    parts = [
        *([_of_constraints(motion, own, mobilities)] if own else []),
        *([_of_tendons(motion, tied, mobilities)] if tied else []),
    ]
    residual, rate, drift, jacobian, give = (jnp.concatenate(x) for x in zip(*parts))
    sizes = [*(one.constraint.rows for one in own), *[1] * len(tied)]
    owners = np.repeat(np.arange(len(sizes)), sizes)
    every = [*own, *tied]
    solref, solimp = (jnp.stack([getattr(one, key) for one in every]) for key in ("solref", "solimp"))
    # The impedance of all rows of a constraint depends on the norm of its residual.
    size = _norms(residual, owners, len(sizes))
    soft = hold.softness(gather(size, owners), gather(solref, owners), gather(solimp, owners))
    wanted = -soft.damping * rate - soft.stiffness * soft.impedance * residual
    stiffness = stiffness_of(give, soft.impedance, jnp.ones_like(give, bool))
    ends = jnp.full_like(wanted, jnp.inf)
    return [Rows(jacobian, wanted - drift, stiffness, -ends, ends)]


def _norms(x: Float[Array, "m"], owners: np.ndarray, count: int) -> Float[Array, "c"]:
    """Returns the norm of the entries of each owner, with a zero derivative at zero."""
    square = sum_rows(x**2, owners, count)
    some = square > 0
    return jnp.where(some, jnp.sqrt(jnp.where(some, square, 1)), 0)


def _of_constraints(motion: Motion, own: list[SoftEquality], mobilities: Mobilities):
    model, give = motion.model, []
    moving = motion_of_constraints(motion, [one.constraint for one in own])
    for one in own:
        bodies = np.array([-1 if body == "world" else model.body_index(body) for body in one.bodies], int)
        across = jnp.sum(gather_or_zero(mobilities.bodies, bodies), axis=0)
        dofs = [int(model.topology.joint_v(model.topology.joint_index(joint))[0]) for joint in one.joints]
        along = jnp.sum(gather(mobilities.dof, np.array(dofs, int)))
        for is_angle in one.constraint.angles:
            give.append(across[int(is_angle)] if one.bodies else along)
    jacobian = matrix_of(moving).matrix
    # MuJoCo leaves out the Coriolis terms of couplings of coordinates.
    coupled = np.concatenate([[not one.bodies] * one.constraint.rows for one in own])
    drift = jnp.where(coupled, matvec(jacobian, turning_rates(motion)), bias_of(moving))
    return residual_of(moving), rate_of(moving), drift, jacobian, jnp.stack(give)


def _of_tendons(motion: Motion, tied: list[SoftTendonEquality], mobilities: Mobilities):
    tendons = Tendons(motion, tied_tendons(motion.model))
    lengths, rates, moments = tendons.lengths, tendons.rates, tendons.moments
    ends = np.cumsum([0, *(len(one.tendons) for one in tied)])
    parts = []
    for one, begin, end in zip(tied, ends, ends[1:]):
        residual, slopes = one.residual(lengths[begin:end])
        row = vecmat(slopes, moments[begin:end])
        rate, give = jnp.sum(slopes * rates[begin:end]), jnp.sum(mobilities.tied[begin:end])
        parts.append((residual, rate, jnp.sum(row * turning_rates(motion)), row, give))
    return tuple(jnp.stack(x) for x in zip(*parts))
