"""Exciting motions: design of informative periodic motions within the limits of a robot, and their expected accuracy.

Ordinary motions contain little information about many parameters, which no estimator can compensate. `excitation` searches
Fourier series (Swevers et al. 1997) for the largest determinant of the Fisher information of the torques about the
identifiable combinations. This is D-optimal: it minimizes the volume of the confidence region. See `_design` for the
method.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import a_model, as_array, configuration, joint_names, number, whole_number
from .._core.array import by_numpy, from_numpy, is_known, pick, zeros
from .._core.errors import ModelError
from .._core.files import whole_file
from ..contact.apart import pair_sizes
from ..contact.pairs import touching
from ..model import Model
from ..model.attachments import without
from ._design import (
    COARSE,
    FINE,
    INSIDE,
    PIECE,
    STRIDE,
    Design,
    Series,
    improved,
    judged,
    needed,
    said_by,
    series_of,
    shortened,
    states,
)
from ._linear import LinearProblem, Solution
from .equations import Equations, Samples
from .estimate import Unseen, in_words
from .fourier import PeriodicMotion, places_of
from .kind import Kind
from .kinds import degrees_of_freedom
from .log import SERIES, Log
from .parameters import Parameters


OWNER = "identify.excitation"
#: Number of random motions that determine the identifiable directions, and that a designed motion is compared with.
RANDOM = 16
#: Default noise, relative to the largest torque or to that of random motions.
NOISE = 0.01
#: Number of bisection steps for the contraction of a motion, and of further small steps if a finer check finds violations.
HALVINGS, ROUNDS = 12, 100
#: Minimum number of times in the final check of torques and distances.
CHECKED = 2000
#: Number of random configurations in the search for a standing one.
STANDS = 64
#: Width of the sign change of friction during the design, relative to the largest speed.
TURNING = 0.05


@dataclass(frozen=True, eq=False)
class Excitation:
    """An informative motion that satisfies its limits, and its expected accuracy.

    - `model`: the model.
    - `motion`: a `PeriodicMotion` with `q(t)`, `v(t)`, `a(t)`.
    - `parameters`: the parameters to estimate.
    - `rate`: sampling rate in Hz of the expected errors, for one period.
    - `noise`: standard deviation of the measured force of each degree of freedom; infinite if it is not measured.
    - `covariance`: expected covariance of the values from `least_squares`, if the noise is white and of this size.
    - `seen`: the unidentifiable directions, and the identifiable combinations.
    - `condition_number`: of the regressor of the identifiable combinations, with normalized columns.
    - `gain`: geometric mean of the ratio of information to that of a random motion within the same limits. This number of
      periods of the random motion is equivalent to one period of the motion.
    - `distance`: smallest distance in m between shapes that must not touch; infinite without such shapes.
    - `checked`: number of times per period at which torques and distances were checked. The limits of positions, speeds and
      accelerations hold at all times.
    - `low`, `high`, `speed`, `acceleration`, `effort`: limits of the moving joints minus the margin; infinite where absent.
    - `remarks`: additional information, a sentence each.

    >>> model = rbd.load("pendulum")
    >>> found = rbd.identify.excitation(model, rbd.identify.masses(), seconds=2.0, effort=20.0, speed=4.0, starts=1, steps=20)
    >>> print(found.parameters.names, found.log().t.shape)
    ('bob mass',) (200,)
    """

    model: Model
    motion: PeriodicMotion
    parameters: Parameters
    rate: float
    noise: np.ndarray
    covariance: np.ndarray
    seen: Unseen
    condition_number: float
    gain: float
    distance: float
    checked: int
    low: np.ndarray
    high: np.ndarray
    speed: np.ndarray
    acceleration: np.ndarray
    effort: np.ndarray
    remarks: tuple[str, ...] = field(default=())

    @property
    def base_names(self) -> tuple[str, ...]:
        """Names of the identifiable combinations, each the value with which others are grouped."""
        return tuple(self.parameters.names[i] for i in self.seen.kept)

    @property
    def base_values(self) -> np.ndarray:
        """Values of the identifiable combinations in the model."""
        own = self.parameters.values_of(self.model)
        return self.seen.grouping @ np.asarray(own, float)

    @property
    def base_standard_errors(self) -> np.ndarray:
        """Expected standard errors of the identifiable combinations after one period."""
        found = self.seen.grouping @ self.covariance @ self.seen.grouping.T
        return np.sqrt(np.maximum(np.diag(found), 0))

    @property
    def unobservable(self) -> tuple[str, ...]:
        """Descriptions of the directions that this motion, or any motion of these joints, does not identify."""
        return in_words(self.seen.directions, self.parameters.names)

    def log(self, rate: float | int | None = None, periods: int = 1) -> Log:
        """Returns the motion and its forces as a log of a robot that matches the model, without noise.

        Args:
          rate: Sampling rate in Hz; by default `self.rate`.
          periods: Number of periods.
        """
        t = self.motion.times(
            self.rate if rate is None else rate, whole_number("Excitation.log", "periods", periods)
        )
        found = samples_along(self.model, self.motion, t)
        return Log(t, found.q, found.v, found.a, found.tau, name="excitation")

    def save(self, path: str | Path, rate: float | int | None = None) -> None:
        """Writes one period: `.csv` with a column for each joint quantity, or `.npz`, which also contains the series.

        `read_log` reads both formats, with the forces of the model as `tau`; a controller can replay q, v and a.
        `PeriodicMotion.read` reads the series. The file is written atomically.

        Args:
          path: The file; its suffix selects the format.
          rate: Sampling rate in Hz; by default `self.rate`.

        Raises:
          ValueError: If the suffix is neither `.csv` nor `.npz`.
        """
        path = Path(path)
        if path.suffix not in (".csv", ".npz"):
            raise ValueError(f"Excitation.save: {path.name!r} ends in neither .csv nor .npz")
        log = self.log(rate)
        channels = {name: log.channels[name].values for name in ("q", "v", "a", "tau")}
        with whole_file(path) as part:
            if path.suffix == ".npz":
                series = {name: np.asarray(getattr(self.motion, name)) for name in SERIES}
                np.savez_compressed(part, t=log.t, **channels, **series)  # pyright: ignore[reportArgumentType]
                return
            names, columns = ["t"], [log.t]
            for dof in degrees_of_freedom(self.model):
                if dof.label != dof.name:
                    continue  # joints with several degrees of freedom do not move
                q_place = self.model.q_slice(dof.name).start
                for name, place in (("q", q_place), ("v", dof.place), ("a", dof.place), ("tau", dof.place)):
                    names.append(f"{name}_{dof.name}")
                    columns.append(channels[name][:, place])
            rows = np.stack(columns, axis=1)
            np.savetxt(
                part, rows, fmt="%.10g", delimiter=",", header=",".join(names), comments="", encoding="utf-8"
            )

    def table(self) -> str:
        """Returns a text table of the identifiable combinations with units and expected standard errors."""
        units = [self.parameters.units[i] for i in self.seen.kept]
        width = max(map(len, self.base_names), default=0)
        lines = [f"{'':{width}}  {'model':>11}  {'± error':>10}  unit"]
        rows = zip(self.base_names, self.base_values, self.base_standard_errors, units)
        lines += [
            f"{name:{width}}  {value:11.5g}  {error:10.3g}  {unit}" for name, value, error, unit in rows
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        lost = self.parameters.size - len(self.seen.kept)
        return (
            f"Excitation({len(self.motion.joints)} joints of {self.model.name!r}, {float(self.motion.period):g} s; "
            f"{len(self.seen.kept)} combinations of {self.parameters.size} values seen"
            f"{f', {lost} not' if lost else ''}; {self.gain:.3g} times a random motion)"
        )


def excitation(
    model: Model,
    free: Kind | Sequence[Kind] | Parameters,
    *,
    seconds: float | int = 10.0,
    rate: float | int = 100.0,
    harmonics: int = 5,
    joints: Sequence[str] | None = None,
    start: Float[Array | np.ndarray, "nq"] | Sequence[float] | None = None,
    rest: bool = True,
    lower=None,
    upper=None,
    speed=None,
    acceleration=None,
    effort=None,
    noise=None,
    margin: float | int = 0.05,
    clearance: float | int | None = 0.01,
    starts: int = 8,
    steps: int = 300,
    seed: int = 0,
    on_progress: Callable[[int, int], None] | None = None,
) -> Excitation:
    """Computes the periodic motion within limits whose torques are the most informative about the estimated parameters.

    The motion is D-optimal: it has the largest determinant of the information about the identifiable combinations. Each
    degree of freedom is weighted by its noise. The search starts from several random motions. Units do not matter. The
    limits of positions, speeds and accelerations hold at all times. The limits of torques, and the distances between shapes
    that may touch (`rbd.contacts`), are checked at many times, with the parameters of the model. If the model is
    inaccurate, increase `margin`, and repeat the design with the identified model.

    Args:
      model: The model.
      free: Parameter groups on which forces depend linearly, as for `least_squares`. A `prior` reduces the information that
        is needed.
      seconds: The period in s.
      rate: Sampling rate in Hz of the expected errors.
      harmonics: Number of harmonics of the base frequency.
      joints: The moving joints, each with one degree of freedom; by default all. Other joints rest at `start`.
      start: Initial and final configuration, in which other joints rest. By default the motion may start anywhere, and
        other joints rest in the reference configuration.
      rest: If True, the motion starts and ends with zero velocity and acceleration.
      lower: Lower position limits instead of the model's, one number or one for each coordinate. Revolute joints without
        limits stay within half a turn of the reference configuration.
      upper: Upper position limits, like `lower`.
      speed: Speed limits instead of the model's, one number or one for each degree of freedom.
      acceleration: Acceleration limits, like `speed`; by default none.
      effort: Limits of forces and torques instead of the model's, like `speed`.
      noise: Standard deviation of the measured forces, one number for the moving joints, or one for each degree of freedom,
        infinite if it is not measured. By default 1 % of the largest effort, or of the forces of random motions.
      margin: Fraction of every limit that remains unused.
      clearance: Minimum distance in m of shapes that may touch; None ignores shapes.
      starts: Number of random motions to improve.
      steps: Number of optimization steps.
      seed: Seed of the random motions.
      on_progress: Called with the number of finished steps and the total.

    Returns:
      The motion and its expected accuracy.

    Raises:
      ModelError: If forces are not linear in the parameters, the joints or limits are unsuitable, or no motion satisfies
        the limits.
      ValueError: If an argument is out of range.

    >>> model = rbd.load("double_pendulum")
    >>> free = [rbd.identify.inertias(), rbd.identify.damping()]
    >>> found = rbd.identify.excitation(model, free, seconds=5.0, effort=40.0, speed=4.0, starts=2, steps=100)
    >>> len(found.base_names), found.gain > 1.5, bool(np.abs(found.log().tau.values).max() < 40.0)
    (8, True, True)
    """
    a_model(OWNER, model)
    if not is_known(model):
        raise ModelError(f"{OWNER} requires concrete numbers of the model; call it outside of jit")
    parameters = _linear_parameters(model, free)
    for what, there in (
        ("constraints", model.constraints),
        ("kinematically driven joints", model.topology.rheonomic),
    ):
        if there:
            raise ModelError(
                f"{OWNER}: model {model.name!r} has {what}, so its joints do not move freely. Remove them."
            )
    seconds, rate = (
        float(number(OWNER, name, x, above=0)) for name, x in (("seconds", seconds), ("rate", rate))
    )
    margin = float(number(OWNER, "margin", margin, least=0, most=0.9))
    counts = (("harmonics", harmonics), ("starts", starts), ("steps", steps))
    harmonics, starts, steps = (whole_number(OWNER, name, x) for name, x in counts)
    if not 0 <= seed < 2**32:
        raise ValueError(f"{OWNER}: seed is {seed}; it must be an integer from 0 to {2**32 - 1}")
    if rest and harmonics < 2:
        raise ValueError(f"{OWNER}: harmonics is 1; a motion that starts at rest needs two or more")
    if rate * seconds < 2 * harmonics:
        raise ValueError(
            f"{OWNER}: at rate {rate:g} there are {rate * seconds:.3g} samples in {seconds:g} s, too few for "
            f"{harmonics} harmonics"
        )
    moving = _moving(model, joints)
    limits = _limits(model, moving, lower, upper, speed, acceleration, effort, margin)
    random = np.random.default_rng(seed)
    design, remarks = _standing(
        model, moving, limits, start, clearance, harmonics, seconds, bool(rest), random
    )
    points = design.random_points(jax.random.key(seed), max(starts, RANDOM))
    anyhow = series_of(design, points)
    design, noise = _scaled(design, parameters, anyhow, noise, seconds * rate)
    points = jax.tree.map(lambda x: pick(x, slice(starts)), points)
    memory = (jax.tree.map(lambda x: zeros(x.shape, x.dtype), points),) * 2
    total = -(-steps // STRIDE) * STRIDE
    for done in range(0, total, STRIDE):
        if on_progress is not None:
            on_progress(done, total)
        made, whole = (jnp.asarray(x, model.dtype) for x in (done, total))
        points, memory = improved(design, points, memory, made, whole, COARSE * harmonics)
    found = _best(design, anyhow, series_of(design, points))
    if on_progress is not None:
        on_progress(total, total)
    return _answer(parameters, design, moving, limits, found, noise, rate, remarks)


# Preparation.


class _Moving(NamedTuple):
    """The moving joints, their indices in q and in v, and whether they rotate."""

    names: tuple[str, ...]
    q_places: tuple[int, ...]
    v_places: tuple[int, ...]
    turns: tuple[bool, ...]


class _Limits(NamedTuple):
    """Limits minus the margin: of the moving joints, `effort` of all degrees of freedom; `said` has remarks."""

    low: np.ndarray
    high: np.ndarray
    speed: np.ndarray
    acceleration: np.ndarray
    effort: np.ndarray
    said: tuple[str, ...]


def _linear_parameters(model: Model, free) -> Parameters:
    parameters = free if isinstance(free, Parameters) else Parameters(model, free)
    for kind in parameters.kinds:
        if not kind.linear:
            raise ModelError(f"{OWNER}: forces are not linear in what {kind.owner} estimates; omit it here")
    return parameters


def _moving(model: Model, joints: Sequence[str] | None) -> _Moving:
    known = degrees_of_freedom(model)
    given = joint_names(OWNER, model, "joints", joints)
    names = tuple(dict.fromkeys(one.name for one in known)) if given is None else tuple(dict.fromkeys(given))
    if not names:
        raise ModelError(f"{OWNER}: no joint of model {model.name!r} moves")
    turns = {one.name: one.turns for one in known}
    places = places_of(OWNER, model, names)
    return _Moving(names, places[0], places[1], tuple(turns[name] for name in names))


def _limits(model, moving, lower, upper, speed, acceleration, effort, margin) -> _Limits:
    q_places, v_places = (list(places) for places in moving[1:3])
    low, high = (
        _limit(name, given, model.nq, own)[q_places]
        for name, given, own in (("lower", lower, model.lower), ("upper", upper, model.upper))
    )
    none, said = np.full(model.nv, np.inf), []
    fast, hard, strong = (
        _limit(name, given, model.nv, own)
        for name, given, own in (
            ("speed", speed, model.velocity_limit),
            ("acceleration", acceleration, none),
            ("effort", effort, model.effort_limit),
        )
    )
    reference = np.asarray(model.reference, float)[q_places]
    for i, (name, turns) in enumerate(zip(moving.names, moving.turns)):
        ends = np.isfinite([low[i], high[i]])
        if ends.all():
            if not low[i] < high[i]:
                raise ModelError(
                    f"{OWNER}: joint {name!r} has limits {low[i]:g} and {high[i]:g}, which leave no room. "
                    "Select other joints by joints=[...]."
                )
            continue
        if not turns:
            raise ModelError(
                f"{OWNER}: joint {name!r} slides and has no limits on {'both sides' if not ends.any() else 'one side'}; give "
                "lower and upper, or omit it from joints."
            )
        if not ends.any():
            low[i], high[i] = reference[i] - np.pi, reference[i] + np.pi
        elif ends[0]:
            high[i] = low[i] + 2 * np.pi
        else:
            low[i] = high[i] - 2 * np.pi
        said.append(
            f"joint {name!r} has no limits of its own: it stays between {low[i]:.4g} and {high[i]:.4g} rad"
        )
    for what, values in (
        ("speed", fast[v_places]),
        ("acceleration", hard[v_places]),
        ("effort", strong[v_places]),
    ):
        for name, value in zip(moving.names, values):
            if not value > 0:
                raise ModelError(
                    f"{OWNER}: joint {name!r} has a limit of {what} of {value:g}; give another by {what}=..., "
                    "or omit the joint from joints."
                )
    half = margin * (high - low) / 2
    left = 1 - margin
    # Joints that do not move have no effort limit.
    strong = np.where(np.isin(np.arange(model.nv), v_places), left * strong, np.inf)
    return _Limits(low + half, high - half, left * fast[v_places], left * hard[v_places], strong, tuple(said))


def _limit(name: str, given, size: int, own) -> np.ndarray:
    """Returns the given limit, or the model's, for each coordinate or degree of freedom."""
    if given is None:
        return np.array(own, float)
    found = np.asarray(as_array(OWNER, name, given, f"one number or an array of {size}"), float)
    if found.shape not in ((), (size,)) or np.isnan(found).any():
        raise ValueError(f"{OWNER}: {name} is {found.tolist()}; it takes one number or an array of {size}")
    return np.array(np.broadcast_to(found, (size,)))


