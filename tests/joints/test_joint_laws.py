"""Properties of all joints: the definitions of the protocol, by finite differences of `transform`.

All computations of a family are compiled once, as one function of a batch of samples that several tests use.
"""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from families import FAMILIES
from support import assert_each_close

from rbd_jax._core.array import dot, matvec
from rbd_jax.joints import ConstantSubspaceJoint, Joint
from rbd_jax.spatial.transform import body_twist


SAMPLES = 8
#: Joints whose subspace is constant or depends on angles, on a vector or on time.
EVERY_DAY = ("revolute", "universal", "exponential", "driven")


def families(wanted, every_day=EVERY_DAY):
    """Parametrizes a test by the families for which `wanted` holds, most of them only in the long sweeps."""
    return pytest.mark.parametrize(
        "family",
        [
            pytest.param(name, marks=() if name in every_day else pytest.mark.slow)
            for name, joint in FAMILIES.items()
            if wanted(name, joint)
        ],
    )


EVERY = families(lambda name, joint: True)
# The protocol's default of S̊ ignores time.
SCLERONOMIC = families(lambda name, joint: not joint.rheonomic)
# Derivatives compile slowly.
BUILDING = families(
    lambda name, joint: name not in ("free 2d", "free 3d", "spline curve"), ("revolute", "universal")
)
MOVING = families(lambda name, joint: joint.nv)
UNIFORM = families(lambda name, joint: joint.nv and isinstance(joint, ConstantSubspaceJoint))


STEP = 1e-3
OFFSETS = STEP * np.arange(-2.0, 3.0)
# Central differences of fourth order from values at the offsets: first and second derivative. Their truncation errors are
# `STEP⁴/30` of the fifth and `STEP⁴/90` of the sixth derivative; rounding errors are 1e-13 and 1e-10.
SLOPE = np.array([1.0, -8.0, 0.0, 8.0, -1.0]) / (12 * STEP)
BEND = np.array([-1.0, 16.0, -30.0, 16.0, -1.0]) / (12 * STEP**2)


def slope(values):
    """Returns the derivative at the middle of five values at the offsets, along a leading axis."""
    return jax.tree.map(lambda x: jnp.tensordot(jnp.array(SLOPE), x, 1), values)


def laws(joint, q, v, other):
    """Returns all quantities that the tests below check, for one sample.

    Repeated computations are batched, so that they compile once.
    """

    def moved(time):
        """Returns the placement and velocity after moving at `v` for some time."""
        now, there = joint.at_time(0.4 + time), joint.integrate(q, time * v)
        return now.transform(there), matvec(now.motion_subspace(there), v) + now.drift(there)

    other_rate = jnp.cos(1 + jnp.arange(joint.nv, dtype=v.dtype))
    placements, velocities = jax.vmap(moved)(jnp.concatenate([OFFSETS, 0.7 + OFFSETS]))
    back = joint.integrate(q, joint.difference(q, other))
    return {
        "transform": placements[2].matrix,
        "velocity": velocities[2],
        "velocity, differences": body_twist(placements[2], slope(placements[:5])),
        "later velocity, differences": body_twist(placements[7], slope(placements[5:])),
        "product": joint.velocity_product(q, v),
        "product, differences": slope(velocities[:5]),
        "subspace": joint.motion_subspace(q),
        "subspace, default": Joint.motion_subspace(joint, q),
        "rate": joint.subspace_rate(q, v),
        "rate, default": Joint.subspace_rate(joint, q, v),
        "chart velocity": joint.chart_velocity(q, v, other_rate),
        "chart velocity, default": Joint.chart_velocity(joint, q, v, other_rate),
        "chart rate": joint.chart_rate(q, v, other_rate),
        "chart rate, default": Joint.chart_rate(joint, q, v, other_rate),
        "configuration rate": joint.configuration_rate(q, v),
        "configuration rate, default": Joint.configuration_rate(joint, q, v),
        "velocity of the rate": joint.configuration_velocity(q, joint.configuration_rate(q, v)) - v,
        "chart, there and back": joint.chart_rate(q, v, joint.chart_velocity(q, v, other_rate)) - other_rate,
        "there and back": joint.difference(q, joint.integrate(q, v / 2)) - v / 2,
        "other and back": jax.vmap(joint.transform)(jnp.stack([other, back])).matrix,
        "nowhere": joint.integrate(q, 0 * v) - q,
    }


