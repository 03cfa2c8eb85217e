"""Randomly changed files raise clear errors or give valid models."""

import pytest
from mutations import ROBOTS, faults_of, given, mutated

import rbd_jax as rbd


LOADERS = {kind: getattr(rbd, f"load_{kind}") for kind in ROBOTS}
#: Number of mutations of each format, in units of 250.
MANY = {"urdf": 4, "mjcf": 1, "sdf": 1}


@pytest.mark.parametrize("kind, nv", [("urdf", 8), ("mjcf", 11), ("sdf", 12)])
def test_the_original_is_read(kind, nv):
    assert faults_of(ROBOTS[kind], LOADERS[kind]) is None
    model = LOADERS[kind](ROBOTS[kind])
    assert model.nv == nv and model.unsupported == ()


def faults(kind, seeds, folder):
    """Returns the faults of a loader on changed files, by seed."""
    found = {
        seed: faults_of(given(mutated(ROBOTS[kind], seed), kind, folder), LOADERS[kind]) for seed in seeds
    }
    return {seed: fault for seed, fault in found.items() if fault}


@pytest.mark.parametrize("kind", MANY)
def test_some_mutations(kind, tmp_path):
    assert faults(kind, range(20), tmp_path) == {}


@pytest.mark.slow
@pytest.mark.parametrize("kind, part", [(kind, part) for kind in MANY for part in range(MANY[kind])])
def test_mutations(kind, part, tmp_path):
    assert faults(kind, range(250 * part, 250 * (part + 1)), tmp_path) == {}
