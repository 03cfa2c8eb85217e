"""Models written as URDF and MJCF and read again are the same mechanism; unsupported features are reported."""

import re
import warnings
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from round_trips import (
    MJCF,
    URDF,
    assert_same_mechanism,
    assert_same_model,
    coordinates,
    inertia,
    placement,
    quietly,
    tree,
)
from support import assert_close

import rbd_jax as rbd
from rbd_jax import constraints as rc, joints
from rbd_jax.files.placement import quaternion
from rbd_jax.files.writing.numerals import angles, text
from rbd_jax.interop import MujocoMap, PinocchioMap


WRITERS = {"urdf": (rbd.to_urdf, rbd.load_urdf), "mjcf": (rbd.to_mjcf, rbd.load_mjcf)}
LIMITED = {
    "lower": lambda random: -random.uniform(1, 2),
    "upper": lambda random: random.uniform(1, 2),
    "effort_limit": lambda random: random.uniform(1, 9),
    "damping": lambda random: random.uniform(),
    "friction": lambda random: random.uniform(),
}
INERT = LIMITED | {
    "armature": lambda random: random.uniform(),
    "stiffness": lambda random: random.uniform(),
    "spring_reference": lambda random: random.normal(),
    "reference": lambda random: random.normal(),
}


def robot(families, seed, format) -> rbd.Model:
    """Returns revolute, prismatic and cylindrical joints with all joint terms, in MJCF on a floating body."""
    flat = {name: families[name] for name in ("revolute", "fixed", "prismatic", "cylindrical")}
    along = LIMITED | {"velocity_limit": lambda random: random.uniform(1, 9)} if format == "urdf" else INERT
    model = tree(flat, seed, free=format == "mjcf", **along)
    return eqx.tree_at(lambda m: m.gravity, model, jnp.array([0.5, 0.0, -9.0])) if format == "mjcf" else model


@pytest.mark.slow
@pytest.mark.parametrize("format", WRITERS)
def test_joints_in_series(format):
    """For joints of all families of a format, frames, mass matrix and bias agree, and a second round trip changes nothing."""
    write, read = WRITERS[format]
    names = (
        ("universal", "helical", "tilted", "composite")
        if format == "urdf"
        else ("composite", "telescope", "fixed")
    )
    families = {name: (URDF if format == "urdf" else MJCF)[name] for name in names}
    first = tree(families, 3, free=format == "mjcf")
    second = read(write(first))
    assert_same_mechanism(first, second)
    assert_same_model(second, read(write(second)))


@pytest.mark.parametrize("format", WRITERS)
def test_what_acts_along_joints_comes_back(format):
    write, read = WRITERS[format]
    first = read(write(robot(URDF, 4, format)))
    assert (
        np.isfinite(first.upper).sum() == np.isfinite(first.effort_limit).sum() == 4
        and np.asarray(first.friction).any()
    )
    again = read(write(first))
    assert_same_model(first, again)
    for name in ("lower", "upper", "damping", "friction", "stiffness", "effort_limit", "gravity"):
        np.testing.assert_array_equal(getattr(again, name), getattr(first, name))  # to the bit


@pytest.mark.slow
@pytest.mark.parametrize("format", WRITERS)
@pytest.mark.parametrize("seed", range(4))
def test_all_families(format, seed):
    write, read = WRITERS[format]
    first = tree(URDF if format == "urdf" else MJCF, seed, free=format == "mjcf")
    second = read(write(first))
    assert_same_mechanism(first, second)
    assert_same_model(second, read(write(second)))


def test_free_and_planar_joints_on_bodies_in_mjcf():
    """Equal coordinates give equal placements, and equal velocities equal energies."""
    random = np.random.default_rng(5)
    first = tree({"free": URDF["free"], "planar": URDF["tilted"]}, 5)
    second = rbd.load_mjcf(rbd.to_mjcf(first))
    assert (second.nq, second.nv) == (first.nq, first.nv)
    q, v = random.normal(size=first.nq), random.normal(size=first.nv)
    own, planar = rbd.forward_kinematics(first, q), first.q_slice("planar")
    turn, (c, s) = (
        first.joint("free").transform(jnp.asarray(q[first.q_slice("free")])).rotation,
        (np.cos(q[planar][0]), np.sin(q[planar][0])),
    )
    q2, v2 = np.zeros(second.nq), np.zeros(second.nv)
    rates = {"free:ball": v[first.v_slice("free")][:3], "planar:angle": v[first.v_slice("planar")][:1]}
    rates |= dict(zip(("free:x", "free:y", "free:z"), np.asarray(turn) @ v[first.v_slice("free")][3:]))
    rates |= dict(zip(("planar:x", "planar:y"), np.array([[c, -s], [s, c]]) @ v[first.v_slice("planar")][1:]))
    places = dict(zip(("free:x", "free:y", "free:z"), q[first.q_slice("free")])) | {
        "free:ball": q[first.q_slice("free")][3:]
    }
    places |= dict(zip(("planar:angle", "planar:x", "planar:y"), q[planar]))
    for name in places:
        q2[second.q_slice(name)], v2[second.v_slice(name)] = places[name], rates[name]
    theirs = rbd.forward_kinematics(second, q2)
    for name in first.body_names:
        i, k = first.body_index(name), second.body_index(name)
        assert_close(theirs.position[k], own.position[i], 1e-12, name)
        assert_close(theirs.rotation[k], own.rotation[i], 1e-12, name)
    np.testing.assert_allclose(
        rbd.kinetic_energy(second, q2, v2), rbd.kinetic_energy(first, q, v), rtol=1e-12
    )


# Mimics, masses, roots.


def follower() -> rbd.Model:
    random = np.random.default_rng(6)
    builder = rbd.ModelBuilder(name="follower")
    lead, follow = joints.Revolute((0, 1, 0)), joints.Prismatic((1, 0, 1))
    builder.add_body("a", "world", lead, placement(random), inertia(random), joint_name="lead", reference=0.3)
    mimic = rbd.Mimic("lead", -2.0, 0.1)
    builder.add_body("b", "a", follow, placement(random), inertia(random), joint_name="follow", mimic=mimic)
    return builder.build()


