"""Every defect of a log is reported with object, row and remedy, for every input path, channel and estimator.

Faults of a log are found before anything is compiled. Faults that only a model's predictions reveal are tested at the end,
on a pendulum.
"""

import copy
import itertools
import re
import warnings
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tables import Table

import rbd_jax as rbd
from rbd_jax import identify
from rbd_jax.identify import (
    Channel,
    EquationError,
    Log,
    LogError,
    LogWarning,
    OutputError,
    Problem,
    check_log,
    read_log,
)
from rbd_jax.identify.plausibility import look_at_order
from rbd_jax.identify.solve import look_before


pytestmark = pytest.mark.usefixtures("without_kernels")


def crane():
    """Returns a boom that turns and a hook that slides, with limits, motors, and a gyro."""
    builder = rbd.ModelBuilder(name="crane")
    solid = rbd.Inertia.sphere(1.0, 0.1, (0.1, 0, 0))
    limits = {"velocity_limit": 3.0, "effort_limit": 10.0}
    builder.add_body(
        "boom",
        "world",
        rbd.joints.Revolute(),
        inertia=solid,
        joint_name="turn",
        lower=-1.5,
        upper=1.5,
        **limits,
    )
    builder.add_body(
        "hook",
        "boom",
        rbd.joints.Prismatic(),
        inertia=solid,
        joint_name="lift",
        lower=0.0,
        upper=0.8,
        **limits,
    )
    motors = [rbd.actuators.Motor(f"{joint}_motor", joint, gear=5.0) for joint in ("turn", "lift")]
    return rbd.attach(builder.build(), *motors, rbd.Site("tip", "hook"), rbd.sensors.Gyro("gyro", "tip"))


CRANE = crane()
COUNT = 400
T = np.arange(COUNT) / 100
PHASE = T[:, None] * np.array([2.0, 3.0])
SIZE, SPEED = np.array([1.2, 0.3]), np.array([2.0, 3.0])
RUN = {
    "t": T,
    "q": SIZE * np.sin(PHASE) + np.array([0.0, 0.4]),
    "v": SIZE * SPEED * np.cos(PHASE),
    "a": -SIZE * SPEED**2 * np.sin(PHASE),
    "tau": np.cos(PHASE),
    "u": np.cos(PHASE + 1),
    "gyro": np.stack([np.zeros(COUNT), np.zeros(COUNT), 2.4 * np.cos(PHASE[:, 0])], axis=1),
}
NAMES = {"q": ["q_turn", "q_lift"], "v": ["qd_turn", "lift.velocity"], "a": ["a[0]", "a1"], "tau": ["effort_turn", "tau_lift"],
         "u": ["u_turn_motor", "ctrl1"], "gyro": ["gyro_0", "gyro_1", "gyro_2"]}  # fmt: skip


def by_columns(run):
    """Returns one column per entry; additional columns of a channel are numbered."""
    found = {"time": run["t"]}
    for channel, names in NAMES.items():
        values = np.asarray(run[channel])
        for i in range(values.shape[1]):
            found[names[i] if i < len(names) else f"{channel}{i}"] = values[:, i]
    return found


def as_log(run, folder):
    return Log(run["t"], run["q"], run["v"], run["a"], run["tau"], run["u"], {"gyro": run["gyro"]})


def as_dictionary(run, folder):
    return Log.from_mapping(run, CRANE)


def as_table(run, folder):
    return Log.from_mapping(Table(by_columns(run)), CRANE)


def as_topics(run, folder):
    """Returns joint messages in another order than the model's and with an additional joint; other channels are unchanged."""
    words = {"q": "position", "v": "velocity", "tau": "effort"}
    turned = {word: np.c_[np.asarray(run[name])[:, ::-1], run["t"]] for name, word in words.items()}
    states = {"stamp": run["t"], "name": ["lift", "turn", "finger"], **turned}
    rest = {name: run[name] for name in ("t", "a", "u", "gyro")}
    return Log.from_mapping({"/joint_states": states, **rest}, CRANE)


def as_npz(run, folder):
    np.savez(folder / "log.npz", **run)
    return read_log(folder / "log.npz", CRANE)


def as_csv(run, folder):
    columns = by_columns(run)
    rows = zip(*(np.asarray(column).tolist() for column in columns.values()), strict=True)
    text = [
        ",".join(columns),
        *(
            ",".join("" if x != x else repr(x) if isinstance(x, float) else str(x) for x in row)
            for row in rows
        ),
    ]
    (folder / "log.csv").write_text("\n".join(text) + "\n")
    return read_log(folder / "log.csv", CRANE)


WAYS = [as_log, as_dictionary, as_table, as_topics, as_npz, as_csv]

FREE = [identify.masses(), identify.damping()]
ESTIMATORS = {
    "least_squares": lambda log: identify.least_squares(CRANE, log, FREE),
    "physical_least_squares": lambda log: identify.physical_least_squares(CRANE, log, FREE),
    "samples": lambda log: identify.solve(Problem(CRANE, log, FREE, EquationError())),
    "simulations": lambda log: identify.solve(Problem(CRANE, log, FREE, OutputError())),
}


