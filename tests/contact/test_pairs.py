"""Pairs of geometries against MuJoCo, and properties that hold for all pairs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import assert_close


mujoco = pytest.importorskip("mujoco")

from placed import GEOMETRIES, MARGIN, Scene, batched, placements

import rbd_jax.contact as contact
from rbd_jax import ModelError, Transform
from rbd_jax.shapes import Box, Capsule, Cylinder, Geometry, Plane, Sphere


#: Pairs whose contacts MuJoCo computes in closed form, which agree to rounding.
CLOSED = [
    ("plane", "sphere"),
    ("plane", "capsule"),
    ("plane", "ellipsoid"),
    ("plane", "cylinder"),
    ("plane", "box"),
    ("plane", "mesh"),
    ("sphere", "sphere"),
    ("sphere", "capsule"),
    ("sphere", "cylinder"),
    ("sphere", "box"),
    ("capsule", "capsule"),
    ("box", "box"),
]
CONVEX = ["sphere", "capsule", "ellipsoid", "cylinder", "box", "mesh"]
SEARCHED = [("cylinder", "cylinder"), ("box", "mesh")]
GROUND = [("plane", "capsule"), ("plane", "cylinder")]
ALL = [(a, b) for i, a in enumerate(CONVEX) for b in CONVEX[i:]]


def assert_among(found, expected, tolerance, what, missed=0.0, margin=MARGIN):
    """Checks that our contacts include MuJoCo's, and that both agree where MuJoCo has at most four.

    - `missed`: the share of placements in which only the deepest contact must agree.
    - `margin`: largest distance of the compared contacts.
    """
    found = jax.tree.map(np.asarray, found)
    ours = [
        [entry for entry in zip(*(np.asarray(x[k]) for x in (found.distance, found.position, found.frame)))]
        for k in range(len(expected))
    ]
    compared, others = 0, []
    for k, (mine, theirs) in enumerate(zip(ours, expected)):
        if len(theirs) > 4:
            continue
        near, theirs = ([entry for entry in entries if entry[0] <= margin] for entries in (mine, theirs))
        deepest = [min((entry[0] for entry in entries), default=margin) for entries in (near, theirs)]
        assert abs(deepest[0] - deepest[1]) <= tolerance, (what, k, deepest)
        off = 0.0
        for one in theirs:
            compared += 1
            off = max(
                off,
                min(
                    (max(np.max(np.abs(x - y)) for x, y in zip(one, other)) for other in near), default=np.inf
                ),
            )
        # MuJoCo returns at most three points for a plane and a mesh.
        if off > tolerance or (what != ("plane", "mesh") and len(near) != len(theirs)):
            others.append((k, off, len(near), len(theirs)))
    assert len(others) <= missed * len(expected), (what, len(others), others[:3])
    assert compared > len(expected) / 4


@pytest.mark.parametrize(
    "pair",
    [pytest.param(pair, marks=pytest.mark.slow if pair == ("box", "box") else ()) for pair in CLOSED],
    ids="-".join,
)
def test_contacts_are_those_of_mujoco(pair):
    at_a, at_b = placements(1, 40)
    found = batched(contact.contact_points, *pair)(at_a, at_b)
    assert_among(found, Scene(*pair).contacts(at_a, at_b), 1e-6 if "mesh" in pair else 1e-9, pair)


@pytest.mark.slow
@pytest.mark.parametrize("pair", CLOSED, ids="-".join)
def test_contacts_of_many_are_those_of_mujoco(pair):
    at_a, at_b = placements(8, 10_000)
    found = batched(contact.contact_points, *pair)(at_a, at_b)
    # For penetrating boxes all points agree. For separated boxes ours are four spread-out points. MuJoCo chooses other
    # corners for meshes with equally deep ones.
    missed = {("box", "box"): 0.03, ("plane", "mesh"): 1e-3}.get(pair, 0.0)
    expected = Scene(*pair).contacts(at_a, at_b)
    assert_among(found, expected, 1e-6, pair, missed)
    if pair == ("box", "box"):
        assert_among(found, expected, 1e-6, pair, margin=0.0)


@pytest.mark.parametrize(
    "pair",
    [
        pytest.param(pair, marks=pytest.mark.slow if pair == ("cylinder", "cylinder") else ())
        for pair in SEARCHED
    ],
    ids="-".join,
)
def test_signed_distances_are_those_of_mujoco(pair):
    at_a, at_b = placements(2, 60)
    check_distances(pair, at_a, at_b, batched(contact.signed_distance, *pair)(at_a, at_b))


def check_distances(pair, at_a, at_b, found, missed=0.0):
    """Checks distances, and that the nearest points are on the normal's line.

    At most the share `missed` of penetrating pairs may have a larger depth than necessary.
    """
    expected, points = Scene(*pair).distances(at_a, at_b)
    found = jax.tree.map(np.asarray, found)
    off = found.distance - expected
    deep = expected < 0
    assert np.max(np.abs(off[~deep]), initial=0) < 1e-6, (pair, np.max(np.abs(off[~deep])))
    assert np.mean(np.abs(off) > 1e-6) <= missed, (pair, np.mean(np.abs(off) > 1e-6))
    between = found.points[:, 1] - found.points[:, 0]
    along = found.distance[:, None] * found.normal
    assert_close(between, along, 1e-12)
    # MuJoCo's search stops with a distance error of 1e-9, so that the direction error is about its square root.
    apart = expected > 0.01
    theirs = (points[apart, 1] - points[apart, 0]) / expected[apart, None]
    assert_close(found.normal[apart], theirs, 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("pair", ALL, ids="-".join)
def test_signed_distances_of_many_are_those_of_mujoco(pair):
    """For capsules that pass through boxes MuJoCo does not return the smallest translation, so these are left out."""
    at_a, at_b = placements(3, 10_000)
    found = batched(contact.signed_distance, *pair)(at_a, at_b)
    if pair == ("capsule", "box"):
        shallow = np.asarray(found.distance) > -0.19
        at_a, at_b, found = jax.tree.map(lambda x: x[shallow], (at_a, at_b, found))
    check_distances(pair, at_a, at_b, found, 0.01)


@pytest.mark.slow
def test_swapped_geometries_have_the_opposite_normal():
    at_a, at_b = placements(2, 60)
    distance = batched(contact.signed_distance, "cylinder", "cylinder")
    one, other = distance(at_a, at_b), distance(at_b, at_a)
    assert_close(one.distance, other.distance, 1e-12)
    assert_close(one.normal, -other.normal, 1e-9)
    assert_close(one.points, other.points[:, ::-1], 1e-9)
    box, ball = (
        batched(contact.contact_points, *pair)(*ends)
        for pair, ends in ((("box", "sphere"), (at_a, at_b)), (("sphere", "box"), (at_b, at_a)))
    )
    assert_close(box.distance, ball.distance, 1e-15)
    assert_close(box.frame[..., 0], -ball.frame[..., 0], 1e-15)


def turned(at, x):
    """Returns a placement moved by a twist, to second order: rotation in its own frame, translation in the world's."""
    a, b, c = x[0], x[1], x[2]
    zero = jnp.zeros_like(a)
    half = 0.5 * jnp.stack([jnp.stack([zero, -c, b]), jnp.stack([c, zero, -a]), jnp.stack([-b, a, zero])])
    eye = jnp.eye(3, dtype=x.dtype)
    return Transform(at.rotation @ (jnp.linalg.inv(eye - half) @ (eye + half)), at.position + x[3:])


