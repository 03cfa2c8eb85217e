"""System identification: model parameters from logged data.

Parameter groups, which select the parameters to estimate; names may contain wildcards:

- `inertias`: all ten inertia parameters of bodies
- `masses`: masses of bodies; the inertia scales with the mass
- `centers_of_mass`: centers of mass of bodies
- `placements`: joint placements: kinematic calibration
- `joint_offsets`: offsets to add to measured joint coordinates
- `damping`: viscous damping of joints
- `coulomb`: Coulomb friction of joints
- `friction`: viscous damping and Coulomb friction of joints
- `armature`: armature of joints
- `stiffness`: stiffness of joint springs
- `sliding_friction`: sliding friction coefficient of shapes
- `gains`: gains of actuators
- `gear_ratios`: gear ratios of actuators
- `delays`: delays of sensors and actuators
- `carried`: a parameter of force elements, actuators or shapes
- `numbers`: any leaf of a model
- `tied`: shared (tied) parameters: mirror symmetry, identical motors
- `Parameters`: all estimated parameters as a vector, with the maps to and from a model
- `Kind`: base class of parameter groups, including your own
- `Candidate`: an object whose parameters a group may estimate

Measured data:

- `Log`: one run: times and channels
- `Channel`: a channel with its own times or a delay
- `read_log`: a log from a file
- `check_log`: raises an error if a log does not fit a model
- `with_rates`: a log with velocities and accelerations
- `best_cutoff`: the cutoff frequency with the least error in a derivative
- `LogError`: error about an invalid log
- `LogWarning`: warning about a suspicious log

Linear estimators, for parameters on which forces depend linearly:

- `least_squares`: weighted least squares, robust on request
- `physical_least_squares`: least squares with physically consistent inertias
- `Estimate`: the result of an estimator
- `Unseen`: unidentifiable directions
- `made_physical`: a model with physically consistent inertias as a starting point

Assessment of an estimate:

- `report`: a readable report: estimates, uncertainty, unidentifiable parameters
- `Report`: the result of `report`
- `predictions`: predictions of a model next to the measurements
- `Prediction`: one column of one log, predicted and measured
- `cross_validation`: errors on held-out runs
- `CrossValidation`: the result of `cross_validation`
- `whiteness`: tests errors for whiteness and computes their correlation time
- `Whiteness`: the result of `whiteness`

Nonlinear estimators, for any parameter:

- `Problem`: parameters, logs and a comparison: errors and a differentiable loss
- `solve`: the best-fitting parameter values
- `EquationError`: compares torques and sensor readings per sample
- `OutputError`: compares simulations with all measurements; multiple shooting
- `Comparison`: base class of the comparisons
- `Unknowns`: the unknowns of a problem
- `Windows`: logs cut into windows
- `Measured`: a channel in windows

Posterior distributions:

- `laplace`: samples from the normal distribution around an estimate
- `hmc`: samples from the posterior by Hamiltonian Monte Carlo
- `Posterior`: the result of `laplace` and `hmc`

Exciting motions for measurements:

- `excitation`: the most informative periodic motion within limits
- `Excitation`: the result of `excitation`
- `PeriodicMotion`: Fourier series of joint coordinates

Building blocks:

- `Equations`: the equations of motion of logs in condensed form
- `Samples`: samples of motions with the generalized forces
- `samples_of`: the samples of a log
- `torque_regressor`: generalized forces as a linear function of the linear parameters
- `linear_numbers`: the linear parameters of a model
- `with_linear_numbers`: a model with other linear parameters
"""

__all__ = [
    "inertias",
    "masses",
    "centers_of_mass",
    "placements",
    "joint_offsets",
    "damping",
    "coulomb",
    "friction",
    "armature",
    "stiffness",
    "sliding_friction",
    "gains",
    "gear_ratios",
    "delays",
    "carried",
    "numbers",
    "tied",
    "Parameters",
    "Kind",
    "Candidate",
    "Log",
    "Channel",
    "read_log",
    "check_log",
    "with_rates",
    "best_cutoff",
    "LogError",
    "LogWarning",
    "least_squares",
    "physical_least_squares",
    "Estimate",
    "Unseen",
    "made_physical",
    "report",
    "Report",
    "predictions",
    "Prediction",
    "cross_validation",
    "CrossValidation",
    "whiteness",
    "Whiteness",
    "Problem",
    "solve",
    "EquationError",
    "OutputError",
    "Comparison",
    "Unknowns",
    "Windows",
    "Measured",
    "laplace",
    "hmc",
    "Posterior",
    "excitation",
    "Excitation",
    "PeriodicMotion",
    "Equations",
    "Samples",
    "samples_of",
    "torque_regressor",
    "linear_numbers",
    "with_linear_numbers",
]

from .comparison import Comparison as Comparison, Measured as Measured, Windows as Windows
from .equation_error import EquationError as EquationError
from .equations import (
    Equations as Equations,
    Samples as Samples,
    linear_numbers as linear_numbers,
    samples_of as samples_of,
    torque_regressor as torque_regressor,
    with_linear_numbers as with_linear_numbers,
)
from .estimate import Estimate as Estimate, Unseen as Unseen
from .excitation import Excitation as Excitation, excitation as excitation
from .fourier import PeriodicMotion as PeriodicMotion
from .kind import Candidate as Candidate, Kind as Kind
from .kinds import (
    armature as armature,
    carried as carried,
    centers_of_mass as centers_of_mass,
    coulomb as coulomb,
    damping as damping,
    delays as delays,
    friction as friction,
    gains as gains,
    gear_ratios as gear_ratios,
    inertias as inertias,
    joint_offsets as joint_offsets,
    masses as masses,
    numbers as numbers,
    placements as placements,
    sliding_friction as sliding_friction,
    stiffness as stiffness,
)
from .least_squares import (
    least_squares as least_squares,
    made_physical as made_physical,
    physical_least_squares as physical_least_squares,
)
from .log import (
    Channel as Channel,
    Log as Log,
    LogError as LogError,
    LogWarning as LogWarning,
)
from .output_error import OutputError as OutputError
from .parameters import Parameters as Parameters
from .posterior import Posterior as Posterior, hmc as hmc, laplace as laplace
from .prediction import Prediction as Prediction, predictions as predictions
from .problem import Problem as Problem, Unknowns as Unknowns
from .reading import read_log as read_log
from .report import Report as Report, report as report
from .sanity import check_log as check_log
from .smoothing import best_cutoff as best_cutoff, with_rates as with_rates
from .solve import solve as solve
from .tied import tied as tied
from .validation import CrossValidation as CrossValidation, cross_validation as cross_validation
from .whiteness import Whiteness as Whiteness, whiteness as whiteness