def _around(model, moving, limits, given, random) -> np.ndarray:
    """Returns candidate standing configurations.

    These are the given or reference configuration, the middle of the limits, and random ones.
    """
    resting, places = np.asarray(model.reference, float) if given is None else given, list(moving.q_places)
    around = np.repeat(resting[None], STANDS + 2, axis=0)
    around[:, places] = random.uniform(limits.low, limits.high, (len(around), len(places)))
    around[0, places] = np.clip(resting[places], limits.low, limits.high)
    around[1, places] = (limits.low + limits.high) / 2
    if given is not None:
        for name, at, low, high in zip(moving.names, given[places], limits.low, limits.high):
            if not low < at < high:
                raise ModelError(
                    f"{OWNER}: start has joint {name!r} at {at:g}, but its limits with margin are {low:.4g} and {high:.4g}."
                )
    return around


def _falls(where: str, fault: str) -> ModelError:
    """Returns an error for a configuration in which the robot cannot stand."""
    return ModelError(
        f"{OWNER}: {where} {fault}; give a start in which the robot can stand, another effort or clearance, or "
        "an rbd.contact.ContactExclusion for shapes that never touch"
    )


def _standing(
    model, moving, limits, start, clearance, harmonics, seconds, rest, random
) -> tuple[Design, list[str]]:
    """Returns the design without parameters, and remarks.

    The design has a configuration in which the robot can stand, and the pairs of shapes to keep apart.
    """
    bare = without(model, "actuator")
    given = None if start is None else np.asarray(configuration(OWNER, model, "start", start), float)
    around = _around(model, moving, limits, given, random)
    still = np.zeros((len(around), model.nv))
    pairs, remarks = [], list(limits.said)
    if clearance is not None:
        clearance = float(number(OWNER, "clearance", clearance, least=0))
        pairs = touching(bare)
        if not pairs:
            what = "no two of its shapes may touch" if model.shapes else "the model has no shapes"
            remarks.append(f"{what}: nothing keeps its bodies away from each other and from the ground")
    tau, apart = needed(bare, tuple(pairs), around, still, still)
    sizes = np.maximum(pair_sizes(bare, pairs), 1e-9)
    near, moves = apart < (clearance or 0.0), np.ptp(apart, axis=0) > 1e-6 * sizes
    for k in np.flatnonzero(moves & near[2:].all(axis=0)):
        remarks.append(
            f"shapes {_pair(model, pairs[k])} are never {clearance:g} m apart, so they are not kept apart"
        )
    kept = np.flatnonzero(moves & ~near[2:].all(axis=0))
    pairs, apart, sizes = [pairs[k] for k in kept], apart[:, kept], sizes[kept]
    over = np.concatenate([np.abs(tau) / limits.effort - 1, ((clearance or 0.0) - apart) / sizes], axis=1)
    worst = over.max(axis=1)
    stands = (
        0 if given is not None or worst[0] < -INSIDE else 1 if worst[1] < -INSIDE else int(np.argmin(worst))
    )
    if not worst[stands] < 0:
        k = int(np.argmax(over[stands]))
        if k < model.nv:
            name = next(one.label for one in degrees_of_freedom(model) if one.place == k)
            fault = f"joint {name!r} needs {abs(tau[stands, k]):.3g} and may take {limits.effort[k]:.3g}"
        else:
            k -= model.nv
            fault = f"shapes {_pair(model, pairs[k])} are {apart[stands, k]:.3g} m apart"
        raise _falls(
            f"in the best of {len(around)} configurations within its limits" if given is None else "in start",
            fault,
        )
    omega = 2 * np.pi / seconds
    quick = np.minimum(limits.speed, omega * harmonics * (limits.high - limits.low) / 2)
    turning = np.full(model.nv, 1.0)
    turning[list(moving.v_places)] = TURNING * quick
    parameters = 10 * model.nb + 4 * model.nv
    as_jax = lambda x: from_numpy(np.asarray(x, model.dtype))
    design = Design(
        model=bare,
        home=as_jax(around[stands]),
        low=as_jax(limits.low),
        high=as_jax(limits.high),
        speed=as_jax(limits.speed),
        acceleration=as_jax(limits.acceleration),
        torque=as_jax(limits.effort),
        clearance=as_jax(np.full(len(pairs), clearance or 0.0)),
        sizes=as_jax(sizes),
        ways=zeros((parameters, 0), model.dtype),
        weights=zeros((model.nv,), model.dtype),
        known=zeros((0, 0), model.dtype),
        turning=as_jax(turning),
        period=as_jax(seconds),
        pairs=tuple(pairs),
        q_places=moving.q_places,
        v_places=moving.v_places,
        harmonics=harmonics,
        begins=given is not None,
        rests=rest,
    )
    return design, remarks


