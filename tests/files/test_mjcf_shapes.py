"""Geoms of MJCF files as shapes: placements, geometries, and contact properties."""

import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import assert_close

import rbd_jax as rbd
from rbd_jax import shapes


mujoco = pytest.importorskip("mujoco")

XML = """<mujoco><asset><hfield name="hills" nrow="3" ncol="4" size="2 3 .5 .2" elevation="0 3 1 2 5 4 0 7 2 6 1 3"/>
<mesh name="wedge" vertex="0 0 0 1 0 0 0 2 0 0 0 3" scale="1 .5 .2"/>
<material name="steel" rgba=".1 .2 .3 1"/></asset>
<worldbody><geom name="floor" type="plane" size="3 0 .1" pos="0 0 -1" euler="10 0 0" condim="1" group="3"/>
<geom type="hfield" hfield="hills" pos="1 2 3"/>
<body name="arm" pos=".1 .2 .3" euler="10 20 30"><joint name="turn" axis="0 1 1" pos="0 .1 0"/>
  <geom name="upper" type="capsule" fromto="0 0 0 .3 .4 .5" size=".1" rgba="1 0 0 .5" friction=".7 .01 .002"/>
  <geom type="mesh" mesh="wedge" pos=".1 0 0" euler="0 30 0" material="steel" mass="1"/>
  <body name="wrist" pos="0 0 .5" euler="0 0 40"><geom name="flange" type="cylinder" size=".1 .2" contype="0" conaffinity="0"/>
    <body name="hand" pos="0 .2 .4"><joint name="slide" type="slide"/>
      <geom name="palm" type="box" size=".1 .2 .3" pos="1 0 0" margin=".02" gap=".01" solref=".01 .5" solimp=".8 .9 .01 .4 3"/>
      <geom name="knob" type="ellipsoid" size=".1 .2 .3" priority="2" contype="2" euler="1 2 3"/></body></body></body>
<body name="ball" pos="2 0 0"><freejoint name="loose"/><geom name="bead" size=".1" pos=".1 0 0"/></body>
</worldbody></mujoco>"""


@pytest.fixture(scope="module")
def both():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return rbd.load_mjcf(XML), mujoco.MjModel.from_xml_string(XML)


def found(model, q):
    frames = jax.jit(jax.vmap(lambda q: rbd.shape_frames(model, q)))(q)
    return np.asarray(frames.position), np.asarray(frames.rotation)


def expected(mj_model, q, order):
    """Returns `geom_xpos` and `geom_xmat` at configurations of our model, whose coordinates are those of the file."""
    data, positions, rotations = mujoco.MjData(mj_model), [], []
    for qpos in np.asarray(q):
        data.qpos[:] = qpos
        mujoco.mj_kinematics(mj_model, data)
        positions.append(data.geom_xpos.copy())
        rotations.append(data.geom_xmat.reshape(-1, 3, 3).copy())
    return np.array(positions)[:, order], np.array(rotations)[:, order]


@pytest.mark.slow
def test_frames(both):
    """Frames in random states: as loaded, with fused welds, renamed, concatenated, and with a locked joint."""
    model, mj_model = both
    keys = jax.random.split(jax.random.key(0), 3)
    q = jax.vmap(lambda key: rbd.random_configuration(model, key))(keys)
    own = np.arange(mj_model.ngeom)
    theirs = expected(mj_model, q, own)
    for edited in (
        model,
        rbd.fuse_fixed(model),
        rbd.rename(model, {name: f"a_{name}" for name in model.body_names}),
    ):
        for ours, wanted in zip(found(edited, q), theirs):
            assert_close(ours, wanted, 1e-12)
    assert not {"wrist"} & set(rbd.fuse_fixed(model).body_names)
    first = rbd.load("double_pendulum")
    both_of_them, others = rbd.concatenate(first, model, names=["one", "two"]), len(first.shapes)
    for ours, wanted in zip(found(both_of_them, jnp.concatenate([jnp.zeros((3, 2)), q], axis=1)), theirs):
        assert_close(ours[:, others:], wanted, 1e-12)
    arm = both_of_them.shapes[others + 2]
    assert arm.name == "two/upper" and arm.body == "two/arm"
    locked = rbd.lock_joints(model, {"turn": q[0, 0]})
    for ours, wanted in zip(found(locked, q[:1, 1:]), theirs):
        assert_close(ours, wanted[:1], 1e-12)


