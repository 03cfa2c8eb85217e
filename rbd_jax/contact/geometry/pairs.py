"""The points where two geometries touch, and how far they are apart: which function serves which kinds."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from ..._core.errors import ModelError
from ...shapes import Box, Capsule, Cylinder, Ellipsoid, Geometry, HeightField, Plane, Sphere
from ...spatial.transform import Transform
from . import convex, planes, round, terrain
from .found import Found
from .vectors import frame


#: Of two geometries and their placements in the world, what they touch with; normals from the first to the second.
Touching = Callable[..., Found]


class ContactPoints(eqx.Module):
    """Where two geometries touch, or nearly do: up to four points, as many for each pair of kinds.

    - `distance`: negative where they overlap; infinite where there is no such point, and then nothing changes with anything.
    - `position`: midway between the two surfaces, in the world.
    - `frame`: the columns are the normal, from the first into the second, and two tangents. MuJoCo's are the same.

    >>> box, floor = rbd.shapes.Box((0.1, 0.1, 0.1)), rbd.shapes.Plane()
    >>> above = rbd.Transform.from_position(jnp.array([0.0, 0.0, 0.1]))
    >>> points = rbd.contact.contact_points(floor, rbd.Transform.identity(), box, above)
    >>> print(points.position)
    [[-0.1 -0.1  0. ]
     [ 0.1 -0.1  0. ]
     [-0.1  0.1  0. ]
     [ 0.1  0.1  0. ]]
    """

    distance: Float[Array, "k"]
    position: Float[Array, "k 3"]
    frame: Float[Array, "k 3 3"]

    @property
    def normal(self) -> Float[Array, "k 3"]:
        """From the first geometry into the second."""
        return self.frame[:, :, 0]


class SignedDistance(eqx.Module):
    """How far two geometries are apart; negative, how far one has to be moved so that they are not, the least way.

    - `distance`.
    - `normal`: a unit vector from the first to the second, along which that is.
    - `points`: one on each surface, in the world, so that the second is the first and `distance * normal`.

    >>> a, b = rbd.shapes.Sphere(0.1), rbd.shapes.Sphere(0.2)
    >>> there = rbd.Transform.from_position(jnp.array([0.0, 0.0, 1.0]))
    >>> found = rbd.contact.signed_distance(a, rbd.Transform.identity(), b, there)
    >>> print(found.normal, found.points)
    [0. 0. 1.] [[0.  0.  0.1]
     [0.  0.  0.8]]
    """

    distance: Float[Array, ""]
    normal: Float[Array, "3"]
    points: Float[Array, "2 3"]


#: Kinds that touch in a way of their own. What is asked for in the other order is found here too.
TOUCHING: dict[tuple[type[Geometry], type[Geometry]], Touching] = {
    (Plane, Sphere): planes.plane_sphere,
    (Plane, Capsule): planes.plane_capsule,
    (Plane, Ellipsoid): planes.plane_ellipsoid,
    (Plane, Cylinder): planes.plane_cylinder,
    (Plane, Box): planes.plane_box,
    (Plane, Geometry): planes.plane_convex,
    (HeightField, Geometry): terrain.terrain_convex,
    (Sphere, Sphere): round.sphere_sphere,
    (Sphere, Capsule): round.sphere_capsule,
    (Sphere, Cylinder): round.sphere_cylinder,
    (Sphere, Box): round.sphere_box,
    (Capsule, Capsule): round.capsule_capsule,
    (Capsule, Box): round.capsule_box,
    (Box, Box): convex.box_box,
    (Geometry, Geometry): convex.convex_convex,
}

#: Those among them whose nearest point is not as far as the geometries are apart.
NOT_NEAREST = (convex.box_box, round.capsule_box)


def contact_points(a: Geometry, at_a: Transform, b: Geometry, at_b: Transform) -> ContactPoints:
    """The points where two geometries touch, or nearly do (book §11.6); see `ContactPoints`.

    - `a`, `b`: the geometries. A mesh touches with its convex hull.
    - `at_a`, `at_b`: their placements in the world.

    Differentiable by sizes and placements, also where they are apart. How many there are is fixed by the two kinds:

    - with a sphere or an ellipsoid 1;
    - with a capsule 2;
    - else 4.

    Flat sides that face each other touch at corners of what they have in common, four of them where there are more. With terrain
    there are 4 points whatever touches it.

    >>> ball, floor = rbd.shapes.Sphere(0.1), rbd.shapes.Plane()
    >>> above = rbd.Transform.from_position(jnp.array([0.0, 0.0, 0.08]))
    >>> print(rbd.contact.contact_points(floor, rbd.Transform.identity(), ball, above).distance)
    [-0.02]
    """
    found = _touching(a, b)(a, at_a, b, at_b)
    return ContactPoints(found.distance, found.position, jax.vmap(frame)(found.normal, found.tangent))


def signed_distance(a: Geometry, at_a: Transform, b: Geometry, at_b: Transform) -> SignedDistance:
    """How far two geometries are apart, or how deep they overlap, and where; see `SignedDistance`.

    Differentiable by sizes and placements: the distance by `n · (v_b - v_a)`, of the velocities of the two points.

    >>> a, b = rbd.shapes.Box((0.1, 0.1, 0.1)), rbd.shapes.Sphere(0.1)
    >>> there = rbd.Transform.from_position(jnp.array([0.5, 0.0, 0.0]))
    >>> print(rbd.contact.signed_distance(a, rbd.Transform.identity(), b, there).distance.round(3))
    0.3
    """
    function, _ = _look_up(a, b)
    if function is convex.convex_convex or function in NOT_NEAREST:
        return SignedDistance(*convex.apart(a, at_a, b, at_b))
    found = _touching(a, b)(a, at_a, b, at_b)
    nearest = jnp.argmin(lax.stop_gradient(found.distance))
    distance, position, normal = found.distance[nearest], found.position[nearest], found.normal[nearest]
    half = 0.5 * distance * normal
    return SignedDistance(distance, normal, jnp.stack([position - half, position + half]))


def can_touch(a: type[Geometry], b: type[Geometry]) -> bool:
    """Whether geometries of two kinds can touch: not two that have no end below."""
    return not (issubclass(a, _GROUND) and issubclass(b, _GROUND))


_GROUND = (Plane, HeightField)


def _touching(a: Geometry, b: Geometry) -> Touching:
    """The function for two geometries, in this order."""
    function, swapped = _look_up(a, b)
    if not swapped:
        return function
    return lambda a, at_a, b, at_b: function(b, at_b, a, at_a).swapped()


def _look_up(a: Geometry, b: Geometry) -> tuple[Touching, bool]:
    first, second = type(a), type(b)
    if not can_touch(first, second):
        raise ModelError(
            f"a {first.__name__} and a {second.__name__} cannot touch: both are ground without end; leave one of them out"
        )
    for one in first.__mro__:
        for other in second.__mro__:
            if (one, other) in TOUCHING and (one, other) != (Geometry, Geometry):
                return TOUCHING[one, other], False
            if (other, one) in TOUCHING and (other, one) != (Geometry, Geometry):
                return TOUCHING[other, one], True
    return TOUCHING[Geometry, Geometry], False
