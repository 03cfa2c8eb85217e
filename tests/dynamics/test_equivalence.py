"""Dynamically equivalent inertias (book §9.7): across single joints, and for complete models by two independent methods."""

from dataclasses import replace
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import (
    assert_close,
    build,
    case_of,
    compiled,
    coupled,
    driven,
    floating,
    some_inertia,
    some_states,
)
from support import differences

import rbd_jax as rbd
from rbd_jax import joints
from rbd_jax.dynamics import base_parameters_by_rank, transfer_inertia, transferable_inertias


def projector(basis):
    """Returns the projector onto the span of the rows."""
    rows = np.linalg.qr(np.asarray(basis, float).T)[0]
    return rows @ rows.T


def spanned(*inertias):
    return np.stack([np.asarray(inertia.parameters) for inertia in inertias])


def inertia(mass=0.0, first=(0.0, 0.0, 0.0), rotational=(0.0,) * 6):
    return rbd.Inertia(*jax.device_put((np.array(mass), np.array(first), np.array(rotational))))


# Single joints.

AXIS = np.array([1.0, 2.0, 0.5])
MASS, ROUND = inertia(1.0), inertia(rotational=(1.0, 0.0, 1.0, 0.0, 0.0, 0.0))
ANY_ROTATIONAL = [inertia(rotational=np.eye(6)[i]) for i in range(6)]
#: Table 9.7, and the same conditions for other joints.
TABLE = {
    "revolute": (joints.Revolute(), [MASS, inertia(first=(0.0, 0.0, 1.0)), ROUND]),
    "prismatic": (joints.Prismatic(AXIS), ANY_ROTATIONAL),
    "spherical": (joints.Spherical(), [MASS]),
    "fixed": (joints.Fixed(), [rbd.Inertia.from_parameters(row) for row in jax.device_put(list(np.eye(10)))]),
    "free": (joints.Free(), []),
    "translational": (joints.Translational(), ANY_ROTATIONAL),
    "helical": (joints.Helical((0.0, 0.0, 1.0), 0.3), [ROUND]),
    "cylindrical": (joints.Cylindrical((0.0, 0.0, 1.0)), [ROUND]),
    "planar": (joints.Planar((0.0, 0.0, 1.0)), [ROUND]),
    # Joints whose subspace changes with q. The axes of the first always pass through its origin; the last rotates about
    # changing points.
    "universal": (joints.Universal((1.0, 0.0, 0.0), (0.0, 1.0, 0.0)), [MASS]),
    "euler": (joints.SphericalEuler("zyx"), [MASS]),
    "exponential": (joints.SphericalExponential(), [MASS]),
    "rack": (joints.RackAndPinion(0.4), [ROUND]),
}


@pytest.mark.parametrize("name", TABLE)
def test_table_9_7(name):
    """Book table 9.7."""
    joint, expected = TABLE[name]
    found = np.asarray(transferable_inertias(joint).parameters)
    assert found.shape == (len(expected), 10)
    if expected:
        assert_close(projector(found), projector(spanned(*expected)), 1e-12)


def test_of_a_hinge_they_are_masses_on_its_axis():
    """The transferable inertias of a hinge are spanned by point masses anywhere on its axis."""
    axis = AXIS / np.linalg.norm(AXIS)
    at = [rbd.Inertia.from_mass_com(1.0, distance * axis, np.zeros((3, 3))) for distance in (-0.5, 0.2, 1.3)]
    assert_close(
        projector(transferable_inertias(joints.Revolute(AXIS)).parameters), projector(spanned(*at)), 1e-12
    )


def three(joint):
    """Returns a mechanism with general motion in which the joint connects two bodies."""
    bodies = [
        ("base", "world", joints.Free()),
        ("one", "base", joints.Revolute((0.2, 1.0, 0.5))),
        ("two", "one", joint),
        ("three", "two", joints.Revolute((1.0, 0.2, -0.3))),
    ]
    return build("three", bodies, seed=11)


