"""The tree of a model as text."""

import jax
import numpy as np

from .._core.array import is_known
from ..joints import InPlane
from .model import Model


def draw(model: Model) -> str:
    """Returns the model's name and sizes, the tree with joint, degrees of freedom and mass of each body, and the constraints."""
    topology = model.topology
    kind = "planar, " if model.is_planar else ""
    lines = [f"{model.name}: {kind}{model.nb} bodies, nq = {model.nq}, nv = {model.nv}"]
    children: dict[int, list[int]] = {}
    for body, parent in enumerate(topology.parents):
        children.setdefault(parent, []).append(body)
    # Depth first with an explicit stack, because long chains exceed Python's recursion limit.
    stack = [(body, "", body == children[-1][-1]) for body in reversed(children.get(-1, []))]
    while stack:
        body, indent, last = stack.pop()
        lines.append(f"{indent}{'└─' if last else '├─'} {_describe(model, body)}")
        below = children.get(body, [])
        deeper = indent + ("   " if last else "│  ")
        stack += [(child, deeper, child == below[-1]) for child in reversed(below)]
    lines += [f"╌╌ {constraint.label}, {constraint.rows} rows" for constraint in model.constraints]
    return "\n".join(lines)


def _describe(model: Model, body: int) -> str:
    topology = model.topology
    kind = topology.kind_of[body][0]
    joints = model.joints[kind]
    family = type(joints.joint if isinstance(joints, InPlane) else joints).__name__
    name = model.body_names[body]
    joint = model.joint_names[body]
    text = name if joint == name else f"{name} ({joint})"
    text += f"  {family}"
    if topology.is_mimic[body]:
        text += f", mimics {model.joint_names[topology.leaders[body]]}"
    elif topology.joint_nv[body]:
        text += f" v[{topology.v_offsets[body]}:{topology.v_offsets[body + 1]}]"
    mass = model.inertias.mass
    if isinstance(mass, jax.Array) and is_known(mass) and mass.ndim == 1:
        own = float(np.asarray(mass)[body])
        text += f", {own:.4g} kg" if own else ", massless"
    return text
