"""Linear estimators: true values from exact data, optimal values from noisy data, and reports of unobservable parameters."""

import functools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import assert_close

import rbd_jax as rbd
from rbd_jax import identify
from rbd_jax.identify import Equations, Log, LogError, least_squares, physical_least_squares


pytestmark = pytest.mark.usefixtures("without_kernels")


@functools.cache
def arm():
    """Three hinges with all joint terms that are linear in parameters."""
    builder = rbd.ModelBuilder(name="arm")
    axes = ((0, 0, 1), (0, 1, 0), (0, 1, 0))
    parent = "world"
    for i, axis in enumerate(axes):
        com = jax.device_put(np.array([0.02, -0.01, 0.15]))
        rotational = jax.device_put(np.diag([0.03, 0.025, 0.015]))
        inertia = rbd.Inertia.from_mass_com(2.0 - 0.4 * i, com, rotational)
        placement = rbd.Transform.from_position(jax.device_put(np.array([0.0, 0.05 * i, 0.3 * (i > 0)])))
        builder.add_body(f"link{i}", parent, rbd.joints.Revolute(axis), placement, inertia, joint_name=f"joint{i}",
                         damping=0.4, friction=0.3, armature=0.05, stiffness=0.7 * (i == 2))  # fmt: skip
        parent = f"link{i}"
    return builder.build()


FREE = [
    identify.inertias(),
    identify.damping(),
    identify.coulomb(),
    identify.armature(),
    identify.stiffness("joint2"),
]


@functools.cache
def thought(scale=0.3):
    """Returns the initial model of the arm: other physically consistent bodies, and no friction."""
    random = np.random.default_rng(4)
    roots = np.linalg.cholesky(np.asarray(arm().inertias.pseudo_inertia)) @ (
        np.eye(4) + scale * random.normal(size=(3, 4, 4))
    )
    inertias = rbd.Inertia.from_pseudo_inertia(jax.device_put(roots @ np.swapaxes(roots, 1, 2)))
    none = jax.device_put(np.zeros(3))
    return replace(arm(), inertias=inertias, damping=none, friction=none, stiffness=none)


@jax.jit
def torques(model, q, v, a):
    """Returns the torques that drive a model along a motion."""
    return jax.vmap(lambda *x: rbd.inverse_dynamics(model, *x) - rbd.passive_force(model, *x[:2]))(q, v, a)


@functools.cache
def run(seed, seconds=8.0, rate=50, noise=0.0, name="run"):
    """Returns a log with sums of five sines in each joint."""
    random = np.random.default_rng(seed)
    t = np.arange(int(seconds * rate)) / rate
    size, phase, speed = (
        random.normal(size=(5, 3)) / 2,
        random.uniform(0, 6, (5, 3)),
        0.8 * np.arange(1, 6)[:, None],
    )
    angle = speed * t[:, None, None] + phase
    q, v, a = (
        np.sum(x, axis=1)
        for x in (size * np.sin(angle), size * speed * np.cos(angle), -size * speed**2 * np.sin(angle))
    )
    tau = np.asarray(torques(arm(), q, v, a))
    return Log(t, q, v, a, tau + noise * random.normal(size=tau.shape), name=name)


@functools.cache
def equations_of(seed):
    """Returns the equations of a run without noise."""
    return Equations.of(thought(), run(seed))


def test_equations_have_all_of_the_samples():
    """Their sums of squares equal those of the samples, for any model, in pieces or at once."""
    log = run(3, noise=0.3)
    tau = log.tau.values.copy()
    tau[5:9, 1] = np.nan
    log = replace(log, tau=tau)
    friction, stiffness = (jax.device_put(x) for x in (np.array([0.1, 0.2, 0.3]), np.ones(3)))
    model = replace(thought(), friction=friction, stiffness=stiffness)
    whole, pieces = (
        Equations.of(model, log),
        Equations.of(model, [log.between(0, 0.9), log.between(0.901, 9)], chunk=16),
    )
    found = np.asarray(torques(model, log.q.values, log.v.values, log.a.values))
    expected = np.sqrt(np.nanmean((found - tau) ** 2, axis=0))
    for equations in (whole, pieces):
        np.testing.assert_allclose(equations.errors(model), expected, rtol=1e-10)
        assert equations.counts.tolist() == [400, 396, 400]
    np.testing.assert_allclose(whole.torques, np.sqrt(np.nanmean(tau**2, axis=0)), rtol=1e-12)


