"""The MJCF loader: names, frames, coordinates are MuJoCo's; what is left out is named."""

import builtins
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd
from rbd_jax.interop import MujocoMap
from rbd_jax.model.mjcf import body_names, load_mjcf


mujoco = pytest.importorskip("mujoco")

BALL = '<geom type="ellipsoid" size=".1 .2 .3" pos=".05 .02 .1"/>'
#: Joints in series, anchors off the origin, reference positions, welds, degrees, and names missing or taken.
XML = f"""
<mujoco model="odd"><compiler angle="degree"/><option gravity="1 2 -9"/>
<default><joint armature=".1" damping=".2"/></default>
<worldbody><geom size="1 1 .1" type="plane"/>
  <body name="base" pos="1 2 3" euler="10 20 30">
    <joint name="x" type="slide" axis="1 0 0" ref=".3"/>
    <joint name="turn" axis="0 1 1" pos=".1 .2 .3" ref="40"/>
    <joint name="y" type="slide" axis="0 1 0" ref="-.2"/>
    <joint name="base" axis="1 0 0" pos="0 .2 0" range="-90 45" limited="true"/>
    {BALL}
    <body pos=".2 0 .4" euler="0 50 0">{BALL}
      <body name="body_2" pos="0 0 .2"><joint type="ball" pos="0 .1 0"/>{BALL}</body></body>
    <body name="rod" pos="0 .3 0"><joint axis="0 0 1" stiffness="3" springref="20" frictionloss=".5"/>
      {BALL}</body>
    <body name="post" pos="0 .3 .1">{BALL}<body name="knob" pos="0 0 1"><joint name="knob:x" type="slide"/>
      <joint name="z" type="ball" pos="1 0 0" stiffness="2"/>{BALL}</body></body>
  </body>
  <body name="rock" pos="3 0 0"><freejoint/>{BALL}</body>
</worldbody></mujoco>
"""


