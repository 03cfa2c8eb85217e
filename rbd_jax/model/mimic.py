"""Mimic joints: their leaders, and the transfer of their coefficients to the leaders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from .._core.array import floating, is_known
from .._core.errors import ModelError, suggest


if TYPE_CHECKING:
    from .builder import Body


@dataclass(frozen=True)
class Mimic:
    """The coupling of a joint that follows another: `q = multiplier q_leader + offset`.

    >>> builder = rbd.ModelBuilder()
    >>> ball, hinge = rbd.Inertia.sphere(1.0, 0.1), rbd.joints.Revolute(axis=(0, 0, 1))
    >>> left = builder.add_body("left", joint=hinge, inertia=ball)
    >>> right = builder.add_body("right", joint=hinge, inertia=ball, mimic=rbd.Mimic("left", multiplier=-1.0))
    >>> model = builder.build()
    >>> print(model.nv, rbd.forward_kinematics(model, jnp.array([0.5])).rotation[:, 1, 0])
    1 [ 0.479 -0.479]
    """

    leader: str
    multiplier: Any = 1.0
    offset: Any = 0.0


class Ratio(NamedTuple):
    """The coupling of a mimic joint to a leader that mimics no other joint."""

    leader: str
    multiplier: Any
    offset: Any


def ratios(bodies: Sequence[Body], dtype) -> dict[str, Ratio]:
    """Returns the coupling of each mimic joint, by name, to the leader at the end of its chain."""
    by_joint = {body.joint_name: body for body in bodies}
    found: dict[str, Ratio] = {}
    for body in bodies:
        way: dict[str, Body] = {}
        while body.mimic is not None and body.joint_name not in found:
            way[body.joint_name] = body
            leader = body.mimic.leader
            if leader not in by_joint:
                raise ModelError(
                    f"joint {body.joint_name!r} mimics {leader!r}, which is no joint{suggest(leader, by_joint)}"
                )
            if leader in way:
                raise ModelError(f"joint {next(iter(way))!r} mimics itself, by way of {leader!r}")
            body = by_joint[leader]
        for name, mimicking in reversed(way.items()):
            leader, multiplier, offset = _own_ratio(mimicking, dtype)
            if above := found.get(leader):
                with np.errstate(over="ignore", invalid="ignore"):
                    leader, offset = above.leader, multiplier * above.offset + offset
                    multiplier = multiplier * above.multiplier
            for end in (mimicking, by_joint[leader]):
                if (end.joint.nq, end.joint.nv) != (1, 1):
                    raise ModelError(
                        f"joint {name!r} mimics {leader!r}, but joint {end.joint_name!r} has {end.joint.nv} degrees of "
                        "freedom; only joints with one can be coupled"
                    )
            for what, value in (("multiplier", multiplier), ("offset", offset)):
                if is_known(value) and not np.isfinite(value):
                    raise ModelError(
                        f"joint {name!r} mimics {leader!r} by way of others, and together their {what} is {value}, which is not "
                        "finite; make those of the chain smaller"
                    )
            found[name] = Ratio(leader, multiplier, offset)
    return found


def _own_ratio(body: Body, dtype) -> Ratio:
    """Returns the coupling of a joint to the leader that it names."""
    assert body.mimic is not None
    numbers = []
    for name in ("multiplier", "offset"):
        value = numbers_of(f"joint {body.joint_name!r}: its mimic's {name}", getattr(body.mimic, name))
        if value.shape != () or (is_known(value) and not np.isfinite(value)):
            raise ModelError(
                f"joint {body.joint_name!r}: its mimic's {name} is {value}; it must be one finite number"
            )
        numbers.append(array_module(value).asarray(value, dtype))
    return Ratio(body.mimic.leader, *numbers)


def absorbed(
    leaders: Mapping[str, Any],
    mimics: Mapping[str, Any],
    factor,
    offset,
    at: Mapping[str, np.ndarray],
    names: Sequence[str],
):
    """Returns the coefficients along the leaders, including the coefficients of the joints that mimic them.

    Damping, armature and stiffness act on the leader multiplied by the squared multiplier, Coulomb friction by its absolute
    value. The leader's limits are intersected with the limits of its mimic joints.

    Args:
      leaders: Coefficients along the leaders, by name.
      mimics: Coefficients along the mimic joints, by name.
      factor: Multiplier of each mimic joint.
      offset: Offset of each mimic joint.
      at: Index of each mimic joint's leader, for each name.
      names: Names of the mimic joints.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # the checks below reject the results
        total = _absorbed(leaders, mimics, factor, offset, at)
    for name in ("armature", "damping", "stiffness", "friction", "spring_reference"):
        own = total[name]
        for joint, entry in zip(names, at[name]):
            if is_known(own) and not np.isfinite(own[entry]):
                raise ModelError(
                    f"joint {joint!r} mimics another, which results in a {name.replace('_', ' ')} of {own[entry]} at its leader: "
                    "the multiplier is too large"
                )
    lower, upper = total["lower"], total["upper"]
    if is_known((lower, upper)):
        for joint, entry in zip(names, at["lower"]):
            low, high = float(lower[entry]), float(upper[entry])
            if not low <= high or low == np.inf or high == -np.inf:
                raise ModelError(
                    f"joint {joint!r} mimics another, and the limits of both exclude each other: at its leader, from {low:g} "
                    f"to {high:g}; change them, or the multiplier and offset"
                )
    return total


