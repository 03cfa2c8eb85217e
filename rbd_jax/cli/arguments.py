"""The arguments of the commands, and what a wrong one is answered with.

A wrong argument or file ends with one line on stderr and the exit code 2. A command that has come to an end with a result that
is not to be trusted returns 3, and 0 otherwise.
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
    """Run the command line; returns the exit code.

    Without `argv` the process is the command line's: its are the arguments, an interrupt ends it, it works on all cores, and what
    it compiles is kept for the next time.

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
    """Refuses to run where packages are missing that only the command line needs."""
    for package in ("rich", "matplotlib"):
        if find_spec(package) is None:
            raise Refused(missing_package(package, "the commands"))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="rbd-jax", description="Rigid-body dynamics on JAX.")
    parser.add_argument("--version", action="version", version=f"rbd-jax {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    robot = _Parser(add_help=False)
    robot.add_argument(
        "robot", metavar="ROBOT", help="a bundled robot (as quadruped), or a .urdf, .xml, .mjcf or .sdf file"
    )
    robot.add_argument("--floating-base", action="store_true", help="let the root link of a URDF float")
    robot.add_argument(
        "--mimic",
        choices=("couple", "free"),
        default="couple",
        help="whether joints of a URDF that mimic others follow them (couple, the default) or move by themselves (free)",
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
    """Adds `rbd-jax simulate`: many samples of a robot."""
    command = commands.add_parser(
        "simulate",
        parents=[robot],
        help="simulate many samples and draw one",
        description=(
            "Simulate samples of a robot without controls: gravity acts, the joints' own damping, friction and "
            "springs, and soft stops at their limits; contacts do not. Each sample starts near the neutral configuration "
            f"(moved by {SPREAD:g} rad or m, one standard deviation) at a random velocity ({SPEED:g} rad/s or "
            "m/s). Samples that fail or gain energy are simulated again in shorter steps. Writes trajectory.npz, "
            "trajectory.png and, with --html, run.html, with --video, trajectory.mp4. Exit code: 0 if all samples came to the "
            "end, 3 if some did not, or are doubtful (why is said), 2 for arguments or files that cannot be, 130 if it was "
            "interrupted. What a long run has reached is saved as it goes: see --resume."
        ),
    )
    command.add_argument("--batch", metavar="N", type=_count, default=1024, help="samples (default 1024)")
    command.add_argument(
        "--seconds", metavar="T", type=_positive, default=1.0, help="simulated time (default 1)"
    )
    command.add_argument(
        "--dt",
        metavar="H",
        type=_positive,
        help="time step (default: that of the robot's file, or else 0.005)",
    )
    command.add_argument(
        "--scheme",
        metavar="S",
        help="semi-implicit-euler (default, if the robot's file says nothing else), runge-kutta-4, ...",
    )
    command.add_argument("--no-limits", action="store_true", help="let joints move beyond their limits")
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
        help="write a film of the sample that is drawn, mp4 or gif (default mp4)",
    )
    command.add_argument(
        "--seed", metavar="K", type=_seed, default=0, help="of the random states (default 0)"
    )
    command.set_defaults(run=simulate)


def _add_view(commands, robot) -> None:
    """Adds `rbd-jax view`: a robot in the browser."""
    command = commands.add_parser(
        "view",
        parents=[robot],
        help="show a robot in the browser",
        description=(
            "Show a robot in the browser, until Ctrl-C: its motion if there is a trajectory, configurations put together by "
            "hand, and a simulation in which bodies are pulled. Prints the address, which is open to this machine alone."
        ),
    )
    command.add_argument(
        "--trajectory", metavar="FILE", type=Path, help="a trajectory.npz that rbd-jax simulate wrote"
    )
    command.add_argument(
        "--sample", metavar="I", type=_index, help="of it, the one shown at first (default 0)"
    )
    command.add_argument(
        "--port", metavar="N", type=_port, help="where to serve (default: the first one free from 8080 on)"
    )
    command.add_argument(
        "--host", metavar="H", default="localhost",
        help="where to listen; 0.0.0.0 lets everybody in who can reach this machine (default localhost)",
    )  # fmt: skip
    command.set_defaults(run=view)


def _add_info(commands, robot) -> None:
    """Adds `rbd-jax info`: what a model consists of."""
    command = commands.add_parser(
        "info",
        parents=[robot],
        help="show what a model consists of",
        description="Show what a model consists of.",
    )
    command.add_argument(
        "--all", action="store_true", help="list everything that is attached to it, not the counts alone"
    )
    command.set_defaults(run=info)


def _add_convert(commands, robot) -> None:
    """Adds `rbd-jax convert`: a model in another format."""
    command = commands.add_parser(
        "convert",
        parents=[robot],
        help="write a model in another format",
        description=(
            "Write a model as URDF (.urdf) or MJCF (.xml, .mjcf): the same mechanism, with what the format has words for. "
            "Prints what it has none for."
        ),
    )
    command.add_argument(
        "file", metavar="FILE", help="what to write: a name that ends in .urdf, .xml or .mjcf"
    )
    command.add_argument("--strict", action="store_true", help="write nothing if anything is lost")
    command.set_defaults(run=convert)


def _add_excite(commands, robot) -> None:
    """Adds `rbd-jax excite`: a motion to identify a robot from."""
    command = commands.add_parser(
        "excite",
        parents=[robot],
        help="design a motion that says the most about a robot, to identify it from",
        description=(
            "Design a periodic motion, within the limits of the robot, whose torques say the most about what is free (D-optimal "
            "Fourier series that start and end at rest). Writes excitation.csv and excitation.npz, one period of positions, "
            "velocities, accelerations and torques, and excitation.png. "
            "Shapes that may touch are kept apart, and so is the ground."
        ),
    )
    command.add_argument(
        "--free", metavar="KINDS", type=free, default="inertias,friction",
        help=f"what is to be identified: {TAKES} (default inertias,friction)",
    )  # fmt: skip
    command.add_argument(
        "--seconds", metavar="T", type=_positive, default=10.0, help="the period (default 10)"
    )
    command.add_argument(
        "--rate", metavar="HZ", type=_positive, default=200.0, help="samples a second (default 200)"
    )
    command.add_argument(
        "--harmonics", metavar="N", type=_count, default=5, help="of its frequency (default 5)"
    )
    command.add_argument(
        "--joints", metavar="NAMES", help="joints that move, with commas between them (default all)"
    )
    command.add_argument(
        "--from-reference",
        action="store_true",
        help="start in the configuration that the robot's file describes",
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
        help="of the measured torques, one standard deviation (default: a hundredth of the largest effort)",
    )  # fmt: skip
    command.add_argument(
        "--margin", metavar="SHARE", type=float, default=0.05, help="of every limit (default 0.05)"
    )
    command.add_argument(
        "--clearance",
        metavar="M",
        type=_positive,
        default=0.01,
        help="between shapes that may touch, m (default 0.01)",
    )
    command.add_argument("--anywhere", action="store_true", help="do not look at shapes")
    command.add_argument(
        "--starts", metavar="N", type=_count, default=8, help="random motions to improve (default 8)"
    )
    command.add_argument(
        "--steps", metavar="N", type=_count, default=300, help="of improvement (default 300)"
    )
    command.add_argument(
        "--seed", metavar="K", type=_seed, default=0, help="of the random motions (default 0)"
    )
    command.add_argument("--all", action="store_true", help="list everything that is seen, not the first few")
    command.add_argument("--overwrite", action="store_true", help="replace the files of an earlier motion")
    command.add_argument("--out", metavar="DIR", type=Path, help="where to write (default runs/NAME)")
    command.set_defaults(run=excite)


def _add_identify(commands, robot) -> None:
    """Adds `rbd-jax identify`: parameters of a robot from logs."""
    command = commands.add_parser(
        "identify",
        parents=[robot],
        help="find what a robot is made of from logs of it, and write a report",
        description=(
            "Find masses, friction and the like from logs of a robot, and say how far they are to be trusted. Writes "
            f"{', '.join(FILES)}; report.html is for people. Logs are .csv or .npz files with times, positions and forces "
            "(rbd.identify.read_log says how they are named). Exit code: 0 for a result, 3 for one that is not to be trusted "
            "(why is said), 2 for arguments or files that cannot be, 130 if it was interrupted. What a long run has reached is "
            "saved as it goes: see --resume."
        ),
    )
    command.add_argument(
        "logs", metavar="LOG", nargs="+", type=Path, help="what was measured, one file a run"
    )
    command.add_argument(
        "--free", metavar="KINDS", type=free, default="inertias,friction",
        help=f"what is to be identified: {TAKES} (default inertias,friction)",
    )  # fmt: skip
    command.add_argument(
        "--estimator", choices=ESTIMATORS, default="auto",
        help=(
            "least-squares: no opinion about what is not seen; physical: the same with bodies that can be; equation-error: for "
            "what forces are not linear in; output-error: simulations, where no forces or accelerations are known (default "
            "auto: the first of physical, equation-error, output-error that fits)"
        ),
    )  # fmt: skip
    command.add_argument(
        "--held-out", metavar="LOG", type=Path, action="append", default=[],
        help="a run to predict and not to learn from; may be given several times",
    )  # fmt: skip
    command.add_argument(
        "--folds", metavar="N", type=_folds,
        help=(
            "of cross-validation: so many times a part of the data is held out; 0 for none (default: with least squares and "
            f"without --held-out each run in turn, or {FOLDS} pieces of a single one)"
        ),
    )  # fmt: skip
    command.add_argument("--robust", action="store_true", help="let outliers not count")
    command.add_argument(
        "--make-physical", action="store_true", help="change inertias of the robot's file that no body has, to start from"
    )  # fmt: skip
    command.add_argument(
        "--scale", metavar="CHANNEL=X,...", type=_by_channel, default={},
        help="channels of the logs in other units: q=0.01745 for degrees, t=0.001 for milliseconds",
    )  # fmt: skip
    command.add_argument(
        "--cutoff",
        metavar="HZ",
        type=_positive,
        help="of the smoothing where velocities or accelerations were not measured (default: from the noise)",
    )
    command.add_argument(
        "--slow", metavar="V", type=_positive,
        help="leave out samples of joints that are slower, rad/s or m/s, where friction sticks (default 0)",
    )  # fmt: skip
    command.add_argument(
        "--noise", metavar="CHANNEL=X,...", type=_by_channel,
        help="standard deviations, as q=1e-4,v=1e-2 (default: they are found)",
    )  # fmt: skip
    _add_search(command)
    command.add_argument("--all", action="store_true", help="list all values, not the first few")
    _long_run(command)
    command.add_argument(
        "--out", metavar="DIR", type=Path, help="where to write (default runs/NAME-identified)"
    )
    command.set_defaults(run=identify)


def _add_search(command) -> None:
    """Adds the options of estimators that search and simulate."""
    command.add_argument(
        "--starts", metavar="N", type=_count, help="searches at once, from different places (default 1)"
    )
    command.add_argument("--turns", metavar="N", type=_count, help="of a search at most (default 100)")
    command.add_argument(
        "--window",
        metavar="T",
        type=_positive,
        help="length of what is simulated in one piece, s (default 0.5)",
    )
    command.add_argument(
        "--nodes",
        choices=("joined", "free", "measured"),
        help="how pieces begin: where the one before ended (joined, the default), anywhere, or as measured",
    )
    command.add_argument("--scheme", metavar="S", help="of the simulation, as in rbd-jax simulate")
    command.add_argument("--dt", metavar="H", type=_positive, help="time step of the simulation, s")


def _add_optimize(commands) -> None:
    """Adds `rbd-jax optimize`: a problem of optimal control."""
    command = commands.add_parser(
        "optimize",
        help="find the best motion for a problem of optimal control, and write a report",
        description=(
            "Find the best motion for a problem of optimal control, and say what it costs, what it keeps to and whether it is a "
            f"minimum. Writes {', '.join(OPTIMIZED)}; report.html is for people. Exit code: 0 for a solution, 3 if none was "
            "found (why is said, and what is broken by how much; a solution that is there is not replaced), 2 for arguments or "
            "files that cannot be, 130 if it was interrupted. What a long search has reached is saved as it goes: see --resume."
        ),
    )
    command.add_argument(
        "problem", metavar="PROBLEM",
        help=(
            "a file of Python that defines `problem` (an rbd.control.Problem, or a function that returns one), and if it likes "
            f"`solver` and `guess`; or one of {', '.join(PROBLEMS)}"
        ),
    )  # fmt: skip
    command.add_argument(
        "--solver", metavar="S", help=f"{', '.join(sorted(solvers()))} (default: that of the problem, or else ddp)"
    )  # fmt: skip
    command.add_argument(
        "--iterations", metavar="N", type=_count, help="at most (default: as many as the solver allows)"
    )
    _long_run(command)
    command.add_argument(
        "--out", metavar="DIR", type=Path, help="where to write (default runs/NAME-optimized)"
    )
    command.set_defaults(run=optimize)


def _add_train(commands) -> None:
    """Adds `rbd-jax train`: a policy for a task."""
    command = commands.add_parser(
        "train",
        help="learn a policy for a task, and write a report",
        description=(
            "Learn a policy for a task by gradients through its simulation (short-horizon actor-critic), try it, and say "
            "whether the "
            f"task is learned. Writes {', '.join(TRAINED)}; report.html is for people. Exit code: 0 for a policy, 3 for one that "
            "is not as good as it is to be (why is said), 2 for arguments or files that cannot be, 130 if it was interrupted. "
            "What "
            "is reached is saved as it goes: see --resume. All cores are used, unless JAX_NUM_CPU_DEVICES says how many."
        ),
    )
    command.add_argument(
        "task", metavar="TASK",
        help=(
            "a file of Python that defines `task` (a rbd.Task, or a function that returns one), and if it likes `config` (a "
            f"rbd.learn.ShortHorizonActorCritic) and `threshold`; or one of {', '.join(TASKS)}"
        ),
    )  # fmt: skip
    command.add_argument(
        "--epochs", metavar="N", type=_count, help="gradients to follow (default: what suits the task)"
    )
    command.add_argument(
        "--minutes", metavar="M", type=_positive, help="end after so long, if not before (default: never)"
    )
    command.add_argument(
        "--envs", metavar="N", type=_count, help="episodes side by side (default: what suits the task)"
    )
    command.add_argument(
        "--threshold", metavar="R", type=float,
        help="the mean return from which on the task counts as learned (default: that of the task)",
    )  # fmt: skip
    command.add_argument(
        "--seed", metavar="K", type=_seed, default=0, help="of everything that is drawn (default 0)"
    )
    _long_run(command)
    command.add_argument("--out", metavar="DIR", type=Path, help="where to write (default runs/NAME-trained)")
    command.set_defaults(run=train)


def _long_run(command, place: str = "DIR.checkpoint") -> None:
    """The options of commands that may take long, and save what they reach in some place."""
    command.add_argument(
        "--quiet", action="store_true", help="say nothing but what is wrong, or not to be trusted"
    )
    command.add_argument("--overwrite", action="store_true", help="replace an earlier result")
    command.add_argument(
        "--resume", action="store_true",
        help="go on from where the same command was killed or interrupted, to the same result; begin if nothing was saved",
    )  # fmt: skip
    command.add_argument(
        "--checkpoint-every", metavar="S", type=_seconds_or_never, default=EVERY,
        help=(
            f"how long from one save of what is reached to the next, s; they go to {place}, which is removed in the end; "
            f"0 for as often as possible, never for not at all (default {EVERY:g})"
        ),
    )  # fmt: skip


def _by_channel(text: str) -> dict[str, float]:
    """Numbers by names, as in `q=1e-4,v=1e-2`."""
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
        raise argparse.ArgumentTypeError(f"{text!r} is not 0 or a whole number from 2 on")
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
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return value


def _index(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 0 or more")
    return int(text)


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 2**16:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 65535")
    return int(text)


def _seed(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to {2**32 - 1}")
    return int(text)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return value
