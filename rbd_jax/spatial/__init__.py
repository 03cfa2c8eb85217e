"""Six-dimensional vector algebra (book ch. 2 and app. A), and planar three-dimensional algebra with the same interface.

- `ArticulatedInertia`: the apparent inertia of a body that carries others
- `Screw`: a motion as a turn about an axis in space and a slide along it
- `AxialScrew`: a turn about a coordinate axis and a shift along it, at a third of the cost
- `Reference`: a reference to another attachment, by role and name
- `no_frames`: the empty batch of frames, for attachments on no body
- `cross_motion`: `v × m`
- `cross_force`: `v ×* f`
- `cross_motion_matrix`: `v×`
- `cross_force_matrix`: `v×*`
- `cross_force_operand_matrix`: `f ×̄*`
- `parts`: the angular and the linear part of a vector
- `motion_shift`: a motion vector about another point
- `moment_shift`: a force vector about another point
- `inertia_shift`: an articulated inertia about another point
- `power`: the scalar product of a motion and a force
- `spatial_acceleration`: the spatial acceleration, from the velocity and the acceleration of a point
- `classical_acceleration`: the acceleration of a point, from the spatial acceleration
- `AnyTransform`: a spatial or planar transform
- `AnyInertia`: a spatial or planar inertia
- `planar`: the same algebra for motion in a plane
"""

__all__ = [
    "ArticulatedInertia",
    "Screw",
    "AxialScrew",
    "Reference",
    "no_frames",
    "cross_motion",
    "cross_force",
    "cross_motion_matrix",
    "cross_force_matrix",
    "cross_force_operand_matrix",
    "parts",
    "motion_shift",
    "moment_shift",
    "inertia_shift",
    "power",
    "spatial_acceleration",
    "classical_acceleration",
    "AnyTransform",
    "AnyInertia",
    "planar",
]


from .._core.deprecation import at_the_top
from . import planar as planar
from .algebras import AnyInertia as AnyInertia, AnyTransform as AnyTransform
from .attached import Reference as Reference, no_frames as no_frames
from .axial_screw import AxialScrew as AxialScrew
from .inertia import ArticulatedInertia as ArticulatedInertia
from .vectors import (
    Screw as Screw,
    classical_acceleration as classical_acceleration,
    cross_force as cross_force,
    cross_force_matrix as cross_force_matrix,
    cross_force_operand_matrix as cross_force_operand_matrix,
    cross_motion as cross_motion,
    cross_motion_matrix as cross_motion_matrix,
    inertia_shift as inertia_shift,
    moment_shift as moment_shift,
    motion_shift as motion_shift,
    parts as parts,
    power as power,
    spatial_acceleration as spatial_acceleration,
)


#: Names that moved to the top of the library, `rbd_jax`.
__getattr__ = at_the_top(
    __name__,
    {
        "Attached": ".attached",
        "Inertia": ".inertia",
        "Transform": ".transform",
    },
)
