"""Conversion between this library's conventions and Pinocchio's.

|              | this library                                 | Pinocchio                                     |
|--------------|----------------------------------------------|-----------------------------------------------|
| vector       | angular first                                | linear first                                  |
| quaternion   | `w x y z`, of any length                     | `x y z w`, of unit length                     |
| free joint   | `q = [x y z, quaternion]`, `v = [ω; v]` body | the same but for the orders above             |
| continuous   | the angle                                    | `(cos, sin)`                                  |
| planar joint | `q = (θ, x, y)`, `v = (ω, vx, vy)` body      | `q = (x, y, cos θ, sin θ)`, `v = (vx, vy, ω)` |
| order        | of the bodies in the model                   | depth first, siblings by name                 |

In both libraries accelerations are the time derivatives of velocities, and generalized forces are dual to velocities. One
permutation serves all three.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .. import joints
from .._core.array import floating, is_known, pick
from .._core.errors import ModelError
from ..lie import quaternion
from ..model import Model
from ._match import inverse, mismatch, pairs, sample, table


#: Joint types whose coordinates both libraries store alike, and the names of Pinocchio's types.
ALIKE: dict[type[joints.Joint], tuple[str, ...]] = {
    joints.Revolute: ("JointModelRX", "JointModelRY", "JointModelRZ", "JointModelRevoluteUnaligned"),
    joints.Prismatic: ("JointModelPX", "JointModelPY", "JointModelPZ", "JointModelPrismaticUnaligned"),
    joints.Helical: ("JointModelHX", "JointModelHY", "JointModelHZ", "JointModelHelicalUnaligned"),
    joints.Translational: ("JointModelTranslation",),
}
CONTINUOUS = ("JointModelRUBX", "JointModelRUBY", "JointModelRUBZ", "JointModelRevoluteUnboundedUnaligned")


class PinocchioMap:
    """Converts states of `model` to those of a `pinocchio.Model` of the same robot, and back.

    Joints are matched by name; `names={"ours": "theirs"}` matches joints whose names differ. Coupled mimic joints have no
    coordinates in this library. If the model has any, build the Pinocchio model with `mimic=True`, or load the model with
    `mimic="free"`.

    >>> import pinocchio
    >>> inertial = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    >>> urdf = f'<robot name="box"><link name="box">{inertial}</link></robot>'
    >>> model = rbd.load_urdf(urdf, floating_base=True)
    >>> theirs = pinocchio.buildModelFromXML(urdf, pinocchio.JointModelFreeFlyer())
    >>> between = rbd.interop.PinocchioMap(model, theirs, names={model.joint_names[0]: "root_joint"})
    >>> q = jnp.array([1.0, 2.0, 3.0, 0.6, 0.0, 0.0, 0.8])
    >>> print(between.configuration(q))  # their quaternion has its scalar last
    [1.  2.  3.  0.  0.  0.8 0.6]
    >>> print(between.velocity(jnp.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])))
    [4. 5. 6. 1. 2. 3.]
    """

    def __init__(self, model: Model, pin_model: Any, names: Mapping[str, str] | None = None):
        self.nq, self.nv = model.nq, model.nv
        self.pin_nq, self.pin_nv = pin_model.nq, pin_model.nv
        if self.nv != self.pin_nv:
            raise ModelError(
                f"model {model.name!r} has nv = {self.nv}, the Pinocchio model {self.pin_nv}: one of them "
                "has a floating base, locked joints or coupled mimic joints that the other does not have"
            )
        theirs = {}
        for index, name in enumerate(pin_model.names):
            if index and pin_model.joints[index].nq and "Mimic" not in pin_model.joints[index].shortname():
                theirs[name] = pin_model.joints[index]
        # Pinocchio's configuration is gathered from [q, cosines, sines, unit quaternions], the configuration of this
        # library from [q_pin, angles].
        take = np.zeros(self.pin_nq, int)
        take_from = np.zeros(self.nq, int)
        order = np.zeros(self.pin_nv, int)
        angles, turns, quaternions = [], [], []
        for body, name in pairs(model, list(theirs), names, "Pinocchio"):
            other, joint = theirs[name], model.joint(body)
            q, v = model.topology.joint_q(body), model.topology.joint_v(body)
            q_pin = other.idx_q + np.arange(other.nq)
            v_pin = other.idx_v + np.arange(other.nv)
            kind = other.shortname()
            if kind in ALIKE.get(type(joint), ()):
                take[q_pin], take_from[q], order[v_pin] = q, q_pin, v
            elif kind in CONTINUOUS and type(joint) is joints.Revolute:
                angles.append(q[0])
                turns.append(q_pin)
                order[v_pin] = v
            elif kind == "JointModelPlanar" and type(joint) is joints.Planar:
                _check_normal(model, body, joint)
                angles.append(q[0])
                turns.append(q_pin[2:])
                take[q_pin[:2]], take_from[q[1:]] = q[1:], q_pin[:2]
                order[v_pin] = v[[1, 2, 0]]
            elif kind in ("JointModelFreeFlyer", "JointModelSpherical") and type(joint) in (
                joints.Free,
                joints.Spherical,
            ):
                if len(q_pin) != len(q):
                    raise mismatch(model, body, "Pinocchio", kind)
                take[q_pin[:-4]], take_from[q[:-4]] = q[:-4], q_pin[:-4]
                take_from[q[-4:]] = q_pin[[-1, -4, -3, -2]]
                quaternions.append((q[-4:], q_pin[-4:]))
                order[v_pin] = v if len(v) == 3 else np.concatenate([v[3:], v[:3]])
            else:
                raise mismatch(model, body, "Pinocchio", kind)
        turns, count = table(turns, 2), len(angles)
        for i in range(count):
            take_from[angles[i]] = self.pin_nq + i
            take[turns[i]] = self.nq + i, self.nq + count + i
        for i, (_, entries) in enumerate(quaternions):
            take[entries] = self.nq + 2 * count + 4 * i + np.array([1, 2, 3, 0])
        self._angles, self._turns = np.array(angles, int), turns
        self._quaternions = table([ours for ours, _ in quaternions], 4)
        self._take, self._take_from, self._order = take, take_from, order
        self._back = inverse(order)

    def configuration(self, q) -> Float[Array, "pin_nq"]:
        """Returns Pinocchio's configuration, with quaternions of unit length."""
        return self._to_theirs(sample("PinocchioMap.configuration", "q", q, self.nq))

    @functools.cached_property
    def _to_theirs(self):
        def configuration(q):
            angles, turns = q[self._angles], quaternion.normalize(q[self._quaternions])
            return jnp.concatenate([q, jnp.cos(angles), jnp.sin(angles), turns.reshape(-1)])[self._take]

        return jax.jit(configuration)

    def configuration_from(self, q_pin) -> Float[Array, "nq"]:
        """Returns the configuration q, with continuous and planar angles in (-π, π]."""
        q_pin = sample("PinocchioMap.configuration_from", "q_pin", q_pin, self.pin_nq)
        turns = q_pin[self._turns]
        return jnp.concatenate([q_pin, jnp.arctan2(turns[:, 1], turns[:, 0])])[self._take_from]

    def velocity(self, v) -> Float[Array, "nv"]:
        """Returns Pinocchio's velocity."""
        return pick(sample("PinocchioMap.velocity", "v", v, self.nv), self._order)

    def velocity_from(self, v_pin) -> Float[Array, "nv"]:
        """Returns the velocity v from Pinocchio's."""
        return pick(sample("PinocchioMap.velocity_from", "v_pin", v_pin, self.nv), self._back)

    def acceleration(self, a) -> Float[Array, "nv"]:
        """Returns Pinocchio's acceleration."""
        return pick(sample("PinocchioMap.acceleration", "a", a, self.nv), self._order)

    def acceleration_from(self, a_pin) -> Float[Array, "nv"]:
        """Returns the acceleration from Pinocchio's."""
        return pick(sample("PinocchioMap.acceleration_from", "a_pin", a_pin, self.nv), self._back)

    def force(self, tau) -> Float[Array, "nv"]:
        """Returns Pinocchio's generalized force, of equal power."""
        return pick(sample("PinocchioMap.force", "tau", tau, self.nv), self._order)

    def force_from(self, tau_pin) -> Float[Array, "nv"]:
        """Returns the generalized force from Pinocchio's."""
        return pick(sample("PinocchioMap.force_from", "tau_pin", tau_pin, self.nv), self._back)

    def matrix(self, m) -> Float[Array, "nv nv"]:
        """Returns a matrix over degrees of freedom (mass, Coriolis, derivatives) with Pinocchio's rows and columns."""
        return floating(m)[np.ix_(self._order, self._order)]

    def matrix_from(self, m_pin) -> Float[Array, "nv nv"]:
        """Returns a matrix over degrees of freedom with this library's rows and columns."""
        return floating(m_pin)[np.ix_(self._back, self._back)]

    def jacobian(self, jacobian) -> Float[Array, "6 nv"]:
        """Returns a Jacobian or a momentum matrix with Pinocchio's rows (linear first) and columns."""
        return spatial_vector(floating(jacobian).T).T[:, self._order]

    def jacobian_from(self, jacobian_pin) -> Float[Array, "6 nv"]:
        """Returns a Jacobian or a momentum matrix with this library's rows (angular first) and columns."""
        return spatial_vector(floating(jacobian_pin).T).T[:, self._back]


