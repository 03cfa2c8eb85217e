"""What acts on a model besides its joints: springs, dampers, muscles, cables, gears, limits, fields. One family a file.

Along joints:

- `JointLimit`: stops at the model's position limits
- `BristleFriction`: dry friction with a state of its own (LuGre)
- `Bearing`: dry friction that grows with what the joint bears
- `Gear`: two joints meshed through elastic teeth
- `mesh_gears`: the model with two joints in a rigid gear
- `add_rotor`: the model with a geared rotor as a body
- `reflect_rotor`: the model with a geared rotor as armature

Between points:

- `SpringDamper`: a spring and a damper between two points
- `PointToPoint`: a linear spring between two points
- `SpringNetwork`: springs along many edges
- `Cable`: an elastic cable along a path
- `Muscle`: a muscle along a path
- `ActivatedMuscle`: a muscle with an activation of its own
- `ACTIVE_LENGTH`: a muscle's active force by its length
- `PASSIVE_LENGTH`: its passive force by its length
- `FORCE_VELOCITY`: its force by its speed
- `add_deformable`: point masses joined by springs, added to what is being built

Tendons:

- `FixedTendon`: a sum of coordinates
- `SpatialTendon`: a string through points
- `Pulley`: where its next string begins
- `Around`: a sphere or a cylinder that it wraps around
- `Tendon`: what every tendon inherits from
- `tendon_lengths`: the length of each
- `tendon_velocities`: the rate of that
- `tendon_moments`: the moment arms

On bodies:

- `DirectionalForce`: constant, in the world's axes
- `ViscousDamping`: against the velocity of a frame
- `GravityField`: the pull of a potential on every body
- `CentralPotential`: that of a point mass
- `GravityCompensation`: what holds bodies up
- `BoxDrag`: of a fluid on bodies, as on cuboids
- `EllipsoidDrag`: of a fluid on bodies, as on ellipsoids; with lift
- `FluidForce`: what both inherit from

Actuators: see `rbd.actuators`, which is a part of this.

All together:

- `carried_forces`: all that acts on a model by what it carries
- `activation_places`: where its activations are among the states that forces have themselves

Your own:

- `Force`: what every force inherits from
- `BodyForce`: what forces on bodies inherit from
- `PointForce`: what pulls at points inherit from
- `PathForce`: what tensions along a path inherit from
- `Together`: several forces as one
- `JointFriction`: bounded friction along joints over a step
- `Bodies`: some of its bodies in maximal coordinates
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


#: What is at the top of the library, `rbd_jax`, and was here as well.
__getattr__ = at_the_top(
    __name__,
    {
        "Motion": "..dynamics",
        "add_forces": ".force",
    },
)
