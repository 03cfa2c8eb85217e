"""Constraints given as functions: `φ(q) = 0` or `φ(q, t) = 0`, and equations in velocities (book eqs. 3.11, 3.29, 3.30).

This is the general form of all constraint types: between frames on any number of bodies, and on coordinates of joints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import number
from .._core.array import is_known
from ..lie import SO3
from ..spatial import no_frames
from ..spatial.transform import Transform
from .constraint import Constraint
from .relative import frame_on


class _Given(Constraint):
    """A function, the bodies and joints that it is attached to, and the time at which it is evaluated."""

    function: Callable
    time: Float[Array, ""]
    count: int = eqx.field(static=True)
    angular: tuple[bool, ...] = eqx.field(static=True)
    timed: bool = eqx.field(static=True)

    def __init__(
        self,
        function: Callable,
        bodies: Mapping[str, object] | Sequence[str] = (),
        joints: Sequence[str] = (),
        *,
        angles: Sequence[bool] | None = None,
        timed: bool = False,
        time=0.0,
    ):
        kind = type(self).__name__
        if not callable(function):
            raise ValueError(f"{kind}: function is {function!r}; it takes a function that returns an array")
        for name, value in (("bodies", bodies), ("joints", joints)):
            if isinstance(value, str):
                raise ValueError(f"{kind}: {name} is {value!r}; it takes a list of names: [{value!r}]")
        ends = dict(bodies) if isinstance(bodies, Mapping) else dict.fromkeys(bodies)
        if not (ends or joints):
            raise ValueError(f"{kind}: it is on no body and on no joint; name those that it constrains")
        frames = [frame_on(kind, name, frame) for name, frame in ends.items()]
        dtype = jnp.result_type(float, *(frame.position.dtype for frame in frames))
        stack = lambda *leaves: jnp.stack([leaf.astype(dtype) for leaf in leaves])
        self.bodies, self.joints = tuple(ends), tuple(joints)
        self.frames = jax.tree.map(stack, *frames) if frames else no_frames()
        # A bare function is a leaf that is not an array. In a Partial it is part of the structure instead.
        self.function = jax.tree_util.Partial(function) if jax.tree_util.all_leaves([function]) else function
        self.timed, self.time = bool(timed), number(kind, "time", time, dtype=dtype)
        shape = jnp.shape(jax.eval_shape(lambda *given: self._asked(*given), *self._sample()))
        if len(shape) != 1:
            raise ValueError(
                f"{kind}: function returns an array of shape {shape}; it is to return one of shape (rows,), a number for each "
                "equation"
            )
        self.count = shape[0]
        self.angular = (not self.bodies,) * self.count if angles is None else tuple(map(bool, angles))
        if len(self.angular) != self.count:
            raise ValueError(
                f"{kind}: angles has {len(self.angular)} entries, and the function returns {self.count} numbers"
            )

    def _asked(self, *given):
        return self.function(*given, self.time) if self.timed else self.function(*given)

    def _sample(self):
        """Returns random placements, coordinates and velocities."""
        rng, dtype = np.random.default_rng(0), self.time.dtype
        draw = lambda *shape: jnp.asarray(rng.uniform(-1, 1, shape), dtype)
        turns = jax.vmap(SO3.exp)(draw(len(self.bodies), 3))
        placed = Transform(turns, draw(len(self.bodies), 3))
        return placed, draw(len(self.joints)), draw(len(self.bodies), 6), draw(len(self.joints))

    @property
    def rows(self):
        return self.count

    @property
    def angles(self):
        return self.angular

    @property
    def rheonomic(self):
        return self.timed

    def at_time(self, time):
        return self.changed(time=jnp.asarray(time, self.time.dtype)) if self.timed else self


class Implicit(_Given):
    """`function(placements, coordinates) = 0`, or with `timed` `function(placements, coordinates, time) = 0`.

    - `function`: A function, differentiable twice, that returns an array with a number for each equation. It may be a PyTree
      (an `equinox.Module` with `__call__`), whose arrays are then parameters. `placements` are the frames in the world's axes,
      (k,), from an origin that must not matter; `coordinates` are those of the joints.
    - `bodies`: Names of bodies, or a mapping from names to a frame on each: a `Transform`, a point, or None for the body's own
      frame. "world" is a valid name. For joints of several degrees of freedom, use the frames of their bodies.
    - `joints`: Names of joints with one degree of freedom.
    - `angles`: A flag per equation, True for angles, which selects tolerances. By default no equation is of an angle, or all
      are if there are no bodies.
    - `timed`: If True, the function takes the time as its last argument.

    Example: a taut string that runs over two pegs on bodies and ends in the world:

    >>> def taut(placements, coordinates):
    ...     way = placements.position[1:] - placements.position[:-1]
    ...     return jnp.sum(jnp.linalg.norm(way, axis=1), keepdims=True) - 2.0
    >>> string = rbd.constraints.Implicit(taut, {"world": (0, 1, 0), "upper": (0, 0, -1), "lower": (0, 0, -1)})
    >>> rbd.add_constraints(rbd.load("double_pendulum"), string)
    double_pendulum: 2 bodies, nq = 2, nv = 2
    └─ upper (shoulder)  Revolute v[0:1], 1 kg
       └─ lower (elbow)  Revolute v[1:2], 1 kg
    ╌╌ Implicit('world', 'upper', 'lower'), 1 rows
    """

    def _sample(self):
        return super()._sample()[:2]

    def residual(self, placements, coordinates):
        return self._asked(placements, coordinates)


class ImplicitRate(_Given):
    """`function(placements, coordinates, twists, speeds) = 0`, linear or affine in twists and speeds.

    It is for constraints on velocities that no position constraint implies. The arguments are those of `Implicit`; with
    `timed` the function takes the time last. `twists` are those of the frames, each `[ω; v]` in the frame's own axes, (k, 6),
    and `speeds` those of the joints.

    Example: a friction wheel drives a shaft, with a speed that depends on its radius:

    >>> def driven(placements, coordinates, twists, speeds):
    ...     return (0.1 + coordinates[:1]) * speeds[1:2] - 0.05 * speeds[2:3]
    >>> wheel = rbd.constraints.ImplicitRate(driven, joints=["carriage", "disk", "shaft"])
    >>> wheel.rows, wheel.holonomic
    (1, (False,))
    """

    def __init__(self, function: Callable, bodies=(), joints=(), **options):
        super().__init__(function, bodies, joints, **options)
        if not is_known(self):
            return
        with jax.ensure_compile_time_eval():
            placed, coordinates, *motion = self._sample()
            at = lambda scale: self._asked(placed, coordinates, *(scale * x for x in motion))
            none, once, twice = at(0.0), at(1.0), at(2.0)
            bent, size = jnp.abs(twice - 2 * once + none), jnp.abs(twice) + jnp.abs(once) + jnp.abs(none)
            if bool(jnp.any(bent > 1e-3 * size)):
                raise ValueError(
                    "ImplicitRate: function is not linear in twists and speeds; constraints of velocities are `A v + b = 0`"
                )

    @property
    def holonomic(self):
        return (False,) * self.count

    def residual(self, placements, coordinates):
        return jnp.zeros(self.count, placements.position.dtype)

    def rate(self, placements, coordinates, twists, speeds):
        return self._asked(placements, coordinates, twists, speeds)
