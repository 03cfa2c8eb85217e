"""Gears (book §9.6): rigid gears and rotors as models, elastic gears as forces.

A rigid gear is not a force but a constraint, `q_driven = ρ q_driver`, and the coupling appears in the mass matrix as `Gᵀ H G`
(eqs. 9.26 and 9.27). Mimic joints are eliminated in the same way, so a rigid gear is a model with one more mimic joint. A rotor
behind a gear is a separate body on such a joint. For large ratios, ρ² times its inertia on the driven degree of freedom is a
good approximation (eq. 9.28).
"""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import direction, names, number
from .._core.array import dot, matvec
from .._core.errors import ModelError
from ..joints import Revolute
from ..model import Mimic, Model, ModelBuilder
from ..model.lumping import with_inertias_added
from ..spatial.inertia import Inertia
from ..spatial.transform import Transform
from .force import Force


class Gear(Force):
    """Two joints of a model coupled by elastic teeth: `q_driven ≈ ratio q_driver + offset`.

    The slip `e = q_driven - ratio q_driver - offset` causes the force `-(k e + d ė)` at the driven joint and
    `ratio (k e + d ė)` at the driver. Both joints keep their degree of freedom; for rigid teeth, see `mesh_gears`.

    >>> teeth = rbd.forces.Gear("shoulder", "elbow", ratio=-2.0, spring_constant=100.0)
    >>> print(teeth(rbd.load("double_pendulum"), jnp.array([0.1, 0.0]), jnp.zeros(2)))
    [-40. -20.]
    """

    driver: str = eqx.field(static=True)
    driven: str = eqx.field(static=True)
    ratio: Float[Array, ""]
    spring_constant: Float[Array, ""]
    damping_constant: Float[Array, ""]
    offset: Float[Array, ""]

    def __init__(self, driver, driven, ratio, spring_constant, damping_constant=0.0, offset=0.0):
        self.driver, self.driven = names("Gear", "driver and driven", (driver, driven), 2)
        if driver == driven:
            raise ValueError(f"Gear: joint {driver!r} cannot drive itself; name two joints")
        self.ratio = number("Gear", "ratio", ratio)
        self.spring_constant = number("Gear", "spring_constant", spring_constant, least=0)
        self.damping_constant = number("Gear", "damping_constant", damping_constant, least=0)
        self.offset = number("Gear", "offset", offset)

    @property
    def joints(self):
        return (self.driver, self.driven)

    def attached(self, bodies, frames, joints):
        return self.changed(driver=joints[0], driven=joints[1])

    def generalized_force(self, motion):
        driver, driven = motion.speeds(self.joints)
        force = self.spring_constant * self._slip(motion) + self.damping_constant * (
            driven - self.ratio * driver
        )
        return motion.along(self.joints, jnp.stack([self.ratio * force, -force]))

    def stored_energy(self, motion):
        return 0.5 * self.spring_constant * self._slip(motion) ** 2

    def _slip(self, motion):
        driver, driven = motion.coordinates(self.joints)
        return driven - self.ratio * driver - self.offset


def mesh_gears(model: Model, driver: str, driven: str, ratio, offset=0.0) -> Model:
    """Returns the model with two of its joints in a rigid gear: `q_driven = ratio q_driver + offset` (eq. 9.26).

    The driven joint loses its own coordinate. Both joints must have one degree of freedom. Ratio and offset may be traced.

    Args:
      model: The model.
      driver: Name of the driving joint.
      driven: Name of the driven joint.
      ratio: Turns of the driven joint per turn of the driver.
      offset: Coordinate of the driven joint if the driver's is zero.

    >>> model = rbd.forces.mesh_gears(rbd.load("double_pendulum"), "shoulder", "elbow", ratio=-2.0)
    >>> print(model.nv, rbd.mass_matrix(model, jnp.zeros(1)))
    1 [[1.002]]
    """
    builder = ModelBuilder.from_model(model)
    body = model.topology.joint_index(driven)
    model.topology.joint_index(driver)
    if (followed := builder.bodies[body].mimic) is not None:
        raise ModelError(f"mesh_gears: joint {driven!r} is driven by {followed.leader!r} already")
    builder.bodies[body] = replace(builder.bodies[body], mimic=Mimic(driver, ratio, offset))
    return builder.lay_out()