def measured(a, b):
    """Returns distance, normal and points of two geometries, as a function of twists (6 each) and scales (1 each)."""

    def of(x, at_a, at_b):
        one = jax.tree.map(lambda leaf: leaf * (1 + x[12]), GEOMETRIES[a])
        other = jax.tree.map(lambda leaf: leaf * (1 + x[13]), GEOMETRIES[b])
        found = contact.signed_distance(one, turned(at_a, x[:6]), other, turned(at_b, x[6:12]))
        return jnp.concatenate([found.distance[None], found.normal, jnp.ravel(found.points)])

    return of


def check_derivatives(pair, count, order):
    of = measured(*pair)
    at_a, at_b = placements(5, count)
    random = np.random.default_rng(6)
    way, other = (jnp.asarray(random.normal(size=14)) for _ in range(2))
    weights = jnp.asarray(random.normal(size=10))
    step = 1e-5

    def first(s, at_a, at_b):
        """Returns the reverse-mode derivative along a line."""
        gradient = jax.grad(lambda x: jnp.dot(weights, of(x, at_a, at_b)))(s * way)
        return jnp.dot(gradient, other)

    def second(s, at_a, at_b):
        return jax.jvp(lambda s: first(s, at_a, at_b), (s,), (jnp.ones_like(s),))[1]

    value = lambda s, at_a, at_b: jnp.dot(weights, of(s * other, at_a, at_b))
    checks = [(first, value)] if order == 1 else [(first, value), (second, first)]
    for derivative, function in checks:
        found = jax.jit(jax.vmap(derivative, (None, 0, 0)))(jnp.asarray(0.0), at_a, at_b)
        ends = jax.jit(jax.vmap(function, (None, 0, 0)))
        expected = (ends(jnp.asarray(step), at_a, at_b) - ends(jnp.asarray(-step), at_a, at_b)) / (2 * step)
        off = np.abs(found - expected) / (1 + np.abs(expected))
        assert np.isfinite(found).all()
        assert np.sort(off)[-2] < 1e-5, (pair, np.sort(off)[-4:])  # one sample may be at a change of features


