"""Rays: comparison with MuJoCo and with the triangles of shapes, and gradients."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import assert_close

import rbd_jax as rbd
from rbd_jax.shapes import Box, Capsule, Cylinder, Ellipsoid, HeightField, Mesh, Plane, Sphere


HILLS = np.array([[0.0, 0.3, 0.1, 0.2], [0.5, 0.4, 0.0, 0.7], [0.2, 0.6, 0.1, 0.3]])
GEOMETRIES = {
    "sphere": Sphere(0.8),
    "capsule": Capsule(0.3, 0.6),
    "cylinder": Cylinder(0.5, 0.6),
    "box": Box((0.3, 0.7, 0.5)),
    "ellipsoid": Ellipsoid((0.3, 0.7, 0.9)),
    "plane": Plane((0.9, 0.0)),
    "terrain": HeightField(HILLS, (1.0, 0.7), 0.2),
    "mesh": Mesh(*Ellipsoid((0.3, 0.7, 0.9)).triangles(), (1.0, 0.5, -1.0)),
}


def drawn():
    """Returns rays from all around toward the center, from inside, and along the axes."""
    random = np.random.default_rng(5)
    starts = random.normal(size=(60, 3))
    starts[:40] *= 3 / np.linalg.norm(starts[:40], axis=1, keepdims=True)
    starts[40:] *= 0.1
    along = random.normal(size=(60, 3)) * 0.4 - starts
    axes = np.vstack([np.eye(3), -np.eye(3)])
    return (
        np.vstack([starts, [0.05, 0.1, 0.02] - 3 * axes]),
        np.vstack([along, 1.5 * axes]),
    )


@pytest.mark.parametrize("name", GEOMETRIES)
def test_as_mujoco_has_it(name):
    """Distances equal those of `mj_rayGeom` and similar functions, in units of the direction's length.

    Meshes and terrain agree in single precision, which MuJoCo uses for them.
    """
    mujoco = pytest.importorskip("mujoco")
    body = GEOMETRIES[name]
    sizes = " ".join(str(x) for leaf in jax.tree.leaves(body) for x in np.ravel(leaf))
    asset, geom = "", f'<geom type="{name}" size="{sizes}{" 1" * (name == "plane")}"/>'
    if name == "terrain":
        heights = " ".join(map(str, HILLS[::-1].ravel()))  # the first row of a file is the far one
        asset = f'<hfield name="a" nrow="3" ncol="4" size="1 .7 .7 .2" elevation="{heights}"/>'
        geom = '<geom type="hfield" hfield="a"/>'
    elif name == "mesh":
        vertices, faces = (" ".join(map(str, np.ravel(x))) for x in body.triangles())
        asset = f'<mesh name="a" vertex="{vertices}" face="{faces}"/>'
        geom = '<geom type="mesh" mesh="a"/>'
    compiled = mujoco.MjModel.from_xml_string(
        f"<mujoco><asset>{asset}</asset><worldbody>{geom}</worldbody></mujoco>"
    )
    data = mujoco.MjData(compiled)
    mujoco.mj_forward(compiled, data)
    origins, directions = drawn()
    if name == "terrain":  # MuJoCo's terrain has a floor inside, at height zero
        origins, directions = origins[:40], directions[:40]
    found = jax.jit(jax.vmap(body.ray))(origins, directions)
    met = 0
    for o, d, ours in zip(np.asarray(origins), np.asarray(directions), np.asarray(found)):
        theirs = mujoco.mj_ray(compiled, data, o, d, None, 1, -1, np.zeros(1, np.int32))
        theirs = theirs[0] if isinstance(theirs, tuple) else theirs
        assert_close(ours if np.isfinite(ours) else -1.0, theirs, 1e-12 if asset == "" else 2e-6)
        met += theirs >= 0
    assert met > 12


@pytest.mark.parametrize("name", [name for name in GEOMETRIES if name != "plane"])
def test_rays_meet_what_is_drawn(name):
    """Hits equal those of the body's triangles, up to the error of 32 sides for round ones."""
    body = GEOMETRIES[name]
    origins, directions = drawn()
    exact = name in ("box", "terrain", "mesh")
    mesh = Mesh(*body.triangles())
    ask = jax.jit(jax.vmap(lambda *ray: [one.ray(*ray) for one in (body, mesh)]))
    ours, theirs = map(np.asarray, ask(origins, directions))
    both = np.isfinite(ours) & np.isfinite(theirs)
    assert both.sum() > 40 and (not exact or (np.isfinite(ours) == np.isfinite(theirs)).all())
    assert_close(ours[both], theirs[both], 1e-12 if exact else 0.05)