@pytest.fixture(params=["some", pytest.param("all", marks=pytest.mark.slow)])
def pairs(request):
    """Returns a function that pairs each input path with each estimator.

    Outside the slow tests each path has only one estimator, alternating between them.
    """

    def pairs(ways):
        if request.param == "all":
            return list(itertools.product(ways, ESTIMATORS.values()))
        return list(zip(ways, itertools.cycle(ESTIMATORS.values())))

    return pairs


CHANNELS = ["q", "v", "a", "tau", "u", "gyro"]


def of(channel):
    return f"sensor '{channel}'|{channel}" if channel == "gyro" else channel


# Changes of a channel, for channels that allow them: the resulting run, and the message.


def all_missing(run, channel):
    run[channel][:] = np.nan
    return f"{channel} is NaN everywhere"


def infinite(run, channel):
    run[channel][7, 1] = -np.inf
    names = {"u": "u of actuator 'lift_motor'", "gyro": r"gyro\[1\]"}
    return f"{channel} has infinite numbers, the first in row 7, {names.get(channel, f'{channel} of joint .lift.')}"


def more_columns(run, channel):
    run[channel] = np.concatenate([run[channel], run[channel]], axis=1)
    return f"{of(channel)}.* columns, (and|counted)|'/joint_states': .* has 5 columns, and there are 3 names|not used"


def without_columns(run, channel):
    run[channel] = run[channel][:, :0]
    return rf"({of(channel)}) has 0 columns, and"


def fewer_rows(run, channel):
    run[channel] = run[channel][:-3]
    return f"({of(channel)}|{'|'.join(map(re.escape, NAMES[channel]))}).* has 397 rows, and"


def words(run, channel):
    run[channel] = run[channel].astype(object)
    run[channel][3] = "n/a"
    return "'n/a'"


DEFECTS = {
    all_missing: WAYS,
    infinite: WAYS,
    more_columns: [as_log, as_dictionary, as_topics, as_npz],
    without_columns: [as_log, as_dictionary, as_npz],
    fewer_rows: [as_log, as_dictionary, as_table, as_npz],
    words: [as_log, as_dictionary, as_table, as_topics, as_csv],
}


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("defect", DEFECTS)
def test_defects_of_a_channel(defect, channel, pairs, tmp_path, unchecked):
    for way, estimator in pairs(DEFECTS[defect]):
        run = copy.deepcopy(RUN)
        said = defect(run, channel)
        before = copy.deepcopy(run)
        with pytest.raises(LogError, match=said) as caught:
            estimator(way(run, tmp_path))
        assert "Log '" in str(caught.value) or "identify." in str(caught.value), (estimator, way)
        for key, value in run.items():  # the input is not modified
            np.testing.assert_array_equal(value, before[key])


TIMES = {
    "constant": (lambda t: np.full_like(t, 3.0), "t does not grow: 3 is followed by 3 in row 1"),
    "back": (lambda t: np.where(np.arange(COUNT) == 50, t[40], t), "t does not grow: .* in row 50; several runs"),
    "missing": (lambda t: np.where(np.arange(COUNT) == 9, np.nan, t), "t has numbers .* not finite, the first in row 9"),
    "infinite": (lambda t: np.where(np.arange(COUNT) == 399, np.inf, t), "t has .* not finite, the first in row 399"),
    "milliseconds": (lambda t: 1e3 * t, "v of joint 'turn' adds up to 1e.03 .* a thousand: .*log.scaled\\(t=1e-3"),
    "nanoseconds": (lambda t: 1.7e18 + 1e9 * t, "adds up to 1e.09 .* a thousand million: one of t, q and v"),
    "minutes": (lambda t: t / 60, r"adds up to 0.0167 times what q changes by: q looks like degrees \(or t like minutes\)"),
}  # fmt: skip


@pytest.mark.parametrize("change, said", TIMES.values(), ids=TIMES)
def test_defects_of_times(change, said, pairs, tmp_path):
    for way, estimator in pairs(WAYS):
        run = RUN | {"t": change(T)}
        said = said.replace("t does", "(t|the times of q) does").replace("t has", "(t|the times of q) has")
        with pytest.raises(LogError, match=said):
            estimator(way(run, tmp_path))


@pytest.mark.parametrize("way", [as_log, as_dictionary, as_npz, as_csv, as_table])
def test_one_sample_is_no_log(way, tmp_path):
    with pytest.raises(LogError, match="at least two times|t has shape"):
        way({name: values[:1] for name, values in RUN.items()}, tmp_path)


UNITS = {
    "q in degrees": ({"q": [180 / np.pi, 1]}, "q of joint 'turn' goes from .* it looks like degrees.*scaled"),
    "q in mm": ({"q": [1, 1e3]}, "q of joint 'lift' .* it looks like millimeters.*log.scaled"),
    "q of another joint": ({"q": [300, 1]}, "joint 'turn' goes from -360 .* cannot reach this"),
    "v in degrees": ({"v": [180 / np.pi, 1]}, "v of joint 'turn' adds up to 57.3 .* v looks like degrees"),
    "v in mm/s": ({"v": [1, 1e3]}, "v of joint 'lift' adds up to 1e.03 .* a thousand"),
    "v with the other sign": ({"v": [1, -1]}, "v of joint 'lift' adds up to -1 .* has the opposite sign"),
    "v is zero": ({"v": [0, 1]}, "v of joint 'turn' adds up to 0 times .* it remains constant while q changes"),
    "a in degrees": ({"a": [180 / np.pi, 1]}, "a of joint 'turn' adds up to 57.3 .* a looks like degrees"),
    "a in g": ({"a": [1, 1 / 9.81]}, "a of joint 'lift' adds up to 0.102 times what v changes by; it is not"),
    "a with the other sign": ({"a": [-1, 1]}, "a of joint 'turn' adds up to -1 .* sign"),
    "tau in N mm": ({"tau": [1e3, 1]}, "tau of joint 'turn' is mostly about .* its limit is 10. Is it in N mm"),
    "v in rad/ms": ({"q": [1, 1], "v": [1e3, 1e3]}, "v of joint 'turn' adds up to 1e.03"),
}  # fmt: skip