@functools.cache
def samples(family):
    joint, keys = FAMILIES[family], jax.random.split(jax.random.key(7), 3)
    q, other = (jax.vmap(joint.random)(jax.random.split(key, SAMPLES)) for key in keys[:2])
    return q, jax.random.normal(keys[2], (SAMPLES, joint.nv)), other


@functools.cache
def observed(family):
    result = jax.jit(jax.vmap(laws, in_axes=(None, 0, 0, 0)))(FAMILIES[family], *samples(family))
    return jax.tree.map(np.asarray, result)


@EVERY
def test_transform_is_rigid(family):
    rotation = observed(family)["transform"][:, :3, :3]
    assert_each_close(
        np.swapaxes(rotation, 1, 2) @ rotation, np.broadcast_to(np.eye(3), rotation.shape), 1e-14
    )
    assert_each_close(np.linalg.det(rotation), np.ones(SAMPLES), 1e-14)


@EVERY
def test_velocity_is_the_rate_of_transform(family):
    """Book eqs. 3.31 to 3.33; Sueda eqs. 2.22 to 2.30 and 2.41 among them."""
    seen = observed(family)
    assert_each_close(seen["velocity"], seen["velocity, differences"], 1e-9)


@EVERY
def test_velocity_product_is_the_rate_of_velocity(family):
    """Book eqs. 3.40 and 3.41."""
    seen = observed(family)
    assert_each_close(seen["product"], seen["product, differences"], 1e-9)


@MOVING
def test_overrides_agree_with_the_defaults(family):
    seen = observed(family)
    assert_each_close(seen["subspace"], seen["subspace, default"], 1e-13)
    if not FAMILIES[family].rheonomic:
        assert_each_close(seen["rate"], seen["rate, default"], 1e-12)


@MOVING
def test_charts_are_the_derivatives_of_integrate(family):
    """dexp and its inverse equal automatic differentiation and are inverses of each other. Book eqs. 3.6 and 3.7."""
    seen = observed(family)
    for name in ("chart velocity", "chart rate"):
        assert_each_close(seen[name], seen[f"{name}, default"], 1e-11)
    assert_each_close(seen["chart, there and back"], np.zeros_like(seen["chart, there and back"]), 1e-11)


@MOVING
def test_configuration_rates_are_those_of_integrate(family):
    """Rates equal automatic differentiation and are the inverse of `configuration_velocity`. Book eq. 3.7."""
    seen = observed(family)
    assert_each_close(seen["configuration rate"], seen["configuration rate, default"], 1e-12)
    assert_each_close(seen["velocity of the rate"], np.zeros_like(seen["velocity of the rate"]), 1e-11)


@SCLERONOMIC
def test_velocity_product_is_rate_times_velocity(family):
    seen, (_, v, _) = observed(family), samples(family)
    assert_each_close(seen["product"], np.einsum("sij,sj->si", seen["rate"], v), 1e-13)


@EVERY
def test_integrate_and_difference_are_inverse(family):
    seen = observed(family)
    assert_each_close(seen["there and back"], np.zeros_like(seen["there and back"]), 1e-13)
    # The planar joint divides by a small number near two turns.
    assert_each_close(seen["other and back"][:, 0], seen["other and back"][:, 1], 1e-11)
    assert_each_close(seen["nowhere"], np.zeros_like(seen["nowhere"]), 1e-15)


@UNIFORM
def test_constant_velocity_is_a_constant_twist(family):
    """Joints with constant S are groups: along `t -> q ⊕ t v` the twist is constant."""
    seen = observed(family)
    assert_each_close(seen["velocity"], seen["later velocity, differences"], 1e-9)


@EVERY
def test_sizes(family):
    joint, (q, _, _) = FAMILIES[family], samples(family)
    assert q.shape == (SAMPLES, joint.nq) and q.dtype == jnp.float64
    assert joint.neutral().shape == (joint.nq,)
    assert observed(family)["subspace"].shape == (SAMPLES, 6, joint.nv)
    assert np.ptp(q, axis=0).min(initial=1.0) > 0


