"""Bad URDF raises errors with the fault, its place and a remedy, before any number reaches JAX."""

import traceback
from pathlib import Path

import pytest

import rbd_jax as rbd


INERTIAL = '<inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>'


def link(name, inside=INERTIAL):
    return f'<link name="{name}">{inside}</link>\n'


def joint(name, parent, child, kind="revolute", inside=""):
    return f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>{inside}</joint>\n'


def robot(*parts, name="wrong"):
    return f'<robot name="{name}">\n' + "".join(parts) + "</robot>\n"


def arm(inside="", kind="revolute", second=INERTIAL):
    """Returns a base and one link, with the given elements in the joint."""
    return robot(link("base"), link("tip", second), joint("elbow", "base", "tip", kind, inside))


def inertial(mass='<mass value="1"/>', inertia=None, origin=""):
    inertia = inertia or '<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/>'
    return f"<inertial>{origin}{mass}{inertia}</inertial>"


LAUGHS = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 10))
BOMB = f'<!DOCTYPE robot [<!ENTITY l0 "ha">{LAUGHS}]>'

# URDF text to load, and words that the message must contain.
BAD = {
    # The text.
    "not XML": ("<robot name='r'><link</robot>", ["URDF text", "not well-formed XML", "line 1", "column"]),
    "nothing but a declaration": ("<?xml version='1.0'?>", ["no element found", "line 1"]),
    "cut off": ("<robot name='r'>\n<link name='a'>", ["no element found", "line 2"]),
    "two documents": (robot(link("a")) + "<robot/>", ["junk after document element"]),
    "entity bomb": (BOMB + robot(link("&l9;")), ["line 1", "entity 'l0'", "replace it"]),
    "external entity": (
        '<!DOCTYPE robot [<!ENTITY secret SYSTEM "file:///etc/passwd">]>' + robot(link("&secret;")),
        ["entity 'secret'"],
    ),
    "parameter entity": ('<!DOCTYPE robot [<!ENTITY % p "x">]>' + robot(link("a")), ["entity 'p'"]),
    "external document type": (
        '<!DOCTYPE robot SYSTEM "u.dtd">' + robot(link("a")),
        ["'u.dtd'", "remove it"],
    ),
    "entity nobody declared": (robot(link("&name;")), ["undefined entity", "line 2"]),
    # The robot.
    "SDF": ("<sdf version='1.7'><model name='m'/></sdf>", ["<sdf>", "SDF", "load_sdf"]),
    "MJCF": ("<mujoco><worldbody/></mujoco>", ["<mujoco>", "load_mjcf"]),
    "another language": ("<html/>", ["<html>", "<robot>"]),
    "robot without name": ("<robot><link name='a'/></robot>", ["<robot> in line 1 has no name"]),
    "no links": (robot(), ["no links"]),
    "xacro elements": (
        robot('<xacro:include filename="a.xacro"/>'),
        ["<xacro:include> in line 2", "expand the file first", "xacro robot.xacro"],
    ),
    "xacro in a name": (robot(link("${prefix}base")), ["'${prefix}base'", "expand the file first"]),
    "xacro in a number": (
        arm('<origin xyz="0 0 ${length}"/>'),
        ["<origin> in line 4, of joint 'elbow'", "xyz='0 0 ${length}'", "expand the file first"],
    ),
    # The tree.
    "two links of one name": (robot(link("a"), link("a")), ["two links are called 'a'", "lines 2 and 3"]),
    "two joints of one name": (
        robot(link("a"), link("b"), link("c"), joint("j", "a", "b"), joint("j", "b", "c")),
        ["two joints are called 'j'", "lines 5 and 6"],
    ),
    "link without name": (robot("<link/>"), ["<link> in line 2 has no name"]),
    "joint without name": (
        robot(link("a"), link("b"), '<joint type="fixed"><parent link="a"/><child link="b"/></joint>'),
        ["<joint> in line 4 has no name"],
    ),
    "two roots": (robot(link("a"), link("b")), ["the links 'a', 'b' have no parent", "fixed joints"]),
    "circle": (
        robot(link("a"), link("b"), joint("ab", "a", "b"), joint("ba", "b", "a")),
        ["no root", "loop", "'a' -> 'b' -> 'a'", "remove one"],
    ),
    "circle beside the root": (
        robot(link("base"), link("a"), link("b"), joint("ab", "a", "b"), joint("ba", "b", "a")),
        ["is not attached to its root", "'a' -> 'b' -> 'a'"],
    ),
    "link on itself": (robot(link("a"), joint("j", "a", "a")), ["loop: 'a' -> 'a'"]),
    "two parents": (
        robot(link("a"), link("b"), link("c"), joint("x", "a", "c"), joint("y", "b", "c")),
        ["link 'c' has two parents", "joint 'x'", "joint 'y'", "constraint"],
    ),
    "missing parent link": (
        robot(link("base"), link("tip"), joint("elbow", "bass", "tip")),
        ["joint 'elbow' (line 4)", "its parent 'bass' is not a link", "did you mean 'base'?"],
    ),
    "missing child link": (
        robot(link("base"), joint("elbow", "base", "tip")),
        ["joint 'elbow' (line 3)", "its child 'tip' is not a link", "there are: 'base'"],
    ),
    "no parent": (
        robot(link("base"), '<joint name="elbow" type="fixed"><child link="base"/></joint>'),
        ["joint 'elbow' (line 3) has no <parent>", '<parent link="..."/>'],
    ),
    "no child": (
        robot(link("base"), '<joint name="elbow" type="fixed"><parent link="base"/></joint>'),
        ["joint 'elbow' (line 3) has no <child>"],
    ),
    "parent without link": (
        robot(
            link("base"), '<joint name="elbow" type="fixed"><parent name="base"/><child link="base"/></joint>'
        ),
        ["parent 'base' (line 3) has no link"],
    ),
    "world in the middle": (
        robot(link("base"), link("world"), joint("j", "base", "world")),
        ["link 'world' (line 3)", "joint 'j'", "rename the link"],
    ),
    # Inertias.
    "negative mass": (
        arm(second=inertial('<mass value="-2"/>')),
        ["link 'tip' (line 3)", "its mass must not be negative, got -2"],
    ),
    "mass nan": (
        arm(second=inertial('<mass value="nan"/>')),
        ["<mass> in line 3, of link 'tip'", "'nan' is not finite"],
    ),
    "mass infinite": (arm(second=inertial('<mass value="inf"/>')), ["'inf' is not finite"]),
    "mass overflows": (arm(second=inertial('<mass value="1e999"/>')), ["'1e999' is not finite"]),
    "mass is a word": (arm(second=inertial('<mass value="heavy"/>')), ["value='heavy' is not a number"]),
    "mass with a comma": (arm(second=inertial('<mass value="1,5"/>')), ["value='1,5' is not a number"]),
    "mass as only Python writes it": (arm(second=inertial('<mass value="1_0"/>')), ["'1_0' is not a number"]),
    "mass of two numbers": (arm(second=inertial('<mass value="1 2"/>')), ["has 2 numbers; it takes 1"]),
    "mass without value": (
        arm(second=inertial('<mass kg="1"/>')),
        ["<mass> in line 3, of link 'tip' has no value"],
    ),
    "no mass": (arm(second=inertial("")), ["<inertial> in line 3, of link 'tip' has no <mass>"]),
    "no inertia": (
        arm(second='<inertial><mass value="1"/></inertial>'),
        ["<inertial> in line 3, of link 'tip' has no <inertia>"],
    ),
    "inertia not complete": (
        arm(second=inertial(inertia='<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0"/>')),
        ["<inertia> in line 3, of link 'tip' has no iyz"],
    ),
    "two inertials": (arm(second=INERTIAL * 2), ["link 'tip' (line 3) has 2 <inertial>; keep one"]),
    "centre of mass of two numbers": (
        arm(second=inertial(origin='<origin xyz="0 1"/>')),
        ["<origin> in line 3, of link 'tip'", "xyz='0 1' has 2 numbers; it takes 3"],
    ),
    # Joints.
    "no type": (
        robot(link("a"), link("b"), '<joint name="j"><parent link="a"/><child link="b"/></joint>'),
        ["joint 'j' (line 4) has no type"],
    ),
    "unknown type": (
        arm(kind="hinge"),
        ["joint 'elbow' (line 4)", "'hinge'", "revolute, continuous, prismatic, fixed, floating, planar"],
    ),
    "origin nan": (
        arm('<origin rpy="0 nan 0"/>'),
        ["<origin> in line 4, of joint 'elbow'", "rpy='0 nan 0' is not finite"],
    ),
    "zero axis": (
        arm('<axis xyz="0 0 0"/>'),
        ["joint 'elbow' (line 4)", "its axis [0.0, 0.0, 0.0] has no direction"],
    ),
    "axis of two numbers": (
        arm('<axis xyz="0 1"/>'),
        ["<axis> in line 4, of joint 'elbow'", "xyz='0 1' has 2 numbers; it takes 3, separated by spaces"],
    ),
    "axis with commas": (arm('<axis xyz="0, 0, 1"/>'), ["xyz='0, 0, 1' is not numbers"]),
    "axis without numbers": (arm("<axis/>"), ["<axis> in line 4, of joint 'elbow' has no xyz"]),
    "limit is a word": (
        arm('<limit lower="low" upper="1"/>'),
        ["<limit> in line 4, of joint 'elbow'", "lower='low' is not a number"],
    ),
    "limit nan": (arm('<limit lower="nan"/>'), ["lower='nan' is not finite"]),
    "limits exchanged": (arm('<limit lower="1" upper="-1"/>'), ["lower=1 is above upper=-1", "exchange"]),
    "negative effort": (arm('<limit effort="-3"/>'), ["effort='-3' must not be negative"]),
    "damping is a word": (
        arm('<dynamics damping="oil"/>'),
        ["<dynamics> in line 4, of joint 'elbow'", "damping='oil' is not a number"],
    ),
    # Mimic.
    "mimic nobody": (
        robot(
            link("a"),
            link("b"),
            link("c"),
            joint("finger", "a", "b"),
            joint("thumb", "b", "c", inside='<mimic joint="fingre"/>'),
        ),
        [
            "joint 'thumb' (line 6) mimics 'fingre', which is not a joint",
            "did you mean 'finger'?",
            "mimic='free'",
        ],
    ),  # fmt: skip
    "mimic without joint": (
        arm('<mimic multiplier="2"/>'),
        ["<mimic> in line 4, of joint 'elbow' has no joint"],
    ),
    "mimic itself": (arm('<mimic joint="elbow"/>'), ["joint 'elbow' mimics itself"]),
    "mimic in a circle": (
        robot(
            link("a"),
            link("b"),
            link("c"),
            joint("x", "a", "b", inside='<mimic joint="y"/>'),
            joint("y", "b", "c", inside='<mimic joint="x"/>'),
        ),
        ["mimics itself, by way of"],
    ),  # fmt: skip
    "mimic a weld": (
        robot(
            link("a"),
            link("b"),
            link("c"),
            joint("weld", "a", "b", "fixed"),
            joint("y", "b", "c", inside='<mimic joint="weld"/>'),
        ),
        [
            "joint 'y' mimics 'weld'",
            "joint 'weld' has 0 degrees of freedom",
            "only joints with one",
        ],
    ),  # fmt: skip
    "mimic multiplier": (
        arm('<mimic joint="elbow" multiplier="x"/>'),
        ["<mimic> in line 4, of joint 'elbow'", "multiplier='x' is not a number"],
    ),
}