@pytest.mark.parametrize("factors, said", UNITS.values(), ids=UNITS)
def test_other_units(factors, said, pairs, tmp_path):
    """Wrong units cause errors or warnings; wrong units of tau cause a warning."""
    run = RUN | {name: RUN[name] * np.array(factor) for name, factor in factors.items()}
    for way, estimator in pairs(WAYS):
        with warnings.catch_warnings():
            warnings.simplefilter("error", LogWarning)
            with pytest.raises((LogError, LogWarning), match=said):
                estimator(way(run, tmp_path))
    if any(name not in ("q", "tau") for name in factors):
        noise = 1e-3 * np.random.default_rng(0).normal(size=(COUNT, 2))
        with pytest.raises(LogError, match=said.split(" adds")[0]):
            check_log(CRANE, Log(T, run["q"] + noise, run["v"] + noise, run["a"]))


def test_columns_in_another_order(tmp_path):
    for name in ("v", "a"):
        run = RUN | {name: RUN[name][:, ::-1]}
        for way in WAYS:
            with pytest.raises(
                LogError, match=f"{name} of joint 'turn' adds up to .* fits . of joint 'lift'.* order"
            ):
                check_log(CRANE, way(run, tmp_path))


def test_scattered_samples_may_be_missing(tmp_path):
    run = copy.deepcopy(RUN)
    for name in CHANNELS:
        run[name][np.random.default_rng(0).uniform(size=run[name].shape) < 0.1] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error", LogWarning)
        for way in WAYS[:3] + WAYS[4:]:
            check_log(CRANE, way(run, tmp_path))


def test_what_is_not_measured_of_some_joints_is_found():
    v = RUN["v"].copy()
    v[:, 1] = np.nan
    found = identify.with_rates(CRANE, Log(T, RUN["q"], v), cutoff=20.0)
    np.testing.assert_array_equal(found.v.values[:, 0], v[:, 0])
    inside = slice(80, 320)
    np.testing.assert_allclose(found.v.values[inside, 1], RUN["v"][inside, 1], atol=1e-4)
    np.testing.assert_allclose(found.a.values[inside], RUN["a"][inside], atol=1e-2)


# Logs in which only the times reveal a fault.


def test_positions_and_torques_at_five_hundred_seconds():
    """Only the times show that they are in milliseconds."""
    for factor, told in ((100.0, LogWarning), (5e4, LogError), (1e9, LogError)):
        log = Log(factor * T, RUN["q"], tau=RUN["tau"])
        for estimator in ESTIMATORS.values():
            with warnings.catch_warnings():
                warnings.simplefilter("error", LogWarning)
                with pytest.raises(told, match="samples are .* s apart, .* in milliseconds or nanoseconds"):
                    estimator(log)


CLOCKS = {
    "another clock": (Channel(RUN["tau"], T + 1.7e9), LogError, "tau was measured from 1700000000 s .* no time in common"),
    "milliseconds": (Channel(RUN["tau"], 1e3 * T + 5e3), LogError, "tau was measured from 5000 s .* in seconds"),
    "a long delay": (Channel(RUN["tau"], delay=5.0), LogError, "with its delay of 5 s taken off.* no time in common"),
    "hardly": (Channel(RUN["tau"], delay=3.9), LogWarning, "hardly any time in common"),
    "back": (Channel(RUN["tau"], T[::-1]), LogError, "the times of tau does not grow"),
}  # fmt: skip


@pytest.mark.parametrize("tau, told, said", CLOCKS.values(), ids=CLOCKS)
def test_channels_of_other_times(tau, told, said):
    for estimator in ESTIMATORS.values():
        with warnings.catch_warnings():
            warnings.simplefilter("error", LogWarning)
            with pytest.raises(told, match=said):
                estimator(Log(T, RUN["q"], tau=tau))


# Files.