def forces(model, q, v, a):
    return rbd.inverse_dynamics(model, q, v, a), rbd.momentum(model, q, v), rbd.kinetic_energy(model, q, v)


LONG = [pytest.param(name, marks=pytest.mark.slow) for name in ("prismatic", "spherical", "helical", "rack")]


@pytest.mark.parametrize("name", ["revolute", *LONG])
def test_transfers_change_nothing(name):
    """Forces, momentum and energy do not change (9.30), even if a mass becomes zero or negative; other transfers change
    them.
    """
    model = three(TABLE[name][0])
    s = some_states(model)
    before = compiled(forces)(model, s.q, s.v, s.a)
    allowed = transferable_inertias(model.joint("two"))
    weights = np.random.default_rng(0).normal(size=len(allowed.mass))
    mixed = rbd.Inertia.from_parameters(jax.device_put(3 * weights @ np.asarray(allowed.parameters)))
    moved = transfer_inertia(model, "two", mixed)
    assert not np.allclose(moved.inertias.parameters, model.inertias.parameters)
    for x, y in zip(before, compiled(forces)(moved, s.q, s.v, s.a), strict=True):
        assert_close(y, x, 1e-11)
    other = transfer_inertia(model, "two", some_inertia(np.random.default_rng(1)))
    assert np.abs(compiled(forces)(other, s.q, s.v, s.a)[0] - before[0]).max() > 1e-3


def test_a_massless_body_at_a_ball_joint():
    """The book's `best_match` of a ball joint: the body's mass moves to the parent, and forward dynamics does not change."""
    model = floating(joints.Spherical())
    s = some_states(model)
    mass = np.asarray(model.inertias.mass)[2]
    moved = transfer_inertia(model, "tip", inertia(mass))
    assert np.asarray(moved.inertias.mass)[2] == 0
    ask = compiled(lambda model, q, v, tau: rbd.forward_dynamics(model, q, v, tau))
    assert_close(ask(moved, s.q, s.v, s.a), ask(model, s.q, s.v, s.a), 1e-10)


# Complete models.


def planar_arm():
    """Returns three parallel hinges perpendicular to gravity, in links along x."""
    builder, rng = rbd.ModelBuilder(name="planar arm"), np.random.default_rng(0)
    for name, parent, x in (("a", "world", 0.0), ("b", "a", 0.4), ("c", "b", 0.3)):
        builder.add_body(name, parent, joints.Revolute((0.0, 1.0, 0.0)), (x, 0.0, 0.0), some_inertia(rng))
    return builder.build()


def gantry():
    """Returns sliders only: no body rotates, and only masses are observable."""
    builder, rng = rbd.ModelBuilder(name="gantry"), np.random.default_rng(0)
    for name, parent, axis in (("x", "world", (1, 0, 0)), ("y", "x", (0, 1, 0)), ("z", "y", (0, 0, 1))):
        builder.add_body(name, parent, joints.Prismatic(axis), None, some_inertia(rng))
    return builder.build()


def puma():
    """Returns the six hinges of a PUMA 560, its first axis vertical, by modified Denavit–Hartenberg parameters."""
    alpha = np.array([0.0, -0.5, 0.0, -0.5, 0.5, -0.5]) * np.pi
    a, d = (0.0, 0.0, 0.4318, 0.0203, 0.0, 0.0), (0.0, 0.0, 0.15, 0.4318, 0.0, 0.0)
    builder, rng, parent = rbd.ModelBuilder(name="puma"), np.random.default_rng(0), "world"
    for i in range(6):
        at = rbd.Transform.from_dh(a[i], alpha[i], d[i], 0.0)
        parent = builder.add_body(f"link{i + 1}", parent, joints.Revolute(), at, some_inertia(rng))
    return builder.build()


def upright():
    gravity = jax.device_put(np.array([0.0, -9.81, 0.0]))
    return rbd.ModelBuilder.from_model(replace(planar_arm(), gravity=gravity)).build()


