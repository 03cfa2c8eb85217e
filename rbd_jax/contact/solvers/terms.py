"""Costs of soft constraints: convex functions of the acceleration.

A term has rows `J a` and a `reference` r, and costs `s(J a - r)`. The cost of a row is a parabola of stiffness D as long as the
row's force is below its limits, and a line beyond. The force of a row is `-s'`; a row with zero stiffness has no effect.

Products are sums over entries instead of `dot_general`, which on a CPU is a library call that splits a loop over samples.
"""

from __future__ import annotations

import abc
import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from ..._core.array import matmul, matvec
from ..._core.branches import only_if
from ..._core.module import Module


class Term(Module):
    """Rows of one type and their cost.

    Forces and misses (`J a - r`) of a term have the structure of its rows: an array of shape `*k`, or a tuple of arrays.
    """

    @abc.abstractmethod
    def rows(self, a: Float[Array, "n"]) -> Any:
        """Returns `J a`."""

    def miss(self, a: Float[Array, "n"]) -> Any:
        """Returns `J a - r`."""
        return self.rows(a) - getattr(self, "reference")  # noqa: B009  a field of each kind of rows

    @abc.abstractmethod
    def pushed(self, force: Any) -> Float[Array, "n"]:
        """Returns `Jᵀ f`."""

    @abc.abstractmethod
    def force(self, miss: Any) -> Any:
        """Returns `-s'` at a miss."""

    @abc.abstractmethod
    def bend(self, miss: Any) -> Any:
        """Returns `s''` at a miss: a number for each row, or a matrix for each contact."""

    @abc.abstractmethod
    def turned(self, bend: Any, rows: Any) -> Any:
        """Returns `s'' J p` for `rows` = J p."""

    @abc.abstractmethod
    def curved(self, matrix: Float[Array, "n n"], bend: Any) -> Float[Array, "n n"]:
        """Adds `Jᵀ s'' J` to the lower triangle of a matrix, and only there. Do not differentiate it."""

    @abc.abstractmethod
    def along(self, jacobian: Float[Array, "n m"], bias: Float[Array, "n"]) -> Term:
        """Returns the term as a function of other unknowns b, where `a = jacobian b + bias`."""

    def softened(self, share: Float[Array, ""]) -> Term:
        """Returns the term with its stiffness times `share`."""
        stiffness = lambda term: term.stiffness
        return eqx.tree_at(stiffness, self, stiffness(self) * share)

    def acting(self) -> Term:
        """Returns a term with the same values that skips rows without effect. Its derivatives by its own fields may differ."""
        return self

    def push(self, miss: Any) -> Float[Array, "n"]:
        """Returns `-Jᵀ s'`, the generalized force of the term."""
        return self.pushed(self.force(miss))

    def slope(self, miss: Any, rows: Any, t: Float[Array, ""]) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Returns the first and second derivatives by t of the cost at `miss + t rows`."""
        at = miss + t * rows
        return -jnp.sum(self.force(at) * rows), jnp.sum(rows * self.turned(self.bend(at), rows))

    def stiffened(self, matrix: Float[Array, "n n"], miss: Any) -> Float[Array, "n n"]:
        """Returns `curved` with `s''` at a miss."""
        return self.curved(matrix, self.bend(miss))


class Skipped(Term):
    """A term that is not computed if it has no effect: its rows and forces are zero then.

    - `acts`: whether the term may have an effect. A kernel computes the term if it acts in any sample of a vector.
    """

    term: Term
    acts: Bool[Array, ""]

    def miss(self, a):
        return self._if_it_acts(lambda term: term.miss(a))

    def rows(self, a):
        return self._if_it_acts(lambda term: term.rows(a))

    def pushed(self, force):
        return self._if_it_acts(lambda term: term.pushed(force))

    def force(self, miss):
        return self._if_it_acts(lambda term: term.force(miss))

    def bend(self, miss):
        return self._if_it_acts(lambda term: term.bend(miss))

    def turned(self, bend, rows):
        return self._if_it_acts(lambda term: term.turned(bend, rows))

    def push(self, miss):
        return self._if_it_acts(lambda term: term.push(miss))

    def slope(self, miss, rows, t):
        return self._if_it_acts(lambda term: term.slope(miss, rows, t))

    def curved(self, matrix, bend):
        return lax.cond(self.acts, lambda: self.term.curved(matrix, bend), lambda: matrix)

    def stiffened(self, matrix, miss):
        return lax.cond(self.acts, lambda: self.term.stiffened(matrix, miss), lambda: matrix)

    def softened(self, share):
        return Skipped(self.term.softened(share), self.acts)

    def along(self, jacobian, bias):
        return Skipped(self.term.along(jacobian, bias), self.acts)

    def _if_it_acts(self, compute):
        return only_if(self.acts, lambda: compute(self.term))


class Rows(Term):
    """Independent rows with the force `-D (J a - r)`, limited to `low` and `high`.

    Equalities have infinite limits, unilateral rows have `low` = 0, and dry friction has two finite limits.
    """

    jacobian: Float[Array, "k n"]
    reference: Float[Array, "k"]
    stiffness: Float[Array, "k"]
    low: Float[Array, "k"]
    high: Float[Array, "k"]

    @staticmethod
    def one_sided(jacobian, reference, stiffness) -> Rows:
        """Returns unilateral rows, whose forces are not negative."""
        return Rows(jacobian, reference, stiffness, *_pushing(reference))

    def rows(self, a):
        return jnp.sum(self.jacobian * a[None, :], axis=1)

    def pushed(self, force):
        return jnp.sum(force[:, None] * self.jacobian, axis=0)

    def force(self, miss):
        return _cut(self, miss)

    def bend(self, miss):
        return _held(self, miss)

    def turned(self, bend, rows):
        return bend * rows

    def curved(self, matrix, bend):
        return with_outer_sum(matrix, self.jacobian[:, None, :], bend[:, None, None])

    def along(self, jacobian, bias):
        moved = self.reference - matvec(self.jacobian, bias)
        return Rows(matmul(self.jacobian, jacobian), moved, self.stiffness, self.low, self.high)


class Coordinates(Term):
    """Rows `sign · a` along the degrees of freedom, k for each degree of freedom; otherwise like `Rows`."""

    sign: Float[Array, "k 1"]
    reference: Float[Array, "k n"]
    stiffness: Float[Array, "k n"]
    low: Float[Array, "k n"]
    high: Float[Array, "k n"]

    def rows(self, a):
        return self.sign * a[None, :]

    def pushed(self, force):
        return jnp.sum(self.sign * force, axis=0)

    def force(self, miss):
        return _cut(self, miss)

    def bend(self, miss):
        return _held(self, miss)

    def turned(self, bend, rows):
        return bend * rows

    def curved(self, matrix, bend):
        total = jnp.sum(bend, axis=0)  # the squared sign is one
        return matrix + jnp.where(np.eye(total.size, dtype=bool), total[None, :], 0)

    def acting(self):
        return Skipped(self, jnp.any((self.stiffness > 0) & (self.low < self.high)))

    def along(self, jacobian, bias):
        flat = lambda x: x.reshape(-1)
        whole = (self.sign[:, :, None] * jacobian[None]).reshape(-1, jacobian.shape[1])
        moved = self.reference - self.sign * bias[None, :]
        return Rows(whole, *map(flat, (moved, self.stiffness, self.low, self.high)))


#: With fewer unknowns than this, `with_outer_sum` computes all groups at once.
FEW = 7


def with_outer_sum(
    matrix: Float[Array, "n n"], rows: Float[Array, "c d n"], weights: Float[Array, "c d d"]
) -> Float[Array, "n n"]:
    """Adds the sum of `Rᵀ W R` over groups of rows R to the lower triangle of a matrix.

    With many unknowns it loops over the groups up to the last one that has a weight.
    """
    count, size, n = rows.shape
    triangle = np.tri(n, dtype=bool)
    if n < FEW:
        turned = jnp.sum(weights[:, :, :, None] * rows[:, None, :, :], axis=2)
        outer = rows[:, :, :, None] * turned[:, :, None, :]
        return matrix + jnp.where(triangle, jnp.sum(outer, axis=(0, 1)), 0)

    def add(k, total):
        own, weight = rows[k], weights[k]
        for i in range(size):
            turned = functools.reduce(jnp.add, [weight[i, j] * own[j] for j in range(size)])
            total = total + jnp.where(triangle, own[i][:, None] * turned[None, :], 0)
        return total

    last = jnp.max(jnp.where(weights[:, 0, 0] != 0, np.arange(1, count + 1), 0), initial=0)
    return lax.fori_loop(0, last, add, matrix)


def _pushing(like):
    return jnp.zeros_like(like), jnp.full_like(like, jnp.inf)


def _cut(own: Rows | Coordinates, miss):
    force = -own.stiffness * miss
    # At a limit the stiffness is zero (see `_held`), so this does not use `clamped`, whose derivative there is that from inside.
    # If both limits are equal, as without friction, neither contributes a derivative.
    idle = (force == own.low) & (force == own.high)
    force = jnp.where(force <= own.low, own.low, jnp.where(force >= own.high, own.high, force))
    return jnp.where(idle, lax.stop_gradient(force), force)


def _held(own: Rows | Coordinates, miss):
    force = -own.stiffness * miss
    return jnp.where((force > own.low) & (force < own.high), own.stiffness, 0)


class Cones(Term):
    """Contacts with friction, all with the same number of rows: normal, sliding, spinning and rolling.

    - `friction`: the coefficient of each row except the first; zero for rows without friction.
    """

    jacobian: Float[Array, "c d n"]
    reference: Float[Array, "c d"]
    friction: Float[Array, "c t"]

    def rows(self, a):
        return jnp.sum(self.jacobian * a[None, None, :], axis=2)

    def pushed(self, force):
        return jnp.sum(force.reshape(-1)[:, None] * self._flat(self.jacobian), axis=0)

    def turned(self, bend, rows):
        return jnp.sum(bend * rows[:, None, :], axis=2)

    def curved(self, matrix, bend):
        return with_outer_sum(matrix, self.jacobian, bend)

    def _flat(self, x):
        return x.reshape(-1, x.shape[-1])

    def _moved(self, jacobian, bias):
        """Returns `jacobian` and `reference` for other unknowns."""
        flat = self._flat(self.jacobian)
        other = matmul(flat, jacobian).reshape(*self.jacobian.shape[:2], -1)
        return other, self.reference - matvec(flat, bias).reshape(self.reference.shape)


class Pyramids(Cones):
    """Friction pyramids: unilateral rows along the edges `n ± μ t`, with one `stiffness` per contact."""

    stiffness: Float[Array, "c"]

    def _edges(self, miss):
        """Returns the residuals of both edges of each friction direction: (c, t) each."""
        normal, across = miss[:, :1], self.friction * miss[:, 1:]
        return normal + across, normal - across

    def force(self, miss):
        up, down = (jnp.where(edge < 0, -self.stiffness[:, None] * edge, 0) for edge in self._edges(miss))
        return jnp.concatenate(
            [jnp.sum(up + down, axis=1, keepdims=True), self.friction * (up - down)], axis=1
        )

    def bend(self, miss):
        up, down = (jnp.where(edge < 0, self.stiffness[:, None], 0) for edge in self._edges(miss))
        both, mixed = up + down, self.friction * (up - down)
        t = np.arange(1, miss.shape[1])
        corner = jnp.sum(both, axis=1)[:, None, None]
        inner = jnp.where(np.eye(len(t), dtype=bool), (self.friction**2 * both)[:, :, None], 0)
        top = jnp.concatenate([corner, mixed[:, None, :]], axis=2)
        return jnp.concatenate([top, jnp.concatenate([mixed[:, :, None], inner], axis=2)], axis=1)

    def along(self, jacobian, bias):
        return Pyramids(*self._moved(jacobian, bias), self.friction, self.stiffness)


class EllipticCones(Cones):
    """Elliptic friction cones: a sticking contact has springs along all rows; the force of a sliding contact is on the cone.

    - `stiffness`: the stiffness of each row.
    - `mu`: the regularized friction coefficient, as in MuJoCo: the sliding coefficient over the square root of `impratio`.
    """

    stiffness: Float[Array, "c d"]
    mu: Float[Array, "c"]

    def force(self, miss):
        """Returns the forces: springs along each row for sticking; from `½ Dₘ (N - μ T)²` for sliding.

        N is the scaled residual along the normal, T the norm of that across it.
        """
        zone = self._zone(miss)
        push = -zone.stiffness * zone.missed * self.mu
        sliding = jnp.concatenate([push[:, None], -push[:, None] * zone.direction * self.friction], axis=1)
        force = jnp.where(zone.sticks[:, None], -self.stiffness * miss, 0)
        return jnp.where(zone.slides[:, None], sliding, force)

    def bend(self, miss):
        zone, eye = self._zone(miss), np.eye(miss.shape[1])
        along = jnp.concatenate(
            [self.mu[:, None], -self.mu[:, None] * self.friction * zone.direction], axis=1
        )
        turned = (
            eye[1:, 1:][None].astype(miss.dtype) - zone.direction[:, :, None] * zone.direction[:, None, :]
        )
        moves = zone.speed > 0
        share = jnp.where(moves, zone.missed * self.mu / jnp.where(moves, zone.speed, 1), 0)
        round_ = share[:, None, None] * self.friction[:, :, None] * self.friction[:, None, :] * turned
        round_ = jnp.pad(round_, ((0, 0), (1, 0), (1, 0)))
        sliding = zone.stiffness[:, None, None] * (along[:, :, None] * along[:, None, :] - round_)
        sticking = jnp.where(eye[None] > 0, self.stiffness[:, :, None], 0)
        bend = jnp.where(zone.sticks[:, None, None], sticking, 0)
        return jnp.where(zone.slides[:, None, None], sliding, bend)

    def along(self, jacobian, bias):
        return EllipticCones(*self._moved(jacobian, bias), self.friction, self.stiffness, self.mu)

    def _zone(self, miss) -> _Zone:
        normal, across = self.mu * miss[:, 0], self.friction * miss[:, 1:]
        square = jnp.sum(across**2, axis=1)
        moves = square > 0
        speed = jnp.where(moves, jnp.sqrt(jnp.where(moves, square, 1)), 0)
        there = self.stiffness[:, 0] > 0
        apart = (normal >= self.mu * speed) | ~there
        sticks = ~apart & (self.mu * normal + speed <= 0)
        mu2 = self.mu**2
        stiffness = self.stiffness[:, 0] / jnp.where(there, mu2 * (1 + mu2), 1)
        direction = across / jnp.where(moves, speed, 1)[:, None]
        return _Zone(sticks, ~apart & ~sticks, direction, speed, normal - self.mu * speed, stiffness)


class _Zone(NamedTuple):
    """The zone of each contact: sticking, sliding, or otherwise open; with the sliding direction and the cone residual."""

    sticks: Bool[Array, "c"]
    slides: Bool[Array, "c"]
    direction: Float[Array, "c t"]
    speed: Float[Array, "c"]
    missed: Float[Array, "c"]
    stiffness: Float[Array, "c"]
