"""Algorithms on kinematic trees: kinematics, inverse and forward dynamics, and derived quantities (book ch. 4 to 7, 9).

Kinematics:

- `forward_kinematics`: the frame of every body in the world
- `body_velocities`: the spatial velocity of every body
- `body_accelerations`: the spatial acceleration of every body
- `jacobian`: the Jacobian of a body or of a point on it
- `jacobian_derivative`: the time derivative of that Jacobian
- `jacobian_product`: the Jacobians of all bodies times a velocity
- `jacobian_derivative_product`: the time derivatives of the Jacobians times a velocity
- `jacobian_transposed_product`: the generalized force of wrenches on the bodies
- `site_frames`: the frame of every site in the world
- `shape_frames`: the frame of every shape in the world
- `ray_distances`: the distance along each ray to the nearest shape
- `site_velocities`: the spatial velocity of every site
- `site_jacobian`: the Jacobian of a site
- `Motion`: a model in a state, with cached quantities of that state
- `Bodies`: a set of bodies in maximal coordinates

Forces and accelerations:

- `forward_dynamics`: the acceleration that generalized forces produce
- `forward_dynamics_by_assembly`: the same in logarithmic depth
- `inverse_dynamics`: the generalized forces that produce an acceleration
- `hybrid_dynamics`: prescribed forces at some joints, prescribed motion at the others
- `HybridMotion`: the result of `hybrid_dynamics`
- `ExternalForces`: the type of external forces on bodies
- `forward_dynamics_derivatives`: the derivatives of the acceleration with respect to q, v and the forces
- `inverse_dynamics_derivatives`: the derivatives of the forces with respect to q, v and the acceleration
- `bias_force`: Coriolis, centrifugal and gravity forces
- `gravity_force`: the forces that hold the model at rest
- `passive_force`: damping, friction and springs of the joints

Floating bases:

- `floating_base_inverse_dynamics`: joint forces and base acceleration for given joint accelerations
- `floating_base_forward_dynamics`: the acceleration of base and joints
- `floating_base_equation`: the coefficients of the equation of motion
- `floating_base_mass_matrix`: the inertia at the joints of a freely moving base
- `floating_base_jacobian`: the Jacobian of a body for a freely moving base
- `FloatingBaseForces`: the result of `floating_base_inverse_dynamics`
- `FloatingBaseAcceleration`: the result of `floating_base_forward_dynamics`
- `FloatingBaseEquation`: the result of `floating_base_equation`

Inertia:

- `mass_matrix`: the joint-space inertia matrix M
- `solve_mass_matrix`: `M⁻¹` times a vector or a matrix, without M
- `solve_augmented_mass_matrix`: the same with joint and body terms added to M
- `inertia_force`: M times a vector or a matrix, without M
- `sparse_mass_matrix`: the entries of M that the tree structure allows to be nonzero
- `dof_tree`: the tree of degrees of freedom
- `TreeMatrix`: a symmetric matrix with the sparsity of a tree, with products and factorizations
- `LowerFactor`: a triangular factor of a `TreeMatrix`, with products and solves
- `coriolis_matrix`: C, with `Ṁ = C + Cᵀ`
- `operational_inertia`: the operational-space inertia of bodies
- `inverse_operational_inertia`: the inverse operational-space inertia of bodies
- `handles`: the inverse operational-space inertia and the accelerations without forces on the handles
- `Handles`: the result of `handles`, with operations that assemble mechanisms
- `ArticulatedBody`: a handle described by its articulated-body inertia and bias force

Energy and momentum:

- `kinetic_energy`: the kinetic energy of all bodies
- `potential_energy`: the potential energy of all bodies in gravity
- `mechanical_energy`: kinetic and potential energy, with the joint springs
- `momentum`: the momentum of all bodies about the world's origin
- `centroidal_momentum_matrix`: the matrix that maps v to the momentum about the center of mass
- `center_of_mass`: the center of mass in the world
- `center_of_mass_jacobian`: the Jacobian of the center of mass
- `locked_inertia`: the inertia of all bodies with locked joints
- `centroidal_inertia`: the locked inertia about the center of mass
- `average_velocity`: the velocity at which the locked model has the same momentum
- `lagrangian_gradients`: the derivatives of the Lagrangian with respect to q and v

Quantities linear in the parameters:

- `inverse_dynamics_regressor`: the generalized forces, linear in the inertia parameters
- `joint_regressor`: the joint forces, linear in armature, damping, friction and stiffness
- `momentum_regressor`: the momentum, linear in the inertia parameters
- `kinetic_energy_regressor`: the kinetic energy, linear in the inertia parameters
- `potential_energy_regressor`: the potential energy, linear in the inertia parameters
- `base_parameters`: the identifiable combinations of inertia parameters, from the rules of single joints
- `base_parameters_by_rank`: the same from the rank of the regressor
- `BaseParameters`: the result of both, with simplified models
- `transferable_inertias`: the inertias that can be transferred across a joint
- `transfer_inertia`: the model with an inertia transferred from a body to its parent
"""

