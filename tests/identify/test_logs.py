"""Logs: creation from arrays, dictionaries, tables and files; conversion to common samples; reported faults."""

import re
import warnings

import jax
import numpy as np
import pytest
from support import assert_close
from tables import Table

import rbd_jax as rbd
from rbd_jax import identify
from rbd_jax.identify import Channel, Log, LogError, LogWarning, best_cutoff, check_log, read_log, with_rates


MODEL = rbd.load("double_pendulum")
T = np.arange(400) / 200
FREQUENCY = np.array([2.0, 3.0])


def swing(t=T):
    """Returns positions, velocities and accelerations of both joints."""
    phase = t[:, None] * FREQUENCY
    return np.sin(phase), FREQUENCY * np.cos(phase), -(FREQUENCY**2) * np.sin(phase)


Q, V, A = swing()
TAU = np.cos(T[:, None] * np.array([1.0, 2.0]))


def test_columns_of_a_table_find_their_place(tmp_path):
    names = ["stamp", "shoulder_position", "q[1]", "velocity.elbow", "qd_shoulder", "tau1", "elbow/effort2"]
    data = dict(zip(names, [T, Q[:, 0], Q[:, 1], V[:, 1], V[:, 0], TAU[:, 1], T], strict=True))
    with pytest.warns(LogWarning, match="'elbow/effort2' are not used"):
        log = Log.from_mapping(data, MODEL)
    np.testing.assert_array_equal(log.q.values, Q)
    np.testing.assert_array_equal(log.v.values, V)
    np.testing.assert_array_equal(log.tau.values[:, 1], TAU[:, 1])
    assert np.isnan(log.tau.values[:, 0]).all()


def test_files_are_read_as_they_were_written(tmp_path):
    np.savez(tmp_path / "run.npz", time=T, qpos=Q, velocity=V, torque=TAU)
    table = np.concatenate([T[:, None], Q, TAU], axis=1)
    table[7, 3] = np.nan
    header = "time,q_shoulder,q_elbow,tau_shoulder,tau_elbow"
    np.savetxt(tmp_path / "run.csv", table, delimiter=",", header=header, comments="", fmt="%.17g")
    log = read_log(tmp_path / "run.npz", MODEL)
    assert log.name == "run" and list(log.channels) == ["q", "v", "tau"]
    np.testing.assert_array_equal(log.tau.values, TAU)
    read = read_log(tmp_path / "run.csv", MODEL)
    np.testing.assert_array_equal(read.q.values, Q)
    assert np.isnan(read.tau.values[7, 0]) and np.isnan(read.tau.values).sum() == 1
    with pytest.raises(LogError, match="no .npz and no .csv"):
        (tmp_path / "run.bag").touch()
        read_log(tmp_path / "run.bag", MODEL)
    with pytest.raises(LogError, match="there is no file"):
        read_log(tmp_path / "walk.csv", MODEL)


def test_a_data_frame_has_its_times_in_a_column_or_in_its_index():
    columns = {"q0": Q[:, 0], "q1": Q[:, 1]}
    for table in (Table(columns, T), Table({"t": T, **columns}, T)):
        log = Log.from_mapping(table, MODEL)
        np.testing.assert_array_equal(log.q.values, Q)
        np.testing.assert_array_equal(log.t, T)


def test_topics_have_their_own_times_and_the_order_of_their_joints():
    turned = [1, 0]
    joints = ["elbow", "shoulder", "finger"]
    position, velocity = np.c_[Q[:, turned], T], np.c_[V[:, turned], T]
    states = {"t": T, "name": joints, "position": position, "velocity": velocity, "effort": []}
    late = {"t": T[::2] + 0.01, "effort": TAU[::2]}
    log = Log.from_mapping({"/joint_states": states, "/motors": late}, MODEL)
    np.testing.assert_array_equal(log.q.values, Q)
    np.testing.assert_array_equal(log.v.values, V)
    assert_close(log.on_clock().tau.values[2:-2], np.cos(np.c_[T[2:-2] - 0.01, 2 * (T[2:-2] - 0.01)]), 1e-4)


