"""Shapes of SDF links: geometries, frames, colors, contact pairs, inertias from shapes, and meshes."""

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from support import assert_close

import rbd_jax as rbd
from rbd_jax.shapes import Box, Capsule, Cylinder, Ellipsoid, Plane, Sphere


TETRAHEDRON = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"

INERTIAL = "<inertial><mass>1</mass></inertial>"


def shape(geometry, tag="visual", more="", name="s"):
    return f'<{tag} name="{name}">{more}<geometry>{geometry}</geometry></{tag}>'


def link(shapes="", name="l", pose="0 0 0 0 0 0"):
    return f'<link name="{name}"><pose>{pose}</pose>{shapes}</link>'


def model(content, name="m", more=""):
    return f'<model name="{name}">{more}{content}</model>'


def load(content, version="1.11", **options):
    return rbd.load_sdf(f'<sdf version="{version}">{content}</sdf>', **options)


GEOMETRIES = {
    "<box><size>1 2 3</size></box>": Box((0.5, 1.0, 1.5)),
    "<box/>": Box((0.5, 0.5, 0.5)),
    "<sphere><radius>0.2</radius></sphere>": Sphere(0.2),
    "<cylinder><radius>0.2</radius><length>3</length></cylinder>": Cylinder(0.2, 1.5),
    "<capsule><radius>0.2</radius><length>3</length></capsule>": Capsule(0.2, 1.5),
    "<ellipsoid><radii>1 2 3</radii></ellipsoid>": Ellipsoid((1.0, 2.0, 3.0)),
}


def test_geometries_and_kinds():
    each = "".join(
        shape(one, tag, name=f"{tag}{k}")
        for k, one in enumerate(GEOMETRIES)
        for tag in ("visual", "collision")
    )
    found = load(model(link(each))).shapes
    assert [one.name for one in found][:2] == ["l:visual0", "l:visual1"]
    for one, expected in zip(found, 2 * list(GEOMETRIES.values())):
        assert type(one.geometry) is type(expected) and one.body == "l"
        assert_close(one.inertia(1.0).parameters, expected.inertia(1.0).parameters, 1e-15)
    assert [(one.visual, one.collision, one.group) for one in (found[0], found[-1])] == [
        (True, False, 2),
        (False, True, 3),
    ]


def test_planes():
    """A visual plane has its given size and a collision plane is infinite, for any normal."""
    for normal in ((0, 0, 1), (0, 0, -1), (1, 2, 3), (1, 0, -4), (1, 0, 0)):
        said = f"<plane><normal>{' '.join(map(str, normal))}</normal><size>4 6</size></plane>"
        seen, touched = load(model(link(shape(said) + shape(said, "collision", name="c")))).shapes
        turn = np.asarray(seen.placement.rotation)
        assert_allclose(turn[:, 2], np.array(normal) / np.linalg.norm(normal), atol=1e-15)
        assert_allclose(turn @ turn.T, np.eye(3), atol=1e-15)
        assert_allclose(np.linalg.det(turn), 1.0)
        assert isinstance(seen.geometry, Plane)
        assert_allclose(seen.geometry.half_sizes, [2, 3])
        assert_allclose(touched.geometry.half_sizes, [0, 0])


def test_frames():
    """Poses are relative to the link by default, or to any frame of its model; names have the link's name as a prefix."""
    ball = "<sphere/>"
    pose = '<pose relative_to="{}">1 0 0 0 0 0.5</pose>'
    both = shape(ball, more="<pose>1 2 3 0.1 0.2 0.3</pose>") + shape(
        ball, more=pose.format("other"), name="t"
    )
    content = link(both, pose="0 0 1 0 0 0.2") + link(shape(ball), "other", "5 0 0 0 0 0")
    own, other, third = load(model(content)).shapes
    assert [one.name for one in (own, other, third)] == ["l:s", "l:t", "other:s"]
    assert_close(own.placement.matrix, rbd.Transform.from_xyz_rpy((1, 2, 3), (0.1, 0.2, 0.3)).matrix, 1e-15)
    expected = rbd.Transform.from_xyz_rpy((0, 0, 1), (0, 0, 0.2)).inverse() @ rbd.Transform.from_xyz_rpy(
        (6, 0, 0), (0, 0, 0.5)
    )
    assert_close(other.placement.matrix, expected.matrix, 1e-14)
    # Shape frames do not depend on joint frames.
    found = load(model(content, more="<pose>0 1 0 0 0 0</pose>"))
    assert_allclose(rbd.shape_frames(found, rbd.neutral(found)).position[1], [6, 1, 0], atol=1e-14)


