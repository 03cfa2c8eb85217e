"""Gears (book §9.6): rigid ones and rotors as models, elastic ones as forces.

A rigid gear is no force but a constraint, `q_driven = ρ q_driver`, and what it couples shows up in the mass matrix as
`Gᵀ H G` (eqs. 9.26 and 9.27). The joints of a model that mimic others are eliminated in just this way, so a rigid gear
is a model with one more mimicking joint. A rotor behind a gear is a body of its own on such a joint, or, short and good where
ratios are large, ρ² times its inertia on the driven degree of freedom (eq. 9.28).
"""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._arguments import names, number
from .._errors import ModelError
from ..joints import Revolute
from ..model import Mimic, Model, ModelBuilder
from ..spatial import Inertia, Transform
from ._force import Force


class Gear(Force):
    """Two joints of a model meshed through elastic teeth: `q_driven = ratio q_driver + offset`, give or take.

    The slip `e = q_driven - ratio q_driver - offset` makes the force `-(k e + d ė)` at the driven joint and
    `ratio (k e + d ė)` at the driver. Both joints keep their
    degree of freedom; for teeth that do not give, see `mesh_gears`.
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
    """The model with two of its joints in a rigid gear: `q_driven = ratio q_driver + offset` (eq. 9.26).

    The driven joint has no coordinates of its own any more. Both joints have one degree of freedom. Ratio and offset may be
    traced.
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
    """The model with the rotor of a geared motor as one more body, which turns `ratio` times as far as `joint`.

    Nothing is left out: the rotor's reflected inertia, what couples it to the motion of its stator, and its gyroscopic
    moments (eqs. 9.26 and 9.27). Each such joint makes forward dynamics solve with a dense mass matrix; `reflect_rotor`
    does not.

    **Arguments**

    - `ratio`: turns of the rotor for one of the joint; negative where it turns the other way.
    - `inertia`: of the rotor, in its own frame.
    - `axis`: about which it turns, in its frame.
    - `stator`: the body, or `"world"`, that holds the motor; by default the one that the joint is attached to.
    - `placement`: of the rotor's frame in the stator; by default that of the joint.
    - `name`: of the new body and its joint; by default that of the joint and `rotor`.
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


def reflect_rotor(model: Model, joint: str, ratio, inertia) -> Model:
    """The model with the rotor of a geared motor as armature: `ratio²` times its moment of inertia (book ex. 9.5).

    It leaves out the rotor's smaller couplings and its gyroscopic moments, which is good where the ratio is large. The
    mass of the rotor belongs to the body that holds the motor.

    **Arguments**

    - `ratio`: turns of the rotor for one of the joint.
    - `inertia`: the moment of inertia of the rotor about its axis, in kg m².
    """
    ratio, inertia = (
        number("reflect_rotor", "ratio", ratio),
        number("reflect_rotor", "inertia", inertia, least=0),
    )
    dofs = model.v_slice(joint)
    if dofs.stop - dofs.start != 1:
        raise ModelError(
            f"reflect_rotor: joint {joint!r} does not have one degree of freedom, and a motor drives one"
        )
    driven = np.arange(model.nv) == dofs.start
    added = jnp.where(driven, (ratio**2 * inertia).astype(model.dtype), 0)
    return replace(model, armature=model.armature + added)