def test_channels_of_other_rates_and_delays_come_to_one_clock():
    t = np.arange(0.0, 2.0, 0.003)
    log = Log(T, Q, tau=Channel(np.cos(np.c_[t, 2 * t]), t + 0.05, delay=0.05), v=Channel(V, delay=0.01))
    moved = log.on_clock()
    assert_close(moved.tau.values[:-5], TAU[:-5], 1e-4)
    assert_close(moved.v.values[3:-3], swing(T[3:-3] + 0.01)[1], 1e-3)
    assert np.isnan(moved.v.values[-1]).all()


def test_parts_and_other_units():
    log = Log(1000 * T, np.degrees(Q), tau=Channel(TAU, 1000 * T))
    same = log.scaled(t=1e-3, q=np.pi / 180)
    assert_close(same.q.values, Q, 1e-12)
    assert_close(same.tau.t, T, 1e-12)
    part = same.between(0.5, 1.0)
    assert part.t[0] == 0.5 and len(part.t) == len(part.q.values) == len(part.tau.values) == 101


def test_of_a_rollout():
    start = rbd.State(np.zeros(2), np.ones(2))
    trajectory = rbd.rollout(MODEL, start, jax.device_put(np.ones((20, 2))), dt=0.01)
    log = Log.from_trajectory(trajectory)
    assert (
        log.q.values.shape == (21, 2)
        and (log.tau.values[:20] == 1).all()
        and np.isnan(log.tau.values[20]).all()
    )


# Velocities and accelerations.


def test_rates_of_smooth_motions_are_exact_to_the_differences():
    t = np.arange(4000) / 500
    q, v, a = swing(t)
    found = with_rates(MODEL, Log(t, q))
    inside = slice(1000, 3000)
    assert_close(found.v.values[inside], v[inside], 1e-5)
    assert_close(found.a.values[inside], a[inside], 1e-4)
    known = with_rates(MODEL, Log(t, q, v))
    np.testing.assert_array_equal(known.v.values, v)
    assert_close(known.a.values[inside], a[inside], 1e-4)


def test_noise_and_cutoff_do_what_the_page_says(key):
    """For a motion at 0.5 Hz, the filter removes `(f/f_c)^8`; the noise is `σ (2π f_c)^k √(2 f_c / (2k + 1) r)`."""
    rate, cutoff, sigma = 500.0, 5.0, 1e-3
    t = np.arange(20000) / rate
    random = np.random.default_rng(0)
    noise = sigma * random.normal(size=(len(t), 2))
    found = with_rates(MODEL, Log(t, noise), cutoff=cutoff)
    speed, acceleration = (np.nanstd(x.values) for x in (found.v, found.a))
    assert abs(speed / (sigma * 2 * np.pi * cutoff * np.sqrt(2 * cutoff / (3 * rate))) - 1) < 0.15
    assert (
        abs(acceleration / (sigma * (2 * np.pi * cutoff) ** 2 * np.sqrt(2 * cutoff / (5 * rate))) - 1) < 0.15
    )
    wave = np.sin(2 * np.pi * 0.5 * t)[:, None] * np.ones(2)
    low = with_rates(MODEL, Log(t, wave), cutoff=1.0)
    share = np.nanmax(low.v.values[5000:15000]) / np.pi
    assert abs(share - 1 / (1 + 0.5**8)) < 1e-5
    # The automatic cutoff is close to optimal.
    noisy = wave[:, 0] + 1e-4 * random.normal(size=len(t))
    truth = -(np.pi**2) * wave[:, 0]
    of = lambda cutoff: np.nanstd(
        with_rates(MODEL, Log(t, np.c_[noisy, noisy]), cutoff=cutoff).a.values[:, 0] - truth
    )
    errors = [of(cutoff) for cutoff in np.geomspace(0.8, 10, 12)]
    assert of(best_cutoff(noisy, rate)) < 1.5 * min(errors)


