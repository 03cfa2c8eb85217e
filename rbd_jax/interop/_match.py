"""What the two maps share: pairs of joints by name, entries as tables, and checks of what is handed in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._core.arguments import vector
from .._core.errors import ModelError, suggest
from ..model import Model


def pairs(
    model: Model,
    theirs: Sequence[str],
    names: Mapping[str, str] | None,
    library: str,
    split: Callable[[int], Sequence[str]] = lambda body: (),
) -> list[tuple[int, str]]:
    """For each joint of ours that has coordinates: the body it attaches, and the name of the joint there that it
    is.

    - `theirs`: the names of all joints there that have coordinates; every one of them must be met.
    - `split`: of the joint of a body, the names of those that it is in series, where it may be several there.
    """
    names = dict(names or {})
    for joint in names:
        model.topology.joint_index(joint)  # refuses an unknown name
    found = []
    for body, joint in enumerate(model.joint_names):
        topology = model.topology
        if not topology.joint_nv[body] or topology.is_mimic[body]:
            continue
        other = names.get(joint, joint)
        several = split(body) if other not in theirs else ()
        if several and all(one in theirs for one in several):
            found += [(body, one) for one in several]
            continue
        if other not in theirs:
            by_name = "Joints are matched by name; names={'ours': 'theirs'} matches those that differ"
            raise ModelError(
                f"joint {joint!r} of model {model.name!r} is no joint of the {library} model"
                f"{suggest(other, theirs, by_name)}"
            )
        found.append((body, other))
    left = [name for name in theirs if name not in {other for _, other in found}]
    if left:
        raise ModelError(
            f"the joints {', '.join(map(repr, left))} of the {library} model have no counterpart with "
            f"coordinates of its own in model {model.name!r}; build both of the same robot, with the same joints "
            "locked and coupled"
        )
    return found


def mismatch(model: Model, body: int, library: str, other: str) -> ModelError:
    """The error for a joint that is of another type there."""
    ours = type(model.joint(body)).__name__
    return ModelError(f"joint {model.joint_names[body]!r} is a {ours} here, but in {library} {other}")


def sample(method: str, name: str, value, size: int) -> Array:
    """The argument of a method as a float array of the length it must have."""
    return vector(method, name, value, size, f"it takes one sample, of length {size}")


def table(rows: Sequence[Any], width: int) -> np.ndarray:
    """Index tables with one row for each joint, also for no joint at all."""
    return np.array([list(row) for row in rows], int).reshape(len(rows), width)


def inverse(order: np.ndarray) -> np.ndarray:
    """The permutation that undoes one."""
    return np.argsort(order, kind="stable")


def put(x, entries: np.ndarray, rows):
    """`x` with the entries of a table replaced: by a gather, never a scatter."""
    if not entries.size:
        return x
    order = np.arange(len(x))
    order[entries.reshape(-1)] = len(x) + np.arange(entries.size)
    return jnp.concatenate([x, rows.reshape(-1)])[order]
