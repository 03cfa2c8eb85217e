"""Delayed controls: in rollouts, and identified from logs."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import assert_close

import rbd_jax as rbd


pytestmark = pytest.mark.usefixtures("without_kernels")


I = rbd.identify
RK4 = rbd.RungeKutta4()
LATE = 0.0073
NOISE = 1e-4
SPACING = 1 / 200


def arm(first=None, second=None):
    """Returns a model with one joint that two motors drive."""
    model = dataclasses.replace(rbd.load("pendulum"), damping=jax.device_put(np.array([0.3])))
    motor = rbd.actuators.Motor
    return rbd.attach(
        model, motor("first", "swing", gear=2.0, delay=first), motor("second", "swing", delay=second)
    )


START = rbd.State(np.array([0.3]), np.zeros(1))


def delay_of(model, name):
    [found] = [one.delay for one in model.actuators if one.name == name]
    return None if found is None else float(found)


def told(rows, seed=0):
    """Returns piecewise constant commands that last seven samples."""
    random = np.random.default_rng(seed)
    return 4 * random.normal(size=(rows // 7 + 1, 2)).repeat(7, axis=0)[:rows]


def simulated(model, u, substeps=1):
    """Returns the states at the samples, under controls that are held between them."""
    fine = rbd.Controls(jax.device_put(u[:-1].repeat(substeps, axis=0)))
    path = rbd.rollout(model, START, fine, dt=SPACING / substeps, scheme=RK4, save_every=substeps)
    return np.asarray(path.q), np.asarray(path.v)


@pytest.fixture(scope="module")
def run():
    """Positions and commands of an arm whose first motor is delayed.

    The log starts after a period of constant command.
    """
    u = told(405)
    q, _ = simulated(arm(LATE, None), u)
    t = SPACING * np.arange(len(u))
    noise = NOISE * np.random.default_rng(1).normal(size=q.shape)
    return I.Log(t, q + noise, u=u, name="run").between(0.0199, 3.0)


def held_means(u, delay, step, rows):
    """Computes the means by a sum over small time intervals."""
    pieces = 1000
    t = step * (np.arange(rows * pieces) + 0.5) / pieces - delay
    row = np.floor(t / step).astype(int)
    return np.where((row >= 0)[:, None], u[np.maximum(row, 0)], 0).reshape(rows, pieces, -1).mean(axis=1)


@jax.jit
def rolled(model, u):
    return rbd.rollout(model, START, rbd.Controls(u), dt=SPACING)


@pytest.mark.parametrize("delay", [0.0, 0.0073, 0.015, 0.4])
def test_a_rollout_lets_controls_arrive_later(delay):
    u = told(60)
    path = rolled(arm(delay, None), u)
    arrived = np.stack([held_means(u, delay, SPACING, 60)[:, 0], u[:, 1]], axis=1)
    assert_close(path.u, arrived, 1e-12 if delay in (0.0, 0.015) else 2e-2)
    prompt = rolled(arm(), path.u)
    assert np.array_equal(path.q, prompt.q)
    assert path.u is not None and (delay or np.array_equal(path.u, u))


@pytest.mark.slow
def test_a_rollout_has_the_right_derivative_by_the_delay():
    u = rbd.Controls(told(60))
    model = arm(0.0, 0.0)
    delays = lambda model: [one.delay for one in model.actuators]
    late = lambda delay: eqx.tree_at(delays, model, [delay, 2 * delay])
    end = lambda delay: rbd.rollout(late(delay), START, u, dt=SPACING).q[-1]
    step = 1e-6
    run = jax.jit(jax.vmap(lambda delay: (end(delay), jax.jacfwd(end)(delay))))
    ends, slopes = map(np.asarray, run(LATE + step * np.array([0.0, 1.0, -1.0])))
    slope, difference = slopes[0], (ends[1] - ends[2]) / (2 * step)
    assert np.abs(slope).min() > 1e-3
    assert_close(difference, slope, 1e-6)


def test_what_does_not_know_what_was_told_before_refuses():
    model, state = arm(LATE), rbd.State(jnp.zeros(1), jnp.zeros(1))
    u = rbd.Controls(jnp.ones(2))
    for refused in (
        lambda: rbd.step(model, state, u, dt=0.01),
        lambda: rbd.step_derivatives(model, state, u, dt=0.01),
        lambda: rbd.rollout(model, state, lambda t, state: u, dt=0.01, steps=2),
    ):
        with pytest.raises(ValueError, match="actuator 'first' of model 'pendulum' has a delay"):
            refused()
    rbd.step(model, state, jnp.ones(1), dt=0.01)  # a plain array is tau
    with pytest.raises(ValueError, match="delay"):
        arm(-0.1)


@pytest.mark.slow
@pytest.mark.parametrize("nodes", ["joined", "free"])
def test_the_delay_of_an_actuator_is_found(run, nodes):
    """Identifies the delay from zero together with the damping, from a noisy log; the other motor's delay is zero."""
    problem = I.Problem(arm(0.0, 0.0), run, [I.delays(), I.damping()], I.OutputError(0.25, nodes, scheme=RK4))
    assert problem.parameters.names[:2] == ("first delay", "second delay")
    assert problem.parameters.units[:2] == ("s", "s")
    found = I.solve(problem)
    assert found.converged
    errors = found.standard_errors
    assert 0 < errors[0] < 5e-4 and abs(found.value("first delay") - LATE) < 4 * errors[0]
    assert found.value("second delay") < max(4 * errors[1], 1e-5)
    assert (np.abs(found.values[2:] - 0.3) < 4 * errors[2:]).all()
    assert delay_of(found.model, "first") == pytest.approx(found.value("first delay"))


