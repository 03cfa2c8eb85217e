"""Reading MJCF, the XML of MuJoCo, through MuJoCo's own compiler.

Defaults, includes, meshes, inertias from geoms and compiler options thus mean what they mean there. What is
built of the compiled model is the tree (bodies, joints, inertias, and what acts along the joints) and the constraints
that close loops in it.
"""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.polynomial import Polynomial

from .. import joints
from .._errors import ModelError, ModelWarning
from ..loops import Connect, Constraint, CoordinateCoupling, Weld
from ..spatial import Inertia, Transform
from .builder import Body, ModelBuilder, report_inertias
from .model import Model


#: MuJoCo's `jnt_type`.
FREE, BALL, SLIDE, HINGE = range(4)

#: MuJoCo's `eq_type`, as far as it has a family of constraints here.
CONNECT, WELD, JOINT = range(3)


def load_mjcf(path_or_xml: str | Path, strict: bool = False) -> Model:
    """The model that an MJCF file describes.

    **Arguments**

    - `path_or_xml`: a file, or the text of one (which then cannot name other files).
    - `strict`: whether what the model leaves out, and inertias that no real body can have, are errors or one
      warning each.

    **Returns**

    A model with a body for each body but the world, with the same name and the same frame, and a joint for
    each joint, with the same name and the same coordinates `qpos`. What has no name is called `body_3` or
    `joint_5`, by MuJoCo's number (underscores are added where a name is taken). Velocities of free joints
    differ from MuJoCo's `qvel`: see `rbd_jax.interop.MujocoMap`.

    `neutral` has every joint at its zero, which is not MuJoCo's `qpos0`: there free bodies are where the file puts them, and
    hinges and slides at their `ref`. `rbd_jax.interop.MujocoMap(model, mj_model).configuration_from(mj_model.qpos0)` is that.

    - Several joints on one body make as many bodies in a row. All but the last are massless, and called
      `body:joint`.
    - A joint acts about its own `pos`. Where that is not the body's origin, its moving body is a massless body
      `body:joint` at that point, and the body itself is welded to it. Welds cost nothing in the dynamics.
    - Bodies without joints are welded, by a joint called like the body.

    Taken along: gravity; armature, damping, stiffness with its rest position, dry friction (`frictionloss`);
    the ranges of limited hinges and slides. The armature of a free joint weighs the acceleration in our
    coordinates of it, which is not quite MuJoCo's in a body that turns.

    Equality constraints that are active become constraints of the model, in the order of the file: `<connect>` a
    `Connect`, `<weld>` a `Weld`, `<joint>` a `CoordinateCoupling`. Here they are hard: what makes them soft (`solref`,
    `solimp`, `torquescale`) is left aside. Those between bodies that cannot move against each other do nothing, and are
    left out.

    Not part of a tree, and left out without a word: contacts, actuators, sensors, limits of ball joints,
    tendons that exert no force. What would move the tree differently is named in one `ModelWarning` (a
    `ModelError` if `strict`): equality constraints of other kinds, tendons with a spring, damper, friction, limit or
    armature, gravity compensation, fluids, springs at free joints, springs and dampers that are not linear,
    flexible bodies, plugins; and mocap bodies, which are welded where they stand.

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
    source, compiled = _compile(mujoco, path_or_xml)
    try:
        name = compiled.names.split(b"\0", 1)[0].decode() or "model"
        _report(name, _left_out(mujoco, compiled), strict)
        disabled = _disabled(mujoco, compiled)
        gravity = np.zeros(3) if "GRAVITY" in disabled else compiled.opt.gravity
        builder = ModelBuilder(gravity, name)
        for body in _bodies(compiled, disabled):
            builder.add(body)
        if not disabled & {"EQUALITY", "CONSTRAINT"}:
            builder.attached = list(_constraints(mujoco, compiled))
        report_inertias(name, builder.bodies, strict)
        return builder.lay_out()
    except ModelError as error:
        raise type(error)(f"{source}: {error}") from None


def joint_names(compiled: Any) -> list[str]:
    """The name that each joint of an `MjModel` has in our model."""
    return _names([compiled.joint(i).name or f"joint_{i}" for i in range(compiled.njnt)], compiled.joint)


def body_names(compiled: Any) -> list[str]:
    """The name that each body of an `MjModel` has in our model, the world's first."""
    return _names([compiled.body(i).name or f"body_{i}" for i in range(compiled.nbody)], compiled.body)


def _names(wanted: list[str], lookup) -> list[str]:
    """Distinct names: given ones as they are, made-up ones with as many underscores as it takes."""
    taken = {lookup(i).name for i in range(len(wanted))}
    names = []
    for i, name in enumerate(wanted):
        name = name if lookup(i).name else _unused(name, taken)
        taken.add(name)
        names.append(name)
    return names


