"""Shapes of URDF links: geometries, materials, names, and locations of meshes."""

import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import assert_close

import rbd_jax as rbd
from rbd_jax.shapes import Box, Capsule, Cylinder, Mesh, Sphere, mesh as meshes


TETRAHEDRON = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"


def robot(shapes: str, more: str = "") -> str:
    hinge = '<joint name="j" type="continuous"><parent link="base"/><child link="tip"/></joint>'
    return f'<robot name="r">{more}<link name="base"/><link name="tip">{shapes}</link>{hinge}</robot>'


def shape(geometry: str, tag: str = "visual", more: str = "", name: str = "") -> str:
    named = f' name="{name}"' if name else ""
    return f"<{tag}{named}>{more}<geometry>{geometry}</geometry></{tag}>"


GEOMETRIES = {
    '<box size="1 2 3"/>': Box((0.5, 1.0, 1.5)),
    '<sphere radius="0.2"/>': Sphere(0.2),
    '<cylinder radius="0.2" length="3"/>': Cylinder(0.2, 1.5),
    '<capsule radius="0.2" length="3"/>': Capsule(0.2, 1.5),
}


def test_geometries_and_kinds():
    text = "".join(shape(one) + shape(one, "collision") for one in GEOMETRIES)
    model = rbd.load_urdf(robot(text))
    assert [one.name for one in model.shapes] == [
        f"tip:{tag}_{index}" for tag in ("visual", "collision") for index in range(len(GEOMETRIES))
    ]
    for found, expected in zip(model.shapes, 2 * list(GEOMETRIES.values())):
        assert type(found.geometry) is type(expected) and found.body == "tip"
        assert_close(found.inertia(1.0).parameters, expected.inertia(1.0).parameters, 1e-15)
    assert [(one.visual, one.collision, one.group) for one in model.shapes[3:5]] == [
        (True, False, 2),
        (False, True, 3),
    ]


def test_origins():
    placed = '<origin xyz="1 2 3" rpy="0.1 0.2 0.3"/>'
    (found,) = rbd.load_urdf(robot(shape('<sphere radius="1"/>', more=placed))).shapes
    expected = rbd.Transform.from_xyz_rpy((1.0, 2.0, 3.0), (0.1, 0.2, 0.3))
    assert_close(found.placement.matrix, expected.matrix, 1e-15)


def test_names():
    """Names are preserved, duplicates become distinct, and missing names are generated without conflicts."""
    ball = '<sphere radius="1"/>'
    text = "".join(shape(ball, name=name) for name in ("", "a", "a", "tip:visual_0"))
    model = rbd.load_urdf(robot(text))
    assert [one.name for one in model.shapes] == ["tip:visual_0_", "a", "a_", "tip:visual_0"]


def test_a_root_called_world():
    """Shapes of the root belong to the world, or to the body in its place."""
    ball = shape('<sphere radius="1"/>')
    text = robot("").replace("base", "world").replace('"world"/>', f'"world">{ball}</link>', 1)
    assert rbd.load_urdf(text).shapes[0].body == "world"
    assert rbd.load_urdf(text, floating_base=True).shapes[0].body == "world_link"


def test_materials():
    """Colors come from the visual, from a material of the robot, from another visual's material, or are the default."""
    ball, named = '<sphere radius="1"/>', '<material name="red"/>'
    own = '<material name="blue"><color rgba="0 0 1 0.5"/></material>'
    known = '<material name="red"><color rgba="1 0 0 1"/></material>'
    looks = (own, named, '<material name="blue"/>', '<material name="lost"/>', "")
    model = rbd.load_urdf(robot("".join(shape(ball, more=look) for look in looks), known))
    grey, blue = (0.5, 0.5, 0.5, 1.0), (0.0, 0.0, 1.0, 0.5)
    assert [one.rgba for one in model.shapes] == [blue, (1.0, 0.0, 0.0, 1.0), blue, grey, grey]
    assert [one.material for one in model.shapes] == ["blue", "red", "blue", "lost", ""]


@pytest.fixture
def package(tmp_path):
    """Creates a package `arm` with a robot in `urdf` and a mesh in `meshes`, and returns its directory."""
    folder = tmp_path / "share" / "arm"
    (folder / "urdf").mkdir(parents=True)
    (folder / "meshes").mkdir()
    (folder / "meshes" / "part.obj").write_text(TETRAHEDRON)
    return folder


PLACES = {
    "above the file": lambda folder: ("package://arm/meshes/part.obj", {}, True),
    "given": lambda folder: ("package://arm/meshes/part.obj", {"package_dirs": [folder.parent]}, False),
    "the package given": lambda folder: ("package://arm/meshes/part.obj", {"package_dirs": folder}, False),
    "more slashes": lambda folder: (
        "package:///arm/meshes/part.obj",
        {"package_dirs": [folder.parent]},
        False,
    ),
    "relative": lambda folder: ("../meshes/part.obj", {}, True),
    "absolute": lambda folder: (str(folder / "meshes" / "part.obj"), {}, False),
    "of a URL": lambda folder: ((folder / "meshes" / "part.obj").as_uri(), {}, False),
}


@pytest.mark.parametrize("case", PLACES)
def test_where_meshes_are(case, package):
    pytest.importorskip("trimesh")
    file, options, in_file = PLACES[case](package)
    text = robot(shape(f'<mesh filename="{file}" scale="1 2 3"/>'))
    if in_file:
        source = package / "urdf" / "arm.urdf"
        source.write_text(text)
    (found,) = rbd.load_urdf(source if in_file else text, **options).shapes
    assert_close(found.inertia(1.0).mass, 1.0, 1e-14)  # a sixth, scaled by six
    assert_close(found.geometry.triangles()[0].max(axis=0), [1, 2, 3], 1e-15)