def _pair(model: Model, pair) -> str:
    return f"{model.shapes[pair.first].name!r} and {model.shapes[pair.second].name!r}"


def _scaled(
    design: Design, parameters: Parameters, motions: Series, noise, samples: float
) -> tuple[Design, np.ndarray]:
    """Returns the design with parameters, and the noise.

    Directions are scaled by the information of random motions.
    """
    model = parameters.reference
    q, v, a = (
        np.asarray(x, float).reshape(-1, x.shape[-1])
        for x in states(design, motions, COARSE * design.harmonics)
    )
    tau, _ = needed(design.model, (), q, v, a)
    noise = _noise(design, noise, np.sqrt(np.mean(tau**2, axis=0)))
    equations, problem = _problem(parameters, Samples(q, v, a, np.where(np.isfinite(noise), tau, np.nan)))
    shown = problem.shown()
    if not shown.shape[1]:
        raise ModelError(f"{OWNER}: no motion of these joints identifies any parameter in free")
    triangle = _weighted(problem, noise) @ shown
    ways = shown @ np.linalg.inv(np.linalg.qr(triangle, mode="r")) * np.sqrt(len(q))
    # The prior, minus the part that determines unidentifiable directions.
    known = np.where(np.isfinite(problem.deviation), problem.deviation, np.inf) ** -2.0
    hidden = problem.hidden().directions
    across = hidden * known
    seen = (ways.T * known) @ ways
    lost = across @ ways
    seen = seen - lost.T @ np.linalg.pinv(across @ hidden.T, hermitian=True) @ lost
    as_jax = lambda x: from_numpy(np.asarray(x, model.dtype))
    weights = np.where(np.isfinite(noise), 1 / noise, 0.0)
    return replace(
        design, ways=as_jax(problem.slopes @ ways), weights=as_jax(weights), known=as_jax(seen / samples)
    ), noise