def test_mimic_joints():
    """URDF has mimic joints. MuJoCo has a coupling, which holds in the corresponding configurations with equal placements."""
    model = follower()
    with pytest.warns(rbd.ModelWarning, match="the neutral configuration of joints 'lead'"):
        content = rbd.to_urdf(model)
    again = rbd.load_urdf(content)
    assert again.nv == 1
    assert_same_mechanism(model, again)
    tied = rbd.load_mjcf(rbd.to_mjcf(model), equalities="hard")
    assert tied.nv == 2 and [one.label for one in tied.constraints] == [
        "CoordinateCoupling('follow', 'lead')"
    ]
    q = np.array([0.7])
    q2 = np.array([0.7, -2 * 0.7 + 0.1])
    np.testing.assert_allclose(rbd.constraint_residual(tied, q2), 0, atol=1e-15)
    ours, theirs = rbd.forward_kinematics(model, q), rbd.forward_kinematics(tied, q2)
    assert_close(theirs.position, ours.position, 1e-12)


@pytest.mark.slow
def test_bodies_without_mass():
    """A massless body between others keeps its frame and has no effect.

    A massless body on a ball joint is welded to the body that rotates.
    """
    random = np.random.default_rng(7)
    builder = rbd.ModelBuilder(name="light")
    builder.add_body("light", "world", joints.Revolute((0, 0, 1)), placement(random))
    builder.add_body("left", "light", joints.Revolute((0, 1, 0)), placement(random), inertia(random))
    builder.add_body("right", "light", joints.Spherical(), placement(random), inertia(random))
    builder.add_body("tip:ball", "left", joints.Spherical(), placement(random), joint_name="ball")
    builder.add_body("tip", "tip:ball", joints.Fixed(), placement(random), inertia(random))
    builder.add_body(
        "point",
        "left",
        joints.Prismatic(),
        placement(random),
        rbd.Inertia.from_mass_com(2.0, jnp.ones(3), jnp.zeros((3, 3))),
    )
    model = builder.build()
    again = rbd.load_mjcf(rbd.to_mjcf(model))
    assert set(again.body_names) == set(model.body_names)
    assert 0 < again.inertias.mass[again.body_index("light")] < 1e-14
    assert again.inertias.mass[again.body_index("tip:ball")] == 0
    assert_same_mechanism(model, again)


def test_inertias_that_no_real_body_has():
    """MuJoCo rejects physically inconsistent inertias. For welded bodies they are written as parts of the moving body."""
    random = np.random.default_rng(7)
    long = rbd.Inertia.from_mass_com(0.1, jnp.zeros(3), 1e-3 * jnp.diag(jnp.array([1.0, 1.0, 3.0])))
    builder = rbd.ModelBuilder(name="unreal")
    builder.add_body("moves", "world", joints.Revolute((0, 0, 1)), placement(random))
    builder.add_body("heavy", "moves", joints.Fixed(), placement(random), inertia(random))
    builder.add_body("sensor", "heavy", joints.Fixed(), placement(random), long)
    builder.add_body("next", "sensor", joints.Revolute((0, 1, 0)), placement(random), inertia(random))
    model = quietly(builder.build)
    again = rbd.load_mjcf(rbd.to_mjcf(model))
    assert again.inertias.mass[again.body_index("moves")] > 0.1
    assert_same_mechanism(model, again)


def test_limits_of_one_number():
    """Ranges of zero width are widened minimally for MuJoCo."""
    builder = rbd.ModelBuilder()
    for name, value in (("a", 0.0), ("b", 0.3)):
        ends = {"lower": value, "upper": value, "effort_limit": 0.0}
        builder.add_body(name, "world", joints.Revolute(), None, rbd.Inertia.sphere(1.0, 0.1), **ends)
    again = rbd.load_mjcf(rbd.to_mjcf(builder.build()))
    np.testing.assert_allclose([again.lower, again.upper], [[0, 0.3]] * 2, rtol=1e-15, atol=1e-300)


def test_several_joints_on_a_body_are_one_body_again():
    mujoco = pytest.importorskip("mujoco")
    text = """<mujoco><worldbody><body name="base" pos="1 2 3" euler="10 20 30">
    <joint name="x" type="slide" axis="1 0 0" ref=".3"/><joint name="turn" axis="0 1 1" pos=".1 .2 .3" ref="40"/>
    <joint name="y" type="slide" axis="0 1 0"/><joint name="ball" type="ball" pos="0 .1 0"/>
    <geom type="box" size=".1 .2 .3" pos=".3 0 0"/></body></worldbody></mujoco>"""
    model = quietly(rbd.load_mjcf, text)
    content = rbd.to_mjcf(model)
    again = mujoco.MjModel.from_xml_string(content)
    assert again.nbody == 2 and again.njnt == 4
    assert_same_model(model, quietly(rbd.load_mjcf, content))


ROOTS = {
    "a fixed base": (lambda: joints.Fixed(), "root_joint", None, False),
    "one that stands elsewhere": (lambda: joints.Fixed(), "root_joint", (0.0, 0.0, 1.0), True),
    "a joint of another name": (lambda: joints.Fixed(), "stand", None, True),
    "one that moves": (lambda: joints.Revolute(), "root_joint", None, True),
    "one that floats": (lambda: joints.Free(), "root_joint", None, True),
}


@pytest.mark.parametrize("make, joint, place, world", ROOTS.values(), ids=ROOTS)
def test_roots_of_urdf(make, joint, place, world):
    builder = rbd.ModelBuilder(name="root")
    builder.add_body("base", "world", make(), place, rbd.Inertia.sphere(1.0, 0.1), joint_name=joint)
    builder.add_body("arm", "base", joints.Revolute((1, 0, 0)), (0.0, 0.0, 1.0), rbd.Inertia.sphere(1.0, 0.1))
    model = builder.build()
    content = rbd.to_urdf(model)
    assert ('<link name="world" />' in content) == world
    assert_same_model(model, rbd.load_urdf(content))


def test_nothing_at_all():
    model = rbd.ModelBuilder(name="nothing").build()
    assert rbd.load_urdf(rbd.to_urdf(model)).nb == 0
    assert rbd.load_mjcf(rbd.to_mjcf(model)).nb == 0


# Attachments and settings.