TABLES = {
    "empty": ("", "log.csv: the file is empty"),
    "blank lines": ("\n\n", "the file is empty"),
    "names alone": ("t,q_turn,q_lift\n", "there are no rows below"),
    "no names": ("0,1,2\n0.1,1,2\n", "the first row has numbers"),
    "ragged": ("t,q_turn,q_lift\n0,1,1\n0.1,1\n", "line 3 has 2 fields, but the first row has 3 names"),
    "longer": ("t,q_turn\n0,1\n0.1,1,7\n", "line 3 has 3 fields, but the first row has 2 names"),
    "text": ("t,q_turn,q_lift\n0,1,1\n0.1,abc,1\n", "q_turn is no array of numbers.*: in row 1 there is 'abc'"),
    "decimal commas": ("t,q_turn,q_lift\n0,0,0,1,0,2\n0,1,0,1,0,2\n", "line 2 has 6 fields"),
    "twice": ("t,q_turn,q_lift,q_turn\n0,1,1,1\n0.1,1,1,1\n", "columns 1, 3 are all called 'q_turn'"),
    "twice in other words": ("t,q_turn,pos0,q_lift\n0,1,1,1\n0.1,1,1,1\n", "'q_turn' and 'pos0' are both column 0 of q"),
    "semicolons": ("t;q_turn;q_lift\n0;1;1\n", "columns must be separated by commas, .* ';'.*sep=';'"),
    "tabs": ("t\tq_turn\n0\t1\n", r"separated by commas"),
    "no times": ("q_turn,q_lift\n1,1\n1,1\n", "there are no times; one entry is called 't'"),
    "two times": ("t,stamp,q_turn\n0,5,1\n1,6,1\n", "'t' and 'stamp' are both times"),
    "counted from one": ("t,q1,q2\n0,1,1\n1,1,1\n", "a column 'q2', but q of model 'crane' has 2 columns, counted from 0"),
    "of another robot": ("t,q_wrist,q_knee\n0,1,1\n1,1,1\n", "none of 'q_wrist', 'q_knee' is a channel"),
    "one row": ("t,q_turn\n0,1\n", "at least two times"),
}  # fmt: skip


@pytest.mark.parametrize("text, said", TABLES.values(), ids=TABLES)
def test_tables_that_are_none(text, said, tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(text)
    with pytest.raises(LogError, match=said):
        read_log(path, CRANE)
    assert path.read_text() == text


RIGHT = {
    "a byte order mark": "\ufefft,q_turn,q_lift\n0,1,0.5\n0.1,,0.5\n",
    "quotes": '"t","q_turn","q_lift"\n0,1,0.5\n0.1,nan,0.5\n',
    "savetxt": "# t,q_turn,q_lift\n0,1,0.5\n0.1,NaN,0.5\n",
    "commas at the end": "t,q_turn,q_lift,\n0,1,0.5,\n0.1,,0.5,\n",
    "blank lines": "t , q_turn, q_lift\n0,1,0.5\n\n0.1, ,0.5\n\n",
    "other ends of lines": "t,q_turn,q_lift\r\n0,1,0.5\r\n0.1,,0.5\r\n",
}


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT)
def test_tables_that_are_right(text, tmp_path):
    (tmp_path / "log.CSV").write_text(text, encoding="utf-8", newline="")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        log = read_log(tmp_path / "log.CSV", CRANE)
    np.testing.assert_array_equal(log.q.values, [[1, 0.5], [np.nan, 0.5]])


def test_text_in_columns_of_nothing_is_no_fault(tmp_path):
    (tmp_path / "log.csv").write_text("t,q_turn,mode\n0,1,hold\n0.1,1,3\n")
    with pytest.warns(LogWarning, match="'mode' are not used"):
        assert read_log(tmp_path / "log.csv", CRANE).q.values[1, 0] == 1


def test_archives_that_are_none(tmp_path):
    path = tmp_path / "log.npz"
    for content in (b"", b"PK\x03\x04 cut off", b"t,q\n0,1\n"):
        path.write_bytes(content)
        with pytest.raises(LogError, match="log.npz: it is no NumPy archive .*np.savez"):
            read_log(path, CRANE)
    np.save(tmp_path / "one.npy", T)
    (tmp_path / "one.npy").rename(path)
    with pytest.raises(LogError, match="one array without a name|no NumPy archive"):
        read_log(path, CRANE)
    objects = np.array([[1.0, 2.0], None], dtype=object)
    np.savez(path, t=T, q=objects, v=RUN["v"])
    with pytest.raises(LogError, match="log.npz: 'q' holds Python objects, which are not read.*np.asarray"):
        read_log(path, CRANE)
    np.savez(path, t=T, v=RUN["v"], about=objects)
    with pytest.warns(LogWarning, match="'about' holds Python objects, which are not read"):
        log = read_log(path, CRANE)
    with pytest.raises(LogError, match="has no q"):
        identify.least_squares(CRANE, replace(log, tau=Channel(RUN["tau"])), FREE)
    (tmp_path / "latin.csv").write_bytes("t,q_turn,°\n0,1,1\n".encode("latin-1"))
    with pytest.raises(LogError, match="no text in UTF-8"):
        read_log(tmp_path / "latin.csv", CRANE)


# Types of arrays and names.

