"""Robots on the floor with MuJoCo's contact model, compared with `mj_forward` and `mj_step`."""

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracle_robots import mjcf_files

import rbd_jax as rbd
from rbd_jax.interop import MujocoMap


FILES = mjcf_files()

ROBOTS = (
    "quadruped",
    "humanoid",
    "brax/ant.xml",
    "mjx/barkour_v0/assets/barkour_v0_mjx.xml",
    "mjx/humanoid/humanoid.xml",
)


def both(name):
    """Returns a robot in both libraries."""
    if name in ("quadruped", "humanoid"):
        robot = rbd.attach(rbd.load(name), rbd.contact.Soft())
        text = rbd.to_mjcf(robot)
        return robot, mujoco.MjModel.from_xml_string(text)
    path = str(FILES[name])
    return rbd.load_mjcf(path), mujoco.MjModel.from_xml_path(path)


def touching(theirs, rng, count):
    """Returns a random state with at least `count` contacts: the free body is lowered until they are active."""
    data = mujoco.MjData(theirs)
    mujoco.mj_resetData(theirs, data)
    data.qvel[:] = 0.5 * rng.normal(size=theirs.nv)
    away = 0.1 * rng.normal(size=theirs.nv)
    away[:6] *= 0.3
    mujoco.mj_integratePos(theirs, data.qpos, away, 1.0)
    for _ in range(2000):
        mujoco.mj_forward(theirs, data)
        if data.ncon >= count:
            return data
        data.qpos[2] -= 0.001
    raise AssertionError("nothing touches")


@pytest.mark.slow
@pytest.mark.parametrize("name", ROBOTS)
def test_accelerations_are_those_of_mujoco(name):
    model, theirs = both(name)
    theirs.opt.tolerance, theirs.opt.iterations, theirs.opt.ls_tolerance = 1e-14, 200, 1e-10
    theirs.opt.ls_iterations = 100
    # Iterative contact points are accurate to rounding.
    theirs.opt.ccd_tolerance, theirs.opt.ccd_iterations = 1e-12, 200
    to = MujocoMap(model, theirs)
    run = jax.jit(lambda state, u: (rbd.acceleration(model, state, u), rbd.contact_forces(model, state)))
    rng = np.random.default_rng(0)
    compared = 0
    for count in (1, 2, 3, 4) * 3:
        data = touching(theirs, rng, count)
        data.ctrl[:] = 0.1 * rng.normal(size=theirs.nu)
        mujoco.mj_forward(theirs, data)
        state = to.state(data)
        own, found = run(state, to.controls(jnp.asarray(data.ctrl)))
        ours = np.sort(found.distance[found.active])
        if ours.size != data.ncon or np.abs(ours - np.sort(data.contact.dist)).max() > 1e-9:
            continue  # on terrain, deep overlaps have several nearest exits
        compared += 1
        expected = to.acceleration_from(state.q, state.v, jnp.asarray(data.qacc))
        assert_allclose(own, expected, atol=1e-6 * np.abs(data.qacc).max())
    assert compared >= 4


@pytest.mark.slow
def test_a_dropped_quadruped_moves_as_there():
    """It falls for half a second with active servos: positions agree to 1e-4 m."""
    model, theirs = both("quadruped")
    theirs.opt.tolerance, theirs.opt.iterations = 1e-14, 200
    theirs.opt.timestep, theirs.opt.integrator = 0.002, mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    data, to = mujoco.MjData(theirs), MujocoMap(model, theirs)
    data.qpos[2] += 0.1
    mujoco.mj_forward(theirs, data)
    path = rbd.rollout(model, to.state(data), dt=0.002, steps=250)
    assert path.code == 0
    touched = 0
    for row in range(250):
        mujoco.mj_step(theirs, data)
        touched += data.ncon > 0
        assert_allclose(to.configuration(path.q[row + 1]), data.qpos, atol=1e-6)
    assert touched > 50