@pytest.mark.slow
def test_simulations_in_smaller_steps_have_the_delay_and_its_derivative():
    """The step is a third of a sample, the step of the simulation that made the log."""
    u = told(205)
    q, v = simulated(arm(None, LATE), u, substeps=3)
    log = I.Log(SPACING * np.arange(len(u)), q, v, u=u).between(0.0199, 3.0)
    compare = I.OutputError(0.05, "measured", scheme=RK4, dt=SPACING / 3)
    problem = I.Problem(arm(0.0, LATE), log, I.delays("second"), compare)
    start = problem.start()
    assert_close(problem.parameters.values(start.x), [LATE], 1e-9)
    errors = jax.jit(lambda x: problem.errors(start._replace(x=x))[0])
    x, way, step = start.x, jnp.ones(1), 1e-5
    assert_close(errors(x), np.zeros_like(errors(x)), 1e-9)
    x = problem.parameters.unbounded(jnp.array([0.0041]))
    slope = jax.jvp(errors, (x,), (way,))[1]
    assert np.abs(slope).max() > 1e-6
    difference = (errors(x + step) - errors(x - step)) / (2 * step)
    assert_close(difference, slope, 1e-6 * np.abs(slope).max())


@pytest.mark.slow
def test_a_delay_of_zero_changes_nothing(run):
    without, with_zero = (
        I.Problem(model, run, I.damping(), I.OutputError(0.25, "free", scheme=RK4))
        for model in (arm(), arm(0.0, 0.0))
    )
    first, second = (np.asarray(one.errors(one.start())[0]) for one in (without, with_zero))
    assert np.array_equal(first, second)


def test_torques_whose_times_are_late_act_when_they_were_exerted():
    """The delay is a fraction of a sample, and the torques have their own times."""
    model = rbd.detach(arm(), "actuator")
    tau = told(101)[:, :1]
    t = SPACING * np.arange(len(tau))
    path = rbd.rollout(model, START, jax.device_put(tau[:-1]), dt=SPACING, scheme=RK4)
    q, v = np.asarray(path.q), np.asarray(path.v)
    # The log's samples start within the time range of the torques.
    own = I.Channel(tau, t + 0.02, delay=0.02)
    log = I.Log(t, q, v, tau=own)
    exact = I.OutputError(0.05, "measured", scheme=RK4)
    plain, late = (
        I.Problem(model, one, I.damping(), exact) for one in (dataclasses.replace(log, tau=tau), log)
    )
    assert_close(late.errors(late.start())[0], plain.errors(plain.start())[0], 1e-9)
    drive = I.OutputError(0.05, "measured", scheme=RK4, dt=SPACING / 2)
    shifted = dataclasses.replace(log, tau=I.Channel(tau, t, delay=0.003))
    given = drive.windows(model, [shifted]).given
    assert given.tau.shape[1:] == (22, 1) and given.held == 1
    # With steps of 2.5 ms, the first step starts 3 ms into a sample of 5 ms.
    share = np.array([2.0 / 2.5, 0.5 / 2.5])
    given = np.asarray(given.tau)
    assert_close(given[0, 0], share @ tau[[0, 1]], 1e-9)
    assert_close(given[0, 1], tau[1], 1e-9)
    assert_close(given[3, 1], tau[31], 1e-9)


