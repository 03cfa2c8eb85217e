"""Nonlinear estimators: per sample and through simulations, on motions of a pendulum with known parameters."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import assert_close

import rbd_jax as rbd


pytestmark = pytest.mark.usefixtures("without_kernels")


I = rbd.identify
RK4 = rbd.RungeKutta4()
NOISE = 1e-3


@pytest.fixture(scope="module")
def model():
    pendulum = rbd.load("pendulum")
    gyro = rbd.sensors.Gyro("gyro", "tip")
    return rbd.attach(pendulum, rbd.Site("tip", pendulum.body_names[-1], (0, 0, -1)), gyro)


@pytest.fixture(scope="module")
def truth(model):
    heavier = rbd.Inertia.from_parameters(jax.device_put(1.3 * np.asarray(model.inertias.parameters)))
    return dataclasses.replace(model, inertias=heavier, damping=jax.device_put(np.array([0.2])))


@pytest.fixture(scope="module")
def run(truth):
    """Times, torques and states of one run, and the gyro's readings."""
    t = np.arange(201) / 100
    tau = 2 * np.sin(3 * t)[:, None]

    @jax.jit
    def moved(tau):
        start = rbd.State(jnp.array([0.5], truth.dtype), jnp.zeros(1, truth.dtype))
        path = rbd.rollout(truth, start, tau[:-1], dt=0.01, scheme=RK4)

        def seen(q, v, tau):
            a = rbd.forward_dynamics(truth, q, v, tau + rbd.passive_force(truth, q, v))
            return q, v, a, rbd.sense(truth, rbd.State(q, v))["gyro"]

        return jax.vmap(seen)(path.q, path.v, tau)

    return t, tau, *(np.array(x, float) for x in moved(tau))


def noisy(values, seed=0, size=NOISE):
    return values + size * np.random.default_rng(seed).normal(size=values.shape)


FREE = [I.masses(), I.damping()]


def near(found, masses=1.3, damping=0.2, deviations=5.0):
    off = np.abs(found.values - [masses, damping]) / found.standard_errors
    assert (off < deviations).all(), (found.values, found.standard_errors)


@pytest.mark.slow
@pytest.mark.parametrize("nodes", ["joined", "free"])
def test_positions_alone_through_simulations(model, run, nodes):
    t, tau, q, _, _, _ = run
    problem = I.Problem(model, I.Log(t, noisy(q), tau=tau), FREE, I.OutputError(0.5, nodes, scheme=RK4))
    found = I.solve(problem)
    assert found.converged and found.rank == 2
    near(found)
    assert_close(found.noise, [NOISE], 0.2 * NOISE)
    assert (found.standard_errors < [0.02, 0.04]).all()


@pytest.mark.slow
def test_joined_windows_are_one_simulation(model, run):
    """At the solution the gaps are closed; values and errors are those of one window over the whole run."""
    t, tau, q, _, _, _ = run
    log = I.Log(t, noisy(q), tau=tau)
    whole, joined = (
        I.solve(I.Problem(model, log, FREE, I.OutputError(size, scheme=RK4))) for size in (None, 0.5)
    )
    assert_close(joined.values, whole.values, 1e-4)
    assert_close(joined.standard_errors / whole.standard_errors, np.ones(2), 2e-2)
    assert (joined.standard_errors > 0).all()


@pytest.mark.slow
def test_a_sensor_at_its_own_times_and_late(model, run):
    t, tau, q, _, _, gyro = run
    late = I.Channel(noisy(gyro[3:-3:2], 1), t[3:-3:2] + 0.034, delay=0.034)
    log = I.Log(t, noisy(q), tau=tau, sensors={"gyro": late})
    problem = I.Problem(model, log, FREE, I.OutputError(0.5, "free", scheme=RK4))
    assert problem.columns == ("q swing", "gyro [0]", "gyro [1]", "gyro [2]")
    near(I.solve(problem))


