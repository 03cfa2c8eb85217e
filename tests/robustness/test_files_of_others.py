"""Wrong, hostile or non-robot files: each raises a one-line error soon, without side effects."""

import os
import subprocess
import sys
import threading
import time
import warnings

import pytest

import rbd_jax as rbd
from rbd_jax.files import Limits


LINK = '<link name="{}"><inertial>{}<mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>'
JOINT = '<joint name="{}" type="revolute"><parent link="{}"/><child link="{}"/><limit effort="1" velocity="1"/>{}</joint>'
GEOM = '<body name="b"><joint/><geom size="1"/></body>'


def urdf(more="", inside="", origin="", first="a"):
    links = LINK.format(first, "") + LINK.format("b", origin)
    return f'<robot name="r">{links}{JOINT.format("j", first, "b", inside)}{more}</robot>'


def mjcf(world=GEOM, before=""):
    return f"<mujoco>{before}<worldbody>{world}</worldbody></mujoco>"


def chain_of_mimics(multiplier, count=12):
    """Returns joints that mimic one another in a chain; the first of them is `j`."""
    links = "".join(LINK.format(f"l{i}", "") for i in range(count))
    names = ["j", *(f"m{i}" for i in range(count))]
    joints = (
        JOINT.format(
            name, "a", f"l{i}", f'<mimic joint="{names[i]}" multiplier="{multiplier}"/>'
        )  # fmt: skip
        for i, name in enumerate(names[1:])
    )
    return links + "".join(joints)


def test_the_sound_ones_are_read():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rbd.load_urdf(urdf()).nv == 1
        assert rbd.load_mjcf(mjcf()).nv == 1
        assert rbd.load_urdf(urdf(chain_of_mimics(2))).nv == 1


WRONG = {
    "a character of another script's digits": (
        urdf().replace('mass value="1"', 'mass value="١"'),
        "is not a number",
    ),
    "an underscore": (urdf().replace('mass value="1"', 'mass value="1_0"'), "is not a number"),
    "a name with a line feed": (urdf(first="a&#10;b"), "characters that are not printable"),
    "a name that turns the writing around": (urdf(first="a\u202eb"), "characters that are not printable"),
    "an attribute by default": (
        '<!DOCTYPE robot [<!ATTLIST mass value CDATA "7">]>' + urdf(),
        "DOCTYPE gives <mass>",
    ),
    "an entity": ('<!DOCTYPE robot [<!ENTITY x "y">]>' + urdf(), "the entity 'x', which is not supported"),
    "XInclude": (
        urdf('<xi:include href="/etc/passwd" xmlns:xi="http://www.w3.org/2001/XInclude"/>'),
        "is XInclude",
    ),
    "an angle without a place": (urdf(origin='<origin rpy="1e300 0 0"/>'), "a full turn is"),
    "mimics that overflow": (urdf(chain_of_mimics(1e30)), "by way of others"),
    "a mimic whose inertia overflows": (urdf(chain_of_mimics(1e200, 1)), "the multiplier is too large"),
    "a centre of mass that overflows": (urdf(origin='<origin xyz="1e200 0 0"/>'), "is not finite"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_told(what):
    content, says = WRONG[what]
    with pytest.raises(rbd.ModelError, match=says):
        rbd.load_urdf(content)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (urdf(inside='<dynamics dampng="3"/>'), "did you mean 'damping'"),
        (urdf(inside='<dynamic damping="3"/>'), "did you mean <dynamics>"),
        (urdf('<limit lower="3"/>'), "it belongs in <joint>"),
        (urdf(inside='<Mimic joint="j"/>'), "did you mean <mimic>"),
    ],
)
def test_words_that_nobody_would_find_are_told(content, says):
    with pytest.warns(rbd.ModelWarning, match=says):
        rbd.load_urdf(content)
    with pytest.raises(rbd.ModelError, match=says):
        rbd.load_urdf(content, strict=True)


def sdf(inside="", more="", link="", name="r"):
    axis = f"<axis><xyz>0 1 0</xyz>{inside}</axis>"
    joint = f'<joint name="j" type="revolute"><parent>a</parent><child>b</child>{axis}{more}</joint>'
    return f'<sdf version="1.9"><model name="{name}"><link name="a">{link}</link><link name="b"/>{joint}</model></sdf>'