def _noise(design: Design, given, typical: np.ndarray) -> np.ndarray:
    model, places = design.model, list(design.v_places)
    noise = np.full(model.nv, np.inf)
    if given is None:
        most = np.asarray(design.torque, float)
        least = 1e-6 * typical[places].max(initial=0)
        sizes = np.where(np.isfinite(most), most, np.maximum(typical, least))[places]
        noise[places] = NOISE * np.where(sizes > 0, sizes, 1.0)
        return noise
    found = np.asarray(as_array(OWNER, "noise", given, f"one number or an array of {model.nv}"), float)
    if found.shape not in ((), (model.nv,)) or not (found > 0).all() or not np.isfinite(found).any():
        raise ValueError(
            f"{OWNER}: noise is {found.tolist()}; it must be one positive number or {model.nv}, infinite where not measured."
        )
    if found.ndim:
        return found
    noise[places] = found
    return noise


def _problem(parameters: Parameters, samples: Samples) -> tuple[Equations, LinearProblem]:
    equations = Equations.none(parameters.reference).with_samples(samples, chunk=PIECE)
    return equations, LinearProblem.of(parameters, equations, physical=False)


def _weighted(problem: LinearProblem, noise: np.ndarray) -> np.ndarray:
    """Returns the rows of all degrees of freedom, each divided by its noise."""
    rows = problem.triangles[:, :, :-1] / np.where(np.isfinite(noise), noise, 1.0)[:, None, None]
    return rows.reshape(-1, rows.shape[2])


