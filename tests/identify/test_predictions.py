"""Predictions compared with measurements, and errors of estimates on held-out data."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from support import assert_close

import rbd_jax as rbd


pytestmark = pytest.mark.usefixtures("without_kernels")


I = rbd.identify
FREE = [I.masses(), I.friction()]


@pytest.fixture(scope="module")
def model():
    return rbd.load("pendulum")


@pytest.fixture(scope="module")
def truth(model):
    heavier = rbd.Inertia.from_parameters(jax.device_put(1.3 * np.asarray(model.inertias.parameters)))
    damping, friction = (jax.device_put(np.array([value])) for value in (0.2, 0.3))
    return replace(model, inertias=heavier, damping=damping, friction=friction)


def motion(seed: int, seconds: float, rate: int = 100):
    """Returns times and sums of sines with their derivatives."""
    random, t = np.random.default_rng(seed), np.arange(int(seconds * rate)) / rate
    speed = 2 * np.pi * np.array([0.2, 0.5, 0.8])
    size, phase = random.uniform(0.3, 0.8, 3), random.uniform(0, 6, 3)
    angle = t[:, None] * speed + phase
    return t, *(np.sum(x, axis=1)[:, None] for x in (size * np.sin(angle), size * speed * np.cos(angle),
                                                     -size * speed**2 * np.sin(angle)))  # fmt: skip


@pytest.fixture(scope="module")
def log_of(truth):
    @jax.jit
    def torques(q, v, a):
        return jax.vmap(
            lambda q, v, a: rbd.inverse_dynamics(truth, q, v, a) - rbd.passive_force(truth, q, v)
        )(q, v, a)

    def made(seed, noise=0.05, rates=True):
        # Smoothing removes samples at both ends.
        t, q, v, a = motion(seed, 3.0 if rates else 8.0)
        tau = np.asarray(torques(q, v, a)) + noise * np.random.default_rng(100 + seed).normal(size=q.shape)
        if rates:
            return I.Log(t, q, v, a, tau, name=f"run {seed}")
        return I.Log(
            t, q + 1e-4 * np.random.default_rng(seed).normal(size=q.shape), tau=tau, name=f"run {seed}"
        )

    return made


def test_torques(model, truth, log_of):
    """Errors equal those that `Equations` summarizes; missing measurements are omitted."""
    log = log_of(0, rates=False)
    tau = log.tau.values.copy()
    tau[300:310] = np.nan
    log = replace(log, tau=tau)
    for one in (model, truth):
        (found,) = I.predictions(one, log, I.EquationError(cutoff=3.0, slow=0.1))
        equations = I.Equations.of(one, log, cutoff=3.0, slow=0.1)
        assert (found.column, found.unit, found.log, len(found.t)) == (
            "tau swing",
            "N m",
            "run 0",
            equations.counts[0],
        )
        assert_close(np.sqrt(np.mean(found.errors**2)), equations.errors(one)[0], 1e-9)
    assert not np.isin(log.t[300:310], found.t).any()
    at = np.round(found.t * 100).astype(int)
    assert_close(found.measured, tau[at, 0], 1e-12)
    assert_close(found.predicted, found.measured + found.errors, 1e-12)
    even = found.even()
    assert len(even) == at[-1] - at[0] + 1 and np.isnan(even).sum() == len(even) - len(at)


def test_actuators_and_sensors():
    """Actuator forces are part of the measurement; sensors are separate columns."""
    model = rbd.load("pendulum")
    motor = rbd.actuators.Motor("motor", "swing", gear=2.0)
    model = rbd.attach(model, motor, rbd.sensors.JointVelocity("speed", "swing"))
    t, q, v, a = motion(3, 3.0)
    u = np.asarray(jax.jit(jax.vmap(lambda *x: rbd.inverse_dynamics(model, *x)))(q, v, a)) / 2
    log = I.Log(t, q, v, a, u=u, sensors={"speed": v})
    found = {one.column: one for one in I.predictions(model, log)}
    assert set(found) == {"tau swing", "speed"}
    assert_close(found["tau swing"].errors, np.zeros(len(t)), 1e-9)
    assert_close(found["tau swing"].measured, 2 * u[:, 0], 1e-9)
    assert_close(found["speed"].measured, v[:, 0], 1e-9)


@pytest.mark.parametrize("nodes", [pytest.param("joined", marks=pytest.mark.slow), "measured"])
def test_simulations_start_where_they_come_nearest(model, truth, nodes):
    """With the true model only noise remains; another model has larger errors and is not modified."""
    t = np.arange(201) / 100
    tau = 2 * np.sin(3 * t)[:, None]
    scheme = rbd.RungeKutta4()
    start = rbd.State(jax.device_put(np.array([0.5])), jax.device_put(np.zeros(1)))
    path = rbd.rollout(truth, start, jax.device_put(tau[:-1]), dt=0.01, scheme=scheme)
    size = 1e-3 if nodes == "joined" else 0.0
    noise = size * np.random.default_rng(0).normal(size=path.q.shape)
    log = I.Log(t, np.asarray(path.q) + noise, *(() if size else (np.asarray(path.v),)), tau=tau)
    compare = I.OutputError(0.5, nodes, scheme=scheme, compare=("q",))
    (right,) = I.predictions(truth, log, compare)
    (wrong,) = I.predictions(model, log, compare)
    assert right.column == "q swing" and len(right.t) == (201 if size else 200)
    if size:
        assert_close(right.errors, -noise[:, 0], 4 * size / np.sqrt(50))
    else:
        assert_close(right.errors, np.zeros(200), 1e-9)
    assert np.std(wrong.errors) > 5 * max(np.std(right.errors), 1e-6)


# Cross-validation.


def test_runs_are_held_out_in_turn(model, log_of):
    logs = [log_of(seed) for seed in range(3)]
    asked = []

    def fit(some):
        asked.append([log.name for log in some])
        return I.least_squares(model, some, FREE)

    done = []
    found = I.cross_validation(fit, logs, on_fold=lambda *x: done.append(x))
    assert asked == [["run 1", "run 2"], ["run 0", "run 2"], ["run 0", "run 1"]]
    assert found.folds == ("run 0", "run 1", "run 2") and done == [(1, 3), (2, 3), (3, 3)]
    assert found.columns == ("tau swing",) and found.units == ("N m",)
    for name in ("training", "held_out"):
        assert_close(getattr(found, name), [0.05], 5e-3)
    for k, log in enumerate(logs):
        assert_close(found.by_fold[k], I.Equations.of(model, log).errors(found.estimates[k].model), 1e-9)
    two = I.cross_validation(lambda some: I.least_squares(model, some, FREE), logs, folds=2)
    assert two.folds == ("run 0 and run 2", "run 1")


def test_one_run_is_cut_before_anything_else(model, log_of):
    """Folds share no samples of any clock, and no sample is discarded."""
    log = log_of(0, rates=False)
    own = np.arange(0.003, log.t[-1] - 0.1, 0.013)
    own[153] = log.t[len(log.t) // 4]  # a sample exactly at a cut
    log = replace(log, tau=I.Channel(np.sin(own)[:, None], own, delay=0.02))
    parts = []

    class Enough(Exception):
        pass

    def fit(some):
        parts.append(some)
        if len(parts) == 4:
            raise Enough
        return I.least_squares(model, log_of(1), FREE)

    import rbd_jax.identify.validation as validation

    for held, rest in validation._pieces(log, 4):
        assert len(rest) == (1 if held[0].t[0] == log.t[0] or held[0].t[-1] == log.t[-1] else 2)
        for times in (lambda one: one.t, lambda one: one.tau.t):
            inside = times(held[0])
            outside = np.concatenate([times(one) for one in rest])
            assert len(inside) and not np.isin(inside, outside).any()
            assert_close(np.sort(np.concatenate([inside, outside])), np.sort(times(log)), 0)
    with pytest.raises(Enough):
        I.cross_validation(fit, log)


def test_nothing_leaks(model, log_of):
    """Held-out data do not influence the estimate of their fold, to the last bit."""
    log = log_of(0, rates=False)
    fit = lambda some: I.least_squares(model, some, FREE, cutoff=4.0)
    clean = I.cross_validation(fit, log)
    fold = 2
    rows = slice(fold * len(log.t) // 4, (fold + 1) * len(log.t) // 4)
    q, tau = log.q.values.copy(), log.tau.values.copy()
    q[rows] += 0.3 * np.random.default_rng(0).normal(size=q[rows].shape)
    tau[rows] += 50
    dirty = I.cross_validation(fit, replace(log, q=q, tau=tau))
    assert np.array_equal(clean.estimates[fold].values, dirty.estimates[fold].values)
    assert not np.array_equal(clean.estimates[0].values, dirty.estimates[0].values)
    assert dirty.by_fold[fold, 0] > 100 * clean.by_fold[fold, 0]


def test_what_fits_noise_is_found_out(model, log_of):
    """With more parameters than the data support, the errors on held-out data are larger."""
    few = log_of(0, noise=1.0).between(0.0, 0.2)
    free = [I.masses(), I.friction(), I.armature(), I.stiffness()]
    found = I.cross_validation(lambda some: I.least_squares(model, some, free), few)
    assert found.ratio[0] > 1.1


@pytest.mark.parametrize(
    "logs, folds, said",
    [(1, 1, "two or more"), (2, 3, "there are 2 runs"), (1, 500, "too few to be cut into 500")],
)
def test_refusals(model, log_of, logs, folds, said):
    with pytest.raises(I.LogError, match=said):
        I.cross_validation(
            lambda some: I.least_squares(model, some, FREE), [log_of(i) for i in range(logs)], folds=folds
        )


def test_a_cutoff_is_not_moved_by_chance():
    """For slow motions with white noise, also short ones, the cutoff never passes most of the noise."""
    for seed in range(60):
        random = np.random.default_rng(seed)
        t = np.arange(400) / 200
        wave = np.sin(2 * np.pi * random.uniform(0.2, 1) * t + random.uniform(0, 6))
        assert I.best_cutoff(wave + 1e-3 * random.normal(size=400), 200.0) < 12
