"""Random changes of robot files, and properties of everything that is read from them."""

from __future__ import annotations

import random
import re
import warnings
from pathlib import Path

import numpy as np

import rbd_jax as rbd


#: Invalid numbers, and words in place of numbers.
VALUES = (
    "nan", "inf", "-inf", "-1", "0", "1e308", "-1e308", "1e-320", "1e400", "", " ", "1 2", "1 2 3 4", "0x10", "1_0", "one", "١",
    "NaN", "1e", "--1", "1,5", "world", "b", "j", "&lt;", "true", "\t3\n", "9" * 400,
)  # fmt: skip

#: Messages from outside the library.
RAW = re.compile(
    "broadcast|operands|could not convert|not enough values|invalid literal|codec can|out of bounds|NoneType|has no attribute"
)

LINK = """<link name="{0}"><inertial><origin xyz="0.1 0 0.2" rpy="0.1 0.2 0.3"/><mass value="{1}"/>
<inertia ixx="0.02" iyy="0.03" izz="0.04" ixy="0.001" ixz="0.002" iyz="0"/></inertial>
<visual><origin xyz="0 0 0.1"/><geometry><{2}/></geometry><material name="m"><color rgba="1 0.5 0 1"/></material></visual>
<collision><geometry><{2}/></geometry></collision></link>"""

#: A URDF with all joints and shapes, a mimic, a transmission.
ROBOT = "".join(
    [
        '<?xml version="1.0"?><robot name="r"><material name="m"><color rgba="0 0 1 1"/></material>',
        LINK.format("a", 3, 'box size="0.1 0.2 0.3"'),
        LINK.format("b", 1, 'cylinder radius="0.1" length="0.4"'),
        LINK.format("c", 0.5, 'sphere radius="0.1"'),
        LINK.format("d", 0.2, 'mesh filename="none.stl" scale="1 1 1"'),
        LINK.format("e", 0.1, 'capsule radius="0.1" length="0.4"'),
        '<joint name="j" type="revolute"><origin xyz="0 0 1" rpy="0 0 0.5"/><parent link="a"/><child link="b"/>',
        '<axis xyz="0 1 0"/>',
        '<limit lower="-1" upper="2" effort="30" velocity="5"/><dynamics damping="0.1" friction="0.2"/></joint>',
        '<joint name="k" type="prismatic"><parent link="b"/><child link="c"/><axis xyz="1 0 1"/>',
        '<limit lower="0" upper="1" effort="10" velocity="1"/><mimic joint="j" multiplier="0.5" offset="0.1"/></joint>',
        '<joint name="l" type="continuous"><parent link="c"/><child link="d"/><axis xyz="0 0 1"/></joint>',
        '<joint name="f" type="floating"><parent link="a"/><child link="e"/></joint>',
        '<transmission name="t"><type>transmission_interface/SimpleTransmission</type><joint name="j">',
        "<hardwareInterface>EffortJointInterface</hardwareInterface></joint>",
        '<actuator name="motor"><mechanicalReduction>50</mechanicalReduction></actuator></transmission></robot>',
    ]
)


