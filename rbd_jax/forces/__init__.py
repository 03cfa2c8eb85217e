"""Forces on a model: springs, dampers, muscles, cables, gears, joint limits, fields. Each family has its own file.

Along joints:

- `JointLimit`: one-sided springs at the model's position limits
- `BristleFriction`: dry friction with an internal state (LuGre)
- `Bearing`: dry friction that depends on the constraint forces of the joint
- `Gear`: two joints coupled by elastic teeth
- `mesh_gears`: the model with two joints in a rigid gear
- `add_rotor`: the model with a geared rotor as a body
- `reflect_rotor`: the model with a geared rotor as armature

Between points:

- `SpringDamper`: a spring and a damper between two points
- `PointToPoint`: a linear spring between two points
- `SpringNetwork`: springs along many edges
- `Cable`: an elastic cable along a path
- `Muscle`: a muscle along a path
- `ActivatedMuscle`: a muscle with activation dynamics
- `ACTIVE_LENGTH`: active force of a muscle as a function of its length
- `PASSIVE_LENGTH`: passive force of a muscle as a function of its length
- `FORCE_VELOCITY`: active force of a muscle as a function of its velocity
- `add_deformable`: adds point masses joined by springs to a model builder

Tendons:

- `FixedTendon`: a linear combination of joint coordinates
- `SpatialTendon`: a string through points
- `Pulley`: the start of another string of a spatial tendon
- `Around`: a sphere or a cylinder that a spatial tendon wraps around
- `Tendon`: the base class of tendons
- `tendon_lengths`: the length of each tendon
- `tendon_velocities`: the rate of each length
- `tendon_moments`: the moment arms

On bodies:

- `DirectionalForce`: a constant force in the world's axes
- `ViscousDamping`: a wrench opposite to the velocity of a frame
- `GravityField`: the force of a gravitational potential on every body
- `CentralPotential`: the potential of a point mass
- `GravityCompensation`: a force that cancels the gravity of bodies
- `BoxDrag`: fluid drag on bodies, modeled as cuboids
- `EllipsoidDrag`: fluid drag and lift on bodies, modeled as ellipsoids
- `FluidForce`: the base class of both

Actuators: see `rbd.actuators`, a part of this package.

All forces of a model:

- `carried_forces`: all forces that a model carries
- `activation_places`: the indices of its activations among the internal states of its forces

Custom forces:

- `Force`: the base class of all forces
- `BodyForce`: the base class of forces on bodies
- `PointForce`: the base class of forces at points
- `PathForce`: the base class of tensions along a path
- `Together`: several forces as one
- `JointFriction`: bounded friction along joints over a step
- `Bodies`: a set of bodies in maximal coordinates
"""

__all__ = [
    "JointLimit",
    "BristleFriction",
    "Bearing",
    "Gear",
    "mesh_gears",
    "add_rotor",
    "reflect_rotor",
    "SpringDamper",
    "PointToPoint",
    "SpringNetwork",
    "Cable",
    "Muscle",
    "ActivatedMuscle",
    "ACTIVE_LENGTH",
    "PASSIVE_LENGTH",
    "FORCE_VELOCITY",
    "add_deformable",
    "FixedTendon",
    "SpatialTendon",
    "Pulley",
    "Around",
    "Tendon",
    "tendon_lengths",
    "tendon_velocities",
    "tendon_moments",
    "DirectionalForce",
    "ViscousDamping",
    "GravityField",
    "CentralPotential",
    "GravityCompensation",
    "BoxDrag",
    "EllipsoidDrag",
    "FluidForce",
    "carried_forces",
    "activation_places",
    "Force",
    "BodyForce",
    "PointForce",
    "PathForce",
    "Together",
    "JointFriction",
    "Bodies",
]


from .._core.deprecation import at_the_top
from ..dynamics import Bodies as Bodies
from ._body import BodyForce as BodyForce
from ._point import PathForce as PathForce, PointForce as PointForce
from .bearing import Bearing as Bearing
from .bristle_friction import BristleFriction as BristleFriction
from .cable import Cable as Cable
from .carried import activation_places as activation_places, carried_forces as carried_forces
from .deformable import add_deformable as add_deformable
from .directional_force import DirectionalForce as DirectionalForce
from .fluid import BoxDrag as BoxDrag, EllipsoidDrag as EllipsoidDrag, FluidForce as FluidForce
from .force import Force as Force, Together as Together
from .gear import (
    Gear as Gear,
    add_rotor as add_rotor,
    mesh_gears as mesh_gears,
    reflect_rotor as reflect_rotor,
)
from .gravity_compensation import GravityCompensation as GravityCompensation
from .gravity_field import CentralPotential as CentralPotential, GravityField as GravityField
from .joint_friction import JointFriction as JointFriction
from .joint_limit import JointLimit as JointLimit
from .muscle import (
    ACTIVE_LENGTH as ACTIVE_LENGTH,
    FORCE_VELOCITY as FORCE_VELOCITY,
    PASSIVE_LENGTH as PASSIVE_LENGTH,
    ActivatedMuscle as ActivatedMuscle,
    Muscle as Muscle,
)
from .point_to_point import PointToPoint as PointToPoint
from .spring_damper import SpringDamper as SpringDamper
from .spring_network import SpringNetwork as SpringNetwork
from .tendon import (
    Around as Around,
    FixedTendon as FixedTendon,
    Pulley as Pulley,
    SpatialTendon as SpatialTendon,
    Tendon as Tendon,
    tendon_lengths as tendon_lengths,
    tendon_moments as tendon_moments,
    tendon_velocities as tendon_velocities,
)
from .viscous_damping import ViscousDamping as ViscousDamping


#: Deprecated aliases of names that are now at the top of the library, `rbd_jax`.
__getattr__ = at_the_top(
    __name__,
    {
        "Motion": "..dynamics",
        "add_forces": ".force",
    },
)
