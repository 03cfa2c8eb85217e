"""The algorithms on trees: kinematics, inverse and forward dynamics, and what follows from them (book ch. 4 to 7, 9)."""

from .bodies import Bodies as Bodies
from .centroidal import (
    center_of_mass as center_of_mass,
    center_of_mass_jacobian as center_of_mass_jacobian,
    centroidal_momentum_matrix as centroidal_momentum_matrix,
    momentum as momentum,
)
from .coriolis import coriolis_matrix as coriolis_matrix
from .derivatives import (
    forward_dynamics_derivatives as forward_dynamics_derivatives,
    inverse_dynamics_derivatives as inverse_dynamics_derivatives,
)
from .energy import (
    kinetic_energy as kinetic_energy,
    mechanical_energy as mechanical_energy,
    potential_energy as potential_energy,
)
from .external import ExternalForces as ExternalForces
from .forward import forward_dynamics as forward_dynamics, solve_mass_matrix as solve_mass_matrix
from .hybrid import HybridMotion as HybridMotion, hybrid_dynamics as hybrid_dynamics
from .inverse import (
    bias_force as bias_force,
    gravity_force as gravity_force,
    inverse_dynamics as inverse_dynamics,
)
from .jacobians import jacobian as jacobian, jacobian_derivative as jacobian_derivative
from .kinematics import (
    body_accelerations as body_accelerations,
    body_velocities as body_velocities,
    forward_kinematics as forward_kinematics,
)
from .lagrangian import lagrangian_gradients as lagrangian_gradients
from .mass_matrix import mass_matrix as mass_matrix
from .motion import Motion as Motion
from .operational_space import (
    inverse_operational_inertia as inverse_operational_inertia,
    operational_inertia as operational_inertia,
)
from .passive import passive_force as passive_force
from .products import (
    jacobian_derivative_product as jacobian_derivative_product,
    jacobian_product as jacobian_product,
    jacobian_transposed_product as jacobian_transposed_product,
    solve_augmented_mass_matrix as solve_augmented_mass_matrix,
)
from .regressor import (
    inverse_dynamics_regressor as inverse_dynamics_regressor,
    kinetic_energy_regressor as kinetic_energy_regressor,
    momentum_regressor as momentum_regressor,
    potential_energy_regressor as potential_energy_regressor,
)
