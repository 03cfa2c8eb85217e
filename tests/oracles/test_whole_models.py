"""Whole models of all MJCF files that the installed packages bring, against MuJoCo."""

import pytest


pytest.importorskip("mujoco")

from whole_models import Refused, compared, files


FILES = files()

#: MuJoCo finds the point of a string inside of a surface to seven digits.
TOLERANCE = {"mjx/tendon/wrap_sidesite.xml": 1e-7}


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_all_files(name):
    """Frames, inertia, tendons, actuators, sensors, accelerations in ten states under random controls, to 1e-8."""
    try:
        model, worst, left_out = compared(FILES[name])
    except Refused as reason:
        pytest.skip(str(reason))
    assert worst and max(worst.values()) < TOLERANCE.get(name, 1e-8), (
        f"{worst}; without {left_out}: {model.unsupported}"
    )
