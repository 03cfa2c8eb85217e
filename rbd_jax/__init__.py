"""Rigid-body dynamics in JAX: complete, differentiable, fast.

The public names, and nothing else. Functions take a `Model` first and one sample after it; batch them with `jax.vmap`
or `batch_map`, compile them with `jax.jit`, differentiate them with `jax.grad`.
"""

__version__ = "0.1.0"

from .parallel.xla import prepare as _prepare


_prepare()  # before anything makes JAX start its CPU backend

from . import (
    body as body,
    constraints as constraints,
    forces as forces,
    interop as interop,
    joints as joints,
    lie as lie,
    parallel as parallel,
    robots as robots,
    simulate as simulate,
    spatial as spatial,
)
from ._checked import checked as checked
from ._errors import (
    ModelError as ModelError,
    ModelWarning as ModelWarning,
    UnknownNameError as UnknownNameError,
)
from ._operations import Operations as Operations, count_operations as count_operations
from .constraints import (
    ReducedModel as ReducedModel,
    assemble as assemble,
    check_consistent as check_consistent,
    constrained_dynamics as constrained_dynamics,
    constrained_dynamics_derivatives as constrained_dynamics_derivatives,
    constrained_inverse_dynamics as constrained_inverse_dynamics,
    constraint_bias as constraint_bias,
    constraint_force as constraint_force,
    constraint_jacobian as constraint_jacobian,
    constraint_residual as constraint_residual,
    constraint_velocity as constraint_velocity,
    from_maximal as from_maximal,
    joint_wrenches as joint_wrenches,
    maximal_coordinates as maximal_coordinates,
    mobility as mobility,
    project as project,
    project_velocity as project_velocity,
    to_maximal as to_maximal,
)
from .dynamics import (
    Motion as Motion,
    bias_force as bias_force,
    body_accelerations as body_accelerations,
    body_velocities as body_velocities,
    center_of_mass as center_of_mass,
    center_of_mass_jacobian as center_of_mass_jacobian,
    centroidal_momentum_matrix as centroidal_momentum_matrix,
    coriolis_matrix as coriolis_matrix,
    forward_dynamics as forward_dynamics,
    forward_dynamics_derivatives as forward_dynamics_derivatives,
    forward_kinematics as forward_kinematics,
    gravity_force as gravity_force,
    hybrid_dynamics as hybrid_dynamics,
    inverse_dynamics as inverse_dynamics,
    inverse_dynamics_derivatives as inverse_dynamics_derivatives,
    inverse_dynamics_regressor as inverse_dynamics_regressor,
    inverse_operational_inertia as inverse_operational_inertia,
    jacobian as jacobian,
    jacobian_derivative as jacobian_derivative,
    jacobian_derivative_product as jacobian_derivative_product,
    jacobian_product as jacobian_product,
    jacobian_transposed_product as jacobian_transposed_product,
    kinetic_energy as kinetic_energy,
    kinetic_energy_regressor as kinetic_energy_regressor,
    lagrangian_gradients as lagrangian_gradients,
    mass_matrix as mass_matrix,
    mechanical_energy as mechanical_energy,
    momentum as momentum,
    momentum_regressor as momentum_regressor,
    operational_inertia as operational_inertia,
    passive_force as passive_force,
    potential_energy as potential_energy,
    potential_energy_regressor as potential_energy_regressor,
    solve_augmented_mass_matrix as solve_augmented_mass_matrix,
    solve_mass_matrix as solve_mass_matrix,
)
from .forces import add_forces as add_forces
from .model import (
    Body as Body,
    Mimic as Mimic,
    Model as Model,
    ModelBuilder as ModelBuilder,
    Tree as Tree,
    add_constraints as add_constraints,
    astype as astype,
    at_time as at_time,
    check as check,
    concatenate as concatenate,
    configuration_rate as configuration_rate,
    difference as difference,
    fuse_fixed as fuse_fixed,
    integrate as integrate,
    load_mjcf as load_mjcf,
    load_urdf as load_urdf,
    lock_joints as lock_joints,
    neutral as neutral,
    random_configuration as random_configuration,
    rename as rename,
    with_traversal as with_traversal,
)
from .parallel import batch_map as batch_map, simulate_batch as simulate_batch
from .robots import load as load
from .simulate import (
    BDF1 as BDF1,
    BDF2 as BDF2,
    RKMK2 as RKMK2,
    RKMK3 as RKMK3,
    RKMK45 as RKMK45,
    Actuation as Actuation,
    Adaptive as Adaptive,
    CommutatorFree2 as CommutatorFree2,
    CommutatorFree3 as CommutatorFree3,
    CommutatorFree4 as CommutatorFree4,
    CrouchGrossman3 as CrouchGrossman3,
    EnergyMomentum as EnergyMomentum,
    GeneralizedAlpha as GeneralizedAlpha,
    ImplicitMidpoint as ImplicitMidpoint,
    LieEuler as LieEuler,
    LinearlyImplicitEuler as LinearlyImplicitEuler,
    Rattle as Rattle,
    Result as Result,
    RungeKutta4 as RungeKutta4,
    Scheme as Scheme,
    SemiImplicitEuler as SemiImplicitEuler,
    State as State,
    System as System,
    Trajectory as Trajectory,
    VariationalMidpoint as VariationalMidpoint,
    rollout as rollout,
    step as step,
    step_derivatives as step_derivatives,
)
from .spatial import Attached as Attached, Inertia as Inertia, Transform as Transform
