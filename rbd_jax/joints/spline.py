"""Joints along splines: a curve of frames, and a surface (Lee & Terzopoulos 2008; Sueda §2.4.12 and §2.4.13).

Both are uniform cubic B-splines: twice continuously differentiable, approximating their control values without
interpolating them. One unit of a coordinate is one segment.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import instance, number
from .._core.array import matvec, vecmat
from ..lie import SE3
from ..spatial import cross_motion
from ..spatial.transform import Transform
from ._basis import cumulative_weights, segment, weights
from ._joint import Joint
from ._turns import turns


class SplineCurve(Joint):
    """Motion along a curve of frames. `q` is the parameter of the curve, `v` its rate.

    The curve has n control `frames`, of which four act at a time. A cyclic curve has n segments and returns at
    `q = n`. An open curve has n - 3 segments, from `q = 0` to `n - 3`, and continues beyond as the polynomial of its last
    segment. Consecutive frames must differ by less than half a turn.

    >>> corners = jnp.array([[1.0, 1.0, 0.0], [-1.0, 1.0, 0.0], [-1.0, -1.0, 0.0], [1.0, -1.0, 0.0]])
    >>> track = rbd.joints.SplineCurve(rbd.Transform.from_position(corners))
    >>> print(track.transform(jnp.array([0.5])).position, track.transform(jnp.array([4.5])).position)
    [-0.917  0.     0.   ] [-0.917  0.     0.   ]
    """

    frames: Transform
    cyclic: bool = eqx.field(static=True)

    nv = 1

    def __init__(self, frames: Transform, cyclic: bool = True):
        instance("SplineCurve", "frames", frames, Transform, "a Transform with a leading axis of n frames")
        count = frames.position.shape[0] if frames.position.ndim else 0
        if frames.position.shape != (count, 3) or frames.rotation.shape != (count, 3, 3):
            raise ValueError(
                f"SplineCurve: frames has rotations {frames.rotation.shape} and positions {frames.position.shape}; "
                "give a batch of n frames, (n, 3, 3) and (n, 3)"
            )
        if count < 4:
            raise ValueError(f"SplineCurve: {count} control frames; a cubic spline needs at least 4")
        rotation = number("SplineCurve", "frames.rotation", frames.rotation, (count, 3, 3))
        position = number("SplineCurve", "frames.position", frames.position, (count, 3), dtype=rotation.dtype)
        self.frames = Transform(rotation, position)
        self.cyclic = cyclic

    def _steps(self, q):
        """Returns the first acting control frame, the twists between consecutive frames, and the fraction of the segment."""
        count = self.frames.position.shape[0]
        first, s = segment(q[0], count, self.cyclic)
        acting = self.frames[(first + jnp.arange(4)) % count]
        return acting[0], SE3.log(acting[:-1].inverse() @ acting[1:]), s

    def transform(self, q):
        """Returns `Q = C_1 exp(B̃_2 ΔC_2) exp(B̃_3 ΔC_3) exp(B̃_4 ΔC_4)`, with `ΔC_i = log(C_{i-1}⁻¹ C_i)` (eq. 2.67)."""
        start, steps, s = self._steps(q)
        factors = SE3.exp(cumulative_weights(s)[:, None] * steps)
        return start @ factors[0] @ factors[1] @ factors[2]

    def _derivatives(self, q):
        """Returns S and dS/dq (algorithm 3; its line 10 lacks the prime of the second basis function)."""
        _, steps, s = self._steps(q)
        value, slope, bend = (cumulative_weights(s, derivative)[:, None] * steps for derivative in range(3))
        factors = SE3.exp(value)
        first, second = slope[0], bend[0]
        for i in (1, 2):
            second = (
                bend[i]
                + factors[i].inverse_motion(second)
                + cross_motion(factors[i].inverse_motion(first), slope[i])
            )
            first = slope[i] + factors[i].inverse_motion(first)
        return first, second

    def motion_subspace(self, q):
        return self._derivatives(q)[0][:, None]

    def subspace_rate(self, q, v):
        return self._derivatives(q)[1][:, None] * v[0]

    def random(self, key):
        count = self.frames.position.shape[0]
        return jax.random.uniform(key, (1,), maxval=float(count if self.cyclic else count - 3))


class SplineSurface(Joint):
    """Motion on a surface of frames. `q` is the two parameters of the surface, `v` their rates.

    `controls` is a grid of control values (n1, n2, 6), each a position `x y z` and three angles (intrinsic x, y, z:
    keep the second within ±90°). `q` goes from 0 to `n1 - 3` and `n2 - 3`; beyond, the polynomials of the outer patches
    continue.

    >>> x, y = jnp.meshgrid(jnp.arange(4.0), jnp.arange(4.0), indexing="ij")
    >>> sheet = jnp.stack([x, y, 0.1 * x**2, 0 * x, 0 * x, 0 * x], axis=-1)
    >>> joint = rbd.joints.SplineSurface(sheet)
    >>> print(joint.transform(jnp.array([0.5, 0.5])).position)
    [1.5   1.5   0.258]
    """

    controls: Float[Array, "n1 n2 6"]

    nv = 2

    def __init__(self, controls):
        shape = jnp.shape(controls)
        if len(shape) != 3 or shape[2] != 6:
            raise ValueError(f"SplineSurface: controls has shape {shape}; give a grid (n1, n2, 6)")
        if min(shape[:2]) < 4:
            raise ValueError(
                f"SplineSurface: a grid of {shape[0]} x {shape[1]} controls; it needs at least 4 x 4"
            )
        self.controls = number("SplineSurface", "controls", controls, shape)

    def _values(self, q, derivative):
        """Returns `f` of eq. 2.68 for the six coordinates, or a derivative (eq. 2.69) of this order along each parameter."""
        along = []
        for i in (0, 1):
            first, s = segment(q[i], self.controls.shape[i], False)
            along.append((first, weights(s, derivative[i])))
        (row, first), (column, second) = along
        patch = jax.lax.dynamic_slice(self.controls, (row, column, 0), (4, 4, 6))
        return vecmat(second, vecmat(first, patch.reshape(4, 24)).reshape(4, 6))

    def transform(self, q):
        """Returns the displacement `f_1, f_2, f_3`, then turns by `f_4`, `f_5`, `f_6` about x, y and z (eq. 2.71)."""
        values = self._values(q, (0, 0))
        return Transform(_turns(values)[0], values[:3])

    def motion_subspace(self, q):
        rotation, columns = _turns(self._values(q, (0, 0)))

        def column(derivative):
            slope = self._values(q, derivative)
            return jnp.concatenate([matvec(columns[:3], slope[3:]), vecmat(slope[:3], rotation)])

        return jnp.stack([column((1, 0)), column((0, 1))], axis=1)

    def random(self, key):
        n1, n2, _ = self.controls.shape
        return jax.random.uniform(key, (2,)) * jnp.array([n1 - 3.0, n2 - 3.0])


def _turns(values):
    return turns(tuple(jnp.eye(3, dtype=values.dtype)), values[3:])