def _unused(name: str, taken) -> str:
    while name in taken:
        name += "_"
    return name


# The file.


def _compile(mujoco, path_or_xml) -> tuple[str, Any]:
    """What to call the source in errors, and the compiled model."""
    if not isinstance(path_or_xml, str | Path):
        raise ModelError(f"load_mjcf: got a {type(path_or_xml).__name__}; give a path or the XML text")
    text = path_or_xml.lstrip("\ufeff \t\r\n") if isinstance(path_or_xml, str) else ""
    if text.startswith("<"):
        source, content = "MJCF text", text
    else:
        source = str(path_or_xml) if len(str(path_or_xml)) < 200 else f"{str(path_or_xml)[:80]}..."
        try:
            content = Path(path_or_xml).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            raise ModelError(
                f"{source}: there is no such file; give the path of an MJCF file or the XML text"
            ) from None
        except IsADirectoryError:
            raise ModelError(f"{source}: it is a directory; give the path of an MJCF file in it") from None
        except (OSError, ValueError) as error:
            raise ModelError(
                f"{source}: it cannot be read ({type(error).__name__}); give a path or XML text"
            ) from None
    _check_root(source, content)
    try:
        if text.startswith("<"):
            return source, mujoco.MjModel.from_xml_string(text)
        return source, mujoco.MjModel.from_xml_path(str(path_or_xml))
    except ValueError as error:
        raise ModelError(f"{source}: MuJoCo does not accept it: {error}") from None


def _check_root(source: str, content: str) -> None:
    """Refuse another kind of file by its outermost element. (MuJoCo reads URDF too, by rules of its own.)"""
    root = re.search(r"<([A-Za-z_][\w.:-]*)", re.sub(r"<!--.*?-->|<\?.*?\?>", "", content, flags=re.DOTALL))
    tag = root.group(1) if root else None
    if tag == "robot":
        raise ModelError(f"{source}: the outermost element is <robot>: it is URDF; read it with load_urdf")
    if tag not in ("mujoco", "mujocoinclude", None):
        raise ModelError(f"{source}: the outermost element is <{tag}>: an MJCF file's is <mujoco>")


# The tree.


def _bodies(compiled, disabled) -> list[Body]:
    names, hinges = body_names(compiled), joint_names(compiled)
    taken, taken_joints = set(names), set(hinges)
    zero = np.zeros(3)
    bodies = []

    def add(name, parent, joint, rotation, position, inertia, joint_name, **along):
        placement = Transform(jnp.asarray(rotation), jnp.asarray(position))
        bodies.append(Body(name, parent, joint, placement, inertia, joint_name, **along))

    def moving_body(name):
        name = _unused(name, taken)
        taken.add(name)
        return name

    def weld(name, parent, rotation, position, inertia):
        joint_name = _unused(name, taken_joints)
        taken_joints.add(joint_name)
        add(name, parent, joints.Fixed(), rotation, position, inertia, joint_name)

    for body in range(1, compiled.nbody):
        name, parent = names[body], names[compiled.body_parentid[body]]
        rotation, position = _rotation(compiled.body_quat[body]), np.array(compiled.body_pos[body])
        inertia, count = _inertia(compiled, body), int(compiled.body_jntnum[body])
        first = int(compiled.body_jntadr[body])
        # Each joint's moving body sits where the joint acts. A slide acts anywhere, and leaves it where it is.
        anchor = zero
        for joint in range(first, first + count):
            kind = compiled.jnt_type[joint]
            here = np.array(compiled.jnt_pos[joint]) if kind in (BALL, HINGE) else anchor
            moved = np.array(here - anchor)
            anchor = here
            if kind == FREE:  # qpos places it in the world
                rotation, position = np.eye(3), zero
            else:
                rotation, position = rotation @ _unturned(compiled, joint), position + rotation @ moved
                position = position + rotation @ _unslid(compiled, joint)
            last = joint == first + count - 1 and not anchor.any()
            above, parent = parent, name if last else moving_body(f"{name}:{hinges[joint]}")
            add(
                parent,
                above,
                _joint(compiled, joint),
                rotation,
                position,
                inertia if last else Inertia.zero(inertia.mass.dtype),
                hinges[joint],
                **_along(compiled, joint, disabled),
            )
            rotation, position = np.eye(3), zero
        if not count or anchor.any():
            weld(name, parent, rotation, position - anchor, inertia)
    return bodies


def _joint(compiled, joint: int) -> joints.Joint:
    kind = compiled.jnt_type[joint]
    if kind == FREE:
        return joints.Free()
    if kind == BALL:
        return joints.Spherical()
    family = joints.Prismatic if kind == SLIDE else joints.Revolute
    return family(jnp.asarray(compiled.jnt_axis[joint]))


