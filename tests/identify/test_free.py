"""The option `--free` of the commands."""

import argparse

import pytest

import rbd_jax as rbd
from rbd_jax.cli.free import KINDS, free


def test_kinds_are_those_of_the_library():
    """The option has all parameter groups that need only names, under the names of the library."""
    assert all(getattr(rbd.identify, name) is kind for name, kind in KINDS.items())
    model = rbd.load("arm7")
    whole = free("inertias,damping")
    assert whole == [rbd.identify.inertias(), rbd.identify.damping()]
    assert rbd.identify.Parameters(model, whole).size == 9 * 10 + 7


def test_patterns():
    """Several patterns of one group are combined; commas in brackets belong to the pattern.

    Spaces and hyphens are accepted.
    """
    assert free("inertias:link_*, coulomb:joint_[1,3]") == [
        rbd.identify.inertias("link_*"),
        rbd.identify.coulomb("joint_[1,3]"),
    ]
    assert free("inertias:a,armature,inertias:b") == [
        rbd.identify.inertias("a", "b"),
        rbd.identify.armature(),
    ]
    assert free("centers-of-mass") == [rbd.identify.centers_of_mass()]


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "lacks a parameter group"),
        ("inertias,", "lacks a parameter group"),
        ("inertia", "did you mean 'inertias'"),
        ("inertias:", "no pattern after its colon"),
        ("numbers", "there are: 'inertias'"),
    ],
)
def test_what_says_nothing_is_refused(text, said):
    with pytest.raises(argparse.ArgumentTypeError, match=said):
        free(text)