def test_what_geoms_are(both):
    model, mj_model = both
    names = ["floor", "geom_1", "upper", "geom_3", "flange", "palm", "knob", "bead"]
    assert [shape.name for shape in model.shapes] == names
    shape = {one.name: one for one in model.shapes}
    kinds = ("Plane", "HeightField", "Capsule", "Mesh", "Cylinder", "Box", "Ellipsoid", "Sphere")
    assert tuple(type(one.geometry).__name__ for one in model.shapes) == kinds
    assert shape["floor"].body == "world" and shape["palm"].body == "hand"
    assert not shape["floor"].visual and shape["floor"].group == 3 and shape["floor"].condim == 1
    assert shape["flange"].visual and not shape["flange"].collision and shape["bead"].collision
    assert shape["upper"].rgba == (1, 0, 0, 0.5) and shape["upper"].material == ""
    assert shape["geom_3"].material == "steel" and np.allclose(shape["geom_3"].rgba, (0.1, 0.2, 0.3, 1))
    assert (shape["knob"].priority, shape["knob"].contype, shape["knob"].conaffinity) == (2, 2, 1)
    palm = shape["palm"]
    assert (float(palm.margin), float(palm.gap)) == (0.02, 0.01)
    assert_close(palm.solref, [0.01, 0.5], 0)
    assert_close(palm.solimp, [0.8, 0.9, 0.01, 0.4, 3], 0)
    assert_close(shape["upper"].friction, [0.7, 0.01, 0.002], 0)


def test_inertias_are_the_compilers(both):
    """Inertias of bodies follow from their geoms at MuJoCo's default density.

    The mesh has a given mass, and its inertia is proportional to it.
    """
    model, _ = both
    for name in ("hand", "ball", "wrist", "arm"):
        own = [one for one in model.shapes if one.body == name]
        inertia = sum(np.asarray(one.inertia(_density(one)).parameters) for one in own)
        expected = np.asarray(model.inertias.parameters)[model.body_index(name)]
        assert_close(inertia, expected, 2e-6, name)  # MuJoCo stores meshes in single precision


def _density(shape):
    return 1 / shape.inertia(1.0).mass if isinstance(shape.geometry, shapes.Mesh) else 1000.0


def test_height_field(both):
    """MuJoCo's rays from above hit the same surface, with the same frame and triangulation."""
    model, mj_model = both
    shape, geom = model.named("shape", "geom_1"), mj_model.geom("floor").id + 1
    vertices, faces = shape.geometry.triangles()
    assert_close(vertices[12:, 2], np.full(12, -0.2), 0)
    centers = vertices[faces[:12]].mean(axis=1)
    position = np.asarray(shape.placement.position)
    data = mujoco.MjData(mj_model)
    mujoco.mj_forward(mj_model, data)
    down = np.array([0.0, 0.0, -1.0])
    for point in centers:
        start = position + point * [1, 1, 0] + [0, 0, 10]
        distance = mujoco.mj_rayHfield(mj_model, data, geom, start, down, None)
        assert_close(distance, 10 - point[2], 1e-7)


TOUCHING = '<geom name="a" size=".1"/><body><freejoint/><geom name="b" size=".1"/></body>'
CONTACTS = {
    "floor": (TOUCHING, "", True),
    "bits": (TOUCHING.replace('"a"', '"a" contype="2" conaffinity="4"'), "", False),
    "one bit": (TOUCHING.replace('"a"', '"a" contype="0"'), "", True),
    "switched off": (TOUCHING, '<option><flag contact="disable"/></option>', False),
    "welded": (TOUCHING.replace("<freejoint/>", ""), "", False),
    "parent": ('<body name="a"><joint/><geom size=".1"/><body name="b"><joint/><geom size=".1"/></body></body>', "", False),
    "no filter": ('<body><joint/><geom size=".1"/><body><joint/><geom size=".1"/></body></body>',
                  '<option><flag filterparent="disable"/></option>', True),
    "excluded": (TOUCHING.replace("<body>", '<body name="c">'), '<contact><exclude body1="world" body2="c"/></contact>', False),
    "pair": (TOUCHING.replace('size', 'contype="0" conaffinity="0" size'),
             '<contact><pair geom1="a" geom2="b"/></contact>', True),
}  # fmt: skip


