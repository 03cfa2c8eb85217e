"""The MJCF loader: names, frames and coordinates are MuJoCo's; unsupported elements are named."""

import builtins
import warnings

import equinox as eqx
import jax
import numpy as np
import pytest

import rbd_jax as rbd
from rbd_jax import constraints as rc
from rbd_jax.files.mjcf import body_names, load_mjcf
from rbd_jax.interop import MujocoMap


mujoco = pytest.importorskip("mujoco")

BALL = '<geom type="ellipsoid" size=".1 .2 .3" pos=".05 .02 .1"/>'
#: Joints in series, offset anchors, reference positions, welds, degrees, and missing or duplicate names.
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
    <body pos=".2 0 .4" euler="0 50 0">{BALL}<site name="inside" pos=".1 0 .2" euler="40 10 0"/>
      <body name="body_2" pos="0 0 .2"><joint type="ball" pos="0 .1 0"/>{BALL}</body></body>
    <body name="rod" pos="0 .3 0"><joint axis="0 0 1" stiffness="3" springref="20" frictionloss=".5"/>
      {BALL}</body>
    <body name="post" pos="0 .3 .1">{BALL}<body name="knob" pos="0 0 1"><joint name="knob:x" type="slide"/>
      <joint name="z" type="ball" pos="1 0 0" stiffness="2"/>{BALL}</body></body>
  </body>
  <body name="rock" pos="3 0 0"><freejoint/>{BALL}<site name="tip" pos="0 .1 .3" euler="0 20 30"/></body>
</worldbody></mujoco>
"""

#: Every form of each supported type: one or two bodies, either of them the world; sites; the pose given, or that of `qpos0`;
#: one or two joints. Then constraints without effect: inactive ones, and those on bodies that cannot move.
EQUALITIES = """
<connect body1="base" body2="rock" anchor=".1 .2 .3"/>
<connect body1="knob" anchor=".3 -.1 .2"/>
<connect site1="tip" site2="inside"/>
<weld body1="body_2" body2="rod"/>
<weld body1="world" body2="rock" anchor=".3 .2 .1"/>
<weld body1="rod" body2="post" anchor=".3 .2 .1" relpose="1 .2 -.3 .5 .5 .5 .6"/>
<weld site1="inside" site2="tip"/>
<joint joint1="x" joint2="turn" polycoef=".1 .2 .3 -.4 .5"/>
<joint joint1="knob:x" joint2="y" polycoef="0 -2 0 0 0"/>
<joint joint1="turn" polycoef=".1 .2 .3 .4 .5"/>
<tendon tendon1="sum" tendon2="difference" polycoef=".1 .3 0 0 0"/>
<tendon tendon1="sum" tendon2="one" polycoef=".1 .3 -.2 0 .4"/>
<tendon tendon1="difference" polycoef=".2 0 0 0 0"/>
<weld body1="rock" body2="rod" active="false"/>
<connect body1="base" body2="post" anchor="0 0 1"/>
"""
#: Lengths that are sums of coordinates.
SUMS = """
<fixed name="sum"><joint joint="x" coef="1.5"/><joint joint="turn" coef="-2"/></fixed>
<fixed name="difference"><joint joint="x" coef="1"/><joint joint="y" coef="-.7"/></fixed>
<fixed name="one"><joint joint="y" coef="1.2"/></fixed>
"""
TIED = XML.replace("</mujoco>", f"<tendon>{SUMS}</tendon><equality>{EQUALITIES}</equality></mujoco>")


@pytest.fixture(scope="module")
def odd():
    """The loaded model, without warnings, and MuJoCo's."""
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
    # Joints keep their names; a weld has the name of its body, if that is unused.
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
    """Positions of the bodies at equal `qpos`, and accelerations with passive forces, agree."""
    model, mj_model = odd
    there = MujocoMap(model, mj_model)
    random = np.random.default_rng(0)
    q, v, tau = random.normal(size=model.nq), *random.normal(size=(2, model.nv))
    np.testing.assert_array_equal(jax.jit(there.configuration)(q), q)
    smooth = eqx.tree_at(lambda m: m.friction, model, np.zeros(model.friction.shape))

    @jax.jit
    def ours(q, v, tau):
        a = rbd.forward_dynamics(model, q, v, tau + rbd.passive_force(smooth, q, v))
        qacc = there.acceleration(q, v, a)
        return rbd.forward_kinematics(model, q), there.velocity(q, v), there.force(q, tau), qacc

    placed, qvel, qfrc, qacc = jax.device_get(ours(q, v, tau))
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
    names = "damping", "armature", "lower", "upper", "stiffness", "friction", "spring_reference"
    damping, armature, lower, upper, stiffness, friction, reference = (
        np.asarray(getattr(model, name)) for name in names
    )
    free = model.v_slice("joint_8")
    assert not damping[free].any() and not armature[free].any()  # a <freejoint> ignores defaults
    others = np.delete(np.arange(model.nv), np.arange(free.start, free.stop))
    np.testing.assert_allclose(armature[others], 0.1)
    np.testing.assert_allclose(damping[others], 0.2)
    limited = model.q_slice("base")
    np.testing.assert_allclose([lower[limited], upper[limited]], np.deg2rad([[-90], [45]]))
    assert np.isinf(np.delete(lower, limited.start)).all()
    rod = model.v_slice("joint_5")
    assert stiffness[rod] == 3 and friction[rod] == 0.5
    np.testing.assert_allclose(reference[model.q_slice("joint_5")], np.deg2rad(20))
    np.testing.assert_allclose(stiffness[model.v_slice("z")], 2)