@pytest.mark.slow
def test_the_delay_of_a_sensor_is_found(model, run):
    """The delay starts at zero; the true delay is two and a third samples."""
    late = 0.023
    t, tau, q, _, _, gyro = run
    seen = np.stack([np.interp(t - late, t, column) for column in gyro.T], axis=1)
    seen[t < late] = np.nan
    log = I.Log(t, noisy(q), tau=tau, sensors={"gyro": noisy(seen, 1)})
    thought = rbd.attach(rbd.detach(model, "sensor"), rbd.sensors.Gyro("gyro", "tip", delay=0.0))
    compare = I.OutputError(0.5, "free", scheme=RK4)
    problem = I.Problem(thought, log, [*FREE, I.delays("gyro")], compare)
    assert problem.parameters.names[2:] == ("gyro delay",) and problem.parameters.units[2] == "s"
    found = I.solve(problem)
    assert found.converged and abs(found.value("gyro delay") - late) < 5 * found.standard_errors[2] < 1e-3
    again = I.solve(problem, start=found.model)
    assert_close(again.values, found.values, 1e-5)
    # The derivative with respect to the delay matches finite differences.
    start = problem.start(found.model)
    errors = jax.jit(lambda late: problem.errors(start._replace(x=start.x.at[2].set(late)))[0])
    slope = jax.jvp(errors, (start.x[2],), (jnp.ones((), start.x.dtype),))[1]
    step = 1e-6
    difference = (errors(start.x[2] + step) - errors(start.x[2] - step)) / (2 * step)
    assert np.abs(slope).max() > 1e-3
    assert_close(difference, slope, 1e-6)
    with pytest.raises(
        rbd.UnknownNameError, match="no sensor or actuator of model 'pendulum' that has such parameters"
    ):
        I.Parameters(model, I.delays())  # the gyro has no delay


def test_samples_one_by_one(model, run):
    t, tau, q, v, a, gyro = run
    torque = noisy(tau, 2, 1e-2)
    problem = I.Problem(
        model, I.Log(t, q, v, a, torque, sensors={"gyro": noisy(gyro)}), FREE, I.EquationError()
    )
    found = I.solve(problem)
    assert found.columns == ("tau swing", "gyro [0]", "gyro [1]", "gyro [2]")
    linear = I.least_squares(model, I.Log(t, q, v, a, torque), FREE)
    assert_close(found.values, linear.values, 1e-4)
    assert_close(found.standard_errors / linear.standard_errors, np.ones(2), 5e-2)


def test_robust_against_wrong_samples(model, run):
    t, tau, q, v, a, _ = run
    wrong = noisy(tau, 3, 1e-2)
    wrong[::10] += 3.0
    log = I.Log(t, q, v, a, wrong)
    plain, robust = (
        I.solve(I.Problem(model, log, FREE, I.EquationError(), robust=on)) for on in (False, True)
    )
    assert np.abs(plain.values - [1.3, 0.2]).max() > 4 * np.abs(robust.values - [1.3, 0.2]).max()
    assert np.abs(robust.values - [1.3, 0.2]).max() < 2e-2


@pytest.mark.slow
def test_the_loss_has_the_right_gradient(model, run):
    t, tau, q, _, _, _ = run
    log = I.Log(t, noisy(q), tau=tau)
    free = [I.inertias(), I.damping()]
    for noise in ({"q": NOISE}, None):
        problem = I.Problem(model, log, free, I.OutputError(0.5, "free", scheme=RK4), noise=noise)
        start = problem.start()
        ways = np.random.default_rng(4).normal(size=len(start.x))
        loss = jax.jit(lambda x, problem=problem, start=start: problem.loss(start._replace(x=x)))
        slope = jax.jit(jax.grad(loss))(start.x)
        assert np.isfinite(slope).all()
        step = 1e-6
        difference = (loss(start.x + step * ways) - loss(start.x - step * ways)) / (2 * step)
        assert_close(slope @ ways / difference, 1.0, 1e-5)


@pytest.mark.slow
def test_what_is_not_seen_is_told(model, run):
    t, tau, q, _, _, _ = run
    problem = I.Problem(
        model, I.Log(t, q, tau=tau), [I.inertias(), I.damping()], I.OutputError(0.5, "free", scheme=RK4)
    )
    found = I.solve(problem, turns=30)
    assert found.rank == 4 and len(found.unobservable) == 7
    assert found.model.inertias.is_physical.all()