def equipped() -> rbd.Model:
    random = np.random.default_rng(8)
    settings = rbd.model.Settings(0.004, "implicitfast", {"gain": (1.5, 2), "note": "a <b>"})
    builder = rbd.ModelBuilder((0, 1, -9), "equipped", settings=settings)
    for name, joint in (
        ("a", joints.Free()),
        ("b", joints.Revolute((0, 1, 0))),
        ("c", joints.Prismatic()),
        ("d", joints.Spherical()),
    ):
        at = None if name == "a" else placement(random)
        builder.add_body(
            name, "a" if name in "bd" else "world", joint, at, inertia(random), joint_name=f"j{name}"
        )
    builder.attach(rbd.Site("eye", "b", placement(random)))
    builder.attach(rbd.Site("floor", "world", placement(random)))
    builder.attach(rc.Connect("a", (1, 2, 3), "c", (0.1, 0, 0.3)))
    builder.attach(rc.Weld("world", rbd.Transform.identity(), "d", placement(random)))
    builder.attach(rc.CoordinateCoupling({"jb": (0.1, 1), "jc": (0, 2, -0.3, 0, 0.1)}))
    builder.attach(rc.CoordinateCoupling({"jc": (0.2, 4)}))
    q = {"ja": [1, 2, 3, 0, 0.6, 0.8, 0], "jb": [0.5], "jd": [0.6, 0.8, 0, 0]}
    builder.attach(rbd.Keyframe("home", q, {"ja": [1, 2, 3, 4, 5, 6], "jc": [0.7]}, time=1.5))
    return builder.build()


