"""The algorithms on trees: kinematics, inverse and forward dynamics, and what follows from them (book ch. 4 to 7, 9).

Kinematics:

- `forward_kinematics`: the frame of every body in the world
- `body_velocities`: the spatial velocity of every body
- `body_accelerations`: the spatial acceleration of every body
- `jacobian`: the Jacobian of a body or a point of it
- `jacobian_derivative`: its rate
- `jacobian_product`: the Jacobians of all bodies times a velocity
- `jacobian_derivative_product`: their rates times a velocity
- `jacobian_transposed_product`: the generalized force of wrenches on the bodies
- `site_frames`: the frame of every site in the world
- `shape_frames`: the frame of every shape in the world
- `ray_distances`: how far it is along rays to the nearest shape
- `site_velocities`: how the sites move
- `site_jacobian`: the Jacobian of a site
- `Motion`: a model in a state: what follows from that, computed once
- `Bodies`: some of its bodies in maximal coordinates

Forces and accelerations:

- `forward_dynamics`: the acceleration that generalized forces produce
- `forward_dynamics_by_assembly`: the same in logarithmic depth
- `inverse_dynamics`: the generalized forces that produce an acceleration
- `hybrid_dynamics`: some joints driven by force, the others by motion
- `HybridMotion`: what it returns
- `ExternalForces`: how forces on bodies are given
- `forward_dynamics_derivatives`: the derivatives of the acceleration by q, v and the forces
- `inverse_dynamics_derivatives`: the derivatives of the forces by q, v and the acceleration
- `bias_force`: Coriolis, centrifugal and gravity forces
- `gravity_force`: the forces that hold the model at rest
- `passive_force`: damping, friction and springs of the joints

On a base that nothing holds:

- `floating_base_inverse_dynamics`: joint forces and the motion of the base, from that of the joints
- `floating_base_forward_dynamics`: the acceleration of base and joints
- `floating_base_equation`: the equation of motion by its coefficients
- `floating_base_mass_matrix`: the inertia that the joints feel when the base gives way
- `floating_base_jacobian`: how a body moves with the joints then
- `FloatingBaseForces`: what the first returns
- `FloatingBaseAcceleration`: what the second returns
- `FloatingBaseEquation`: what the third returns

Inertia:

- `mass_matrix`: the joint-space inertia matrix M
- `solve_mass_matrix`: `M⁻¹` times a vector or a matrix, without M
- `solve_augmented_mass_matrix`: the same with terms of joints and bodies added to M
- `inertia_force`: M times a vector or a matrix, without M
- `sparse_mass_matrix`: M by the entries that its tree leaves
- `dof_tree`: the tree of degrees of freedom
- `TreeMatrix`: a symmetric matrix with the zeros of a tree, its products and its factors
- `LowerFactor`: such a factor, and what to multiply and solve with it
- `coriolis_matrix`: C, with `Ṁ = C + Cᵀ`
- `operational_inertia`: the inertia that bodies seem to have where they are pushed
- `inverse_operational_inertia`: how bodies answer to forces on them
- `handles`: the same with the accelerations that are there without these forces
- `Handles`: what it returns, and mechanisms put together of such
- `ArticulatedBody`: a handle by the inertia and the force that are felt at it

Energy and momentum:

- `kinetic_energy`: of all bodies
- `potential_energy`: of all bodies in gravity
- `mechanical_energy`: their sum, with the springs at the joints
- `momentum`: of all bodies, about the world's origin
- `centroidal_momentum_matrix`: what makes of v the momentum about the centre of mass
- `center_of_mass`: of all bodies, in the world
- `center_of_mass_jacobian`: its Jacobian
- `locked_inertia`: of all bodies as one
- `centroidal_inertia`: the same about the centre of mass
- `average_velocity`: the velocity at which that would have the momentum
- `lagrangian_gradients`: the derivatives of the Lagrangian by q and v

Linear in the inertia parameters:

- `inverse_dynamics_regressor`: the generalized forces
- `joint_regressor`: what joints take beside the bodies, as such a function of armature, damping, friction and stiffness
- `momentum_regressor`: the momentum
- `kinetic_energy_regressor`: the kinetic energy
- `potential_energy_regressor`: the potential energy
- `base_parameters`: the parameters that motions depend on, by what each joint lets pass between its bodies
- `base_parameters_by_rank`: the same by the rank of the regressor
- `BaseParameters`: what these return, with simplified models
- `transferable_inertias`: what may pass across a joint
- `transfer_inertia`: the model with an inertia given from a body to its parent
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
