"""Contact points and signed distances of two geometries, with dispatch on their types."""

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


#: A function of two geometries and their placements in the world that returns contact points.
Touching = Callable[..., Found]


class ContactPoints(eqx.Module):
    """Contact points of two geometries, at most four. Their number depends only on the types of the geometries.

    - `distance`: the distance, negative where they overlap. It is infinite for invalid points, whose derivatives are zero.
    - `position`: the point midway between both surfaces, in the world.
    - `frame`: the contact frame. Its columns are the normal, from the first geometry into the second, and two tangents, as in
      MuJoCo.

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
        """The normal of each point, from the first geometry into the second."""
        return self.frame[:, :, 0]


class SignedDistance(eqx.Module):
    """The signed distance of two geometries.

    - `distance`: the distance; negative if they overlap, with the length of the smallest separating translation.
    - `normal`: the unit vector from the first geometry to the second along which the distance is measured.
    - `points`: a point on each surface, in the world. The second point is the first plus `distance * normal`.

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


#: Contact functions by pairs of geometry types. Look-ups also try the opposite order.
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

#: Contact functions whose smallest distance is not the distance of the geometries.
NOT_NEAREST = (convex.box_box, round.capsule_box)


def contact_points(a: Geometry, at_a: Transform, b: Geometry, at_b: Transform) -> ContactPoints:
    """Returns the contact points of two geometries (book §11.6); see `ContactPoints`.

    The result is differentiable by sizes and placements, also for separated geometries. The number of points depends on the
    types: 1 with a sphere or an ellipsoid, 2 with a capsule, else 4. Terrain always has 4 points. Contact points of flat
    sides that face each other are corners of their intersection, four of them if there are more.

    Args:
      a: The first geometry. A mesh is represented by its convex hull.
      at_a: Its placement in the world.
      b: The second geometry.
      at_b: Its placement in the world.

    >>> ball, floor = rbd.shapes.Sphere(0.1), rbd.shapes.Plane()
    >>> above = rbd.Transform.from_position(jnp.array([0.0, 0.0, 0.08]))
    >>> print(rbd.contact.contact_points(floor, rbd.Transform.identity(), ball, above).distance)
    [-0.02]
    """
    found = _touching(a, b)(a, at_a, b, at_b)
    return ContactPoints(found.distance, found.position, jax.vmap(frame)(found.normal, found.tangent))


def signed_distance(a: Geometry, at_a: Transform, b: Geometry, at_b: Transform) -> SignedDistance:
    """Returns the signed distance of two geometries and their nearest points; see `SignedDistance`.

    The result is differentiable by sizes and placements. The rate of the distance is `n · (v_b - v_a)`, with the velocities of
    both points.

    Args:
      a: The first geometry.
      at_a: Its placement in the world.
      b: The second geometry.
      at_b: Its placement in the world.

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
    """Returns True if geometries of two types can touch. Planes and height fields cannot touch each other."""
    return not (issubclass(a, _GROUND) and issubclass(b, _GROUND))


_GROUND = (Plane, HeightField)


def _touching(a: Geometry, b: Geometry) -> Touching:
    """Returns the contact function for two geometries, in this order."""
    function, swapped = _look_up(a, b)
    if not swapped:
        return function
    return lambda a, at_a, b, at_b: function(b, at_b, a, at_a).swapped()


def _look_up(a: Geometry, b: Geometry) -> tuple[Touching, bool]:
    first, second = type(a), type(b)
    if not can_touch(first, second):
        raise ModelError(
            f"a {first.__name__} and a {second.__name__} cannot touch: both are unbounded ground. Remove one of them"
        )
    for one in first.__mro__:
        for other in second.__mro__:
            if (one, other) in TOUCHING and (one, other) != (Geometry, Geometry):
                return TOUCHING[one, other], False
            if (other, one) in TOUCHING and (other, one) != (Geometry, Geometry):
                return TOUCHING[other, one], True
    return TOUCHING[Geometry, Geometry], False