# Result.


class _Found(NamedTuple):
    """The best motion.

    - `motion`: the motion.
    - `gain`: its information relative to that of a random motion.
    - `distance`: the smallest distance between shapes.
    - `checked`: number of times of the final check.
    """

    motion: Series
    gain: float
    distance: float
    checked: int


def _best(design: Design, random: Series, found: Series) -> _Found:
    both = jax.tree.map(lambda *x: by_numpy(lambda xp, *x: xp.concatenate(x), *x), random, found)
    count = len(random.middle)
    share = _kept(design, both)
    short = shortened(design, both, jnp.asarray(share, design.model.dtype))
    said = np.asarray(said_by(judged(design, short, COARSE * design.harmonics)[0]), float)
    said = np.where(np.isfinite(said), said, -np.inf)
    best = int(np.argmax(said))
    motion = jax.tree.map(lambda x: pick(x, slice(best, best + 1)), short)
    checked = max(4 * FINE * design.harmonics, CHECKED)
    for _ in range(ROUNDS):
        over, distance = _beyond(design, motion, checked)
        if over[0] <= 0:
            usual = np.median(said[:count])
            gain = (
                float(np.exp((said[best] - usual) / design.ways.shape[1])) if np.isfinite(usual) else np.inf
            )
            return _Found(jax.tree.map(lambda x: pick(x, 0), motion), gain, distance, checked)
        motion = shortened(design, motion, jnp.asarray([1 - 1 / ROUNDS], design.model.dtype))
    raise ModelError(
        f"{OWNER}: no motion satisfies the limits of torques and the distances between shapes; "
        f"the best one exceeds them by {100 * over[0]:.3g} %. Pass another start, or wider limits."
    )


