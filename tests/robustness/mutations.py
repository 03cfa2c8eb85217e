"""Robot files changed at random, and what must hold of whatever is read from them."""

from __future__ import annotations

import random
import re
import warnings

import numpy as np

import rbd_jax as rbd


#: Numbers that files have and should not, and words in the place of numbers.
VALUES = (
    "nan", "inf", "-inf", "-1", "0", "1e308", "-1e308", "1e-320", "1e400", "", " ", "1 2", "1 2 3 4", "0x10", "1_0", "one", "١",
    "NaN", "1e", "--1", "1,5", "world", "b", "j", "&lt;", "true", "\t3\n", "9" * 400,
)  # fmt: skip

LINK = """<link name="{0}"><inertial><origin xyz="0.1 0 0.2" rpy="0.1 0.2 0.3"/><mass value="{1}"/>
<inertia ixx="0.02" iyy="0.03" izz="0.04" ixy="0.001" ixz="0.002" iyz="0"/></inertial>
<visual><origin xyz="0 0 0.1"/><geometry><{2}/></geometry><material name="m"><color rgba="1 0.5 0 1"/></material></visual>
<collision><geometry><{2}/></geometry></collision></link>"""

#: What is changed: all joints and shapes, a mimic, a transmission.
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


def mutated(text: str, seed: int) -> str | bytes:
    """The text with one to three changes, of numbers, words, elements or bytes."""
    chance = random.Random(seed)
    for _ in range(chance.randint(1, 3)):
        text = chance.choice((_value, _value, _value, _word, _drop, _double, _move, _cut))(text, chance)
    if chance.random() < 0.1:
        raw = bytearray(text.encode())
        for _ in range(chance.randint(1, 4)):
            raw[chance.randrange(len(raw))] = chance.randrange(256)
        return bytes(raw)
    return text


def _value(text, chance):
    """Another value of an attribute."""
    places = list(re.finditer(r'="([^"]*)"', text))
    if not places:
        return text
    place = chance.choice(places)
    words = place.group(1).split()
    new = chance.choice(VALUES)
    if len(words) > 1 and chance.random() < 0.7:
        words[chance.randrange(len(words))] = new
        new = " ".join(words)
    return text[: place.start(1)] + new + text[place.end(1) :]


def _word(text, chance):
    """A letter of a tag or an attribute."""
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
    return text[: chance.randrange(1, len(text))] if chance.random() < 0.3 else text


def faults_of(content, load=rbd.load_urdf) -> str | None:
    """What is wrong with how a file was read, or None: it is refused in words, or what came of it can be."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rbd.ModelWarning)
        try:
            model = load(content)
        except rbd.ModelError as error:
            said = str(error)
            if not said or len(said.encode()) > 2000:
                return f"a message of {len(said.encode())} bytes"
            return None
        except Exception as error:  # of any kind: that is what is looked for
            return f"{type(error).__name__}: {error}"
    return faults_of_model(model)


def faults_of_model(model) -> str | None:
    """What no model can have."""
    bounded = {"lower", "upper", "velocity_limit", "effort_limit"}
    for name in ("gravity", "placements", "inertias", "joints", "mimic_multiplier", "mimic_offset", "reference", "armature",
                 "damping", "friction", "stiffness", "spring_reference", *bounded):  # fmt: skip
        import jax

        for leaf in map(np.asarray, jax.tree.leaves(getattr(model, name))):
            if leaf.dtype.kind == "f" and (
                np.isnan(leaf).any() or (name not in bounded and not np.isfinite(leaf).all())
            ):
                return f"{name} is {leaf}"
            if name in ("armature", "damping", "friction", "stiffness", "velocity_limit", "effort_limit"):
                if (leaf < 0).any():
                    return f"{name} is {leaf}"
    if (np.asarray(model.inertias.mass) < 0).any():
        return f"masses are {model.inertias.mass}"
    if (np.asarray(model.lower) > np.asarray(model.upper)).any():
        return f"limits are {model.lower} and {model.upper}"
    return None