@pytest.fixture(scope="module")
def odd():
    """The model as it is loaded, without a warning, and MuJoCo's."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return load_mjcf(XML), mujoco.MjModel.from_xml_string(XML)


def test_names(odd):
    model, _ = odd
    assert model.name == "odd"
    bodies = (
        "base:x",
        "base:turn",
        "base:y",
        "base:base",
        "base",
        "body_2_",
        "body_2:joint_4",
        "body_2",
        "rod",
        "post",
    )
    assert model.body_names == (*bodies, "knob:knob:x", "knob:z", "knob", "rock")
    # Joints keep their names; a weld is called like its body, if that is free.
    joints = (
        "x",
        "turn",
        "y",
        "base",
        "base_",
        "body_2_",
        "joint_4",
        "body_2",
        "joint_5",
        "post",
        "knob:x",
        "z",
        "knob",
    )
    assert model.joint_names == (*joints, "joint_8")
    assert (model.nq, model.nv) == (4 + 4 + 1 + 1 + 4 + 7, 4 + 3 + 1 + 1 + 3 + 6)
    assert isinstance(model.joint("z"), rbd.joints.Spherical) and isinstance(
        model.joint("base_"), rbd.joints.Fixed
    )


def test_frames_and_dynamics_are_mujocos(odd):
    """Positions of the bodies at the same numbers of `qpos`, and accelerations with passive forces."""
    model, mj_model = odd
    there = MujocoMap(model, mj_model)
    random = np.random.default_rng(0)
    q, v, tau = random.normal(size=model.nq), *random.normal(size=(2, model.nv))
    np.testing.assert_array_equal(there.configuration(q), q)
    smooth = eqx.tree_at(lambda m: m.friction, model, jnp.zeros_like(model.friction))

    @jax.jit
    def ours(q, v, tau):
        a = rbd.forward_dynamics(model, q, v, tau + rbd.passive_force(smooth, q, v))
        qacc = there.acceleration(q, v, a)
        return rbd.forward_kinematics(model, q), there.velocity(q, v), there.force(q, tau), qacc

    placed, qvel, qfrc, qacc = ours(q, v, tau)
    mj_model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    data = mujoco.MjData(mj_model)
    data.qpos[:], data.qvel[:], data.qfrc_applied[:] = q, qvel, qfrc
    mujoco.mj_forward(mj_model, data)
    order = np.array([model.body_index(name) for name in body_names(mj_model)[1:]])
    np.testing.assert_allclose(placed.position[order], data.xpos[1:], atol=1e-12)
    np.testing.assert_allclose(placed.rotation[order], data.xmat[1:].reshape(-1, 3, 3), atol=1e-12)
    np.testing.assert_allclose(qacc, data.qacc, rtol=1e-9, atol=1e-9)


def test_what_acts_along_the_joints(odd):
    model, _ = odd
    np.testing.assert_array_equal(model.gravity, [1, 2, -9])
    free = model.v_slice("joint_8")
    assert not model.damping[free].any() and not model.armature[free].any()  # a <freejoint> has no defaults
    others = np.delete(np.arange(model.nv), np.arange(free.start, free.stop))
    np.testing.assert_allclose(model.armature[others], 0.1)
    np.testing.assert_allclose(model.damping[others], 0.2)
    limited = model.q_slice("base")
    np.testing.assert_allclose([model.lower[limited], model.upper[limited]], np.deg2rad([[-90], [45]]))
    assert np.isinf(np.delete(model.lower, limited.start)).all()
    rod = model.v_slice("joint_5")
    assert model.stiffness[rod] == 3 and model.friction[rod] == 0.5
    np.testing.assert_allclose(model.spring_reference[model.q_slice("joint_5")], np.deg2rad(20))
    np.testing.assert_allclose(model.stiffness[model.v_slice("z")], 2)


def test_masses(odd):
    model, mj_model = odd
    order = [model.body_index(name) for name in body_names(mj_model)[1:]]
    np.testing.assert_allclose(np.asarray(model.inertias.mass)[order], mj_model.body_mass[1:])
    np.testing.assert_allclose(np.sum(model.inertias.mass), mj_model.body_mass[1:].sum())


@pytest.mark.parametrize(
    "flag, field", [("gravity", "gravity"), ("spring", "stiffness"), ("damper", "damping")]
)
def test_what_the_file_disables(flag, field):
    text = XML.replace("<option gravity", f'<option><flag {flag}="disable"/></option><option gravity')
    assert getattr(load_mjcf(XML), field).any()
    assert not getattr(load_mjcf(text), field).any()


def test_single_precision():
    with jax.enable_x64(False):
        model = load_mjcf(XML)
        assert {leaf.dtype for leaf in jax.tree.leaves(model)} == {np.dtype(np.float32)}


LEFT_OUT = {
    "equality constraints (joint) 'couple'": (
        "</mujoco>",
        '<equality><joint name="couple" joint1="a" joint2="b"/></equality></mujoco>',
    ),
    "equality constraints (weld) 'equality_0'": (
        "</mujoco>",
        '<equality><weld body1="one" body2="two"/></equality></mujoco>',
    ),
    "forces of tendons 'rope'": (
        "</mujoco>",
        '<tendon><fixed name="rope" stiffness="1"><joint joint="a" coef="1"/></fixed></tendon></mujoco>',
    ),
    "gravity compensation of bodies 'two'": ('name="two"', 'name="two" gravcomp="1"'),
    "springs at free joints 'f'": ('name="f" type="free"', 'name="f" type="free" stiffness="1"'),
    "a fluid (density 1.2, viscosity 0)": ("<worldbody>", '<option density="1.2"/><worldbody>'),
    "motion of mocap bodies 'ghost'": ("</worldbody>", '<body name="ghost" mocap="true"/></worldbody>'),
}
PLAIN = f"""<mujoco><worldbody><body name="one"><joint name="a"/>{BALL}</body><body name="two" pos="1 0 0">
<joint name="b"/>{BALL}</body>
<body name="three"><joint name="f" type="free"/>{BALL}</body></worldbody></mujoco>"""


@pytest.mark.parametrize("what", LEFT_OUT)
def test_what_is_left_out(what):
    text = PLAIN.replace(*LEFT_OUT[what])
    with pytest.warns(rbd.ModelWarning) as caught:
        load_mjcf(text)
    assert len(caught) == 1 and what in str(caught[0].message)
    with pytest.raises(rbd.ModelError, match="Remove it, or load with strict=False"):
        load_mjcf(text, strict=True)


def test_nothing_left_out():
    """Tendons without force and equalities that are switched off say nothing."""
    tendon = '<tendon><fixed name="rope"><joint joint="a" coef="1"/></fixed></tendon>'
    actuator = '<actuator><motor tendon="rope"/></actuator>'
    off = '<equality><joint joint1="a" joint2="b" active="false"/></equality>'
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_mjcf(PLAIN.replace("</mujoco>", f"{tendon}{actuator}{off}</mujoco>"), strict=True)


def test_files(tmp_path):
    (tmp_path / "part.xml").write_text(
        f'<mujocoinclude><body name="part"><joint name="j"/>{BALL}</body></mujocoinclude>'
    )
    whole = tmp_path / "whole.xml"
    whole.write_text('<!-- <robot> --><mujoco><worldbody><include file="part.xml"/></worldbody></mujoco>')
    for path in (whole, str(whole)):
        assert load_mjcf(path).body_names == ("part",)


def test_refusals(tmp_path):
    missing = tmp_path / "missing.xml"
    with pytest.raises(rbd.ModelError, match="missing.xml: there is no such file"):
        load_mjcf(missing)
    with pytest.raises(rbd.ModelError, match="directory"):
        load_mjcf(tmp_path)
    with pytest.raises(rbd.ModelError, match="load_urdf"):
        load_mjcf('<?xml version="1.0"?><!-- <mujoco> --><robot name="r"/>')
    with pytest.raises(rbd.ModelError, match="<sdf>: an MJCF"):
        load_mjcf("<sdf/>")
    with pytest.raises(rbd.ModelError, match="MuJoCo does not accept it.*unrecognized"):
        load_mjcf("<mujoco><worldbody><body><wheel/></body></worldbody></mujoco>")
    with pytest.raises(rbd.ModelError, match="MuJoCo does not accept it.*mass and inertia"):
        load_mjcf("<mujoco><worldbody><body><joint/></body></worldbody></mujoco>")


def test_without_mujoco(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "mujoco":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install 'rbd_jax\[mjcf\]'"):
        load_mjcf(XML)