#: Joints of all types and their references, shapes, sites, classes, tendons, constraints, actuators, sensors, a key.
MJCF = """<mujoco model="r"><compiler angle="degree" autolimits="true"/>
<option timestep="0.002" gravity="0 0 -9.81" cone="elliptic"/>
<default><joint armature=".1" damping=".2"/>
<default class="shell"><geom type="capsule" size=".05 .2" friction="1 .1 .1"/></default>
</default><asset><texture name="t" type="2d" builtin="flat" width="4" height="4"/><material name="m" texture="t" rgba="1 0 0 1"/>
</asset><worldbody><light pos="0 0 3"/><geom name="floor" size="1 1 .1" type="plane"/>
<body name="a" pos="0 0 1" euler="10 20 30"><freejoint name="f"/><geom type="box" size=".1 .2 .3" mass="2"/>
<site name="s" pos=".1 0 0"/><body name="b" pos=".2 0 .4" quat="1 .1 0 0"><joint name="j" axis="0 1 0" range="-90 45" ref="10"/>
<inertial pos="0 0 .1" mass="1" diaginertia=".02 .03 .04"/><geom class="shell" material="m"/>
<body name="c" pos="0 0 .3"><joint name="k" type="slide" axis="1 0 0" stiffness="3" springref=".1" frictionloss=".2"/>
<geom type="sphere" size=".1"/><body name="d" pos="0 .2 0"><joint name="l" type="ball" pos="0 .1 0"/>
<geom type="ellipsoid" size=".1 .2 .1"/><site name="e"/></body></body></body></body></worldbody>
<tendon><fixed name="t1"><joint joint="j" coef="1"/><joint joint="k" coef="-2"/></fixed>
<spatial name="t2" range="0 2"><site site="s"/><site site="e"/></spatial></tendon>
<equality><connect body1="d" body2="a" anchor="0 .1 0"/>
<joint joint1="j" joint2="k" polycoef="0 1 0 0 0" active="false"/></equality>
<contact><exclude body1="a" body2="b"/></contact>
<actuator><motor name="m1" joint="j" gear="3" ctrlrange="-1 1"/><position name="p1" joint="k" kp="20" kv="1"/>
<general name="g1" tendon="t1" gainprm="2" biastype="affine" biasprm="0 -1 -.1" dyntype="filter" dynprm=".1"/></actuator>
<sensor><jointpos joint="j"/><accelerometer site="e" noise=".1"/><force site="s"/><touch site="e"/></sensor>
<keyframe><key name="home" qpos="0 0 1 1 0 0 0 .1 .2 1 0 0 0"/></keyframe></mujoco>"""
#: Frames, relative poses, all joints, all dynamics, shapes.
SDF = """<?xml version="1.0"?><sdf version="1.9"><world name="w"><gravity>0 0 -9.81</gravity><model name="r">
<pose>0 0 0.1 0 0 0.2</pose><frame name="f" attached_to="a"><pose>0.1 0 0 0 0 0</pose></frame>
<link name="a"><pose>0 0 1 0 0 0</pose><inertial><pose>0 0 0.1 0 0 0</pose><mass>2</mass><inertia><ixx>0.02</ixx><iyy>0.03</iyy>
<izz>0.04</izz><ixy>0.001</ixy><ixz>0</ixz><iyz>0</iyz></inertia></inertial>
<visual name="v"><geometry><box><size>0.1 0.2 0.3</size></box></geometry><material><diffuse>1 0 0 1</diffuse></material></visual>
<collision name="c"><pose relative_to="f">0 0 0.1 0 0 0</pose>
<geometry><sphere><radius>0.1</radius></sphere></geometry></collision></link>
<link name="b"><pose relative_to="f">0 0 0.5 0.1 0 0</pose><inertial><mass>1</mass></inertial>
<collision name="c"><geometry><cylinder><radius>0.1</radius><length>0.4</length></cylinder></geometry></collision></link>
<link name="d"><pose relative_to="j2">0 0 0.2 0 0 0</pose></link><link name="e"><pose degrees="true">1 0 0 0 0 90</pose></link>
<link name="g"/>
<joint name="j1" type="revolute"><parent>a</parent><child>b</child><axis><xyz expressed_in="__model__">0 1 0</xyz>
<limit><lower>-1</lower><upper>2</upper><effort>30</effort><velocity>5</velocity></limit>
<dynamics><damping>0.1</damping><friction>0.2</friction><spring_stiffness>1</spring_stiffness>
<spring_reference>0.1</spring_reference></dynamics></axis></joint>
<joint name="j2" type="prismatic"><pose relative_to="b">0 0 0.1 0 0 0</pose><parent>b</parent><child>d</child>
<axis><xyz>1 0 0</xyz><mimic joint="j1">
<multiplier>0.5</multiplier><offset>0.1</offset><reference>0</reference></mimic></axis></joint>
<joint name="j3" type="universal"><parent>d</parent><child>e</child><axis><xyz>1 0 0</xyz></axis>
<axis2><xyz>0 1 0</xyz></axis2></joint>
<joint name="j4" type="ball"><parent>e</parent><child>g</child></joint></model></world></sdf>"""

ROBOTS = {"urdf": ROBOT, "mjcf": MJCF, "sdf": SDF}


