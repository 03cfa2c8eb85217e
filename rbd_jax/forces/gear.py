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
    """Two joints of a model meshed through elastic teeth: `q_driven = ratio q_driver + offset`, give or take.

    The slip `e = q_driven - ratio q_driver - offset` makes the force `-(k e + d ė)` at the driven joint and
    `ratio (k e + d ė)` at the driver. Both joints keep their
    degree of freedom; for teeth that do not give, see `mesh_gears`.

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
    """The model with two of its joints in a rigid gear: `q_driven = ratio q_driver + offset` (eq. 9.26).

    The driven joint has no coordinates of its own any more. Both joints have one degree of freedom. Ratio and offset may be
    traced.

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
    """The model with the rotor of a geared motor as one more body, which turns `ratio` times as far as `joint`.

    Nothing is left out: the rotor's reflected inertia, what couples it to the motion of its stator, and its gyroscopic
    moments (eqs. 9.26 and 9.27). Each such joint makes forward dynamics solve with a dense mass matrix; `reflect_rotor`,
    which takes the same arguments, does not.

    **Arguments**

    - `ratio`: turns of the rotor for one of the joint; negative where it turns the other way.
    - `inertia`: of the rotor, in its own frame.
    - `axis`: about which it turns, in its frame.
    - `stator`: the body, or `"world"`, that holds the motor; by default the one that the joint is attached to.
    - `placement`: of the rotor's frame in the stator; by default that of the joint.
    - `name`: of the new body and its joint; by default that of the joint and `rotor`.

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
    """The model with the rotor of a geared motor as armature: `ratio²` times its moment of inertia (book ex. 9.5).

    What it leaves out, beside `add_rotor`, is `ratio q̇ I e · ω` of the kinetic energy, I and e the rotor's moment and axis, q̇
    the rate of the joint and ω the turning of the stator: a coupling of the joint with those before it, and gyroscopic moments.
    That is nothing where the stator does not turn about the rotor's axis, and beside the armature it is as 1 to the ratio. A
    rotor that is not balanced on its axis, or not the same all around it, is for `add_rotor`.

    **Arguments**

    - `ratio`: turns of the rotor for one of the joint.
    - `inertia`: the `Inertia` of the rotor, in its own frame, which is a part of its stator then; or only its moment about its
      axis, in kg m², where the stator has its mass already.
    - `axis`, `stator`, `placement`: for an `Inertia`, as for `add_rotor`.

    >>> rotor = rbd.Inertia.cylinder(mass=0.2, radius=0.03, length=0.05)
    >>> model = rbd.forces.reflect_rotor(rbd.load("double_pendulum"), "elbow", 50.0, rotor, axis=(0, 1, 0))
    >>> print(model.inertias.mass, model.armature)
    [1.2 1. ] [0.    0.217]
    """
    ratio = number("reflect_rotor", "ratio", ratio)
    dofs = model.v_slice(joint)
    if dofs.stop - dofs.start != 1:
        raise ModelError(
            f"reflect_rotor: joint {joint!r} does not have one degree of freedom, and a motor drives one"
        )
    if isinstance(inertia, Inertia):
        model, inertia = _carried(
            model, joint, inertia, (0.0, 0.0, 1.0) if axis is None else axis, stator, placement
        )
    elif not (axis is stator is placement is None):
        raise ModelError(
            "reflect_rotor: inertia is a moment about the rotor's axis, and then its mass is part of the model already; give an "
            "Inertia to say where it is"
        )
    inertia = number("reflect_rotor", "inertia", inertia, least=0)
    driven = np.arange(model.nv) == dofs.start
    added = jnp.where(driven, (ratio**2 * inertia).astype(model.dtype), 0)
    return replace(model, armature=model.armature + added)


def _carried(model: Model, joint: str, inertia: Inertia, axis, stator, placement):
    """The model with a rotor as a part of its stator, and the rotor's moment about its axis."""
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