def test_gaps_are_filled_or_stay():
    t = np.arange(3000) / 500
    q, v, a = swing(t)
    q[700:703] = np.nan
    q[1500:1600] = np.nan
    found = with_rates(MODEL, Log(t, q), cutoff=20.0)
    assert_close(found.v.values[700:703], v[700:703], 1e-4)
    assert np.isnan(found.a.values[1495:1605]).all()
    assert_close(found.a.values[300:600], a[300:600], 1e-4)


def test_uneven_times_are_taken_as_they_are():
    random = np.random.default_rng(0)
    t = np.sort(np.arange(3000) / 500 + random.uniform(-4e-4, 4e-4, 3000))
    q, v, a = swing(t)
    found = with_rates(MODEL, Log(t, q), cutoff=20.0)
    assert_close(found.v.values[500:2500], v[500:2500], 1e-4)
    assert_close(found.a.values[500:2500], a[500:2500], 1e-3)


def test_rates_of_a_free_body():
    """A body turns about a fixed axis and moves; velocities are in its own frame."""
    model = rbd.ModelBuilder()
    model.add_body("box", joint=rbd.joints.Free(), inertia=rbd.Inertia.box(1.0, (0.1, 0.2, 0.3)))
    model = model.build()
    t = np.arange(2000) / 500
    angle, rate = 0.8 * np.sin(2 * t), 1.6 * np.cos(2 * t)
    q = np.c_[0.3 * np.sin(t), 0 * t, 0 * t, np.cos(angle / 2), 0 * t, 0 * t, np.sin(angle / 2)]
    found = with_rates(model, Log(t, q), cutoff=25.0)
    inside = slice(300, 1700)
    along = 0.3 * np.cos(t)
    expected = np.c_[0 * t, 0 * t, rate, along * np.cos(angle), -along * np.sin(angle), 0 * t]
    assert_close(found.v.values[inside], expected[inside], 1e-4)
    assert_close(found.a.values[inside, 2], -3.2 * np.sin(2 * t)[inside], 1e-3)


def test_rates_of_a_body_in_a_plane():
    """The coordinates are in the world frame, the velocity is in the body frame."""
    builder = rbd.ModelBuilder(name="disc")
    builder.add_body("disc", joint=rbd.joints.Planar(), inertia=rbd.Inertia.box(1.0, (0.1, 0.2, 0.3)))
    t = np.arange(2000) / 500
    angle, rate = 0.8 * np.sin(2 * t), 1.6 * np.cos(2 * t)
    q = np.c_[angle, 0.3 * np.sin(t), 0.2 * np.cos(3 * t)]
    (c, s), (x, y) = (np.cos(angle), np.sin(angle)), (0.3 * np.cos(t), -0.6 * np.sin(3 * t))
    v = np.c_[rate, c * x + s * y, c * y - s * x]
    model, inside = builder.build(), slice(300, 1700)
    found = with_rates(model, Log(t, q), cutoff=25.0)
    assert_close(found.v.values[inside], v[inside], 1e-4)
    assert_close(found.a.values[inside], np.gradient(v, t, axis=0)[inside], 1e-3)
    check_log(model, Log(t, q, v))
    with pytest.raises(LogError, match="joint 'disc' fits q as the linear velocity in the world's frame"):
        check_log(model, Log(t, q, np.c_[rate, x, y]))


# Faults are reported.


def limited():
    builder = rbd.ModelBuilder(name="crane")
    solid = rbd.Inertia.sphere(1.0, 0.1, (0.1, 0, 0))
    builder.add_body(
        "boom", "world", rbd.joints.Revolute(), inertia=solid, joint_name="turn", lower=-1.5, upper=1.5
    )
    builder.add_body(
        "hook", "boom", rbd.joints.Prismatic(), inertia=solid, joint_name="lift", lower=0.0, upper=0.8
    )
    return builder.build()


CRANE = limited()
CQ = np.c_[np.sin(T), 0.4 + 0.3 * np.sin(2 * T)]
CV = np.c_[np.cos(T), 0.6 * np.cos(2 * T)]
BACK = T.copy()
BACK[50] = BACK[48]