def test_what_is_attached_comes_back():
    mujoco = pytest.importorskip("mujoco")
    model = equipped()
    content = rbd.to_mjcf(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = rbd.load_mjcf(content, equalities="hard")
    for key in ("timestep", "integrator", "switched_off", "custom"):
        assert getattr(again.settings, key) == getattr(model.settings, key)
    assert again.unsupported == ("softness of equality constraints",)
    np.testing.assert_array_equal(again.gravity, (0, 1, -9))
    assert [site.name for site in again.sites if ":" not in site.name] == ["floor", "eye"]
    theirs = mujoco.MjModel.from_xml_string(content)
    eye = theirs.site("eye")
    assert theirs.body(eye.bodyid[0]).name == "b" and theirs.site("floor").bodyid == 0
    np.testing.assert_array_equal(eye.pos, model.sites[0].placement.position)
    found = rbd.lie.quaternion.to_matrix(jnp.asarray(eye.quat))
    assert_close(found, model.sites[0].placement.rotation, 1e-12)
    (key,) = again.keyframes
    assert key.time == 1.5
    home = model.keyframes[0]
    of = jax.jit(lambda key, model: (key.configuration(model), key.velocity(model)))
    there, back = jax.device_get((of(home, model), of(key, again)))
    for name in model.joint_names:
        q, v = there[0][model.q_slice(name)], there[1][model.v_slice(name)]
        np.testing.assert_allclose(back[0][again.q_slice(name)], q, atol=1e-12)
        np.testing.assert_allclose(back[1][again.v_slice(name)], v, atol=1e-12)
    assert [one.label for one in again.constraints] == [one.label for one in model.constraints]
    q = np.random.default_rng(9).normal(size=model.nq)
    q2 = np.zeros(model.nq)
    q2[coordinates(model, again)] = q
    ours, theirs = (
        np.asarray(rbd.constraint_residual(model, q)),
        np.asarray(rbd.constraint_residual(again, q2)),
    )
    np.testing.assert_allclose(theirs[[0, 1, 2, 9]], ours[[0, 1, 2, 9]], atol=1e-12)
    np.testing.assert_allclose(theirs[10], ours[10] / 4, atol=1e-12)  # its slope is one there
    for part in (slice(3, 6), slice(6, 9)):  # the weld, in other axes
        np.testing.assert_allclose(np.linalg.norm(theirs[part]), np.linalg.norm(ours[part]), atol=1e-12)


SENSED = """<mujoco><option magnetic=".1 -.4 .3"/><worldbody><site name="ground" pos="1 2 3" euler="10 20 30"/>
<body name="upper" pos=".1 0 .3" euler="30 0 20"><geom type="box" size=".1 .2 .3" pos=".1 .2 .3"/>
<joint name="turn" axis="0 .6 .8" pos=".1 .2 .1" range="-10 20" margin=".1"/><site name="elbow" pos=".1 .2 .3"/>
<camera name="eye" pos=".1 .2 .3" euler="10 10 10"/>
<body name="lower" pos=".4 .2 0"><joint name="ball" type="ball"/><geom name="tool" size=".1" pos="0 .1 .3"/></body></body>
</worldbody><sensor><gyro site="elbow" name="g" noise=".1" cutoff="5"/><accelerometer site="elbow"/><velocimeter site="ground"/>
<magnetometer site="elbow"/><force site="elbow"/><torque site="elbow"/><jointpos joint="turn"/><jointvel joint="turn"/>
<jointactuatorfrc joint="turn"/><jointlimitpos joint="turn"/><jointlimitvel joint="turn"/><ballquat joint="ball"/>
<ballangvel joint="ball"/><framepos objtype="body" objname="lower" reftype="camera" refname="eye"/>
<framequat objtype="xbody" objname="lower" reftype="site" refname="ground"/><framexaxis objtype="geom" objname="tool"/>
<framezaxis objtype="xbody" objname="lower" reftype="xbody" refname="upper"/>
<framelinvel objtype="site" objname="elbow" reftype="body" refname="lower"/><frameangvel objtype="camera" objname="eye"/>
<framelinacc objtype="body" objname="lower"/><frameangacc objtype="xbody" objname="lower"/><subtreecom body="upper"/>
<subtreelinvel body="world"/><subtreeangmom body="lower"/><e_potential/><e_kinetic/><clock/></sensor></mujoco>"""


def test_sensors_come_back():
    """Sensors of all types that are read have the same readings in MuJoCo.

    Frames of geoms and cameras become sites.
    """
    mujoco = pytest.importorskip("mujoco")
    model = rbd.load_mjcf(SENSED, strict=True)
    content = rbd.to_mjcf(model)
    again = rbd.load_mjcf(content, strict=True)
    for one, other in zip(model.sensors, again.sensors, strict=True):
        assert (one.name, type(one)) == (other.name, type(other))
    named = again.named("sensor", "g")
    assert (float(named.noise.deviation), float(named.cutoff)) == (0.1, 5.0)
    random, rows = np.random.default_rng(0), []
    q, v = random.normal(size=model.nq), random.normal(size=model.nv)
    for xml in (SENSED, content):
        theirs = mujoco.MjModel.from_xml_string(xml)
        theirs.opt.enableflags |= int(mujoco.mjtEnableBit.mjENBL_ENERGY)
        data = mujoco.MjData(theirs)
        data.qpos[:], data.qvel[:], data.time = q, v, 1.5
        mujoco.mj_forward(theirs, data)
        rows.append(np.array(data.sensordata))
    assert (rows[0] != 0).sum() > 50
    assert_close(rows[1], rows[0], 1e-9)


DRIVEN = """<mujoco><option density="2" viscosity=".3" wind="1 0 .2" timestep=".003"/><worldbody>
<site name="hook" pos="0 0 1"/><site name="rail" pos=".2 0 .1" euler="10 20 30"/>
<body name="arm" gravcomp=".4"><joint name="swing" axis="0 1 0" stiffness="1" range="-2 2" limited="true"/>
<geom name="drum" type="cylinder" size=".05 .2" euler="80 0 0"/><geom type="box" size=".1 .2 .3" pos=".1 0 .2" euler="10 0 40"/>
<site name="side" pos="0 .1 .1"/><site name="end" pos=".3 0 0"/>
<body name="hand" pos=".3 0 0" gravcomp="1.2"><joint name="slide" type="slide" damping="2"/>
<geom name="knob" size=".02" pos=".1 0 0" mass=".4"/><site name="tip" pos=".1 .1 0" euler="0 30 0"/></body></body>
<body name="ship" pos="1 2 3"><freejoint name="float"/><geom type="ellipsoid" size=".1 .2 .3" fluidshape="ellipsoid"/>
<site name="screw" pos="0 0 -.2"/><body name="mast"><joint name="ball" type="ball"/><geom size=".1" pos="0 0 .3"/></body></body>
</worldbody><tendon><fixed name="sum" stiffness="3" springlength="-1 .4">
<joint joint="swing" coef="2"/><joint joint="slide" coef="-1"/></fixed>
<spatial name="string" damping=".5"><site site="hook"/><geom geom="drum" sidesite="side"/><site site="tip"/><pulley divisor="2"/>
<site site="hook"/><geom geom="knob"/><site site="end"/><site site="screw"/><pulley divisor="2"/>
<site site="tip"/><site site="screw"/></spatial></tendon>
<actuator><motor name="motor" joint="swing" gear="3" ctrlrange="-1 2"/>
<position name="servo" joint="slide" kp="5" kv=".2" forcerange="-9 9"/>
<intvelocity name="integral" joint="slide" kp="3" actrange="-1 1"/><velocity name="rate" tendon="sum" kv="2"/>
<damper name="brake" joint="swing" kv="2" ctrlrange="0 1"/>
<cylinder name="piston" tendon="string" timeconst=".3" area=".2" bias="1 2 3"/>
<muscle name="muscle" tendon="string" force="20" lengthrange=".5 2"/><motor name="thrust" site="screw" gear="1 2 3 4 5 6"/>
<position name="pull" site="tip" refsite="screw" gear="1 2 3 0 0 0"/><motor name="turn" jointinparent="ball" gear="1 2 3"/>
<motor name="drive" joint="float" gear="1 2 3 4 5 6"/>
<motor name="crank" cranksite="end" slidersite="rail" cranklength=".7"/></actuator>
<sensor><tendonpos tendon="string"/><tendonvel tendon="sum"/><tendonactuatorfrc tendon="string"/><actuatorpos actuator="servo"/>
<actuatorvel actuator="servo"/><actuatorfrc actuator="piston" name="force"/></sensor>
<keyframe><key name="home" ctrl="1 2 3 4 5 6 7 8 9 1 2 3" act=".1 .2 .3" time="2"/></keyframe></mujoco>"""


def test_what_drives_a_model_comes_back():
    """Tendons, actuators of all kinds, the fluid and gravity compensation round-trip with all numbers, with the same
    effect in MuJoCo.
    """
    mujoco = pytest.importorskip("mujoco")
    model = rbd.load_mjcf(DRIVEN, strict=True)
    content = rbd.to_mjcf(model)
    assert_same_model(model, rbd.load_mjcf(content, strict=True), 1e-12)
    random, seen = np.random.default_rng(0), []
    q, v, u, act = (random.normal(size=n) for n in (model.nq, model.nv, model.nu, 3))
    for xml in (DRIVEN, content):
        theirs = mujoco.MjModel.from_xml_string(xml)
        theirs.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
        data = mujoco.MjData(theirs)
        data.qpos[:], data.qvel[:], data.ctrl[:], data.act[:] = q, v, u, act
        mujoco.mj_forward(theirs, data)
        fields = (
            data.actuator_force,
            data.actuator_length,
            data.act_dot,
            data.ten_length,
            data.qfrc_passive,
            data.qacc,
        )
        seen.append(
            [np.array(field) for field in (*fields, data.sensordata, theirs.key_ctrl, theirs.key_act)]
        )
    for ours, theirs in zip(seen[1], seen[0], strict=True):
        assert np.any(theirs)
        assert_close(ours, theirs, 1e-10)


SHAPES = """<mujoco><asset><material name="steel" rgba=".1 .2 .3 1"/>
<hfield name="hills" nrow="2" ncol="3" size="1 2 .5 .1" elevation="0 1 2 3 4 5"/>
<mesh name="wedge" vertex="0 0 0 1 0 0 0 1 0 0 0 .5" scale="1 2 3"/></asset><worldbody>
<geom name="floor" type="plane" size="3 0 .1" condim="1" friction=".5 .1 .2"/>
<geom name="land" type="hfield" hfield="hills" pos="5 0 0"/>
<body name="a" euler="10 20 30"><freejoint name="j"/><geom name="ball" size=".1" rgba="1 0 0 .5" group="4"/>
<geom name="pill" type="capsule" size=".1 .2" euler="30 0 0" contype="6" conaffinity="3" margin=".1" gap=".05"/>
<geom name="can" type="cylinder" size=".1 .2" material="steel" priority="2"/>
<geom name="ghost" type="box" size=".1 .2 .3" contype="0"
conaffinity="0" pos="1 2 3" solref=".1 .5" solimp=".5 .6 .1 .4 3"/><geom name="egg" type="ellipsoid" size=".1 .2 .3" group="2"/>
<geom name="stone" type="mesh" mesh="wedge" pos="1 0 0" euler="0 40 0"/></body></worldbody>
<sensor><framepos objtype="geom" objname="can"/></sensor></mujoco>"""


def test_shapes_come_back():
    model = quietly(rbd.load_mjcf, SHAPES)
    again = quietly(rbd.load_mjcf, rbd.to_mjcf(model))
    for shape in model.shapes:
        other = again.named("shape", shape.name)
        fields = (
            "body",
            "visual",
            "collision",
            "group",
            "rgba",
            "material",
            "contype",
            "conaffinity",
            "condim",
            "priority",
        )
        assert [getattr(other, field) for field in fields] == [getattr(shape, field) for field in fields]
        if shape.name != "stone":  # which has another frame, at its center
            assert jax.tree.structure(shape) == jax.tree.structure(other)
        for field in ("margin", "gap", "friction", "solref", "solimp"):
            np.testing.assert_array_equal(getattr(shape, field), getattr(other, field))
        np.testing.assert_allclose(points(other), points(shape), atol=1e-6)


def points(shape) -> np.ndarray:
    """Returns the sorted vertices of a shape in the frame of the body."""
    vertices, _ = shape.geometry.triangles()
    moved = vertices @ np.asarray(shape.placement.rotation).T + np.asarray(shape.placement.position)
    return moved[np.lexsort(np.round(moved, 5).T)]


def bare(*names) -> rbd.Model:
    """Returns a chain of hinges named after their bodies, without attachments."""
    builder = rbd.ModelBuilder()
    for name, parent in zip(names, ("world", *names)):
        at, inertia = (0.0, 0.0, -float(parent != "world")), rbd.Inertia.sphere(1.0, 0.1)
        builder.add_body(name, parent, joints.Revolute((0, 1, 0)), at, inertia, joint_name=name)
    return builder.build()


def test_shapes_of_ones_own(tmp_path):
    mujoco, trimesh = pytest.importorskip("mujoco"), pytest.importorskip("trimesh")
    trimesh.creation.box((0.1, 0.2, 0.3)).export(tmp_path / "brick.stl")
    trimesh.creation.box((0.1, 0.2, 0.3)).export(tmp_path / "brick.ply")
    shapes, heights = rbd.shapes, [[-0.5, 0.2], [0.3, 0.1], [0.0, 0.7]]
    flat = shapes.Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]], [[0, 1, 2], [1, 3, 2]])
    file = shapes.Mesh.from_file(tmp_path / "brick.stl", (1.0, 2.0, 1.0))
    model = rbd.attach(
        bare("bob"),
        rbd.Shape("land", "world", shapes.HeightField(heights, (1.0, 2.0)), (0.0, 0.0, -3.0)),
        rbd.Shape("flat", "bob", flat, collision=False, visual=False),
        rbd.Shape("file", "bob", file), rbd.Shape("twin", "bob", file, (1.0, 0.0, 0.0)),
        rbd.Shape("ply", "bob", shapes.Mesh.from_file(tmp_path / "brick.ply")),
        rbd.Shape("point", "bob", shapes.Capsule(0.1, 0.0)),
        rbd.Shape("floor", "bob", shapes.Plane()),
    )  # fmt: skip
    with pytest.raises(rbd.ModelError, match="cannot express: shapes 'floor'"):
        rbd.to_mjcf(model, strict=True)
    content = quietly(rbd.to_mjcf, model)
    theirs = mujoco.MjModel.from_xml_string(content)
    assert theirs.ngeom == 6 and theirs.nmesh == 3 and content.count("brick.stl") == 1
    again = quietly(rbd.load_mjcf, content)
    for shape in model.shapes[:5]:
        np.testing.assert_allclose(points(again.named("shape", shape.name)), points(shape), atol=1e-6)
    assert not again.named("shape", "flat").visual and not again.named("shape", "flat").collision


