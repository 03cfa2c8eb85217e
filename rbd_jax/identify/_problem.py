"""The problem that the linear estimators solve: least squares in the values, what is known beforehand, bounds, and the noise.

    ½ Σ_j ‖T_j [p - p₀; 1]‖² / σ_j² + ½ Σ ((p - mean) / deviation)² + Σ_b D(P_b ‖ P₀_b) / spread_b²

over the values p within their bounds, with σ_j² what is left of the j-th sum over its degrees of freedom. Each turn of the loop is a step of
Newton's with an exact line search, in double precision and without normal equations, and then the noise anew. As the noise falls from what the
reference leaves unexplained, by a bounded factor a turn, the problem goes from what was known beforehand to what the data say: the way an
interior-point method goes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._arguments import accuracy
from ..spatial import Inertia
from .equations import Equations, linear_numbers
from .estimate import Unseen, unseen
from .parameters import Parameters


#: In one turn the noise is taken to be at most so many times less than before, where bodies must stay possible.
FALL = 30.0
TURNS = 300
#: With as much to gain a minimum is taken for one, in units of the sum (a half of a squared standard deviation).
LEAST = 1e-2
#: Noise of so many times the rounding of the forces is rounding.
ROUNDING = 1e3
#: The pseudo-inertia of each of the ten parameters.
PSEUDO = np.asarray(
    [
        [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]],
        *([[float({i, j} == {k, 3}) for j in range(4)] for i in range(4)] for k in range(3)),
        np.diag([-0.5, 0.5, 0.5, 0]),
        *[[[-float({i, j} == {0, 1}) for j in range(4)] for i in range(4)]],
        np.diag([0.5, -0.5, 0.5, 0]),
        *([[-float({i, j} == {k, 2}) for j in range(4)] for i in range(4)] for k in (0, 1)),
        np.diag([0.5, 0.5, -0.5, 0]),
    ],
    float,
)


class Body(NamedTuple):
    """A free inertia: where its values are, its pseudo-inertia as it was thought to be, and how far off that may be."""

    place: slice
    thought: np.ndarray
    spread: float


class Basis(NamedTuple):
    """Coordinates of what may change: `p - p₀ = change y`, the first `seen` of y being what the data see. `lost` is what nothing holds."""

    change: np.ndarray
    seen: int
    hidden: np.ndarray
    lost: np.ndarray


@dataclass(frozen=True, eq=False)
class Solution:
    """Values with the noise by which they were weighted, and their covariance."""

    values: np.ndarray
    noise: np.ndarray
    covariance: np.ndarray
    lost: np.ndarray
    fixed: np.ndarray
    turns: int
    converged: bool

    @property
    def errors(self) -> np.ndarray:
        return np.sqrt(np.maximum(np.diag(self.covariance), 0))


@dataclass(frozen=True, eq=False)
class Problem:
    """See above; `triangles` are T, `slopes` and `numbers` are how θ of the equations follows from p: `θ = numbers + slopes (p - p₀)`."""

    parameters: Parameters
    start: np.ndarray
    numbers: np.ndarray
    slopes: np.ndarray
    triangles: np.ndarray
    counts: np.ndarray
    sizes: np.ndarray
    floor: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray
    low: np.ndarray
    high: np.ndarray
    bodies: tuple[Body, ...]
    tolerance: float
    known: dict = field(default_factory=dict)

    @staticmethod
    def of(parameters: Parameters, equations: Equations, physical: bool) -> Problem:
        model = parameters.reference
        values = parameters.values_of(model)
        through = lambda p: linear_numbers(parameters.with_values(p))
        numbers, slopes = (np.asarray(x, float) for x in (through(values), jax.jit(jax.jacfwd(through))(values)))
        start, size = np.asarray(values, float), parameters.size
        bodies = [
            Body(place, np.asarray(Inertia.from_parameters(jnp.asarray(start[place])).pseudo_inertia, float), spread)
            for place, spread in (parameters.inertial() if physical else ())
        ]
        eps = float(np.finfo(model.dtype).eps)
        torques = np.maximum(equations.torques, 1e-3 * equations.torques.max(initial=0))
        torques = np.where(torques > 0, torques, 1.0)
        given = [np.asarray(x, float) for x in (*parameters.prior(), *parameters.bounds())]
        problem = Problem(
            parameters, start, numbers, slopes, np.zeros((len(torques), size + 1, size + 1)), equations.counts,
            torques, eps * torques, *given, tuple(bodies), accuracy(model.dtype),
        )  # fmt: skip
        return problem.with_equations(equations)

    def with_equations(self, equations: Equations) -> Problem:
        """The same with other sums of squares."""
        from dataclasses import replace

        factors = equations.factors
        whole = np.concatenate([factors[:, :, :-1] @ self.slopes, (factors @ np.append(self.numbers, -1.0))[..., None]], 2)
        return replace(self, triangles=np.stack([np.linalg.qr(one, mode="r")[: whole.shape[2]] for one in whole]), known={})

    def numbers_of(self, values: np.ndarray) -> np.ndarray:
        """θ of values."""
        return self.numbers + self.slopes @ (values - self.start)

    def squares(self, values: np.ndarray) -> np.ndarray:
        """The sum of the squared errors of each degree of freedom."""
        return np.sum((self.triangles @ np.append(values - self.start, 1.0)) ** 2, axis=1)

    def solved(self, noise: np.ndarray | None = None, start: np.ndarray | None = None) -> Solution:
        """The least of it. The noise is found unless it is given."""
        values = self.start.copy() if start is None else start.copy()
        find = noise is None
        if noise is None:
            noise = np.maximum(np.sqrt(self.squares(values) / np.maximum(self.counts, 1)), self.floor)
        fixed = np.zeros(len(values), bool)
        covariance, lost, turn, settled = np.zeros((len(values),) * 2), np.zeros((0, len(values))), 0, False
        for turn in range(1, TURNS + 1):
            step, fixed, covariance, lost = self._bounded_step(values, noise)
            length, slope = self._length(values, step, noise)
            values = np.clip(values + length * step, self.low, self.high)
            rounding = bool(np.all(noise <= ROUNDING * self.floor))
            # By how much less the whole was to become; where errors are those of rounding, that is too.
            if slope < -LEAST and not (rounding and length > 0.999):
                continue
            new = self._noise(values, covariance, noise) if find else noise
            known = rounding or bool(np.all(np.abs(new - noise) <= 1e-4 * noise))
            errors = np.sqrt(np.maximum(np.diag(covariance), 0))
            near = np.abs(step) <= 1e-3 * errors + 1e-11 * (np.abs(values) + 1e-3 * self.scale)
            noise = new
            if known and near.all():
                settled = True
                break
        return Solution(values, noise, covariance, lost, fixed, turn, settled)

    @property
    def scale(self) -> np.ndarray:
        """Of each value what makes forces as large as those measured; one where it makes none."""
        norms = np.sqrt(np.sum((self.triangles[:, :, :-1] / self.sizes[:, None, None]) ** 2, axis=(0, 1)))
        norms = norms / np.sqrt(max(self.counts.sum(), 1))
        shows = norms > self.tolerance * norms.max(initial=0)
        return np.where(shows, 1 / np.where(shows, norms, 1), 1.0)

    def hidden(self) -> Unseen:
        """What the data do not see."""
        basis = self._basis(np.ones(len(self.start), bool))
        blocks = []
        for inertial in (True, False):
            for kind, block in zip(self.parameters.kinds, self.parameters.blocks):
                if kind.inertial == inertial:
                    width = block.shape[1]
                    blocks += [range(i, i + width) for i in range(block.start, block.stop, width)][::-1]
        return unseen(basis.hidden / self.scale, self.scale, blocks)

    def covariance(self, noise: np.ndarray, solution: Solution) -> np.ndarray:
        """That of the values of a solution if this is the noise."""
        return self._step(solution.values, noise, ~solution.fixed, np.zeros(len(self.start)))[1]

    # Steps.

    def _noise(self, values, covariance, noise):
        triangles = self.triangles[:, :, :-1] / noise[:, None, None]
        used = np.einsum("jkm,mn,jkn->j", triangles, covariance, triangles)
        new = np.sqrt(self.squares(values) / np.maximum(self.counts - used, 1))
        least = noise / FALL if self.bodies else 0.0
        return np.maximum(np.maximum(new, self.floor), least)

    def _bounded_step(self, values, noise):
        """The step within the bounds: what would leave them goes to them and stays there for this step."""
        free, held = np.ones(len(values), bool), np.zeros(len(values))
        while True:
            step, covariance, lost = self._step(values, noise, free, held)
            to = values + step
            slack = 1e-12 * (np.abs(values) + self.scale)
            out = free & ((to < self.low - slack) | (to > self.high + slack))
            if not out.any():
                return step, ~free, covariance, lost
            held = np.where(out, np.clip(to, self.low, self.high) - values, held)
            free &= ~out

    def _step(self, values, noise, free, held):
        basis = self._basis(free)
        seen, change = basis.seen, basis.change
        given = np.where(free, 0, held)
        scaled = (self.triangles / noise[:, None, None]).reshape(-1, len(values) + 1)
        error = scaled @ np.append(values + given - self.start, 1.0)
        data = scaled[:, :-1] @ change
        data[:, seen:] = 0.0
        rows, rest = self._thought(values)
        stacked = np.concatenate([data, rows @ change])
        right = np.concatenate([error, rest + rows @ given])
        q, r = np.linalg.qr(stacked)
        inverse = np.linalg.solve(r, np.eye(len(r))) if len(r) else r
        y = -(inverse @ (q.T @ right))
        root = change @ inverse
        return change @ y + given, root @ root.T, basis.lost

    def _basis(self, free: np.ndarray) -> Basis:
        """Coordinates for changes of the free values."""
        key = free.tobytes()
        if key not in self.known:
            scale, at = self.scale, np.flatnonzero(free)
            weighted = (self.triangles[:, :, :-1] / self.sizes[:, None, None]).reshape(-1, len(free))
            triangle = np.linalg.qr(weighted[:, at] * scale[at], mode="r")
            triangle = np.concatenate([triangle, np.zeros((max(len(at) - len(triangle), 0), len(at)))])
            _, sizes, vectors = np.linalg.svd(triangle) if len(at) else (None, np.zeros(0), np.zeros((0, 0)))
            seen = int(np.sum(sizes > self.tolerance * sizes.max(initial=0)))
            there = np.zeros((len(at), len(free)))
            there[np.arange(len(at)), at] = 1
            spread = lambda rows: (rows * scale[at]) @ there
            hidden = vectors[seen:]
            rows, _ = self._thought(self.start)
            # Of what the data do not see, what was known beforehand holds some.
            _, held, ways = np.linalg.svd(np.concatenate([rows @ spread(hidden).T, np.zeros((len(hidden),) * 2)]))
            count = int(np.sum(held > 1e-9 * held.max(initial=0))) if len(hidden) else 0
            change = np.concatenate([spread(vectors[:seen]), spread(ways[:count] @ hidden)])
            self.known[key] = Basis(change.T, seen, spread(hidden), spread(ways[count:] @ hidden))
        return self.known[key]

    def _thought(self, values) -> tuple[np.ndarray, np.ndarray]:
        """What is known beforehand as rows of least squares about these values: `½ ‖rows δ + rest‖²` to second order in δ."""
        certain = np.flatnonzero(np.isfinite(self.deviation))
        rows = [np.eye(len(values))[certain] / self.deviation[certain, None]]
        rest = [(values[certain] - self.mean[certain]) / self.deviation[certain]]
        for place, thought, spread in self.bodies:
            root = np.linalg.cholesky(np.einsum("k,kij->ij", values[place], PSEUDO))
            inverse = np.linalg.inv(root)
            own = np.zeros((16, len(values)))
            own[:, place] = (inverse @ PSEUDO @ inverse.T).reshape(10, 16).T
            rows.append(own / spread)
            rest.append((root.T @ np.linalg.solve(thought, root) - np.eye(4)).reshape(16) / spread)
        return np.concatenate(rows), np.concatenate(rest)

    def _length(self, values, step, noise) -> tuple[float, float]:
        """How far to go along a step, to the least on the way; and the slope there is at its start.

        Along the way D is `t tr(P₀⁻¹ Δ) - Σ log(1 + t λ)`, with λ the eigenvalues of Δ in units of P; its slope grows.
        """
        scaled = (self.triangles / noise[:, None, None]).reshape(-1, len(values) + 1)
        error, by_step = scaled @ np.append(values - self.start, 1.0), scaled[:, :-1] @ step
        certain = np.isfinite(self.deviation)
        off, way = ((x / self.deviation)[certain] for x in (values - self.mean, step))
        first, second = error @ by_step + off @ way, by_step @ by_step + way @ way
        if not self.bodies:
            return 1.0, float(first)
        traces, changes, weights = [], [], []
        for place, thought, spread in self.bodies:
            P, Δ = (np.einsum("k,kij->ij", x[place], PSEUDO) for x in (values, step))
            inverse = np.linalg.inv(np.linalg.cholesky(P))
            traces.append(np.trace(np.linalg.solve(thought, Δ)))
            changes.append(np.linalg.eigvalsh(inverse @ Δ @ inverse.T))
            weights.append(1 / spread**2)
        trace, change, weight = (np.array(x) for x in (traces, changes, weights))
        slope = lambda t: first + t * second + np.sum(weight * (trace - np.sum(change / (1 + t * change), axis=1)))
        end = min(1.0, 0.99 / max(-change.min(), 1e-300))
        if slope(end) <= 0:
            return end, slope(0.0)
        low, high = 0.0, end
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if slope(middle) < 0 else (low, middle)
        return high, slope(0.0)