def test_behind_a_joint_beside_the_origin():
    joint = (
        '<joint name="j" type="revolute"><pose>0 0 -1 0 0 0</pose><parent>world</parent><child>l</child>'
        "<axis><xyz>0 1 0</xyz></axis></joint>"
    )
    found = load(model(link(shape("<sphere/>"), pose="0 0 3 0 0 0") + joint))
    assert_allclose(rbd.shape_frames(found, jnp.array([np.pi / 2])).position[0], [1, 0, 2], atol=1e-14)


def test_colours():
    looks = {
        "<material><diffuse>1 0 0 0.5</diffuse></material>": (1.0, 0.0, 0.0, 0.5),
        "<material><ambient>0 1 0</ambient></material>": (0.0, 1.0, 0.0, 1.0),
        "<material><ambient>0 1 0 1</ambient><diffuse>0 0 1</diffuse></material><transparency>0.75</transparency>": (
            0.0, 0.0, 1.0, 0.25,
        ),
        "<material><script><name>Gazebo/Grey</name></script></material>": (0.5, 0.5, 0.5, 1.0),
        "": (0.5, 0.5, 0.5, 1.0),
    }  # fmt: skip
    each = "".join(shape("<sphere/>", more=one, name=f"s{k}") for k, one in enumerate(looks))
    found = load(model(link(each))).shapes
    assert [one.rgba for one in found] == list(looks.values())
    assert found[3].material == "Gazebo/Grey"


def touching(content, **options):
    """Returns the pairs of bodies whose shapes may touch."""
    found = load(content, **options)
    contacts = rbd.contacts(found, rbd.neutral(found))
    names = {one.name: one.body for one in found.shapes}
    return {frozenset(names[one] for one in contacts.shapes[k]) for k in contacts.pair}


def test_what_touches_what():
    """Links of one model touch each other only with `self_collide`; different models touch each other."""
    two = "".join(
        link(shape("<sphere/>", "collision"), name, f"{x} 0 0 0 0 0") for name, x in (("a", 0), ("b", 5))
    )
    own = "<self_collide>true</self_collide>"
    assert touching(model(two)) == set()
    assert touching(model(two, more=own)) == {frozenset("ab")}
    floor = model(link(shape("<plane/>", "collision"), "f"), "floor", "<static>true</static>")
    every = touching(f'<world name="w">{floor}{model(two)}{model(two, "n")}</world>')
    ends = [frozenset((f"m::{x}", f"n::{y}")) for x in "ab" for y in "ab"]
    on_floor = [frozenset(("floor::f", f"{x}::{y}")) for x in "mn" for y in "ab"]
    assert every == {*ends, *on_floor}


def test_friction():
    ode = "<surface><friction><ode><mu>0.3</mu><mu2>0.3</mu2></ode></friction></surface>"
    (found,) = load(model(link(shape("<sphere/>", "collision", ode)))).shapes
    assert_allclose(found.friction, [0.3, 0.005, 0.0001])


def test_what_has_no_effect_is_told():
    surface = (
        "<surface><friction><ode><mu>0.3</mu><mu2>0.4</mu2></ode><torsional><coefficient>1</coefficient></torsional></friction>"
        "<bounce><restitution_coefficient>0.5</restitution_coefficient></bounce>"
        "<contact><collide_bitmask>3</collide_bitmask></contact></surface>"
    )
    content = shape("<sphere/>", "collision", surface, "ball") + shape("<cone/>", name="hat")
    with pytest.warns(rbd.ModelWarning, match="restitution 'ball'; collide bitmasks 'ball'") as caught:
        found = load(model(link(content + shape("<empty/>", name="none"))))
    told = str(caught[0].message)
    for words in (
        "cones 'hat'",
        "torsional friction 'ball'",
        "anisotropic friction 'ball'",
    ):
        assert words in told and words in found.unsupported
    assert len(found.shapes) == 1


