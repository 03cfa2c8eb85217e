"""One joint of every family, with generic parameters. Other tests use them too."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from rbd_jax import joints
from rbd_jax.lie import SE3


class Wobble(eqx.Module):
    """A motion whose parameters are arrays: `center + amplitude sin(rate t)`."""

    center: Float[Array, " n"]
    amplitude: Float[Array, " n"]
    rate: Float[Array, " n"]

    def __call__(self, time):
        return self.center + self.amplitude * jnp.sin(self.rate * time)


def wobble(size: int, seed: int) -> Wobble:
    rng = np.random.default_rng(seed)
    return Wobble(*(jnp.array(rng.uniform(0.3, 1.2, size)) for _ in range(3)))


def control_frames(count: int, seed: int = 0):
    """Returns frames with a rotation of at most 2 rad from one to the next, and from the last to the first."""
    rng = np.random.default_rng(seed)
    twists = rng.uniform(-1, 1, (count, 6))
    twists[:, :3] /= np.linalg.norm(twists[:, :3], axis=1, keepdims=True)
    return SE3.exp(jnp.array(twists))


def control_grid(rows: int, columns: int, seed: int = 0):
    return jnp.array(np.random.default_rng(seed).uniform(-0.7, 0.7, (rows, columns, 6)))


FAMILIES: dict[str, joints.Joint] = {
    "fixed": joints.Fixed(),
    "revolute": joints.Revolute((1.0, -2.0, 0.5)),
    "prismatic": joints.Prismatic((0.3, 0.2, -1.0)),
    "helical": joints.Helical((1.0, 0.2, -0.4), 0.3),
    "cylindrical": joints.Cylindrical((0.4, 1.0, 0.3)),
    "planar": joints.Planar((0.3, -0.5, -1.0)),
    "translational": joints.Translational(),
    "spherical": joints.Spherical(),
    "free": joints.Free(),
    "universal": joints.Universal((1.0, 0.2, 0.1), (0.3, 1.0, -0.2)),
    "euler zyx": joints.SphericalEuler("zyx"),
    "euler xzx": joints.SphericalEuler("xzx"),
    "exponential": joints.SphericalExponential(),
    "rack and pinion": joints.RackAndPinion(0.4),
    "composite": joints.Composite((joints.Helical(), joints.Fixed(), joints.Spherical())),
    "free 2d": joints.Free2D(),
    "free 3d": joints.Free3D(),
    "reversed": joints.Reversed(joints.RackAndPinion(0.4)),
    "offset": joints.Offset(joints.Helical((1.0, 0.2, -0.4), 0.3), control_frames(2)[1]),
    "driven": joints.Driven(joints.Universal(), wobble(2, 0), 0.4),
    "driven in a composite": joints.Composite(
        (joints.RackAndPinion(0.2), joints.Driven(joints.Cylindrical(), wobble(2, 1), 0.4), joints.Revolute())
    ),
    "constant velocity": joints.ConstantVelocity(joints.Free(), [0.3, -0.4, 0.8, 1.0, 0.2, -0.5], time=0.4),
    "spline curve": joints.SplineCurve(control_frames(6)),
    "open spline curve": joints.SplineCurve(control_frames(6), cyclic=False),
    "spline surface": joints.SplineSurface(control_grid(5, 6)),
}