@pytest.mark.slow
def test_solvers_of_others_and_several_starts(model, run):
    optimistix, optax = pytest.importorskip("optimistix"), pytest.importorskip("optax")
    t, tau, q, v, a, _ = run
    log = I.Log(t, q, v, a, noisy(tau, 5, 1e-2))
    problem = I.Problem(model, log, FREE, I.EquationError(rows=64))
    own = I.solve(problem, starts=3)
    near(own)
    with jax.numpy_dtype_promotion("standard"):  # these solvers rely on it
        for solver in (optimistix.LevenbergMarquardt(1e-8, 1e-8), optimistix.BFGS(1e-8, 1e-8)):
            found = I.solve(problem, solver)
            assert_close(found.values, own.values, 1e-3)
            assert found.converged
        by_gradients = I.solve(problem, optax.adam(0.03), steps=400, windows=2)
        assert_close(by_gradients.values, own.values, 2e-2)
        assert not I.solve(problem, optax.adam(0.03), steps=2).converged


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda log: dict(logs=dataclasses.replace(log, tau=None), compare=I.EquationError()),
            "nothing can be compared",
        ),
        (lambda log: dict(logs=dataclasses.replace(log, q=None)), "nothing can be compared"),
        (lambda log: dict(noise={"qq": 1.0}), "qq"),
        (lambda log: dict(noise={"q": -1.0}), "positive"),
        (lambda log: dict(compare=I.OutputError(compare=("gyro",))), "no log has it"),
        (lambda log: dict(compare="output"), "compare"),
    ],
)
def test_what_is_wrong_is_told(model, run, change, message):
    t, tau, q, _, _, _ = run
    log = I.Log(t, q, tau=tau)
    given = dict(logs=log, compare=I.OutputError()) | change(log)
    with pytest.raises((ValueError, TypeError, KeyError), match=message):
        I.Problem(model, given.pop("logs"), FREE, **given)


@pytest.mark.slow
def test_bounds_are_no_measurements(model, run):
    """A value at a bound has the same uncertainty as without the bound."""
    t, tau, q, v, a, _ = run
    log, compare = I.Log(t, q, v, a, noisy(tau, 5, 1e-2)), I.EquationError(rows=64)
    held, free = (
        I.solve(I.Problem(model, log, [I.masses(), I.damping(bounds=ends)], compare, noise={"tau": 1e-2}))
        for ends in ((-0.1, 0.1), (-5.0, 5.0))
    )
    assert held.at_bounds == ("swing damping",) and held.rank == 2 and not held.unobservable
    assert_close(held.covariance / free.covariance, np.ones((2, 2)), 1e-6)


def test_robust_losses_know_what_is_large_from_the_noise(model, run):
    t, tau, q, _, _, _ = run
    problem = I.Problem(model, I.Log(t, q, tau=tau), FREE, robust=True)
    with pytest.raises(ValueError, match="noise"):
        problem.loss(jnp.zeros(2))
    assert np.isfinite(problem.with_noise(np.array([1.0])).loss(problem.start()))
    with pytest.raises(ValueError, match="drift is between joined windows"):
        I.OutputError(nodes="free", drift=1.0)


def servo(model):
    return rbd.attach(model, rbd.actuators.Position("servo", "swing", 8.0, 0.5))


@pytest.mark.slow
def test_actuators_act_where_the_log_tells_them(model, truth, run):
    """With u, the model computes the actuator force; without u, tau contains it. This holds for both comparisons."""
    t, _, q, v, a, _ = run
    u = np.sin(2 * t)[:, None]
    start = rbd.State(jnp.array([0.5]), jnp.zeros(1))
    path = rbd.rollout(servo(truth), start, rbd.Controls(jax.device_put(u[:-1])), dt=0.01, scheme=RK4)
    forces = 8.0 * (u - path.q) - 0.5 * path.v
    own = jax.vmap(lambda q, v: rbd.passive_force(truth, q, v))(path.q, path.v)
    a = jax.vmap(lambda *x: rbd.forward_dynamics(truth, *x))(path.q, path.v, forces + own)
    motion = [np.asarray(x) for x in (path.q, path.v, a)]
    told = I.Log(t, *motion, u=u)
    measured = I.Log(t, *motion, tau=np.asarray(forces))
    for log in (told, measured):
        found = I.solve(I.Problem(servo(model), log, FREE, I.EquationError()))
        assert_close(found.values, [1.3, 0.2], 1e-6)
    along = I.Problem(servo(model), told, FREE, I.OutputError(0.5, "measured", scheme=RK4))
    assert_close(I.solve(along).values, [1.3, 0.2], 1e-5)
    # A servo's torque changes between samples, so holding it constant is inaccurate.
    along = I.Problem(servo(model), measured, FREE, I.OutputError(0.5, "measured", scheme=RK4))
    assert_close(I.solve(along).values, [1.3, 0.2], 0.1)
    with pytest.raises(I.LogError, match="has no u"):
        I.Problem(servo(model), [told, measured], FREE)