def _unturned(compiled, joint: int) -> np.ndarray:
    """The turn of a hinge's frame that makes its angle `qpos` and not `qpos - qpos0`."""
    if compiled.jnt_type[joint] != HINGE:
        return np.eye(3)
    half = -0.5 * compiled.qpos0[compiled.jnt_qposadr[joint]]
    return _rotation(np.array([np.cos(half), *(np.sin(half) * compiled.jnt_axis[joint])]))


def _unslid(compiled, joint: int) -> np.ndarray:
    """The shift of a slide's frame that makes its length `qpos` and not `qpos - qpos0`."""
    if compiled.jnt_type[joint] != SLIDE:
        return np.zeros(3)
    return -compiled.qpos0[compiled.jnt_qposadr[joint]] * compiled.jnt_axis[joint]


def _along(compiled, joint: int, disabled) -> dict[str, Any]:
    """What acts along a joint."""
    kind = int(compiled.jnt_type[joint])
    nq, nv = {FREE: (7, 6), BALL: (4, 3)}.get(kind, (1, 1))
    q = compiled.jnt_qposadr[joint] + np.arange(nq)
    v = compiled.jnt_dofadr[joint] + np.arange(nv)
    if kind == FREE:
        v = v[[3, 4, 5, 0, 1, 2]]
    along: dict[str, Any] = {"armature": compiled.dof_armature[v]}
    if "DAMPER" not in disabled:
        along["damping"] = compiled.dof_damping[v]
    if not disabled & {"FRICTIONLOSS", "CONSTRAINT"}:
        along["friction"] = compiled.dof_frictionloss[v]
    if "SPRING" not in disabled and kind != FREE and compiled.jnt_stiffness[joint]:
        along["stiffness"] = np.full(nv, compiled.jnt_stiffness[joint])
        along["spring_reference"] = compiled.qpos_spring[q]
    if not disabled & {"LIMIT", "CONSTRAINT"} and kind in (SLIDE, HINGE) and compiled.jnt_limited[joint]:
        along["lower"], along["upper"] = compiled.jnt_range[joint]
    return along


def _inertia(compiled, body: int) -> Inertia:
    mass, com = compiled.body_mass[body], compiled.body_ipos[body]
    axes = _rotation(compiled.body_iquat[body])
    about = (axes * compiled.body_inertia[body]) @ axes.T + mass * (
        com @ com * np.eye(3) - np.outer(com, com)
    )
    triangle = np.array([about[i, j] for i in range(3) for j in range(i + 1)])
    return Inertia(jnp.asarray(mass), jnp.asarray(mass * com), jnp.asarray(triangle))


def _rotation(quaternion) -> np.ndarray:
    """The matrix of a quaternion, in NumPy: JAX takes a hundred times as long for a few numbers."""
    w, x, y, z = np.asarray(quaternion) / np.linalg.norm(quaternion)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


# The constraints.


def _constraints(mujoco, compiled) -> list[Constraint]:
    bodies, hinges = body_names(compiled), joint_names(compiled)
    found: list[Constraint] = []
    for equality in np.flatnonzero(compiled.eq_active0).tolist():
        kind = compiled.eq_type[equality]
        if kind == JOINT:
            found.append(CoordinateCoupling(_polynomials(compiled, equality, hinges)))
        elif kind in (CONNECT, WELD):
            (body_a, frame_a), (body_b, frame_b) = _ends(mujoco, compiled, equality)
            if _carrier(compiled, body_a) != _carrier(compiled, body_b):
                family = Weld if kind == WELD else Connect
                found.append(family(bodies[body_a], frame_a, bodies[body_b], frame_b))
    return found


def _polynomials(compiled, equality: int, hinges: list[str]) -> dict[str, np.ndarray]:
    """`y - y0 = p(x - x0)`, with 0 for `qpos0`, as a polynomial for each joint. Without a second joint x is x0."""
    first, second = compiled.eq_obj1id[equality], compiled.eq_obj2id[equality]
    y0, p = compiled.qpos0[compiled.jnt_qposadr[first]], Polynomial(compiled.eq_data[equality, :5])
    if second < 0:
        return {hinges[first]: np.array([-y0 - p.coef[0], 1])}
    x0 = compiled.qpos0[compiled.jnt_qposadr[second]]
    return {hinges[first]: np.array([-y0, 1]), hinges[second]: -p(Polynomial([-x0, 1])).coef}


