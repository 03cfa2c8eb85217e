"""Rigid-body dynamics in JAX: complete, differentiable, fast.

Functions take a `Model` first and the data of one sample after it. Batch them with `jax.vmap` or `batch_map`, and differentiate
them with `jax.grad`. Each function compiles itself on its first call; inside `jax.jit` it becomes part of the compiled program.
The lists below name everything public. The packages at the end have their own `help`.

Every function has an example in its docstring. The examples assume `import jax, jax.numpy as jnp, numpy as np, rbd_jax as rbd`
and print three digits: `np.set_printoptions(precision=3, suppress=True)`.


Models:

- `load`: load a bundled robot by name, or a URDF or MJCF file
- `load_urdf`: load a model from a URDF file
- `load_mjcf`: load a model from an MJCF file
- `load_sdf`: load a model from an SDF file
- `save_urdf`: write a model to a URDF file
- `to_urdf`: the URDF text of a model
- `save_mjcf`: write a model to an MJCF file
- `to_mjcf`: the MJCF text of a model
- `ModelBuilder`: collects bodies, joints and attachments, and builds a `Model`
- `GraphBuilder`: builds a `Model` from a graph of bodies and joints, in any order, with any loops
- `reroot`: a floating model with another body as its root
- `denavit_hartenberg`: the Denavit–Hartenberg parameters of a chain
- `DenavitHartenberg`: Denavit–Hartenberg parameters, and the model they describe
- `Model`: a mechanism: its tree of bodies and joints, and all its parameters; `print(model)` draws it
- `Body`: one body of a `ModelBuilder`, the joint that attaches it, and the passive elements of that joint
- `Mimic`: a joint whose coordinate follows another joint's
- `Tree`: the tree of bodies, and how it is traversed
- `Inertia`: the inertia of a rigid body
- `Transform`: a frame placed in another
- `Attached`: protocol of everything fixed to bodies and joints of a model: constraints, forces, sites, sensors
- `Site`: a named frame on a body
- `Shape`: a geometry on a body, for contact and for display; see `shapes`
- `Keyframe`: a named state
- `attach`: add sites, shapes, actuators, sensors and other attachments to a model
- `detach`: remove attachments from a model
- `check`: raises an error that names every invalid parameter of a model
- `add_constraints`: the model with loops, couplings or prescribed motions
- `add_forces`: the model with force elements
- `lock_joints`: the model with some joints welded
- `fuse_fixed`: the model with welded bodies merged
- `rename`: the model with other names for bodies and joints
- `concatenate`: several models in one world
- `astype`: the model in another precision
- `at_time`: the model with its prescribed motions at a given time
- `planar`: the model in planar algebra, if it moves in a plane
- `with_traversal`: the model with another traversal of its tree
- `ModelError`: an invalid model
- `ModelWarning`: a valid but suspicious model
- `UnknownNameError`: a name that the model does not have

Configurations:

- `neutral`: the configuration in which the model is described
- `random_configuration`: a random configuration within the joint limits
- `integrate`: the configuration reached with a constant velocity after unit time
- `difference`: the velocity that leads from one configuration to another in unit time
- `configuration_rate`: the time derivative of q at a velocity

Kinematics:

- `forward_kinematics`: the frame of every body in the world
- `body_velocities`: the spatial velocity of every body
- `body_accelerations`: the spatial acceleration of every body
- `jacobian`: the Jacobian of a body or of a point on it
- `jacobian_derivative`: the time derivative of that Jacobian
- `jacobian_product`: the Jacobians of all bodies times a velocity
- `jacobian_derivative_product`: their time derivatives times a velocity
- `jacobian_transposed_product`: the generalized force of wrenches on the bodies
- `center_of_mass`: the center of mass of all bodies, in the world
- `center_of_mass_jacobian`: its Jacobian
- `average_velocity`: the velocity of all bodies as if they were one rigid body
- `site_frames`: the frame of every site in the world
- `shape_frames`: the frame of every shape in the world
- `ray_distances`: the distance along rays to the nearest shape
- `site_velocities`: the velocity of every site
- `site_jacobian`: the Jacobian of a site
- `Motion`: a model in a state, with its derived quantities computed once

Dynamics:

- `forward_dynamics`: the acceleration that generalized forces produce
- `forward_dynamics_by_assembly`: forward dynamics in logarithmic depth
- `inverse_dynamics`: the generalized forces that produce an acceleration
- `hybrid_dynamics`: some joints driven by force, the others by motion
- `floating_base_inverse_dynamics`: joint forces and base acceleration from the joint accelerations
- `floating_base_forward_dynamics`: the acceleration of base and joints
- `floating_base_equation`: the coefficients of their equation of motion
- `floating_base_mass_matrix`: the joint-space inertia matrix with the base free to react
- `floating_base_jacobian`: the Jacobian of a body by the joints, with the base free to react
- `forward_dynamics_derivatives`: the derivatives of the acceleration by q, v and the forces
- `inverse_dynamics_derivatives`: the derivatives of the forces by q, v and the acceleration
- `mass_matrix`: the joint-space inertia matrix M
- `solve_mass_matrix`: `M⁻¹` times a vector or a matrix, without M
- `inertia_force`: M times a vector or a matrix, without M
- `solve_augmented_mass_matrix`: `M⁻¹` times a vector or a matrix, with terms of joints and bodies added to M
- `coriolis_matrix`: C, with `Ṁ = C + Cᵀ`
- `bias_force`: Coriolis, centrifugal and gravity forces
- `gravity_force`: the forces that hold the model at rest
- `passive_force`: damping, friction and springs of the joints
- `operational_inertia`: the operational-space inertia of bodies
- `inverse_operational_inertia`: the accelerations of bodies by forces on them
- `kinetic_energy`: the kinetic energy of all bodies
- `potential_energy`: the gravitational potential energy of all bodies
- `mechanical_energy`: kinetic energy, potential energy and the energy of the joint springs
- `momentum`: the momentum of all bodies about the world's origin
- `centroidal_momentum_matrix`: maps v to the momentum about the center of mass
- `locked_inertia`: the inertia of all bodies as one
- `centroidal_inertia`: the inertia of all bodies as one, about the center of mass
- `lagrangian_gradients`: the derivatives of the Lagrangian by q and v
- `inverse_dynamics_regressor`: the generalized forces as a linear function of the inertia parameters
- `momentum_regressor`: the momentum as a linear function of the inertia parameters
- `kinetic_energy_regressor`: the kinetic energy as a linear function of the inertia parameters
- `potential_energy_regressor`: the potential energy as a linear function of the inertia parameters
- `base_parameters`: the combinations of inertia parameters that determine the dynamics

Constraints:

- `assemble`: a configuration that closes the loops, from an initial guess
- `project`: the state projected onto the constraints
- `project_velocity`: the velocity projected onto the constraints
- `check_consistent`: raises an error for a state that violates the constraints
- `mobility`: the number of degrees of freedom of the constrained mechanism
- `constrained_dynamics`: the acceleration under constraints, and the multipliers
- `constrained_dynamics_derivatives`: the derivatives of both by q, v and the forces
- `constrained_inverse_dynamics`: the forces that produce an acceleration, and the multipliers
- `constraint_residual`: the residual of each constraint equation
- `constraint_velocity`: the time derivative of the residual
- `constraint_jacobian`: the constraint Jacobian G
- `constraint_bias`: the second time derivative of the residual at zero acceleration
- `constraint_force`: the generalized forces `Gᵀ λ` of multipliers
- `joint_wrenches`: the wrenches that the joints transmit
- `ReducedModel`: a constrained model in terms of independent variables
- `maximal_coordinates`: the same mechanism as free bodies with constraints
- `to_maximal`: converts a state of the model to maximal coordinates
- `from_maximal`: converts a state in maximal coordinates back
- `transfer_state`: converts a state to another model with the same bodies

Simulation:

- `State`: configuration and velocity
- `rollout`: simulates one sample over many steps, with controls, forces, events and policies
- `step`: one time step
- `step_derivatives`: the linearization of one time step: the matrices A and B
- `acceleration`: the acceleration of a model under all forces in a state
- `contacts`: the contact points of the shapes
- `contact_forces`: the contact points and the force at each
- `sense`: the sensor readings of a model in a state
- `sense_along`: the sensor readings along a trajectory
- `simulate_batch`: long simulations of many samples, with some of the states stored
- `batch_map`: turns a function of one sample into a function of batches, in the fastest form on this device
- `explain`: reports which form `batch_map` uses, and why
- `shard`: `batch_map` over all devices of all processes
- `Trajectory`: the result of a rollout
- `Result`: the meaning of the result codes of a trajectory
- `Controls`: the controls of the actuators of a model
- `Actuation`: generalized forces at some of the joints
- `keyframe`: a named state stored in a model
- `keyframe_controls`: the controls of a keyframe
- `System`: a dynamical system that a scheme can step
- `Scheme`: an integration scheme: one step of a state
- `SemiImplicitEuler`: first order, stable with stiff joints; the default
- `LieEuler`: first order, explicit
- `LinearlyImplicitEuler`: first order, one linear system a step, for stiff forces
- `CommutatorFree2`: second order, explicit
- `CommutatorFree3`: third order, explicit
- `CommutatorFree4`: fourth order, explicit
- `CrouchGrossman3`: third order, explicit
- `RKMK2`: second order, explicit, in a chart
- `RKMK3`: third order, explicit, in a chart
- `MujocoEuler`: MuJoCo's `Euler` and `implicitfast`; the default of models from MJCF files
- `RungeKutta4`: fourth order, explicit, in a chart
- `RKMK45`: fifth order, explicit, adaptive step size
- `Adaptive`: any diffrax solver, adaptive step size
- `ImplicitMidpoint`: second order, implicit
- `BDF1`: first order, implicit, for stiff systems
- `BDF2`: second order, implicit, for stiff systems
- `EventDriven`: an explicit scheme that locates impacts and continues after each
- `GeneralizedAlpha`: second order, implicit, with adjustable damping of high frequencies
- `VariationalMidpoint`: second order, symplectic, from the Lagrangian at midpoints
- `Rattle`: second order, symplectic, from the Lagrangian at the ends of steps
- `EnergyMomentum`: second order, conserves energy and momentum

Videos and pages:

- `save_video`: write a video of a motion
- `save_html`: write an interactive player of a motion to one HTML file

Learning:

- `Task`: a model to control by rewards: initial states, observations, rewards and terminations

Tools:

- `checked`: wraps a function to raise an error for non-finite results and failure codes
- `count_operations`: counts the operations of a function
- `Operations`: operation counts
- `specialize`: specializes a function to one model, without arithmetic that its parameters make unnecessary
- `Checkpoint`: a file to which a long run saves its progress and from which it resumes
- `CheckpointError`: a checkpoint that cannot be resumed
- `CheckpointWarning`: a checkpoint that could not be written

Packages:

- `joints`: revolute, prismatic, spherical and all other joints, and the protocol for your own
- `constraints`: loops, couplings and prescribed motions, and their dynamics
- `forces`: springs, dampers, muscles, cables, tendons, gears, limits, fields
- `actuators`: motors, servos, cylinders, muscles
- `simulate`: systems and schemes, and the protocols for your own
- `spatial`: the algebra of spatial vectors
- `lie`: Lie groups: rotations, rigid motions and their products
- `parallel`: batches over the devices of one or more hosts, and the related compiler options
- `contact`: contact detection, distances and contact models
- `shapes`: geometries for contact and display, and named frames
- `sensors`: sensors at joints, inertial units, frames, forces, subtrees
- `files`: models from files
- `robots`: the bundled robots
- `identify`: system identification: model parameters from logged data
- `control`: trajectory optimization and controllers
- `tasks`: tasks to learn, bundled and your own, and their wrappers
- `learn`: policies for tasks, trained by gradients through the simulation
- `interop`: conversion of states to and from Pinocchio and MuJoCo
- `view`: visualization of models and trajectories; `rbd.view(model, trajectory)` opens it in the browser
- `plot`: plots of trajectories: positions, torques, energies, batches; `rbd.plot(model, trajectory)` makes a page of them
- `body`: one rotating body in split, director and non-twisting form
"""

