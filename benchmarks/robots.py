"""The robots of the benchmarks as URDF, SDF and MJCF text.

They are random trees of hinges, fixed or floating, and the robots of `example-robot-data`, if it is installed.
"""

from __future__ import annotations

import re
import site
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Robot:
    """A robot of the benchmarks.

    - `parents`: parents of the moving links, -1 for the base link.
    - `floating`: True if the base link is free.
    - `text`: its URDF, if the robot comes from a file.
    """

    name: str
    parents: tuple[int, ...]
    floating: bool
    text: str = ""

    @property
    def nv(self) -> int:
        return len(self.parents) + 6 * self.floating


def _limbs(*lengths, onto=-1):
    """Returns the parents of chains that are all attached to one link."""
    parents = []
    for length in lengths:
        parents += [onto, *range(len(parents), len(parents) + length - 1)]
    return tuple(parents)


def _humanoid():
    """Two legs of six joints, a waist of three, and two arms of seven on the waist."""
    legs = _limbs(6, 6)
    waist = (-1, 12, 13)
    arms = tuple(parent + 15 if parent >= 0 else 14 for parent in _limbs(7, 7))
    return legs + waist + arms


def _random(size, seed=0):
    """Attaches every link to one of the five links before it."""
    rng = np.random.default_rng(seed)
    return tuple(int(rng.integers(max(-1, i - 5), i)) for i in range(size))


ROBOTS = {
    robot.name: robot
    for robot in (
        Robot("arm 9", (-1, 0, 1, 2, 3, 4, 5, 6, 6), False),
        Robot("quadruped 18", _limbs(3, 3, 3, 3), True),
        Robot("humanoid 35", _humanoid(), True),
        Robot("tree 106", _random(100), True),
    )
}


#: Robots of example-robot-data: file and floating base. The Panda's fingers move independently, as in
#: Pinocchio.
FILES = {
    "panda 9": ("panda_description/urdf/panda.urdf", False),
    "go1 18": ("go1_description/urdf/go1.urdf", True),
    "g1 35": ("g1_description/urdf/g1_29dof_rev_1_0.urdf", True),
}


def _of_files() -> dict[str, Robot]:
    """Returns the robots of example-robot-data, without shapes, which dynamics does not need."""
    folders = [Path(x, "cmeel.prefix/share/example-robot-data/robots") for x in site.getsitepackages()]
    found = {}
    for name, (file, floating) in FILES.items():
        path = next((folder / file for folder in folders if (folder / file).exists()), None)
        if path is None:
            continue
        text = path.read_text()
        text = re.sub(r"<(visual|collision)\b.*?</\1>", "", text, flags=re.S)
        text = re.sub(r"<(visual|collision|mimic)\b[^>]*/>", "", text)
        # The tables depend only on the number of joints.
        moving = len(re.findall(r'<joint\b[^>]*type="(?:revolute|continuous|prismatic)"', text))
        found[name] = Robot(name, tuple(range(-1, moving - 1)), floating, text)
    return found


ROBOTS |= _of_files()


def chain(size: int) -> Robot:
    return Robot(f"chain {size}", tuple(range(-1, size - 1)), False)


