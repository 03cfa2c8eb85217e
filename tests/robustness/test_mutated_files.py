"""Files changed at random are refused in words, or read to what can be."""

import pytest
from mutations import ROBOT, faults_of, mutated

import rbd_jax as rbd


def test_the_original_is_read():
    assert faults_of(ROBOT) is None
    assert rbd.load_urdf(ROBOT).nv == 8


@pytest.mark.parametrize("start", range(0, 1000, 250))
def test_mutations_of_urdf(start, tmp_path):
    found = {}
    for seed in range(start, start + 250):
        content = mutated(ROBOT, seed)
        if isinstance(content, bytes) or not content.lstrip().startswith("<"):  # else it would be a path
            file = tmp_path / "robot.urdf"
            file.write_bytes(content if isinstance(content, bytes) else content.encode())
            content = file
        fault = faults_of(content)
        if fault:
            found[seed] = fault
    assert not found
