"""The optimization problem of `excitation`: the most informative periodic motion within limits.

The unknowns of each joint are the shape of its series, its share of the range that the limits leave, and its position in
that range. The largest feasible size of a shape follows from samples of it (see `fourier`). Therefore all unknowns satisfy
the limits of positions, speeds and accelerations; starts at rest are built into the coefficients. Torques and distances
have no such closed form. Violations of their limits are penalized with increasing weight. Finally, each motion is
contracted towards a standing configuration until it satisfies the limits.

The objective is the largest `log det F` with `F = mean of Wᵀ Yᵀ Σ⁻¹ Y W` over the samples. The columns of W are
identifiable directions of the estimated values. They are scaled so that F is the identity on average over random motions.
The result is independent of units and of the choice of base parameters, and single precision is sufficient.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from .._core.array import matmul, transpose
from .._core.jit import compiled
from ..contact.apart import distances
from ..contact.pairs import Touching
from ..dynamics import Motion, inverse_dynamics
from ..dynamics.passive import passive_force
from ..forces.carried import carried_forces
from ..model import Model
from ..parallel.batch import batch_map, whole
from .equations import linear_numbers, torque_regressor
from .fourier import SAMPLES, basis, excess


#: Number of samples per harmonic during the optimization, and for the final contraction.
COARSE, FINE = 16, 64
#: Target margin inside the limits of torques and distances: a fraction of the limit, and of the size of the smaller shape.
INSIDE = 0.01
#: Initial and final weight of the sum of squared relative violations.
COSTS = 1.0, 1e4
#: Initial and final learning rate of Adam, and its two decay rates.
RATES, MEMORIES = (0.1, 1e-3), (0.9, 0.99)
#: Number of steps between two progress reports.
STRIDE = 25
#: Number of states that are evaluated together.
PIECE = 512


class Point(NamedTuple):
    """Unconstrained unknowns; several motions are along axis 0.

    - `shape`: coordinates of the series of each joint, (joints, n).
    - `size`: the fraction of the largest feasible size, before a sigmoid.
    - `place`: the position in the remaining range, before a sigmoid.
    """

    shape: Float[Array, "*starts joints n"]
    size: Float[Array, "*starts joints"]
    place: Float[Array, "*starts joints"]


class Series(NamedTuple):
    """Fourier series of the moving joints.

    - `middle`: the mean coordinates, (joints,).
    - `series`: the coefficients, sines first, (2 harmonics, joints).
    """

    middle: Float[Array, "*starts joints"]
    series: Float[Array, "*starts terms joints"]


class Design(eqx.Module):
    """The data of the optimization problem.

    - `home`: a configuration in which the robot can stand, and where joints that do not move rest.
    - `low`, `high`, `speed`, `acceleration`: limits of the moving joints, infinite where absent.
    - `torque`: limits of all degrees of freedom, infinite where absent.
    - `clearance`: the required distance of each of `pairs`.
    - `sizes`: the radius of the smaller shape of each pair.
    - `ways`: W, with rows as in `linear_numbers`.
    - `weights`: the inverse noise of each degree of freedom, zero if it is not measured.
    - `known`: the contribution of the prior to F.
    - `turning`: speeds over which the sign of friction changes. The width of `passive_force` is too narrow: single samples
      would dominate.
    - `begins`: whether the motion starts at `home`.
    - `rests`: whether it starts with zero velocity and acceleration.
    """

    model: Model
    home: Float[Array, "nq"]
    low: Float[Array, "joints"]
    high: Float[Array, "joints"]
    speed: Float[Array, "joints"]
    acceleration: Float[Array, "joints"]
    torque: Float[Array, "nv"]
    clearance: Float[Array, "pairs"]
    sizes: Float[Array, "pairs"]
    ways: Float[Array, "parameters seen"]
    weights: Float[Array, "nv"]
    known: Float[Array, "seen seen"]
    turning: Float[Array, "nv"]
    period: Float[Array, ""]
    pairs: tuple[Touching, ...] = eqx.field(static=True)
    q_places: tuple[int, ...] = eqx.field(static=True)
    v_places: tuple[int, ...] = eqx.field(static=True)
    harmonics: int = eqx.field(static=True)
    begins: bool = eqx.field(static=True)
    rests: bool = eqx.field(static=True)

    @property
    def omega(self):
        return 2 * jnp.pi / self.period

    @compiled
    def random_points(self, key, count: int) -> Point:
        """Returns random points: series with equal mean speeds of all harmonics, at 80 % of the feasible size."""
        shape, place = jax.random.split(key)
        joints, dtype = len(self.q_places), self.model.dtype
        width = _coordinates(self.harmonics, self.rests).shape[1]
        return Point(
            jax.random.normal(shape, (count, joints, width), dtype),
            jnp.full((count, joints), np.log(4.0), dtype),
            jax.random.normal(place, (count, joints), dtype),
        )

    def series(self, point: Point) -> Series:
        """Returns the motion of a point; it satisfies the limits of positions, speeds and accelerations."""
        dtype = point.shape.dtype
        terms = matmul(jnp.asarray(_coordinates(self.harmonics, self.rests), dtype), transpose(point.shape))
        count = SAMPLES * self.harmonics
        more = excess(self.harmonics, count)
        q, v, a = (matmul(jnp.asarray(rows, dtype), terms) for rows in basis(self.harmonics, count))
        top, bottom, first = jnp.max(q, axis=0), jnp.min(q, axis=0), q[0]
        centre, half = (top + bottom) / 2, (top - bottom) / 2 * more
        start = self.home[np.array(self.q_places)]
        fast = more * jnp.max(jnp.abs(v), axis=0) * self.omega / self.speed
        hard = more * jnp.max(jnp.abs(a), axis=0) * self.omega**2 / self.acceleration
        if self.begins:
            above = (centre + half - first) / (self.high - start)
            wide = jnp.maximum(above, (first - centre + half) / (start - self.low))
        else:
            wide = 2 * half / (self.high - self.low)
        scale = jax.nn.sigmoid(point.size) / jnp.maximum(jnp.maximum(fast, hard), wide)
        if self.begins:
            return Series(start - scale * first, scale[None] * terms)
        least, most = self.low + scale * (half - centre), self.high - scale * (half + centre)
        return Series(least + (most - least) * jax.nn.sigmoid(point.place), scale[None] * terms)

    def samples(self, motion: Series, count: int):
        """Returns q, v and a at `count` equal phases of a period: (count, nq), (count, nv), (count, nv)."""
        dtype = motion.series.dtype
        q, v, a = (matmul(jnp.asarray(rows, dtype), motion.series) for rows in basis(self.harmonics, count))
        q_spread, v_spread = np.zeros((2, len(self.q_places), max(self.model.nq, self.model.nv)))
        q_spread[np.arange(len(self.q_places)), list(self.q_places)] = 1
        v_spread[np.arange(len(self.v_places)), list(self.v_places)] = 1
        rest = jnp.asarray(1 - q_spread.sum(0)[: self.model.nq], dtype) * self.home
        at = matmul(motion.middle[None] + q, jnp.asarray(q_spread[:, : self.model.nq], dtype))
        spread = jnp.asarray(v_spread[:, : self.model.nv], dtype)
        return rest[None] + at, matmul(v, spread) * self.omega, matmul(a, spread) * self.omega**2

    def shortened(self, motion: Series, share) -> Series:
        """Returns the motion with all displacements from home multiplied by `share`."""
        home = self.home[np.array(self.q_places)]
        return Series(home + share * (motion.middle - home), share * motion.series)


def _coordinates(harmonics: int, rests: bool) -> np.ndarray:
    """Returns a basis of the series, (2 harmonics, n); with `rests`, velocity and acceleration are zero at phase zero."""
    k = np.arange(1, harmonics + 1)
    # Divide by the harmonic, so that all series are equally fast.
    parts = []
    for fixed in (np.ones(harmonics), k.astype(float)):
        whole = np.eye(harmonics)
        if rests:
            whole = np.linalg.svd(fixed[None])[2][1:].T
        parts.append(whole / k[:, None])
    sines, cosines = parts
    none = np.zeros_like
    return np.block([[sines, none(sines)], [none(cosines), cosines]])


# Information of motions.


def information(design: Design, motions: Series, count: int):
    """Returns F of several motions, and their relative violations of torque and distance limits, (starts, count, ...)."""
    q, v, a = jax.vmap(lambda motion: design.samples(motion, count))(motions)
    flat = (x.reshape(-1, x.shape[-1]) for x in (q, v, a))

    def one(design, numbers, q, v, a):
        model = design.model
        motion = Motion(model, q, v)
        regressor = torque_regressor(model, q, v, a)
        inertial, nv = 10 * model.nb, model.nv
        turned = jnp.eye(nv, dtype=v.dtype) * (v / jnp.sqrt(v**2 + design.turning**2))[:, None]
        regressor = jnp.concatenate(
            [regressor[:, : inertial + 2 * nv], turned, regressor[:, inertial + 3 * nv :]], axis=1
        )
        tau = jnp.sum(regressor * numbers[None], axis=1) - _carried(model, motion)
        return regressor, tau, distances(motion, design.pairs)

    regressor, tau, apart = batch_map(one, (None, None, 0, 0, 0))(design, linear_numbers(design.model), *flat)
    starts = q.shape[0]
    rows = matmul(regressor, design.ways) * design.weights[None, :, None]
    rows = rows.reshape(starts, -1, design.ways.shape[1])
    found = matmul(transpose(rows), rows) / count + design.known[None]
    strong = jnp.abs(tau) / design.torque[None] - 1
    near = (design.clearance[None] - apart) / design.sizes[None]
    return found, strong.reshape(starts, count, -1), near.reshape(starts, count, -1)


def _carried(model: Model, motion: Motion):
    """Returns the generalized force of the model's force elements; `model` is without its actuators."""
    acting = [force.generalized_force(motion) for force in carried_forces(model)]
    return sum(acting, jnp.zeros(model.nv, motion.q.dtype))