JOINTS = {"t": T, "name": ["turn", "lift"], "position": RUN["q"]}
MADE = {
    "no mapping": (lambda: Log.from_mapping([T, RUN["q"]], CRANE), "data is a list; it must be a dictionary"),
    "twice": (lambda: Log.from_mapping({"t": T, "q": RUN["q"], "pos": RUN["q"]}, CRANE), "'q' and 'pos' are both q"),
    "by columns too": (lambda: Log.from_mapping({"t": T, "q": RUN["q"], "q_lift": T}, CRANE), "as a whole and by columns"),
    "twice in a table": (lambda: Log.from_mapping(Duplicates({"t": T, "q0": T}), CRANE), "several columns 'q0'"),
    "in two topics": (lambda: Log.from_mapping({"/a": JOINTS, "/b": JOINTS}, CRANE), "'/b: position' are both q"),
    "topic without times": (lambda: Log.from_mapping({"/a": {"position": RUN["q"]}}, CRANE), "'/a' have no times"),
    "others' joints": (lambda: Log.from_mapping({"/a": JOINTS | {"name": ["knee", "hip"]}}, CRANE), "none is a joint of"),
    "joints twice": (lambda: Log.from_mapping({"/a": JOINTS | {"name": ["turn", "turn"]}}, CRANE), "has 'turn' twice"),
    "joints change": (
        lambda: Log.from_mapping({"/a": JOINTS | {"name": [["turn", "lift"]] * 399 + [["lift", "turn"]]}}, CRANE),
        "the joints of message 399 are others",
    ),
    "more joints": (lambda: Log.from_mapping({"/a": JOINTS | {"name": ["turn"]}}, CRANE), "has 2 columns, and there are 1 names"),
    "topic's rows": (lambda: Log.from_mapping({"/a": JOINTS | {"t": T[1:]}}, CRANE), "position has 400 rows"),
    "a column's shape": (lambda: Log.from_mapping({"t": T, "q0": RUN["q"]}, CRANE), "q0 has shape .* a column has a number"),
    "complex": (lambda: Log(T, RUN["q"] * 1j), "but of complex128"),
    "dates": (lambda: Log(T, np.zeros((COUNT, 2), "datetime64[s]")), "but of datetime64"),
    "ragged": (lambda: Log(T, [[1.0, 2.0]] * 399 + [[1.0]]), "rows have between 1 and 2 numbers"),
    "words": (lambda: Log(T, [[1.0, 2.0]] * 399 + [[1.0, "off"]]), "in row 399 there is 'off'"),
    "times": (lambda: Log(T[:, None], RUN["q"]), "t has shape"),
    "delay": (lambda: Channel(RUN["q"], delay=np.nan), "delay is nan"),
    "sensors": (lambda: Log(T, RUN["q"], sensors=[RUN["gyro"]]), "sensors is a list"),
    "a sensor called tau": (lambda: Log(T, RUN["q"], sensors={"tau": RUN["tau"]}), "a sensor is called 'tau'"),
}  # fmt: skip


class Duplicates(Table):
    def keys(self):
        return [*self.columns, self.columns[-1]]


@pytest.mark.parametrize("make, said", MADE.values(), ids=MADE)
def test_what_is_no_log(make, said, unchecked):
    with pytest.raises(LogError, match=said):
        make()


def test_what_means_the_same_is_taken():
    stamps = np.datetime64("2024-01-01") + (1e9 * T).astype("timedelta64[ns]")
    masked = np.ma.masked_where(RUN["q"] > 0.6, RUN["q"])
    log = Log(stamps, masked, tau=[[1.0, None]] * COUNT)
    np.testing.assert_allclose(np.diff(log.t), 0.01, atol=1e-6)
    np.testing.assert_array_equal(np.isnan(log.q.values), RUN["q"] > 0.6)
    assert np.isnan(log.tau.values[:, 1]).all()
    sensor = rbd.sensors.Accelerometer("acc", "tip")
    same = {"t": T, "time": T, "q": RUN["q"], "acc": RUN["gyro"]}
    assert Log.from_mapping(same, rbd.attach(CRANE, sensor)).sensors["acc"].values.shape == (COUNT, 3)


# Floating bodies.


def drone():
    builder = rbd.ModelBuilder(name="drone")
    builder.add_body(
        "hull", "world", rbd.joints.Free(), inertia=rbd.Inertia.box(1.0, (0.1, 0.2, 0.3)), joint_name="base"
    )
    return builder.build()


DRONE = drone()


def tumbling():
    """Returns q and v of a body that turns about two axes and flies along a curve, by finite differences."""
    t, h = T, 1e-5
    angles = lambda t: (0.9 * np.sin(1.3 * t) + 0.3, 0.7 * np.sin(2.1 * t + 1))

    def placed(t):
        (a, b), zero = (x / 2 for x in angles(t)), 0 * t
        first, second = np.c_[np.cos(a), zero, zero, np.sin(a)], np.c_[np.cos(b), np.sin(b), zero, zero]
        (w0, z), (w1, x) = (first[:, 0], first[:, 3]), (second[:, 0], second[:, 1])
        return np.c_[np.sin(t), 0.5 * np.cos(2 * t), 0.2 * t, w0 * w1, w0 * x, z * x, z * w1]

    q, rate = placed(t), (placed(t + h) - placed(t - h)) / (2 * h)
    (w, x), (dw, dx) = (np.split(one[:, 3:], [1], axis=1) for one in (q, rate))
    # Twice the product of the inverse quaternion and its rate.
    angular = 2 * (w * dx - dw * x - np.cross(x, dx))
    linear = np.einsum("nji,nj->ni", identify._motion.matrices(q[:, 3:]), rate[:, :3])
    return q, np.concatenate([angular, linear], axis=1)


