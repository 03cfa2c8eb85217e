"""Identification of an arm from a million samples: time and memory fit a laptop, and memory does not grow with the log."""

import json
import os
import subprocess
import sys

import pytest


#: Prints the peak memory, the processor seconds of the process, and the quality of the estimate. Samples come as a single
#: log, or as a sequence of logs of 20,000.
SCRIPT = """
import json, resource, sys, time
from dataclasses import replace
import rbd_jax as rbd
import jax, jax.numpy as jnp, numpy as np
from rbd_jax import identify

count, pieces = int(sys.argv[1]), sys.argv[2] == "pieces"
arm = rbd.fuse_fixed(rbd.detach(rbd.load("arm7"), "shape", "actuator", "sensor", "keyframe"))
held = rbd.Inertia.sphere(2.0, 0.08, (0.02, 0.01, 0.16)).parameters
true = replace(
    arm,
    inertias=rbd.Inertia.from_parameters(arm.inertias.parameters.at[6].add(held)),
    friction=jnp.array([0.8, 1.0, 0.6, 0.7, 0.3, 0.25, 0.2]),
)
torque = jax.jit(jax.vmap(lambda q, v, a: rbd.inverse_dynamics(true, q, v, a) - rbd.passive_force(true, q, v)))
random = np.random.default_rng(0)
speed = 0.4 * np.pi * np.arange(1, 6)[:, None]
size, phase = 0.4 * random.normal(size=(5, 7)) / np.arange(1, 6)[:, None], random.uniform(0, 6.28, (5, 7))


def log(start, count):
    t = (start + np.arange(count)) / 1000
    q, v, a, tau = (np.zeros((count, 7)) for _ in range(4))
    for i in range(0, count, 5000):
        angle = speed * t[i : i + 5000, None, None] + phase
        q[i : i + 5000] = np.sum(size * np.sin(angle), axis=1)
        v[i : i + 5000] = np.sum(size * speed * np.cos(angle), axis=1)
        a[i : i + 5000] = -np.sum(size * speed**2 * np.sin(angle), axis=1)
        tau[i : i + 5000] = torque(*(x[i : i + 5000].astype(arm.dtype) for x in (q, v, a)))
    return identify.Log(t, q, v, a, tau + 0.3 * random.normal(size=tau.shape))


given = (log(i, 20_000) for i in range(0, count, 20_000)) if pieces else log(0, count)
start = time.process_time()
equations = identify.Equations.of(arm, given)
found = identify.physical_least_squares(
    arm, equations, [identify.inertias("link7"), identify.damping(), identify.coulomb()]
)
print(json.dumps({
    "seconds": time.process_time() - start,
    "bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    "payload": found.value("link7 mass") - float(arm.inertias.mass[6]),
    "noise": found.noise.tolist(),
    "counts": equations.counts.tolist(),
}))
"""


def identified(count: int, way: str) -> dict:
    """Returns the output of the script, run as by users: with full optimization and in single precision."""
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(count), way],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["counts"] == [count] * 7
    assert abs(found["payload"] - 2.0) < 0.02
    assert all(abs(noise / 0.3 - 1) < 0.01 for noise in found["noise"])
    return found


@pytest.mark.slow
def test_a_million_samples():
    """It takes less than three minutes of one core and 4 GB, including the log and its data."""
    found = identified(1_000_000, "whole")
    assert found["seconds"] < 180 and found["bytes"] < 4e9, found


@pytest.mark.slow
def test_memory_does_not_grow_with_the_log():
    """Four times as many samples, as a sequence of logs, use at most a tenth more memory."""
    short, long = (identified(count, "pieces") for count in (200_000, 800_000))
    assert long["bytes"] < 1.1 * short["bytes"], (short, long)