def _kept(design: Design, motions: Series) -> np.ndarray:
    """Returns the factor by which each motion must be contracted to satisfy the limits."""
    count = FINE * design.harmonics
    least, most = np.zeros(len(motions.middle)), np.ones(len(motions.middle))
    share = most.copy()
    for _ in range(HALVINGS):
        short = shortened(design, motions, jnp.asarray(share, design.model.dtype))
        fine = _beyond(design, short, count)[0] <= 0
        least, most = np.where(fine, share, least), np.where(fine, most, share)
        if (least == 1).all():
            break
        share = np.where(least == 1, 1.0, (least + most) / 2)
    return least


def _beyond(design: Design, motions: Series, count: int) -> tuple[np.ndarray, float]:
    """Returns the largest relative violation of each motion, and the smallest distance of all."""
    q, v, a = (np.asarray(x) for x in states(design, motions, count))
    flat = (x.reshape(-1, x.shape[-1]) for x in (q, v, a))
    tau, apart = needed(design.model, design.pairs, *flat)
    torque, clearance, sizes = (np.asarray(x, float) for x in (design.torque, design.clearance, design.sizes))
    over = np.concatenate([np.abs(tau) / torque - 1, (clearance - apart) / sizes], axis=1)
    over = np.where(np.isnan(over), np.inf, over)
    return over.max(axis=1).reshape(len(q), count).max(axis=1), float(apart.min(initial=np.inf))