WRONG = {
    "<sphere><radius>0</radius></sphere>": "radius is 0.0; it must be greater than 0",
    "<box><size>1 1</size></box>": "has 2 numbers; it takes 3",
    "<plane><normal>0 0 0</normal></plane>": "its normal must not be zero",
    "<mesh/>": "has no <uri>",
}


@pytest.mark.parametrize("geometry", WRONG)
def test_shapes_that_are_none_are_left_out(geometry):
    text = model(link(shape(geometry) + shape("<sphere/>", name="t")))
    with pytest.warns(rbd.ModelWarning) as caught:
        found = load(text)
    assert "link 'l'" in str(caught[0].message) and WRONG[geometry] in str(caught[0].message)
    assert [one.name for one in found.shapes] == ["l:t"]
    with pytest.raises(rbd.ModelError, match="invalid shapes"):
        load(text, strict=True)


def test_inertias_of_shapes():
    """Inertias computed from collisions have the density of water, of the link or of the collision, and the given mass."""
    ball = shape("<sphere><radius>0.5</radius></sphere>", "collision", "<pose>0 0 1 0 0 0</pose>")
    box = shape("<box/>", "collision", "<density>2</density>", "t")
    auto = '<inertial auto="true">{}</inertial>'
    sphere = lambda density: (
        Sphere(0.5).inertia(density).placed(rbd.Transform.from_position(jnp.array([0.0, 0, 1])))
    )
    of = lambda text: load(model(link(text))).inertias.parameters[0]
    assert_close(of(auto.format("") + ball), sphere(1000.0).parameters, 1e-14)
    both = sphere(3.0) + Box((0.5, 0.5, 0.5)).inertia(2.0)
    dense = "<density>3</density>"
    seen = shape("<box/>", name="seen")
    assert_close(of(auto.format(dense) + ball + box + seen), both.parameters, 1e-14)
    scaled = of(auto.format(f"{dense}<mass>5</mass>") + ball + box)
    assert_close(scaled, both.parameters * 5 / both.mass[None], 1e-14)
    with pytest.raises(
        rbd.ModelError, match="computed from shapes, because .*link.* has no suitable collision"
    ):
        of(auto.format("") + seen)
    with pytest.raises(rbd.ModelError, match="computed from shapes: .*radius is 0.0"):
        of(auto.format("") + shape("<sphere><radius>0</radius></sphere>", "collision"))


def test_meshes(tmp_path, monkeypatch):
    pytest.importorskip("trimesh")
    folder = tmp_path / "models" / "arm"
    (folder / "meshes").mkdir(parents=True)
    (folder / "meshes" / "part.obj").write_text(TETRAHEDRON)
    said = "<mesh><uri>{}</uri><scale>1 2 3</scale></mesh>"

    def one(uri, **options):
        (found,) = load(model(link(shape(said.format(uri)))), **options).shapes
        return found.inertia(1.0).mass

    assert_close(one("model://arm/meshes/part.obj", package_dirs=tmp_path / "models"), 1.0, 1e-14)
    monkeypatch.setenv("GZ_SIM_RESOURCE_PATH", str(tmp_path / "models"))
    assert_close(one("model://arm/meshes/part.obj"), 1.0, 1e-14)
    file = folder / "model.sdf"
    auto = '<inertial auto="true"/>' + shape(said.format("meshes/part.obj"), "collision")
    file.write_text(f'<sdf version="1.11">{model(link(auto))}</sdf>')
    assert_close(rbd.load(file).inertias.mass[0], 1000.0, 1e-14)
    part = "<mesh><uri>a.dae</uri><submesh><name>b</name></submesh></mesh>"
    with pytest.warns(rbd.ModelWarning, match="parts of meshes 'a.dae'"):
        assert not load(model(link(shape(part)))).shapes
