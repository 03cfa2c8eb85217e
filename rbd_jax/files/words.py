"""Elements and attributes of URDF and SDF, and detection of misspelled ones, which would otherwise be ignored silently."""

from __future__ import annotations

import difflib
import functools
import warnings
from typing import NamedTuple

from .._core.errors import ModelError, ModelWarning, continued
from .xml import Element


class Words(NamedTuple):
    """The attributes of each element of a format, and its child elements."""

    format: str
    of: dict[str, tuple[str, str]]


#: `<material>` has the same entry in a robot and in a visual.
_URDF = {
    "robot": ("name version", "link joint material transmission gazebo sensor"),
    "link": ("name type", "inertial visual collision sensor"),
    "inertial": ("", "origin mass inertia"),
    "origin": ("xyz rpy quat_xyzw", ""),
    "mass": ("value", ""),
    "inertia": ("ixx ixy ixz iyy iyz izz", ""),
    "visual": ("name", "origin geometry material"),
    "collision": ("name group", "origin geometry material verbose contact_coefficients"),
    "geometry": ("name", "box cylinder sphere capsule mesh"),
    "box": ("size", ""),
    "cylinder": ("radius length", ""),
    "sphere": ("radius", ""),
    "capsule": ("radius length", ""),
    "mesh": ("filename scale", ""),
    "material": ("name", "color texture"),
    "color": ("rgba", ""),
    "texture": ("filename", ""),
    "joint": ("name type", "origin parent child axis calibration dynamics limit mimic safety_controller"),
    "parent": ("link", ""),
    "child": ("link", ""),
    "axis": ("xyz", ""),
    "calibration": ("rising falling reference_position", ""),
    "dynamics": ("damping friction", ""),
    "limit": ("lower upper effort velocity acceleration jerk deceleration", ""),
    "mimic": ("joint multiplier offset", ""),
    "safety_controller": ("soft_lower_limit soft_upper_limit k_position k_velocity", ""),
}

#: The content of elements that are missing here, such as `<physics>` of a joint, is not checked. Before version 1.5, poses
#: had a `<frame>`.
_SDF = {
    "sdf": ("version", "world model light actor"),
    "world": (
        "name",
        "model include gravity physics frame joint light plugin actor state wind road scene gui audio magnetic_field atmosphere "
        "spherical_coordinates population",
    ),
    "model": (
        "name canonical_link placement_frame",
        "link joint model frame include pose static self_collide allow_auto_disable enable_wind plugin gripper",
    ),
    "link": (
        "name",
        "pose inertial visual collision gravity enable_wind self_collide kinematic must_be_base_link velocity_decay sensor light "
        "projector battery particle_emitter audio_source audio_sink plugin frame",
    ),
    "pose": ("relative_to frame rotation_format degrees", ""),
    "inertial": ("auto", "pose mass density inertia fluid_added_mass auto_inertia_params frame"),
    "inertia": ("", "ixx ixy ixz iyy iyz izz"),
    "visual": (
        "name",
        "pose geometry material transparency cast_shadows laser_retro meta visibility_flags plugin frame",
    ),
    "collision": (
        "name",
        "pose geometry surface max_contacts laser_retro density auto_inertia_params frame",
    ),
    "geometry": ("", "box sphere cylinder capsule ellipsoid cone mesh plane empty heightmap image polyline"),
    "box": ("", "size"),
    "sphere": ("", "radius"),
    "cylinder": ("", "radius length"),
    "capsule": ("", "radius length"),
    "ellipsoid": ("", "radii"),
    "cone": ("", "radius length"),
    "mesh": ("optimization", "uri scale submesh convex_decomposition"),
    "plane": ("", "normal size"),
    "material": (
        "",
        "script shader render_order lighting ambient diffuse specular emissive double_sided pbr shininess",
    ),
    "joint": (
        "name type",
        "parent child pose axis axis2 gearbox_ratio gearbox_reference_body thread_pitch screw_thread_pitch physics sensor plugin "
        "frame",
    ),
    "axis": ("", "xyz initial_position use_parent_model_frame dynamics limit mimic"),
    "axis2": ("", "xyz initial_position use_parent_model_frame dynamics limit mimic"),
    "xyz": ("expressed_in", ""),
    "dynamics": ("", "damping friction spring_stiffness spring_reference"),
    "limit": ("", "lower upper effort velocity stiffness dissipation"),
    "mimic": ("joint axis", "multiplier offset reference"),
    "frame": ("name attached_to", "pose"),
}

URDF, SDF = Words("URDF", _URDF), Words("SDF", _SDF)

#: Similarity from which a word counts as a misspelling.
ALIKE = 0.75


def report_words(words: Words, name: str, top: Element, strict: bool) -> None:
    """Warns once of misspelled or misplaced elements and attributes, or raises an error if `strict`."""
    found: list[str] = []
    _look(words, top, found)
    if not found:
        return
    parts = found[:5] + ([f"and {len(found) - 5} more"] if len(found) > 5 else [])
    listed = functools.reduce(lambda listed, part: continued(listed, part, ";"), parts)
    message = f"robot {name!r} has unknown or misplaced elements or attributes: {listed}"
    if strict:
        raise ModelError(message)
    warnings.warn(message, ModelWarning, stacklevel=4)


def _look(words: Words, element: Element, found: list[str]) -> None:
    """Adds the misspelled and misplaced words of an element and its descendants to `found`.

    Unknown words that resemble no known word are extensions, and are ignored.
    """
    attributes, children = (known.split() for known in words.of[element.tag])
    missing = [word for word in attributes if word not in element.attributes]
    for word in element.attributes:
        if word not in attributes and (near := _near(word, missing)):
            found.append(
                f"{element}: {word!r} is not an attribute of <{element.tag}>; did you mean {near!r}?"
            )
    for child in element.children:
        if child.tag in children:
            if child.tag in words.of:
                _look(words, child, found)
        elif child.tag in words.of:
            found.append(f"{child} is misplaced in <{element.tag}>; {_belongs(words, child.tag)}")
        elif near := _near(child.tag, children):
            found.append(f"{child} is not an element of {words.format}; did you mean <{near}>?")


def _near(word: str, known: list[str]) -> str | None:
    """Returns the most similar known word, or None. Words with a namespace are extensions."""
    near = [] if ":" in word else difflib.get_close_matches(word.lower(), known, 1, ALIKE)
    return near[0] if near else None


def _belongs(words: Words, tag: str) -> str:
    owners = [f"<{owner}>" for owner, (_, children) in words.of.items() if tag in children.split()]
    return f"it belongs in {' or '.join(owners)}" if owners else "it is the outermost element"
