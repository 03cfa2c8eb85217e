"""Joint reactions agree with Pinocchio, MuJoCo's sensors, the joints' power, and a loop that is cut elsewhere."""

import dataclasses

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pinocchio as pin
import pytest
from support import assert_each_close

import rbd_jax as rbd
from rbd_jax import constraints, forces, joints


at = rbd.Transform.from_xyz_rpy
TIP = at((1.0, 0.0, 0.0))
ROD = rbd.Inertia.box(1.0, (1.0, 0.1, 0.2), (0.5, 0.0, 0.1))

URDF = """<robot name="arm"><link name="base"/>
{links}
<joint name="j1" type="revolute"><parent link="base"/><child link="upper"/><origin xyz="0.1 0 0.3" rpy="0.3 0 0.2"/>
  <axis xyz="0 0.6 0.8"/><limit lower="-9" upper="9" effort="9" velocity="9"/></joint>
<joint name="weld" type="fixed"><parent link="upper"/><child link="flange"/><origin xyz="0.4 0 0.1" rpy="0 0.7 0"/></joint>
<joint name="j2" type="prismatic"><parent link="flange"/><child link="slide"/><origin xyz="0 0.2 0"/>
  <axis xyz="1 0 0"/><limit lower="-9" upper="9" effort="9" velocity="9"/></joint>
<joint name="j3" type="revolute"><parent link="upper"/><child link="side"/><origin xyz="0 0 0.2" rpy="1 0 0"/>
  <axis xyz="0 0 1"/><limit lower="-9" upper="9" effort="9" velocity="9"/></joint></robot>"""
LINK = """<link name="{}"><inertial><mass value="{}"/><origin xyz="0.1 0.05 -0.1"/>
  <inertia ixx="0.04" iyy="0.05" izz="0.03" ixy="0.002" ixz="0" iyz="0.001"/></inertial></link>"""


def motion(model, seed=0):
    rng = np.random.default_rng(seed)
    q = jax.jit(lambda model: rbd.random_configuration(model, jax.random.key(seed)))(model)
    return q, *rng.normal(size=(2, model.nv))


@jax.jit
def bodies_alone(model, q, v, a, wrenches, f_ext):
    """Returns the residual of the Newton-Euler equations for each body, in world axes about the origin."""
    placed = rbd.forward_kinematics(model, q)
    given = placed.force(wrenches)
    for body, parent in enumerate(model.topology.parents):
        if parent >= 0:
            given = given.at[parent].add(-placed[body].force(wrenches[body]))
    for body, wrench in f_ext.items():
        given = given.at[model.body_index(body)].add(wrench)
    accelerations = rbd.body_accelerations(model, q, v, a, frame="world")
    fall = jnp.concatenate([jnp.zeros(3), model.gravity])[None]
    twists, inertias = rbd.body_velocities(model, q, v, frame="world"), model.inertias.placed(placed)
    needed = inertias.momentum(accelerations - fall) + rbd.spatial.cross_force(
        twists, inertias.momentum(twists)
    )
    return given - needed


@pytest.mark.slow
@pytest.mark.parametrize("floating", [False, True])
def test_against_pinocchio(floating):
    """Wrenches agree with Pinocchio's for moving joints, and satisfy the Newton-Euler equations for every body, also
    welded ones.
    """
    links = [("upper", 2), ("flange", 0.5), ("slide", 1), ("side", 0.7)]
    text = URDF.format(links="".join(LINK.format(*link) for link in links))
    model = rbd.load_urdf(text, floating_base=floating)
    q, v, a = motion(model)
    f_ext = {"slide": jnp.arange(1.0, 7.0), "flange": jnp.array([0.3, -1.0, 2.0, 1.0, 0.5, -2.0])}
    found = jax.jit(rbd.joint_wrenches)(model, q, v, a, f_ext)
    assert_each_close(bodies_alone(model, q, v, a, found, f_ext), np.zeros((model.nb, 6)), 1e-11)

    root = (pin.JointModelFreeFlyer(),) if floating else ()
    theirs = pin.buildModelFromXML(text, *root)
    data, to = theirs.createData(), rbd.interop.PinocchioMap(model, theirs)
    state = [np.array(x) for x in (to.configuration(q), to.velocity(v), to.acceleration(a))]
    pin.forwardKinematics(theirs, data, state[0])
    outer = [pin.Force.Zero() for _ in range(theirs.njoints)]
    for body, wrench in f_ext.items():
        place = theirs.frames[theirs.getFrameId(body)].parentJoint
        outer[place] += data.oMi[place].actInv(pin.Force(np.array(wrench[3:]), np.array(wrench[:3])))
    pin.rnea(theirs, data, *state, outer)
    for name in ("j1", "j2", "j3"):
        force = data.f[theirs.getJointId(name)]
        expected = np.concatenate([force.angular, force.linear])
        assert_each_close(found[model.topology.joint_index(name)], expected, 1e-9)