def balanced(size: int) -> Robot:
    """A binary tree."""
    return Robot(f"binary tree {size}", tuple((i - 1) // 2 if i else -1 for i in range(size)), False)


def _links(robot: Robot):
    """Yields the parameters of the base link and of every moving link."""
    rng = np.random.default_rng(len(robot.parents))
    for _ in range(len(robot.parents) + 1):
        spread = 0.1 * rng.normal(size=(3, 3))
        moments = spread @ spread.T + 0.01 * np.eye(3)
        axis = rng.normal(size=3)
        yield {
            "mass": rng.uniform(0.5, 2.0),
            "com": 0.1 * rng.normal(size=3),
            "inertia": np.trace(moments) * np.eye(3) - moments,
            "xyz": 0.3 * rng.normal(size=3),
            "rpy": rng.uniform(-1.5, 1.5, 3),
            "axis": axis / np.linalg.norm(axis),
        }


def _read(robot: Robot):
    import rbd_jax as rbd

    rbd.parallel.keep_memory()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rbd.ModelWarning)
        return rbd.load_urdf(robot.text, floating_base=robot.floating)


def _numbers(x) -> str:
    return " ".join(f"{value:.9f}" for value in np.asarray(x).reshape(-1))


def _entries(inertia, form: str) -> str:
    names = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
    values = inertia[np.triu_indices(3)]
    return "".join(form.format(name=name, value=f"{value:.9f}") for name, value in zip(names, values))


def urdf(robot: Robot) -> str:
    """Returns a URDF whose root link is `base`; the reader must apply `floating`."""
    if robot.text:
        return robot.text
    parts = [f'<robot name="{robot.name.replace(" ", "_")}">']
    for number, link in enumerate(_links(robot)):
        name = f"link{number - 1}" if number else "base"
        entries = _entries(link["inertia"], ' {name}="{value}"')
        parts.append(
            f'<link name="{name}"><inertial><origin xyz="{_numbers(link["com"])}" rpy="0 0 0"/>'
            f'<mass value="{link["mass"]:.9f}"/><inertia{entries}/></inertial></link>'
        )
        if number:
            parent = robot.parents[number - 1]
            above = f"link{parent}" if parent >= 0 else "base"
            parts.append(
                f'<joint name="joint{number - 1}" type="revolute"><parent link="{above}"/><child link="{name}"/>'
                f'<origin xyz="{_numbers(link["xyz"])}" rpy="{_numbers(link["rpy"])}"/>'
                f'<axis xyz="{_numbers(link["axis"])}"/>'
                '<limit lower="-3" upper="3" effort="100" velocity="100"/></joint>'
            )
    return "\n".join([*parts, "</robot>"])


def sdf(robot: Robot) -> str:
    """Returns the same robot as SDF, each link placed relative to its parent."""
    if robot.text:
        raise ValueError(f"{robot.name} is a URDF, and nothing here writes SDF")
    parts = [f'<sdf version="1.7"><model name="{robot.name.replace(" ", "_")}">']
    for number, link in enumerate(_links(robot)):
        name = f"link{number - 1}" if number else "base"
        entries = _entries(link["inertia"], "<{name}>{value}</{name}>")
        pose = f'<pose relative_to="joint{number - 1}">0 0 0 0 0 0</pose>' if number else ""
        parts.append(
            f'<link name="{name}">{pose}<inertial><pose>{_numbers(link["com"])} 0 0 0</pose>'
            f"<mass>{link['mass']:.9f}</mass><inertia>{entries}</inertia></inertial></link>"
        )
        if number:
            parent = robot.parents[number - 1]
            above = f"link{parent}" if parent >= 0 else "base"
            parts.append(
                f'<joint name="joint{number - 1}" type="revolute"><parent>{above}</parent><child>{name}</child>'
                f'<pose relative_to="{above}">{_numbers(link["xyz"])} {_numbers(link["rpy"])}</pose>'
                f"<axis><xyz>{_numbers(link['axis'])}</xyz><limit><lower>-3</lower><upper>3</upper></limit></axis></joint>"
            )
    if not robot.floating:
        parts.append('<joint name="fixed" type="fixed"><parent>world</parent><child>base</child></joint>')
    return "\n".join([*parts, "</model></sdf>"])


def mjcf(robot: Robot) -> str:
    """Returns the same robot as nested MJCF."""
    if robot.text:
        import rbd_jax as rbd

        text = rbd.to_mjcf(_read(robot))
        return text.replace(
            "<worldbody>", '<option><flag constraint="disable" contact="disable"/></option><worldbody>', 1
        )
    links = list(_links(robot))
    children: dict[int, list[int]] = {}
    for child, parent in enumerate(robot.parents):
        children.setdefault(parent, []).append(child)

    def body(number):
        link = links[number + 1]
        order = link["inertia"][[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
        place = f'pos="{_numbers(link["xyz"])}" euler="{_numbers(link["rpy"])}"' if number >= 0 else ""
        joint = f'<joint name="joint{number}" axis="{_numbers(link["axis"])}"/>' if number >= 0 else ""
        joint = "<freejoint/>" if number < 0 and robot.floating else joint
        name = f"link{number}" if number >= 0 else "base"
        inner = "".join(body(child) for child in children.get(number, ()))
        return (
            f'<body name="{name}" {place}>{joint}<inertial pos="{_numbers(link["com"])}" mass="{link["mass"]:.9f}" '
            f'fullinertia="{_numbers(order)}"/>{inner}</body>'
        )

    return (
        f'<mujoco model="{robot.name}"><compiler angle="radian" eulerseq="XYZ" autolimits="false"/>'
        '<option><flag constraint="disable" contact="disable"/></option>'
        f"<worldbody>{body(-1)}</worldbody></mujoco>"
    )
