"""The joint protocol that every joint type implements, with defaults by automatic differentiation.

A joint places its successor frame in its predecessor frame: `transform(q)`. Everything else follows from it. With velocity
variables v on the tangent space of q, the relative velocity is `v_J = S(q) v + σ` and the relative acceleration
`a_J = S v̇ + c_J + v_s × v_J` with `c_J = S̊ v + σ̊` (book eqs. 3.32 to 3.41), all in successor coordinates. A new
type needs only `nv` and `transform`. It overrides other methods if a formula is cheaper or the manifold is not flat.
"""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .._core.array import by_numpy, matvec
from ..spatial import planar
from ..spatial.transform import Transform, body_twist


class Joint(eqx.Module):
    """A joint of `nv` degrees of freedom whose configuration is a point `q` of a manifold stored in `nq` numbers.

    Parameters (an axis, a pitch, control frames) are array fields, and so differentiable leaves of the model. Methods
    take one joint and one configuration; the library batches them.

    >>> class Spiral(rbd.joints.Joint):
    ...     nv = 1
    ...     def transform(self, q):
    ...         return rbd.Transform.from_position(q[0] * jnp.stack([jnp.cos(q[0]), jnp.sin(q[0]), 0 * q[0]]))
    >>> print(Spiral().motion_subspace(jnp.array([jnp.pi]))[:, 0])  # by differentiation
    [ 0.     0.     0.    -1.    -3.142  0.   ]
    """

    #: If True, the joint depends explicitly on time, as `Driven` does, and has a field `time`.
    rheonomic: ClassVar[bool] = False

    #: If True, the coordinates have singularities, and simulations call `reparametrize` after each step.
    charted: ClassVar[bool] = False

    #: The entries of q that form a quaternion `(w, x, y, z)`, or None.
    quaternion: ClassVar[slice | None] = None

    if TYPE_CHECKING:  # a subclass may use plain numbers, which is not an error
        nv: ClassVar[int]
        nq: ClassVar[int]
    else:

        @property
        @abc.abstractmethod
        def nv(self) -> int:
            """The number of degrees of freedom."""

        @property
        def nq(self) -> int:
            """The length of the configuration; more than `nv` if the manifold has no global chart."""
            return self.nv

    @property
    def flat(self) -> bool:
        """True if `integrate` is an addition, so that velocities are rates of q."""
        return type(self).integrate is Joint.integrate

    @abc.abstractmethod
    def transform(self, q: Float[Array, "nq"]) -> Transform:
        """Returns the successor frame, placed in the predecessor frame."""

    @property
    def constant_subspace(self) -> bool:
        """True if the motion subspace is the same in every configuration and the joint has no prescribed velocity."""
        return isinstance(self, ConstantSubspaceJoint) and not self.rheonomic

    def in_plane(self, q: Float[Array, "nq"], axes: Float[Array, "2 3"]) -> planar.Transform:
        """Returns `transform(q)` in the plane of a planar motion; `axes` are the plane's x and y axes in the joint's frames."""
        frame = self.transform(q)
        return planar.Transform(matvec(axes, matvec(frame.rotation, axes[0])), matvec(axes, frame.position))

    def neutral(self) -> Float[Array, "nq"]:
        """Returns the zero configuration of the joint."""
        return by_numpy(lambda xp: xp.zeros(self.nq))

    def integrate(self, q: Float[Array, "nq"], dv: Float[Array, "nv"]) -> Float[Array, "nq"]:
        """Returns `q ⊕ dv`: the configuration reached in unit time at the constant velocity `dv`."""
        return q + dv

    def difference(self, q0: Float[Array, "nq"], q1: Float[Array, "nq"]) -> Float[Array, "nv"]:
        """Returns `q1 ⊖ q0`: the velocity that leads from `q0` to `q1` in unit time; the inverse of `integrate`."""
        return q1 - q0

    def configuration_velocity(self, q: Float[Array, "nq"], rate: Float[Array, "nq"]) -> Float[Array, "nv"]:
        """Returns the velocity for a rate of q; the part of the rate that does not change the configuration is ignored."""
        if self.flat:
            return rate
        return jax.jvp(lambda end: self.difference(q, end), (q,), (rate,))[1]

    def configuration_rate(self, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, "nq"]:
        """Returns the rate of q at the velocity `v`."""
        if self.flat:
            return v
        return _slope(lambda s: self.integrate(q, s * v), q.dtype)

    def chart_velocity(
        self, q: Float[Array, "nq"], dv: Float[Array, "nv"], rate: Float[Array, "nv"]
    ) -> Float[Array, "nv"]:
        """Returns the velocity of `q ⊕ dv` when `dv` changes at `rate`: the right Jacobian of ⊕, on a group `dexp`."""
        if self.flat:
            return rate
        here = self.integrate(q, dv)
        return _slope(lambda s: self.difference(here, self.integrate(q, dv + s * rate)), q.dtype)

    def chart_rate(
        self, q: Float[Array, "nq"], dv: Float[Array, "nv"], v: Float[Array, "nv"]
    ) -> Float[Array, "nv"]:
        """Returns the rate of `dv` when `q ⊕ dv` moves at `v`: the inverse of `chart_velocity`."""
        if self.flat:
            return v
        here = self.integrate(q, dv)
        return _slope(lambda s: self.difference(q, self.integrate(here, s * v)), q.dtype)

    def reparametrize(
        self, q: Float[Array, "nq"], v: Float[Array, "nv"], near: Float[Array, "nq"] | None = None
    ) -> tuple[Float[Array, "nq"], Float[Array, "nv"]]:
        """Returns the same state in coordinates far from singularities, or in the coordinates nearest to `near`.

        The default returns it unchanged, for joints with unique or equivalent coordinates.
        """
        return q, v

    def random(self, key: PRNGKeyArray) -> Float[Array, "nq"]:
        """Returns a random configuration from the complete range: angles in (-π, π), lengths in (-1, 1)."""
        return jax.random.uniform(key, (self.nq,), minval=-1.0, maxval=1.0)

    def motion_subspace(self, q: Float[Array, "nq"]) -> Float[Array, "6 nv"]:
        """Returns S, with a column `[R⁻¹ dR; R⁻¹ dp]` for each direction of the tangent space, in successor coordinates."""
        if self.nv == 0:
            return jnp.zeros((6, 0), q.dtype)
        here = self.transform(q)

        def column(direction):
            def along(step):
                return self.transform(self.integrate(q, step * direction))

            return body_twist(here, _slope(along, q.dtype))

        return jax.vmap(column, out_axes=1)(jnp.eye(self.nv, dtype=q.dtype))

    def subspace_rate(self, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, "6 nv"]:
        """Returns S̊: the rate of S in the successor frame while the joint moves at `v` (and time passes)."""
        if self.nv == 0:
            return jnp.zeros((6, 0), q.dtype)
        return self._rate(lambda joint, q: joint.motion_subspace(q), q, v)

    def velocity_product(self, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, "6"]:
        """Returns `c_J = S̊ v` (+ σ̊), in successor coordinates."""
        if not self.rheonomic:
            return matvec(self.subspace_rate(q, v), v)
        return self._rate(lambda joint, q: matvec(joint.motion_subspace(q), v) + joint.drift(q), q, v)

    def drift(self, q: Float[Array, "nq"]) -> Float[Array, "6"]:
        """Returns σ: the prescribed velocity of the joint as time passes; zero unless it is `rheonomic`."""
        if not self.rheonomic:
            return jnp.zeros(6, q.dtype)
        return body_twist(self.transform(q), self._rate(lambda joint, q: joint.transform(q), q))

    def at_time(self, time: Float[Array, ""]) -> Joint:
        """Returns the joint at this time; unchanged unless it is `rheonomic`."""
        if not self.rheonomic:
            return self
        now = jnp.asarray(time, self.time.dtype)  # pyright: ignore
        return eqx.tree_at(lambda joint: joint.time, self, now)

    def _rate(self, function, q, v=None):
        """Returns the rate of a function of joint and configuration while the joint moves at `v` (or rests) and time passes."""

        def along(step):
            joint = self.at_time(self.time + step) if self.rheonomic else self  # pyright: ignore
            return function(joint, q if v is None else self.integrate(q, step * v))

        return _slope(along, q.dtype)

    def __check_init__(self):
        if self.rheonomic and type(self).drift is Joint.drift and not hasattr(self, "time"):
            raise TypeError(
                f"{type(self).__name__} is rheonomic, so it needs the time that it is at: a field `time`, a number"
            )