MADE = {"planar arm": planar_arm, "gantry": gantry, "puma": puma, "upright": upright}
WEIGHTLESS = "forest, weightless"
SLOW = pytest.mark.slow
MODELS = [*MADE, WEIGHTLESS, "forest", "floating", "chain", "mixed"]


def every_day(*names):
    """Returns all `MODELS` as test parameters; those that are not named are slow."""
    return [pytest.param(name, marks=() if name in names else SLOW) for name in MODELS]


@cache
def by_rules(name):
    """Returns a model, and its base parameters by the rules."""
    if name == WEIGHTLESS:
        model = replace(case_of("forest").model, gravity=jax.device_put(np.zeros(3)))
    else:
        model = MADE[name]() if name in MADE else case_of(name).model
    return model, rbd.base_parameters(model)


@pytest.mark.parametrize("name", every_day("planar arm", "gantry"))
def test_rules_and_rank_agree(name):
    """Both methods give the same number of base parameters, the same unobservable subspace, and the same groups."""
    model, rules = by_rules(name)
    rank = base_parameters_by_rank(model)
    assert rules.count == rank.count and rules.kept == rank.kept and rules.names == rank.names
    assert rules.count + len(rules.unobservable) == 10 * model.nb
    assert_close(projector(rules.unobservable), projector(rank.unobservable), 1e-10)
    assert_close(rules.grouping, rank.grouping, 1e-8)


def forces_of_all(bare, simple, q, v, a):
    """Returns the regressor, which does not depend on the inertias, and the forces of both models."""
    return (
        rbd.inverse_dynamics_regressor(bare, q, v, a),
        *(rbd.inverse_dynamics(model, q, v, a) for model in (bare, simple)),
    )


@pytest.mark.parametrize("name", every_day("planar arm"))
def test_what_is_left_is_all(name):
    """`Y θ = Y[:, kept] K θ`; the kept columns are independent; and the simplified model moves like the original."""
    model, base = by_rules(name)
    s = some_states(model, 3, 12)
    bare = replace(model, armature=jax.device_put(np.zeros(model.nv)))
    simple = base.simplified(bare)
    batched = jax.jit(jax.vmap(forces_of_all, (None, None, 0, 0, 0)))
    Y, expected, found = jax.device_get(batched(bare, simple, s.q, s.v, s.a))
    columns = np.asarray(base.columns(Y))
    assert_close(columns @ np.asarray(base.grouping), Y, 1e-11)
    stacked = columns.reshape(-1, base.count)
    scaled = stacked / np.linalg.norm(stacked, axis=0)
    if len(scaled) >= base.count:
        assert np.linalg.svd(scaled)[1].min() > 1e-6
    assert np.count_nonzero(simple.inertias.parameters) <= base.count
    assert_close(base.of(simple), base.of(model), 1e-12)
    assert_close(found, expected, 1e-11)
    assert_close(columns @ np.asarray(base.of(model)), expected, 1e-11)


#: Hinges in general directions have three unobservable parameters each (table 9.7), and a vertical first hinge has all
#: but its moment of inertia: 7 n - 6 are observable. Parallel hinges perpendicular to gravity have a moment of inertia
#: and two first moments each; vertical ones lose the first moments of the first hinge. Bodies on sliders have their
#: mass.
COUNTS = {"planar arm": 9, "gantry": 3, "puma": 36, "upright": 7}


@pytest.mark.parametrize("name", COUNTS)
def test_known_counts(name):
    model, base = by_rules(name)
    assert base.count == COUNTS[name]
    if name == "gantry":
        np.testing.assert_allclose(base.of(model), model.inertias.mass, rtol=1e-12)
        assert base.names == ("x m", "y m", "z m")


def test_tables_rules_are_what_is_lost_of_a_body_that_moves_at_will():
    """On a floating base each joint has as many unobservable parameters as in table 9.7."""
    for name, count in (("revolute", 3), ("prismatic", 6), ("spherical", 1)):
        assert len(transferable_inertias(TABLE[name][0]).mass) == count
    assert rbd.base_parameters(floating(joints.Spherical())).count == 30 - 3 - 1