def test_shapes_in_urdf(tmp_path):
    """Pinocchio reads the same visual and collision shapes, with the same placements and sizes."""
    pin, trimesh = pytest.importorskip("pinocchio"), pytest.importorskip("trimesh")
    trimesh.creation.box((0.1, 0.2, 0.3)).export(tmp_path / "brick.stl")
    shapes, at = rbd.shapes, placement(np.random.default_rng(0))
    model = rbd.attach(
        bare("bob"),
        rbd.Shape("ball", "bob", shapes.Sphere(0.1), at, rgba=(1.0, 0.0, 0.5, 1.0), friction=(0.5, 0.0, 0.0)),
        rbd.Shape("can", "bob", shapes.Cylinder(0.1, 0.3), at, collision=False),
        rbd.Shape("crate", "world", shapes.Box((0.1, 0.2, 0.3)), visual=False),
        rbd.Shape("brick", "bob", shapes.Mesh.from_file(tmp_path / "brick.stl", (1.0, 2.0, 3.0)), at),
        rbd.Shape("egg", "bob", shapes.Ellipsoid((0.1, 0.2, 0.3))),
    )
    with pytest.raises(rbd.ModelError, match="contact properties of shapes 'ball'; shapes 'egg'"):
        rbd.to_urdf(model, strict=True)
    content = quietly(rbd.to_urdf, model)
    theirs = pin.buildModelFromXML(content)
    for kind, names in (("VISUAL", ("ball", "can", "brick")), ("COLLISION", ("crate", "ball", "brick"))):
        found = pin.buildGeomFromUrdfString(theirs, content, getattr(pin.GeometryType, kind)).geometryObjects
        at = rbd.forward_kinematics(model, jnp.zeros(1))
        for one, name in zip(found, names, strict=True):
            shape = model.named("shape", name)
            there = shape.placement if shape.body == "world" else at[0] @ shape.placement
            own = theirs.jointPlacements[1] * one.placement if shape.body == "bob" else one.placement
            assert_close(own.translation, there.position, 1e-12)
            assert_close(own.rotation, there.rotation, 1e-12)
            for field, word in (
                ("radius", "radius"),
                ("half_length", "halfLength"),
                ("half_sizes", "halfSide"),
            ):
                if hasattr(shape.geometry, field):
                    assert_close(getattr(one.geometry, word), getattr(shape.geometry, field), 1e-12)
            if name == "brick":
                assert one.meshPath == str(tmp_path / "brick.stl") and one.meshScale.tolist() == [1, 2, 3]
            if name == "ball" and kind == "VISUAL":
                assert_close(one.meshColor, np.array([1.0, 0, 0.5, 1]), 1e-6)