BOX = '<collision name="c"><geometry><box><size>1 1 1</size></box></geometry></collision>'


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (sdf("<dynamics><dampng>3</dampng></dynamics>"), "did you mean <damping>"),
        (sdf("<dynamic><damping>3</damping></dynamic>"), "did you mean <dynamics>"),
        (sdf(more="<limit><lower>3</lower></limit>"), "it belongs in <axis> or <axis2>"),
        (sdf("<limits><lower>1</lower></limits>"), "did you mean <limit>"),
        (sdf(link="<inertail><mass>3</mass></inertail>"), "did you mean <inertial>"),
        (sdf(link='<pose relativ_to="b">0 0 0 0 0 0</pose>'), "did you mean 'relative_to'"),
        (sdf(link=BOX.replace("size>", "sze>")), "did you mean <size>"),
    ],
)
def test_words_of_sdf_that_nobody_would_find_are_told(content, says):
    with pytest.warns(rbd.ModelWarning, match=says):
        rbd.load_sdf(content)
    with pytest.raises(rbd.ModelError, match=says):
        rbd.load_sdf(content, strict=True)


@pytest.mark.parametrize(
    "link", [BOX, '<sensor name="s" type="imu"><pose>1 0 0 0 0 0</pose></sensor>', "<drake:limit/>"]
)
def test_what_sdf_has_for_others_is_left_alone(link):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert (
            rbd.load_sdf(
                sdf("<dynamics/>", "<physics><ode><limit><cfm>0</cfm></limit></ode></physics>", link)
            ).nv
            == 7
        )
    assert not [one for one in told if "not read" in str(one.message)]


def test_a_model_named_by_a_colon():
    model = rbd.load_sdf(sdf(link=BOX, name=":"))
    assert model.name == ":" and [shape.name for shape in model.shapes] == ["a:c"]


def test_names_of_mjcf_that_are_no_text(tmp_path):
    """MuJoCo accepts such names."""
    file = tmp_path / "robot.xml"
    file.write_bytes(mjcf(GEOM.replace('name="b"', 'name="b?"')).encode().replace(b"?", b"\x8a"))
    with pytest.raises(rbd.ModelError, match="is not UTF-8"):
        rbd.load_mjcf(file)


@pytest.mark.parametrize(
    ("body", "more", "says"),
    [
        (
            'pos="1e308 0 0"',
            '<equality><connect body1="b" anchor="1e308 0 0"/></equality>',
            "Connect: frame_b",
        ),
        (
            'pos="0 0 0"><inertial pos="1e200 0 0" mass="1" diaginertia="1 1 1"/',
            "",
            "its inertia has a number",
        ),
    ],
)
def test_numbers_of_mjcf_that_overflow_on_the_way(body, more, says):
    """MuJoCo accepts the numbers. The error names the file, and NumPy does not warn before."""
    text = (
        f'<mujoco><worldbody><body name="b" {body}><joint/><geom size="1"/></body></worldbody>{more}</mujoco>'
    )
    with warnings.catch_warnings(), pytest.raises(rbd.ModelError, match=f"^MJCF text: .*{says}.* not finite"):
        warnings.simplefilter("error")
        rbd.load_mjcf(text)


@pytest.mark.parametrize(
    "more",
    [
        '<gazebo reference="a"><mu1>1</mu1></gazebo>',
        "<drake:limit/>",
        '<ros2_control name="x"><joint name="j"/></ros2_control>',
    ],
)
def test_extensions_are_left_alone(more):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rbd.load_urdf(urdf(more)).nv == 1


@pytest.mark.parametrize("load", [rbd.load_urdf, rbd.load_sdf, rbd.load_mjcf, rbd.load])
def test_what_is_no_file_is_not_waited_for(load, tmp_path):
    pipe = tmp_path / "robot.urdf"
    os.mkfifo(pipe)
    told = []

    def attempt():
        try:
            load(pipe)
        except rbd.ModelError as error:
            told.append(str(error))

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(20)
    assert told, "it waits"
    assert "pipe" in told[0]


@pytest.mark.parametrize("load", [rbd.load_urdf, rbd.load_sdf])
def test_bytes_that_are_no_text(load, tmp_path):
    file = tmp_path / "robot.urdf"
    file.write_bytes(urdf().encode() + b"\n\xff\xfe")
    with pytest.raises(rbd.ModelError, match=r"not UTF-8 \(byte 0xff in line 2\)"):
        load(file)


