"""Range finders: comparison with MuJoCo, ignored shapes, and model edits."""

import re
import warnings
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import assert_close

import rbd_jax as rbd
from rbd_jax.sensors import RangeFinder
from rbd_jax.shapes import Plane, Sphere


mujoco = pytest.importorskip("mujoco")

XML = """<mujoco><option><flag contact="disable"/></option>
<asset><material name="glass" rgba="1 1 1 0"/><material name="steel" rgba="1 1 1 1"/>
<mesh name="wedge" vertex="0 0 0 1 0 0 0 2 0 0 0 3" scale=".3 .2 .2"/></asset>
<worldbody><geom name="floor" type="plane" size="0 0 .1" pos="0 0 -1"/><geom type="box" size=".1 2 2" pos="2 0 0"/>
<geom name="sky" type="plane" size="3 3 .1" pos="0 0 3" euler="180 0 0"/><geom type="cylinder" size=".3 1" pos="0 2 0"/>
<geom name="pane" type="box" size=".1 2 2" pos="1.5 0 0" rgba="1 0 0 0"/><geom type="mesh" mesh="wedge" pos="0 -1 .2"/>
<site name="eye" pos=".1 .1 2.5" euler="180 0 0"/>
<body name="arm" pos="0 0 .3"><joint name="turn" axis="0 .6 .8"/><geom type="capsule" fromto="0 0 0 .3 .4 .5" size=".1"/>
  <geom type="sphere" size=".4" pos="-.3 0 .6" material="glass" rgba=".1 .2 .3 1"/><site name="a" pos=".1 0 0" euler="0 60 0"/>
  <geom type="sphere" size=".1" pos="-1 0 .6" material="steel" rgba=".1 .2 .3 0"/>
  <body name="wrist" pos="0 0 .4" euler="0 0 40"><geom type="ellipsoid" size=".1 .2 .3"/><site name="b" euler="90 0 0"/>
    <body name="hand" pos="0 .2 .4"><joint name="bend" axis="1 0 0"/><geom type="box" size=".1 .1 .2"/>
      <site name="c" euler="170 0 0"/><site name="d" euler="0 90 0"/><site name="e" euler="0 -90 0"/></body></body></body>
</worldbody><sensor><rangefinder site="a"/><rangefinder name="b" site="b"/><rangefinder site="c"/><rangefinder site="d"/>
<rangefinder site="e"/><rangefinder site="eye"/><rangefinder name="short" site="c" cutoff=".8"/></sensor></mujoco>"""


@pytest.fixture(scope="module")
def both():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = rbd.load_mjcf(XML)
    mj_model = mujoco.MjModel.from_xml_string(XML)
    q = np.random.default_rng(0).uniform(-3, 3, (60, 2))
    data, rows = mujoco.MjData(mj_model), []
    for qpos in q:
        data.qpos[:] = qpos
        mujoco.mj_forward(mj_model, data)
        rows.append(data.sensordata.copy())
    return model, q, np.array(rows)


@jax.jit
def sensed(model, q):
    return jax.vmap(lambda q: rbd.sense(model, rbd.State(q, jnp.zeros(model.nv))).vector)(q)


def test_as_mujoco_reads_them(both):
    """In 60 states: the sensor's own body and transparent shapes are ignored, also with fused welds and new names."""
    model, q, expected = both
    assert (
        set(model.unsupported) <= {"limits of joints", "contacts between shapes"} and len(model.sensors) == 7
    )
    assert ((expected == -1).sum(axis=0)[:5] > 3).all() and ((expected > 0).sum(axis=0) > 3).all()
    assert len(np.unique(expected.round(3), axis=0)) > 50
    assert_close(sensed(model, q), expected, 1e-6)  # MuJoCo's mesh is in single precision
    near = [name for name in model.named("sensor", "b").ignored]
    assert near == ["pane", "geom_7", "geom_9"]
    fused = rbd.fuse_fixed(model)
    assert "wrist" not in fused.body_names
    renamed = rbd.rename(fused, attached={("shape", "pane"): "window", ("site", "b"): "there"})
    assert renamed.named("sensor", "b").ignored[0] == "window"
    assert_close(sensed(renamed, q), expected, 1e-6)


