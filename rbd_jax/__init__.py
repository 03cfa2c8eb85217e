"""Rigid-body dynamics in JAX."""

from . import joints as joints, spatial as spatial
from ._errors import ModelError as ModelError, ModelWarning as ModelWarning, UnknownNameError as UnknownNameError
from .dynamics import (
    bias_force as bias_force,
    body_accelerations as body_accelerations,
    body_velocities as body_velocities,
    center_of_mass as center_of_mass,
    center_of_mass_jacobian as center_of_mass_jacobian,
    centroidal_momentum_matrix as centroidal_momentum_matrix,
    coriolis_matrix as coriolis_matrix,
    forward_dynamics as forward_dynamics,
    forward_kinematics as forward_kinematics,
    gravity_force as gravity_force,
    inverse_dynamics as inverse_dynamics,
    jacobian as jacobian,
    jacobian_derivative as jacobian_derivative,
    kinetic_energy as kinetic_energy,
    mass_matrix as mass_matrix,
    momentum as momentum,
    passive_force as passive_force,
    potential_energy as potential_energy,
    solve_mass_matrix as solve_mass_matrix,
)
from .model import (
    Body as Body,
    Mimic as Mimic,
    Model as Model,
    ModelBuilder as ModelBuilder,
    Tree as Tree,
    configuration_rate as configuration_rate,
    difference as difference,
    integrate as integrate,
    neutral as neutral,
    random_configuration as random_configuration,
)
from .spatial import Inertia as Inertia, Transform as Transform
