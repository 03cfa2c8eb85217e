"""States between our conventions and MuJoCo's: round trips, meaning, duality, and errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import rbd_jax as rbd
from rbd_jax.files.mjcf import load_mjcf
from rbd_jax.interop import MujocoMap


mujoco = pytest.importorskip("mujoco")

XML = """
<mujoco><option gravity="1 2 -9"><flag contact="disable"/></option><worldbody>
  <body name="trunk" pos="1 2 3"><freejoint name="root"/><geom type="box" size=".1 .2 .3" pos=".1 0 .2"/>
    <body name="head" pos="0 0 .5"><joint name="neck" type="ball"/>
      <geom type="capsule" size=".05 .1" pos="0 .1 .2"/></body>
    <body name="arm" pos=".3 0 0"><joint name="elbow" axis="0 1 1"/>
      <geom type="capsule" size=".05 .2" pos=".1 0 0"/>
      <body name="rod" pos=".3 0 0"><joint name="reach" type="slide" axis="1 0 1"/>
        <geom size=".1"/></body></body>
  </body>
  <body name="other" pos="-1 0 0"><joint name="float" type="free"/>
    <geom type="ellipsoid" size=".1 .2 .3"/></body>
</worldbody></mujoco>
"""


@pytest.fixture(scope="module")
def both():
    """Our model (with its trees in reverse order), MuJoCo's, and the map."""
    loaded = load_mjcf(XML)
    builder = rbd.ModelBuilder.from_model(loaded)
    builder.bodies = [b for b in builder.bodies if b.name == "other"] + [
        b for b in builder.bodies if b.name != "other"
    ]
    model = builder.build()
    mj_model = mujoco.MjModel.from_xml_string(XML)
    return model, mj_model, MujocoMap(model, mj_model)


@pytest.fixture(scope="module")
def state(both):
    """q, with quaternions of any length, and three vectors over degrees of freedom."""
    random = np.random.default_rng(0)
    return jax.device_put((random.normal(size=both[0].nq), *random.normal(size=(3, both[0].nv))))


def test_round_trips_and_power(both, state):
    there = both[2]
    _, v, _, tau = map(np.asarray, state)

    @jax.jit
    def converted(q, v, a, tau):
        q_mj, v_mj, a_mj = there.configuration(q), there.velocity(q, v), there.acceleration(q, v, a)
        tau_mj, T = there.force(q, tau), there.velocity_matrix(q)
        back = (
            there.configuration_from(q_mj),
            there.velocity_from(q, v_mj),
            there.acceleration_from(q, v, a_mj),
            there.force_from(q, tau_mj),
        )
        return back, v_mj, tau_mj, T

    back, v_mj, tau_mj, T = jax.device_get(converted(*state))
    for one, again in zip(state, back):
        np.testing.assert_allclose(again, one, atol=1e-14)
    np.testing.assert_allclose(tau_mj @ v_mj, tau @ v)
    np.testing.assert_allclose(T @ v, v_mj, atol=1e-14)
    np.testing.assert_allclose(T.T @ tau_mj, tau, atol=1e-14)


@pytest.fixture(scope="module")
def several():
    """A model with universal, Euler, cylindrical and composite joints, and its exported MJCF."""
    rng = np.random.default_rng(5)
    families = (
        rbd.joints.Universal((1, 0, 0), (0, 1, 0)),
        rbd.joints.Free(),
        rbd.joints.Cylindrical((0, 0, 1)),
        rbd.joints.Composite([rbd.joints.Spherical(), rbd.joints.Prismatic((1, 1, 0))]),
        rbd.joints.SphericalEuler("zyx"),
    )
    builder = rbd.ModelBuilder(name="several")
    for k, joint in enumerate(families):
        parent = "world" if isinstance(joint, rbd.joints.Free) else f"b{k - 1}" if k else "world"
        com = 0.1 * rng.normal(size=3)
        inertia = rbd.Inertia.from_mass_com(1.0 + k, com, np.diag([0.3, 0.4, 0.5]))
        builder.add_body(f"b{k}", parent, joint, None, inertia, joint_name=f"j{k}")
    model = builder.build()
    return model, mujoco.MjModel.from_xml_string(rbd.to_mjcf(model))


def test_joints_that_are_several_there(several):
    model, mj_model = several
    rng, there, data = np.random.default_rng(6), MujocoMap(model, mj_model), mujoco.MjData(mj_model)
    assert model.joint_names == tuple(f"j{k}" for k in range(5))
    q = rbd.integrate(model, rbd.neutral(model), rng.normal(size=model.nv))
    v, tau = jax.device_put(tuple(rng.normal(size=(2, model.nv))))
    there.to_data(rbd.State(q, v), data, tau)
    mujoco.mj_forward(mj_model, data)

    @jax.jit
    def acceleration(q, v, tau):
        return there.acceleration(q, v, rbd.forward_dynamics(model, q, v, tau))

    np.testing.assert_allclose(data.qacc, acceleration(q, v, tau), rtol=1e-8, atol=1e-8)
    back = there.state(data)
    np.testing.assert_allclose(back.q, q, atol=1e-14)
    np.testing.assert_allclose(back.v, v, atol=1e-14)


def test_velocities_are_mujocos(both, state):
    """A small step of MuJoCo along `qvel` equals ours along v, to first order."""
    model, mj_model, there = both
    q, v, _, _ = state
    start, velocity = jax.jit(lambda q, v: (there.configuration(q), there.velocity(q, v)))(q, v)
    difference = jax.jit(lambda moved: rbd.difference(model, q, there.configuration_from(moved)))

    def step(h):
        moved = np.array(start)
        mujoco.mj_integratePos(mj_model, moved, np.asarray(velocity), h)
        return np.asarray(difference(moved))

    np.testing.assert_allclose((step(1e-5) - step(-1e-5)) / 2e-5, v, atol=1e-8)