def spatial_vector(x) -> Float[Array, "*batch 6"]:
    """Returns a motion or force vector with its halves (on the last axis) swapped: to or from Pinocchio's order.

    >>> print(rbd.interop.pinocchio.spatial_vector(jnp.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])))
    [4. 5. 6. 1. 2. 3.]
    """
    x = floating(x)
    return jnp.concatenate([x[..., 3:], x[..., :3]], axis=-1)


def spatial_matrix(m) -> Float[Array, "*batch 6 6"]:
    """Returns a 6x6 matrix (inertia, transform, ...) with its blocks swapped: to or from Pinocchio's order.

    >>> print(rbd.interop.pinocchio.spatial_matrix(jnp.diag(jnp.arange(6.0)))[0])
    [3. 0. 0. 0. 0. 0.]
    """
    return spatial_vector(jnp.swapaxes(spatial_vector(jnp.swapaxes(floating(m), -1, -2)), -1, -2))


def _check_normal(model: Model, body: int, joint) -> None:
    if not is_known(joint.normal):
        return
    normal = np.asarray(joint.normal)
    if not np.allclose(normal, [0, 0, 1]):
        raise ModelError(
            f"joint {model.joint_names[body]!r} is planar with the normal {normal.tolist()}, but Pinocchio's "
            "planar joints are in the x-y plane, whatever the axis in the file; rotate the joint's frame instead"
        )