def _ends(mujoco, compiled, equality: int) -> list[tuple[int, Transform]]:
    """The two bodies that a connect or a weld ties, and its frame on each."""
    ids = compiled.eq_obj1id[equality], compiled.eq_obj2id[equality]
    data, unturned = compiled.eq_data[equality], np.array([1.0, 0, 0, 0])
    # Before MuJoCo 3.2.3 sites could not be tied.
    if hasattr(compiled, "eq_objtype") and compiled.eq_objtype[equality] == mujoco.mjtObj.mjOBJ_SITE:
        sites = list(ids)
        ends = zip(compiled.site_bodyid[sites], compiled.site_quat[sites], compiled.site_pos[sites])
    elif compiled.eq_type[equality] == CONNECT:
        ends = zip(ids, (unturned, unturned), (data[:3], data[3:6]))
    else:
        ends = zip(ids, (data[6:10], unturned), (data[3:6], data[:3]))
    return [
        (int(body), Transform(jnp.asarray(_rotation(quat)), jnp.asarray(pos))) for body, quat, pos in ends
    ]


def _carrier(compiled, body: int) -> int:
    """What a body is welded to: the nearest one above it with a joint, or the world."""
    while body and not compiled.body_jntnum[body]:
        body = compiled.body_parentid[body]
    return int(body)


# What is left out.


def _disabled(mujoco, compiled) -> set[str]:
    """The effects that the file switches off, of those that a model has."""
    flags = ("GRAVITY", "SPRING", "DAMPER", "PASSIVE", "FRICTIONLOSS", "LIMIT", "CONSTRAINT", "EQUALITY")
    found = set()
    for flag in flags:
        bit = getattr(mujoco.mjtDisableBit, f"mjDSBL_{flag}", None)
        if bit is not None and compiled.opt.disableflags & int(bit):
            found.add(flag)
    # Before MuJoCo 3.3.3 springs and dampers had one flag for both.
    return found | ({"SPRING", "DAMPER"} if "PASSIVE" in found else set())


def _left_out(mujoco, compiled) -> list[str]:
    """What of the file would move the tree otherwise than the model does, in words."""
    found, disabled = [], _disabled(mujoco, compiled)
    hinges, bodies = joint_names(compiled), body_names(compiled)

    def among(what, names, which):
        listed = [repr(name) for name, is_one in zip(names, which, strict=True) if is_one]
        if listed:
            found.append(f"{what} {', '.join(listed)}")

    def nonzero(*fields):
        """Which rows have a number other than zero in one of the fields (those that this MuJoCo has)."""
        values = [np.asarray(getattr(compiled, field)) for field in fields if hasattr(compiled, field)]
        return np.any([value.reshape(len(value), -1).any(axis=1) for value in values], axis=0)

    if not disabled & {"EQUALITY", "CONSTRAINT"}:
        for kind in range(JOINT + 1, 8):
            which = (compiled.eq_type == kind) & compiled.eq_active0.astype(bool)
            if which.any():
                label = mujoco.mjtEq(kind).name.removeprefix("mjEQ_").lower()
                names = [compiled.eq(i).name or f"equality_{i}" for i in range(compiled.neq)]
                among(f"equality constraints ({label})", names, which)
    if compiled.ntendon:
        names = [compiled.tendon(i).name or f"tendon_{i}" for i in range(compiled.ntendon)]
        forces = (
            "stiffness",
            "stiffnesspoly",
            "damping",
            "dampingpoly",
            "frictionloss",
            "limited",
            "armature",
        )
        among("forces of tendons", names, nonzero(*(f"tendon_{name}" for name in forces)))
    among("gravity compensation of bodies", bodies, nonzero("body_gravcomp"))
    if compiled.njnt:
        free = (compiled.jnt_type == FREE) & (compiled.jnt_stiffness != 0)
        among("springs at free joints", hinges, free)
        curved = (
            nonzero("jnt_stiffnesspoly")
            if hasattr(compiled, "jnt_stiffnesspoly")
            else np.zeros(compiled.njnt, bool)
        )
        if hasattr(compiled, "dof_dampingpoly"):
            curved[compiled.dof_jntid[np.asarray(compiled.dof_dampingpoly).any(axis=1)]] = True
        if hasattr(compiled, "jnt_plasticadr"):
            curved |= compiled.jnt_plasticadr >= 0
        among("nonlinear springs or dampers of joints", hinges, curved)
    if compiled.opt.density or compiled.opt.viscosity:
        found.append(f"a fluid (density {compiled.opt.density:g}, viscosity {compiled.opt.viscosity:g})")
    if compiled.nflex:
        found.append(f"{compiled.nflex} flexible bodies")
    if compiled.nplugin:
        found.append(f"{compiled.nplugin} plugins")
    among("motion of mocap bodies", bodies, compiled.body_mocapid >= 0)
    return found


def _report(name: str, left_out: list[str], strict: bool) -> None:
    if not left_out:
        return
    message = f"model {name!r} leaves out what is no part of a tree of bodies: {'; '.join(left_out)}"
    if strict:
        raise ModelError(f"{message}. Remove it, or load with strict=False and the model moves without")
    warnings.warn(f"{message}. The model moves without", ModelWarning, stacklevel=3)