WRONG = {
    "time goes back": (Log(BACK, CQ), "t does not grow: .* in row 50"),
    "columns": (Log(T, np.c_[CQ, CQ]), "q has 4 columns, and model 'crane' has nq = 2"),
    "NaN everywhere": (Log(T, CQ, tau=np.full((400, 2), np.nan)), "tau is NaN everywhere"),
    "NaN in a column": (Log(T, np.where([True, False], np.nan, CQ)), "q of joint 'turn' is NaN everywhere"),
    "infinite": (Log(T, CQ, np.where(CV > 0.99, np.inf, CV)), "v has infinite numbers"),
    "degrees": (Log(T, CQ * [180 / np.pi, 1]), "joint 'turn' goes from 0 to 57.3, .* degrees. Radians"),
    "millimetres": (Log(T, CQ * [1, 1000]), "joint 'lift' .* looks like millimeters"),
    "another joint's": (Log(T, 30 * np.cumsum(CQ, axis=0) / 200 * [10, 0.01]), "joint 'turn' .* cannot reach this"),
    "milliseconds": (Log(1000 * T, CQ, CV), "1e\\+03 times what q changes by, a thousand: one of t, q and v"),
    "rates in degrees": (Log(T, CQ, CV * 180 / np.pi), "v looks like degrees"),
    "the sign": (Log(T, CQ, -CV), "v of joint 'turn' adds up to -1 times"),
}  # fmt: skip


@pytest.mark.parametrize("log, message", WRONG.values(), ids=WRONG)
def test_what_cannot_be_is_told(log, message):
    with pytest.raises(LogError, match=message):
        check_log(CRANE, log)


def test_what_is_strange_is_warned_of():
    with pytest.warns(LogWarning, match="a of joint 'lift' adds up to .* it does not look like its rate"):
        check_log(CRANE, Log(T, CQ, CV, 4 * CV))


def test_what_is_right_is_let_pass():
    tau = CQ.copy()
    tau[3] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_log(CRANE, Log(T, CQ, CV, tau=tau))
        check_log(CRANE, Log(T, CQ + 0.02 * np.random.default_rng(0).normal(size=CQ.shape), CV))
        check_log(CRANE, Log(T, np.zeros((400, 2)), np.zeros((400, 2))))
        check_log(CRANE, Log(T, CQ * [3.5, 1], CV * [3.5, 1]))  # slightly beyond a limit, as in simulations


MADE_WRONG = {
    "rows": (lambda: Log(T, Q[:-1]), "q has 399 rows, and there are 400 times"),
    "times": (lambda: Log(T[:1], Q[:1]), "at least two times"),
    "text": (lambda: Log(T, [["a", "b"]] * 400), "no array of numbers"),
    "times of a channel": (lambda: Channel(Q, T[:-1]), "400 rows and times of shape"),
    "no times": (lambda: Log.from_mapping({"q": Q}, MODEL), "there are no times"),
    "nothing known": (lambda: Log.from_mapping({"t": T, "positon": Q}, MODEL), "none of 'positon' .*did you mean 'position'"),
    "no q": (lambda: with_rates(MODEL, Log(T, v=V)), "has no q"),
    "too short": (lambda: with_rates(MODEL, Log(T[:8], Q[:8])), "8 samples are too few"),
    "a cutoff": (lambda: with_rates(MODEL, Log(T, Q), cutoff=500.0), "half the sampling rate"),
    "no channel": (lambda: Log(T, Q).scaled(tau=2.0), "has no channel 'tau'; it has t, q"),
}  # fmt: skip


@pytest.mark.parametrize("make, message", MADE_WRONG.values(), ids=MADE_WRONG)
def test_what_is_no_log_is_refused(make, message, unchecked):
    with pytest.raises(LogError, match=message):
        make()


def test_mujocos_order_is_not_taken_for_ours():
    model = rbd.load("quadruped")
    with pytest.raises(LogError, match=re.escape("rbd.interop.MujocoMap")):
        Log.from_mapping({"t": T, "qpos": np.zeros((400, model.nq))}, model)
    log = identify.Log.from_mapping({"t": T, "q": np.zeros((400, model.nq))}, model)
    assert log.q.values.shape == (400, model.nq)