@pytest.mark.slow
def test_derivatives_in_closed_form():
    check_derivatives(("sphere", "cylinder"), 20, 2)


@pytest.mark.slow
def test_derivatives_of_a_search():
    check_derivatives(("cylinder", "ellipsoid"), 20, 1)


@pytest.mark.slow
@pytest.mark.parametrize("pair", [*GROUND, *ALL], ids="-".join)
def test_derivatives_of_second_order(pair):
    check_derivatives(pair, 30, 2)


#: Placements with non-unique or zero quantities: (pair, positions of the second relative to the first).
SPECIAL = [
    ("sphere", "sphere", [(0, 0, 0), (0.8, 0, 0), (0, 0, 1e-9)]),
    ("sphere", "box", [(0, 0, 0), (0.7, 0, 0), (0, 0.6, 0.9)]),
    ("sphere", "cylinder", [(0, 0, 0), (0.7, 0, 0), (0, 0, 0.8)]),
    ("capsule", "capsule", [(0, 0, 0), (0.4, 0, 0), (0.4, 0, 0.3), (0, 0, 1.2)]),
    ("capsule", "box", [(0, 0, 0), (0.5, 0, 0), (0.5, 0.4, 0), (0, 0, 1.1)]),
    ("box", "box", [(0, 0, 0), (0, 0, 1.0), (0.1, 0.1, 0.99), (0.6, 0.4, 1.0)]),
]


