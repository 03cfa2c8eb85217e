"""Massless bodies under `Soft`, such as the feet of many robots, have MuJoCo's contact stiffness."""

import jax
import mujoco
import numpy as np
import pytest

import rbd_jax as rbd
from rbd_jax.contact.soft_rows import mobilities


mobility = jax.jit(lambda model: mobilities(model).bodies)

FOOT = '<geom type="sphere" size="0.02" pos="0.05 0 0.03" mass="0"/>'

#: Possible contents of a free body's massless foot.
FEET = {
    "a shape": FOOT,
    "an inertial frame": f'<inertial mass="0" pos="0.02 0.01 0.3" diaginertia="0 0 0"/>{FOOT}',
    "an inertial frame and moments": f'<inertial mass="0" pos="0.02 0.01 0.3" diaginertia="1 1 1"/>{FOOT}',
    "another body": f'{FOOT}<body name="toe" pos="0.1 0.02 0">{FOOT.replace("0.05", "0.01")}</body>',
}


def standing(foot):
    """Returns a block on a welded foot 0.4 m below it, above a floor."""
    return f"""
      <mujoco>
        <worldbody>
          <geom type="plane" size="5 5 0.1"/>
          <body name="block" pos="0 0 0.5">
            <freejoint/>
            <geom type="box" size="0.1 0.1 0.1" mass="3" contype="0" conaffinity="0"/>
            <body name="foot" pos="0.01 0 -0.4">{foot}</body>
          </body>
        </worldbody>
      </mujoco>"""


@pytest.mark.parametrize("foot", FEET.values(), ids=FEET)
def test_mobilities_are_mujocos(foot):
    compiled = mujoco.MjModel.from_xml_string(standing(foot))
    read = rbd.load_mjcf(standing(foot))
    for model in (read, rbd.load_mjcf(rbd.to_mjcf(read))):
        np.testing.assert_allclose(mobility(model), compiled.body_invweight0[1:], rtol=1e-12)


def test_forces_are_mujocos():
    """The body is tilted by 0.6 rad and penetrates the floor by 3 mm."""
    xml = standing(FEET["an inertial frame"])
    compiled, model = mujoco.MjModel.from_xml_string(xml), rbd.load_mjcf(xml)
    data = mujoco.MjData(compiled)
    data.qpos[:] = [0, 0, 0, np.cos(0.3), np.sin(0.3), 0, 0]
    mujoco.mj_forward(compiled, data)
    data.qpos[2], data.qvel[:] = 0.017 - data.geom_xpos[2][2], 0.1
    mujoco.mj_forward(compiled, data)
    between = rbd.interop.MujocoMap(model, compiled)
    state = between.state(data)
    force = np.asarray(rbd.contact_forces(model, state).force)
    np.testing.assert_allclose(force[..., 0].sum(), data.efc_force.sum(), rtol=1e-9)


def test_frames_of_massless_links_of_urdf():
    urdf = """
      <robot name="leg">
        <link name="shank">
          <inertial><mass value="2"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
        </link>
        <link name="foot">
          <inertial>
            <origin xyz="0.1 0 0.2"/><mass value="0"/>
            <inertia ixx="0" iyy="0" izz="0" ixy="0" ixz="0" iyz="0"/>
          </inertial>
        </link>
        <joint name="ankle" type="fixed"><parent link="shank"/><child link="foot"/><origin xyz="0 0 -0.4"/></joint>
      </robot>"""
    model = rbd.load_urdf(urdf, floating_base=True)
    assert [thing.bodies for thing in model.attached_as("massless centers")] == [("foot",)]
    heavy = rbd.load_urdf(urdf.replace('value="0"', 'value="1e-12"'), floating_base=True)
    np.testing.assert_allclose(mobility(model), mobility(heavy), rtol=1e-9)