@pytest.mark.parametrize("load", [rbd.load_urdf, rbd.load_sdf, rbd.load_mjcf])
def test_comments_that_do_not_end_take_no_time(load):
    begin = time.perf_counter()
    with pytest.raises(rbd.ModelError, match="well-formed"):
        load("<!--" * 40_000)
    with pytest.raises(rbd.ModelError, match="well-formed"):
        load("<mujoco>" + "<!--" * 40_000)
    assert time.perf_counter() - begin < 5


def test_text_in_many_pieces_takes_no_time():
    begin = time.perf_counter()
    assert rbd.load_urdf(urdf(f"<notes>{'x<!---->' * 200_000}</notes>")).nv == 1
    assert time.perf_counter() - begin < 20


@pytest.mark.parametrize(
    ("load", "content", "limits", "says"),
    [
        (rbd.load_urdf, urdf(), Limits(size=100), "more than the limit"),
        (rbd.load_sdf, urdf(), Limits(size=100), "more than the limit"),
        (rbd.load_mjcf, mjcf(), Limits(size=50), "more than the limit"),
        (rbd.load_urdf, urdf(), Limits(elements=5), "more than 5 elements"),
        (rbd.load_urdf, urdf("<x>" * 200 + "</x>" * 200), Limits(), "more than 100 elements within"),
        (
            rbd.load_mjcf,
            mjcf(f'<replicate count="1000"><replicate count="1000">{GEOM}</replicate></replicate>'),
            Limits(),
            "more than 100,000 elements",
        ),
        (
            rbd.load_mjcf,
            mjcf(before='<asset><texture builtin="flat" type="2d" width="60000" height="60000"/></asset>'),
            Limits(),
            "pixels in textures",
        ),
    ],
)
def test_what_is_too_large_is_told(load, content, limits, says):
    with pytest.raises(rbd.ModelError, match=says):
        load(content, limits=limits)


def test_limits_can_be_raised_and_are_checked(unchecked):
    deep = urdf("<x>" * 200 + "</x>" * 200)
    assert rbd.load_urdf(deep, limits=Limits(depth=300)).nv == 1
    with pytest.raises(ValueError, match="depth must be a positive number, got 0"):
        Limits(depth=0)
    with pytest.raises(ValueError, match="limits is a int"):
        rbd.load_urdf(urdf(), limits=3)


def test_messages_end():
    content = urdf().replace('child link="b"', f'child link="{"z" * 100_000}"')
    with pytest.raises(rbd.ModelError) as told:
        rbd.load_urdf(content)
    assert len(str(told.value).encode()) <= 2000
    assert "did you mean" in str(told.value) or "there are" in str(told.value)


def test_messages_obey_nobody():
    error = rbd.ModelError("red: \x1b[31m and \u202e around\nnext")
    assert str(error) == "red: \\x1b[31m and \\u202e around\nnext"


def test_an_untrusted_file_is_compiled_apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    here, apart = rbd.load_mjcf(mjcf()), rbd.load_mjcf(mjcf(), untrusted=True)
    assert repr(here) == repr(apart)
    file = tmp_path / "robot.xml"
    file.write_text(mjcf())
    assert repr(rbd.load(file, untrusted=True)) == repr(here)
    with pytest.raises(rbd.ModelError, match="MuJoCo does not accept it"):
        rbd.load_mjcf(mjcf(before="<optin/>"), untrusted=True)
    with pytest.raises(rbd.ModelError, match=r"within 0.01 s"):
        rbd.load_mjcf(mjcf(), untrusted=True, limits=Limits(seconds=0.01))
    with pytest.raises(rbd.ModelError, match="exceeded the limit of .* of memory"):
        rbd.load_mjcf(mjcf(), untrusted=True, limits=Limits(memory=1_000_000))
    assert sorted(os.listdir(tmp_path)) == ["robot.xml"]


FAILS = '<equality><connect body1="b" body2="b" anchor=""/></equality>'
AFTER_A_FAILURE = """if True:
    import rbd_jax as rbd
    for more, told in (({fails!r}, "MuJoCo"), ({fails!r}, "MuJoCo"), ("", None)):
        try:
            model = rbd.load_mjcf({world!r}.replace("<worldbody>", more + "<worldbody>"))
            assert told is None and model.nv == 1
        except rbd.ModelError as error:
            assert told in str(error), error
"""


def test_after_a_failure_of_mujoco_others_are_read():
    """MuJoCo fails at an empty anchor, and would then hang at the next file."""
    code = AFTER_A_FAILURE.format(fails=FAILS, world=mjcf())
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