class ConstantSubspaceJoint(Joint):
    """A joint whose motion subspace is the same in every configuration at any time, so `c_J` vanishes (or is σ̊).

    >>> class Vertical(rbd.joints.ConstantSubspaceJoint):
    ...     nv = 1
    ...     def transform(self, q):
    ...         return rbd.Transform.from_position(jnp.stack([0 * q[0], 0 * q[0], q[0]]))
    ...     def columns(self):
    ...         return jnp.array([[0.0, 0.0, 0.0, 0.0, 0.0, 1.0]]).T
    >>> print(Vertical().motion_subspace(jnp.array([0.3]))[:, 0])
    [0. 0. 0. 0. 0. 1.]
    """

    @abc.abstractmethod
    def columns(self) -> Float[Array, "6 nv"]:
        """Returns the constant S."""

    def motion_subspace(self, q):
        return self.columns().astype(q.dtype)

    def subspace_rate(self, q, v):
        return jnp.zeros((6, self.nv), q.dtype)

    def velocity_product(self, q, v):
        return self._rate(lambda joint, q: joint.drift(q), q, v) if self.rheonomic else jnp.zeros(6, q.dtype)


def _slope(function, dtype):
    """Returns the derivative at zero of a function of one number."""
    return jax.jvp(function, (jnp.zeros((), dtype),), (jnp.ones((), dtype),))[1]
