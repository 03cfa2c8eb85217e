"""Converts numbers and rotations to text without loss of precision."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import numpy as np

from ..._core.errors import ModelError


def text(numbers) -> str:
    """Returns numbers with as many digits as they need, separated by spaces; integers have no decimal point."""
    return " ".join(_one(x) for x in np.ravel(np.asarray(numbers, float)).tolist())


def _one(x: float) -> str:
    whole = x.is_integer() and abs(x) < 1e15 and math.copysign(1, x) * x >= 0
    return str(int(x)) if whole else repr(x)


def angles(rotation) -> np.ndarray:
    """Returns roll, pitch and yaw, `R = Rz(yaw) Ry(pitch) Rx(roll)`, accurate also near a pitch of ±π/2."""
    yaw = math.atan2(rotation[1, 0], rotation[0, 0])
    s, c = math.sin(yaw), math.cos(yaw)
    pitch = math.atan2(-rotation[2, 0], c * rotation[0, 0] + s * rotation[1, 0])
    roll = math.atan2(
        s * rotation[0, 2] - c * rotation[1, 2],
        c * rotation[1, 1] - s * rotation[0, 1],
    )
    return np.array([roll, pitch, yaw])


def principal(central, tolerance: float, wanted=None) -> tuple[np.ndarray, np.ndarray]:
    """Returns principal moments and axes (a rotation) of the inertia about the center of mass.

    The axes are `wanted` if the matrix is diagonal in them to within the tolerance, else the axes of the matrix if it is
    diagonal, else the eigenvectors.
    A largest moment that exceeds the sum of the others by at most the tolerance is replaced by that sum. A negative moment
    of at most the tolerance becomes zero. So rounding does not make the inertia of a rod or a plate inconsistent.
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
    """Returns the text of an XML file."""
    ElementTree.indent(root)
    return f"{ElementTree.tostring(root, encoding='unicode')}\n"


def check_name(what: str, name: str) -> None:
    """Refuses a name that XML cannot contain."""
    legal = all(
        x in "\t\n\r" or (x >= " " and not "\ud800" <= x <= "\udfff" and x not in "\ufffe\uffff")
        for x in name
    )
    if not legal or not name.strip():
        raise ModelError(f"the name of {what} {name!r} cannot be written in XML; change it with rbd.rename")
