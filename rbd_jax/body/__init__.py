"""One rigid body with a fixed point in three formulations: split, by directors, and without twist.

- `RotatingBody`: a rigid body with a fixed point, by its inertia tensor

Split along the third director and across it:

- `SplitState`: a frame and the split angular momentum
- `split_state`: the state with an angular velocity
- `split_velocity`: the angular velocity of a state
- `split_vector`: splits a vector
- `split_angular_momentum`: the angular momentum
- `split_energy`: the kinetic energy
- `split_rates`: the equations of motion

Directors:

- `Orthonormal`: the standard rigid body
- `NonTwisting`: a body that cannot turn about its third director
- `DirectorConstraints`: the constraints on the directors of a type of body
- `DirectorState`: directors, their rates and their momenta
- `director_state`: the state with an angular velocity
- `director_velocity`: the angular velocity of rates
- `director_rates`: the rates of an angular velocity
- `director_momenta`: the momenta of rates
- `director_mass_matrix`: the mass matrix of the directors
- `director_load`: the forces on the directors that are equivalent to a moment
- `director_acceleration`: the accelerations under a moment, and the multipliers
- `director_angular_momentum`: the angular momentum
- `director_energy`: the kinetic energy from the rates
- `director_hamiltonian`: the kinetic energy from the angular momentum

Without twist:

- `NonTwistingState`: a frame and the angular momentum across its third director
- `non_twisting_state`: the state with an angular velocity
- `non_twisting_velocity`: the angular velocity
- `non_twisting_energy`: the kinetic energy
- `non_twisting_rates`: the equations of motion
- `free_motion`: the exact state after a time without a moment
- `twist_reaction`: the moment that prevents twisting

Frames along curves on the sphere:

- `non_twisting_frames`: the frame that moves along a curve without twist
- `twisted`: a frame turned about its third director
- `twist_angle`: the angle of that turn
- `twist_rate`: the angular velocity along the third director
- `darboux_vector`: the angular velocity of a frame with a given twist rate

Simulation:

- `simulate`: simulates a body in director coordinates
- `DirectorScheme`: an integration scheme for directors
- `DirectorEnergyMomentum`: a scheme that conserves energy and momenta
- `DirectorLagrangeDAlembert`: a two-step scheme, from a discrete Lagrangian
- `DirectorTrajectory`: the result of `simulate`
- `quotient_of_precision`: estimates the order of a scheme from runs with three step sizes
"""

__all__ = [
    "RotatingBody",
    "SplitState",
    "split_state",
    "split_velocity",
    "split_vector",
    "split_angular_momentum",
    "split_energy",
    "split_rates",
    "Orthonormal",
    "NonTwisting",
    "DirectorConstraints",
    "DirectorState",
    "director_state",
    "director_velocity",
    "director_rates",
    "director_momenta",
    "director_mass_matrix",
    "director_load",
    "director_acceleration",
    "director_angular_momentum",
    "director_energy",
    "director_hamiltonian",
    "NonTwistingState",
    "non_twisting_state",
    "non_twisting_velocity",
    "non_twisting_energy",
    "non_twisting_rates",
    "free_motion",
    "twist_reaction",
    "non_twisting_frames",
    "twisted",
    "twist_angle",
    "twist_rate",
    "darboux_vector",
    "simulate",
    "DirectorScheme",
    "DirectorEnergyMomentum",
    "DirectorLagrangeDAlembert",
    "DirectorTrajectory",
    "quotient_of_precision",
]

from .._core.deprecation import at_the_top
from ._director_scheme import DirectorScheme as DirectorScheme
from .directors import (
    DirectorConstraints as DirectorConstraints,
    DirectorState as DirectorState,
    NonTwisting as NonTwisting,
    Orthonormal as Orthonormal,
    director_acceleration as director_acceleration,
    director_angular_momentum as director_angular_momentum,
    director_energy as director_energy,
    director_hamiltonian as director_hamiltonian,
    director_load as director_load,
    director_mass_matrix as director_mass_matrix,
    director_momenta as director_momenta,
    director_rates as director_rates,
    director_state as director_state,
    director_velocity as director_velocity,
)
from .energy_momentum import DirectorEnergyMomentum as DirectorEnergyMomentum
from .frame import (
    darboux_vector as darboux_vector,
    non_twisting_frames as non_twisting_frames,
    twist_angle as twist_angle,
    twist_rate as twist_rate,
    twisted as twisted,
)
from .lagrange_d_alembert import DirectorLagrangeDAlembert as DirectorLagrangeDAlembert
from .non_twisting import (
    NonTwistingState as NonTwistingState,
    free_motion as free_motion,
    non_twisting_energy as non_twisting_energy,
    non_twisting_rates as non_twisting_rates,
    non_twisting_state as non_twisting_state,
    non_twisting_velocity as non_twisting_velocity,
    twist_reaction as twist_reaction,
)
from .precision import quotient_of_precision as quotient_of_precision
from .rotating_body import RotatingBody as RotatingBody
from .simulation import DirectorTrajectory as DirectorTrajectory, simulate as simulate
from .split import (
    SplitState as SplitState,
    split_angular_momentum as split_angular_momentum,
    split_energy as split_energy,
    split_rates as split_rates,
    split_state as split_state,
    split_vector as split_vector,
    split_velocity as split_velocity,
)


#: Names that moved to `rbd_jax.simulate`.
__getattr__ = at_the_top(__name__, {"Code": "..optimize.outcome"}, "rbd_jax.simulate")