def test_gaps_before_a_window_leave_it_out(run):
    u = run.u.values.copy()
    u[98:100] = np.nan  # in the second window of fifty samples and, with a delay, also in the third
    log = dataclasses.replace(run, u=u)
    compare = I.OutputError(0.25, "measured", scheme=RK4)
    for delay, lost in ((None, 1), (0.012, 2)):
        with pytest.warns(I.LogWarning, match=f"of 8 windows {lost} have gaps"):
            windows = compare.windows(arm(delay), [log])
        assert len(windows) == 8 - lost


def test_samples_one_by_one_have_what_has_arrived(run):
    """With a delay between one and two samples, this is the sample two steps before."""
    arrived = np.stack([np.append([np.nan] * 2, run.u.values[:-2, 0]), run.u.values[:, 1]], axis=1)
    late, prompt = (
        I.Equations.of(model, log, cutoff=20.0).errors(arm())
        for model, log in ((arm(LATE), run), (arm(), dataclasses.replace(run, u=arrived)))
    )
    assert_close(late, prompt, 1e-12)
    late, prompt = (
        I.EquationError(cutoff=20.0).windows(model, [log]).given.u
        for model, log in ((arm(LATE), run), (arm(), dataclasses.replace(run, u=arrived)))
    )
    assert np.array_equal(late, prompt)


def test_names(run):
    model = rbd.attach(arm(0.0), rbd.sensors.JointPosition("first", "swing", delay=0.01))
    assert I.Parameters(model, I.delays()).names == ("actuator first delay", "sensor first delay")
    with pytest.raises(rbd.UnknownNameError, match="no sensor or actuator of model .* 'second'"):
        I.delays("second").chosen(model)
    with pytest.raises(rbd.ModelError, match="both free|twice"):
        I.Parameters(model, [I.delays("first"), I.carried("actuator", "first", "delay")])


def test_files_keep_the_delays():
    again = rbd.load_mjcf(rbd.to_mjcf(arm(LATE, 0.0)))
    assert delay_of(again, "first") == LATE
    assert delay_of(again, "second") is None and not again.unsupported
    with pytest.warns(match="delays of actuators 'first'"):
        rbd.to_urdf(arm(LATE, 0.0))


DELAYED = """<mujoco><option timestep="0.0078125"/><worldbody><body pos="0 0 1">
<joint name="slide" type="slide" axis="1 0 0"/>
<geom size="0.1" mass="2"/></body></worldbody><actuator>
<motor name="motor" joint="slide" delay="0.0234375" nsample="9" interp="INTERP"/>
</actuator></mujoco>"""


def test_delays_of_whole_steps_are_those_of_mujoco():
    mujoco = pytest.importorskip("mujoco", minversion="3.5")
    text, u = DELAYED.replace("INTERP", "zoh"), told(40)[:, :1]
    theirs = mujoco.MjModel.from_xml_string(text)
    data, at = mujoco.MjData(theirs), []
    for row in u:
        data.ctrl[:] = row
        mujoco.mj_step(theirs, data)
        at.append(data.qpos[0])
    model = rbd.load_mjcf(text)
    assert not model.unsupported
    start = rbd.State(jnp.zeros(1), jnp.zeros(1))
    path = rbd.rollout(model, start, rbd.Controls(jax.device_put(u)))
    assert_close(np.asarray(path.q)[1:, 0], at, 1e-9)
    with pytest.warns(match="delays of actuators with interpolation 'motor'"):
        model = rbd.load_mjcf(DELAYED.replace("INTERP", "linear"))
    assert delay_of(model, "motor") is None
