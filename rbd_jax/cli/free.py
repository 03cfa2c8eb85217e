"""The option `--free`: the parameters to estimate, as parameter groups of `rbd.identify`.

`inertias,friction` estimates the inertias of all bodies and the friction of all joints.
`inertias:link_*,friction:joint_[1-3]` estimates those whose names match the patterns. A group may appear several times, each
with one pattern.
"""

from __future__ import annotations

import argparse
import re

from .. import identify
from .._core.errors import suggest


#: The parameter groups that require only names, by their names in `rbd.identify`.
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

#: Values of `--free`, for help texts.
TAKES = "groups separated by commas, each optionally with a colon and a pattern of names: inertias:link_*,friction"


def free(text: str) -> list[identify.Kind]:
    """Returns the parameter groups in a text such as `inertias:link_*,damping`, each once; the `type` of an argument."""
    patterns: dict[str, list[str]] = {}
    # Commas inside brackets are part of a pattern.
    for part in re.split(r",(?![^\[\],]*\])", text):
        kind, colon, pattern = (word.strip() for word in part.strip().partition(":"))
        kind = kind.replace("-", "_")
        if not kind:
            raise argparse.ArgumentTypeError(f"{text!r} lacks a parameter group; it takes {TAKES}")
        if kind not in KINDS:
            raise argparse.ArgumentTypeError(f"there is no parameter group {kind!r}{suggest(kind, KINDS)}")
        if colon and not pattern:
            raise argparse.ArgumentTypeError(
                f"{part.strip()!r} has no pattern after its colon; omit the colon for all names"
            )
        patterns.setdefault(kind, []).append(pattern or "*")
    return [KINDS[kind](*dict.fromkeys(names)) for kind, names in patterns.items()]
