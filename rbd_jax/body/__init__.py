"""One rigid body with a fixed point, in other clothes: split, by its directors, and without twist.

- `RotatingBody`: a rigid body with a fixed point, by its inertia tensor

Split along the third director and across it:

- `SplitState`: a frame and the split angular momentum
- `split_state`: the state of an angular velocity
- `split_velocity`: the angular velocity, split
- `split_vector`: a vector, split
- `split_angular_momentum`: the angular momentum
- `split_energy`: the kinetic energy
- `split_rates`: the equations of motion

Directors:

- `Orthonormal`: the standard rigid body
- `NonTwisting`: the body that cannot turn about its third director
- `DirectorConstraints`: what the directors of a kind of body must obey
- `DirectorState`: directors, their rates and their momenta
- `director_state`: the state of an angular velocity
- `director_velocity`: the angular velocity of rates
- `director_rates`: the rates of an angular velocity
- `director_momenta`: the momenta of rates
- `director_mass_matrix`: the matrix between them
- `director_load`: the forces on directors of a moment
- `director_acceleration`: the accelerations under a moment, and the multipliers
- `director_angular_momentum`: the angular momentum
- `director_energy`: the kinetic energy of rates
- `director_hamiltonian`: the kinetic energy of the angular momentum

Without twist:

- `NonTwistingState`: a frame and the angular momentum across its third director
- `non_twisting_state`: the state of an angular velocity
- `non_twisting_velocity`: the angular velocity
- `non_twisting_energy`: the kinetic energy
- `non_twisting_rates`: the equations of motion
- `free_motion`: the state after a time without a moment, exactly
- `twist_reaction`: the moment that keeps the body from twisting

Frames along curves on the sphere:

- `non_twisting_frames`: the frame that moves along a curve without twist
- `twisted`: a frame turned about its third director
- `twist_angle`: by how much it was
- `twist_rate`: the angular velocity along the third director
- `darboux_vector`: the angular velocity of a frame with a given twist rate

Simulation:

- `simulate`: many steps of a body given by its directors
- `DirectorScheme`: a rule that carries directors over one step
- `DirectorEnergyMomentum`: keeps energy and momenta
- `DirectorLagrangeDAlembert`: a two-step formula, from a discrete Lagrangian
- `DirectorTrajectory`: what `simulate` returns
- `quotient_of_precision`: what tells the order of a scheme, from runs with three step lengths
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


#: What is in `rbd_jax.simulate`, and was here as well.
__getattr__ = at_the_top(__name__, {"Code": "..optimize.outcome"}, "rbd_jax.simulate")
