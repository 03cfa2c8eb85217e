"""The bodies of a model as the writers need them: one by one, as NumPy arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import numpy as np

from ..._core.arguments import a_model
from ..._core.array import is_known
from ..._core.errors import ModelError
from ...model import Body, Model
from ...model.builder import ALONG_JOINT, describe
from .numerals import check_name


def bodies_of(function: str, model: Model) -> list[Body]:
    """Returns the bodies of a model in double precision, after checking that values are known and finite and names fit XML."""
    a_model(function, model)
    if not is_known(model):
        raise ModelError(
            f"{function}: the parameters of model {model.name!r} are traced; write it outside of jit and grad"
        )
    if np.ndim(model.gravity) != 1:
        raise ModelError(
            f"{function}: model {model.name!r} is a batch of {np.shape(model.gravity)[0]}; write one sample: "
            "jax.tree.map(lambda x: x[0], model)"
        )
    found = [_in_numpy(body) for body in describe(model)]
    for body in found:
        check_name("body", body.name)
        check_name("joint", body.joint_name)
        leaves = {name: getattr(body, name) for name in ("placement", "inertia", "joint")}
        for name, value in (leaves | _along(body)).items():
            bad = np.isnan if name in ALONG_JOINT else lambda x: ~np.isfinite(x)
            if any(bad(np.asarray(leaf)).any() for leaf in jax.tree.leaves(value)):
                raise ModelError(f"{function}: {name} of body {body.name!r} is not finite; see rbd.check")
        if body.inertia.mass == 0 and np.any(body.inertia.first_moment):
            raise ModelError(f"{function}: body {body.name!r} has a first moment but no mass")
    return found


def _along(body: Body) -> dict:
    return {name: getattr(body, name) for name in ALONG_JOINT}


def _in_numpy(body: Body) -> Body:
    """Returns a body with NumPy leaves. Maps over trees, because the constructors convert to JAX arrays."""
    double = lambda tree: jax.tree.map(lambda leaf: np.asarray(leaf, float), tree)
    size = {name: np.size(getattr(body, name)) for name in ALONG_JOINT}
    return replace(
        body,
        **{name: double(getattr(body, name)) for name in ("placement", "inertia", "joint")},
        **{
            name: np.asarray(value, float).reshape(size[name])
            for name, value in _along(body).items()
            if value is not None
        },
    )


@dataclass(frozen=True)
class Mass:
    """The inertia of a body as file formats express it: mass, center of mass, and central moments in the axes of the body."""

    mass: float
    com: np.ndarray
    central: np.ndarray
    #: Bound of the rounding error of the moments.
    tolerance: float

    @staticmethod
    def of(body: Body, eps: float) -> Mass:
        mass, first = float(body.inertia.mass), np.asarray(body.inertia.first_moment)
        xx, xy, yy, xz, yz, zz = np.asarray(body.inertia.rotational)
        about = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        com = first / mass if mass else np.zeros(3)
        central = about - (first @ com * np.eye(3) - np.outer(first, com))
        return Mass(mass, com, central, 64 * eps * abs(np.trace(about)))

    def joined(self, other: Mass, rotation, position) -> Mass:
        """Returns the sum with the inertia of a welded body, whose frame has this pose in the frame of this body."""
        mass, com = self.mass + other.mass, rotation @ other.com + position
        center = (self.mass * self.com + other.mass * com) / mass if mass else np.zeros(3)
        central = self.central + rotation @ other.central @ rotation.T
        for m, at in ((self.mass, self.com - center), (other.mass, com - center)):
            central = central + m * (at @ at * np.eye(3) - np.outer(at, at))
        return Mass(mass, center, central, self.tolerance + other.tolerance)

    @property
    def empty(self) -> bool:
        return self.mass == 0 and not self.central.any()
