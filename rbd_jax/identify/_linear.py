"""The problem of the linear estimators: least squares in the parameter values with prior, bounds and estimated noise.

    ½ Σ_j ‖T_j [p - p₀; 1]‖² / σ_j² + ½ Σ ((p - mean) / deviation)² + Σ_b D(P_b ‖ P₀_b) / spread_b²

is minimized over the values p within their bounds. σ_j² is the residual of the j-th sum divided by its degrees of freedom.
Without estimated inertias, each iteration solves a linear problem and updates the noise. With estimated inertias, the
problem is conic with the barrier D, whose weight is small compared with that of the data. It is solved by a primal-dual
interior-point method. Besides the pseudo-inertias P, the method iterates dual matrices Z with `P Z = τ 1 / spread²`. As τ
decreases to 1, they converge to the part of D in the gradient. The steps are those of Helmberg, Kojima and Monteiro. All
computations are in double precision, without normal equations.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._core.arguments import accuracy
from ..spatial.inertia import Inertia
from ._basis import Basis, basis_of
from ._triangles import with_rows
from .equations import Equations, linear_numbers
from .estimate import Unseen, ends_first, unseen
from .parameters import Parameters


#: With estimated inertias, the noise estimate decreases at most by this factor per iteration.
FALL = 30.0
TURNS = 300
#: The sum counts as minimal if the predicted decrease is smaller than this; one half is one standard deviation.
LEAST = 1e-3
#: Noise below this fraction of the forces counts as rounding error.
ROUNDING = 1e-11
#: Largest fraction of the distance to the boundary of the feasible set that a step covers, and the decrease of τ after a
#: full step.
REACH, CENTERING = 0.95, 0.1
#: The pseudo-inertia matrix of each of the ten inertia parameters.
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
    """An estimated inertia.

    P is the pseudo-inertia, Z the dual matrix, and `weight` is `1 / spread²`.

    - `place`: the slice of its values.
    - `thought`: the prior pseudo-inertia.
    - `spread`: the relative standard deviation of the prior.
    """

    place: slice
    thought: np.ndarray
    spread: float

    @property
    def weight(self) -> float:
        return 1 / self.spread**2

    @property
    def thought_weight(self) -> float:
        """The initial τ, at the prior values. It is large, as if the data contained little information."""
        return 1e4

    def pseudo(self, values: np.ndarray) -> np.ndarray:
        """Returns P, or a change of P."""
        return np.einsum("k,kij->ij", values[self.place], PSEUDO)

    def dual(self, values, barrier: float) -> np.ndarray:
        """Returns the matrix Z that corresponds to P."""
        return barrier * self.weight * np.linalg.inv(self.pseudo(values))

    def centre(self, values, Z) -> float:
        """Returns the mean τ of P and Z."""
        return float(np.sum(self.pseudo(values) * Z) / 4 / self.weight)

    def slope(self, values, step) -> float:
        """Returns the directional derivative of D at the start of a step."""
        P, change = self.pseudo(values), self.pseudo(step)
        return self.weight * float(
            np.trace(np.linalg.solve(self.thought, change)) - np.trace(np.linalg.solve(P, change))
        )

    def rows(self, values, Z, barrier: float) -> tuple[np.ndarray, np.ndarray]:
        """Returns rows L, (16, 10), and r, (16,), for the second-order expansion of `τ D`.

        `Lᵀ L` is the second derivative, `⟨E_k, P⁻¹ E_l Z⟩`, and `Lᵀ r` the first derivative.
        """
        root = np.linalg.cholesky(self.pseudo(values))
        inverse = np.linalg.inv(root)
        other = np.sqrt(barrier * self.weight) * inverse.T if Z is None else np.linalg.cholesky(Z)
        slope = barrier * self.weight * (np.linalg.inv(self.thought) - inverse.T @ inverse)
        rest = np.linalg.solve(other, (root.T @ slope).T).T
        return (inverse @ PSEUDO @ other).reshape(10, 16).T, rest.reshape(16)

    def way(self, values, step, Z, barrier: float) -> tuple[np.ndarray, float]:
        """Returns the change of Z along a step, and the largest step length for which P and Z stay positive definite."""
        P, change = self.pseudo(values), self.pseudo(step)
        turned = np.linalg.solve(P, change @ Z)
        other = barrier * self.weight * np.linalg.inv(P) - Z - (turned + turned.T) / 2
        most = 1.0
        for matrix, moved in ((P, change), (Z, other)):
            inverse = np.linalg.inv(np.linalg.cholesky(matrix))
            most = min(most, REACH / max(-np.linalg.eigvalsh(inverse @ moved @ inverse.T).min(), 1e-300))
        return other, most


@eqx.filter_jit
def _linear(parameters: Parameters, values):
    """Returns θ at these values, and its derivative."""
    through = lambda p: linear_numbers(parameters.with_values(p))
    return through(values), jax.jacfwd(through)(values)


@dataclass(frozen=True, eq=False)
class Solution:
    """Values with the noise that weighted them, and their covariance."""

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
class LinearProblem:
    """The problem of the module docstring.

    - `triangles`: T.
    - `slopes`, `numbers`: the dependence of θ of the equations on p: `θ = numbers + slopes (p - p₀)`.
    - `unweighted`: the triangles before the rows were reweighted.
    """

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
    unweighted: np.ndarray = field(default_factory=lambda: np.zeros(0))
    known: dict = field(default_factory=dict)

    @staticmethod
    def of(parameters: Parameters, equations: Equations, physical: bool) -> LinearProblem:
        model = parameters.reference
        values = parameters.values_of(model)
        numbers, slopes = (np.asarray(x, float) for x in _linear(parameters, values))
        start, size = np.asarray(values, float), parameters.size
        bodies = [
            Body(
                place,
                np.asarray(Inertia.from_parameters(jnp.asarray(start[place])).pseudo_inertia, float),
                spread,
            )
            for place, spread in (parameters.inertial() if physical else ())
        ]
        eps = float(np.finfo(model.dtype).eps)
        torques = np.maximum(equations.torques, 1e-3 * equations.torques.max(initial=0))
        torques = np.where(torques > 0, torques, 1.0)
        mean, deviation, low, high = (
            np.asarray(x, float) for x in (*parameters.prior(), *parameters.bounds())
        )
        problem = LinearProblem(
            parameters, start, numbers, slopes, np.zeros((len(torques), size + 1, size + 1)), equations.counts,
            torques, eps * torques, mean, deviation, low, high, tuple(bodies), accuracy(model.dtype),
        )  # fmt: skip
        whole = problem.with_equations(equations)
        return replace(whole, unweighted=whole.triangles)

    def with_equations(self, equations: Equations) -> LinearProblem:
        """Returns the problem with other row weights; no row may depend on more values than before."""
        factors = equations.factors
        whole = np.concatenate(
            [factors[:, :, :-1] @ self.slopes, (factors @ np.append(self.numbers, -1.0))[..., None]], 2
        )
        return replace(self, triangles=np.stack([with_rows(None, one) for one in whole]))

    def numbers_of(self, values: np.ndarray) -> np.ndarray:
        """Returns θ of these values."""
        return self.numbers + self.slopes @ (values - self.start)

    def squares(self, values: np.ndarray) -> np.ndarray:
        """Returns the sum of squared errors of each degree of freedom."""
        return np.sum((self.triangles @ np.append(values - self.start, 1.0)) ** 2, axis=1)

    def solved(self, noise: np.ndarray | None = None, start: np.ndarray | None = None) -> Solution:
        """Solves the problem and estimates the noise unless it is given."""
        values = self.start.copy() if start is None else start.copy()
        find, turn, settled, length = noise is None, 0, False, 1.0
        if noise is None:
            noise = np.maximum(np.sqrt(self.squares(values) / np.maximum(self.counts, 1)), self.floor)
        data, duals = self._weighted(noise), [body.dual(values, body.thought_weight) for body in self.bodies]
        for turn in range(1, TURNS + 1):  # noqa: B007
            # Recenter after a short step, and reduce τ after a long one.
            fall = CENTERING + (1 - CENTERING) * (1 - length) ** 2
            barrier = max([1.0, *(fall * body.centre(values, Z) for body, Z in zip(self.bodies, duals))])
            rows = self._thought(values, duals, barrier)
            step, fixed, covariance, lost = self._bounded_step(values, data, rows)
            length, changes = 1.0, []
            for body, Z in zip(self.bodies, duals):
                change, most = body.way(values, step, Z, barrier)
                changes.append(change)
                length = min(length, most)
            gain = length * self._slope(values, step, data)
            values = np.clip(values + length * step, self.low, self.high)
            duals = [Z + length * change for Z, change in zip(duals, changes)]
            rounding = bool(np.all(noise <= ROUNDING * self.sizes))
            if barrier > 1 or length < 0.9 or (gain < -LEAST and not rounding):
                continue
            new = self._noise(values, covariance, noise) if find else noise
            known = rounding or bool(np.all(np.abs(new - noise) <= 1e-4 * noise))
            errors = np.sqrt(np.maximum(np.diag(covariance), 0))
            near = np.abs(step) <= 1e-3 * errors + 1e-11 * (np.abs(values) + 1e-3 * self.scale)
            if known and near.all():
                settled = True
                break
            if find:
                # The data have more weight now, so scale the dual matrices accordingly.
                duals = [Z * np.max(noise / new) ** 2 for Z in duals]
                noise, data = new, self._weighted(new)
        _, fixed, covariance, lost = self._bounded_step(values, data, self._thought(values))
        if find:
            noise = self._noise(values, covariance, noise, 0.0)
        if fixed.any():
            # Bounds are not measurements, so the covariance ignores them.
            _, covariance, lost = self._unbounded(values, data)
        return Solution(values, noise, covariance, lost, fixed, turn, settled)

    def _unbounded(self, values, data):
        nothing = np.zeros(len(values))
        return self._step(values, data, self._thought(values), nothing == 0, nothing)

    @property
    def scale(self) -> np.ndarray:
        """For each value, the change that causes forces as large as the measured ones; one where it causes no forces."""
        norms = np.sqrt(np.sum((self.triangles[:, :, :-1] / self.sizes[:, None, None]) ** 2, axis=(0, 1)))
        norms = norms / np.sqrt(max(self.counts.sum(), 1))
        shows = norms > self.tolerance * norms.max(initial=0)
        return np.where(shows, 1 / np.where(shows, norms, 1), 1.0)

    def shown(self) -> np.ndarray:
        """Returns the identifiable directions, a column each."""
        basis = self._basis(np.ones(len(self.start), bool))
        return basis.change[:, : basis.seen]

    def hidden(self) -> Unseen:
        """Returns the unidentifiable directions."""
        basis = self._basis(np.ones(len(self.start), bool))
        return unseen(basis.hidden / self.scale, self.scale, ends_first(self.parameters))

    def covariance(self, noise: np.ndarray, solution: Solution) -> np.ndarray:
        """Returns the covariance of the values of a solution for this noise."""
        return self._unbounded(solution.values, self._weighted(noise))[1]

    # Steps.

    def _weighted(self, noise: np.ndarray) -> np.ndarray:
        """Returns the triangle of all sums, each divided by its noise."""
        rows = (self.triangles / noise[:, None, None]).reshape(-1, len(self.start) + 1)
        return with_rows(None, rows)

    def used(self, covariance: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Returns the number of measurements of each degree of freedom that the fit uses up.

        It is the trace of the degree of freedom's block of the projection onto the fitted space.
        """
        size = len(covariance)
        through = self.triangles[:, :, :-1].reshape(-1, size) @ covariance
        return (
            np.sum(through.reshape(len(noise), -1, size) * self.triangles[:, :, :-1], axis=(1, 2)) / noise**2
        )

    def _noise(self, values, covariance, noise, fall=1 / FALL):
        left = np.maximum(self.counts - self.used(covariance, noise), 1)
        new = np.sqrt(self.squares(values) / left)
        least = noise * fall if self.bodies else 0.0
        return np.maximum(np.maximum(new, self.floor), least)

    def _slope(self, values, step, data) -> float:
        """Returns the directional derivative of the objective at the start of a step."""
        error = data @ np.append(values - self.start, 1.0)
        certain = np.isfinite(self.deviation)
        known = np.sum(((values - self.mean) * step / self.deviation**2)[certain])
        bodies = sum(body.slope(values, step) for body in self.bodies)
        return float(error @ (data[:, :-1] @ step) + known + bodies)

    def _bounded_step(self, values, data, rows):
        """Returns the step within the bounds; values that would leave their bounds are fixed there during this step."""
        free, held = np.ones(len(values), bool), np.zeros(len(values))
        while True:
            step, covariance, lost = self._step(values, data, rows, free, held)
            to = values + step
            slack = 1e-12 * (np.abs(values) + self.scale)
            out = free & ((to < self.low - slack) | (to > self.high + slack))
            if not out.any():
                return step, ~free, covariance, lost
            held = np.where(out, np.clip(to, self.low, self.high) - values, held)
            free &= ~out

    def _step(self, values, data, thought, free, held):
        basis, given = self._basis(free), np.where(free, 0, held)
        rows, rest = thought
        right = np.concatenate([data @ np.append(values + given - self.start, 1.0), rest + rows @ given])
        step, root, _ = basis.least_squares(data[:, :-1], rows, right)
        return given + step, root @ root.T, basis.lost

    def _basis(self, free: np.ndarray) -> Basis:
        """Returns coordinates for changes of the free values.

        They are computed once from the unweighted rows, so they do not depend on the weights.
        """
        key = free.tobytes()
        if key not in self.known:
            whole = replace(self, triangles=self.unweighted)
            weighted = (whole.triangles[:, :, :-1] / self.sizes[:, None, None]).reshape(-1, len(free))
            thought, _ = self._thought(self.start)
            self.known[key] = basis_of(weighted, thought, whole.scale, free, self.tolerance)
        return self.known[key]

    def _thought(self, values, duals=None, barrier: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
        """Returns the prior as least-squares rows around these values: `½ ‖rows δ + rest‖²` to second order in δ."""
        certain = np.flatnonzero(np.isfinite(self.deviation))
        rows = [np.eye(len(values))[certain] / self.deviation[certain, None]]
        rest = [(values[certain] - self.mean[certain]) / self.deviation[certain]]
        for i, body in enumerate(self.bodies):
            own, constant = body.rows(values, None if duals is None else duals[i], barrier)
            rows.append(np.zeros((16, len(values))))
            rows[-1][:, body.place] = own
            rest.append(constant)
        return np.concatenate(rows), np.concatenate(rest)
