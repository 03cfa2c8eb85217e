"""What a joint is: the protocol that every family implements, with defaults by automatic differentiation.

A joint places its successor frame in its predecessor frame: `transform(q)`. All else follows from it. With velocity
variables v on the tangent space of q, the relative velocity is `v_J = S(q) v + σ` and the relative acceleration
`a_J = S v̇ + c_J + v_s × v_J` with `c_J = S̊ v + σ̊` (book eqs. 3.32 to 3.41), everything in successor coordinates. A new
family needs `nv` and `transform` alone; it overrides the rest where a formula is cheaper or the manifold is not flat.
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

    Parameters (an axis, a pitch, control frames) are array fields and so differentiable leaves of the model. Methods
    take one joint and one configuration; the library batches them.

    >>> class Spiral(rbd.joints.Joint):
    ...     nv = 1
    ...     def transform(self, q):
    ...         return rbd.Transform.from_position(q[0] * jnp.stack([jnp.cos(q[0]), jnp.sin(q[0]), 0 * q[0]]))
    >>> print(Spiral().motion_subspace(jnp.array([jnp.pi]))[:, 0])  # by differentiation
    [ 0.     0.     0.    -1.    -3.142  0.   ]
    """

    #: Whether the joint changes by itself as time passes, as `Driven` does or a screw whose pitch grows. It has a field `time`.
    rheonomic: ClassVar[bool] = False

    #: Whether coordinates are singular somewhere, so that simulations ask `reparametrize` after each step.
    charted: ClassVar[bool] = False

    #: The entries of q that are a quaternion, `(w, x, y, z)`, where there is one.
    quaternion: ClassVar[slice | None] = None

    if TYPE_CHECKING:  # a family may give plain numbers, which is no error
        nv: ClassVar[int]
        nq: ClassVar[int]
    else:

        @property
        @abc.abstractmethod
        def nv(self) -> int:
            """The number of degrees of freedom."""

        @property
        def nq(self) -> int:
            """The length of the configuration; more than `nv` where the manifold has no global chart."""
            return self.nv

    @property
    def flat(self) -> bool:
        """Whether a configuration moves by adding to it, so that velocities are rates of q."""
        return type(self).integrate is Joint.integrate

    @abc.abstractmethod
    def transform(self, q: Float[Array, "nq"]) -> Transform:
        """The successor frame, placed in the predecessor frame."""

    @property
    def constant_subspace(self) -> bool:
        """Whether the motion subspace is the same in every configuration, and the joint has no velocity of itself."""
        return isinstance(self, ConstantSubspaceJoint) and not self.rheonomic

    def in_plane(self, q: Float[Array, "nq"], axes: Float[Array, "2 3"]) -> planar.Transform:
        """`transform(q)` of a joint that moves in a plane, there: `axes` are the x and y axes of the plane in its frames."""
        frame = self.transform(q)
        return planar.Transform(matvec(axes, matvec(frame.rotation, axes[0])), matvec(axes, frame.position))

    def neutral(self) -> Float[Array, "nq"]:
        """The configuration in which the joint is at rest in its own zero."""
        return by_numpy(lambda xp: xp.zeros(self.nq))

    def integrate(self, q: Float[Array, "nq"], dv: Float[Array, "nv"]) -> Float[Array, "nq"]:
        """`q ⊕ dv`: where the constant velocity `dv` leads in unit time."""
        return q + dv

    def difference(self, q0: Float[Array, "nq"], q1: Float[Array, "nq"]) -> Float[Array, "nv"]:
        """`q1 ⊖ q0`: the velocity that leads from `q0` to `q1` in unit time; the inverse of `integrate`."""
        return q1 - q0

    def configuration_velocity(self, q: Float[Array, "nq"], rate: Float[Array, "nq"]) -> Float[Array, "nv"]:
        """The velocity at which the numbers of q change at `rate`; what leaves the configuration as it is has none."""
        if self.flat:
            return rate
        return jax.jvp(lambda end: self.difference(q, end), (q,), (rate,))[1]

    def configuration_rate(self, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, "nq"]:
        """The rate of the numbers of q at the velocity `v`."""
        if self.flat:
            return v
        return _slope(lambda s: self.integrate(q, s * v), q.dtype)

    def chart_velocity(
        self, q: Float[Array, "nq"], dv: Float[Array, "nv"], rate: Float[Array, "nv"]
    ) -> Float[Array, "nv"]:
        """The velocity of `q ⊕ dv` when `dv` changes at `rate`: the right Jacobian of ⊕, on a group `dexp`."""
        if self.flat:
            return rate
        here = self.integrate(q, dv)
        return _slope(lambda s: self.difference(here, self.integrate(q, dv + s * rate)), q.dtype)

    def chart_rate(
        self, q: Float[Array, "nq"], dv: Float[Array, "nv"], v: Float[Array, "nv"]
    ) -> Float[Array, "nv"]:
        """The rate at which `dv` changes when `q ⊕ dv` moves at `v`: the inverse of `chart_velocity`."""
        if self.flat:
            return v
        here = self.integrate(q, dv)
        return _slope(lambda s: self.difference(q, self.integrate(here, s * v)), q.dtype)

    def reparametrize(
        self, q: Float[Array, "nq"], v: Float[Array, "nv"], near: Float[Array, "nq"] | None = None
    ) -> tuple[Float[Array, "nq"], Float[Array, "nv"]]:
        """The same configuration and velocity in coordinates far from where they are singular, or in those nearest to `near`.

        Where only one q stands for a configuration, or all are as good, there is nothing to do.
        """
        return q, v

    def random(self, key: PRNGKeyArray) -> Float[Array, "nq"]:
        """A configuration drawn from the whole range: angles in (-π, π), lengths in (-1, 1)."""
        return jax.random.uniform(key, (self.nq,), minval=-1.0, maxval=1.0)

    def motion_subspace(self, q: Float[Array, "nq"]) -> Float[Array, "6 nv"]:
        """S, with a column `[R⁻¹ dR; R⁻¹ dp]` for each direction of the tangent space, in successor coordinates."""
        if self.nv == 0:
            return jnp.zeros((6, 0), q.dtype)
        here = self.transform(q)

        def column(direction):
            def along(step):
                return self.transform(self.integrate(q, step * direction))

            return body_twist(here, _slope(along, q.dtype))

        return jax.vmap(column, out_axes=1)(jnp.eye(self.nv, dtype=q.dtype))

    def subspace_rate(self, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, "6 nv"]:
        """S̊: the rate of S, seen from the successor frame, while the joint moves at `v` (and time passes)."""
        if self.nv == 0:
            return jnp.zeros((6, 0), q.dtype)
        return self._rate(lambda joint, q: joint.motion_subspace(q), q, v)

    def velocity_product(self, q: Float[Array, "nq"], v: Float[Array, "nv"]) -> Float[Array, "6"]:
        """`c_J = S̊ v` (+ σ̊), in successor coordinates."""
        if not self.rheonomic:
            return matvec(self.subspace_rate(q, v), v)
        return self._rate(lambda joint, q: matvec(joint.motion_subspace(q), v) + joint.drift(q), q, v)

    def drift(self, q: Float[Array, "nq"]) -> Float[Array, "6"]:
        """σ: the velocity the joint has of itself as time passes; zero unless it is `rheonomic`."""
        if not self.rheonomic:
            return jnp.zeros(6, q.dtype)
        return body_twist(self.transform(q), self._rate(lambda joint, q: joint.transform(q), q))

    def at_time(self, time: Float[Array, ""]) -> Joint:
        """The joint as it is at that time; itself unless it is `rheonomic`."""
        if not self.rheonomic:
            return self
        now = jnp.asarray(time, self.time.dtype)  # pyright: ignore
        return eqx.tree_at(lambda joint: joint.time, self, now)

    def _rate(self, function, q, v=None):
        """The rate of a function of joint and configuration while the joint moves at `v`, or stands still, and time passes."""

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
    """A joint whose motion subspace is the same in every configuration, at any time, so that `c_J` vanishes (or is σ̊).

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
        """The constant S."""

    def motion_subspace(self, q):
        return self.columns().astype(q.dtype)

    def subspace_rate(self, q, v):
        return jnp.zeros((6, self.nv), q.dtype)

    def velocity_product(self, q, v):
        return self._rate(lambda joint, q: joint.drift(q), q, v) if self.rheonomic else jnp.zeros(6, q.dtype)


def _slope(function, dtype):
    """The derivative at zero of a function of one number."""
    return jax.jvp(function, (jnp.zeros((), dtype),), (jnp.ones((), dtype),))[1]