@pytest.mark.parametrize(
    "a, b, positions",
    [pytest.param(*case, marks=pytest.mark.slow if case[0] == "box" else ()) for case in SPECIAL],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_special_placements_are_finite(a, b, positions):
    check_special(a, b, positions, jnp.float64)


def check_special(a, b, positions, dtype):
    """Checks the placements at the original size, tiny and huge."""
    eye = Transform.identity(dtype)

    def total(x, size):
        one, other = (
            jax.tree.map(lambda leaf: size * leaf.astype(dtype), GEOMETRIES[name]) for name in (a, b)
        )
        found = contact.contact_points(one, eye, other, turned(eye, x))
        there = jnp.isfinite(found.distance)
        distance = jnp.where(there, found.distance, 0)
        return jnp.sum(distance) + jnp.sum(found.position) + jnp.sum(found.frame), found

    sizes = np.repeat([1e-5, 1.0, 1e4], len(positions))
    twists = np.zeros((len(sizes), 6))
    twists[:, 3:] = sizes[:, None] * np.tile(positions, (3, 1))
    sizes, twists = sizes.astype(dtype), twists.astype(dtype)
    run = jax.jit(jax.vmap(jax.grad(total, has_aux=True)))
    gradient, found = jax.tree.map(np.asarray, run(twists, sizes))
    assert (
        np.isfinite(gradient).all() and np.isfinite(found.position).all() and np.isfinite(found.frame).all()
    )
    assert np.isfinite(found.distance[:, 0]).all()
    rotations = np.asarray(found.frame)
    off = np.swapaxes(rotations, -1, -2) @ rotations - np.eye(3)
    assert np.abs(off).max() < 100 * jnp.finfo(dtype).eps
    assert np.abs(np.linalg.det(rotations) - 1).max() < 100 * jnp.finfo(dtype).eps


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize(
    "pair", [("cylinder", "box"), ("ellipsoid", "cylinder"), ("mesh", "box")], ids="-".join
)
def test_special_placements_of_a_search_are_finite(pair, dtype):
    check_special(*pair, [(0, 0, 0), (0, 0, 0.9), (0, 0, 0.89), (0.6, 0, 0), (0.3, 0.2, 0.9)], dtype)


def test_a_box_on_a_box_has_four_corners():
    """An upright box, slightly sunk in, has the corners of the common area as contacts (book §11.6)."""
    place = lambda *x: Transform.from_xyz_rpy(x)
    found = jax.jit(contact.contact_points)(
        Box((0.5, 0.5, 0.1)), place(0.0, 0.0, 0.0), Box((0.2, 0.3, 0.4)), place(0.4, 0.0, 0.49)
    )
    assert_close(found.distance, np.full(4, -0.01), 1e-12)
    corners = np.array([[x, y, 0.095] for x in (0.2, 0.5) for y in (-0.3, 0.3)])
    assert_close(np.unique(np.round(found.position, 9), axis=0), corners, 1e-9)
    assert_close(found.normal, np.broadcast_to([0.0, 0.0, 1.0], (4, 3)), 1e-12)


@pytest.mark.slow
def test_a_cylinder_stands_on_three_or_four_points_and_lies_on_two():
    box, at = Box((1.0, 1.0, 0.1)), Transform.identity()
    upright = jax.jit(contact.contact_points)(
        box, at, Cylinder(0.2, 0.3), Transform.from_position(jnp.asarray([0.0, 0.1, 0.39]))
    )
    assert_close(upright.distance, np.full(4, -0.01), 1e-9)
    lying = Transform.from_xyz_rpy((0.0, 0.1, 0.29), (np.pi / 2, 0.0, 0.0))
    found = jax.jit(contact.contact_points)(box, at, Cylinder(0.2, 0.3), lying)
    assert np.isfinite(found.distance).sum() == 2
    assert_close(found.distance[:2], np.full(2, -0.01), 1e-9)


def test_points_that_are_not_there_change_with_nothing():
    def total(x):
        a, b = Capsule(0.2, 0.4), Capsule(0.1, 0.3)
        found = contact.contact_points(
            a, Transform.identity(), b, turned(Transform.from_xyz_rpy(rpy=(1.0, 0.0, 0.0)), x)
        )
        return jnp.sum(found.position[1]) + jnp.sum(found.frame[1]) + found.distance[1]

    value, gradient = jax.jit(jax.value_and_grad(total))(np.array([0.0, 0.0, 0.0, 0.5, 0.1, 0.0]))
    assert np.isinf(value) and not np.any(gradient)


@pytest.mark.slow
def test_terrain_is_touched_by_the_cells_in_reach():
    """The deepest contact agrees with that of MuJoCo's prisms, for balls above the inner cells."""
    random = np.random.default_rng(7)
    count = 12
    middles = np.column_stack(
        [random.uniform(-0.6, 0.6, count), random.uniform(-0.4, 0.4, count), np.full(count, 0.75)]
    )
    eye = np.broadcast_to(np.eye(3), (count, 3, 3))
    at_a = Transform(jnp.asarray(eye), jnp.zeros((count, 3)))
    at_b = Transform(jnp.asarray(eye), jnp.asarray(middles))
    found = batched(contact.contact_points, "hfield", "sphere")(at_a, at_b)
    expected = Scene("hfield", "sphere").contacts(at_a, at_b)
    touched = 0
    for k, contacts in enumerate(expected):
        deepest = min((c[0] for c in contacts), default=np.inf)
        if deepest < 0:
            touched += 1
            assert abs(found.distance[k].min() - deepest) < 1e-5, (k, found.distance[k], deepest)
    assert touched > 3


@pytest.mark.parametrize(
    "a, b",
    [(Plane(), Plane()), (Plane(), GEOMETRIES["hfield"]), (GEOMETRIES["hfield"], GEOMETRIES["hfield"])],
)
def test_ground_does_not_touch_ground(a, b):
    at = Transform.identity()
    with pytest.raises(ModelError, match=f"{type(a).__name__} and a {type(b).__name__} cannot touch"):
        contact.contact_points(a, at, b, at)


class Lens(Geometry):
    """A user-defined geometry: a unit ball cut off at x > 0.5."""

    depth: jax.Array

    def inertia(self, density):
        pytest.fail("contact must not call inertia")

    def triangles(self):
        pytest.fail("contact must not call triangles")

    def ray(self, origin, direction):
        pytest.fail("contact must not call ray")


def test_a_geometry_of_ones_own_joins_in():
    lens = Lens(jnp.asarray(0.5))
    at = Transform.identity()
    with pytest.raises(ModelError, match="Lens has no convex core.*core.register"):
        contact.contact_points(lens, at, lens, at)

    @contact.core.register
    def _(geometry: Lens) -> contact.Core:
        def support(direction):
            round_ = direction / jnp.linalg.norm(direction)
            cut = geometry.depth
            across = jnp.stack([jnp.zeros_like(cut), round_[1], round_[2]])
            size = jnp.maximum(jnp.linalg.norm(across), 1e-30)
            edge = across / size * jnp.sqrt(1 - cut**2)
            return jnp.where(round_[0] > cut, edge.at[0].set(cut), round_)

        return contact.from_support(support, geometry.depth.dtype, [(1.0, 0.0, 0.0)])

    found = jax.jit(contact.contact_points)(lens, at, Sphere(0.3), Transform.from_xyz_rpy((0.9, 0.2, 0.0)))
    assert_close(found.distance, np.array([0.1]), 1e-9)
    assert_close(found.normal, np.array([[1.0, 0.0, 0.0]]), 1e-9)


@pytest.mark.parametrize("name", GEOMETRIES)
def test_bounding_spheres_bound(name):
    geometry = GEOMETRIES[name]
    center, radius = jax.device_get(jax.jit(lambda: contact.bounding_sphere(geometry))())
    if name == "plane":
        assert np.isinf(radius)
        return
    vertices, _ = geometry.triangles()
    farthest = np.linalg.norm(vertices - np.asarray(center), axis=1).max()
    assert farthest <= radius * (1 + 1e-12) and radius < 2 * farthest
