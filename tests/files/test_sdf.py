"""SDF frames, axes, defaults and worlds follow SDFormat; unsupported elements are reported with their line."""

import re

import jax.numpy as jnp
import numpy as np
import pytest
from round_trips import assert_same_mechanism, assert_same_model, quietly, tree
from support import assert_close

import rbd_jax as rbd
from rbd_jax import joints
from rbd_jax.files.placement import quaternion
from rbd_jax.files.writing.description import Mass, bodies_of
from rbd_jax.files.writing.numerals import angles, text


def sdf(content, version="1.9", name="robot"):
    return f'<sdf version="{version}"><model name="{name}">\n{content}</model></sdf>'


LINK = '<link name="{}"><pose>{}</pose></link>\n'
BASE = LINK.format("base", "0 0 0 0 0 0")
ROOTED = '<joint name="stand" type="fixed"><parent>world</parent><child>base</child></joint>\n'


def hinge(inside="", kind="revolute", axis="<xyz>0 0 1</xyz>", name="hinge", parent="base", child="tip"):
    of = f"<axis>{axis}</axis>" if axis else ""
    return f'<joint name="{name}" type="{kind}"><parent>{parent}</parent><child>{child}</child>{of}{inside}</joint>\n'


def arm(tip="1 2 3 0.1 0.2 0.3", **of):
    return BASE + ROOTED + LINK.format("tip", tip) + hinge(**of)


TURNED = np.array(rbd.load_urdf(
    '<robot name="r"><link name="world"/><link name="a"/><joint name="j" type="fixed"><parent link="world"/><child link="a"/>'
    '<origin rpy="0.1 0.2 0.3"/></joint></robot>'
).placements.rotation[0])  # fmt: skip


# The same robot in other descriptions.

FAMILIES = {
    "revolute": lambda random: joints.Revolute(random.normal(size=3)),
    "prismatic": lambda random: joints.Prismatic(random.normal(size=3)),
    "fixed": lambda random: joints.Fixed(),
    "screw": lambda random: joints.Helical(random.normal(size=3), 0.3),
    "ball": lambda random: joints.Spherical(),
    "universal": lambda random: joints.Universal(random.normal(size=3), random.normal(size=3)),
}
LIMITED = {
    name: lambda random: random.uniform(0.5, 2)
    for name in ("upper", "damping", "friction", "stiffness", "effort_limit", "velocity_limit")
}


def as_sdf(model, relative: bool) -> str:
    """Writes a tree as SDF, with poses relative to parent links and joints, or all in the model frame."""
    said, placed = "", rbd.forward_kinematics(model, rbd.neutral(model))
    for i, body in enumerate(bodies_of("test", model)):
        mass = Mass.of(body, 1e-16)
        kind = {"Helical": "screw", "Spherical": "ball"}.get(
            type(body.joint).__name__, type(body.joint).__name__.lower()
        )
        at = body.placement if relative else placed[i]
        numbers = f"{text(at.position)} {text(angles(np.asarray(at.rotation)))}"
        pose = f'<pose relative_to="{body.joint_name}"/>' if relative else f"<pose>{numbers}</pose>"
        moments = "".join(f"<i{a}{b}>{text(mass.central['xyz'.index(a), 'xyz'.index(b)])}</i{a}{b}>"
                          for a, b in ("xx", "xy", "xz", "yy", "yz", "zz"))  # fmt: skip
        inertial = (
            f"<pose>{text(mass.com)} 0 0 0</pose><mass>{text(mass.mass)}</mass><inertia>{moments}</inertia>"
        )
        said += f'<link name="{body.name}">{pose}<inertial>{inertial}</inertial></link>'
        axes = [getattr(body.joint, name) for name in ("axis", "axis1", "axis2") if hasattr(body.joint, name)]
        inside = ""
        for k, (axis, tag) in enumerate(zip(axes, ("axis", "axis2"))):
            words = {"damping": "damping", "friction": "friction", "spring_stiffness": "stiffness"}
            dynamics = "".join(
                f"<{word}>{text(getattr(body, name)[k])}</{word}>" for word, name in words.items()
            )
            words = {
                "lower": "lower",
                "upper": "upper",
                "effort": "effort_limit",
                "velocity": "velocity_limit",
            }
            limit = "".join(
                f"<{word}>{text(getattr(body, name)[k])}</{word}>" for word, name in words.items()
            )
            inside += (
                f"<{tag}><xyz>{text(axis)}</xyz><dynamics>{dynamics}</dynamics><limit>{limit}</limit></{tag}>"
            )
        if kind == "screw":
            inside += f"<screw_thread_pitch>{text(2 * np.pi * body.joint.pitch)}</screw_thread_pitch>"
        if relative:
            inside += f'<pose relative_to="{"__model__" if body.parent == "world" else body.parent}">{numbers}</pose>'
        ends = f"<parent>{body.parent}</parent><child>{body.name}</child>"
        said += f'<joint name="{body.joint_name}" type="{kind}">{ends}{inside}</joint>'
    return sdf(said, name=model.name)