def test_what_is_linear_is_written_back():
    numbers = np.random.default_rng(0).normal(size=10 * 3 + 4 * 3)
    again = jax.jit(lambda x: identify.linear_numbers(identify.with_linear_numbers(arm(), x)))(numbers)
    assert_close(again, numbers, 0)


@pytest.mark.parametrize("estimator", [least_squares, physical_least_squares])
def test_without_noise_what_is_seen_is_the_truth(estimator):
    found = estimator(thought(), equations_of(0), FREE)
    assert found.converged and found.rank < found.parameters.size
    held = equations_of(1)
    assert (held.errors(found.model) < 1e-11 * held.torques.max()).all()
    true = np.asarray(found.parameters.values_of(arm()))
    assert_close(found.seen.grouping @ found.values, found.seen.grouping @ true, 1e-9)
    for name in ("joint1 damping", "joint2 friction", "joint2 armature", "joint2 stiffness"):
        assert abs(found.value(name) - true[found.parameters.names.index(name)]) < 1e-9


def test_what_is_seen_is_what_the_base_parameters_say():
    found = least_squares(thought(), equations_of(0), identify.inertias())
    base = rbd.base_parameters(arm())
    assert found.rank == base.count
    assert_close(
        found.seen.directions @ np.asarray(base.grouping).T, np.zeros((30 - base.count, base.count)), 1e-9
    )


def test_bodies_that_can_be_and_what_was_thought_decide_the_rest():
    """Plain least squares gives physically inconsistent bodies; the physical estimator does not.

    Along unobservable directions, the distance to the prior model is stationary.
    """
    plain = least_squares(thought(), equations_of(0), FREE)
    assert not plain.model.inertias.is_physical.all()
    found = physical_least_squares(thought(), equations_of(0), FREE)
    assert found.model.inertias.is_physical.all()

    def distance(values):
        ratio = jax.vmap(jnp.linalg.solve)(
            thought().inertias.pseudo_inertia, found.parameters.with_values(values).inertias.pseudo_inertia
        )
        return jnp.sum(jnp.trace(ratio, axis1=1, axis2=2) - jnp.linalg.slogdet(ratio)[1])

    slope = np.asarray(jax.jit(jax.grad(distance))(found.values))
    inertial = found.seen.directions[:, 30:] == 0
    hidden = found.seen.directions[inertial.all(axis=1)]
    assert len(hidden) >= 9
    assert np.abs(hidden @ slope).max() < 1e-4 * np.abs(slope).max()
    mass, before = (float(np.asarray(model.inertias.mass)[0]) for model in (found.model, thought()))
    assert abs(mass / before - 1) < 0.3