__all__ = [
    "load",
    "load_urdf",
    "load_mjcf",
    "load_sdf",
    "save_urdf",
    "to_urdf",
    "save_mjcf",
    "to_mjcf",
    "ModelBuilder",
    "GraphBuilder",
    "reroot",
    "denavit_hartenberg",
    "DenavitHartenberg",
    "Model",
    "Body",
    "Mimic",
    "Tree",
    "Inertia",
    "Transform",
    "Attached",
    "Site",
    "Shape",
    "Keyframe",
    "attach",
    "detach",
    "check",
    "add_constraints",
    "add_forces",
    "lock_joints",
    "fuse_fixed",
    "rename",
    "concatenate",
    "astype",
    "at_time",
    "planar",
    "with_traversal",
    "ModelError",
    "ModelWarning",
    "UnknownNameError",
    "neutral",
    "random_configuration",
    "integrate",
    "difference",
    "configuration_rate",
    "forward_kinematics",
    "body_velocities",
    "body_accelerations",
    "jacobian",
    "jacobian_derivative",
    "jacobian_product",
    "jacobian_derivative_product",
    "jacobian_transposed_product",
    "center_of_mass",
    "center_of_mass_jacobian",
    "average_velocity",
    "site_frames",
    "shape_frames",
    "ray_distances",
    "site_velocities",
    "site_jacobian",
    "Motion",
    "forward_dynamics",
    "forward_dynamics_by_assembly",
    "inverse_dynamics",
    "hybrid_dynamics",
    "floating_base_inverse_dynamics",
    "floating_base_forward_dynamics",
    "floating_base_equation",
    "floating_base_mass_matrix",
    "floating_base_jacobian",
    "forward_dynamics_derivatives",
    "inverse_dynamics_derivatives",
    "mass_matrix",
    "solve_mass_matrix",
    "inertia_force",
    "solve_augmented_mass_matrix",
    "coriolis_matrix",
    "bias_force",
    "gravity_force",
    "passive_force",
    "operational_inertia",
    "inverse_operational_inertia",
    "kinetic_energy",
    "potential_energy",
    "mechanical_energy",
    "momentum",
    "centroidal_momentum_matrix",
    "locked_inertia",
    "centroidal_inertia",
    "lagrangian_gradients",
    "inverse_dynamics_regressor",
    "momentum_regressor",
    "kinetic_energy_regressor",
    "potential_energy_regressor",
    "base_parameters",
    "assemble",
    "project",
    "project_velocity",
    "check_consistent",
    "mobility",
    "constrained_dynamics",
    "constrained_dynamics_derivatives",
    "constrained_inverse_dynamics",
    "constraint_residual",
    "constraint_velocity",
    "constraint_jacobian",
    "constraint_bias",
    "constraint_force",
    "joint_wrenches",
    "ReducedModel",
    "maximal_coordinates",
    "to_maximal",
    "from_maximal",
    "transfer_state",
    "State",
    "rollout",
    "step",
    "step_derivatives",
    "acceleration",
    "contacts",
    "contact_forces",
    "sense",
    "sense_along",
    "simulate_batch",
    "batch_map",
    "explain",
    "shard",
    "Trajectory",
    "Result",
    "Controls",
    "Actuation",
    "keyframe",
    "keyframe_controls",
    "System",
    "Scheme",
    "SemiImplicitEuler",
    "LieEuler",
    "LinearlyImplicitEuler",
    "CommutatorFree2",
    "CommutatorFree3",
    "CommutatorFree4",
    "CrouchGrossman3",
    "RKMK2",
    "RKMK3",
    "MujocoEuler",
    "RungeKutta4",
    "RKMK45",
    "Adaptive",
    "ImplicitMidpoint",
    "BDF1",
    "BDF2",
    "EventDriven",
    "GeneralizedAlpha",
    "VariationalMidpoint",
    "Rattle",
    "EnergyMomentum",
    "save_video",
    "save_html",
    "Task",
    "checked",
    "count_operations",
    "Operations",
    "specialize",
    "Checkpoint",
    "CheckpointError",
    "CheckpointWarning",
    "joints",
    "constraints",
    "forces",
    "actuators",
    "simulate",
    "spatial",
    "lie",
    "parallel",
    "contact",
    "shapes",
    "sensors",
    "files",
    "robots",
    "identify",
    "control",
    "tasks",
    "learn",
    "interop",
    "view",
    "plot",
    "body",
]

