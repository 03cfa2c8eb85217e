"""What `--free` says: which numbers of a robot are free, as kinds of `rbd.identify`.

`inertias,friction` frees the inertias of all bodies and the friction of all joints; `inertias:link_*,friction:joint_[1-3]`
those whose names fit the patterns. A kind may be there several times, with a pattern each.
"""

from __future__ import annotations

import argparse
import re

from .. import identify
from .._core.errors import suggest


#: The kinds that names alone are enough for, by their names in `rbd.identify`.
KINDS = {
    kind.__name__: kind
    for kind in (
        identify.inertias,
        identify.masses,
        identify.centers_of_mass,
        identify.damping,
        identify.coulomb,
        identify.friction,
        identify.armature,
        identify.stiffness,
        identify.joint_offsets,
        identify.placements,
        identify.sliding_friction,
        identify.gains,
        identify.gear_ratios,
        identify.delays,
    )
}

#: What `--free` takes, for the help of commands.
TAKES = "kinds with commas between them, each with a pattern of names after a colon or of all: inertias:link_*,friction"


def free(text: str) -> list[identify.Kind]:
    """The kinds that a text like `inertias:link_*,damping` names, each once; made for the `type` of an argument."""
    patterns: dict[str, list[str]] = {}
    # Commas in the brackets of a pattern are its own.
    for part in re.split(r",(?![^\[\],]*\])", text):
        kind, colon, pattern = (word.strip() for word in part.strip().partition(":"))
        kind = kind.replace("-", "_")
        if not kind:
            raise argparse.ArgumentTypeError(f"{text!r} lacks a kind; it takes {TAKES}")
        if kind not in KINDS:
            raise argparse.ArgumentTypeError(
                f"nothing that can be free is called {kind!r}{suggest(kind, KINDS)}"
            )
        if colon and not pattern:
            raise argparse.ArgumentTypeError(
                f"{part.strip()!r} has no names after its colon; without the colon it is all"
            )
        patterns.setdefault(kind, []).append(pattern or "*")
    return [KINDS[kind](*dict.fromkeys(names)) for kind, names in patterns.items()]
