"""Several processes on this machine: joint computations, and errors if they cannot connect."""

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import over_processes
import pytest

import rbd_jax as rbd


ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).parent / "over_processes.py"


def environment(devices=1):
    """Returns the environment of a process with this number of CPU devices, and no launcher."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "OMPI"))}
    return kept | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags.strip()}


def free_port():
    with socket.socket() as one:
        one.bind(("", 0))
        return one.getsockname()[1]


def together(commands, environments, seconds=570):
    """Runs processes simultaneously and returns the last line that each prints."""
    running = [
        subprocess.Popen(command, env=around, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for command, around in zip(commands, environments)
    ]
    try:
        done = [one.communicate(timeout=seconds) for one in running]
    finally:
        for one in running:
            one.kill()
    for one, (_, said) in zip(running, done):
        assert one.returncode == 0, said
    return [out.splitlines()[-1] for out, _ in done]


def connected(count, devices, *options):
    port = free_port()
    commands = [[sys.executable, PROGRAM, str(i), str(count), str(port), *options] for i in range(count)]
    return [json.loads(line) for line in together(commands, count * [environment(devices)])]


@pytest.fixture(scope="module")
def two():
    return connected(2, 1)


def test_processes_see_each_other(two):
    assert [(one["process"], one["devices"]) for one in two] == [(0, 2), (1, 2)]


@pytest.mark.slow
def test_two_processes_find_what_one_does():
    """Rollouts and random numbers are identical to the last bit; gradients are sums in another order."""
    alone, two = over_processes.results(), connected(2, 1, "results")
    for one in two:
        assert one["results"].keys() == alone.keys()
        for name, expected in alone.items():
            found = one["results"][name]
            if name == "gradient":
                np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
            else:
                np.testing.assert_array_equal(found, expected, err_msg=name)
    assert two[0]["results"] == two[1]["results"]


def test_what_differs_among_processes_is_refused(two):
    assert two[0]["refused"] == two[1]["refused"]
    expected = {
        "sizes": r"shard: the batch has \[4, 5\] samples in processes 0 to 1; .*global_batch",
        "shapes": "shard: arguments have other shapes or dtypes in process 1 than in process 0; ",
        "numbers": "shard: arguments have other numbers in process 1 than in process 0; ",
        "shared": "shard: arguments have other numbers in process 1 than in process 0; ",
        "rows": "parallel.global_batch: processes 0 to 1 have 4, 5 rows, for 2 devices; ",
        "kinds": "parallel.gather: the rows are of other shapes or dtypes in some processes",
        "states": r"simulate_batch: states are global arrays; .*rbd.parallel.share\(states\)",
        "again": "parallel.start: num_processes is 5, and processes are connected already, with num_processes 2; ",
    }
    found = two[0]["refused"]
    assert found.keys() == expected.keys()
    for name, pattern in expected.items():
        assert re.match(pattern, found[name]), (name, found[name])


@pytest.mark.slow
def test_identification_by_two_processes():
    """Each has two devices and the same logs."""
    alone = over_processes.identified()
    for one in connected(2, 2, "identify"):
        assert one["devices"] == 4
        np.testing.assert_array_equal(one["simulated"], alone["simulated"])
        np.testing.assert_allclose(one["solved"], alone["solved"], rtol=1e-9)
        np.testing.assert_allclose(one["linear"], alone["linear"], rtol=1e-12)


# Startup of processes.

STARTING = """
import json, os, socket, sys, warnings
import jax, numpy as np
import rbd_jax as rbd

taken = socket.socket()
taken.bind(("", 0))
taken.listen()
port, said = taken.getsockname()[1], {}
slurm = {"SLURM_JOB_ID": "7", "SLURM_STEP_NODELIST": "localhost", "SLURM_NTASKS": "2", "SLURM_PROCID": "1", "SLURM_LOCALID": "0"}
calls = {
    "nothing": dict(),
    "some": dict(coordinator_address="localhost:1234", process_id=0),
    "place": dict(coordinator_address="localhost:1234", num_processes=2, process_id=2),
    "address": dict(coordinator_address="localhost", num_processes=2, process_id=0),
    "taken": dict(coordinator_address=f"localhost:{port}", num_processes=2, process_id=0),
    "unreachable": dict(coordinator_address=sys.argv[1], num_processes=2, process_id=1, initialization_timeout=1),
    "unknown": dict(coordinator_address="no-such-host.invalid:1234", num_processes=2, process_id=1, initialization_timeout=1),
    "slurm": dict(initialization_timeout=1),
}
for name, options in calls.items():
    if name == "slurm":
        os.environ |= slurm
    try:
        rbd.parallel.start(**options)
    except Exception as error:
        said[name] = [type(error).__name__, str(error)]
rbd.parallel.start(num_processes=1)
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    rbd.shard(lambda x: 2 * x)(np.arange(4.0))
    rbd.parallel.share(np.arange(4.0))
said["alone"] = [str(one.message) for one in found if issubclass(one.category, RuntimeWarning)]
print(json.dumps(said))
"""


@pytest.mark.slow
def test_what_is_said_at_the_start():
    """The message comes before JAX ends a process that cannot connect."""
    nowhere = f"localhost:{free_port()}"
    (line,) = together([[sys.executable, "-c", STARTING, nowhere]], [environment()])
    said = json.loads(line)
    alone = said.pop("alone")
    expected = {
        "nothing": (
            "ValueError",
            "coordinator_address and num_processes and process_id, and no cluster was found",
        ),
        "some": ("ValueError", "nothing says num_processes, and no cluster"),
        "place": ("ValueError", "process_id is 2, and num_processes 2; processes count from 0"),
        "address": (
            "ValueError",
            "coordinator_address is 'localhost'; it is the host of process 0 and a free port",
        ),
        "taken": ("ConnectionError", "process 0 cannot listen on port"),
        "unreachable": (
            "ConnectionError",
            f"process 1 of 2 does not reach process 0 at {nowhere} within 1 s",
        ),
        "unknown": ("ConnectionError", "does not reach process 0 at no-such-host.invalid:1234"),
        "slurm": ("ConnectionError", "process 1 of 2 does not reach process 0 at localhost:61447"),
    }
    assert said.keys() == expected.keys()
    for name, (kind, words) in expected.items():
        assert said[name][0] == kind and said[name][1].startswith("parallel.start: "), said[name]
        assert words in said[name][1], said[name]
    assert [one.split(":")[0] for one in alone] == ["shard", "parallel.share"]
    assert "this is process 1 of the 2 that Slurm has started, and it works alone" in alone[0]


def test_a_start_that_comes_too_late():
    jax.device_put(np.zeros(1))
    with pytest.raises(RuntimeError, match="^parallel.start: JAX is in use already.*right after the imports"):
        rbd.parallel.start("localhost:1234", 2, 0)