@SLOW
def test_mimic_joints_by_rank():
    """A mimic joint has fewer observable parameters than an independent joint; the simplified model has the same motion."""
    model = coupled()
    with pytest.raises(
        rbd.ModelError, match="joint 'c' of model 'coupled' mimics another.*use base_parameters_by_rank"
    ):
        rbd.base_parameters(model)
    base = base_parameters_by_rank(model)
    s = some_states(model)
    bare = replace(model, armature=jax.device_put(np.zeros(model.nv)))
    forces = compiled(rbd.inverse_dynamics)
    assert_close(forces(base.simplified(bare), s.q, s.v, s.a), forces(bare, s.q, s.v, s.a), 1e-10)


def test_limits_take_nothing_away():
    model = planar_arm()
    limit = jax.device_put(np.full(3, 0.1))
    tight = replace(model, lower=limit, upper=limit)
    assert rbd.base_parameters(tight).names == rbd.base_parameters(model).names


@pytest.mark.parametrize("name", ["planar arm", pytest.param("puma", marks=SLOW)])
def test_single_precision(name):
    model, base = by_rules(name)
    small = rbd.base_parameters(rbd.astype(model, jnp.float32))
    assert small.kept == base.kept and small.grouping.dtype == jnp.float32
    np.testing.assert_allclose(small.grouping, base.grouping, atol=1e-5)


def test_models_without_motion():
    builder = rbd.ModelBuilder()
    builder.add_body("post", inertia=some_inertia(np.random.default_rng(0)))
    model = builder.build()
    for base in (rbd.base_parameters(model), base_parameters_by_rank(model)):
        assert base.count == 0 and base.of(model).shape == (0,)
        assert not np.asarray(base.simplified(model).inertias.parameters).any()


# Derivatives, transformations and arguments.


def test_derivatives():
    """Derivatives of transferred and grouped inertias, and of the dynamics with them, by the parameters of the model."""
    model, base = by_rules("planar arm")
    s = some_states(model)
    q, v, a = s.q[0], s.v[0], s.a[0]

    def by_inertias(x):
        other = eqx.tree_at(lambda m: m.inertias, model, rbd.Inertia.from_parameters(x.reshape(3, 10)))
        tau = rbd.inverse_dynamics(base.simplified(other), q, v, a)
        return jnp.concatenate([base.of(other), tau])

    def by_place(x):
        other = eqx.tree_at(
            lambda m: m.placements.position, model, model.placements.position + x.reshape(3, 3)
        )
        added = rbd.Inertia.from_parameters(jnp.cos(jnp.arange(10.0)) * x[0])
        return transfer_inertia(other, "c", added).inertias.parameters.reshape(-1)

    for function, size in ((by_inertias, 30), (by_place, 9)):
        x = np.random.default_rng(2).normal(size=(2, size))
        slopes = jax.jit(jax.vmap(jax.jacrev(function)))(x)
        assert_close(slopes, differences(jax.jit(jax.vmap(function)), x, 1e-3, 4), 1e-8)


def test_refused():
    model = planar_arm()
    with pytest.raises(rbd.ModelError, match="prescribed motion"):
        rbd.base_parameters(driven())
    with pytest.raises(rbd.ModelError, match="prescribed motion"):
        transferable_inertias(driven().joint("spin"))
    with pytest.raises(rbd.ModelError, match="outside of jit"):
        jax.jit(lambda m: rbd.base_parameters(m).of(m))(model)
    with pytest.raises(rbd.ModelError, match="batch of shape"):
        transfer_inertia(model, "b", model.inertias)
    with pytest.raises(rbd.UnknownNameError, match="'hand'"):
        transfer_inertia(model, "hand", inertia(1.0))
    with pytest.raises(
        rbd.ModelError, match="has 1 bodies, but these base parameters belong to a model with 3"
    ):
        rbd.base_parameters(model).of(rbd.load("pendulum"))
    with pytest.raises(ValueError, match="samples is 0"):
        base_parameters_by_rank(model, 0)
