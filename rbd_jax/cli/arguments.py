"""The arguments of the commands, and the errors for invalid ones.

An invalid argument or file ends the command with one line on stderr and exit code 2. A command whose result is unreliable
returns 3; otherwise it returns 0.
"""

from __future__ import annotations

import argparse
import math
import sys
from importlib.util import find_spec
from pathlib import Path

from .. import __version__
from .._core.errors import missing_package
from .._core.interrupts import over, watch
from ..parallel import keep_memory
from .convert import convert
from .excite import excite
from .free import TAKES, free
from .identify import ESTIMATORS, EVERY, FILES, FOLDS, identify
from .info import info
from .machine import keep_programs, use_all_cores
from .model import Refused
from .optimize import FILES as OPTIMIZED, NAMES as PROBLEMS, optimize, solvers
from .simulate import FILMS, SPEED, SPREAD, simulate
from .train import FILES as TRAINED, NAMES as TASKS, train
from .view import view


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Refused(f"{message} (see {self.prog} --help)")


def main(argv: list[str] | None = None) -> int:
    """Runs a command and returns its exit code.

    Without `argv` it takes the arguments of the process, which the command line then owns: an interrupt ends the process,
    batches use all cores, and compiled programs are cached between runs.

    >>> import contextlib, io
    >>> from rbd_jax import cli
    >>> with contextlib.redirect_stdout(io.StringIO()) as said:
    ...     code = cli.main(["info", "pendulum"])
    >>> print(code, said.getvalue().splitlines()[0])
    0 pendulum: 1 bodies, nq = 1, nv = 1
    """
    if argv is not None:
        return _answer(argv)
    watch()
    use_all_cores()
    keep_memory()
    keep_programs()
    try:
        return _answer(sys.argv[1:])
    finally:
        over()


def _answer(argv: list[str]) -> int:
    try:
        arguments = _parser().parse_args(argv)
        arguments.words = argv
        refuse_if_incomplete()
        return arguments.run(arguments) or 0
    except Refused as refusal:
        message = " ".join(str(refusal).split())
        print(f"rbd-jax: error: {message}", file=sys.stderr)
        return 2