def test_outliers_do_not_count_in_a_robust_estimate():
    log = run(0, seconds=10.0, noise=0.02)
    tau = log.tau.values.copy()
    struck = np.random.default_rng(1).choice(len(tau), len(tau) // 10, replace=False)
    tau[struck] += 15.0
    log = replace(log, tau=tau)
    held = equations_of(1)
    plain, robust = (least_squares(thought(), log, FREE, robust=way) for way in (False, True))
    assert robust.converged
    assert (held.errors(robust.model) < 0.15 * held.errors(plain.model)).all()
    assert (held.errors(robust.model) < 0.02).all()
    assert (robust.noise < 0.03).all() and (plain.noise > 1).all()
    # Without outliers, robust weights cost little accuracy.
    clean = run(0, seconds=10.0, noise=0.02)
    a, b = (least_squares(thought(), clean, FREE, robust=way) for way in (False, True))
    ratio = b.base_standard_errors / a.base_standard_errors
    assert (ratio > 0.95).all() and (ratio < 1.15).all()


def test_noise_of_each_joint_is_its_weight():
    """A noisy joint does not degrade the estimates of an accurately measured one."""
    log = run(0, seconds=10.0)
    tau = log.tau.values + np.array([0.0, 5.0, 0.01]) * np.random.default_rng(0).normal(
        size=log.tau.values.shape
    )
    found = least_squares(thought(), replace(log, tau=tau), FREE)
    np.testing.assert_allclose(found.noise[1:], [5.0, 0.01], rtol=0.1)
    assert abs(found.value("joint2 damping") - 0.4) < 0.005


def test_bounds_hold_and_are_told():
    log = run(0, noise=0.3)
    model = replace(arm(), damping=jax.device_put(np.zeros(3)))
    tau = log.tau.values - 0.6 * log.v.values  # as if the joints were driven by negative damping
    found = least_squares(
        model, replace(log, tau=tau), [identify.damping(), identify.coulomb(bounds=(0.0, 0.1))]
    )
    assert set(found.at_bounds) >= {"joint0 damping", "joint1 damping", "joint2 damping"}
    assert (found.values[:3] == 0).all() and (found.values[3:] <= 0.1 + 1e-12).all()


def test_bounds_are_no_measurements():
    """Errors of values at a bound, and of correlated values, are those without bounds, given the remaining noise."""
    log = run(0, noise=0.3)
    free, held = (
        least_squares(arm(), log, [identify.damping(), identify.coulomb(bounds=ends)])
        for ends in (None, (0.0, 0.05))
    )
    assert set(held.at_bounds) >= {"joint0 friction", "joint1 friction", "joint2 friction"}
    for joint in range(3):
        own = np.ix_([joint, joint + 3], [joint, joint + 3])
        expected = free.covariance[own] * (held.noise[joint] / free.noise[joint]) ** 2
        assert_close(held.covariance[own] / expected, np.ones((2, 2)), 1e-6)


def test_priors_decide_where_data_say_little():
    still = np.zeros((30, 3))
    tau = np.asarray(torques(arm(), still + 0.3, still, still))
    log = Log(np.arange(30) / 10, still + 0.3, still, still, tau)
    prior = identify.damping(prior=(0.5, 0.1))
    found = least_squares(arm(), log, prior)
    assert_close(found.values, np.full(3, 0.5), 1e-9)
    assert_close(found.standard_errors, np.full(3, 0.1), 1e-6)
    nothing = least_squares(arm(), log, identify.damping())
    assert_close(nothing.values, np.full(3, 0.4), 1e-12)
    assert (
        np.isinf(nothing.standard_errors).all()
        and nothing.unobservable[0] == "joint0 damping: not seen at all"
    )


def test_ties_are_one_number():
    free = [identify.tied(identify.damping()), identify.tied(identify.coulomb("joint1", "joint2"))]
    found = least_squares(replace(arm(), damping=jax.device_put(np.zeros(3))), equations_of(0), free)
    assert_close(found.values, np.array([0.4, 0.3]), 1e-9)
    assert_close(found.model.damping, np.full(3, 0.4), 1e-9)


def test_what_is_not_seen_is_said_in_words():
    free = [identify.inertias("link0"), identify.armature("joint0")]
    found = least_squares(thought(), equations_of(0), free)
    said = "\n".join(found.unobservable)
    assert "link0 mass: not seen at all" in said
    assert (
        "link0 Izz" in said
        and "joint0 armature" in said
        and "changes in this proportion are not seen" in said
    )
    assert found.rank == 1 and len(found.unobservable) == 10
    assert "1 combinations seen, 10 not" in repr(found) and "not seen" in found.table()


def test_controls_and_force_elements_are_taken_off():
    """Torques through motors, and a model spring that acts all the time."""
    spring = rbd.forces.SpringDamper(("world", "link2"), ((0.5, 0, 0), (0, 0, 0.2)), 0.4, 30.0)
    motors = [rbd.actuators.Motor(f"motor{i}", f"joint{i}", gear=10.0) for i in range(3)]
    model = rbd.attach(rbd.add_forces(arm(), spring), *motors)
    log = run(0)
    pull = np.asarray(jax.jit(jax.vmap(lambda q, v: spring(arm(), q, v)))(log.q.values, log.v.values))
    log = replace(log, tau=None, u=identify.Channel((log.tau.values - pull) / 10))
    found = least_squares(replace(model, damping=jax.device_put(np.zeros(3))), log, identify.damping())
    assert_close(found.values, np.full(3, 0.4), 1e-9)


def test_friction_at_rest_is_not_asked_for():
    """This is Coulomb's law itself: above a threshold speed, friction depends only on the sign."""
    log = run(0)
    v = log.v.values
    tau = log.tau.values + 0.3 * np.sign(v) - 0.3 * v / np.sqrt(v**2 + 1e-4)
    log = replace(log, tau=np.where(np.abs(v) < 0.05, 1e3, tau))
    found = least_squares(thought(), log, FREE, slow=0.05)
    assert abs(found.value("joint1 friction") - 0.3) < 1e-9
    assert (found.counts < 400).all()


def test_the_identified_model_is_a_model(tmp_path):
    found = physical_least_squares(thought(), equations_of(0), [*FREE[:2]])
    rbd.save_urdf(found.model, tmp_path / "arm.urdf")
    again = rbd.load_urdf(tmp_path / "arm.urdf")
    q, v, a = np.array([0.3, -0.5, 0.8]), np.array([1.0, 0.2, -0.4]), np.array([0.1, 2.0, -1.0])
    none = jax.device_put(np.zeros(3))
    bare = lambda model: rbd.inverse_dynamics(replace(model, armature=none), q, v, a)
    assert_close(bare(again), bare(found.model), 1e-9)
    assert_close(again.damping, found.model.damping, 1e-9)


def test_single_precision():
    """With JAX's default precision, regressors are single and all later computations are double."""
    model = rbd.astype(thought(), jnp.float32)
    found = physical_least_squares(model, run(0), FREE)
    assert found.model.inertias.mass.dtype == jnp.float32 and found.model.inertias.is_physical.all()
    held = equations_of(1)
    assert (held.errors(rbd.astype(found.model, jnp.float64)) < 1e-4 * held.torques.max()).all()


REFUSED = {
    "too few": (
        lambda: least_squares(arm(), run(0).between(0, 0.1), FREE),
        "there are 18 measured forces and 40 free",
    ),
    "not linear": (
        lambda: least_squares(arm(), run(0), identify.centers_of_mass()),
        "not linear in what identify.CentersOfMass",
    ),
    "no drive": (lambda: least_squares(arm(), replace(run(0), tau=None), FREE), "neither tau nor u"),
    "no logs": (lambda: least_squares(arm(), [], FREE), "there are no logs"),
    "N mm": (
        lambda: least_squares(arm(), run(0).scaled(tau=1000.0), FREE),
        "a thousand times what the model needs",
    ),
    "kN m": (
        lambda: least_squares(arm(), run(0).scaled(tau=1e-3), FREE),
        "a thousandth of what the model needs",
    ),
    "robust without logs": (
        lambda: least_squares(arm(), equations_of(0), FREE, robust=True),
        "give the logs",
    ),
    "no value": (
        lambda: least_squares(arm(), equations_of(0), FREE).value("joint9 damping"),
        "there is no 'joint9 damping'",
    ),
}


@pytest.mark.parametrize("do, message", REFUSED.values(), ids=REFUSED)
def test_what_makes_no_sense_is_refused(do, message, unchecked):
    with pytest.raises((LogError, rbd.ModelError), match=message):
        do()


def test_loops_are_refused():
    model = rbd.add_constraints(
        arm(), rbd.constraints.PointOnPlane("world", (0, 0, 0), (1, 0, 0), "link2", (0, 0, 1))
    )
    with pytest.raises(rbd.ModelError, match="has constraints, whose forces are not known"):
        least_squares(model, run(0), identify.damping())
