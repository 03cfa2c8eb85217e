"""The MJCF models of gymnasium with their contact models: accelerations equal MuJoCo's, alone and in a batch."""

import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from numpy.testing import assert_allclose

import rbd_jax as rbd


FOLDER = Path(pytest.importorskip("gymnasium").__file__).parent / "envs" / "mujoco" / "assets"


def read(name):
    """Returns MuJoCo's model with an exact solver, and the same model in this library."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled, model = mujoco.MjModel.from_xml_path(str(FOLDER / name)), rbd.load(FOLDER / name)
    compiled.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON
    compiled.opt.tolerance, compiled.opt.iterations, compiled.opt.ls_iterations = 1e-14, 200, 100
    return compiled, model


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["ant.xml", "humanoid.xml", "walker2d.xml", "hopper.xml", "half_cheetah.xml"]
)
def test_accelerations_are_mujocos(name):
    compiled, model = read(name)
    there, data, rng = (
        rbd.interop.MujocoMap(model, compiled),
        mujoco.MjData(compiled),
        np.random.default_rng(0),
    )
    states, wanted, touching = [], [], 0
    for step in range(16):
        if step % 8 == 0:
            mujoco.mj_resetData(compiled, data)
            data.qvel[:] = rng.normal(size=compiled.nv)
        mujoco.mj_step(compiled, data, 60)
        data.qacc_warmstart[:] = 0
        mujoco.mj_forward(compiled, data)
        states.append(there.state(data))
        wanted.append(data.qacc.copy())
        touching = max(touching, data.ncon)
    assert touching > 1

    def acceleration(state):
        """Returns the acceleration in MuJoCo's velocity coordinates."""
        rates = jax.jvp(lambda t: rbd.integrate(model, state.q, t * state.v), (0.0,), (1.0,))[1]
        return jax.jvp(there.velocity, (state.q, state.v), (rates, rbd.acceleration(model, state)))[1]

    batch = jax.tree.map(lambda *x: jnp.stack(x), *states)
    scale = 1 + np.abs(wanted).max()
    for form in (jax.vmap, rbd.batch_map):
        assert_allclose(jax.jit(form(acceleration))(batch), wanted, atol=1e-10 * scale)
