"""The command `info`: shows the parts of a model."""

from __future__ import annotations

import numpy as np

from ..model import Model
from .model import load
from .report import plain_console, plain_table


#: The roles of attachments, and their plural names.
ROLES = {
    "site": "sites", "shape": "shapes", "tendon": "tendons", "actuator": "actuators", "sensor": "sensors",
    "keyframe": "keyframes", "constraint": "constraints", "soft equality": "soft equality constraints",
    "force": "force elements", "contact law": "contact model", "contact pair": "contact pairs",
    "contact exclusion": "contact exclusions", "softness": "softness of joints",
    "massless centers": "centers of massless bodies",
}  # fmt: skip


def info(arguments) -> None:
    """Prints the bodies, totals, limits, mimic joints and, with `--all`, the attachments of a model."""
    console = plain_console()
    model = load(arguments, console)
    console.print(repr(model), highlight=False, markup=False, soft_wrap=True)
    mass = np.asarray(model.inertias.mass)
    topology = model.topology

    totals = plain_table(header=False)
    totals.add_column(style="bold")
    totals.add_column()
    totals.add_row(
        "total mass", f"{mass.sum():.6g} kg, {int((mass == 0).sum())} of {model.nb} bodies massless"
    )
    totals.add_row("nq, nv", f"{model.nq}, {model.nv}")
    families = [type(model.joints[kind]).__name__ for kind, _ in topology.kind_of]
    counts = {family: families.count(family) for family in dict.fromkeys(families)}
    totals.add_row("joints", ", ".join(f"{count} {family}" for family, count in counts.items()))
    gravity = ", ".join(f"{x:g}" for x in np.asarray(model.gravity, float))
    totals.add_row("gravity", f"({gravity}) m/s²")
    welded = [name for name, fixed in zip(model.joint_names, topology.fixed) if fixed]
    if welded:
        totals.add_row("fixed joints", _listed(welded))
    attached = {title: model.attached_as(role) for role, title in ROLES.items()}
    for title, things in attached.items():
        if things:
            totals.add_row(title, str(len(things)) if arguments.all else f"{len(things)} (--all lists them)")
    for title, value in (("timestep", model.settings.timestep), ("integrator", model.settings.integrator)):
        if value is not None:
            totals.add_row(title, f"{value:g} s" if title == "timestep" else str(value))
    if model.settings.custom:
        totals.add_row("custom", _listed([*model.settings.custom]))
    for row, line in enumerate(model.unsupported):
        totals.add_row("" if row else "without effect", line)
    console.print(totals)

    if model.nv:
        console.print(_limits(model))
    if len(topology.mimic_joints):
        table = plain_table("Mimic joints")
        for column in ("joint", "mimics", "as"):
            table.add_column(column)
        multipliers, offsets = np.asarray(model.mimic_multiplier), np.asarray(model.mimic_offset)
        for body, multiplier, offset in zip(topology.mimic_joints, multipliers, offsets):
            leader = model.joint_names[topology.leaders[body]]
            shift = f" {offset:+.6g}" if offset else ""
            table.add_row(model.joint_names[body], leader, f"{multiplier:.6g} q{shift}")
        console.print(table)

    for title, things in attached.items():
        if things and arguments.all:
            console.print(_attached(title, things))


def _attached(title: str, things):
    """Returns a table with a row for each attachment: its name, family, and the objects that it refers to."""
    table = plain_table(title.capitalize())
    table.add_column("name")
    table.add_column("family", style="dim")
    table.add_column("on")
    for thing in things:
        on = [*thing.bodies, *thing.joints, *(name for _, name in thing.refers)]
        family = type(getattr(thing, "constraint", thing)).__name__
        table.add_row(thing.name, family, _listed(list(dict.fromkeys(on))))
    return table


def _listed(names: list[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _limits(model: Model):
    """Returns a table with a row for each degree of freedom; columns without values are left out."""
    per_coordinate = {"lower": "lower", "upper": "upper"}
    per_dof = {
        "velocity": "velocity_limit", "effort": "effort_limit", "damping": "damping", "friction": "friction",
        "armature": "armature", "stiffness": "stiffness",
    }  # fmt: skip

    def says(name):
        values = np.asarray(getattr(model, name))
        return bool((np.isfinite(values) & (values != 0)).any())

    columns = {title: name for title, name in (per_coordinate | per_dof).items() if says(name)}
    table = plain_table("Limits and passive properties of joints")
    table.add_column("joint")
    table.add_column("family", style="dim")
    for title in columns:
        table.add_column(title, justify="right")
    topology = model.topology
    for body in range(model.nb):
        size = topology.joint_nv[body]
        if topology.is_mimic[body] or not size:
            continue
        family = type(model.joints[topology.kind_of[body][0]]).__name__
        flat = topology.joint_nq[body] == size  # else coordinates and degrees of freedom do not share rows
        cells = {}
        for title, name in columns.items():
            values = np.asarray(getattr(model, name))
            if title in per_dof:
                cells[title] = [f"{x:.4g}" for x in values[model.v_slice(body)]]
            else:
                cells[title] = [f"{x:.4g}" for x in values[model.q_slice(body)]] if flat else [""] * size
        rows = list(zip(*cells.values())) if cells else [()] * size
        same = len(set(rows)) == 1
        for i, row in enumerate(rows[:1] if same else rows):
            name = model.joint_names[body]
            table.add_row(name if same else f"{name}[{i}]", family if i == 0 else "", *row)
    return table