def _answer(parameters, design, moving, limits, found: _Found, noise, rate, remarks) -> Excitation:
    model = parameters.reference
    middle = np.array(design.home, float)
    middle[list(moving.q_places)] = np.asarray(found.motion.middle, float)
    series = found.motion.series
    motion = PeriodicMotion(
        middle=jnp.asarray(middle, model.dtype),
        sines=pick(series, slice(design.harmonics)),
        cosines=pick(series, slice(design.harmonics, None)),
        period=design.period,
        joints=moving.names,
        q_places=moving.q_places,
        v_places=moving.v_places,
        nv=model.nv,
    )
    _verify(motion, limits)
    samples = samples_along(model, motion, motion.times(rate))
    _, problem = _problem(parameters, replace(samples, tau=np.where(np.isfinite(noise), samples.tau, np.nan)))
    nothing = np.zeros(len(problem.start))
    still = Solution(problem.start, noise, np.zeros((0, 0)), np.zeros((0, 0)), nothing > 0, 0, True)
    covariance = problem.covariance(np.where(np.isfinite(noise), noise, 1.0), still)
    seen = problem.hidden()
    columns = _weighted(problem, noise)[:, list(seen.kept)]
    columns = columns / np.sqrt(np.sum(columns**2, axis=0))
    sizes = np.linalg.svd(columns, compute_uv=False)
    return Excitation(
        model=model,
        motion=motion,
        parameters=parameters,
        rate=rate,
        noise=noise,
        covariance=covariance,
        seen=seen,
        condition_number=float(sizes[0] / sizes[-1]),
        gain=found.gain,
        distance=found.distance,
        checked=found.checked,
        low=limits.low,
        high=limits.high,
        speed=limits.speed,
        acceleration=limits.acceleration,
        effort=limits.effort[list(moving.v_places)],
        remarks=tuple(remarks),
    )


def _verify(motion: PeriodicMotion, limits: _Limits) -> None:
    """Checks that the bounds of the result are within the limits, up to rounding."""
    low, high, speed, acceleration = motion.extent()
    slack = 1 + 1e3 * float(jnp.finfo(motion.middle.dtype).eps)
    room = (slack - 1) * (np.abs(limits.low) + np.abs(limits.high))
    kept = (
        (low >= limits.low - room) & (high <= limits.high + room)
        & (speed <= slack * limits.speed) & (acceleration <= slack * limits.acceleration)
    )  # fmt: skip
    if not kept.all():
        names = ", ".join(repr(name) for name, fine in zip(motion.joints, kept) if not fine)
        raise ModelError(
            f"{OWNER}: the resulting motion violates the limits of joints {names}; please report this."
        )


def samples_along(model: Model, motion: PeriodicMotion, t: np.ndarray) -> Samples:
    """Returns states along a motion, and the required motor forces."""
    q, v, a = (np.asarray(x, float) for x in motion.along(t))
    bare = without(model, "actuator")
    return Samples(q, v, a, needed(bare, (), q, v, a)[0])
