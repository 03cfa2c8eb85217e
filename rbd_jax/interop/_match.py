"""Functions shared by both maps: joints matched by name, index tables, and checks of arguments."""

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
    """Returns, for each joint of `model` with coordinates, the index of its body and the name of the matching joint.

    Args:
      model: The model of this library.
      theirs: The names of all joints with coordinates in the other model. Every one must have a match.
      names: Names in the other model, by names in `model`, where they differ.
      library: The name of the other library, for messages.
      split: Returns the names of a joint's parts in series, which the other model may have as separate joints.
    """
    names = dict(names or {})
    for joint in names:
        model.topology.joint_index(joint)  # raises an error for an unknown name
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
                f"joint {joint!r} of model {model.name!r} is not a joint of the {library} model"
                f"{suggest(other, theirs, by_name)}"
            )
        found.append((body, other))
    left = [name for name in theirs if name not in {other for _, other in found}]
    if left:
        raise ModelError(
            f"the joints {', '.join(map(repr, left))} of the {library} model have no counterpart with "
            f"independent coordinates in model {model.name!r}; build both from the same robot, with the same joints "
            "locked and coupled"
        )
    return found


def mismatch(model: Model, body: int, library: str, other: str) -> ModelError:
    """Returns the error for a joint of another type in the other model."""
    ours = type(model.joint(body)).__name__
    return ModelError(f"joint {model.joint_names[body]!r} is a {ours} here, but in {library} {other}")


def sample(method: str, name: str, value, size: int) -> Array:
    """Returns an argument as a float array, after checking its length."""
    return vector(method, name, value, size, f"it takes one sample, of length {size}")


def table(rows: Sequence[Any], width: int) -> np.ndarray:
    """Returns an index table with one row for each joint, also without joints."""
    return np.array([list(row) for row in rows], int).reshape(len(rows), width)


def inverse(order: np.ndarray) -> np.ndarray:
    """Returns the inverse permutation."""
    return np.argsort(order, kind="stable")


def put(x, entries: np.ndarray, rows):
    """Returns `x` with the entries of a table replaced, by a gather instead of a scatter."""
    if not entries.size:
        return x
    order = np.arange(len(x))
    order[entries.reshape(-1)] = len(x) + np.arange(entries.size)
    return jnp.concatenate([x, rows.reshape(-1)])[order]
