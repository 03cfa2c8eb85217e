"""Complete models of all MJCF files in installed packages, compared with MuJoCo."""

import pytest


pytest.importorskip("mujoco")

from whole_models import Refused, compared, files


FILES = files()

#: MuJoCo computes the wrapping point of a tendon inside a surface to seven digits.
TOLERANCE = {"mjx/tendon/wrap_sidesite.xml": 1e-7}


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_all_files(name):
    """Frames, inertia, tendons, actuators, sensors and accelerations agree in ten states with random controls, to 1e-8."""
    try:
        model, worst, left_out = compared(FILES[name])
    except Refused as reason:
        pytest.skip(str(reason))
    assert worst and max(worst.values()) < TOLERANCE.get(name, 1e-8), (
        f"{worst}; without {left_out}: {model.unsupported}"
    )