def test_accelerations_are_rates_of_velocities(both, state):
    model, _, there = both
    q, v, a, _ = state

    def velocity(t):
        return there.velocity(rbd.integrate(model, q, t * v), v + t * a)

    rate = jax.jit(lambda: jax.jvp(velocity, (jnp.zeros(()),), (jnp.ones(()),))[1])()
    np.testing.assert_allclose(jax.jit(there.acceleration)(q, v, a), rate, atol=1e-12)


def check_dynamics(model, mj_model, there, q, v, tau):
    """Asserts equal positions and accelerations."""

    @jax.jit
    def ours(q, v, tau):
        a = rbd.forward_dynamics(model, q, v, tau)
        theirs = (
            there.configuration(q),
            there.velocity(q, v),
            there.force(q, tau),
            there.acceleration(q, v, a),
        )
        return rbd.forward_kinematics(model, q).position, theirs

    position, (qpos, qvel, qfrc, qacc) = ours(q, v, tau)
    data = mujoco.MjData(mj_model)
    data.qpos[:], data.qvel[:], data.qfrc_applied[:] = qpos, qvel, qfrc
    mujoco.mj_forward(mj_model, data)
    order = [model.body_index(mj_model.body(i).name) for i in range(1, mj_model.nbody)]
    np.testing.assert_allclose(np.asarray(position)[order], data.xpos[1:], atol=1e-12)
    np.testing.assert_allclose(qacc, data.qacc, rtol=1e-9, atol=1e-9)


def test_dynamics_are_mujocos(both, state):
    q, v, _, tau = state
    check_dynamics(*both, q, v, tau)


def test_jit_vmap_grad(both, state):
    there = both[2]
    q, v, a = map(np.asarray, state[:3])
    batch = np.asarray(jax.jit(jax.vmap(there.velocity))(np.stack([q, q]), np.stack([v, 2 * v])))
    np.testing.assert_allclose(batch[1], 2 * batch[0], atol=1e-14)
    check_grads(jax.jit(there.acceleration), (q, v, a), 1, rtol=1e-6)


def test_a_robot_from_urdf():
    """A floating URDF and the MJCF of the same mechanism, with joints in another order."""
    body = (
        '<inertial><mass value="2"/><inertia ixx="1" iyy="2" izz="2.5" ixy="0" ixz="0" iyz="0"/></inertial>'
    )
    urdf = f"""<robot name="r"><link name="a">{body}</link><link name="b">{body}</link>
      <link name="c">{body}</link>
      <joint name="j" type="continuous"><parent link="a"/><child link="b"/><axis xyz="0 0 1"/></joint>
      <joint name="k" type="continuous"><parent link="a"/><child link="c"/>
        <axis xyz="0 1 0"/></joint></robot>"""
    inertial = '<inertial mass="2" pos="0 0 0" diaginertia="1 2 2.5"/>'
    xml = f"""<mujoco><worldbody><body name="a">{inertial}<freejoint name="base"/>
      <body name="c">{inertial}<joint name="k" axis="0 1 0"/></body>
      <body name="b">{inertial}<joint name="j" axis="0 0 1"/></body></body></worldbody></mujoco>"""
    model, mj_model = rbd.load_urdf(urdf, floating_base=True), mujoco.MjModel.from_xml_string(xml)
    there = MujocoMap(model, mj_model, names={"root_joint": "base"})
    random = np.random.default_rng(0)
    check_dynamics(model, mj_model, there, random.normal(size=model.nq), *random.normal(size=(2, model.nv)))


def test_refusals(both):
    model, mj_model, there = both
    with pytest.raises(rbd.ModelError, match="'neck' is a Spherical here, but in MuJoCo a Revolute"):
        hinge = XML.replace('type="ball"', "").replace(
            '<joint name="elbow" axis="0 1 1"/>', '<joint name="elbow" type="ball"/>'
        )
        MujocoMap(model, mujoco.MjModel.from_xml_string(hinge))
    with pytest.raises(rbd.ModelError, match="nv = 17, the MuJoCo model 14"):
        MujocoMap(model, mujoco.MjModel.from_xml_string(XML.replace('<joint name="neck" type="ball"/>', "")))
    with pytest.raises(
        rbd.ModelError, match="'float' of model .* is not a joint of the MuJoCo model; did you mean 'floater'"
    ):
        MujocoMap(model, mujoco.MjModel.from_xml_string(XML.replace('"float"', '"floater"')))
    builder = rbd.ModelBuilder()
    for name in ("root", "float"):
        placement = rbd.Transform.from_xyz_rpy((1.0, 0.0, 0.0))
        builder.add_body(
            name, joint=rbd.joints.Free(), placement=placement, inertia=rbd.Inertia.sphere(1.0, 1.0)
        )
    only_free = XML.replace('<joint name="neck" type="ball"/>', "").replace(
        '<joint name="elbow" axis="0 1 1"/>', ""
    )
    only_free = only_free.replace('<joint name="reach" type="slide" axis="1 0 1"/>', "")
    with pytest.raises(rbd.ModelError, match="placement"):
        MujocoMap(builder.build(), mujoco.MjModel.from_xml_string(only_free))
    with pytest.raises(ValueError, match="length"):
        there.velocity(np.zeros(3), np.zeros(model.nv))
    with pytest.raises(ValueError, match="length"):
        there.velocity(np.zeros(model.nq), np.zeros(3))
