"""Reads the sites of an MJCF file."""

from __future__ import annotations

import numpy as np

from ..._core.array import from_numpy
from ...shapes.site import Site
from ...spatial.transform import Transform
from .compiled import body_names, names_of, rotation_matrix


def site_names(compiled) -> list[str]:
    """Returns the name of each site of an `MjModel` in the model: `site_3`, by MuJoCo's index, if it has none."""
    return names_of([compiled.site(i).name or f"site_{i}" for i in range(compiled.nsite)], compiled.site)


def sites_of(compiled) -> list[Site]:
    bodies = body_names(compiled)
    return [
        Site(
            name,
            bodies[compiled.site_bodyid[index]],
            Transform(
                from_numpy(rotation_matrix(compiled.site_quat[index])),
                from_numpy(np.array(compiled.site_pos[index])),
            ),
        )
        for index, name in enumerate(site_names(compiled))
    ]
