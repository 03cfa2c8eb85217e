"""What a robot is made of, from what was measured of it: logs in, an identified model out, with what the data do not say.

What is free, one line for each kind; names may have wildcards:

- `inertias`: all ten inertia parameters of bodies
- `masses`: their masses; the inertia goes along
- `centers_of_mass`: where their centres of mass are
- `placements`: where their joints sit: kinematic calibration
- `joint_offsets`: what must be added to measured joint coordinates
- `damping`: viscous damping of joints
- `coulomb`: Coulomb friction of joints
- `friction`: both, all friction of joints
- `armature`: armature of joints
- `stiffness`: stiffness of springs at joints
- `sliding_friction`: sliding friction of shapes
- `gains`: gains of actuators
- `gear_ratios`: gear ratios of actuators
- `delays`: delays of sensors and actuators
- `carried`: a number of force elements, actuators, shapes
- `numbers`: any leaf of a model
- `tied`: fewer numbers than things: mirror symmetry, equal motors
- `Parameters`: all that is free, as a vector and back
- `Kind`: what those inherit from, and one of your own
- `Candidate`: something whose numbers a kind may free

What was measured:

- `Log`: one run: times and channels
- `Channel`: a channel with times of its own, or late
- `read_log`: a log from a file
- `check_log`: an error for a log that cannot be one of a model
- `with_rates`: a log with velocities and accelerations
- `best_cutoff`: the cutoff that leaves the least error in a derivative
- `LogError`: a log that cannot be
- `LogWarning`: a log that is suspicious

Estimators that are linear in what is free:

- `least_squares`: weighted least squares, robust on request
- `physical_least_squares`: the same with bodies that can be
- `Estimate`: what they return
- `Unseen`: what data do not see of it
- `made_physical`: a model with inertias that bodies can have, to start from

What an estimate is worth:

- `report`: a page for people: what was found, how far to trust it, what data do not say
- `Report`: what it returns
- `predictions`: what a model predicts of logs, beside what was measured
- `Prediction`: one column of one log of that
- `cross_validation`: errors on runs that were held out
- `CrossValidation`: what it returns
- `whiteness`: whether errors are white, and how long they last
- `Whiteness`: what it returns

Estimators for anything that is free:

- `Problem`: what is free, logs, and how they are compared: errors and a differentiable loss
- `solve`: the values that fit best
- `EquationError`: samples compared one by one: torques, sensors
- `OutputError`: simulations compared with all that was measured; multiple shooting
- `Comparison`: what those inherit from
- `Unknowns`: what a problem is solved for
- `Windows`: logs cut into pieces
- `Measured`: a channel in windows

What values may be:

- `laplace`: draws from the normal distribution about an estimate
- `hmc`: draws from the posterior by Hamiltonian Monte Carlo
- `Posterior`: what they return

Motions that say the most, to be measured:

- `excitation`: the periodic motion within limits with the most information
- `Excitation`: what it returns
- `PeriodicMotion`: Fourier series of joints

What they are made of:

- `Equations`: the equations of motion of logs, condensed
- `Samples`: samples of motions with the forces that made them
- `samples_of`: those of a log
- `torque_regressor`: generalized forces as a linear function of all of these numbers
- `linear_numbers`: these numbers of a model
- `with_linear_numbers`: the model with others
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
