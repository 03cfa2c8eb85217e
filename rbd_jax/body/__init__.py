"""One rigid body with a fixed point, in other clothes: split, by its directors, and without twist."""

from .._newton import Code as Code
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
