"""Axial screws (book §A.4) equal general transforms, with the operation counts of table A.5."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import assert_each_close

from rbd_jax import Inertia, count_operations
from rbd_jax.spatial import ArticulatedInertia, AxialScrew


AXES = ("x", "y", "z")
rng = np.random.default_rng(0)
VECTOR = jnp.asarray(rng.normal(size=6))
BODY = Inertia.from_parameters(jnp.asarray(rng.normal(size=10)))
square = rng.normal(size=(6, 6))
CARRIER = ArticulatedInertia.from_matrix(jnp.asarray(square + square.T))


def operations(function, *arguments):
    """Returns the numbers of multiplications and additions."""
    counted = count_operations(function, *arguments)
    return counted.multiplications, counted.additions


def without_axis(inertia, axis):
    """Returns the inertia with zeros in the row and column of the axis, as after a hinge about it."""
    kept = np.arange(6) != AXES.index(axis)
    return ArticulatedInertia.from_matrix(jnp.where(kept[:, None] & kept, inertia.matrix, 0))


@pytest.mark.parametrize("angle", [0.0, 0.7, np.pi, -2.5])
@pytest.mark.parametrize("axis", AXES)
def test_screws_are_general_transforms(axis, angle):
    screw = AxialScrew.about(axis, angle, 0.4)
    general = screw.transform
    position = np.zeros(3)
    position[AXES.index(axis)] = 0.4
    assert_each_close(general.position, position)
    i, j = {"x": (1, 2), "y": (2, 0), "z": (0, 1)}[axis]
    assert_each_close(
        general.rotation[[i, j, i], [i, i, j]], np.array([np.cos(angle), np.sin(angle), -np.sin(angle)])
    )
    for one, other in ((screw, general), (screw.inverse(), general.inverse())):
        assert_each_close(one.motion(VECTOR), other.motion(VECTOR))
        assert_each_close(one.force(VECTOR), other.force(VECTOR))
        assert_each_close(one.inertia(BODY), BODY.placed(other))
        assert_each_close(one.articulated_inertia(CARRIER), CARRIER.placed(other))
        for free in AXES:
            light = without_axis(CARRIER, free)
            assert_each_close(one.articulated_inertia(CARRIER, free), light.placed(other))


@pytest.mark.parametrize("axis", AXES)
def test_the_costs_are_those_of_table_a_5(axis):
    screw = AxialScrew.about(axis, 0.7, 0.4)
    assert operations(screw.motion, VECTOR) == (10, 6)
    assert operations(screw.force, VECTOR) == (10, 6)
    assert operations(screw.inertia, BODY) == (16, 15)
    assert operations(screw.articulated_inertia, CARRIER) == (38, 40)
    for free in AXES:
        cost = (28, 34) if axis == free else (32, 28)
        assert (
            operations(lambda inertia, free=free: screw.articulated_inertia(inertia, free), CARRIER) == cost
        )
    assert operations(lambda angle: AxialScrew.about(axis, angle, 0.4), jnp.array(0.7)) == (2, 3)


def test_a_link_takes_two_screws():
    """A step between Denavit–Hartenberg frames takes 62 multiplications and 65 additions.

    A general transform takes 137 of each (table A.4): "less than half".
    """
    joint, link = AxialScrew.about("z", 0.7, 0.4), AxialScrew.about("x", 1.1, 0.3)

    def two(angle, inertia):
        joint = AxialScrew.about("z", angle, 0.4)
        return link.articulated_inertia(joint.articulated_inertia(inertia, "z"), "z")

    general = link.transform @ joint.transform
    assert_each_close(two(0.7, CARRIER), without_axis(CARRIER, "z").placed(general), 1e-12)
    assert operations(two, jnp.array(0.7), CARRIER) == (62, 65)


def test_screws_come_in_batches_and_have_derivatives():
    angles, distances = jnp.array([0.0, 0.5, np.pi]), jnp.array([0.1, -0.2, 0.3])

    def energy(angle, distance):
        screw = AxialScrew.about("y", angle, distance)
        return screw.inertia(BODY).kinetic_energy(VECTOR)

    slopes = jax.vmap(jax.grad(energy, (0, 1)))(angles, distances)
    step = 1e-6
    for slope, (da, dd) in zip(slopes, ((step, 0.0), (0.0, step)), strict=True):
        up, down = (
            energies(energy, angles + da, distances + dd),
            energies(energy, angles - da, distances - dd),
        )
        assert_each_close(slope, (up - down) / (2 * step), 1e-7)


def energies(energy, angles, distances):
    return jax.vmap(energy)(angles, distances)


def test_only_three_axes(unchecked):
    with pytest.raises(ValueError, match="AxialScrew.about: axis.*'w'"):
        AxialScrew.about("w", 0.1)
