"""Batches over the devices of a process: same numbers, and one sum of gradients as the only communication.

Tests with eight devices run in `over_devices.py`; for several processes see `test_processes.py`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import by_xla

import rbd_jax as rbd


PROGRAM = Path(__file__).parent / "over_devices.py"


def environment(devices):
    """Returns the environment of a process with this number of CPU devices."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    path = os.pathsep.join([str(Path(__file__).parents[2]), str(PROGRAM.parent)])
    return os.environ | {"PYTHONPATH": path, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags.strip()}


def reported(*options):
    done = subprocess.run(
        [sys.executable, PROGRAM, *options], env=environment(8), capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["devices"] == 8
    return found


@pytest.fixture(scope="module")
def report():
    return reported()


def test_the_numbers_are_those_of_one_device(report):
    """Results are identical to the last bit, also if copies pad the batch."""
    assert report["sizes"] == {"1": 0, "3": 0, "16": 0, "300": 0}
    assert report["rollout"] == 0
    assert report["keys"] < 1e-15
    assert report["gradient"] < 1e-12


def test_results_stay_on_their_devices(report):
    """Results are replicated if the devices do not divide the batch evenly. One sample uses one device."""
    assert report["spread"] == {"1": [1, True], "3": [8, True], "16": [8, False], "300": [8, True]}
    assert report["global"] == [[8, False], 0]


def test_a_rollout_does_not_communicate(report):
    assert report["rollout talks"] == [[], []]
    within, after = report["uneven talks"]  # the result is replicated
    assert within == [] and after


def test_gradients_are_summed_once(report):
    """The gradient with respect to all model parameters is summed after the steps."""
    assert report["gradient talks"] == [[], ["all-reduce"]]


def test_what_communicates_is_found(report):
    """This shows that the two tests above can fail."""
    assert report["planted"] == [["all-reduce"], []]


@pytest.mark.parametrize("name", ["batch_map", "shard"])
def test_within_other_programs(report, name):
    assert report[name] and max(report[name].values()) < 1e-14, report[name]


def test_on_the_devices_of_a_mesh(report):
    """The mesh is passed or set, with axes of both types, and sizes that do and do not divide evenly."""
    assert len(report["meshes"]) == 4 and max(report["meshes"].values()) == 0


def test_rows_that_do_not_go_evenly_are_refused(report):
    assert report["uneven rows"].startswith("parallel.global_batch: there are 5 rows, for 8 devices")


def test_simulations_use_all_devices(report):
    assert report["simulate_batch"] == report["told"] == 0


def test_arrays_from_around_that_are_on_all_devices(report):
    """Inside `jax.set_mesh` JAX cannot copy such arrays to one device; the error has a remedy."""
    assert report["from around"] == [0, 0, 0, 0]
    assert report["refused"].startswith("shard: function uses arrays from its closure that are laid out")


@pytest.fixture(scope="module")
def slow_report():
    return reported("slow")


@pytest.mark.slow
def test_identification_goes_on_from_all_devices(slow_report):
    assert slow_report["identified"] == 0


@pytest.mark.slow
def test_gradients_of_rollouts_are_summed_once(slow_report):
    off, talks = slow_report["rollout gradient"]
    assert off < 1e-12 and talks == [[], ["all-reduce"]]


# On a single device.


def test_shard_is_vmap():
    function = lambda model, q, shift: rbd.gravity_force(model, q + shift["a"])
    model, q = rbd.load("double_pendulum"), np.arange(6.0).reshape(3, 2)
    shift = {"a": np.array(0.5)}
    expected = by_xla(function, (None, 0, None))(model, q, shift)
    np.testing.assert_allclose(rbd.shard(function, (None, 0, None))(model, q, shift), expected, rtol=1e-14)
    named = lambda q, *, by: q * by
    np.testing.assert_array_equal(rbd.shard(named)(q, by=np.arange(3.0)), q * np.arange(3.0)[:, None])


@pytest.mark.parametrize("mapped, owner", [(rbd.batch_map, "batch_map"), (rbd.shard, "shard")])
def test_refused(unchecked, mapped, owner):
    x = np.arange(3.0)
    for call, kind, said in (
        (lambda: mapped("x"), TypeError, "function is a str"),
        (lambda: mapped(lambda x: "text")(x), TypeError, "function returns a str; it returns arrays"),
        (lambda: mapped(lambda x: {"a": (x, object())})(x), TypeError, r"a object at \['a'\]\[1\]"),
        (lambda: mapped(lambda x: x, None)(x), ValueError, "no argument has a batch axis"),
        (lambda: mapped(lambda x: x)(), ValueError, "no argument has a batch axis"),
        (lambda: mapped(lambda x: x, (0, 1))(x, x), ValueError, "0 or None"),
        (lambda: mapped(lambda x, y: x)(x, x[:2]), ValueError, r"their shapes are \[\(3,\), \(2,\)\]"),
    ):
        with pytest.raises(kind, match=f"^{owner}: .*{said}"):
            call()


def test_a_mesh_is_a_mesh(unchecked):
    with pytest.raises(ValueError, match="^shard: mesh is .*jax.sharding.Mesh"):
        rbd.shard(lambda x: x, mesh=jax.devices())
    with pytest.raises(ValueError, match="^parallel.use_devices: mesh is .*jax.sharding.Mesh"):
        with rbd.parallel.use_devices(jax.devices()):
            pass


class Gain(eqx.Module):
    """A callable module with an array."""

    gain: jax.Array

    def __call__(self, x):
        return self.gain * x


def test_it_compiles_once():
    """Calls with other arrays do not retrace; other arguments are part of the program."""
    traced = []

    def function(times, x, y):
        traced.append(times)
        return sum([x + y] * times)

    mapped = rbd.shard(function, (None, 0, None))
    for start in (0.0, 1.0, 2.0):
        found = mapped(2, np.arange(4.0) + start, np.array(start))
        np.testing.assert_array_equal(found, 2 * (np.arange(4.0) + 2 * start))
    assert traced == [2]
    np.testing.assert_array_equal(mapped(3, np.arange(4.0), np.array(0.0)), 3 * np.arange(4.0))
    assert traced == [2, 3]
    total = lambda policy: jnp.sum(rbd.shard(policy)(np.arange(4.0)))
    slope = jax.jit(jax.grad(total))(Gain(jnp.asarray(2.0)))
    assert slope.gain == 6


def test_alone_a_process_has_everything():
    keys = jax.random.split(jax.random.key(0), 3)
    batch = {"q": np.arange(6.0).reshape(3, 2), "keys": keys}
    for one in (rbd.parallel.share(batch), rbd.parallel.global_batch(batch), rbd.parallel.gather(batch)):
        np.testing.assert_array_equal(one["q"], batch["q"])
        np.testing.assert_array_equal(jax.random.key_data(one["keys"]), jax.random.key_data(keys))
    for function in (rbd.parallel.share, rbd.parallel.global_batch, rbd.parallel.gather):
        with pytest.raises(ValueError, match=f"^parallel.{function.__name__}: a number has no rows"):
            function({"q": np.array(1.0)})