def mutated(text: str, seed: int) -> str | bytes:
    """Returns the text with one to three changes of numbers, words, elements or bytes."""
    chance = random.Random(seed)
    for _ in range(chance.randint(1, 3)):
        text = chance.choice((_value, _value, _value, _word, _drop, _double, _move, _cut))(text, chance)
    if text and chance.random() < 0.1:
        raw = bytearray(text.encode())
        for _ in range(chance.randint(1, 4)):
            raw[chance.randrange(len(raw))] = chance.randrange(256)
        return bytes(raw)
    return text


def _value(text, chance):
    """Changes the value of an attribute or the text of an element."""
    places = list(re.finditer(r'="([^"]*)"|>([^<>]*\S[^<>]*)<', text))
    if not places:
        return text
    place = chance.choice(places)
    group = 1 if place.group(1) is not None else 2
    words = place.group(group).split()
    new = chance.choice(VALUES)
    if len(words) > 1 and chance.random() < 0.7:
        words[chance.randrange(len(words))] = new
        new = " ".join(words)
    return text[: place.start(group)] + new + text[place.end(group) :]


def _word(text, chance):
    """Changes a letter of a tag or an attribute."""
    places = [place for place in re.finditer(r"[A-Za-z_]+", text)]
    if not places:
        return text
    at = chance.choice(places).start()
    return text[:at] + chance.choice("axyz_:<>\"'= ") + text[at + 1 :]


def _elements(text):
    return list(re.finditer(r"<(\w+)[^<>]*?/>|<(\w+)[^<>]*>.*?</\2>", text, re.DOTALL))


def _drop(text, chance):
    found = _elements(text)
    if not found:
        return text
    one = chance.choice(found)
    return text[: one.start()] + text[one.end() :]


def _double(text, chance):
    found = _elements(text)
    if not found:
        return text
    one = chance.choice(found)
    return text[: one.end()] + one.group() + text[one.end() :]


def _move(text, chance):
    found = _elements(text)
    if len(found) < 2:
        return text
    one, other = chance.choice(found), chance.choice(found)
    rest = text[: one.start()] + " " * len(one.group()) + text[one.end() :]
    return rest[: other.end()] + one.group() + rest[other.end() :]


def _cut(text, chance):
    return text[: chance.randrange(len(text) + 1)] if chance.random() < 0.3 else text


def given(content: str | bytes, kind: str, folder: Path) -> str | Path:
    """Returns the input of a loader: text that starts like XML, or else the path of a file."""
    if isinstance(content, str) and content.lstrip().startswith("<"):
        return content
    file = folder / f"robot.{'xml' if kind == 'mjcf' else kind}"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def faults_of(content, load=rbd.load_urdf) -> str | None:
    """Returns the fault of reading a file, or None if the error message is clear or the model is valid."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # for example NumPy's, which must not occur
        warnings.simplefilter("ignore", rbd.ModelWarning)
        try:
            model = load(content)
        except rbd.ModelError as error:
            said = str(error)
            if not said or len(said.encode()) > 2000:
                return f"a message of {len(said.encode())} bytes"
            return said if RAW.search(said) else None
        except Exception as error:  # any other type of error is a fault
            return f"{type(error).__name__}: {error}"
    return faults_of_model(model)


#: Numbers of a model that may be infinite.
BOUNDS = re.compile(r"lower|upper|limit|range|_forces|largest|most")


def faults_of_model(model) -> str | None:
    """Returns the first invalid number of a model, or None."""
    import jax

    for path, leaf in jax.tree_util.tree_leaves_with_path(model):
        name, leaf = jax.tree_util.keystr(path), np.asarray(leaf)
        if leaf.dtype.kind == "f" and (
            np.isnan(leaf).any() or (not BOUNDS.search(name) and not np.isfinite(leaf).all())
        ):
            return f"{name} is {leaf}"
    for name in ("armature", "damping", "friction", "stiffness", "velocity_limit", "effort_limit"):
        if (np.asarray(getattr(model, name)) < 0).any():
            return f"{name} is {getattr(model, name)}"
    if (np.asarray(model.inertias.mass) < 0).any():
        return f"masses are {model.inertias.mass}"
    if (np.asarray(model.lower) > np.asarray(model.upper)).any():
        return f"limits are {model.lower} and {model.upper}"
    return None
