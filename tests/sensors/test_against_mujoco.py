"""Sensors of every type, compared with MuJoCo's `sensordata`."""

import warnings
from dataclasses import replace

import jax
import numpy as np
import pytest
from support import assert_close

import rbd_jax as rbd
from rbd_jax.sensors.joint import LimitSensor


mujoco = pytest.importorskip("mujoco")

from sensed import XML, theirs, upright  # noqa: E402


@pytest.fixture(scope="module")
def both():
    """Our model, loaded without a warning, MuJoCo's, and the map between them."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = rbd.detach(rbd.load_mjcf(XML), "contact law")  # compared without limit forces
    mj_model = mujoco.MjModel.from_xml_string(XML)
    return model, mj_model, rbd.interop.MujocoMap(model, mj_model)


@pytest.fixture(scope="module")
def states(both):
    model = both[0]
    keys = jax.random.split(jax.random.key(3), 4)
    q = np.array(jax.jit(jax.vmap(lambda key: rbd.random_configuration(model, key)))(keys))
    # Within the limits, beyond each of them, and within the margin.
    q[:, model.q_slice("slide")] = np.array([[0.1], [-0.3], [0.25], [0.4]])
    q[:, model.q_slice("bend")] = np.array([[-1.2], [0.3], [0.6], [-0.9]])
    v, tau = np.random.default_rng(4).normal(size=(2, 4, model.nv))
    return q, v, tau


@pytest.fixture(scope="module")
def ours(both, states):
    """The readings in all states, batched."""
    model = both[0]
    sense = jax.jit(jax.vmap(lambda q, v, tau: rbd.sense(model, rbd.State(q, v), tau, time=1.5)))
    return sense(*states)


def test_names_and_order(both):
    model, mj_model, _ = both
    assert len(model.sensors) == mj_model.nsensor > 140
    assert model.sensors[-1].name == "named" and model.sensors[3].name == "sensor_3"
    assert [one.size for one in model.sensors] == mj_model.sensor_dim.tolist()
    assert float(model.named("sensor", "named").noise.deviation) == 0.2
    assert set(model.unsupported) <= {"limits of joints", "contacts between shapes"}


def test_all_kinds(both, states, ours):
    """Readings agree to 1e-9 relative to their size, without contacts and constraints."""
    model, mj_model, to = both
    expected = theirs(mj_model, to, states, constrained=False)
    vector = np.asarray(ours.vector)
    found = np.stack([upright(mj_model, row.copy()) for row in vector])
    assert found.shape == expected.shape
    by_name = jax.jit(dict)(ours)
    # Without constraints, MuJoCo does not report limits.
    without = [isinstance(sensor, LimitSensor) for sensor in model.sensors]
    assert sum(without) == 4 and (np.abs(expected).max(axis=0) > 0).sum() > 380
    for index, sensor in enumerate(model.sensors):
        if without[index]:
            continue
        own = mj_model.sensor_adr[index] + np.arange(sensor.size)
        what = f"{sensor.name}, a {mujoco.mjtSensor(int(mj_model.sensor_type[index])).name}"
        assert_close(found[:, own], expected[:, own], 1e-9, what)
        np.testing.assert_array_equal(by_name[sensor.name], vector[:, own[0] if sensor.size == 1 else own])


def test_under_constraints(both, states, ours):
    """With active limits in MuJoCo, readings that do not depend on forces agree, and so do limit sensors."""
    model, mj_model, to = both
    expected = theirs(mj_model, to, states, constrained=True)
    found = np.stack([upright(mj_model, row.copy()) for row in np.asarray(ours.vector)])
    early = np.repeat(mj_model.sensor_needstage < int(mujoco.mjtStage.mjSTAGE_ACC), mj_model.sensor_dim)
    assert early.sum() > 200 and np.abs(expected - found)[:, ~early].max() > 1e-3
    assert_close(found[:, early], expected[:, early], 1e-9)


def test_sensordata_both_ways(both, ours):
    model, mj_model, to = both
    one, named = jax.jit(lambda ours: (first := jax.tree.map(lambda x: x[0], ours), first["named"]))(ours)
    vector = np.asarray(one.vector)
    np.testing.assert_array_equal(jax.jit(to.sensordata)(one), vector)
    np.testing.assert_array_equal(jax.jit(lambda x: to.readings(x)["named"])(vector), named)
    # With one sensor fewer than MuJoCo.
    kept = tuple(thing for thing in model.attached if thing.name != "sensor_0")
    other = rbd.interop.MujocoMap(replace(model, attached=kept), mj_model)
    back = jax.jit(other.readings)(vector)
    assert "sensor_0" not in back and len(back) == len(model.sensors) - 1
    there = np.asarray(jax.jit(other.sensordata)(back))
    assert np.isnan(there[:3]).all()
    np.testing.assert_array_equal(there[3:], vector[3:])


KINDS = {
    "camera": ('<camprojection name="x" site="tip" camera="eye"/>', "sensors (camprojection) 'x'"),
    "distance": ('<distance name="x" geom1="post" geom2="tool" cutoff="1"/>', "sensors (geomdist) 'x'"),
    "user": ('<user name="x" dim="2"/>', "sensors (user) 'x'"),
    "limit": ('<jointlimitfrc name="x" joint="bend"/>', "sensors (jointlimitfrc) 'x'"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_measured_is_named(kind):
    element, words = KINDS[kind]
    xml = XML.replace("<sensor>", f"<sensor><clock/>{element}")
    with pytest.warns(rbd.ModelWarning):
        model = rbd.load_mjcf(xml.replace('<camera name="eye" ', '<camera name="eye" resolution="10 10" '))
    assert words in model.unsupported and model.sensors[1].name == "sensor_2"


def test_switched_off():
    assert rbd.load_mjcf(XML.replace('contact="disable"', 'contact="disable" sensor="disable"')).sensors == ()
