"""Writes MJCF for MuJoCo's compiler."""

from __future__ import annotations

from pathlib import Path
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from ...._core.files import whole_file
from ....model import Model
from ..description import bodies_of
from ..losses import Losses
from ..numerals import check_name, text, xml_text
from .document import Document
from .things import write_things
from .tree import write_tree


#: MJCF names of the integrators of `Settings`.
INTEGRATORS = {"euler": "Euler", "rk4": "RK4", "implicit": "implicit", "implicitfast": "implicitfast"}


def save_mjcf(model: Model, path: str | Path, strict: bool = False) -> None:
    """Writes a model as an MJCF file, atomically: if writing fails, an earlier file stays unchanged. See `to_mjcf`.

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
    """Returns the text of an MJCF file that describes a model.

    `load_mjcf` and MuJoCo read the same mechanism from it: bodies and joints with the same names, the same coordinates and
    frames, and the same mass matrix and bias force up to rounding. The file includes limits, damping, friction, springs,
    armature, equality constraints, shapes, sites, tendons, actuators, sensors, keyframes, gravity and its compensation,
    fluids, timestep and integrator.

    - Massless bodies `body:joint`, which `load_mjcf` makes for several joints on one body or for a joint away from the
      body's origin, become joints of that body again.
    - Other moving massless bodies without a welded body of nonzero mass get 2e-15 kg and 2e-15 kg m², just above MuJoCo's
      minimum. This changes only the motion of bodies that carry no mass.
    - MuJoCo refuses physically inconsistent inertias. If one of several bodies welded together has such an inertia, the
      moving body is written with the inertia of all of them. If that is still inconsistent, the body gets the mean of its
      moments, and the inertia is reported as not written.
    - Joints in series (`Cylindrical`, `Universal`, `Translational`, `SphericalEuler`, `Composite`) become hinges, slides and
      balls of one body, called `joint:1`, `joint:2`.
    - A `Planar` joint becomes two slides and a hinge. A `Free` joint that is not attached to the world itself becomes three
      slides and a ball. The motion and the values of q are the same (`Planar` in the order x, y, angle), but the linear
      velocities are in the axes of the parent.
    - MuJoCo implements mimic joints by constraints: such joints have their own coordinates, and an equality `<joint>` ties
      each to its leader. The motion is the same within MuJoCo's soft constraints; nq and nv are larger.
    - Effort limits become limits on actuator forces at the joint (`actuatorfrcrange`).
    - Welds have the names of the bodies that they weld, as in `load_mjcf`.
    - Meshes refer to their file if MuJoCo reads it (OBJ, binary STL); otherwise their triangles are written. Meshes require
      MuJoCo 3.3, which places their frames at their centers. Terrain heights are in single precision in MuJoCo.
    - Points of tendons and frames of sensors become sites called `tendon:body` and `sensor:body`, unless the model has a
      site there. Wrapping surfaces of tendons become geoms that do not collide.
    - All actuators become `<general>` actuators. An actuator on several rotations and translations of a joint acts on a
      fixed tendon, `actuator:joint`.
    - In MuJoCo a fluid surrounds all bodies. It is written if the model has the drag on each body that MuJoCo computes.

    MJCF cannot express:

    - velocity limits;
    - screws and racks (`Helical`, `RackAndPinion`), which are refused;
    - kinematically driven joints and joints along splines;
    - damping, friction or springs that differ between the directions of a ball or a free joint;
    - bias and drift of sensors;
    - constraints other than `Connect`, `Weld` and a `CoordinateCoupling` of a polynomial of degree four.

    Delays of sensors and actuators require MuJoCo 3.5.

    Args:
      model: The model.
      strict: If True, properties that MJCF cannot express raise a `ModelError`. Otherwise they cause one `ModelWarning`.
        Both list the names of the elements concerned.

    Returns:
      The XML text.

    Raises:
      ModelError: If the model has joints without an MJCF equivalent, traced or non-finite values, or a batch axis.

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
    if not model.attached_as("contact law"):  # constraints of the model stay enabled
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