def test_without_the_mesh_it_is_exact(both):
    _, q, _ = both
    text = re.sub(r'<geom type="mesh".*?/>', "", XML)
    model, mj_model = rbd.load_mjcf(text), mujoco.MjModel.from_xml_string(text)
    data, ours = mujoco.MjData(mj_model), np.asarray(sensed(model, q))
    for qpos, row in zip(q, ours):
        data.qpos[:] = qpos
        mujoco.mj_forward(mj_model, data)
        assert_close(row, data.sensordata, 1e-10)


def test_what_it_looks_through_by_default():
    """It ignores the shapes of its own body, which is therefore not fused; a list overrides this."""
    builder = rbd.ModelBuilder()
    builder.add_body("arm", joint=rbd.joints.Revolute((0, 1, 0)), inertia=rbd.Inertia.sphere(1.0, 0.1))
    builder.add_body("head", "arm", joint=rbd.joints.Fixed(), inertia=rbd.Inertia.sphere(1.0, 0.1))
    model = rbd.attach(
        builder.build(),
        rbd.Site("eye", "head", (0, 0, 1)),
        rbd.Shape("nose", "head", Sphere(0.1), (0, 0, 2)),
        rbd.Shape("hat", "arm", Sphere(0.1), (0, 0, 3)),
        rbd.Shape("wall", "world", Sphere(0.1), (0, 0, 4)),
        RangeFinder("default", "eye"),
        RangeFinder("all", "eye", ignored=()),
        RangeFinder("few", "eye", ignored=["nose", "hat"]),
    )
    state = rbd.State(np.zeros(1), np.zeros(1))
    assert_close(rbd.sense(model, state).vector, [1.9, 0.9, 2.9], 1e-12)
    fused = rbd.fuse_fixed(model)
    assert fused.body_names == ("arm", "head")
    assert_close(rbd.sense(fused, state).vector, [1.9, 0.9, 2.9], 1e-12)
    with pytest.raises(rbd.ModelError, match="there is no shape 'hut'"):
        rbd.attach(model, RangeFinder("x", "eye", ignored=["hut"]))


def test_gradient():
    """The gradient of a height above the floor with respect to the angle; zero for rays without a hit."""
    turned = rbd.Transform(jax.device_put(np.diag([1.0, -1.0, -1.0])), jax.device_put(np.zeros(3)))
    model = rbd.attach(
        replace(rbd.load("double_pendulum"), attached=()),
        rbd.Shape("floor", "world", Plane(), (0, 0, -3)),
        RangeFinder("down", rbd.sensors.OnBody("lower", turned)),
    )
    read = lambda q: rbd.sense(model, rbd.State(q, jnp.zeros(2)))["down"]
    q, up, step = np.array([0.3, 0.4]), np.array([0.0, 3.0]), 1e-6
    points = np.stack([q, up, *(q + step * np.eye(2)), *(q - step * np.eye(2))])
    values, slopes = map(np.asarray, jax.jit(jax.vmap(jax.value_and_grad(read)))(points))
    assert_close(values[0], (3 - np.cos(0.3)) / np.cos(0.7), 1e-12)
    assert_close(slopes[0], (values[2:4] - values[4:]) / (2 * step), 1e-8)
    assert values[1] == -1 and not slopes[1].any()


def test_written_to_mjcf(both):
    """The exported sensor reads the same; a list of ignored shapes cannot be exported, which raises an error."""
    _, q, _ = both
    # MuJoCo uses the opacity of materials instead of the geom's.
    text = re.sub(r'<geom [^>]*material="\w+"[^>]*>', "", XML)
    model = rbd.load_mjcf(text)
    again = rbd.load_mjcf(rbd.to_mjcf(model))
    assert [one.name for one in again.sensors] == [one.name for one in model.sensors]
    assert_close(sensed(again, q), sensed(model, q), 1e-6)
    more = rbd.attach(model, RangeFinder("more", "a", ignored=["floor"]))
    with pytest.raises(rbd.ModelError, match="sensors 'more'"):
        rbd.to_mjcf(more, strict=True)