def refuse_if_incomplete() -> None:
    """Raises an error if packages are missing that only the command line needs."""
    for package in ("rich", "matplotlib"):
        if find_spec(package) is None:
            raise Refused(missing_package(package, "the commands"))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="rbd-jax", description="Rigid-body dynamics on JAX.")
    parser.add_argument("--version", action="version", version=f"rbd-jax {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    robot = _Parser(add_help=False)
    robot.add_argument(
        "robot",
        metavar="ROBOT",
        help="a bundled robot (such as quadruped), or a .urdf, .xml, .mjcf or .sdf file",
    )
    robot.add_argument("--floating-base", action="store_true", help="make the root link of a URDF float")
    robot.add_argument(
        "--mimic",
        choices=("couple", "free"),
        default="couple",
        help="couple mimic joints of a URDF to their leaders (couple, the default), or make them independent (free)",
    )

    _add_simulate(commands, robot)
    _add_view(commands, robot)
    _add_info(commands, robot)
    _add_convert(commands, robot)
    _add_excite(commands, robot)
    _add_identify(commands, robot)
    _add_optimize(commands)
    _add_train(commands)
    return parser


def _add_simulate(commands, robot) -> None:
    """Adds `rbd-jax simulate`, which simulates a batch of samples."""
    command = commands.add_parser(
        "simulate",
        parents=[robot],
        help="simulate many samples and draw one",
        description=(
            "Simulate samples of a robot without controls, under gravity, the joints' damping, friction and "
            "springs, and soft joint limits; without contacts. Each sample starts near the neutral configuration "
            f"(standard deviation {SPREAD:g} rad or m) with a random velocity ({SPEED:g} rad/s or "
            "m/s). Samples that fail or gain energy are simulated again with shorter steps. Writes trajectory.npz, "
            "trajectory.png and, with --html, run.html, with --video, trajectory.mp4. Exit codes: 0 if all samples are "
            "complete, 3 if some are incomplete or unreliable (the reason is printed), 2 for invalid arguments or files, 130 "
            "if interrupted. Long runs save their progress: see --resume."
        ),
    )
    command.add_argument(
        "--batch", metavar="N", type=_count, default=1024, help="number of samples (default 1024)"
    )
    command.add_argument(
        "--seconds", metavar="T", type=_positive, default=1.0, help="simulated time, s (default 1)"
    )
    command.add_argument(
        "--dt",
        metavar="H",
        type=_positive,
        help="time step, s (default: that of the robot's file, or else 0.005)",
    )
    command.add_argument(
        "--scheme",
        metavar="S",
        help="semi-implicit-euler (default, unless the robot's file names another), runge-kutta-4, ...",
    )
    command.add_argument("--no-limits", action="store_true", help="do not enforce joint limits")
    _long_run(command, "DIR/simulate.checkpoint")
    command.add_argument("--out", metavar="DIR", type=Path, help="where to write (default runs/NAME)")
    command.add_argument(
        "--html", action="store_true", help="write a page that plays the first samples in a browser"
    )
    command.add_argument(
        "--video",
        metavar="KIND",
        nargs="?",
        const="mp4",
        choices=tuple(FILMS),
        help="write a film of the drawn sample, mp4 or gif (default mp4)",
    )
    command.add_argument(
        "--seed", metavar="K", type=_seed, default=0, help="seed of the random states (default 0)"
    )
    command.set_defaults(run=simulate)


def _add_view(commands, robot) -> None:
    """Adds `rbd-jax view`, which shows a robot in the browser."""
    command = commands.add_parser(
        "view",
        parents=[robot],
        help="show a robot in the browser",
        description=(
            "Show a robot in the browser, until Ctrl-C: a trajectory if given, configurations set by hand, "
            "and a simulation in which bodies can be pulled. Prints the address, which is accessible from this machine only."
        ),
    )
    command.add_argument(
        "--trajectory", metavar="FILE", type=Path, help="a trajectory.npz that rbd-jax simulate wrote"
    )
    command.add_argument(
        "--sample", metavar="I", type=_index, help="sample of the trajectory to show first (default 0)"
    )
    command.add_argument(
        "--port",
        metavar="N",
        type=_port,
        help="port of the server (default: the first free port from 8080 on)",
    )
    command.add_argument(
        "--host", metavar="H", default="localhost",
        help="address of the server; 0.0.0.0 accepts connections from other machines (default localhost)",
    )  # fmt: skip
    command.set_defaults(run=view)


def _add_info(commands, robot) -> None:
    """Adds `rbd-jax info`, which shows the parts of a model."""
    command = commands.add_parser(
        "info",
        parents=[robot],
        help="show the parts of a model",
        description="Show the parts of a model.",
    )
    command.add_argument("--all", action="store_true", help="list all attachments, not only their counts")
    command.set_defaults(run=info)


def _add_convert(commands, robot) -> None:
    """Adds `rbd-jax convert`, which writes a model in another format."""
    command = commands.add_parser(
        "convert",
        parents=[robot],
        help="write a model in another format",
        description=(
            "Write a model as URDF (.urdf) or MJCF (.xml, .mjcf): the same mechanism, with all properties that the format "
            "can express. Prints the properties that it cannot express."
        ),
    )
    command.add_argument("file", metavar="FILE", help="file to write; its name ends in .urdf, .xml or .mjcf")
    command.add_argument(
        "--strict", action="store_true", help="write nothing if the format cannot express all properties"
    )
    command.set_defaults(run=convert)


def _add_excite(commands, robot) -> None:
    """Adds `rbd-jax excite`, which designs an excitation motion for identification."""
    command = commands.add_parser(
        "excite",
        parents=[robot],
        help="design an excitation motion to identify a robot",
        description=(
            "Design a periodic motion, within the limits of the robot, whose torques are the most informative about the "
            "estimated parameters (D-optimal Fourier series that start and end at rest). Writes excitation.csv and "
            "excitation.npz, one period of positions, velocities, accelerations and torques, and excitation.png. "
            "The motion keeps a clearance between shapes that may collide, including the ground."
        ),
    )
    command.add_argument(
        "--free", metavar="KINDS", type=free, default="inertias,friction",
        help=f"parameters to estimate: {TAKES} (default inertias,friction)",
    )  # fmt: skip
    command.add_argument(
        "--seconds", metavar="T", type=_positive, default=10.0, help="the period, s (default 10)"
    )
    command.add_argument(
        "--rate", metavar="HZ", type=_positive, default=200.0, help="samples per second (default 200)"
    )
    command.add_argument(
        "--harmonics",
        metavar="N",
        type=_count,
        default=5,
        help="number of harmonics of the base frequency (default 5)",
    )
    command.add_argument(
        "--joints", metavar="NAMES", help="joints that move, separated by commas (default all)"
    )
    command.add_argument(
        "--from-reference",
        action="store_true",
        help="start in the reference configuration of the robot's file",
    )
    for name, of in (("speed", "rad/s or m/s"), ("acceleration", "rad/s² or m/s²"), ("effort", "N m or N")):
        command.add_argument(
            f"--{name}",
            metavar="X",
            type=_positive,
            help=f"limit of all joints, {of} (default: that of the robot's file)",
        )
    command.add_argument(
        "--noise", metavar="X", type=_positive,
        help="standard deviation of the measured torques (default: a hundredth of the largest effort)",
    )  # fmt: skip
    command.add_argument(
        "--margin",
        metavar="SHARE",
        type=float,
        default=0.05,
        help="fraction of every limit to keep as a margin (default 0.05)",
    )
    command.add_argument(
        "--clearance",
        metavar="M",
        type=_positive,
        default=0.01,
        help="least distance between shapes that may collide, m (default 0.01)",
    )
    command.add_argument("--anywhere", action="store_true", help="ignore collisions of shapes")
    command.add_argument(
        "--starts", metavar="N", type=_count, default=8, help="number of random initial motions (default 8)"
    )
    command.add_argument(
        "--steps", metavar="N", type=_count, default=300, help="optimization steps (default 300)"
    )
    command.add_argument(
        "--seed", metavar="K", type=_seed, default=0, help="seed of the random motions (default 0)"
    )
    command.add_argument(
        "--all", action="store_true", help="list all observable combinations, not only the first few"
    )
    command.add_argument("--overwrite", action="store_true", help="replace the files of an earlier motion")
    command.add_argument("--out", metavar="DIR", type=Path, help="where to write (default runs/NAME)")
    command.set_defaults(run=excite)


def _add_identify(commands, robot) -> None:
    """Adds `rbd-jax identify`, which estimates parameters of a robot from logs."""
    command = commands.add_parser(
        "identify",
        parents=[robot],
        help="identify parameters of a robot from logs, and write a report",
        description=(
            "Estimate masses, friction and other parameters from logs of a robot, with their uncertainties. Writes "
            f"{', '.join(FILES)}; start with report.html. Logs are .csv or .npz files with times, positions and forces "
            "(rbd.identify.read_log documents their names). Exit codes: 0 for a result, 3 for an unreliable result "
            "(the reason is printed), 2 for invalid arguments or files, 130 if interrupted. Long runs save their progress: "
            "see --resume."
        ),
    )
    command.add_argument("logs", metavar="LOG", nargs="+", type=Path, help="logs, one file per run")
    command.add_argument(
        "--free", metavar="KINDS", type=free, default="inertias,friction",
        help=f"parameters to estimate: {TAKES} (default inertias,friction)",
    )  # fmt: skip
    command.add_argument(
        "--estimator", choices=ESTIMATORS, default="auto",
        help=(
            "least-squares: without a prior on unobservable parameters; physical: the same with physically consistent "
            "inertias; equation-error: for parameters in which forces are nonlinear; output-error: simulations, for logs "
            "without forces or accelerations (default auto: the first of physical, equation-error, output-error that applies)"
        ),
    )  # fmt: skip
    command.add_argument(
        "--held-out", metavar="LOG", type=Path, action="append", default=[],
        help="a run for validation only; may be given several times",
    )  # fmt: skip
    command.add_argument(
        "--folds", metavar="N", type=_folds,
        help=(
            "number of parts for cross-validation; 0 for no cross-validation (default: with least squares and without "
            f"--held-out one part per run, or {FOLDS} parts of a single run)"
        ),
    )  # fmt: skip
    command.add_argument("--robust", action="store_true", help="reduce the influence of outliers")
    command.add_argument(
        "--make-physical", action="store_true", help="correct physically inconsistent inertias of the robot's file first"
    )  # fmt: skip
    command.add_argument(
        "--scale", metavar="CHANNEL=X,...", type=_by_channel, default={},
        help="channels of the logs in other units: q=0.01745 for degrees, t=0.001 for milliseconds",
    )  # fmt: skip
    command.add_argument(
        "--cutoff",
        metavar="HZ",
        type=_positive,
        help="cutoff of the smoothing if velocities or accelerations were not measured (default: from the noise)",
    )
    command.add_argument(
        "--slow", metavar="V", type=_positive,
        help="leave out samples of slower joints, rad/s or m/s, where static friction acts (default 0)",
    )  # fmt: skip
    command.add_argument(
        "--noise", metavar="CHANNEL=X,...", type=_by_channel,
        help="standard deviations, as q=1e-4,v=1e-2 (default: estimated)",
    )  # fmt: skip
    _add_search(command)
    command.add_argument("--all", action="store_true", help="list all values, not only the first few")
    _long_run(command)
    command.add_argument(
        "--out", metavar="DIR", type=Path, help="where to write (default runs/NAME-identified)"
    )
    command.set_defaults(run=identify)


def _add_search(command) -> None:
    """Adds the options of estimators that search and simulate."""
    command.add_argument(
        "--starts",
        metavar="N",
        type=_count,
        help="number of parallel searches with different initial values (default 1)",
    )
    command.add_argument(
        "--turns", metavar="N", type=_count, help="maximum iterations of a search (default 100)"
    )
    command.add_argument(
        "--window",
        metavar="T",
        type=_positive,
        help="length of a simulated segment, s (default 0.5)",
    )
    command.add_argument(
        "--nodes",
        choices=("joined", "free", "measured"),
        help="initial states of segments: the end of the previous one (joined, the default), free, or as measured",
    )
    command.add_argument("--scheme", metavar="S", help="scheme of the simulation, as in rbd-jax simulate")
    command.add_argument("--dt", metavar="H", type=_positive, help="time step of the simulation, s")


def _add_optimize(commands) -> None:
    """Adds `rbd-jax optimize`, which solves a problem of optimal control."""
    command = commands.add_parser(
        "optimize",
        help="solve a problem of optimal control, and write a report",
        description=(
            "Solve a problem of optimal control, and report the motion, its cost, its constraints and whether it is a "
            f"minimum. Writes {', '.join(OPTIMIZED)}; start with report.html. Exit codes: 0 for a solution, 3 without a "
            "solution (the reason and the violations are printed; an earlier solution is not replaced), 2 for invalid "
            "arguments or files, 130 if interrupted. Long searches save their progress: see --resume."
        ),
    )
    command.add_argument(
        "problem", metavar="PROBLEM",
        help=(
            "a Python file that defines `problem` (an rbd.control.Problem, or a function that returns one), and optionally "
            f"`solver` and `guess`; or one of {', '.join(PROBLEMS)}"
        ),
    )  # fmt: skip
    command.add_argument(
        "--solver", metavar="S", help=f"{', '.join(sorted(solvers()))} (default: that of the problem, or else ddp)"
    )  # fmt: skip
    command.add_argument(
        "--iterations", metavar="N", type=_count, help="maximum iterations (default: that of the solver)"
    )
    _long_run(command)
    command.add_argument(
        "--out", metavar="DIR", type=Path, help="where to write (default runs/NAME-optimized)"
    )
    command.set_defaults(run=optimize)


def _add_train(commands) -> None:
    """Adds `rbd-jax train`, which trains a policy for a task."""
    command = commands.add_parser(
        "train",
        help="train a policy for a task, and write a report",
        description=(
            "Train a policy for a task by gradients through its simulation (short-horizon actor-critic), evaluate it, and "
            "report whether the "
            f"task is solved. Writes {', '.join(TRAINED)}; start with report.html. Exit codes: 0 for a policy, 3 for a policy "
            "below the threshold (the reason is printed), 2 for invalid arguments or files, 130 if interrupted. Training "
            "saves its progress: see --resume. Uses all cores, unless JAX_NUM_CPU_DEVICES sets their number."
        ),
    )
    command.add_argument(
        "task", metavar="TASK",
        help=(
            "a Python file that defines `task` (a rbd.Task, or a function that returns one), and optionally `config` (a "
            f"rbd.learn.ShortHorizonActorCritic) and `threshold`; or one of {', '.join(TASKS)}"
        ),
    )  # fmt: skip
    command.add_argument(
        "--epochs", metavar="N", type=_count, help="number of gradient steps (default: that of the task)"
    )
    command.add_argument(
        "--minutes", metavar="M", type=_positive, help="maximum training time (default: unlimited)"
    )
    command.add_argument(
        "--envs", metavar="N", type=_count, help="number of parallel episodes (default: that of the task)"
    )
    command.add_argument(
        "--threshold", metavar="R", type=float,
        help="mean return at which the task counts as solved (default: that of the task)",
    )  # fmt: skip
    command.add_argument(
        "--seed", metavar="K", type=_seed, default=0, help="seed of all random draws (default 0)"
    )
    _long_run(command)
    command.add_argument("--out", metavar="DIR", type=Path, help="where to write (default runs/NAME-trained)")
    command.set_defaults(run=train)


def _long_run(command, place: str = "DIR.checkpoint") -> None:
    """Adds the options of long-running commands, which save their progress in `place`."""
    command.add_argument("--quiet", action="store_true", help="print only errors and unreliable results")
    command.add_argument("--overwrite", action="store_true", help="replace an earlier result")
    command.add_argument(
        "--resume", action="store_true",
        help="continue the same command after it was killed or interrupted, to the same result; start if nothing was saved",
    )  # fmt: skip
    command.add_argument(
        "--checkpoint-every", metavar="S", type=_seconds_or_never, default=EVERY,
        help=(
            f"interval between saves of the progress, s; they go to {place}, which is removed at the end; "
            f"0 saves as often as possible, never disables saving (default {EVERY:g})"
        ),
    )  # fmt: skip


def _by_channel(text: str) -> dict[str, float]:
    """Returns numbers by name, from a text such as `q=1e-4,v=1e-2`."""
    found = {}
    for part in text.split(","):
        name, equals, value = (word.strip() for word in part.partition("="))
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not name or not equals or not 0 < number < math.inf:
            raise argparse.ArgumentTypeError(f"{part!r} is not a name with a positive number, as in q=1e-4")
        found[name] = number
    return found


def _folds(text: str) -> int:
    if not text.isdecimal() or int(text) == 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not 0 or an integer from 2 on")
    return int(text)


def _seconds_or_never(text: str) -> float:
    try:
        value = math.inf if text == "never" else float(text)
    except ValueError:
        value = math.nan
    if text != "never" and not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, 0 or more, or never")
    return value


def _count(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return value


def _index(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer, 0 or more")
    return int(text)


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 2**16:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer from 1 to 65535")
    return int(text)


def _seed(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer from 0 to {2**32 - 1}")
    return int(text)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return value
