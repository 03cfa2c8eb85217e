"""Loads MJCF, the XML format of MuJoCo, through MuJoCo's own compiler.

Defaults, includes, meshes, inertias from geoms and compiler options therefore have the same meaning as in MuJoCo. Each
module of this package reads one kind of element of the compiled model. `unsupported` lists the elements without a reader.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Literal

import numpy as np

from ..._core.arguments import choice
from ..._core.errors import ModelError, ModelWarning
from ...model import Model, ModelBuilder
from ...model.builder import report_inertias
from ..limits import USUAL, Limits
from ..xml import telling
from .actuators import actuator_names as actuator_names, actuators_of, control_place as control_place
from .compensation import compensation_of
from .compiled import body_names as body_names, disabled_effects, joint_names as joint_names
from .constraints import constraints_of
from .contact import contact_of, may_collide
from .fluid import fluid_of
from .keyframes import keyframes_of
from .sensors import sensor_names as sensor_names, sensors_of
from .settings import settings_of
from .shapes import shape_names as shape_names, shapes_of
from .sites import site_names as site_names, sites_of
from .source import compiled_from
from .tendons import tendon_names as tendon_names, tendons_of
from .tree import bodies_of
from .unsupported import left_out, not_in_force


def load_mjcf(
    path_or_xml: str | Path,
    strict: bool = False,
    *,
    contact: bool = True,
    equalities: Literal["soft", "hard"] = "soft",
    untrusted: bool = False,
    limits: Limits = USUAL,
) -> Model:
    """Returns the model that an MJCF file describes.

    The model has one body for each body of the file except the world, with the same name and frame. It has one joint for
    each joint of the file, with the same name and the same coordinates `qpos`. Elements without a name are called `body_3`
    or `joint_5`, by MuJoCo's index, with underscores appended where that name is taken. Velocities of free joints differ
    from MuJoCo's `qvel`: see `rbd_jax.interop.MujocoMap`.

    `neutral` is MuJoCo's `qpos0`: free bodies at their pose in the file, hinges and slides at their `ref`. `model.keyframes`
    and `model.settings` hold the keyframes, the custom numbers and texts, the timestep and the integrator.

    - A body with several joints becomes several bodies in series. All but the last are massless and called `body:joint`.
    - A joint acts at its own `pos`. If that point is not the body's origin, the joint moves a massless body `body:joint` at
      that point, and the body is welded to it. Welds add no cost to the dynamics.
    - Bodies without joints are welded to their parent by a joint with the name of the body.

    The loader reads gravity, armature, damping, stiffness with its rest position, and dry friction (`frictionloss`). It
    reads the ranges of limited hinges and slides. The limit on actuator forces at a joint (`actuatorfrcrange`) becomes its
    effort limit if the range is symmetric. The armature of a free joint weights the acceleration in this library's
    coordinates. For a rotating body that differs slightly from MuJoCo, and the loader warns about it.

    Active equality constraints are soft, as in MuJoCo: each becomes a `rbd.contact.SoftEquality` with its `solref` and `solimp`,
    or a `rbd.contact.SoftTendonEquality`. With `equalities="hard"` they become constraints of the model, in the order of the
    file: `<connect>` a `Connect`, `<weld>` a `Weld`, `<joint>` a `CoordinateCoupling`, and `<tendon>` a `CoordinateCoupling` if
    its tendons are sums of coordinates. Constraints between bodies that cannot move relative to each other have no effect and
    are left out.

    `model.shapes` holds the geoms, including those of the world. The model also has the `<pair>` and `<exclude>` elements,
    and the solver parameters of joint limits and dry friction where they differ from MuJoCo's defaults.

    Shapes, sites, tendons, actuators and sensors keep the order of the file: `model.shapes`, `.sites`, `.tendons`,
    `.actuators`, `.sensors`. **Actuators act**, and a servo acts even without a command: see `rbd.Controls`.

    `model.unsupported` lists everything without effect: contacts and joint limits that are not in force, unsupported kinds
    of sensors, and elements that would change the motion of the tree. The last group also raises one `ModelWarning`, or a
    `ModelError` if `strict`. The group consists of:

    - other kinds of equality constraints,
    - armature of tendons and, without `contact`, limits and dry friction of tendons,
    - other kinds of actuators,
    - springs at free joints, and nonlinear springs and dampers,
    - flexible bodies and plugins,
    - mocap bodies, which are welded at their initial pose.

    Args:
      path_or_xml: Path of a file, or the XML text. XML text cannot refer to other files.
      strict: If True, unsupported elements and physically inconsistent inertias raise a `ModelError`. Otherwise each kind of
        fault causes one `ModelWarning`.
      contact: If True, the model uses MuJoCo's contact model, `rbd.contact.Soft`, with the file's cone and `impratio`. Its
        bounds on contacts and pairs are read as in MJX (`<numeric name="max_contact_points">`, `max_geom_pairs`). The
        contact model also covers the limits and the dry friction of joints and tendons. A file without contacts, limits and
        dry friction gets no contact model, unless it has soft equality constraints. If False, joint limits are not in force
        (`rbd.forces.JointLimit` makes springs of them), dry friction is Coulomb friction, shapes do not collide, and touch
        sensors are left out.
      equalities: "soft" for equality constraints that comply as in MuJoCo, "hard" for exact ones. Without `contact` they are
        hard.
      untrusted: If True, MuJoCo compiles the file in a separate process with limited time and memory. A crash of that
        process raises an ordinary error. The process adds about half a second.
      limits: Limits on the size of the file and, if `untrusted`, on MuJoCo's time and memory.

    Returns:
      The `Model`.

    Raises:
      ModelError: If the file is missing, malformed or too large, if MuJoCo rejects it, or if `strict` and something is
        unsupported.
      ImportError: If MuJoCo is not installed.

    >>> xml = '<mujoco><worldbody><body name="bob"><joint name="swing"/><geom size="0.1"/></body></worldbody></mujoco>'
    >>> rbd.load_mjcf(xml).joint_names
    ('swing',)
    """
    try:
        import mujoco
    except ImportError as error:
        raise ImportError(
            "load_mjcf reads MJCF with MuJoCo's compiler, which is not installed: pip install 'rbd_jax[mjcf]'"
        ) from error
    source, compiled = compiled_from(mujoco, path_or_xml, limits, untrusted)
    with telling(source):
        name = compiled.names.split(b"\0", 1)[0].decode() or "model"
        soft = contact and choice("load_mjcf", "equalities", equalities, ("soft", "hard")) == "soft"
        missing = left_out(mujoco, compiled, contact, soft)
        _report(name, missing, strict)
        inactive = missing + not_in_force(mujoco, compiled, contact, soft)
        disabled = disabled_effects(mujoco, compiled)
        gravity = np.zeros(3) if "GRAVITY" in disabled else compiled.opt.gravity
        builder = ModelBuilder(gravity, name, settings=settings_of(mujoco, compiled, inactive))
        for body in bodies_of(compiled, disabled):
            builder.add(body)
        if not disabled & {"EQUALITY", "CONSTRAINT"}:
            builder.attached += constraints_of(mujoco, compiled, soft)
        if not disabled >= {"SPRING", "DAMPER"}:
            builder.attached += fluid_of(mujoco, compiled)
        if "GRAVITY" not in disabled:
            builder.attached += compensation_of(compiled)
        builder.attached += sites_of(compiled)
        builder.attached += shapes_of(mujoco, compiled, may_collide(mujoco, compiled, contact, soft))
        builder.attached += contact_of(mujoco, compiled, contact, soft)
        builder.attached += tendons_of(mujoco, compiled)
        builder.attached += actuators_of(mujoco, compiled)
        builder.attached += sensors_of(mujoco, compiled, contact)
        builder.attached += keyframes_of(mujoco, compiled)
        report_inertias(name, builder.bodies, strict)
        return builder.lay_out()


def _report(name: str, left_out: list[str], strict: bool) -> None:
    if not left_out:
        return
    message = f"model {name!r} leaves out unsupported elements: {'; '.join(left_out)}"
    if strict:
        raise ModelError(f"{message}. Remove them, or load with strict=False to ignore them")
    warnings.warn(f"{message}. They are ignored", ModelWarning, stacklevel=3)