__version__ = "0.1.0"

from ._core.interrupts import watch_command_line as _watch_command_line


_watch_command_line()  # before the slow imports

from .parallel.xla import prepare as _prepare


_prepare()  # before anything makes JAX start its CPU backend

from typing import TYPE_CHECKING as _TYPE_CHECKING

from . import (
    body as body,
    constraints as constraints,
    contact as contact,
    files as files,
    forces as forces,
    joints as joints,
    lie as lie,
    parallel as parallel,
    robots as robots,
    sensors as sensors,
    shapes as shapes,
    simulate as simulate,
    spatial as spatial,
)
from ._core.checked import checked as checked
from ._core.errors import (
    ModelError as ModelError,
    ModelWarning as ModelWarning,
    UnknownNameError as UnknownNameError,
)
from ._core.showing import played_by as _played_by
from .checkpoints import (
    Checkpoint as Checkpoint,
    CheckpointError as CheckpointError,
    CheckpointWarning as CheckpointWarning,
)
from .constraints.closure import ReducedModel as ReducedModel
from .constraints.consistency import (
    assemble as assemble,
    check_consistent as check_consistent,
    project as project,
    project_velocity as project_velocity,
)
from .constraints.derivatives import constrained_dynamics_derivatives as constrained_dynamics_derivatives
from .constraints.dynamics import constrained_dynamics as constrained_dynamics, mobility as mobility
from .constraints.evaluate import (
    constraint_bias as constraint_bias,
    constraint_force as constraint_force,
    constraint_jacobian as constraint_jacobian,
    constraint_residual as constraint_residual,
    constraint_velocity as constraint_velocity,
)
from .constraints.inverse import constrained_inverse_dynamics as constrained_inverse_dynamics
from .constraints.maximal import (
    from_maximal as from_maximal,
    maximal_coordinates as maximal_coordinates,
    to_maximal as to_maximal,
    transfer_state as transfer_state,
)
from .constraints.reactions import joint_wrenches as joint_wrenches
from .contact.contacts import contacts as contacts
from .dynamics import (
    Motion as Motion,
    average_velocity as average_velocity,
    base_parameters as base_parameters,
    bias_force as bias_force,
    body_accelerations as body_accelerations,
    body_velocities as body_velocities,
    center_of_mass as center_of_mass,
    center_of_mass_jacobian as center_of_mass_jacobian,
    centroidal_inertia as centroidal_inertia,
    centroidal_momentum_matrix as centroidal_momentum_matrix,
    coriolis_matrix as coriolis_matrix,
    floating_base_equation as floating_base_equation,
    floating_base_forward_dynamics as floating_base_forward_dynamics,
    floating_base_inverse_dynamics as floating_base_inverse_dynamics,
    floating_base_jacobian as floating_base_jacobian,
    floating_base_mass_matrix as floating_base_mass_matrix,
    forward_dynamics as forward_dynamics,
    forward_dynamics_by_assembly as forward_dynamics_by_assembly,
    forward_dynamics_derivatives as forward_dynamics_derivatives,
    forward_kinematics as forward_kinematics,
    gravity_force as gravity_force,
    hybrid_dynamics as hybrid_dynamics,
    inertia_force as inertia_force,
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
    locked_inertia as locked_inertia,
    mass_matrix as mass_matrix,
    mechanical_energy as mechanical_energy,
    momentum as momentum,
    momentum_regressor as momentum_regressor,
    operational_inertia as operational_inertia,
    passive_force as passive_force,
    potential_energy as potential_energy,
    potential_energy_regressor as potential_energy_regressor,
    ray_distances as ray_distances,
    shape_frames as shape_frames,
    site_frames as site_frames,
    site_jacobian as site_jacobian,
    site_velocities as site_velocities,
    solve_augmented_mass_matrix as solve_augmented_mass_matrix,
    solve_mass_matrix as solve_mass_matrix,
)
from .files.mjcf import load_mjcf as load_mjcf
from .files.sdf import load_sdf as load_sdf
from .files.urdf import load_urdf as load_urdf
from .files.writing import (
    save_mjcf as save_mjcf,
    save_urdf as save_urdf,
    to_mjcf as to_mjcf,
    to_urdf as to_urdf,
)
from .forces import actuators as actuators
from .forces.force import add_forces as add_forces
from .model import (
    Body as Body,
    DenavitHartenberg as DenavitHartenberg,
    GraphBuilder as GraphBuilder,
    Keyframe as Keyframe,
    Mimic as Mimic,
    Model as Model,
    ModelBuilder as ModelBuilder,
    Tree as Tree,
    add_constraints as add_constraints,
    astype as astype,
    at_time as at_time,
    attach as attach,
    check as check,
    concatenate as concatenate,
    configuration_rate as configuration_rate,
    denavit_hartenberg as denavit_hartenberg,
    detach as detach,
    difference as difference,
    fuse_fixed as fuse_fixed,
    integrate as integrate,
    lock_joints as lock_joints,
    neutral as neutral,
    planar as planar,
    random_configuration as random_configuration,
    rename as rename,
    reroot as reroot,
    with_traversal as with_traversal,
)
from .parallel.batch import batch_map as batch_map, shard as shard
from .parallel.explanation import explain as explain
from .parallel.simulation import simulate_batch as simulate_batch
from .parallel.specialization import specialize as specialize
from .robots.loading import load as load
from .shapes.shape import Shape as Shape
from .shapes.site import Site as Site
from .simulate.adaptive import Adaptive as Adaptive
from .simulate.bdf1 import BDF1 as BDF1
from .simulate.bdf2 import BDF2 as BDF2
from .simulate.commutator_free_2 import CommutatorFree2 as CommutatorFree2
from .simulate.commutator_free_3 import CommutatorFree3 as CommutatorFree3
from .simulate.commutator_free_4 import CommutatorFree4 as CommutatorFree4
from .simulate.control import Controls as Controls
from .simulate.controls import Actuation as Actuation
from .simulate.crouch_grossman_3 import CrouchGrossman3 as CrouchGrossman3
from .simulate.energy_momentum import EnergyMomentum as EnergyMomentum
from .simulate.event_driven import EventDriven as EventDriven
from .simulate.generalized_alpha import GeneralizedAlpha as GeneralizedAlpha
from .simulate.implicit_midpoint import ImplicitMidpoint as ImplicitMidpoint
from .simulate.keyframes import keyframe as keyframe, keyframe_controls as keyframe_controls
from .simulate.lie_euler import LieEuler as LieEuler
from .simulate.linearly_implicit_euler import LinearlyImplicitEuler as LinearlyImplicitEuler
from .simulate.mujoco_euler import MujocoEuler as MujocoEuler
from .simulate.rattle import Rattle as Rattle
from .simulate.result import Result as Result
from .simulate.rkmk2 import RKMK2 as RKMK2
from .simulate.rkmk3 import RKMK3 as RKMK3
from .simulate.rkmk45 import RKMK45 as RKMK45
from .simulate.rollouts import rollout as rollout
from .simulate.runge_kutta_4 import RungeKutta4 as RungeKutta4
from .simulate.scheme import Scheme as Scheme
from .simulate.semi_implicit_euler import SemiImplicitEuler as SemiImplicitEuler
from .simulate.sensing import (
    acceleration as acceleration,
    contact_forces as contact_forces,
    sense as sense,
    sense_along as sense_along,
)
from .simulate.state import State as State
from .simulate.steps import step as step, step_derivatives as step_derivatives
from .simulate.system import System as System
from .simulate.trajectory import Trajectory as Trajectory
from .simulate.variational_midpoint import VariationalMidpoint as VariationalMidpoint
from .spatial.attached import Attached as Attached
from .spatial.inertia import Inertia as Inertia
from .spatial.transform import Transform as Transform


if _TYPE_CHECKING:
    from . import (
        control as control,
        identify as identify,
        interop as interop,
        learn as learn,
        tasks as tasks,
    )
    from ._core.callable import CallablePackage as _CallablePackage
    from .compiler import Operations as Operations, count_operations as count_operations
    from .plot import page as _page
    from .tasks.task import Task as Task
    from .view import view as _view
    from .view.film import save_video as save_video
    from .view.player import save_html as save_html

    plot = _CallablePackage(_page)
    view = _CallablePackage(_view)


#: Names in packages that are imported on first use.
_LATER = {
    "Task": "tasks.task",
    "save_video": "view.film",
    "save_html": "view.player",
    "count_operations": "compiler",
    "Operations": "compiler",
}


def __getattr__(name: str) -> object:
    """Imports the job-specific packages on first use, since they take longer to import than all others together."""
    from importlib import import_module

    if name in ("control", "identify", "interop", "learn", "plot", "tasks", "view"):
        return import_module(f".{name}", __name__)
    if name in _LATER:
        return getattr(import_module(f".{_LATER[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


@_played_by
def _player():
    """Returns the class that displays trajectories."""
    from .view import Player

    return Player