@pytest.mark.parametrize("name", GEOMETRIES)
def test_gradients(name):
    """Derivatives along a random direction in sizes, origin and direction, where smooth; finite for all rays."""
    body = Plane((0.9, 0.8)) if name == "plane" else GEOMETRIES[name]
    origins, directions = drawn()

    def distances(body, origins, directions):
        return jax.vmap(body.ray)(origins, directions)

    random = np.random.default_rng(2)
    primal = (body, origins, directions)
    change = jax.tree.map(lambda x: random.normal(size=x.shape) * 0.1, primal)
    step = 1e-6

    @jax.jit
    def ask(primal, change):
        moved = lambda step: jax.tree.map(lambda x, dx: x + step * dx, primal, change)
        total = lambda p: jnp.sum(jnp.where(jnp.isfinite(x := distances(*p)), x, 0))
        difference = (distances(*moved(step)) - distances(*moved(-step))) / (2 * step)
        return jax.jvp(distances, primal, change)[1], difference, jax.grad(total)(primal)

    rate, difference, back = jax.tree.map(np.asarray, ask(primal, change))
    smooth = np.isfinite(difference) & (np.abs(difference) < 10)
    assert smooth.sum() > 12
    close = np.abs(rate - difference) < 1e-6 * (1 + np.abs(difference))
    # A ray that hits another face after the change is not smooth.
    assert (smooth & ~close).sum() <= 1
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((back, rate)))
    assert any(np.abs(leaf).max() > 0 for leaf in jax.tree.leaves(back[0])) or name == "plane"


def test_far_away_is_as_near():
    """The hit of a ray from a thousand radii away is accurate to 1e-12 relative to the distance."""
    body, far = Sphere(0.5), np.array([1000.0, 2000.0, 500.0])
    aim = np.array([0.1, 0.2, -0.3])
    direction = (aim - far) / np.linalg.norm(aim - far)
    point = far + float(jax.jit(lambda *ray: body.ray(*ray))(far, direction)) * direction
    assert abs(np.linalg.norm(point) - 0.5) < 2e-12


def test_rays_in_a_model():
    """The nearest shape counts, transparent shapes are ignored; directions have any length."""
    floor = rbd.Shape("floor", "world", Plane(), (0, 0, -3))
    ball = rbd.Shape("ball", "lower", Sphere(0.1), (0, 0, -1))
    ghost = rbd.Shape("ghost", "world", Sphere(1.0), (0, 0, -2), rgba=(1, 1, 1, 0))
    bare = replace(rbd.load("double_pendulum"), attached=())
    model = rbd.attach(bare, floor, ball, ghost)
    origins = [[0.0, 0.0, -5.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [5.0, 5.0, 5.0]]
    directions = [[0.0, 0.0, 2.0], [0.0, 0.0, -0.5], [0.0, 0.0, -1.0], [0.0, 0.0, 1.0]]
    origins, directions = (jnp.asarray(np.array(x)) for x in (origins, directions))
    distances = lambda model, q: rbd.ray_distances(model, q, origins, directions)
    found = np.asarray(distances(model, zeros(2)))
    assert_close(found[:3], [2.9, 2.9, 3.0], 1e-12)
    assert found[3] == np.inf
    assert distances(bare, zeros(2)).tolist() == [np.inf] * 4
    q, step = np.array([0.02, 0.01]), 1e-6

    @jax.jit
    def ask(q):
        one = lambda q: distances(model, q)[1]
        return jax.grad(one)(q), jax.vmap(one)(q[None] + step * np.concatenate([np.eye(2), -np.eye(2)]))

    slope, values = map(np.asarray, ask(q))
    assert_close(slope, (values[:2] - values[2:]) / (2 * step), 1e-7)


def zeros(*shape):
    return jnp.asarray(np.zeros(shape))


def test_wrong_rays_are_told():
    model = rbd.load("double_pendulum")
    with pytest.raises(
        ValueError, match=r"ray_distances: origins has shape \(3,\), but k rays require \(k, 3\)"
    ):
        rbd.ray_distances(model, zeros(2), zeros(3), zeros(1, 3))
    with pytest.raises(ValueError, match="pass one of each per ray"):
        rbd.ray_distances(model, zeros(2), zeros(2, 3), zeros(1, 3))