MJCF = """<mujoco><option gravity="1 -2 -9.81"/><compiler angle="radian"/><worldbody>
<body name="a" pos="0.1 0 0.3" euler="0.3 0 0.2"><joint name="a" axis="0 0.6 0.8" armature="0.02"/>
<geom type="box" size=".1 .2 .3" pos=".1 0 .1" mass="2"/><site name="a"/>
<body name="b" pos="0.4 0.2 0"><joint name="b" type="ball"/><geom type="box" size=".1 .2 .1" pos=".1 .2 .1" mass="1"/>
<site name="b"/>
<body name="c" pos="0 0 0.3" euler="1 0 0"><geom type="box" size=".1 .1 .1" pos=".1 0 .1" mass="0.5"/><site name="c"/></body>
</body></body></worldbody>
<sensor><force site="a"/><torque site="a"/><force site="b"/><torque site="b"/><force site="c"/><torque site="c"/></sensor>
</mujoco>"""


def test_against_the_sensors_of_mujoco(tmp_path):
    """The model has a force and a torque sensor in each joint and in a weld."""
    (tmp_path / "arm.xml").write_text(MJCF)
    model, theirs = rbd.load_mjcf(tmp_path / "arm.xml"), mujoco.MjModel.from_xml_string(MJCF)
    data, to = mujoco.MjData(theirs), rbd.interop.MujocoMap(model, theirs)
    q, v, _ = motion(model, 1)
    data.qpos[:], data.qvel[:] = jax.jit(lambda q, v: (to.configuration(q), to.velocity(q, v)))(q, v)
    mujoco.mj_forward(theirs, data)

    @jax.jit
    def run(q, v, qacc):
        return rbd.joint_wrenches(model, q, v, to.acceleration_from(q, v, qacc))

    found = np.asarray(run(q, v, np.array(data.qacc)))
    for body, (force, torque) in zip("abc", np.array(data.sensordata).reshape(3, 2, 3)):
        assert_each_close(found[model.body_index(body)], np.concatenate([torque, force]), 1e-9)


@pytest.mark.slow
def test_along_every_joint_is_what_drives_it():
    """For every joint family `Sᵀ f = tau - armature a`, which gives the power."""
    model = rbd.load("all_joints")
    q, v, a = motion(model, 2)

    @jax.jit
    def along(q, v, a):
        wrenches, coordinates = rbd.joint_wrenches(model, q, v, a), model.joint_configurations(q)
        found = jnp.zeros(model.nv)
        for index in range(model.nb):
            joint = model.joint(index)
            if joint.nv:
                subspace = joint.motion_subspace(coordinates[model.topology.joint_q(index)])
                entries = model.v_slice(index)
                found = found.at[entries].add(subspace.T @ wrenches[index])
        return found, rbd.inverse_dynamics(model, q, v, a) - model.armature * a

    assert not model.topology.is_mimic.any()
    found, driven = along(q, v, a)
    assert_each_close(found, driven, 1e-9)


def four_bar(cut):
    """Returns a rhombus of rods, cut between coupler and follower or, in the plane of motion, between crank and coupler."""
    builder = rbd.ModelBuilder(gravity=(0.0, -9.81, 1.0), name="four-bar")
    builder.add_body("crank", "world", joints.Revolute(), inertia=ROD)
    if cut == "follower":
        builder.add_body("coupler", "crank", joints.Revolute(), TIP, ROD)
        builder.add_body("follower", "world", joints.Revolute(), TIP, ROD)
        builder.add_constraint(constraints.LoopJoint("coupler", TIP, "follower", TIP, joints.Revolute()))
    else:
        builder.add_body("follower", "world", joints.Revolute(), TIP, ROD)
        behind = rbd.Inertia.box(1.0, (1.0, 0.1, 0.2), (-0.5, 0.0, 0.1))
        builder.add_body("coupler", "follower", joints.Revolute(), TIP, behind)
        builder.add_constraint(constraints.HingeLoop("crank", TIP, "coupler", at((-1.0, 0.0, 0.0))))
    return builder.build()


