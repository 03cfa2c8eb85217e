"""What acts on a model besides its joints: springs, dampers, muscles, cables, gears, limits, fields. One family a file."""

from ..dynamics import Bodies as Bodies, Motion as Motion
from ._body import BodyForce as BodyForce, on_bodies as on_bodies
from ._force import Force as Force, Together as Together, add_forces as add_forces
from ._point import PathForce as PathForce, PointForce as PointForce
from .bristle_friction import BristleFriction as BristleFriction
from .cable import Cable as Cable
from .deformable import add_deformable as add_deformable
from .directional_force import DirectionalForce as DirectionalForce
from .gear import (
    Gear as Gear,
    add_rotor as add_rotor,
    mesh_gears as mesh_gears,
    reflect_rotor as reflect_rotor,
)
from .gravity_field import CentralPotential as CentralPotential, GravityField as GravityField
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
from .viscous_damping import ViscousDamping as ViscousDamping