@pytest.mark.parametrize("case", CONTACTS)
def test_contacts_are_told_without_a_warning(case):
    """Only files that allow contacts have them; then the model has a contact model unless `contact=False`."""
    world, rest, touch = CONTACTS[case]
    text = f"<mujoco>{rest}<worldbody>{world}</worldbody></mujoco>"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = rbd.load_mjcf(text, strict=True, contact=False)
    assert model.unsupported == (("contacts between shapes",) if touch else ())
    if case == "pair":
        assert model.shapes[0].collision
    with_law = rbd.load_mjcf(text, strict=True)
    assert with_law.unsupported == () and model.attached_as("contact law") == ()
    assert len(with_law.attached_as("contact law")) == touch
    assert not touch or len(rbd.contacts(with_law, with_law.reference).shapes) == 1


def test_mesh_keeps_its_file(tmp_path: Path):
    (tmp_path / "part.obj").write_text(
        "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
    )
    path = tmp_path / "robot.xml"
    path.write_text(
        '<mujoco><asset><mesh file="part.obj"/></asset><worldbody><body><freejoint/><geom type="mesh" mesh="part" contype="1"/>'
        '<geom type="mesh" mesh="part" pos="1 0 0" mass="0"/></body></worldbody></mujoco>'
    )
    first, second = (shape.geometry for shape in rbd.load_mjcf(path).shapes)
    assert first.file.endswith("part.obj") and first.source is second.source
    assert_close(first.inertia(6.0).mass, 1.0, 1e-6)


def test_written_and_read_again(both):
    """All properties of a shape round-trip through a file; height fields and meshes have MuJoCo's single precision."""
    model, _ = both
    again = rbd.load_mjcf(rbd.to_mjcf(model))
    assert len(again.shapes) == len(model.shapes)
    for ours, back in zip(model.shapes, again.shapes):
        hills = isinstance(ours.geometry, (shapes.HeightField, shapes.Mesh))
        words = ("name", "body", "visual", "collision", "group", "rgba", "material")
        for word in (*words, "contype", "conaffinity", "condim", "priority"):
            if word not in ("contype", "conaffinity") or ours.collision:
                assert getattr(ours, word) == getattr(back, word), (ours, word)
        for word in ("margin", "gap", "friction", "solref", "solimp"):
            assert_close(getattr(back, word), getattr(ours, word), 1e-15)
        assert_close(_points(back), _points(ours), 1e-6 if hills else 1e-14, ours.name)


def _points(shape):
    """Returns the sorted vertices in the body's frame."""
    return np.sort(
        np.asarray(jax.vmap(shape.placement.point)(jnp.asarray(shape.geometry.triangles()[0], float))), axis=0
    )


def test_the_bounds_on_contacts_that_mjx_reads():
    bound = '<custom><numeric name="max_contact_points" data="6"/><numeric name="max_geom_pairs" data="9"/></custom>'
    world = '<geom type="plane" size="1 1 1"/><body><freejoint/><geom size="1"/></body>'
    text = f"<mujoco>{bound}<worldbody>{world}</worldbody></mujoco>"
    (law,) = rbd.load_mjcf(text).attached_as("contact law")
    assert (law.most, law.pairs) == (6, 9)
    model = rbd.attach(rbd.load_mjcf(text, contact=False), rbd.contact.Soft(most=7, pairs=3))
    (law,) = rbd.load_mjcf(text.replace(bound, "")).attached_as("contact law")
    assert law.most is law.pairs is None
    plain = rbd.attach(
        rbd.load_mjcf(text.replace(bound, ""), contact=False), rbd.contact.Soft(most=7, pairs=3)
    )
    written = rbd.to_mjcf(plain)
    assert rbd.to_mjcf(model).count("max_contact_points") == written.count("max_contact_points") == 1
    for one in (written, rbd.to_mjcf(model)):
        (law,) = rbd.load_mjcf(one).attached_as("contact law")
        assert (law.most, law.pairs) == (7, 3)