@jax.jit
def loaded(model, q, v, tau):
    """Returns the joint wrenches of a driven motion, with and without the multipliers, and the body placements."""
    solved = rbd.constrained_dynamics(model, q, v, tau)
    wrenches = rbd.joint_wrenches(model, q, v, solved.acceleration, None, solved.multipliers)
    # With zero multipliers the wrenches lack the load of the loop.
    missing = rbd.joint_wrenches(model, q, v, solved.acceleration, None, 0 * solved.multipliers)
    return wrenches, missing, rbd.forward_kinematics(model, q)


@pytest.mark.slow
def test_a_loop_cut_elsewhere_bears_the_same():
    """In-plane forces, which are determinate, agree at the joints of both models: crank and follower on the ground."""
    angle, rate, tau = 0.7, 1.3, jnp.array([0.5, 0.0, 0.0])
    bars = {"follower": [1.0, -1.0, 1.0], "crank": [1.0, 1.0, -1.0]}
    forces = []
    for cut, way in bars.items():
        model = four_bar(cut)
        wrenches, missing, placed = loaded(model, angle * jnp.array(way), rate * jnp.array(way), tau)
        bodies = [model.body_index(body) for body in ("crank", "follower")]
        forces.append(placed.force(wrenches)[np.array(bodies)][:, 3:5])
        # Along the joints, whose axes are z, the wrenches are the controls.
        assert_each_close(wrenches[:, 2], tau, 1e-9)
        assert np.abs(missing[:, 2] - tau).max() > 0.1
    assert_each_close(forces[0], forces[1], 1e-9)


def test_multipliers_are_required_where_there_are_loops():
    model = four_bar("follower")
    x = np.zeros(3)
    with pytest.raises(
        ValueError, match="joint_wrenches: multipliers is missing; model 'four-bar' has constraints"
    ):
        rbd.joint_wrenches(model, x, x, x)
    with pytest.raises(ValueError, match=r"multipliers has shape \(2,\); it takes an array \(5,\)"):
        rbd.joint_wrenches(model, x, x, x, None, np.zeros(2))


@pytest.mark.slow
def test_along_a_trajectory():
    """Multipliers and reactions at the start of each step, with dampers, a control and a spring between bodies."""
    model = rbd.add_forces(
        four_bar("follower"),
        forces.SpringDamper(("crank", "follower"), [(0.5, 0.0, 0.0), (0.5, 0.0, 0.0)], 30.0, 0.5, 1.0),
    )
    model = dataclasses.replace(model, damping=jnp.array([0.1, 0.2, 0.3]))
    q, v = jnp.array([0.7, -0.7, 0.7]), 1.3 * jnp.array([1.0, -1.0, 1.0])
    controls = jnp.array([[0.5, 0.0, 0.0], [0.2, 0.1, 0.0]])

    @jax.jit
    def run(q, v, controls):
        path = rbd.rollout(model, rbd.State(q, v), controls, dt=0.01, scheme=rbd.RungeKutta4())
        [spring] = model.forces
        row = path.q[1], path.v[1]
        tau = controls[1] + rbd.passive_force(model, *row)
        solved = rbd.constrained_dynamics(model, *row, tau, spring.wrenches(model, *row))
        known = solved.acceleration, spring.wrenches(model, *row), solved.multipliers
        return path.multipliers(model), path.reactions(model), solved, rbd.joint_wrenches(model, *row, *known)

    multipliers, reactions, solved, expected = run(q, v, controls)
    assert multipliers.shape == (2, 5) and reactions.shape == (2, 3, 6)
    assert_each_close(multipliers[1], solved.multipliers, 1e-9)
    assert_each_close(reactions[1], expected, 1e-9)


@pytest.mark.slow
def test_derivatives():
    """Directional derivatives by the state in both modes, through the multipliers of a loop."""
    model = four_bar("follower")
    tau = jnp.array([0.5, 0.2, 0.0])
    weights = jnp.asarray(np.random.default_rng(7).normal(size=(3, 6)))

    def value(x):
        q, v = x[:3], x[3:]
        solved = rbd.constrained_dynamics(model, q, v, tau)
        return jnp.sum(
            weights * rbd.joint_wrenches(model, q, v, solved.acceleration, None, solved.multipliers)
        )

    way = jnp.array([1.0, -1.0, 1.0])
    x, along = jnp.concatenate([0.7 * way, 1.3 * way]), jnp.concatenate([way, -0.5 * way])
    at = jax.jit(lambda x: (*jax.jvp(value, (x,), (along,)), jax.grad(value)(x) @ along))
    difference = (at(x + 1e-5 * along)[0] - at(x - 1e-5 * along)[0]) / 2e-5
    np.testing.assert_allclose(at(x)[1:], [difference, difference], rtol=1e-7)