@pytest.mark.slow
def test_fluids_in_single_precision():
    model = rbd.astype(rbd.load_mjcf(DRIVEN), jnp.float32)
    again = rbd.load_mjcf(rbd.to_mjcf(model))
    assert [force.label for force in again.forces] == [force.label for force in model.forces]


@pytest.mark.slow
def test_tendons_through_points_of_their_own():
    """Points become sites and geoms, and all actuator families become general MuJoCo actuators."""
    mujoco = pytest.importorskip("mujoco")
    model, drive = bare("upper", "lower"), rbd.actuators
    around = rbd.forces.Around("upper", (0, 0, -0.5), 0.1, "cylinder", side=("upper", (0.2, 0.0, -0.5)))
    path = [
        rbd.forces.Pulley(2.0),
        ("world", (0.1, 0, 0.4)),
        around,
        ("lower", (0, 0, -0.4)),
        ("lower", (0.1, 0, -0.4)),
    ]
    model = rbd.attach(
        model,
        rbd.forces.SpatialTendon("string", path, spring_constant=3.0, rest_length=(0.1, 0.2)),
        rbd.forces.FixedTendon("sum", {"upper": 2.0, "lower": -1.0}, 1.0, -1.0),
        drive.Muscle("muscle", drive.OnTendon("string"), drive.MuscleCurves(30.0, (0.2, 0.9))),
        drive.Position("servo", "lower", 3.0, 0.1, time_constant=0.2, force_range=(-1.0, 5.0)),
        rbd.Keyframe("home", {"lower": [0.3]}, controls={"servo": 0.7}),
    )
    content = rbd.to_mjcf(model)
    theirs = mujoco.MjModel.from_xml_string(content)
    assert theirs.nsite == 4 and theirs.ngeom == 1 and theirs.key_ctrl.tolist() == [[0, 0.7]]
    data = mujoco.MjData(theirs)
    data.qpos[:], data.qvel[:], data.ctrl[:], data.act[:] = (0.3, 0.6), (1, -2), (0.4, 0.5), (0.2, 0.1)
    mujoco.mj_forward(theirs, data)
    q, v = jnp.array([0.3, 0.6]), jnp.array([1.0, -2.0])
    force = rbd.forces.carried_forces(model, jnp.array([0.4, 0.5]))
    assert_close(drive.actuator_lengths(model, q), data.actuator_length, 1e-12)
    assert_close(force[0](model, q, v), data.qfrc_spring, 1e-10)
    again = rbd.load_mjcf(content)
    assert_same_model(again, rbd.load_mjcf(rbd.to_mjcf(again)))


def test_what_drives_a_model_and_is_lost():
    """Attachments that refer to an unsupported element are omitted, or written without the reference."""
    drive, model = rbd.actuators, bare("upper", "lower")
    curves = [drive.MuscleCurves(1.0, (start, 1.0)) for start in (0.1, 0.2)]
    laws = {"gain": drive.MuscleGain(curves[0]), "bias": drive.MuscleBias(curves[1])}
    around = rbd.forces.Around("upper", (0, 0, -0.5), 0.0)
    model = rbd.attach(
        model,
        rbd.forces.SpatialTendon("string", [("world", (0, 0, 1)), around, ("lower", (0, 0, 0))]),
        drive.Motor("pull", drive.OnTendon("string")),
        drive.Actuator("uneven", "lower", **laws),
        drive.IntegratedVelocity("servo", "lower", activation=0.5),
        rbd.sensors.ActuatorForce("felt", "pull"),
        rbd.Keyframe("home", {}, controls={"pull": 1.0, "servo": 2.0}),
        rbd.forces.GravityCompensation("upper", [(0.1, 0.0, 0.0)], [1.0]),
        rbd.forces.BoxDrag(
            "upper", rbd.Transform(jnp.eye(3)[None], jnp.zeros((1, 3))), jnp.ones((1, 3)), 1.0
        ),
    )
    with pytest.raises(rbd.ModelError) as refusal:
        rbd.to_mjcf(model, strict=True)
    for what in (
        "tendons 'string'", "actuators 'pull', 'uneven'", "initial activations of actuators 'servo'", "sensors 'felt'",
        "forces \"GravityCompensation('upper')\", \"BoxDrag('upper')\"",
    ):  # fmt: skip
        assert what in str(refusal.value)
    again = rbd.load_mjcf(quietly(rbd.to_mjcf, model))
    assert [thing.label for thing in again.attached] == ["Actuator('servo')", "Keyframe('home')"]
    assert again.keyframes[0].controls == (2.0,)


def test_settings_that_mjcf_has_not():
    settings = rbd.model.Settings(0.01, "leapfrog", {"empty": (), "note": ""})
    builder = rbd.ModelBuilder(settings=settings)
    builder.add_body("b", "world", joints.Revolute(), None, rbd.Inertia.sphere(1.0, 0.1))
    with pytest.raises(
        rbd.ModelError, match="the integrator 'leapfrog'; empty custom numbers and texts 'empty', 'note'"
    ):
        rbd.to_mjcf(builder.build(), strict=True)
    assert rbd.load_mjcf(quietly(rbd.to_mjcf, builder.build())).settings.timestep == 0.01


