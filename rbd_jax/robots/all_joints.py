"""A fictitious robot with a joint of every family, for tests and demonstrations."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .. import joints
from ..model import Model, ModelBuilder
from ..spatial.transform import Transform
from ._links import add, at, box


class Swing(eqx.Module):
    """An oscillation: the configuration `amplitude sin(rate t)`."""

    amplitude: Float[Array, "n"]
    rate: Float[Array, ""]

    def __call__(self, time):
        return self.amplitude * jnp.sin(self.rate * time)


def all_joints() -> Model:
    """Returns a floating body with five branches that contain one joint of every family of `rbd_jax.joints`.

    Bodies and joints have the name of the family: `spherical_euler` is attached to a `SphericalEuler`. Every degree of
    freedom moves inertia. Two joints are kinematically driven (`driven`, `constant_velocity`). The slides and splines have
    springs, which hold them near the middle of their ranges.

    >>> model = rbd.robots.all_joints()
    >>> print(sorted({type(joint).__name__ for joint in model.joints})[:6])
    ['Composite', 'ConstantVelocity', 'Cylindrical', 'Driven', 'Fixed', 'Free']
    """
    swing = Swing(jnp.array([0.5]), jnp.array(3.0))
    ring = [at(0.3, 0, 0, pitch=-0.4), at(0, 0, 0.3, pitch=0.4), at(-0.3, 0, 0.1), at(0, 0.2, -0.3, roll=0.5)]
    track = Transform(jnp.stack([x.rotation for x in ring]), jnp.stack([x.position for x in ring]))
    slide: dict[str, Any] = {"stiffness": 20.0, "damping": 0.3}

    builder = ModelBuilder(name="all_joints")
    _hang(builder, "free", "world", joints.Free(), at(0, 0, 0), mass=5.0)

    _hang(builder, "revolute", "free", joints.Revolute((0, 1, 0)), at(0.25, 0.2, 0))
    _hang(builder, "prismatic", "revolute", joints.Prismatic((1, 0, 1)), **slide)
    _hang(builder, "helical", "prismatic", joints.Helical((1, 0, 0), 0.1))
    _hang(builder, "spherical", "helical", joints.Spherical())

    _hang(builder, "cylindrical", "free", joints.Cylindrical((1, 0, 0)), at(0.25, -0.2, 0), **slide)
    _hang(builder, "planar", "cylindrical", joints.Planar((0, 0, 1)), **slide)
    _hang(builder, "fixed", "planar", joints.Fixed())
    _hang(builder, "universal", "fixed", joints.Universal((0, 1, 0), (0, 0, 1)))

    _hang(builder, "translational", "free", joints.Translational(), at(-0.25, 0.2, 0), **slide)
    _hang(builder, "spherical_euler", "translational", joints.SphericalEuler("zyx"))
    _hang(builder, "rack_and_pinion", "spherical_euler", joints.RackAndPinion(0.1))
    _hang(builder, "driven", "rack_and_pinion", joints.Driven(joints.Revolute((0, 1, 0)), swing))

    _hang(
        builder, "spline_curve", "free", joints.SplineCurve(track, cyclic=True), at(-0.25, -0.2, 0),
        stiffness=20.0, damping=0.3,
    )  # fmt: skip
    _hang(
        builder, "spline_surface", "spline_curve", joints.SplineSurface(_bowl()),
        stiffness=20.0, spring_reference=(1.0, 1.0), damping=0.3,
    )  # fmt: skip
    _hang(
        builder, "constant_velocity", "spline_surface",
        joints.ConstantVelocity(joints.Revolute((0, 0, 1)), [1.5]),
    )  # fmt: skip
    _hang(builder, "spherical_exponential", "constant_velocity", joints.SphericalExponential())

    _hang(builder, "free2d", "free", joints.Free2D(), at(0, 0, -0.3), **slide)
    _hang(builder, "free3d", "free2d", joints.Free3D(), **slide)
    hinge_and_slide = joints.Composite((joints.Revolute((0, 1, 0)), joints.Prismatic((0, 0, 1))))
    _hang(builder, "composite", "free3d", hinge_and_slide, **slide)
    return builder.build(strict=True)


def _hang(builder, name, parent, joint, placement=None, mass=1.0, **along) -> None:
    """Adds a brick on a joint, with an offset along its branch and a center of mass away from its origin."""
    placement = at(0.1, 0, -0.25) if placement is None else placement
    brick = box(mass, (0.3, 0.2, 0.25), (0.05, 0.03, -0.1))
    if joint.nv and parent != "world":
        along = {"damping": 0.05, "armature": 0.02} | along
    add(builder, name, parent, joint, placement, brick, **along)


def _bowl() -> Float[Array, "5 5 6"]:
    """Returns a grid of control values: a bowl over the x-y plane, along which the moving frame tilts and rotates."""
    x, y = 0.3 * np.mgrid[-2.0:3.0, -2.0:3.0]
    return jnp.asarray(np.stack([x, y, 0.5 * (x**2 + y**2), y, -x, 0.5 * x], axis=-1))