@pytest.mark.parametrize("relative", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_the_same_tree(seed, relative):
    along = {} if seed == 2 else LIMITED
    families = (
        FAMILIES
        if seed == 2
        else {name: FAMILIES[name] for name in ("revolute", "universal", "prismatic", "screw")}
    )
    model = tree(families, seed, **along)
    again = rbd.load_sdf(as_sdf(model, relative))
    order = [again.body_names.index(name) for name in model.body_names]
    assert [again.joint_names[i] for i in order] == list(model.joint_names)
    assert_close(np.asarray(again.placements.position)[order], model.placements.position, 1e-12)
    assert_close(np.asarray(again.inertias.parameters)[order], model.inertias.parameters, 1e-12)
    for name in model.joint_names:
        a, b = model.joint(name), again.joint(name)
        assert type(a) is type(b)
        for field in ("axis", "axis1", "axis2", "pitch"):
            if hasattr(a, field):
                assert_close(getattr(b, field), getattr(a, field), 1e-12, f"{field} of {name}")
        for field in ("lower", "upper", "damping", "friction", "stiffness", "effort_limit", "velocity_limit"):
            place = "q" if field in ("lower", "upper") else "v"
            of = lambda m, *at: np.asarray(getattr(m, at[0]))[getattr(m, f"{at[1]}_slice")(at[2])]
            np.testing.assert_array_equal(
                of(again, field, place, name), of(model, field, place, name), err_msg=field
            )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_the_same_mechanism(seed):
    model = tree(FAMILIES, seed)
    for relative in (True, False):
        assert_same_mechanism(model, rbd.load_sdf(as_sdf(model, relative)))


# Frames in explicit examples.

POSES = {
    "in the model": (LINK.format("tip", "1 2 3 0.1 0.2 0.3"), (1, 2, 3)),
    "in a link": ('<link name="tip"><pose relative_to="off">0 0 1 0.1 0.2 0.3</pose></link>', (1, 0, 1)),
    "in a frame": ('<link name="tip"><pose relative_to="F">0 0 1 0.1 0.2 0.3</pose></link>', (1, 2, 1)),
    "in a frame of a frame": ('<link name="tip"><pose relative_to="G">0 0 0 0.1 0.2 0.3</pose></link>', (1, 2, 5)),
    "in degrees": (
        f'<link name="tip"><pose degrees="true">1 0 0 {" ".join(str(np.rad2deg(x)) for x in (0.1, 0.2, 0.3))}</pose></link>',
        (1, 0, 0),
    ),
    "as a quaternion": (
        f'<link name="tip"><pose rotation_format="quat_xyzw">1 0 0 {text(quaternion(TURNED)[[1, 2, 3, 0]])}</pose></link>',
        (1, 0, 0),
    ),
    "nowhere": ('<link name="tip"><pose relative_to="turned"></pose></link>', (0, 0, 0)),
}  # fmt: skip
FRAMES = """<link name="off"><pose>1 0 0 0 0 0</pose></link>
<joint name="k" type="fixed"><parent>base</parent><child>off</child></joint>
<link name="turned"><pose>0 0 0 0.1 0.2 0.3</pose></link>
<joint name="l" type="fixed"><parent>base</parent><child>turned</child></joint>
<frame name="F" attached_to="off"><pose>0 2 0 0 0 0</pose></frame>
<frame name="G"><pose relative_to="F">0 0 5 0 0 0</pose></frame>"""


@pytest.mark.parametrize("link, position", POSES.values(), ids=POSES)
def test_poses(link, position):
    model = rbd.load_sdf(sdf(BASE + ROOTED + FRAMES + link + hinge()))
    tip = rbd.forward_kinematics(model, jnp.zeros(1))[model.body_index("tip")]
    assert_close(tip.position, np.array(position, float), 1e-12)
    assert_close(tip.rotation, TURNED, 1e-12)


X, Z = np.eye(3)[[0, 2]]
AXES = {
    "the joint's frame, which is the link's": ("1.9", "<xyz>1 0 0</xyz>", "", X),
    "the joint's own pose": ("1.9", "<xyz>1 0 0</xyz>", "<pose>0 0 0 0 0 1.5707963267948966</pose>", np.eye(3)[1]),
    "the model": ("1.9", '<xyz expressed_in="__model__">1 0 0</xyz>', "", TURNED.T @ X),
    "the parent": ("1.9", '<xyz expressed_in="base">0 0 2</xyz>', "", TURNED.T @ Z),
    "the model in 1.6, if it says so": (
        "1.6", "<xyz>1 0 0</xyz><use_parent_model_frame>1</use_parent_model_frame>", "", TURNED.T @ X,
    ),
    "the link in 1.6": ("1.6", "<xyz>1 0 0</xyz>", "", X),
    "the model in 1.4": ("1.4", "<xyz>1 0 0</xyz>", "", TURNED.T @ X),
    "by default": ("1.9", "", "", Z),
}  # fmt: skip


@pytest.mark.parametrize("version, axis, pose, expected", AXES.values(), ids=AXES)
def test_axes(version, axis, pose, expected):
    model = rbd.load_sdf(sdf(arm(axis=axis or " ", inside=pose), version))
    assert_close(model.joint("hinge").axis, expected, 1e-12)


def test_an_anchor_beside_the_link():
    """The link rotates about the joint's origin and keeps its own frame."""
    model = rbd.load_sdf(sdf(arm(tip="1 0 0 0 0 0", inside="<pose>-1 0 0 0 0 0</pose>")))
    assert model.body_names == ("base", "tip:hinge", "tip") and model.joint_names == ("stand", "hinge", "tip")
    tip = rbd.forward_kinematics(model, jnp.array([np.pi / 2]))[2]
    assert_close(tip.position, np.array([0.0, 1, 0]), 1e-12)
    assert_close(rbd.forward_kinematics(model, jnp.zeros(1))[2].position, np.array([1.0, 0, 0]), 1e-12)


def test_ends_that_are_frames():
    """A joint between frames connects the links of these frames, at the frame's position."""
    frames = '<frame name="F" attached_to="tip"><pose>0 0 1 0 0 0</pose></frame><frame name="W" attached_to="base"/>'
    model = rbd.load_sdf(
        sdf(
            BASE
            + ROOTED
            + LINK.format("tip", "0 0 0 0 0 0")
            + frames
            + hinge(parent="W", child="F", axis="<xyz>0 1 0</xyz>")
        )
    )
    assert model.topology.parents == (-1, 0, 1)
    assert_close(model.placements.position[1], np.array([0.0, 0, 1]), 1e-12)


def test_masses():
    """Defaults are 1 kg and 1 kg m²; the pose of an inertial rotates its moments."""
    said = "<pose>0 1 0 0 0 1.5707963267948966</pose><mass>2</mass>"
    said += "<inertia><ixx>1</ixx><iyy>2</iyy><izz>2.5</izz></inertia>"
    model = rbd.load_sdf(
        sdf(BASE + ROOTED + f'<link name="tip"><inertial>{said}</inertial></link>' + hinge())
    )
    assert_close(model.inertias.mass, np.array([1.0, 2]), 0)
    assert_close(model.inertias.rotational_com[0], np.eye(3), 1e-15)
    assert_close(model.inertias.rotational_com[1], np.diag([2, 1, 2.5]), 1e-12)
    assert_close(model.inertias.com[1], np.array([0.0, 1, 0]), 1e-15)


def test_what_acts_along_axes():
    inside = """<limit><lower>-1</lower><upper>1e16</upper><effort>-1</effort><velocity>3</velocity></limit>
    <dynamics><damping>0.1</damping><friction>0.2</friction><spring_stiffness>0.3</spring_stiffness>
    <spring_reference>0.4</spring_reference></dynamics>"""
    model = rbd.load_sdf(sdf(arm(axis=f"<xyz>1 0 0</xyz>{inside}")))
    numbers = (
        "lower",
        "upper",
        "effort_limit",
        "velocity_limit",
        "damping",
        "friction",
        "stiffness",
        "spring_reference",
    )
    assert [getattr(model, name)[0] for name in numbers] == [-1, np.inf, np.inf, 3, 0.1, 0.2, 0.3, 0.4]
    bare = rbd.load_sdf(sdf(arm(kind="continuous", axis=f"<xyz>1 0 0</xyz>{inside}")))
    assert bare.lower[0] == -np.inf


def test_joints_of_two_axes():
    both = "<axis2><xyz>0 1 0</xyz><dynamics><damping>2</damping></dynamics></axis2>"
    for kind, family in (("universal", joints.Universal), ("revolute2", joints.Composite)):
        model = rbd.load_sdf(sdf(arm(tip="0 0 0 0 0 0", kind=kind, inside=both)))
        assert isinstance(model.joint("hinge"), family)
        np.testing.assert_array_equal(model.damping, [0, 2])
        turned = rbd.forward_kinematics(model, jnp.array([0.3, 0.0]))[1].rotation
        assert_close(turned[:, 2], Z, 1e-12)  # the first axis is z


def test_screws():
    """The pitch is in meters per revolution; the older element is in radians per meter, with the opposite sign."""
    for word, value in (("screw_thread_pitch", 0.5), ("thread_pitch", -2 * np.pi / 0.5)):
        model = rbd.load_sdf(sdf(arm(kind="screw", tip="0 0 0 0 0 0", inside=f"<{word}>{value}</{word}>")))
        tip = rbd.forward_kinematics(model, jnp.array([2 * np.pi]))[1]
        assert_close(tip.position, np.array([0.0, 0, 0.5]), 1e-12)


def test_mimic():
    numbers = "<multiplier>2</multiplier><offset>0.5</offset><reference>0.1</reference>"
    mimic = f'<xyz>0 0 1</xyz><mimic joint="hinge">{numbers}</mimic>'
    model = rbd.load_sdf(
        sdf(
            arm()
            + LINK.format("end", "0 0 0 0 0 0")
            + hinge(name="follow", parent="tip", child="end", axis=mimic)
        )
    )
    assert model.nv == 1
    np.testing.assert_allclose(model.joint_configurations(jnp.array([1.0])), [1, 2 * (1 - 0.1) + 0.5])


# Models and worlds.


def test_what_floats_and_what_is_static():
    one = LINK.format("rock", "1 2 3 0.1 0.2 0.3")
    model = rbd.load_sdf(sdf(one))
    assert isinstance(model.joint("root_joint"), joints.Free)
    assert_close(rbd.forward_kinematics(model, rbd.neutral(model))[0].rotation, TURNED, 1e-12)
    assert model.gravity[2] == -9.81
    still = rbd.load_sdf(sdf("<static>true</static>" + one))
    assert still.nv == 0
    assert_close(still.placements.position[0], np.array([1.0, 2, 3]), 1e-12)
    two = rbd.load_sdf(sdf(one + BASE))
    assert two.joint_names == ("rock:root_joint", "base:root_joint")


def test_a_world():
    """Names of several models have the model's name as a prefix.

    Poses place the models, and the world has the joints between them.
    """
    first = f'<model name="a"><pose>0 0 5 0 0 0</pose>{BASE}</model>'
    hand = f'<model name="hand"><pose>1 0 0 0 0 0</pose>{BASE}</model>'
    second = f'<model name="b"><pose relative_to="a">0 1 0 0 0 0</pose>{BASE}{hand}</model>'
    joint = hinge(parent="a::base", child="b::hand::base", axis="<xyz>0 0 1</xyz>")
    settings = "<gravity>0 0 -1</gravity><physics><max_step_size>0.002</max_step_size></physics>"
    world = f'<sdf version="1.10"><world name="w">{settings}{first}{second}{joint}</world></sdf>'
    model = rbd.load_sdf(world)
    assert model.name == "w" and model.settings.timestep == 0.002 and model.gravity[2] == -1
    assert model.body_names == ("a::base", "b::hand::base", "b::base")
    assert model.joint_names == ("a::base:root_joint", "hinge", "b::base:root_joint")
    placed = rbd.forward_kinematics(model, rbd.neutral(model)).position
    assert_close(placed, np.array([[0.0, 0, 5], [1, 1, 5], [0, 1, 5]]), 1e-12)
    alone = rbd.load_sdf(f'<sdf version="1.10"><world name="w">{first}</world></sdf>')
    assert alone.body_names == ("base",) and alone.name == "a" and alone.gravity[2] == -9.8
    assert rbd.load_sdf(world, gravity=(1.0, 0.0, 0.0)).gravity[0] == 1


def test_a_model_placed_by_one_of_its_frames():
    text = sdf(BASE + ROOTED.replace("world", "world") + '<frame name="top"><pose>0 0 2 0 0 0</pose></frame>')
    text = text.replace(
        '<model name="robot">', '<model name="robot" placement_frame="top"><pose>0 0 5 0 0 0</pose>'
    )
    assert_close(rbd.load_sdf(text).placements.position[0], np.array([0.0, 0, 3]), 1e-12)


def test_options(tmp_path):
    path = tmp_path / "arm.sdf"
    path.write_text(sdf(arm()))
    assert rbd.load(path).nv == 1
    assert rbd.load(path, lock={"hinge": 0.3}).nv == 0
    (tmp_path / "arm.xml").write_text(sdf(arm()))
    assert rbd.load(tmp_path / "arm.xml").joint_names == ("stand", "hinge")


def test_what_has_no_effect():
    decays, mass = "<velocity_decay><linear>1</linear></velocity_decay>", "<fluid_added_mass/>"
    said = f'<gravity>false</gravity><sensor name="imu"/>{decays}<inertial>{mass}</inertial>'
    content = sdf(
        BASE + ROOTED + f'<link name="tip">{said}</link>' + hinge() + '<plugin name="drive" filename="x"/>'
    )
    with pytest.warns(
        rbd.ModelWarning,
        match="links without gravity 'tip'; velocity decay of links 'tip'; added mass of links 'tip'; sensors 'imu'; "
        "plugins 'drive'",
    ):
        model = rbd.load_sdf(content)
    assert len(model.unsupported) == 5
    with pytest.raises(rbd.ModelError, match="strict=False"):
        rbd.load_sdf(content, strict=True)
    world = f'<sdf version="1.9"><world name="w"><state name="later"/><actor name="walker"/>{content[19:-6]}</world></sdf>'
    assert "actors 'walker'; states 'later'" in "; ".join(quietly(rbd.load_sdf, world).unsupported)


BAD = {
    "URDF": ('<robot name="r"/>', "read it with load_urdf"),
    "MJCF": ("<mujoco/>", "read it with load_mjcf"),
    "no version": ("<sdf><model name='m'/></sdf>", "has no version"),
    "version 2": ('<sdf version="2.0"/>', "its version is '2.0'"),
    "nothing": ('<sdf version="1.9"/>', "no model"),
    "no links": (sdf(""), "model 'robot' (line 1) has no links"),
    "two worlds": ('<sdf version="1.9"><world name="a"/><world name="b"/></sdf>', "the worlds 'a', 'b'; keep one"),
    "an include": (
        sdf(BASE + "<include><uri>model://x</uri></include>"),
        "<include> in line 3 (model://x): includes are not supported",
    ),
    "a name twice": (sdf(BASE + BASE), "link 'base' (line 3) has the name of link 'base' (line 2)"),
    "a joint twice": (sdf(arm() + hinge()), "joint 'hinge' (line 6) has the name of joint 'hinge' (line 5)"),
    "the world as a name": (sdf('<link name="world"/>'), "the name is reserved"),
    "no frame": (
        sdf(LINK.format("a", "").replace("<pose>", '<pose relative_to="bse">0 0 0 0 0 0') + BASE),
        "no frame 'bse'; did you mean 'base'",
    ),
    "circular poses": (
        sdf('<link name="a"><pose relative_to="b"/></link><link name="b"><pose relative_to="a"/></link>'), "relative to itself",
    ),
    "an inertia elsewhere": (
        sdf('<link name="a"><inertial><pose relative_to="b">0 0 0 0 0 0</pose></inertial></link>'),
        "of a link is in its own frame",
    ),
    "short pose": (sdf(LINK.format("a", "0 0 0")), "<pose> in line 2, of link 'a'='0 0 0' has 3 numbers; it takes 6"),
    "a pose of words": (sdf(LINK.format("a", "0 0 0 x 0 0")), "is not numbers"),
    "no child": (sdf(arm().replace("<child>tip</child>", "")), "joint 'hinge' (line 5) has no <child>"),
    "unknown parent": (sdf(arm(parent="bas")), "there is no frame 'bas'; did you mean 'base'?"),
    "its own parent": (sdf(arm(parent="tip")), "joins link 'tip' to itself"),
    "the world as child": (sdf(arm(parent="tip", child="world")), "exchange parent and child"),
    "two parents": (
        sdf(arm() + hinge(name="again")),
        "link 'tip' has two parents, by joint 'hinge' (line 5) and joint 'again' (line 6)",
    ),
    "a circle": (
        sdf(BASE + LINK.format("tip", "") + hinge() + hinge(name="back", parent="tip", child="base")), "form a loop",
    ),
    "an unknown type": (sdf(arm(kind="revolut")), "its type is 'revolut'; did you mean 'revolute'?"),
    "a gearbox": (sdf(arm(kind="gearbox")), "CoordinateCoupling"),
    "no axis": (sdf(arm(axis="")), "joint 'hinge' (line 5) has no <axis>"),
    "a zero axis": (sdf(arm(axis="<xyz>0 0 0</xyz>")), "<axis> in line 5, of joint 'hinge': its direction"),
    "parallel axes": (sdf(arm(kind="universal", inside="<axis2><xyz>0 0 1</xyz></axis2>")), "parallel"),
    "limits the wrong way": (sdf(arm(axis="<xyz>0 0 1</xyz><limit><lower>1</lower><upper>0</upper></limit>")), "exchange them"),
    "a negative mass": (sdf('<link name="a"><inertial><mass>-1</mass></inertial></link>'), "its mass must not be negative"),
    "shapes for inertia": (sdf('<link name="a"><inertial auto="true"/></link>'), "cannot be computed from shapes"),
    "mimics nobody": (sdf(arm(axis='<xyz>0 0 1</xyz><mimic joint="hing"/>')), "which is not a joint; did you mean 'hinge'?"),
    "no such canonical link": (sdf(BASE).replace('name="robot"', 'name="robot" canonical_link="bas"'), "did you mean 'base'?"),
    "an entity": ('<!DOCTYPE x [<!ENTITY a "b">]>' + sdf(BASE), "the entity 'a', which is not supported"),
    "not true": (sdf("<static>perhaps</static>" + BASE), "must be true or false"),
}  # fmt: skip


@pytest.mark.parametrize("content, message", BAD.values(), ids=BAD)
def test_bad_input(content, message):
    with pytest.raises(rbd.ModelError, match=re.escape(message)) as error:
        quietly(rbd.load_sdf, content)
    assert str(error.value).startswith("SDF text: ")


def test_a_missing_file(tmp_path):
    with pytest.raises(rbd.ModelError, match="give the path of an SDF file"):
        rbd.load_sdf(tmp_path / "none.sdf")


def test_written_again_as_urdf():
    model = rbd.load_sdf(sdf(arm(inside="<pose>-1 0 0 0 0 0</pose>")))
    assert_same_model(model, rbd.load_urdf(rbd.to_urdf(model)))