def test_sensors_that_mjcf_has_not():
    model = rbd.load_mjcf(SENSED)
    other = rbd.sensors.Magnetometer("m", "elbow", (1.0, 0.0, 0.0))
    biased = rbd.sensors.Gyro("biased", "elbow", noise=rbd.sensors.Noise(0.1, bias=0.2))
    with pytest.raises(rbd.ModelError) as refusal:
        rbd.to_mjcf(rbd.attach(model, other, biased), strict=True)
    for what in ("sensors 'm'", "bias and drift of sensors 'biased'"):
        assert what in str(refusal.value)


def test_sensors_that_are_late():
    pytest.importorskip("mujoco", "3.5")
    model = rbd.attach(rbd.load("pendulum"), rbd.sensors.JointPosition("late", "swing", delay=0.1))
    assert rbd.load_mjcf(rbd.to_mjcf(model)).named("sensor", "late").delay == 0.1


def test_sums_of_coordinates():
    """A sum of coordinates, as of a differential, becomes a tendon of fixed length in MuJoCo."""
    builder = rbd.ModelBuilder()
    for name in "abc":
        builder.add_body(name, "world", joints.Revolute(), None, rbd.Inertia.sphere(1.0, 0.1), reference=0.2)
    builder.attach(rc.CoordinateCoupling({"a": (0.5, 1), "b": (0, 2), "c": (0, -3)}))
    model = builder.build()
    again = rbd.load_mjcf(rbd.to_mjcf(model), equalities="hard")
    q = jnp.array([0.1, 0.7, -0.4])
    np.testing.assert_allclose(
        rbd.constraint_residual(again, q), rbd.constraint_residual(model, q), atol=1e-14
    )
    assert_same_model(
        again, rbd.load_mjcf(rbd.to_mjcf(again), equalities="hard")
    )  # the tendon already exists, and no other is created


# Unsupported features.

REFUSED = {
    "a ball in URDF": (
        "urdf", joints.Spherical(), "joint 'j' is a ball joint, which URDF does not have. Use .*SphericalEuler.*save_mjcf",
    ),
    "a screw in MJCF": ("mjcf", joints.Helical(), "joint 'j' is a Helical, which MJCF does not have.*save_urdf"),
    "exponential coordinates": ("mjcf", joints.SphericalExponential(), "joint 'j' .*rbd.joints.Spherical is the same joint"),
    "a led joint": ("urdf", joints.ConstantVelocity(joints.Revolute(), [1.0]), "'j' .*the joint whose motion it prescribes"),
    "one within another": ("mjcf", joints.Composite([joints.SphericalExponential()]), "joint 'j' is a Composite"),
}  # fmt: skip


@pytest.mark.parametrize("format, joint, message", REFUSED.values(), ids=REFUSED)
def test_joints_that_are_refused(format, joint, message):
    builder = rbd.ModelBuilder()
    builder.add_body("b", "world", joint, None, rbd.Inertia.sphere(1.0, 0.1), joint_name="j")
    for strict in (True, False):
        with pytest.raises(rbd.ModelError, match=message):
            WRITERS[format][0](builder.build(), strict=strict)


ALL = {"b": joints.Revolute(), "f": joints.Free(), "s": joints.Spherical()}
LOST = {
    "velocity limits of joints 'b'": ("mjcf", "b", {"velocity_limit": 1.0}),
    "direction-dependent damping of joints 's'": ("mjcf", "s", {"damping": (1.0, 2.0, 1.0)}),
    "springs of floating and planar joints 'f'": ("mjcf", "f", {"stiffness": 1.0}),
    "effort limits of ball and free joints 's'": ("mjcf", "s", {"effort_limit": 1.0}),
    "neutral configurations of ball joints 's'": ("mjcf", "s", {"reference": (0.0, 1.0, 0.0, 0.0)}),
    "armature of joints 'b'": ("urdf", "b", {"armature": 1.0}),
    "springs of joints 'b'": ("urdf", "b", {"stiffness": 1.0}),
    "damping of floating and planar joints 'f'": ("urdf", "f", {"damping": 1.0}),
    "physically inconsistent inertias of bodies 'b'": ("mjcf", "b", {"inertia": (1.0, 1.0, 3.0)}),
}  # fmt: skip


@pytest.mark.parametrize("what", LOST)
def test_what_is_lost_is_named(what):
    format, name, along = LOST[what]
    along = dict(along)
    body = rbd.Inertia.from_mass_com(
        1.0, jnp.zeros(3), jnp.diag(jnp.array(along.pop("inertia", (1.0, 1.0, 1.0))))
    )
    builder = rbd.ModelBuilder()
    builder.add_body(name, "world", ALL[name], None, body, **along)
    model, (write, read) = quietly(builder.build), WRITERS[format]
    with pytest.raises(rbd.ModelError, match=re.escape(what)) as refusal:
        write(model, strict=True)
    assert "strict=False" in str(refusal.value)
    with pytest.warns(rbd.ModelWarning, match=re.escape(what)):
        content = write(model)
    assert read(content).nv == model.nv


def test_what_is_attached_and_lost():
    model = equipped()
    model = rbd.add_forces(model, rbd.forces.ViscousDamping("b", 1.0))
    with pytest.raises(rbd.ModelError, match=r"forces \"ViscousDamping\('b'\)\""):
        rbd.to_mjcf(model, strict=True)
    lines = rbd.add_constraints(
        rbd.load("double_pendulum"), rc.PointOnLine("world", (0, 0, 0), (1, 0, 0), "lower", (0, 0, -1))
    )
    with pytest.raises(rbd.ModelError, match="constraints"):
        rbd.to_mjcf(lines, strict=True)
    slim = rbd.lock_joints(rbd.attach(rbd.load("double_pendulum"), rbd.Site("tip", "lower")), [])
    with pytest.raises(rbd.ModelError, match="sites 'tip'"):
        rbd.to_urdf(slim, strict=True)


def test_bad_models():
    model = rbd.load("pendulum")
    with pytest.raises(rbd.ModelError, match="traced"):
        jax.jit(lambda m: (rbd.to_urdf(m), m)[1])(model)
    with pytest.raises(rbd.ModelError, match="a batch of 3"):
        rbd.to_mjcf(jax.tree.map(lambda x: jnp.stack([x] * 3), model))
    broken = eqx.tree_at(lambda m: m.inertias.mass, model, jnp.full(1, np.nan))
    with pytest.raises(rbd.ModelError, match="inertia of body 'bob' is not finite"):
        rbd.to_urdf(broken)
    with pytest.raises(rbd.ModelError, match="cannot be written in XML"):
        rbd.to_urdf(replace(model, topology=replace(model.topology, body_names=("a\x00",))))


