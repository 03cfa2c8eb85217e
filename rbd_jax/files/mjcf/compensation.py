"""Reads the gravity compensation of the bodies of an MJCF file."""

from __future__ import annotations

import numpy as np

from ...forces import GravityCompensation
from .compiled import body_names


def compensation_of(compiled) -> list[GravityCompensation]:
    """Returns the force that carries a fraction of the bodies' weight, in a list that is empty without `gravcomp`."""
    if not hasattr(compiled, "body_gravcomp"):  # since MuJoCo 2.3.5
        return []
    masses = np.array(compiled.body_gravcomp * compiled.body_mass)
    bodies = np.flatnonzero(masses)
    names = body_names(compiled)
    if not len(bodies):
        return []
    return [
        GravityCompensation([names[b] for b in bodies], np.array(compiled.body_ipos[bodies]), masses[bodies])
    ]
