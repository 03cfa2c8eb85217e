"""Cores as devices: set once per process, an error if set too late, and ordinary results."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import rbd_jax as rbd


ON_TWO = """
import rbd_jax as rbd
assert rbd.parallel.use_cores(2) == 2
import jax
import jax.numpy as jnp
import numpy as np
assert jax.device_count() == 2 and rbd.parallel.use_cores(2) == rbd.parallel.use_cores() == 2

model = rbd.load("double_pendulum")
for size in (4, 5):
    q = jnp.linspace(-1, 1, 2 * size).reshape(size, 2)
    force = rbd.batch_map(lambda q: rbd.gravity_force(model, q))(q)
    assert len(force.sharding.device_set) == 2
    expected = jax.vmap(lambda q: rbd.gravity_force(model, q))(q)
    np.testing.assert_allclose(force, expected, rtol=1e-6)
    np.testing.assert_allclose(force * q + jnp.ones(2), expected * q + 1, rtol=1e-6)  # with what lies on one of them
    state = rbd.State(q[0], force[0])
    assert bool(jnp.all(jnp.isfinite(rbd.rollout(model, state, dt=0.01, steps=3).q)))
try:
    rbd.parallel.use_cores(3)
except RuntimeError as error:
    print(error)
"""


def run(program, **environment):
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])} | environment
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_batches_run_on_them():
    assert "JAX is in use already, with 2 of 3 cores" in run(ON_TWO)


def test_what_has_been_set_stays():
    program = "import rbd_jax as rbd, jax; rbd.parallel.use_cores(); print(jax.device_count())"
    assert int(run(program, JAX_NUM_CPU_DEVICES="3")) == 3


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "all"])
def test_a_number_is_a_number(count, unchecked):
    with pytest.raises(ValueError, match="use_cores: count is"):
        rbd.parallel.use_cores(count)
