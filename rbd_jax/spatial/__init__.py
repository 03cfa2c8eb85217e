"""Six-dimensional vector algebra (book ch. 2 and app. A), and the planar, three-dimensional one as the same interface.

- `ArticulatedInertia`: the apparent inertia of a body that carries others
- `Screw`: a motion as a turn about an axis in space and a slide along it
- `AxialScrew`: a turn about a coordinate axis and a shift along it, at a third of the cost
- `Reference`: another attached thing, by its role and its name
- `no_frames`: the frames of what is on no body
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
- `spatial_acceleration`: of a velocity and the acceleration of a point
- `classical_acceleration`: the acceleration of a point, of the spatial one
- `AnyTransform`: a transform of space or of a plane
- `AnyInertia`: an inertia of space or of a plane
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


#: What is at the top of the library, `rbd_jax`, and was here as well.
__getattr__ = at_the_top(
    __name__,
    {
        "Attached": ".attached",
        "Inertia": ".inertia",
        "Transform": ".transform",
    },
)