FQ, FV = tumbling()
ROTATION = identify._motion.matrices(FQ[:, 3:])
WORLD = lambda x: np.einsum("nij,nj->ni", ROTATION, x)
ROLLED = np.c_[FQ[:, :3], FQ[:, 4:], FQ[:, 3:4]]

FLOATING = {
    "linear in the world": (FQ, np.c_[FV[:, :3], WORLD(FV[:, 3:])], "fits q as the linear velocity in the world's frame"),
    "angular in the world": (FQ, np.c_[WORLD(FV[:, :3]), FV[:, 3:]], "fits q as the angular velocity in the world's frame"),
    "MuJoCo's": (FQ, np.c_[WORLD(FV[:, 3:]), FV[:, :3]], "the angular velocity in the last three columns.*MujocoMap"),
    "Pinocchio's": (FQ, np.c_[FV[:, 3:], FV[:, :3]], "the angular velocity in the last three columns"),
    "scalar last": (ROLLED, FV, "joint 'base' fits q as quaternions with the scalar last"),
    "not unit": (FQ * [1, 1, 1, 2, 2, 2, 2], FV, r"the quaternion of joint 'base', q\[3:7\], has length 2 in row 0; it must"),
    "zeros": (np.where(np.arange(COUNT)[:, None] == 5, 0, FQ), FV, "has length 0 in row 5.* missing samples: make them NaN"),
    "quaternion first": (np.c_[FQ[:, 3:], FQ[:, :3]], FV, "as if it came before the position"),
    "degrees": (FQ, FV * (180 / np.pi), "v looks like degrees"),
    "nq columns of v": (FQ, FQ, r"v has 7 columns, and model 'drone' has nv = 6 \(nv is 6, nq 7\)"),
    "nv columns of q": (FV, FV, r"q has 6 columns, and model 'drone' has nq = 7 \(nv is 6, nq 7\)"),
}  # fmt: skip


@pytest.mark.parametrize("q, v, said", FLOATING.values(), ids=FLOATING)
def test_bodies_that_float(q, v, said):
    with warnings.catch_warnings():
        warnings.simplefilter("error", LogWarning)
        check_log(DRONE, Log(T, FQ, FV))
    for noise in (0.0, 1e-4):
        noisy = q + noise * np.random.default_rng(0).normal(size=q.shape) * (q != 0)
        with pytest.raises(LogError, match=said):
            check_log(DRONE, Log(T, noisy, v))


# Estimated parameters and priors.


def test_too_few_samples():
    few = {name: values[:3] for name, values in RUN.items() if name in ("t", "q", "v", "a", "tau")}
    log = Log(**few)
    free = [identify.inertias(), identify.damping(), identify.coulomb()]
    with pytest.raises(LogError, match="there are 6 measured forces and 24 free parameters; record more"):
        identify.least_squares(CRANE, log, free)
    many = [identify.masses(), identify.centers_of_mass(), identify.damping()]
    with pytest.raises(
        LogError, match="there are 6 measured numbers, 10 free values .* record more, free less"
    ):
        Problem(CRANE, log, many, EquationError())
    with pytest.raises(LogError, match="there are 12 measured numbers, 18 free values"):
        Problem(
            CRANE,
            log,
            [*many, identify.placements("hook"), identify.coulomb("turn"), identify.stiffness("lift")],
        )
    with pytest.warns(
        LogWarning,
        match="there are 12 measured numbers, 10 free values .* and 4 coordinates of initial states",
    ):
        Problem(CRANE, log, many)


OTHER = rbd.load("double_pendulum")
CONTRADICTIONS = {
    "nothing": (lambda: [], "free is empty"),
    "no such joint": (lambda: [identify.damping("wrist")], "called 'wrist'"),
    "no such body": (lambda: [identify.inertias("hooks")], "did you mean 'hook'"),
    "one kind twice": (lambda: [identify.damping()] * 2, "identify.Damping is there twice, and frees the damping"),
    "a joint twice": (lambda: [identify.damping("turn"), identify.damping()], "identify.Damping is there twice"),
    "two kinds": (lambda: [identify.masses(), identify.inertias("hook")], "both free the mass of 'hook'"),
    "bounds": (lambda: [identify.damping(bounds=(2.0, 1.0))], "the bounds of 'turn damping' are 2 and 1; the first is the lower"),
    "prior outside": (lambda: [identify.damping(prior=(-1.0, 0.1))], "mean -1, but its bounds are 0 and inf"),
    "prior outside of own": (lambda: [identify.masses(bounds=(1, 2), prior=(5, 1))], "mean 5, but its bounds are 1 and 2"),
    "known exactly": (lambda: [identify.damping(prior=(1.0, 0.0))], "standard deviation 0; it must be positive"),
    "unknown": (lambda: [identify.damping(prior=(np.nan, 0.1))], "non-finite mean nan"),
    "another model's": (lambda: identify.Parameters(OTHER, identify.damping()), "free was made of model 'double_pendulum'"),
    "another's numbers": (
        lambda: identify.Parameters(replace(CRANE, damping=jax.device_put(np.ones(2))), FREE),
        "or has other numbers; take Parameters",
    ),
}  # fmt: skip


