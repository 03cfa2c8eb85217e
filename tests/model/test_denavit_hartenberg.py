"""Denavit–Hartenberg parameters: both conventions, models to parameters and back, and a printed table."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import assert_close

import rbd_jax as rbd
from rbd_jax import joints


def elementary(axis, angle, distance):
    """Returns a rotation about and a shift along a coordinate axis, as an explicit matrix."""
    found, c, s = np.eye(4), np.cos(angle), np.sin(angle)
    i, j = [(1, 2), (2, 0), (0, 1)][axis]
    found[i, i], found[i, j], found[j, i], found[j, j] = c, -s, s, c
    found[axis, 3] = distance
    return found


def test_transforms_of_both_conventions():
    a, alpha, d, theta = 0.3, 0.7, -0.4, 1.9
    x, z = elementary(0, alpha, a), elementary(2, theta, d)
    np.testing.assert_allclose(rbd.Transform.from_dh(a, alpha, d, theta).matrix, x @ z, atol=1e-14)
    np.testing.assert_allclose(
        rbd.Transform.from_dh(a, alpha, d, theta, "standard").matrix, z @ x, atol=1e-14
    )
    # The modified frame's origin is at (a, -d sin α, d cos α), an erratum to a literal reading of eq. 4.9.
    np.testing.assert_allclose(
        rbd.Transform.from_dh(a, alpha, d, theta).position,
        [a, -d * np.sin(alpha), d * np.cos(alpha)],
        atol=1e-14,
    )
    with pytest.raises((ValueError, TypeError), match="craig"):
        rbd.Transform.from_dh(a, alpha, d, theta, "craig")


def chain(seed, special=()):
    """Returns joints of all types with an axis, and a weld, with random placements except those in `special`."""
    rng = np.random.default_rng(seed)
    builder, parent = rbd.ModelBuilder(), "world"
    kinds = [
        joints.Revolute(rng.normal(size=3)),
        joints.Prismatic(rng.normal(size=3)),
        joints.Fixed(),
        joints.Helical(rng.normal(size=3), 0.3),
        joints.Cylindrical(rng.normal(size=3)),
        joints.Revolute((0, 0, 1)),
        joints.Revolute((0, 0, 1)),
    ]
    for i, joint in enumerate(kinds):
        place = rbd.Transform.from_xyz_rpy(rng.uniform(-1, 1, 3), rng.uniform(-1, 1, 3))
        parent = builder.add_body(f"b{i}", parent, joint, dict(special).get(i, place))
    return builder.build()


PARALLEL = {6: rbd.Transform.from_xyz_rpy((0.5, 0.2, 0.3), (0, 0, 0.4))}
MEETING = {6: rbd.Transform.from_xyz_rpy((0.0, 0.0, 0.3), (0.8, 0, 0.4))}
SAME = {6: rbd.Transform.from_xyz_rpy((0.0, 0.0, 0.3), (0, 0, 0.4))}


@pytest.mark.parametrize(
    "special",
    [pytest.param({}, marks=pytest.mark.slow), PARALLEL, MEETING, SAME],
    ids=["general", "parallel", "meeting", "same"],
)
def test_a_chain_is_its_parameters(special):
    """In every configuration and from any zero, both conventions give the end frame; parameters are recovered.

    Book §4.3.
    """
    model = chain(1, special)
    end = rbd.Transform.from_xyz_rpy((0.1, 0.2, -0.3), (0.3, -1.0, 2.0))
    rng = np.random.default_rng(0)
    zero, moved = rng.normal(size=(2, model.nq))
    ends = jax.jit(lambda model, q, end: (rbd.forward_kinematics(model, q)[-1] @ end).matrix)
    by_parameters = jax.jit(lambda found, q: found.end_frame(q).matrix)
    for start in (np.zeros(model.nq), zero):
        found = rbd.denavit_hartenberg(model, end=end, q=jax.device_put(start))
        assert found.theta.shape == (8,) and found.a.shape == (7,)  # 4 n + 6 parameters
        wanted = ends(model, start + moved, end)
        assert_close(by_parameters(found, moved), wanted, 1e-12)
        assert np.all(np.asarray(found.a) >= 0)
        again = found.model()
        assert_close(ends(again, moved, found.end), wanted, 1e-12)
        # The product of rows, as in textbooks.
        product = elementary(2, found.theta[0], found.d[0])
        for row in np.asarray(found.table()):
            product = product @ elementary(0, row[1], row[0]) @ elementary(2, row[3], row[2])
        other = np.eye(4)
        for row in np.asarray(found.table("standard")):
            other = other @ elementary(2, row[3], row[2]) @ elementary(0, row[1], row[0])
        other = other @ elementary(2, found.theta[-1], found.d[-1])
        zero_end = ends(model, start, end)
        assert_close(product, zero_end, 1e-12)
        assert_close(other, zero_end, 1e-12)
        back = rbd.denavit_hartenberg(again, end=found.end)
        for name in ("d", "a"):
            assert_close(getattr(back, name), getattr(found, name), 1e-10)
        for name in ("theta", "alpha"):
            turned = np.angle(
                np.exp(1j * (np.asarray(getattr(back, name)) - np.asarray(getattr(found, name))))
            )
            assert_close(turned, np.zeros_like(turned), 1e-10)
        for convention, own in (("modified", 0), ("standard", -1)):
            rest = np.stack([np.asarray(found.d)[own], np.asarray(found.theta)[own]])
            where = "start" if convention == "modified" else "end"
            same = rbd.DenavitHartenberg.from_table(
                found.table(convention), found.joints, convention=convention, **{where: rest}
            )
            for name in ("theta", "d", "alpha", "a"):
                np.testing.assert_array_equal(getattr(same, name), getattr(found, name))


def test_a_printed_table():
    """The Puma 560 of Craig, Introduction to Robotics, chapter three: its six rows, and his p = (x, y, z)."""
    a2, a3, d3, d4 = 0.4318, 0.0203, 0.15005, 0.4318
    half = np.pi / 2
    rows = [
        (0, 0, 0, 0),
        (0, -half, 0, 0),
        (a2, 0, d3, 0),
        (a3, -half, d4, 0),
        (0, half, 0, 0),
        (0, -half, 0, 0),
    ]
    puma = rbd.DenavitHartenberg.from_table(rows)
    q = jnp.array([0.3, -0.8, 0.5, 1.1, -0.4, 0.9])
    c1, s1, c2, s2 = np.cos(q[0]), np.sin(q[0]), np.cos(q[1]), np.sin(q[1])
    c23, s23 = np.cos(q[1] + q[2]), np.sin(q[1] + q[2])
    reach = a2 * c2 + a3 * c23 - d4 * s23
    expected = [c1 * reach - d3 * s1, s1 * reach + d3 * c1, -a3 * s23 - a2 * s2 - d4 * c23]
    np.testing.assert_allclose(puma.end_frame(q).position, expected, atol=1e-12)
    found = rbd.denavit_hartenberg(puma.model())
    assert_close(found.end_frame(q).matrix, puma.end_frame(q).matrix, 1e-12)


def test_gradients():
    """Gradients with respect to model parameters, for general axes; finite for parallel, intersecting or coincident axes."""

    @jax.jit
    @jax.value_and_grad
    def total(position, model):
        other = eqx.tree_at(lambda m: m.placements.position, model, position)
        found = rbd.denavit_hartenberg(other)
        return jnp.sum(found.d * jnp.arange(8.0)) + jnp.sum(found.a) + jnp.sum(found.theta)

    for special in ({}, PARALLEL, MEETING, SAME):
        model = chain(1, special)
        place = np.asarray(model.placements.position)
        slope = np.asarray(total(place, model)[1])
        assert np.isfinite(slope).all()
        if not special:
            way = np.random.default_rng(0).normal(size=place.shape)
            quotient = (total(place + 1e-6 * way, model)[0] - total(place - 1e-6 * way, model)[0]) / 2e-6
            np.testing.assert_allclose(np.sum(slope * way), quotient, rtol=1e-6)


def test_refusals():
    builder = rbd.ModelBuilder()
    builder.add_body("ball", joint=joints.Spherical())
    with pytest.raises(rbd.ModelError, match="'ball' is a Spherical, which has no single axis"):
        rbd.denavit_hartenberg(builder.build())
    with pytest.raises(ValueError, match="2 rows for 4 joints"):
        rbd.DenavitHartenberg.from_table(np.zeros((2, 4)), "RRPR")
    with pytest.raises(ValueError, match=r"joints\[1\] is 'X'"):
        rbd.DenavitHartenberg.from_table(np.zeros((2, 4)), "RX")
    with pytest.raises(rbd.ModelError, match="about z"):
        rbd.DenavitHartenberg.from_table(np.zeros((1, 4)), [joints.Revolute((1, 0, 0))])
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        rbd.DenavitHartenberg.from_table(np.zeros(3))