def refused(*args, **kwargs):
    """Returns the error message of loading, and asserts that it does not come from JAX."""
    with pytest.raises(rbd.ModelError) as caught:
        rbd.load_urdf(*args, **kwargs)
    files = [Path(frame.filename) for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert not [file for file in files if {"jax", "jaxlib", "equinox"} & set(file.parts)], files
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return str(caught.value)


@pytest.mark.parametrize("text, words", BAD.values(), ids=BAD)
def test_bad_robots(text, words):
    message = refused(text)
    assert message.startswith("URDF text: ")
    for word in words:
        assert word in message, f"{word!r} is not in: {message}"


def test_the_file_is_named(tmp_path):
    path = tmp_path / "bad arm.urdf"
    path.write_text(arm('<axis xyz="0 0 0"/>'))
    assert refused(path).startswith(f"{path}: joint 'elbow'")
    assert refused(str(path)).startswith(f"{path}: joint 'elbow'")


def test_files_that_are_none(tmp_path):
    missing = tmp_path / "arm.urdf"
    assert f"{missing}: there is no such file" in refused(missing)
    assert f"{tmp_path}: it is a directory" in refused(tmp_path)
    assert "directory" in refused("")
    assert "cannot be read" in refused("a" * 5000)
    assert "cannot be read" in refused("a\0b")
    binary = tmp_path / "mesh.urdf"
    binary.write_bytes(bytes(range(256)))
    assert f"{binary}: it is not UTF-8" in refused(binary)
    foreign = tmp_path / "foreign.urdf"
    foreign.write_text("<?xml version='1.0' encoding='martian'?>" + arm())
    assert "martian" in refused(foreign)


@pytest.mark.parametrize(
    "lock, words",
    [
        ("elbwo", ["no joint 'elbwo' to lock", "did you mean 'elbow'?"]),
        (["elbow", "wrist"], ["no joint 'wrist' to lock"]),
        ({"elbow": [1.0, 2.0]}, ["'elbow' cannot be locked", "shape (2,)", "nq = 1"]),
        ({"elbow": "bent"}, ["'elbow' cannot be locked at 'bent'", "a number"]),
        ({"elbow": float("nan")}, ["'elbow' cannot be locked at nan"]),
        ({"root_joint": 1.0}, ["'root_joint' cannot be locked", "nq = 7"]),
    ],
    ids=str,
)
def test_bad_locks(lock, words):
    message = refused(arm(), floating_base=True, lock=lock)
    for word in ["URDF text: ", *words]:
        assert word in message, f"{word!r} is not in: {message}"


def test_a_lock_of_an_unknown_joint_is_an_unknown_name():
    with pytest.raises(rbd.UnknownNameError):
        rbd.load_urdf(arm(), lock="elbwo")


def test_a_follower_cannot_be_locked():
    text = robot(
        link("a"),
        link("b"),
        link("c"),
        joint("x", "a", "b"),
        joint("y", "b", "c", inside='<mimic joint="x"/>'),
    )
    message = refused(text, lock="y")
    assert "joint 'y' cannot be locked, since it mimics 'x'" in message and "lock 'x'" in message
    assert rbd.load_urdf(text, lock="y", mimic="free").nv == 1


def test_bad_mimic_argument():
    message = refused(arm(), mimic="coupled")
    assert (
        "mimic must be 'couple' or 'free', got 'coupled'" in message and "did you mean 'couple'?" in message
    )


def test_a_dangling_mimic_loads_as_a_free_joint():
    assert rbd.load_urdf(arm('<mimic joint="nobody"/>'), mimic="free").nv == 1


def test_inertias_that_no_body_has_are_one_warning_or_an_error():
    thin = inertial(inertia='<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="5"/>')
    void = inertial(mass='<mass value="0"/>')
    text = robot(link("base"), link("thin", thin), link("void", void),
                 joint("a", "base", "thin"), joint("b", "thin", "void"))  # fmt: skip
    with pytest.warns(rbd.ModelWarning) as caught:
        rbd.load_urdf(text)
    assert len(caught) == 1
    message = str(caught[0].message)
    for word in ["'wrong'", "'thin'", "triangle inequality", "'void'", "without mass"]:
        assert word in message
    assert "'base'" not in message
    strict = refused(text, strict=True)
    assert "'thin'" in strict and "strict=False" in strict


@pytest.mark.parametrize(
    "text",
    [
        "<!DOCTYPE robot>" + robot(link("a")),
        "<!-- first -->\n" + robot(link("a")),
        "\ufeff\n  " + robot(link("a")),
        '<?xml version="1.0" encoding="latin-1"?>' + robot(link("a")),
        '<robot name="r" xmlns:xacro="http://wiki.ros.org/xacro">' + link("a") + "</robot>",
    ],
    ids=["document type", "comment", "byte order mark", "encoding", "name space of xacro"],
)
def test_harmless_oddities_pass(text):
    assert rbd.load_urdf(text).nb == 1