def test_names_with_marks():
    model = rbd.rename(rbd.load("pendulum"), bodies={"bob": "a \"<&>' ü b"})
    for write, read in WRITERS.values():
        assert read(write(model)).body_names == model.body_names


# Files and numbers.


@pytest.mark.parametrize("save, name", [(rbd.save_urdf, "a.urdf"), (rbd.save_mjcf, "a.xml")])
def test_files_are_whole_or_as_they_were(tmp_path, save, name):
    path = tmp_path / name
    save(rbd.load("double_pendulum"), path)
    before = path.read_text()
    assert rbd.load(path).joint_names == ("shoulder", "elbow")
    with pytest.raises(rbd.ModelError):
        save(rbd.load("all_joints"), path)
    assert path.read_text() == before and [file.name for file in tmp_path.iterdir()] == [name]
    with pytest.raises(OSError):
        save(rbd.load("double_pendulum"), tmp_path / "missing" / name)


def test_numbers_come_back_to_the_bit():
    random = np.random.default_rng(0)
    numbers = np.concatenate(
        [random.normal(size=99) * 10.0 ** random.integers(-300, 300, 99), [np.inf, 1e15, 1 / 3]]
    )
    assert [float(x) for x in text(numbers).split()] == numbers.tolist()
    assert text([1, -2.0, 0]) == "1 -2 0"


def test_rotations_near_quarter_turns():
    """Angles and quaternions are accurate everywhere, also at gimbal lock."""
    random = np.random.default_rng(0)
    for pitch in (0, 1.3, np.pi / 2, np.pi / 2 - 1e-9, -np.pi / 2, -np.pi / 2 + 1e-5):
        roll, yaw = random.uniform(-np.pi, np.pi, 2)
        rotation = turn(2, yaw) @ turn(1, pitch) @ turn(0, roll)
        r, p, y = angles(rotation)
        np.testing.assert_allclose(turn(2, y) @ turn(1, p) @ turn(0, r), rotation, atol=1e-15)
        np.testing.assert_allclose(
            rbd.lie.quaternion.to_matrix(jnp.asarray(quaternion(rotation))), rotation, atol=1e-15
        )
    for axis in range(3):  # half revolutions, where w is zero
        rotation = turn(axis, np.pi)
        np.testing.assert_allclose(
            rbd.lie.quaternion.to_matrix(jnp.asarray(quaternion(rotation))), rotation, atol=1e-15
        )


def turn(axis, angle):
    i, j = (axis + 1) % 3, (axis + 2) % 3
    rotation = np.eye(3)
    rotation[i, i] = rotation[j, j] = np.cos(angle)
    rotation[j, i] = np.sin(angle)
    rotation[i, j] = -rotation[j, i]
    return rotation


# Comparisons with other programs.


def test_pinocchio_reads_the_same():
    """A mechanism with one-sided limits, a mimic joint, a tilted plane and a screw."""
    pin = pytest.importorskip("pinocchio")
    families = {name: URDF[name] for name in ("prismatic", "tilted", "helical")}
    model = rbd.load_urdf(rbd.to_urdf(tree(families, 2)))
    theirs = pin.buildModelFromXML(rbd.to_urdf(model), mimic=True)
    there, data = PinocchioMap(model, theirs), theirs.createData()
    random = np.random.default_rng(0)
    q = random.normal(size=model.nq)
    q_pin = np.asarray(jax.jit(there.configuration)(q))
    upper = np.triu(pin.crba(theirs, data, q_pin))
    known = jax.jit(there.matrix_from)(upper + np.triu(upper, 1).T)
    assert_close(rbd.mass_matrix(model, q), known, 1e-9)
    pin.forwardKinematics(theirs, data, q_pin)
    pin.updateFramePlacements(theirs, data)
    placed = np.asarray(rbd.forward_kinematics(model, q).position)
    for i, name in enumerate(model.body_names):
        place = data.oMf[theirs.getFrameId(name, pin.FrameType.BODY)].translation
        assert_close(placed[i], place, 1e-9)


def test_mujoco_reads_the_same():
    mujoco = pytest.importorskip("mujoco")
    model = quietly(rbd.load_mjcf, rbd.to_mjcf(robot(MJCF, 1, "mjcf")))
    theirs = mujoco.MjModel.from_xml_string(rbd.to_mjcf(model))
    theirs.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    there, data = MujocoMap(model, theirs), mujoco.MjData(theirs)
    random = np.random.default_rng(0)
    q, v = random.normal(size=model.nq), random.normal(size=model.nv)
    smooth = eqx.tree_at(lambda m: m.friction, model, jnp.zeros_like(model.friction))

    @jax.jit
    def ask(q, v):
        a = rbd.forward_dynamics(model, q, v, rbd.passive_force(smooth, q, v))
        return there.configuration(q), there.velocity(q, v), there.acceleration(q, v, a)

    data.qpos[:], data.qvel[:], qacc = jax.device_get(ask(q, v))
    mujoco.mj_forward(theirs, data)
    assert_close(qacc, data.qacc, 1e-9)


def test_contact_that_a_file_switches_off_stays_off():
    """A file without contact gives a model without a contact model, also after a round trip.

    A model with an attached contact model writes a file with contact.
    """
    pytest.importorskip("mujoco")
    ball = """<mujoco><option><flag contact="disable"/></option><worldbody><geom type="plane" size="1 1 1"/>
      <body name="ball" pos="0 0 1"><freejoint/><geom size="0.1"/></body></worldbody></mujoco>"""
    model = rbd.load_mjcf(ball)
    assert model.settings.switched_off == ("contact",) and not model.attached_as("contact law")
    again = rbd.load_mjcf(rbd.to_mjcf(model))
    assert again.settings.switched_off == ("contact",) and not again.attached_as("contact law")
    touching = rbd.load_mjcf(rbd.to_mjcf(rbd.attach(model, rbd.contact.Soft())))
    assert touching.settings.switched_off == () and len(touching.attached_as("contact law")) == 1