@pytest.mark.parametrize("free, said", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_what_is_free_makes_sense(free, said):
    log = as_log(RUN, None)
    for use in (
        lambda: identify.least_squares(CRANE, log, free()),
        lambda: identify.physical_least_squares(CRANE, log, free()),
        lambda: Problem(CRANE, log, free(), EquationError()),
        lambda: Problem(CRANE, log, free()),
    ):
        with pytest.raises(rbd.ModelError, match=said):
            use()


def test_what_goes_with_another_model():
    equations = identify.Equations.none(OTHER)
    with pytest.raises(LogError, match="Equations are of model 'double_pendulum'"):
        identify.least_squares(CRANE, equations, FREE)
    with pytest.raises(LogError, match="u has 2 columns, and model 'double_pendulum' has nu = 0"):
        check_log(OTHER, Log(T, RUN["q"], u=RUN["u"]))
    problem = Problem(CRANE, as_log(RUN, None), FREE, EquationError())
    with pytest.raises(rbd.ModelError, match="start is a model 'double_pendulum' with other bodies"):
        identify.solve(problem, start=OTHER)
    with pytest.warns(LogWarning, match="readings of 'gyr', which are not used.* did you mean 'gyro'"):
        Problem(CRANE, Log(T, RUN["q"], tau=RUN["tau"], sensors={"gyr": RUN["gyro"]}), FREE, EquationError())


def test_what_simulations_take_for_granted():
    q, noise = RUN["q"], 1e-3 * np.random.default_rng(0).normal(size=(COUNT, 2))
    with pytest.warns(LogWarning, match="neither tau nor u, so nothing drives the simulation.* zeros in tau"):
        Problem(CRANE, Log(T, q), FREE)
    with pytest.warns(
        LogWarning, match="q of joint '.*' has noise of about 0.001, and nodes='measured' takes"
    ):
        Problem(CRANE, Log(T, q + noise, tau=RUN["tau"]), FREE, OutputError(nodes="measured"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", LogWarning)
        for right in (q, q.astype(np.float32)):
            Problem(CRANE, Log(T, right, tau=RUN["tau"]), FREE, OutputError(nodes="measured"))
        Problem(CRANE, Log(T, q + noise, tau=RUN["tau"]), FREE)


@pytest.mark.parametrize("count", [2, 3, 8, 14])
def test_first_states_of_short_noisy_logs_have_velocities(count):
    """Short logs use finite differences instead of smoothing."""
    rows, noise = slice(0, count), 1e-4 * np.random.default_rng(0).normal(size=(count, 2))
    log = Log(T[rows], RUN["q"][rows] + noise, tau=RUN["tau"][rows])
    start = OutputError(None).windows(CRANE, [log]).start
    np.testing.assert_allclose(start.v[0], RUN["v"][0], atol=0.1)


# Faults that the predictions of a model reveal.


def pendulum():
    model = rbd.attach(rbd.load("pendulum"), rbd.Site("tip", "bob", (0, 0, -0.5)))
    return rbd.attach(model, rbd.sensors.Accelerometer("acc", "tip"), rbd.sensors.Gyro("gyro", "tip"))


@pytest.fixture(scope="module")
def swing():
    """A pendulum, and a run of it with little noise."""
    model = pendulum()
    t = np.arange(300) / 100
    q, v, a = (x[:, None] for x in (np.sin(2 * t), 2 * np.cos(2 * t), -4 * np.sin(2 * t)))

    @jax.jit
    @jax.vmap
    def measured(q, v, a):
        tau = rbd.inverse_dynamics(model, q, v, a)
        at = rbd.sense(model, rbd.State(q, v), tau - rbd.passive_force(model, q, v))
        return tau, at["acc"], at["gyro"]

    needed, acc, gyro = (np.array(x) for x in measured(q, v, a))
    tau = 1.2 * needed + 0.3 * v + 1e-3 * np.random.default_rng(0).normal(size=(300, 1))
    return model, Log(t, q, v, a, tau, sensors={"acc": acc, "gyro": gyro})


def scaled(model, factor):
    """Returns the inertias of a model times a factor."""
    return rbd.Inertia.from_parameters(jax.device_put(factor * np.asarray(model.inertias.parameters)))


SWING = [identify.masses(), identify.damping()]


def told(do):
    """Returns the result of a call and the text of its errors and warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LogWarning)
        try:
            found = do()
        except LogError as error:
            return None, str(error)
    return found, " | ".join(str(one.message) for one in caught if issubclass(one.category, LogWarning))


LINEAR = {"least_squares": identify.least_squares, "physical_least_squares": identify.physical_least_squares}
SAMPLES = lambda model, log, free: identify.solve(Problem(model, log, free, EquationError(("tau",))))
FORCES = {
    "N mm": (1e3, "the measured forces are a thousand times what the model needs"),
    "kN m": (1e-3, "the measured forces are a thousandth of what the model needs"),
    "the other sign": (-1.0, "is the opposite of what the model needs .* wrong sign"),
}


@pytest.mark.parametrize("factor, said", FORCES.values(), ids=FORCES)
def test_forces_in_other_units(swing, factor, said):
    model, log = swing
    wrong = log.scaled(tau=factor)
    for estimate in (*LINEAR.values(), SAMPLES):
        assert re.search(said, told(lambda estimate=estimate: estimate(model, wrong, SWING))[1])
        found, nothing = told(lambda estimate=estimate: estimate(model, log, SWING))
        assert not nothing and abs(found.values[0] / model.inertias.mass.tolist()[0] - 1.2) < 0.01


def test_forces_that_may_be_right_are_not_refused(swing):
    """A joint whose friction is a thousand times the inertial torque only causes a warning."""
    model, log = swing
    light = replace(model, inertias=scaled(model, 1e-3))
    friction = replace(log, tau=Channel(2 * log.v.values))
    found, said = told(lambda: identify.least_squares(light, friction, SWING))
    assert "a thousand times" in said and abs(found.value("swing damping") - 2) < 0.01


def test_what_no_value_explains_is_told(swing):
    model, log = swing
    other = replace(log, tau=Channel(np.cos(17 * log.t)[:, None]))
    for estimate in (*LINEAR.values(), SAMPLES):
        found, said = told(lambda estimate=estimate: estimate(model, other, SWING))
        assert re.search(
            r"the estimate does not explain tau swing \(0.\d+ of 0.\d+\), and it is not noise", said
        )
        assert found is not None
    noise = np.random.default_rng(0).normal(size=(300, 1))
    for estimate in LINEAR.values():
        assert not told(
            lambda estimate=estimate: estimate(model, replace(log, tau=Channel(3 * noise)), SWING)
        )[1]


READINGS = {
    "in g": (
        {"acc": 1 / 9.80665},
        "the readings of sensor 'acc' are 0.102 times .* they look like g, and m/s² are meant",
    ),
    "in mm/s²": (
        {"acc": 1e3},
        "'acc' are 1e.03 times what the model predicts: they look like thousandths of the unit",
    ),
    "in degrees": ({"gyro": 180 / np.pi}, "'gyro' are 57.3 times .* they look like degrees"),
    "turned round": ({"acc": -1.0}, "the readings of sensor 'acc' are the opposite"),
    "right": ({}, "^$"),
}


def test_readings_in_other_units(swing):
    model, log = swing
    right = replace(model, inertias=scaled(model, 1.2), damping=jax.device_put(np.array([0.3])))
    for factors, said in READINGS.values():
        wrong = {
            name: replace(one, values=one.values * factors.get(name, 1.0))
            for name, one in log.sensors.items()
        }
        problem = Problem(
            right, replace(log, sensors=wrong), identify.joint_offsets(), EquationError(("acc", "gyro"))
        )
        assert re.search(said, told(lambda problem=problem: look_before(problem, problem.start()))[1]), said


def test_readings_that_depend_on_forces(swing):
    """Without forces, the readings are not compared, or the robot is assumed to move freely, with a warning."""
    model, log = swing
    compare = EquationError(("acc", "gyro"))
    with pytest.warns(LogWarning, match="neither tau nor u, but the readings of 'acc' depend on the driving"):
        Problem(model, replace(log, tau=None), SWING, compare)
    tau = np.where(np.arange(300)[:, None] < 100, np.nan, log.tau.values)
    acc, gyro = compare.windows(model, [replace(log, tau=Channel(tau))]).measured
    assert acc.there.sum() == 3 * 200 and gyro.there.sum() == 3 * 300


def test_columns_that_are_exchanged():
    """Products of measurements and predictions reveal exchanged columns."""
    needed = np.stack([np.sin(3 * T), np.cos(5 * T), np.ones(COUNT)], axis=1)
    sums = lambda x: (np.sum(x**2, axis=0), np.sum(needed**2, axis=0), x.T @ needed)
    names = ["tau a", "tau b", "tau c"]
    assert not told(lambda: look_at_order("solve", names, *sums(1.1 * needed + 0.1)))[1]
    assert re.search(
        "tau a matches the prediction of tau b",
        told(lambda: look_at_order("solve", names, *sums(needed[:, [1, 0, 2]])))[1],
    )


@pytest.mark.slow
def test_simulations(swing):
    """With wrong controls nothing fits, and unobservable parameters are named."""
    model, log = swing
    start, tau = rbd.State(*map(jnp.asarray, np.array([[0.0], [0.5]]))), 5 * np.sin(2 * log.t)[:, None]
    damped = replace(model, damping=jax.device_put(np.array([0.3])))
    path = rbd.rollout(damped, start, jax.device_put(tau[:-1]), dt=0.01)
    run = Log(log.t, np.asarray(path.q), tau=tau)
    free, compare = identify.damping(), OutputError(1.0)
    found, said = told(lambda: identify.solve(Problem(model, run, free, compare)))
    assert not said and abs(found.values[0] - 0.3) < 1e-3
    _, said = told(lambda: identify.solve(Problem(model, run.scaled(tau=1e-3), free, compare)))
    assert "the estimate does not explain q swing" in said
    still = replace(run, q=Channel(np.zeros((300, 1))), tau=Channel(np.zeros((300, 1))))
    found, _ = told(lambda: identify.solve(Problem(model, still, free, compare)))
    assert found.unobservable == ("swing damping: not seen at all",)
    for estimate in LINEAR.values():
        found, _ = told(
            lambda estimate=estimate: estimate(model, replace(still, v=still.q, a=still.q), SWING)
        )
        assert set(found.unobservable) == {"bob mass: not seen at all", "swing damping: not seen at all"}