def log_determinant(found: Float[Array, "*starts n n"]) -> Float[Array, "*starts"]:
    """Returns `log det F`, with a small regularization that keeps it finite."""
    ridge = float(jnp.finfo(found.dtype).eps) ** 0.75
    little = ridge * jnp.eye(found.shape[-1], dtype=found.dtype)
    root = jnp.linalg.cholesky(found + jnp.broadcast_to(little, found.shape))
    return 2 * jnp.sum(jnp.log(jnp.diagonal(root, axis1=-2, axis2=-1)), axis=-1)


def losses(design: Design, points: Point, cost, count: int) -> Float[Array, "starts"]:
    """Returns the objective of each motion: minus the mean `log det F` per direction, plus the weighted violations."""
    motions = jax.vmap(design.series)(points)
    found, strong, near = information(design, motions, count)
    over = sum(jnp.sum(jnp.maximum(x + INSIDE, 0) ** 2, axis=(1, 2)) for x in (strong, near))
    return cost * over / count - log_determinant(found) / max(found.shape[-1], 1)


@compiled
def improved(design: Design, points: Point, memory, done, total, count: int):
    """Returns the points and the state of Adam after `STRIDE` more steps.

    Args:
      design: The problem.
      points: The current points.
      memory: The state of Adam.
      done: Number of steps so far.
      total: Number of steps in total.
      count: Number of samples of each motion.
    """

    def step(carry, number):
        points, (first, second) = carry
        share = number / total
        cost = COSTS[0] * (COSTS[1] / COSTS[0]) ** share
        rate = RATES[1] + (RATES[0] - RATES[1]) * 0.5 * (1 + jnp.cos(jnp.pi * share))
        slope = jax.grad(lambda points: jnp.sum(losses(design, points, cost, count)))(points)
        slope = jax.tree.map(lambda x: jnp.where(jnp.isfinite(x), x, 0), slope)
        a, b = MEMORIES
        first = jax.tree.map(lambda m, g: a * m + (1 - a) * g, first, slope)
        second = jax.tree.map(lambda m, g: b * m + (1 - b) * g**2, second, slope)
        a_left, b_left = 1 - a ** (number + 1), 1 - b ** (number + 1)

        def moved(x, m, s):
            return x - rate * (m / a_left) / (jnp.sqrt(s / b_left) + 1e-12)

        return (jax.tree.map(moved, points, first, second), (first, second)), None

    numbers = done[None] + jnp.arange(STRIDE, dtype=points.size.dtype)
    return whole(lax.scan(step, (points, memory), numbers)[0])


