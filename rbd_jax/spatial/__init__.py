"""Six-dimensional vector algebra (book ch. 2 and app. A), and the planar, three-dimensional one as the same interface."""

from . import planar as planar
from .attached import Attached as Attached, no_frames as no_frames
from .inertia import ArticulatedInertia as ArticulatedInertia, Inertia as Inertia
from .transform import Transform as Transform
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
    power as power,
    spatial_acceleration as spatial_acceleration,
)