__all__ = [
    "forward_kinematics",
    "body_velocities",
    "body_accelerations",
    "jacobian",
    "jacobian_derivative",
    "jacobian_product",
    "jacobian_derivative_product",
    "jacobian_transposed_product",
    "site_frames",
    "shape_frames",
    "ray_distances",
    "site_velocities",
    "site_jacobian",
    "Motion",
    "Bodies",
    "forward_dynamics",
    "forward_dynamics_by_assembly",
    "inverse_dynamics",
    "hybrid_dynamics",
    "HybridMotion",
    "ExternalForces",
    "forward_dynamics_derivatives",
    "inverse_dynamics_derivatives",
    "bias_force",
    "gravity_force",
    "passive_force",
    "floating_base_inverse_dynamics",
    "floating_base_forward_dynamics",
    "floating_base_equation",
    "floating_base_mass_matrix",
    "floating_base_jacobian",
    "FloatingBaseForces",
    "FloatingBaseAcceleration",
    "FloatingBaseEquation",
    "mass_matrix",
    "solve_mass_matrix",
    "solve_augmented_mass_matrix",
    "inertia_force",
    "sparse_mass_matrix",
    "dof_tree",
    "TreeMatrix",
    "LowerFactor",
    "coriolis_matrix",
    "operational_inertia",
    "inverse_operational_inertia",
    "handles",
    "Handles",
    "ArticulatedBody",
    "kinetic_energy",
    "potential_energy",
    "mechanical_energy",
    "momentum",
    "centroidal_momentum_matrix",
    "center_of_mass",
    "center_of_mass_jacobian",
    "locked_inertia",
    "centroidal_inertia",
    "average_velocity",
    "lagrangian_gradients",
    "inverse_dynamics_regressor",
    "joint_regressor",
    "momentum_regressor",
    "kinetic_energy_regressor",
    "potential_energy_regressor",
    "base_parameters",
    "base_parameters_by_rank",
    "BaseParameters",
    "transferable_inertias",
    "transfer_inertia",
]

from .bodies import Bodies as Bodies
from .centroidal import (
    average_velocity as average_velocity,
    center_of_mass as center_of_mass,
    center_of_mass_jacobian as center_of_mass_jacobian,
    centroidal_inertia as centroidal_inertia,
    centroidal_momentum_matrix as centroidal_momentum_matrix,
    locked_inertia as locked_inertia,
    momentum as momentum,
)
from .coriolis import coriolis_matrix as coriolis_matrix
from .derivatives import (
    forward_dynamics_derivatives as forward_dynamics_derivatives,
    inverse_dynamics_derivatives as inverse_dynamics_derivatives,
)
from .divide_and_conquer import forward_dynamics_by_assembly as forward_dynamics_by_assembly
from .energy import (
    kinetic_energy as kinetic_energy,
    mechanical_energy as mechanical_energy,
    potential_energy as potential_energy,
)
from .equivalence import (
    BaseParameters as BaseParameters,
    base_parameters as base_parameters,
    base_parameters_by_rank as base_parameters_by_rank,
    transfer_inertia as transfer_inertia,
    transferable_inertias as transferable_inertias,
)
from .external import ExternalForces as ExternalForces
from .factorization import (
    LowerFactor as LowerFactor,
    TreeMatrix as TreeMatrix,
    dof_tree as dof_tree,
    sparse_mass_matrix as sparse_mass_matrix,
)
from .floating_base import (
    FloatingBaseAcceleration as FloatingBaseAcceleration,
    FloatingBaseEquation as FloatingBaseEquation,
    FloatingBaseForces as FloatingBaseForces,
    floating_base_equation as floating_base_equation,
    floating_base_forward_dynamics as floating_base_forward_dynamics,
    floating_base_inverse_dynamics as floating_base_inverse_dynamics,
    floating_base_jacobian as floating_base_jacobian,
    floating_base_mass_matrix as floating_base_mass_matrix,
)
from .forward import forward_dynamics as forward_dynamics, solve_mass_matrix as solve_mass_matrix
from .handles import ArticulatedBody as ArticulatedBody, Handles as Handles, handles as handles
from .hybrid import HybridMotion as HybridMotion, hybrid_dynamics as hybrid_dynamics
from .inverse import (
    bias_force as bias_force,
    gravity_force as gravity_force,
    inertia_force as inertia_force,
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
from .passive import joint_regressor as joint_regressor, passive_force as passive_force
from .products import (
    jacobian_derivative_product as jacobian_derivative_product,
    jacobian_product as jacobian_product,
    jacobian_transposed_product as jacobian_transposed_product,
    solve_augmented_mass_matrix as solve_augmented_mass_matrix,
)
from .rays import ray_distances as ray_distances
from .regressor import (
    inverse_dynamics_regressor as inverse_dynamics_regressor,
    kinetic_energy_regressor as kinetic_energy_regressor,
    momentum_regressor as momentum_regressor,
    potential_energy_regressor as potential_energy_regressor,
)
from .sites import (
    shape_frames as shape_frames,
    site_frames as site_frames,
    site_jacobian as site_jacobian,
    site_velocities as site_velocities,
)
