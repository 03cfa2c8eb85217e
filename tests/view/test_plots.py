"""Every plot for every type of model: curves match the data, in panels by unit."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from support import assert_close

import rbd_jax as rbd
from rbd_jax import actuators, constraints, joints, sensors, shapes
from rbd_jax.view.curves import q_columns, v_columns


PLOTS = ("positions", "velocities", "torques", "energies", "contact_forces", "phase", "fan", "sensors")
TIP = (1.0, 0.0, 0.0)
ROD = rbd.Inertia.box(1.0, (1.0, 0.1, 0.1), (0.5, 0.0, 0.0))
ROWS = 12


@functools.cache
def mixed():
    """A floating base with a limited hinge, a slide, a ball and a mimic hinge; a motor, a sensor, no contact model."""
    builder = rbd.ModelBuilder(name="mixed")
    builder.add_body("base", "world", joints.Free(), inertia=ROD)
    limits: Any = {"lower": -0.5, "upper": 0.5, "velocity_limit": 1.0, "effort_limit": 2.0}
    builder.add_body("hinged", "base", joints.Revolute((0, 1, 0)), TIP, ROD, **limits)
    builder.add_body("slid", "hinged", joints.Prismatic((0, 0, 1)), TIP, ROD, lower=-0.1, upper=0.1)
    builder.add_body("turned", "slid", joints.Spherical(), TIP, ROD)
    builder.add_body(
        "following", "base", joints.Revolute((0, 1, 0)), TIP, ROD, mimic=rbd.Mimic("hinged", 2.0)
    )
    builder.attach(actuators.Motor("motor", "hinged", gear=3.0), sensors.JointPosition("angle", "hinged"))
    return builder.build()


@functools.cache
def touching(law):
    """A ball above the ground, with contacts as soft constraints or springs."""
    builder = rbd.ModelBuilder(name="touching")
    builder.add_body("ball", "world", joints.Free(), inertia=rbd.Inertia.sphere(1.0, 0.1))
    builder.attach(rbd.Shape("floor", "world", shapes.Plane()), rbd.Shape("skin", "ball", shapes.Sphere(0.1)))
    if law == "soft":
        return rbd.attach(builder.build(), rbd.contact.Soft())
    return rbd.add_forces(
        builder.build(), rbd.contact.Compliant("skin", "floor", 1e4, law="linear", exponent=1.0)
    )


@functools.cache
def four_bar():
    builder = rbd.ModelBuilder(gravity=(0.0, -9.81, 0.0), name="four-bar")
    builder.add_body("crank", "world", joints.Revolute(), inertia=ROD)
    builder.add_body("coupler", "crank", joints.Revolute(), TIP, ROD)
    builder.add_body("follower", "world", joints.Revolute(), TIP, ROD)
    builder.add_constraint(constraints.HingeLoop("coupler", TIP, "follower", TIP))
    return builder.build()


def path_of(model, batch=(), rows=ROWS, seed=0, u=False):
    """Returns an arbitrary trajectory of the model, without simulation."""
    rng = np.random.default_rng(seed)
    t = np.broadcast_to(np.linspace(0, 1, rows), (*batch, rows))
    v = rng.normal(size=(*batch, rows, model.nv))
    q = np.broadcast_to(
        np.asarray(getattr(model, "reference", np.zeros(model.nq))), (*batch, rows, model.nq)
    ).copy()
    q += 0.02 * rng.normal(size=q.shape)
    given = [jax.device_put(x) for x in (t, q, v, rng.normal(size=(*batch, rows - 1, model.nv)))]
    codes = [np.full(batch, code, np.int32) for code in (0, -1)]
    controls = jax.device_put(np.full((*batch, rows - 1, 1), 0.5)) if u else None
    return rbd.Trajectory(*given, *map(jax.device_put, codes), u=controls)


#: For each case, the model, the shape of the batch, and whether it has controls.
CASES = {
    "mixed": (mixed, (), True),
    "mixed, a batch": (mixed, (2, 3), True),
    "a loop": (four_bar, (), False),
    "reduced": (lambda: rbd.ReducedModel(four_bar(), lambda y: jnp.concatenate([y, -y, y]), 1), (2,), False),
    "planar": (lambda: rbd.planar(rbd.load("double_pendulum")), (4,), False),
    "contact": (lambda: touching("soft"), (), False),
    "springs": (lambda: touching("springs"), (), False),
}


class Cases(dict):
    """Models with their trajectories, created on demand."""

    def __missing__(self, name):
        make, batch, u = CASES[name]
        model = make()
        self[name] = model, path_of(model, batch, u=u)
        return self[name]


@pytest.fixture(scope="module")
def cases():
    found = Cases()
    assert found["planar"]  # compiles its operations for all tests
    return found


LONG = "mixed", "mixed, a batch", "reduced", "contact", "springs"


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.slow) if case in LONG else case for case in CASES]
)
def test_every_plot_of_every_model(cases, case, tmp_path):
    model, path = cases[case]
    for name in PLOTS:
        figure = getattr(rbd.plot, name)(model, path)
        assert isinstance(figure, Figure) and figure.axes, name
        seen = [axes for axes in figure.axes if axes.get_visible()]
        assert all(axes.lines or axes.patches or axes.texts for axes in seen), name
    figure.savefig(tmp_path / "one.png", dpi=40)
    page = rbd.plot(model, path)
    page.savefig(tmp_path / "page.png", dpi=40)
    assert (tmp_path / "page.png").stat().st_size > 5000


def curves_of(figure):
    """Returns the labeled curves by panel title."""
    return {
        axes.get_title(loc="left"): {line.get_label(): line for line in axes.lines} for axes in figure.axes
    }


def test_panels_by_unit_with_limits(cases):
    model, path = cases["mixed"]
    found = curves_of(rbd.plot.positions(model, path))
    assert list(found) == ["position [m]", "orientation [quaternion]", "position [rad]"]
    assert {"base x", "base y", "base z", "slid"} <= set(found["position [m]"])
    assert {"base w", "turned x"} <= set(found["orientation [quaternion]"])
    hinge = found["position [rad]"]
    assert_close(hinge["hinged"].get_ydata(), np.asarray(path.q)[:, 7], 1e-12)
    chosen = rbd.plot.velocities(model, path, joints=["hinged"])
    levels = sorted(float(line.get_ydata()[0]) for line in chosen.axes[0].lines if len(line.get_ydata()) == 2)
    assert levels == [-1.0, 1.0]  # the limits
    assert list(curves_of(rbd.plot.velocities(model, path))) == ["velocity [rad/s]", "velocity [m/s]"]
    both = rbd.plot.positions(model, path, joints=["slid", 1])
    assert [axes.get_title(loc="left") for axes in both.axes] == ["position [rad]", "position [m]"]


def test_columns_are_those_of_the_state(cases):
    model, _ = cases["mixed"]
    assert sorted(one.place for one in q_columns(model)) == list(range(model.nq))
    assert sorted(one.place for one in v_columns(model)) == list(range(model.nv))
    flat = cases["planar"][0]
    assert [one.unit for one in v_columns(flat)] == [0, 0]


def test_torques_are_those_of_controls_and_actuators(cases):
    model, path = cases["mixed"]
    figure = rbd.plot.torques(model, path, joints="hinged")
    values, edges, _ = figure.axes[0].patches[0].get_data()
    assert_close(values, np.asarray(path.tau)[:, 6] + 1.5, 1e-12)
    assert_close(edges, path.t, 1e-12)
    assert figure.axes[0].get_title(loc="left") == "torque [N m]"


def test_energies_are_those_of_the_model(cases):
    model, path = cases["a loop"]
    lines = curves_of(rbd.plot.energies(model, path))["energy [J]"]
    energies = lambda q, v: (rbd.kinetic_energy(model, q, v), rbd.potential_energy(model, q))
    kinetic, potential = jax.jit(jax.vmap(energies))(path.q, path.v)
    assert_close(lines["kinetic"].get_ydata(), kinetic, 1e-12)
    assert_close(lines["total"].get_ydata(), np.add(kinetic, potential), 1e-12)


@pytest.mark.parametrize("case", ["springs", pytest.param("contact", marks=pytest.mark.slow)])
def test_contact_forces_are_those_of_the_law(cases, case):
    model, path = cases[case]
    q, v, tau = np.array(path.q), np.zeros(path.v.shape), np.zeros(path.tau.shape)
    q[:, 2] = 0.095
    low = rbd.Trajectory(path.t, *map(jax.device_put, (q, v, tau)))
    (line,) = curves_of(rbd.plot.contact_forces(model, low))["normal force [N]"].values()
    if case == "springs":
        expected = 1e4 * (0.1 - 0.095)
    else:
        force = rbd.contact_forces(model, rbd.State(q[3], v[3])).force
        assert force is not None
        expected = float(np.asarray(force)[0, 0])
    assert_close(line.get_ydata()[3], expected, 1e-9)
    assert line.get_ydata()[3] > 5 and {"floor", "skin"} == set(line.get_label().split(" – "))


def test_of_reduced_models_the_joints_are_shown(cases):
    model, path = cases["reduced"]
    lines = curves_of(rbd.plot.positions(model, path, sample=1))["position [rad]"]
    assert_close(lines["coupler"].get_ydata(), -np.asarray(path.q)[1, :, 0], 1e-12)
    velocity = curves_of(rbd.plot.velocities(model, path, sample=1))["velocity [rad/s]"]
    assert_close(velocity["coupler"].get_ydata(), -np.asarray(path.v)[1, :, 0], 1e-12)


def test_fans_are_quantiles(cases):
    model, path = cases["planar"]
    axes = rbd.plot.fan(model, path, joints=["shoulder"], of="velocity").axes[0]
    median = next(line for line in axes.lines if line.get_label() == "median")
    v = np.asarray(path.v)
    assert_close(median.get_ydata(), np.median(v[:, :, 0], axis=0), 1e-12)
    half = np.asarray(axes.collections[1].get_paths()[0].vertices)[:, 1]
    low, high = np.percentile(v[:, :, 0], (25, 75), axis=0)
    assert_close(half.max(), high.max(), 1e-9)
    assert_close(half.min(), low.min(), 1e-9)


def test_phase_portraits(cases):
    model, path = cases["mixed"]
    titles = [axes.get_title(loc="left") for axes in rbd.plot.phase(model, path).axes]
    assert titles == ["hinged", "slid"]
    axes = rbd.plot.phase(model, path, joints=["slid"]).axes[0]
    assert axes.get_xlabel() == "[m]" and axes.get_ylabel() == "[m/s]"
    expected = np.stack([np.asarray(path.q)[:, 8], np.asarray(path.v)[:, 7]], axis=1)
    assert_close(axes.lines[0].get_xydata(), expected, 1e-12)


def test_axes_that_are_given_are_drawn_into(cases):
    model, path = cases["a loop"]
    figure = Figure()
    axes = figure.add_subplot()
    assert rbd.plot.positions(model, path, axes=axes) is axes and len(axes.lines) == 3
    model, path = cases["mixed"]
    with pytest.raises(ValueError, match="axes is 1 Axes; there are 3 panels"):
        rbd.plot.positions(model, path, axes=figure.add_subplot())


def test_what_failed_is_shown_up_to_there():
    model = rbd.load("double_pendulum")
    path = path_of(model, (2, 3))
    broken, codes = np.array(path.q), np.array(path.code)
    broken[1, 2, 7:] = np.nan
    codes[1, 2] = 1
    changed = lambda q, codes: rbd.Trajectory(
        path.t, jax.device_put(q), path.v, path.tau, jax.device_put(codes), path.failed_step, u=path.u
    )
    failed = changed(broken, codes)
    for name in PLOTS:
        figure = getattr(rbd.plot, name)(model, failed, sample=5)
        if name != "phase":
            assert any(
                "failed at t = 0.545 s" in text.get_text() for axes in figure.axes for text in axes.texts
            ), name
            assert figure.axes[0].get_xlim() == (0.0, 1.0)
    page = rbd.plot(model, failed, sample=5)
    labels = [axes.get_xlabel() for axes in page.findobj(Axes)]
    assert "failed at t = 0.545 s" in labels and "t = 0 s" in labels
    nothing = changed(np.full(broken.shape, np.nan), path.code)
    for name in PLOTS:
        assert getattr(rbd.plot, name)(model, nothing).axes
    assert rbd.plot(model, nothing).findobj(Axes)


BAD = {
    "joint": ({"joints": ["hingd"]}, rbd.UnknownNameError, "did you mean 'hinged'"),
    "number": ({"joints": [99]}, IndexError, "joint 99"),
    "mimic": ({"joints": ["following"]}, ValueError, "it mimics 'hinged'"),
    "sample": ({"sample": 1}, IndexError, "there is one, 0"),
}


@pytest.mark.parametrize("given, error, message", BAD.values(), ids=BAD)
def test_bad_input(cases, unchecked, given, error, message):
    model, path = cases["mixed"]
    with pytest.raises(error, match=message):
        rbd.plot.positions(model, path, **given)


def test_of_another_model(cases, unchecked):
    model, path = cases["mixed"]
    with pytest.raises(ValueError, match="it is of another model"):
        rbd.plot.energies(rbd.load("pendulum"), path)
    with pytest.raises(TypeError, match="what rollout or simulate_batch returns"):
        rbd.plot(model, path.q)