@compiled
def states(design: Design, motions: Series, count: int):
    """Returns q, v and a of several motions at `count` times of a period, (starts, count, ...)."""
    return jax.vmap(lambda motion: design.samples(motion, count))(motions)


@compiled
def judged(design: Design, motions: Series, count: int):
    """Returns the `information` of motions."""
    return whole(information(design, motions, count))


@compiled
def shortened(design: Design, motions: Series, shares) -> Series:
    """Returns motions with all displacements from home multiplied by `shares`."""
    return jax.vmap(design.shortened)(motions, shares)


@compiled
def said_by(found: Float[Array, "starts n n"]) -> Float[Array, "starts"]:
    """Returns the `log_determinant` of several F."""
    return log_determinant(found)


@compiled
def series_of(design: Design, points: Point) -> Series:
    """Returns the motions of points."""
    return jax.vmap(design.series)(points)


@compiled
def _needed(model: Model, pairs: tuple[Touching, ...], q, v, a):
    def one(model, pairs, q, v, a):
        motion = Motion(model, q, v)
        tau = inverse_dynamics(model, q, v, a) - passive_force(model, q, v) - _carried(model, motion)
        return tau, distances(motion, pairs)

    return whole(batch_map(one, (None, None, 0, 0, 0))(model, pairs, q, v, a))


def needed(model: Model, pairs: tuple[Touching, ...], q, v, a) -> tuple[np.ndarray, np.ndarray]:
    """Returns the generalized forces that states require, and the distances between pairs of shapes, row by row.

    `model` is without its actuators.
    """
    found = []
    for start in range(0, len(q), PIECE):
        rows = [np.asarray(x[start : start + PIECE]) for x in (q, v, a)]
        # Pad the rows, so that only one length is compiled.
        short = PIECE - len(rows[0])
        filled = [np.concatenate([x, np.repeat(x[-1:], short, axis=0)]).astype(model.dtype) for x in rows]
        found.append([np.asarray(x, float)[: PIECE - short] for x in _needed(model, pairs, *filled)])
    tau, apart = (np.concatenate(parts) for parts in zip(*found))
    return tau, apart
