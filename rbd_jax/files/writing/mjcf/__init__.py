"""Writing MJCF, as MuJoCo's compiler reads it."""

from __future__ import annotations

from pathlib import Path
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from ...._core.files import whole_file
from ....contact.law import contact_law
from ....model import Model
from ..description import bodies_of
from ..losses import Losses
from ..numerals import check_name, text, xml_text
from .document import Document
from .things import write_things
from .tree import write_tree


#: What the integrators of `Settings` are called in the file.
INTEGRATORS = {"euler": "Euler", "rk4": "RK4", "implicit": "implicit", "implicitfast": "implicitfast"}


def save_mjcf(model: Model, path: str | Path, strict: bool = False) -> None:
    """Write a model as an MJCF file, which then is there as a whole or, if that fails, as it was. See `to_mjcf`.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rbd.save_mjcf(rbd.load("double_pendulum"), pathlib.Path(folder, "two.xml"))
    ...     rbd.load(pathlib.Path(folder, "two.xml"))
    double_pendulum: 2 bodies, nq = 2, nv = 2
    └─ upper (shoulder)  Revolute v[0:1], 1 kg
       └─ lower (elbow)  Revolute v[1:2], 1 kg
    """
    content = _written("save_mjcf", model, strict)
    with whole_file(Path(path)) as part:
        part.write_text(content, encoding="utf-8")


def to_mjcf(model: Model, strict: bool = False) -> str:
    """The text of an MJCF file that describes a model.

    **Arguments**

    - `strict`: whether what MJCF has no words for is an error or one warning, each with the names of what has it.

    Read by `load_mjcf`, or by MuJoCo, it is the same mechanism: bodies and joints of the same names, the same coordinates, mass
    matrix and bias force, to rounding, and the same frames; with the limits, damping, friction, springs, armature, equality
    constraints, shapes, sites, tendons, actuators, sensors, keyframes, gravity and its compensation, fluids, timestep and
    integrator.

    - Bodies `body:joint` without mass, as `load_mjcf` makes them for several joints on one body, or for one beside its origin,
      are joints of that body again.
    - Other bodies without mass that move (and carry none welded to them) get 2e-15 kg, and as many kg m², the least that
      MuJoCo takes. Nothing but bodies without any mass outside them moves differently for that.
    - MuJoCo takes no inertia that no real body has. Where one of several bodies welded together has such, the one that moves is
      written with that of all of them; where that does not help, it is lost, and the body has the mean of its moments.
    - Joints in series (`Cylindrical`, `Universal`, `Translational`, `SphericalEuler`, `Composite`) become hinges, slides and
      balls of one body, called `joint:1`, `joint:2`.
    - A `Planar` joint becomes two slides and a hinge, and a `Free` one that is not on the world itself three slides and a ball,
      as in `Free2D` and `Free3D`: the same motion and the same numbers of q (those of `Planar` in the order x, y, angle), but
      the linear velocities are those in the parent's axes.
    - MuJoCo keeps joints that mimic others by constraints: they are joints with coordinates of their own, and an equality
      `<joint>` ties each to its leader. The motion is the same, as far as MuJoCo's soft constraints hold; nq and nv are larger.
    - Effort limits are those of what actuators do to a joint (`actuatorfrcrange`).
    - Welds are called by the bodies that they weld, as `load_mjcf` calls them.
    - Meshes are written by the name of their file where MuJoCo reads that (OBJ, binary STL), or else by their triangles. They
      need MuJoCo 3.3, which then has their frames at their centres. Heights of terrain are in single precision there.
    - Points that tendons run through, and frames that sensors are at, become sites where the model has none there, called
      `tendon:body` and `sensor:body`; what tendons wrap around becomes geoms that touch nothing.
    - Actuators of all families become `<general>` ones, which is what all of MuJoCo's are. One along several of the turns and
      slides of a joint acts on a fixed tendon, `actuator:joint`.
    - A fluid is around all bodies in MuJoCo: it is written where the model has the drag on each that MuJoCo works out.

    MJCF has no words for velocity limits, for screws and racks (`Helical`, `RackAndPinion`, which are refused), for
    joints that move by themselves or along splines, for damping, friction or springs that differ between the directions of a
    ball or a free joint, for bias and drift of sensors, and for constraints other than `Connect`, `Weld` and a
    `CoordinateCoupling` of a polynomial of degree four. MuJoCo has delays of sensors and actuators since its version 3.5.

    >>> "<hinge" in rbd.to_mjcf(rbd.load("double_pendulum")), "<joint" in rbd.to_mjcf(rbd.load("double_pendulum"))
    (False, True)
    """
    return _written("to_mjcf", model, strict)


def _written(function: str, model: Model, strict: bool) -> str:
    bodies = bodies_of(function, model)
    root = Element("mujoco", model=model.name)
    SubElement(root, "compiler", angle="radian", inertiafromgeom="false", autolimits="true")
    option = SubElement(root, "option", gravity=text(model.gravity))
    settings = model.settings
    if settings.timestep is not None:
        option.set("timestep", text(settings.timestep))
    losses = Losses(model.name, "MJCF")
    if settings.integrator in INTEGRATORS:
        option.set("integrator", INTEGRATORS[settings.integrator])
    elif settings.integrator is not None:
        losses.add("the integrator", settings.integrator)
    if contact_law(model) is None:  # and constraints that it has been given are not switched off
        off = [what for what in settings.switched_off if what != "constraint" or not model.constraints]
        if off:
            SubElement(option, "flag", {what: "disable" for what in off})
    out = Document(model, root, SubElement(root, "worldbody"), losses)
    _custom(out)
    write_tree(out, bodies, float(np.finfo(model.dtype).eps))
    write_things(out)
    out.losses.report(strict)
    return xml_text(root)


def _custom(out: Document) -> None:
    for name, value in out.model.settings.custom.items():
        check_name("custom entry", name)
        if not len(value):
            out.losses.add("empty custom numbers and texts", name)
        elif isinstance(value, str):
            SubElement(out.section("custom"), "text", name=name, data=value)
        else:
            SubElement(out.section("custom"), "numeric", name=name, data=text(value), size=str(len(value)))
