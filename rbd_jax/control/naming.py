"""Names of the entries of a state, for messages."""

from __future__ import annotations

import numpy as np

from ..model import Model
from ..simulate import Simulated


def dof_names(model: Simulated) -> tuple[str, ...]:
    """Returns a name for each degree of freedom: its joint, with an index if the joint has several; or a variable."""
    return _names(model, "v", "")


def configuration_names(model: Simulated) -> tuple[str, ...]:
    """Returns a name for each entry of a configuration, in the same way."""
    return _names(model, "q", " q")


def _names(model: Simulated, of: str, mark: str) -> tuple[str, ...]:
    size = model.nv if of == "v" else model.nq
    if not isinstance(model, Model):
        return tuple(f"y[{i}]" for i in range(size))
    names = [""] * size
    for body, joint in enumerate(model.joint_names):
        if model.topology.is_mimic[body]:  # the joint that it follows has the name
            continue
        places = np.arange(size)[model.v_slice(body) if of == "v" else model.q_slice(body)]
        for i, place in enumerate(places):
            names[place] = joint if len(places) == 1 else f"{joint}{mark}[{i}]"
    return tuple(names)
