"""The words of URDF, and those of a file that look like them: a misspelt `<limit>` would be no limit, without a word."""

from __future__ import annotations

import difflib
import warnings

from .._errors import ModelError, ModelWarning
from .xml import Element


#: The attributes of each element, and what can be in it. `<material>` is the same in a robot and in a visual.
WORDS: dict[str, tuple[str, str]] = {
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

#: Words so alike are the same word misspelt.
ALIKE = 0.75


def report_words(name: str, robot: Element, strict: bool) -> None:
    """One warning of words that a reader of URDF would not find, or an error if `strict`."""
    found: list[str] = []
    _look(robot, found)
    if not found:
        return
    listed = "; ".join(found[:5]) + (f"; and {len(found) - 5} more" if len(found) > 5 else "")
    message = f"robot {name!r} has words that are not read: {listed}"
    if strict:
        raise ModelError(message)
    warnings.warn(message, ModelWarning, stacklevel=4)


def _look(element: Element, found: list[str]) -> None:
    """What is misspelt or misplaced in an element and below it. What is of no known kind is an extension, and left alone."""
    attributes, children = (words.split() for words in WORDS[element.tag])
    missing = [word for word in attributes if word not in element.attributes]
    for word in element.attributes:
        if word not in attributes and (near := _near(word, missing)):
            found.append(f"{element}: {word!r} is no attribute of <{element.tag}>; did you mean {near!r}?")
    for child in element.children:
        if child.tag in children:
            if child.tag in WORDS:
                _look(child, found)
        elif child.tag in WORDS:
            found.append(f"{child} is not where it is read, in <{element.tag}>; {_belongs(child.tag)}")
        elif near := _near(child.tag, children):
            found.append(f"{child} is no element of URDF; did you mean <{near}>?")


def _near(word: str, known: list[str]) -> str | None:
    """The known word that this one is alike, if it is not one of an extension's own."""
    near = [] if ":" in word else difflib.get_close_matches(word.lower(), known, 1, ALIKE)
    return near[0] if near else None


def _belongs(tag: str) -> str:
    owners = [f"<{owner}>" for owner, (_, children) in WORDS.items() if tag in children.split()]
    return f"it belongs into {' or '.join(owners)}" if owners else "it is the outermost element"
