"""The sensors of all MJCF files that the installed packages bring, against MuJoCo's `sensordata`."""

import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle_robots import all_mjcf_files
from support import assert_close

import rbd_jax as rbd


mujoco = pytest.importorskip("mujoco")

#: What acts in MuJoCo, or resists, and is no part of a tree.
OTHERWISE = (
    "body_gravcomp",
    "tendon_stiffness",
    "tendon_damping",
    "tendon_armature",
    "jnt_stiffnesspoly",
    "dof_dampingpoly",
)


#: Those that have sensors which are not those of another file.
FILES = {
    name: path for name, path in all_mjcf_files().items() if "<sensor>" in path.read_text(errors="replace")
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_all_files(name):
    """Without constraints and actuators, in three states, to 1e-9 of the numbers of each sensor."""
    try:
        mj_model = mujoco.MjModel.from_xml_path(str(FILES[name]))
    except ValueError as error:
        pytest.skip(f"MuJoCo does not compile it: {error}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rbd.ModelWarning)
        model = rbd.constraints.without_constraints(rbd.load_mjcf(FILES[name]))
    model = eqx.tree_at(lambda m: m.friction, model, jnp.zeros_like(model.friction))
    off, on = mujoco.mjtDisableBit, mujoco.mjtEnableBit
    mj_model.opt.disableflags |= int(off.mjDSBL_CONSTRAINT) | int(off.mjDSBL_ACTUATION)
    mj_model.opt.enableflags |= int(on.mjENBL_ENERGY)
    for field in OTHERWISE:
        if hasattr(mj_model, field):
            getattr(mj_model, field)[:] = 0
    mj_model.jnt_stiffness[mj_model.jnt_type == 0] = 0
    to, data = rbd.interop.MujocoMap(model, mj_model), mujoco.MjData(mj_model)
    sense = jax.jit(lambda q, v: rbd.sense(model, rbd.State(q, v), time=1.0))
    for seed in range(3):
        q = rbd.random_configuration(model, jax.random.key(seed))
        v = jax.random.normal(jax.random.key(seed + 10), (model.nv,))
        to.to_data(rbd.State(q, v), data, jnp.zeros(model.nv), time=1.0)
        mujoco.mj_forward(mj_model, data)
        mujoco.mj_forward(mj_model, data)  # its kinetic energy is that of the call before
        found, expected = sense(q, v), to.readings(np.array(data.sensordata))
        for sensor in model.sensors:
            ours, theirs = np.ravel(found[sensor.name]), np.ravel(expected[sensor.name])
            turned = -1 if sensor.unit and sensor.size == 4 and ours @ theirs < 0 else 1
            assert_close(ours, turned * theirs, 1e-9, sensor.label)
