"""Numbers and rotations as text that comes back to the last bit."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import numpy as np

from ..._core.errors import ModelError


def text(numbers) -> str:
    """Numbers in as many digits as they need, separated by spaces; a whole one without a point."""
    return " ".join(_one(x) for x in np.ravel(np.asarray(numbers, float)).tolist())


def _one(x: float) -> str:
    whole = x.is_integer() and abs(x) < 1e15 and math.copysign(1, x) * x >= 0
    return str(int(x)) if whole else repr(x)


def angles(rotation) -> np.ndarray:
    """Roll, pitch and yaw, `R = Rz(yaw) Ry(pitch) Rx(roll)`, as exact at a pitch of a quarter turn as anywhere."""
    yaw = math.atan2(rotation[1, 0], rotation[0, 0])
    s, c = math.sin(yaw), math.cos(yaw)
    pitch = math.atan2(-rotation[2, 0], c * rotation[0, 0] + s * rotation[1, 0])
    roll = math.atan2(
        s * rotation[0, 2] - c * rotation[1, 2],
        c * rotation[1, 1] - s * rotation[0, 1],
    )
    return np.array([roll, pitch, yaw])


def principal(central, tolerance: float, wanted=None) -> tuple[np.ndarray, np.ndarray]:
    """Moments and axes (a rotation) of the inertia about a centre of mass.

    Axes are the `wanted` ones where the matrix is diagonal in them, to the tolerance, or else the given ones where it is that.
    A largest moment that is above the sum of the others by no more than the tolerance is that sum, and a negative one by no more
    than that is zero: so rounding leaves a rod or a plate what it is.
    """
    central = np.asarray(central, float)
    seen = np.eye(3) if wanted is None else wanted.T @ central @ wanted
    if wanted is not None and np.abs(seen - np.diag(np.diag(seen))).max() <= tolerance:
        moments, axes = np.diag(seen).copy(), wanted
    elif np.array_equal(central, np.diag(np.diag(central))):
        moments, axes = np.diag(central).copy(), np.eye(3)
    else:
        moments, axes = np.linalg.eigh(central)
        axes[:, 2] *= np.sign(np.linalg.det(axes))
    moments = np.where((moments < 0) & (moments >= -tolerance), 0.0, moments)
    k = int(np.argmax(moments))
    others = np.delete(moments, k)
    if 0 < moments[k] - (others[0] + others[1]) <= tolerance:
        moments[k] = others[0] + others[1]
    return moments, axes


def xml_text(root: ElementTree.Element) -> str:
    """The text of an XML file."""
    ElementTree.indent(root)
    return f"{ElementTree.tostring(root, encoding='unicode')}\n"


def check_name(what: str, name: str) -> None:
    """Refuse a name that no XML file can have in it."""
    legal = all(
        x in "\t\n\r" or (x >= " " and not "\ud800" <= x <= "\udfff" and x not in "\ufffe\uffff")
        for x in name
    )
    if not legal or not name.strip():
        raise ModelError(
            f"the {what} {name!r} has a name that XML cannot hold; give it another with rbd.rename"
        )