def test_masses(odd):
    model, mj_model = odd
    order = [model.body_index(name) for name in body_names(mj_model)[1:]]
    np.testing.assert_allclose(np.asarray(model.inertias.mass)[order], mj_model.body_mass[1:])
    np.testing.assert_allclose(np.asarray(model.inertias.mass).sum(), mj_model.body_mass[1:].sum())


def test_equalities_are_constraints():
    """Residuals and rows match MuJoCo's, for satisfied and violated constraints.

    MuJoCo's deviations are of the first end relative to the second, ours the other way round. The rotation of a weld is the
    vector part of a quaternion in MuJoCo, of either sign, and a rotation vector here: different rows with the same span.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = load_mjcf(TIED, equalities="hard")
    labels = [constraint.label for constraint in model.constraints]
    assert labels == [
        "Connect('base', 'rock')",
        "Connect('knob', 'world')",
        "Connect('rock', 'body_2_')",
        "Weld('body_2', 'rod')",
        "Weld('world', 'rock')",
        "Weld('rod', 'post')",
        "Weld('body_2_', 'rock')",
        "CoordinateCoupling('x', 'turn')",
        "CoordinateCoupling('knob:x', 'y')",
        "CoordinateCoupling('turn')",
        "CoordinateCoupling('x', 'turn', 'y')",
        "CoordinateCoupling('x', 'turn', 'y')",
        "CoordinateCoupling('x', 'y')",
    ]
    mj_model = mujoco.MjModel.from_xml_string(TIED)
    mj_model.opt.jacobian = mujoco.mjtJacobian.mjJAC_DENSE
    mj_model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    there = MujocoMap(model, mj_model)
    states = np.stack([mj_model.qpos0, np.random.default_rng(1).normal(size=model.nq)])

    @jax.jit
    @jax.vmap
    def ours(q):
        return rbd.constraint_residual(model, q), rbd.constraint_jacobian(model, q), there.velocity_matrix(q)

    data = mujoco.MjData(mj_model)
    for q, *results in zip(states, *map(np.asarray, ours(states))):
        residual, jacobian, T = results
        data.qpos[:] = q
        mujoco.mj_fwdPosition(mj_model, data)
        of = np.where(data.efc_type == mujoco.mjtConstraint.mjCNSTR_EQUALITY, data.efc_id, -1)
        slopes = data.efc_J.reshape(-1, mj_model.nv) @ T
        np.testing.assert_allclose(slopes[of == 14], 0, atol=1e-12)  # bodies welded together
        for i, (constraint, rows) in enumerate(
            zip(model.constraints, rc.constraint_rows(model), strict=True)
        ):
            sign = 1 if constraint.joints else -1
            value, slope = sign * data.efc_pos[of == i], sign * slopes[of == i]
            own, own_slope = residual[rows], jacobian[rows]
            if len(own) == 6:  # MuJoCo's rows start with the position
                sine = np.linalg.norm(value[3:])
                turn = value[3:] * (2 * np.arcsin(sine) / sine if sine > 1e-9 else 2)
                turn *= np.copysign(1, turn @ own[:3])
                np.testing.assert_allclose(own[:3], turn, atol=1e-12, err_msg=constraint.label)
                spans = [np.linalg.pinv(rows, 1e-9) @ rows for rows in (own_slope[:3], slope[3:])]
                np.testing.assert_allclose(*spans, atol=1e-11, err_msg=constraint.label)
                own, own_slope, value, slope = own[3:], own_slope[3:], value[:3], slope[:3]
            np.testing.assert_allclose(own, value, atol=1e-12, err_msg=constraint.label)
            np.testing.assert_allclose(own_slope, slope, atol=1e-12, err_msg=constraint.label)


@pytest.mark.parametrize(
    "flag, field", [("gravity", "gravity"), ("spring", "stiffness"), ("damper", "damping")]
)
def test_what_the_file_disables(flag, field):
    text = XML.replace("<option gravity", f'<option><flag {flag}="disable"/></option><option gravity')
    assert np.asarray(getattr(load_mjcf(XML), field)).any()
    assert not np.asarray(getattr(load_mjcf(text), field)).any()


@pytest.mark.parametrize("flag", ["equality", "constraint"])
def test_equalities_that_the_file_disables(flag):
    text = TIED.replace("<option gravity", f'<option><flag {flag}="disable"/></option><option gravity')
    assert load_mjcf(text, strict=True).constraints == ()


def test_single_precision():
    with jax.enable_x64(False):
        model = load_mjcf(TIED)
        assert {leaf.dtype for leaf in jax.tree.leaves(model)} == {np.dtype(np.float32)}


LEFT_OUT = {
    "equality constraints (tendon) 'tie', 'equality_1'": (
        "</mujoco>",
        '<tendon><spatial name="rope"><site site="here"/><site site="there"/></spatial></tendon>'
        '<equality><tendon name="tie" tendon1="rope"/><tendon tendon1="rope"/></equality></mujoco>',
    ),
    **{
        f"{what} of tendons 'rope'": (
            "</mujoco>",
            f'<tendon><fixed name="rope" {given}><joint joint="a" coef="1"/></fixed></tendon></mujoco>',
        )
        for what, given in (
            ("dry friction", 'frictionloss="1"'),
            ("limits", 'limited="true" range="0 1"'),
            ("armature", 'armature="1"'),
        )
    },
    "gravity compensation counted as actuator force, of joints 'b'": (
        'name="two" pos="1 0 0">\n<joint name="b"',
        'name="two" pos="1 0 0" gravcomp="1"><joint name="b" actuatorgravcomp="true"',
    ),
    "limits of actuator forces on joints 'b'": (
        'name="b"',
        'name="b" actuatorfrcrange="-1 2"',
    ),
    "actuators (body) 'grip'": (
        "</mujoco>",
        '<actuator><adhesion name="grip" body="one" ctrlrange="0 1"/></actuator></mujoco>',
    ),
    "springs at free joints 'f'": ('name="f" type="free"', 'name="f" type="free" stiffness="1"'),
    "Coriolis forces of the armature of free joints 'f'": (
        'name="f" type="free"',
        'name="f" type="free" armature="1"',
    ),
    "motion of mocap bodies 'ghost'": ("</worldbody>", '<body name="ghost" mocap="true"/></worldbody>'),
}
PLAIN = f"""<mujoco><worldbody><body name="one"><joint name="a"/>{BALL}<site name="here"/></body><body name="two" pos="1 0 0">
<joint name="b"/>{BALL}<site name="there"/></body>
<body name="three"><joint name="f" type="free"/>{BALL}</body></worldbody></mujoco>"""


@pytest.mark.parametrize("what", LEFT_OUT)
def test_what_is_left_out(what):
    text = PLAIN.replace(*LEFT_OUT[what])
    with pytest.warns(rbd.ModelWarning) as caught:
        load_mjcf(text, contact=False)
    assert len(caught) == 1 and what in str(caught[0].message)
    with pytest.raises(rbd.ModelError, match="Remove them, or load with strict=False"):
        load_mjcf(text, strict=True, contact=False)


def test_stops_are_told():
    """Without a contact model, joint limits are reported as unsupported, without a warning because they rarely act.

    With a contact model they are enforced.
    """
    limited = PLAIN.replace('name="a"', 'name="a" limited="true" range="-1 1"')
    for text, said in ((PLAIN, False), (limited, True)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = load_mjcf(text, contact=False)
            assert ("limits of joints" in model.unsupported) == said
            law = load_mjcf(text)
            assert law.unsupported == () and law.attached_as("contact law")


def test_nothing_left_out():
    """Tendons without force and inactive equalities cause no warning."""
    tendon = '<tendon><fixed name="rope"><joint joint="a" coef="1"/></fixed></tendon>'
    actuator = '<actuator><motor tendon="rope"/></actuator>'
    off = '<equality><joint joint1="a" joint2="b" active="false"/></equality>'
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_mjcf(PLAIN.replace("</mujoco>", f"{tendon}{actuator}{off}</mujoco>"), strict=True)


def test_mocap_bodies_are_tied_where_they_stand():
    """Mocap bodies are tied at their poses to moving bodies. MuJoCo omits rows for ties between static bodies, too."""
    bodies = f'<body name="ghost" mocap="true" pos="0 0 1"/><body name="post">{BALL}</body></worldbody>'
    ties = '<equality><weld body1="post" body2="ghost"/><weld body1="ghost" body2="one"/></equality></mujoco>'
    with pytest.warns(rbd.ModelWarning, match="motion of mocap bodies 'ghost'"):
        model = load_mjcf(PLAIN.replace("</worldbody>", bodies).replace("</mujoco>", ties))
    assert [one.bodies for one in model.attached_as("soft equality")] == [("ghost", "one")]


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
    with pytest.raises(rbd.ModelError, match="load_sdf"):
        load_mjcf("<sdf/>")
    with pytest.raises(rbd.ModelError, match="<world>: an MJCF"):
        load_mjcf("<world/>")
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
