"""Randomization reaches every model parameter, draws within bounds, and reports unsupported requests."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd
from rbd_jax import tasks
from rbd_jax.tasks.quadruped import _robot


@pytest.fixture(scope="module")
def robot():
    """The quadruped with its servos, and its feet on the ground."""
    return _robot(knees=False)


def changed(one, other):
    """Returns the paths where two models differ."""
    rows = zip(jax.tree_util.tree_leaves_with_path(one), jax.tree.leaves(other), strict=True)
    return {
        jax.tree_util.keystr(path, simple=True, separator=".")
        for (path, a), b in rows
        if not np.array_equal(a, b)
    }


def _radius(model, shape):
    return model.named("shape", shape).geometry.radius[None]


def _each(model, name):
    return jnp.stack([getattr(force, name) for force in model.forces])


#: A randomization, and the entries that it changes.
SCALED = {
    "gravity": (tasks.scaled("gravity", 1.1, 1.2), lambda m: m.gravity[2:]),
    "masses": (tasks.scaled_masses(1.1, 1.2), lambda m: m.inertias.mass),
    "a few masses": (tasks.scaled("inertias.mass", 1.1, 1.2, of=["FL_*", "trunk"]), lambda m: m.inertias.mass[:5]),
    "armature": (tasks.scaled("armature", 1.1, 1.2), lambda m: m.armature[6:]),
    "damping": (tasks.scaled("damping", 1.1, 1.2, of="*_hip"), lambda m: m.damping[6::3]),
    "limits": (tasks.scaled("effort_limit", 1.1, 1.2, of="*_calf"), lambda m: m.effort_limit[8::3]),
    "positions": (tasks.scaled("placements.position", 1.1, 1.2, of="FL_thigh"), lambda m: m.placements.position[2, 1:2]),
    "joints": (tasks.scaled("joints.axis", 1.1, 1.2), lambda m: jnp.max(jnp.abs(m.joint("FL_hip").axis))[None]),
    "servos": (tasks.scaled_actuators(1.1, 1.2), lambda m: jnp.stack([one.gain.value for one in m.actuators])),
    "shapes": (tasks.scaled("shapes.geometry", 1.1, 1.2, of="FL_foot"), lambda m: _radius(m, "FL_foot")),
    "the ground": (tasks.scaled("forces.normal_stiffness", 1.1, 1.2), lambda m: _each(m, "normal_stiffness")),
    "grip": (tasks.scaled_contact_friction(1.1, 1.2, shapes="floor"), lambda m: _each(m, "friction")),
}  # fmt: skip


@pytest.mark.parametrize("draw, numbers", SCALED.values(), ids=SCALED)
def test_factors(robot, draw, numbers, key):
    """Factors are within bounds, differ between entries and keys, and leave the rest of the model unchanged."""

    @jax.jit
    def run(key):
        new = draw(key, robot)
        return new, numbers(new) / numbers(robot)

    new, factors = run(key)
    factors = np.asarray(factors)
    assert ((factors > 1.1) & (factors < 1.2)).all()
    assert len(factors) == 1 or len(np.unique(factors.round(9))) > 1 or draw is SCALED["grip"][0]
    assert not np.allclose(factors, run(jax.random.key(9))[1], rtol=1e-6)
    assert 1 <= len(changed(new, robot)) <= 40


def test_together_and_apart(robot, key):
    @jax.jit
    def run(key):
        damping = tasks.scaled("damping", 0.5, 1.5, of="*_hip", together=True)(key, robot).damping
        return damping, tasks.scaled_actuators(0.5, 1.5, actuators="FL_*")(key, robot).actuators

    damping, servos = run(key)
    one = np.asarray(damping)[6:] / np.asarray(robot.damping)[6:]
    assert np.ptp(one[::3]) < 1e-12 and abs(one[0] - 1) > 1e-3
    np.testing.assert_array_equal(np.delete(one, slice(None, None, 3)), 1)
    # Gain and bias of a servo get the same factor.
    for old, new in zip(robot.actuators, servos):
        factor = float(new.gain.value) / float(old.gain.value)
        np.testing.assert_allclose(new.bias.coefficients, factor * np.asarray(old.bias.coefficients))
        assert (abs(factor - 1) > 1e-3) == old.name.startswith("FL")


def test_bodies_stay_bodies(robot, key):
    """Scaled masses and shifted centers of mass keep the central inertia in proportion to the mass."""
    told = lambda bodies: (bodies.mass, bodies.com, bodies.rotational_com)

    @jax.jit
    def run(key):
        heavy = tasks.scaled_masses(0.5, 1.5)(key, robot).inertias
        moved = tasks.shifted_centers_of_mass(0.02, bodies=["trunk", "*_thigh"])(key, robot).inertias
        return heavy.com, told(moved), told(robot.inertias)

    heavy, (mass, com, rotational), before = jax.tree.map(np.asarray, run(key))
    np.testing.assert_allclose(heavy, before[1], atol=1e-12)
    off = np.abs(com - before[1]).max(1)
    chosen = np.array([name == "trunk" or name.endswith("_thigh") for name in robot.body_names])
    assert (off[chosen] > 1e-4).all() and (off[chosen] < 0.02).all()
    assert (off[~chosen] == 0).all()
    np.testing.assert_allclose(rotational, before[2], atol=1e-12)
    np.testing.assert_array_equal(mass, robot.inertias.mass)


def test_placements_stay_placements(robot, key):
    shift = tasks.shifted_placements(0.01, 0.1, bodies="*_calf")
    new = jax.tree.map(np.asarray, jax.jit(lambda key: shift(key, robot).placements)(key))
    rotation = np.asarray(new.rotation)
    np.testing.assert_allclose(
        rotation @ rotation.transpose(0, 2, 1), np.broadcast_to(np.eye(3), rotation.shape), atol=1e-12
    )
    off = np.abs(new.position - robot.placements.position).max(1)
    assert (off > 0).tolist() == [name.endswith("_calf") for name in robot.body_names] and off.max() < 0.02


def test_shifted_and_drawn(robot, key):
    shift = tasks.shifted("gravity", [-0.5, -0.5, 0.0], [0.5, 0.5, 0.0])
    hips, same = (tasks.drawn("friction", 0.1, high, of=of) for high, of in ((0.2, "*_hip"), (0.1, "*")))

    @jax.jit
    def run(key):
        each = jax.vmap(lambda key: same(key, robot).friction)(jax.random.split(key))
        return shift(key, robot).gravity, hips(key, robot).friction, each

    tilt, friction, each = map(np.asarray, run(key))
    assert (np.abs(tilt[:2]) < 0.5).all() and (tilt[:2] != 0).all() and tilt[2] == robot.gravity[2]
    assert (friction[6::3] >= 0.1).all() and friction.sum() == friction[6::3].sum()
    np.testing.assert_array_equal(each, 0.1)


@pytest.mark.slow
def test_an_episode_has_one_model(key):
    """The model drawn at a reset is simulated until the next one; the state contains only the changed leaves."""
    rules = [
        tasks.scaled_masses(0.5, 2.0, bodies="pole"),
        lambda key, m: eqx.tree_at(lambda m: m.damping, m, m.damping + 1),
    ]
    task = tasks.load("cartpole", randomization=rules, episode_length=3)
    first = task.reset(key)
    assert [x.shape for x in jax.tree.leaves(first.changes)] == [(2,), (2, 3), (2, 6), (2,)]
    model = task.situation(first).model
    assert (model.damping == 1).all() and model.inertias.mass[1] != task.model.inertias.mass[1]
    state = task.step_and_reset(first, jnp.ones(1))
    expected = rbd.step(
        model, first.state, rbd.Controls(jnp.array([20.0])), dt=task.dt, substeps=task.substeps
    )
    np.testing.assert_allclose(state.state.q, expected.q, rtol=1e-12)
    np.testing.assert_array_equal(task.situation(state).model.inertias.mass, model.inertias.mass)
    # The structure is the same wherever it is created, as required for selecting between two.
    compiled = jax.jit(jax.vmap(task.reset))(key[None])
    assert jax.tree.structure(compiled) == jax.tree.structure(first)


CART = rbd.load("cartpole")

REFUSED = {
    "a field": (lambda: tasks.scaled("dampin", 1, 2), "a model has no numbers 'dampin'; did you mean 'damping'"),
    "a field of fields": (lambda: tasks.scaled("inertias.mas", 1, 2), "a Inertia has no field 'mas'; did you mean 'mass'"),
    "a role": (lambda: tasks.scaled("actuators", 1, 2), "which numbers of the actuators"),
    "of a role": (lambda: tasks.scaled("actuators.gian", 1, 2), "no actuator of .* has 'gian'; did you mean 'gain'"),
    "joints": (lambda: tasks.scaled("joints", 1, 2), "no joint of model 'cartpole' has a parameter ''"),
    "several kinds": (lambda: tasks.scaled("joints.axis", 1, 2), "joints of several kinds have it"),
    "a name": (lambda: tasks.scaled("damping", 1, 2, of="hing"), "no joint of .* is called 'hing'; did you mean 'hinge'"),
    "an actuator": (lambda: tasks.scaled_actuators(1, 2, actuators="wheel"), "no actuator of model 'cartpole' is called 'wheel'"),
    "whose": (lambda: tasks.scaled("gravity", 1, 2, of="cart"), "it belongs to no body or joint"),
    "a shape": (lambda: tasks.shifted("damping", [0, 0], [1, 1]), r"the bounds have shape \(2,\); they are numbers, or"),
    "the order": (lambda: tasks.scaled("damping", 2, 1), "scaled: low is 2.0 and high 1.0; low comes first"),
    "nothing": (lambda: tasks.scaled_masses(0, 1), "scaled_masses: low is 0.0; it must be greater than 0"),
    "a rule": (lambda: 3, r"randomization\[0\] is a int; it takes a function"),
    "no model": (lambda: lambda key, model: model.gravity, r"randomization\[0\] returned a .*; it must return the given model"),
    "a number": (
        lambda: lambda key, model: eqx.tree_at(lambda m: m.damping, model, model.damping[0]),
        r"randomization\[0\] returned damping as float64\[\]; it was float64\[2\]",
    ),
    "another model": (lambda: lambda key, model: rbd.detach(model, "sensor"), r"returned a model of another structure"),
}  # fmt: skip


@pytest.mark.parametrize("make, message", REFUSED.values(), ids=REFUSED)
def test_what_is_refused(make, message):
    """The constructor of the task raises, before any simulation."""
    with pytest.raises((ValueError, rbd.UnknownNameError), match=message):
        tasks.load("cartpole", model=CART, randomization=[make()])
