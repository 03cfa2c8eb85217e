"""Reading MJCF, the XML of MuJoCo, through MuJoCo's own compiler.

Defaults, includes, meshes, inertias from geoms and compiler options thus mean what they mean there. Each kind of element of the
compiled model has a reader here, and `unsupported` says what has none.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from ..._core.errors import ModelError, ModelWarning
from ...model import Model, ModelBuilder
from ...model.builder import report_inertias
from ..limits import USUAL, Limits
from ..xml import telling
from .actuators import actuator_names as actuator_names, actuators_of, control_place as control_place
from .compensation import compensation_of
from .compiled import body_names as body_names, disabled_effects, joint_names as joint_names
from .constraints import constraints_of
from .contact import contact_of
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
    untrusted: bool = False,
    limits: Limits = USUAL,
) -> Model:
    """The model that an MJCF file describes.

    **Arguments**

    - `path_or_xml`: a file, or the text of one (which then cannot name other files).
    - `strict`: whether what the model leaves out, and inertias that no real body can have, are errors or one
      warning each.
    - `contact`: whether the model moves under MuJoCo's law of contact, `rbd.contact.Soft`, with the file's cone and `impratio`,
      and its bounds on contacts and pairs as MJX reads them (`<numeric name="max_contact_points">`, `max_geom_pairs`). That
      has the stops and the dry friction of joints and tendons as well; a file without any of these has no law. Without it,
      stops are not in force (`rbd.forces.JointLimit` makes springs of them), dry friction is Coulomb's, nothing touches,
      and touch sensors are left out.
    - `untrusted`: whether MuJoCo compiles the file in a process of its own, which is stopped when it takes too long or too much
      memory, and whose crash is an error and no more. That takes about half a second.
    - `limits`: how large the file may be, and what MuJoCo may take for one that is untrusted.

    **Returns**

    A model with a body for each body but the world, with the same name and the same frame, and a joint for
    each joint, with the same name and the same coordinates `qpos`. What has no name is called `body_3` or
    `joint_5`, by MuJoCo's number (underscores are added where a name is taken). Velocities of free joints
    differ from MuJoCo's `qvel`: see `rbd_jax.interop.MujocoMap`.

    `neutral` is MuJoCo's `qpos0`: free bodies where the file puts them, hinges and slides at their `ref`. Keyframes, custom
    numbers and texts, the timestep and the integrator come along: `model.keyframes`, `model.settings`.

    - Several joints on one body make as many bodies in a row. All but the last are massless, and called
      `body:joint`.
    - A joint acts about its own `pos`. Where that is not the body's origin, its moving body is a massless body
      `body:joint` at that point, and the body itself is welded to it. Welds cost nothing in the dynamics.
    - Bodies without joints are welded, by a joint called like the body.

    Taken along: gravity; armature, damping, stiffness with its rest position, dry friction (`frictionloss`);
    the ranges of limited hinges and slides; what actuators may do to a joint at most (`actuatorfrcrange`), where it is the same
    both ways, as its effort limit. The armature of a free joint weighs the acceleration in our
    coordinates of it, which is not quite MuJoCo's in a body that turns, and is told.

    Equality constraints that are active become constraints of the model, in the order of the file: `<connect>` a `Connect`,
    `<weld>` a `Weld`, `<joint>` a `CoordinateCoupling`, and so a `<tendon>` whose tendons are sums of coordinates. Here they are
    hard: what makes them soft (`solref`, `solimp`, `torquescale`) is left aside. Those between bodies that cannot move against
    each other do nothing, and are left out.

    Geoms come along as `model.shapes`, the world's too; and `<pair>`s, `<exclude>`s, and how soft the stops and the dry friction
    of joints are, where they are not as usual.

    Shapes, sites, tendons, actuators and sensors come along in the order of the file: `model.shapes`, `.sites`, `.tendons`,
    `.actuators`, `.sensors`. **Actuators act**, a servo also when it is told nothing: see `rbd.Controls`.

    What has no effect is named in `model.unsupported`: contacts and stops that are not in force, sensors of kinds that are not
    measured here, and what would move the tree differently. The latter is told in one `ModelWarning` as well, or refused with a
    `ModelError` if `strict`: equality constraints of other kinds, armature of tendons and (without `contact`) their limits and
    dry friction, actuators of other kinds, springs at free joints, springs and dampers that are not linear, flexible bodies,
    plugins; and mocap bodies, which are welded where they stand.

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
        missing = left_out(mujoco, compiled, contact)
        _report(name, missing, strict)
        inactive = missing + not_in_force(mujoco, compiled, contact)
        disabled = disabled_effects(mujoco, compiled)
        gravity = np.zeros(3) if "GRAVITY" in disabled else compiled.opt.gravity
        builder = ModelBuilder(gravity, name, settings=settings_of(mujoco, compiled, inactive))
        for body in bodies_of(compiled, disabled):
            builder.add(body)
        if not disabled & {"EQUALITY", "CONSTRAINT"}:
            builder.attached += constraints_of(mujoco, compiled)
        if not disabled >= {"SPRING", "DAMPER"}:
            builder.attached += fluid_of(mujoco, compiled)
        if "GRAVITY" not in disabled:
            builder.attached += compensation_of(compiled)
        builder.attached += sites_of(compiled)
        builder.attached += shapes_of(mujoco, compiled)
        builder.attached += contact_of(mujoco, compiled, contact)
        builder.attached += tendons_of(mujoco, compiled)
        builder.attached += actuators_of(mujoco, compiled)
        builder.attached += sensors_of(mujoco, compiled, contact)
        builder.attached += keyframes_of(mujoco, compiled)
        report_inertias(name, builder.bodies, strict)
        return builder.lay_out()


def _report(name: str, left_out: list[str], strict: bool) -> None:
    if not left_out:
        return
    message = f"model {name!r} leaves out what is no part of a tree of bodies: {'; '.join(left_out)}"
    if strict:
        raise ModelError(f"{message}. Remove it, or load with strict=False and the model moves without")
    warnings.warn(f"{message}. The model moves without", ModelWarning, stacklevel=3)
