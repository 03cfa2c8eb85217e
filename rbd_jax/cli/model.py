"""Loads the model that the arguments name, and prints its warnings."""

from __future__ import annotations

import contextlib
import warnings

from .. import ModelError, ModelWarning, robots
from ..robots.loading import load as load_robot


#: Words of library messages, and the corresponding options.
SPELLED = {
    "mimic='free'": "--mimic free",
    "pass strict=False to": "omit --strict to",
    "write MJCF: rbd.save_mjcf": "write MJCF: name a .xml file",
    "Write URDF (rbd.save_urdf)": "Write URDF (name a .urdf file)",
}


class Refused(Exception):
    """A request that cannot be fulfilled; the message is one line."""


def load(arguments, console):
    """Returns the model, and prints its warnings in yellow."""
    robot, options = arguments.robot, {}
    if arguments.floating_base:
        options["floating_base"] = True
    if arguments.mimic != "couple":
        options["mimic"] = arguments.mimic
    with told(console):
        try:
            refused = set(options) - set(robots.options_of(robot))
            if refused:
                raise Refused(_not_for(robot, min(refused)))
            return load_robot(robot, **options)
        except ModelError as error:
            raise Refused(spelled(str(error))) from error
        except (ImportError, OSError) as error:
            raise Refused(f"{robot}: {error}") from error


@contextlib.contextmanager
def told(console):
    """Collects model warnings within the block, and prints them in yellow at its end."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ModelWarning)
        yield
    for warning in caught:
        if issubclass(warning.category, ModelWarning):
            first, *rest = str(warning.message).split("; ")
            head, _, fault = first.partition(": ")
            console.print(f"warning: {head}", style="yellow", highlight=False, markup=False, soft_wrap=True)
            for line in (fault, *rest) if fault else rest:
                console.print(f"  - {line}", style="yellow", highlight=False, markup=False, soft_wrap=True)
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


def spelled(message: str) -> str:
    """Returns a library message in the words of the command line."""
    for theirs, ours in SPELLED.items():
        message = message.replace(theirs, ours)
    return message


def may_float(robot: str) -> bool:
    """Returns whether --floating-base applies to this robot."""
    return "floating_base" in robots.options_of(robot)


def _not_for(robot: str, option: str) -> str:
    """Returns why the option does not apply to this robot, and the remedy."""
    said = f"{robot}: --{option.replace('_', '-')} is for URDF files"
    if option != "floating_base":
        return f"{said}; omit it"
    if robot not in robots.NAMES:
        return (
            f"{said}. In MJCF the file determines what floats: omit the option, "
            "and give the root body a <freejoint/> if it has none"
        )
    topology = load_robot(robot).topology
    floats = any(size == 6 and parent < 0 for size, parent in zip(topology.joint_nv, topology.parents))
    remedy = "it already floats" if floats else "to make a robot float, pass its URDF file"
    return f"{said}, and this is a bundled robot: {remedy}"