def _absorbed(leaders, mimics, factor, offset, at):
    xp = array_module([leaders, mimics, factor, offset])
    leaders, mimics = ({k: xp.asarray(x, factor.dtype) for k, x in own.items()} for own in (leaders, mimics))
    square = factor * factor
    total = {
        name: _at(xp, "add", leaders[name], at[name], weight * mimics[name])
        for name, weight in (
            ("armature", square),
            ("damping", square),
            ("stiffness", square),
            ("friction", xp.abs(factor)),
        )
    }
    # The combined rest position of springs on the same joint balances their moments.
    once, first, group = np.unique(at["stiffness"], return_index=True, return_inverse=True)
    there = at["spring_reference"][first]
    stiffness, reference = total["stiffness"][once], leaders["spring_reference"][there]
    rest = (mimics["spring_reference"] - offset) * factor
    pull = _at(xp, "add", leaders["stiffness"][once] * reference, group, mimics["stiffness"] * rest)
    reference = xp.where(stiffness > 0, pull / xp.where(stiffness > 0, stiffness, 1), reference)
    total["spring_reference"] = _at(xp, "set", leaders["spring_reference"], there, reference)
    # Exclude infinite limits from the division, whose derivative would be 0 * inf.
    limits = xp.stack([mimics["lower"], mimics["upper"]])
    factors = factor[None]
    finite = xp.isfinite(limits) & (factors != 0)
    ends = (xp.where(finite, limits, 0) - offset[None]) / xp.where(factors == 0, 1, factors)
    free = xp.asarray([[-np.inf], [np.inf]], factor.dtype)
    ends = xp.where(finite, ends, xp.where(factors < 0, free[::-1], free))
    total["lower"] = _at(xp, "max", leaders["lower"], at["lower"], xp.min(ends, axis=0))
    total["upper"] = _at(xp, "min", leaders["upper"], at["upper"], xp.max(ends, axis=0))

    return {**leaders, **total}


def _at(xp, operation: str, x, at: np.ndarray, values):
    """Returns `x` with some of its entries set to values, or combined with values by addition, maximum or minimum."""
    if xp is jnp:
        return getattr(x.at[at], operation)(values)
    x = x.copy()
    if operation == "set":
        x[at] = values
    else:
        {"add": np.add, "max": np.maximum, "min": np.minimum}[operation].at(x, at, values)
    return x


def numbers_of(what: str, value):
    """Converts a value to an array of floats: tracers to JAX arrays, all others to NumPy arrays."""
    if not is_known(value):
        return floating(value)
    try:
        return np.asarray(value, float)
    except (TypeError, ValueError, OverflowError):
        raise ModelError(f"{what} is {value!r}, which is not a number or an array of numbers") from None


def array_module(tree):
    """Returns NumPy for known values, which avoids compiling each small operation, and JAX for traced ones."""
    return np if is_known(tree) else jnp