def add_rotor(
    model: Model,
    joint: str,
    ratio,
    inertia: Inertia,
    *,
    axis=(0.0, 0.0, 1.0),
    stator: str | None = None,
    placement: Transform | None = None,
    name: str | None = None,
) -> Model:
    """Returns the model with the rotor of a geared motor as an additional body that turns `ratio` times as far as `joint`.

    The result includes all effects: the rotor's reflected inertia, its coupling to the motion of the stator, and its gyroscopic
    moments (eqs. 9.26 and 9.27). With such a joint, forward dynamics solves with a dense mass matrix. `reflect_rotor` takes the
    same arguments and avoids this.

    Args:
      model: The model.
      joint: Name of the joint.
      ratio: Turns of the rotor per turn of the joint; negative for opposite directions.
      inertia: Inertia of the rotor, in its own frame.
      axis: Axis of rotation, in the rotor's frame.
      stator: The body, or `"world"`, that holds the motor. Default: the body that the joint is attached to.
      placement: Placement of the rotor's frame in the stator. Default: that of the joint.
      name: Name of the new body and its joint. Default: the name of the joint followed by `rotor`.

    >>> rotor = rbd.Inertia.cylinder(mass=0.2, radius=0.03, length=0.05)
    >>> model = rbd.load("double_pendulum")
    >>> exact = rbd.forces.add_rotor(model, "elbow", 50.0, rotor, axis=(0, 1, 0))
    >>> brief = rbd.forces.reflect_rotor(model, "elbow", 50.0, rotor, axis=(0, 1, 0))
    >>> q = rbd.neutral(model)
    >>> print(rbd.mass_matrix(exact, q) - rbd.mass_matrix(brief, q))  # ratio times the moment of inertia
    [[0.    0.004]
     [0.004 0.   ]]
    """
    builder = ModelBuilder.from_model(model)
    driven = builder.bodies[model.topology.joint_index(joint)]
    builder.add_body(
        f"{joint} rotor" if name is None else name,
        driven.parent if stator is None else stator,
        Revolute(axis),
        driven.placement if placement is None else placement,
        inertia,
        mimic=Mimic(joint, ratio),
    )
    return builder.lay_out()


def reflect_rotor(
    model: Model,
    joint: str,
    ratio,
    inertia,
    *,
    axis=None,
    stator: str | None = None,
    placement: Transform | None = None,
) -> Model:
    """Returns the model with the rotor of a geared motor as armature: `ratio²` times its moment of inertia (book ex. 9.5).

    Compared with `add_rotor`, it ignores the kinetic energy `ratio q̇ I e · ω`, with the rotor's moment I and axis e, the
    rate q̇ of the joint and the angular velocity ω of the stator. This term couples the joint to the preceding joints and
    causes gyroscopic moments. It is zero if the stator does not turn about the rotor's axis; otherwise it is 1 / ratio of the
    armature in size. Use `add_rotor` for a rotor that is not balanced on its axis, or not symmetric about it.

    Args:
      model: The model.
      joint: Name of the joint.
      ratio: Turns of the rotor per turn of the joint.
      inertia: The `Inertia` of the rotor, in its own frame, which becomes a part of the stator; or only its moment about its
        axis, in kg m², if the stator includes its mass already.
      axis: For an `Inertia`, as for `add_rotor`.
      stator: For an `Inertia`, as for `add_rotor`.
      placement: For an `Inertia`, as for `add_rotor`.

    >>> rotor = rbd.Inertia.cylinder(mass=0.2, radius=0.03, length=0.05)
    >>> model = rbd.forces.reflect_rotor(rbd.load("double_pendulum"), "elbow", 50.0, rotor, axis=(0, 1, 0))
    >>> print(model.inertias.mass, model.armature)
    [1.2 1. ] [0.    0.217]
    """
    ratio = number("reflect_rotor", "ratio", ratio)
    dofs = model.v_slice(joint)
    if dofs.stop - dofs.start != 1:
        raise ModelError(
            f"reflect_rotor: joint {joint!r} must have one degree of freedom to be driven by a motor"
        )
    if isinstance(inertia, Inertia):
        model, inertia = _carried(
            model, joint, inertia, (0.0, 0.0, 1.0) if axis is None else axis, stator, placement
        )
    elif not (axis is stator is placement is None):
        raise ModelError(
            "reflect_rotor: inertia is a moment about the rotor's axis, so its mass is part of the model already; give an "
            "Inertia to use axis, stator or placement"
        )
    inertia = number("reflect_rotor", "inertia", inertia, least=0)
    driven = np.arange(model.nv) == dofs.start
    added = jnp.where(driven, (ratio**2 * inertia).astype(model.dtype), 0)
    return replace(model, armature=model.armature + added)


def _carried(model: Model, joint: str, inertia: Inertia, axis, stator, placement):
    """Returns the model with a rotor as a part of its stator, and the rotor's moment about its axis."""
    body, axis = model.topology.joint_index(joint), direction("reflect_rotor", axis).astype(model.dtype)
    holder = (
        model.topology.parents[body]
        if stator is None
        else -1
        if stator == "world"
        else model.body_index(stator)
    )
    moment = dot(axis, matvec(inertia.rotational_matrix.astype(model.dtype), axis))
    if holder < 0:
        return model, moment
    at = model.placements[body] if placement is None else placement
    return with_inertias_added(model, {holder: inertia.placed(at)}), moment