@pytest.mark.parametrize("family", FAMILIES)
def test_neutral_is_the_identity(family):
    joint = FAMILIES[family]
    if "spline" not in family and family != "offset" and not joint.rheonomic:
        assert_each_close(joint.transform(joint.neutral()).matrix, np.eye(4), 0)


@pytest.mark.parametrize("family", FAMILIES)
def test_parameters_stack(family):
    """Equal joints can be stacked: all leaves are floats, and the structure is hashable and equal for equal joints."""
    leaves, structure = jax.tree.flatten(FAMILIES[family])
    assert all(eqx.is_inexact_array(leaf) for leaf in leaves)
    again = jax.tree.structure(jax.tree.map(lambda leaf: leaf + 1, FAMILIES[family]))
    assert hash(structure) == hash(again) and structure == again


def everything(joint, q, v, other):
    """Returns all quantities of a joint in one flat array."""
    parts = (
        joint.transform(q),
        joint.motion_subspace(q),
        joint.velocity_product(q, v),
        joint.drift(q),
        joint.integrate(q, v / 2),
        joint.difference(q, other),
    )
    return jnp.concatenate([part.ravel() for part in jax.tree.leaves(parts)])


def derivatives(joint, q, v, other):
    """Returns `everything`, values of its weighted sum along a direction, and two exact derivatives.

    The gradient of `x, d -> f'(x) d` with respect to both arguments consists of the rate of the gradient and the gradient.
    It covers both modes of differentiation, and both orders.
    """
    start = (joint, q, v, other)
    direction = jax.tree.map(
        lambda x: jnp.cos(jnp.arange(x.size, dtype=x.dtype) + x.size).reshape(x.shape), start
    )

    def weighted(arguments):
        values = everything(*arguments)
        return dot(values, jnp.sin(jnp.arange(1.0, 1.0 + len(values)))), values

    def along(x, d):
        return jax.jvp(lambda x: weighted(x)[0], (x,), (d,))[1]

    nearby, values = jax.vmap(
        lambda step: weighted(jax.tree.map(lambda x, d: x + step * d, start, direction))
    )(jnp.array(OFFSETS))
    first, gradients = jax.value_and_grad(along, (0, 1))(start, direction)
    second = sum(jnp.vdot(a, b) for a, b in zip(*map(jax.tree.leaves, (gradients[0], direction))))
    return values[2], nearby, first, second, gradients


@functools.cache
def differentiated(family):
    """Returns `derivatives` at rest and moving at the neutral configuration, at rest elsewhere, and at small steps."""
    joint, (q, v, _) = FAMILIES[family], samples(family)
    rest = joint.neutral()
    special = [(rest, 0 * v[0], rest), (rest, v[0], rest), (q[0], 0 * v[0], q[0])]
    near = jax.vmap(joint.integrate)(q, v / 3)
    points = tuple(jnp.concatenate([jnp.stack(a), b]) for a, b in zip(zip(*special), (q, v, near)))
    return points, jax.jit(jax.vmap(derivatives, in_axes=(None, 0, 0, 0)))(joint, *points)


@BUILDING
def test_single_precision(family):
    points, (exact, *_) = differentiated(family)
    single = jax.tree.map(lambda x: x.astype(jnp.float32), (FAMILIES[family], *points))
    rounded = jax.jit(jax.vmap(everything, in_axes=(None, 0, 0, 0)))(*single)
    assert rounded.dtype == jnp.float32
    assert_each_close(rounded, exact, 1e-5)


@BUILDING
def test_two_derivatives(family):
    """Derivatives with respect to configuration, velocity, parameters and time exist, also where formulas could be singular."""
    _, (_, nearby, first, second, gradients) = differentiated(family)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradients))
    # The neutral configuration of a spline is a knot, where finite differences mix two polynomials.
    regular = slice(2, None) if "spline" in family else slice(None)
    assert_each_close(first[regular], (nearby @ SLOPE)[regular], 1e-8)
    assert_each_close(second[regular], (nearby @ BEND)[regular], 1e-5)