def test_packages_of_ros(package, monkeypatch):
    monkeypatch.setenv("ROS_PACKAGE_PATH", f"/nowhere:{package.parent}")
    (found,) = rbd.load_urdf(robot(shape('<mesh filename="package://arm/meshes/part.obj"/>'))).shapes
    assert found.geometry.file == str(package / "meshes" / "part.obj")


def test_meshes_are_read_when_asked_for(package):
    """A mesh is read once for all its shapes; a missing file raises an error only on access."""
    pytest.importorskip("trimesh")
    mesh = '<mesh filename="package://arm/meshes/part.obj"/>'
    model = rbd.load_urdf(robot(2 * shape(mesh)), package_dirs=[package])
    first, second = (one.geometry for one in model.shapes)
    assert first.triangles()[0].shape == (4, 3)
    shutil.rmtree(package / "meshes")
    assert second.triangles()[0].shape == (4, 3)
    again = rbd.load_urdf(robot(2 * shape(mesh)), package_dirs=[package])
    with pytest.raises(
        rbd.ModelError, match="mesh 'package://arm/meshes/part.obj': there is no file .*package_dirs"
    ):
        again.shapes[0].inertia(1.0)


def test_what_is_wrong_with_a_mesh_is_told(tmp_path, monkeypatch):
    pytest.importorskip("trimesh")
    path = tmp_path / "part.obj"
    path.write_text(TETRAHEDRON.rpartition("f ")[0])
    with pytest.raises(rbd.ModelError, match="part.obj' has no inertia: the mesh is not closed.*convex_hull"):
        Mesh.from_file(path).inertia(1.0)
    assert_close(Mesh.from_file(path).convex_hull().inertia(6.0).mass, 1.0, 1e-14)
    for name, content in (("empty.obj", ""), ("noise.stl", "noise"), ("what.xyzzy", TETRAHEDRON)):
        (tmp_path / name).write_text(content)
        with pytest.raises(rbd.ModelError, match=f"mesh '.*{name}'"):
            Mesh.from_file(tmp_path / name).triangles()
    monkeypatch.setattr(meshes, "LARGEST", 10)
    with pytest.raises(rbd.ModelError, match="files of up to"):
        Mesh.from_file(path).triangles()


def test_without_trimesh(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "trimesh", None)
    (tmp_path / "part.obj").write_text(TETRAHEDRON)
    with pytest.raises(ImportError, match=r"pip install 'rbd_jax\[meshes\]'"):
        Mesh.from_file(tmp_path / "part.obj").triangles()


NONE = {
    '<sphere radius="0"/>': "radius is 0.0; it must be greater than 0",
    '<box size="1 1"/>': "has 2 numbers; it takes 3",
    "<torus/>": "has torus; it takes one of box, sphere",
    '<mesh scale="1 1 1"/>': "has no filename",
    '<mesh filename="a.stl" scale="0 1 1"/>': "none of its three numbers is zero",
}


@pytest.mark.parametrize("geometry", NONE)
def test_shapes_that_are_none_are_left_out(geometry):
    """The warning names the link; with `strict` it is an error."""
    text = robot(shape(geometry) + shape('<sphere radius="1"/>'))
    with pytest.warns(rbd.ModelWarning) as caught:
        model = rbd.load_urdf(text)
    assert "link 'tip'" in str(caught[0].message) and NONE[geometry] in str(caught[0].message)
    assert [one.name for one in model.shapes] == ["tip:visual_1"]
    with pytest.raises(rbd.ModelError, match="invalid shapes"):
        rbd.load_urdf(text, strict=True)


def test_package_dirs_that_are_none():
    with pytest.raises(rbd.ModelError, match="package_dirs has '/nowhere', which is not a directory"):
        rbd.load_urdf(robot(""), package_dirs=["/nowhere"])


def test_frames_follow_their_bodies():
    ball = shape('<sphere radius="1"/>', more='<origin xyz="1 0 0"/>')
    model = rbd.load_urdf(robot(ball).replace("<child", '<axis xyz="0 0 1"/><child'))
    assert_close(rbd.shape_frames(model, jnp.array([np.pi / 2])).position[0], [0.0, 1.0, 0.0], 1e-15)


def test_written_and_read_again(package):
    """Shapes round-trip. Properties that URDF does not have are named in the error."""
    placed = '<origin xyz="1 2 3" rpy="0.1 0.2 0.3"/>'
    blue = '<material name="blue"><color rgba="0 0 1 0.5"/></material>'
    mesh = '<mesh filename="package://arm/meshes/part.obj" scale="1 2 3"/>'
    text = "".join(
        shape(one, more=placed + blue) + shape(one, "collision", name="c") for one in (*GEOMETRIES, mesh)
    )
    model = rbd.load_urdf(robot(text), package_dirs=[package])
    again = rbd.load_urdf(rbd.to_urdf(model), package_dirs=[package])
    assert len(model.shapes) == 10
    assert jax.tree.structure(again.shapes) == jax.tree.structure(model.shapes)
    for ours, back in zip(jax.tree.leaves(model.shapes), jax.tree.leaves(again.shapes)):
        assert_close(back, ours, 1e-15)
    ground = rbd.Shape("ground", "world", rbd.shapes.Plane())
    rough = rbd.Shape("rough", "tip", Sphere(1.0), friction=(2.0, 0.0, 0.0), visual=False, group=3)
    with pytest.raises(rbd.ModelError, match="shapes 'ground'; contact properties of shapes 'rough'. Remove"):
        rbd.to_urdf(rbd.attach(model, ground, rough), strict=True)
