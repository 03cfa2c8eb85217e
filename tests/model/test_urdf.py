"""URDF is read correctly number by number, and the robots of example-robot-data as by Pinocchio."""

import sys
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pinocchio as pin
import pytest

import rbd_jax as rbd


ROBOTS = next(
    (
        path
        for entry in sys.path
        if (path := Path(entry, "cmeel.prefix/share/example-robot-data/robots")).is_dir()
    ),
    Path("example-robot-data is not installed"),
)
FILES = sorted(str(path.relative_to(ROBOTS)) for path in ROBOTS.rglob("*.urdf"))

#: Small robots that together have hinges, slides, continuous and mimic joints, massless links and a root called world.
FAST = (
    "asr_twodof_description/urdf/TwoDofs.urdf",
    "bolt_description/robots/bolt.urdf",
    "double_pendulum_description/urdf/double_pendulum_continuous.urdf",
    "hector_description/robots/quadrotor_base.urdf",
    "panda_description/urdf/panda.urdf",
    "quadruped_description/urdf/quadruped.urdf",
    "talos_data/robots/talos_left_arm.urdf",
    "ur_description/urdf/ur5_robot.urdf",
)
#: A file without links.
EMPTY = "ur_description/urdf/ur3.urdf"
#: Its fingers mimic joints that are missing in the file.
DANGLING = "alex_description/urdf/alex_psyonic_hands.urdf"

MIXED = """
<?xml-stylesheet type="text/css" href="none"?>
<robot name="mixed">
  <material name="grey"><color rgba="0 0 0 1"/></material>
  <link name="base">
    <inertial>
      <origin xyz="0.1 0.2 0.3" rpy="0.4 -0.5 0.6"/>
      <mass value="2.5"/>
      <inertia ixx="0.3" ixy="0.01" ixz="-0.02" iyy="0.4" iyz="0.03" izz="0.5"/>
    </inertial>
    <visual><geometry><mesh filename="package://nowhere/${mesh}.dae"/></geometry></visual>
    <sensor:ray xmlns:sensor="http://example.org"/>
  </link>
  <link name="upper"/>
  <link name="slide"><inertial><mass value="1e-1"/>
    <inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>
  <link name="wheel"/> <link name="tool"/> <link name="ball"/> <link name="puck"/> <link name="finger"/>
  <!-- The joints are in an order of their own. -->
  <joint name="spin" type="continuous">
    <parent link="upper"/><child link="wheel"/><axis xyz="0 3 4"/><limit lower="-1" upper="1" effort="7" velocity="8"/>
    <mimic joint="hinge" multiplier="-2" offset="0.5"/>
  </joint>
  <joint name="hinge" type="revolute">
    <origin xyz="1 2 3" rpy="0.1 0.2 0.3"/>
    <parent link="base"/><child link="upper"/>
    <limit lower="-1.5" upper="2.5" effort="30" velocity="4"/>
    <dynamics damping="0.25" friction="0.5"/>
    <safety_controller k_velocity="10"/><calibration rising="0"/>
  </joint>
  <joint name="rail" type="prismatic">
    <origin rpy="0 0 1.5"/><parent link="base"/><child link="slide"/><axis xyz="0 0 -1"/>
    <limit upper="0.5" effort="inf"/>
  </joint>
  <joint name="weld" type="fixed">
    <origin xyz="0 0 0.1"/><parent link="upper"/><child link="tool"/>
    <axis xyz="0 0 0"/><mimic joint="nobody"/><dynamics damping="nan"/>
  </joint>
  <joint name="float" type="floating"><parent link="tool"/><child link="ball"/><limit effort="1" velocity="1"/></joint>
  <joint name="plane" type="planar"><parent link="tool"/><child link="puck"/><axis xyz="0 1 0"/></joint>
  <joint name="pinch" type="revolute"><parent link="slide"/><child link="finger"/></joint>
  <transmission name="t"><joint name="hinge"/></transmission>
  <gazebo reference="upper"><joint name="hinge"/></gazebo>
  <ros2_control name="c" type="system"><joint name="hinge"/></ros2_control>
</robot>
"""


def rpy(roll, pitch, yaw):
    return pin.rpy.rpyToMatrix(roll, pitch, yaw)


@pytest.fixture(scope="module")
def mixed():
    return rbd.load_urdf(MIXED, mimic="free")


def test_bodies_are_depth_first_in_the_order_of_the_joints(mixed):
    assert mixed.name == "mixed"
    assert mixed.body_names == ("base", "upper", "wheel", "tool", "ball", "puck", "slide", "finger")
    assert mixed.joint_names == ("root_joint", "hinge", "spin", "weld", "float", "plane", "rail", "pinch")
    assert mixed.topology.parents == (-1, 0, 1, 1, 3, 3, 0, 6)


def test_joints_have_their_types(mixed):
    types = [type(mixed.joint(name)).__name__ for name in mixed.joint_names]
    assert types == ["Fixed", "Revolute", "Revolute", "Fixed", "Free", "Planar", "Prismatic", "Revolute"]
    assert (mixed.nq, mixed.nv) == (14, 13)
    np.testing.assert_allclose(mixed.joint("hinge").axis, [1, 0, 0])  # the default
    np.testing.assert_allclose(mixed.joint("spin").axis, [0, 0.6, 0.8])
    np.testing.assert_allclose(mixed.joint("rail").axis, [0, 0, -1])
    np.testing.assert_allclose(mixed.joint("plane").normal, [0, 1, 0])


def test_placements_and_inertias_arrive(mixed):
    hinge = mixed.placements[mixed.body_index("upper")]
    np.testing.assert_allclose(hinge.position, [1, 2, 3])
    np.testing.assert_allclose(hinge.rotation, rpy(0.1, 0.2, 0.3), atol=1e-15)
    np.testing.assert_allclose(
        mixed.placements[mixed.body_index("slide")].rotation, rpy(0, 0, 1.5), atol=1e-15
    )
    base = mixed.inertias[mixed.body_index("base")]
    turn = rpy(0.4, -0.5, 0.6)
    central = np.array([[0.3, 0.01, -0.02], [0.01, 0.4, 0.03], [-0.02, 0.03, 0.5]])
    np.testing.assert_allclose(base.mass, 2.5)
    np.testing.assert_allclose(base.com, [0.1, 0.2, 0.3])
    np.testing.assert_allclose(base.rotational_com, turn @ central @ turn.T, atol=1e-15)
    for massless in ("upper", "wheel", "tool", "ball", "puck", "finger"):
        np.testing.assert_array_equal(mixed.inertias[mixed.body_index(massless)].parameters, np.zeros(10))


def test_limits_and_dynamics_arrive(mixed):
    def along(joint):
        q, v = mixed.q_slice(joint), mixed.v_slice(joint)
        coordinates = (mixed.lower[q], mixed.upper[q])
        dofs = (mixed.effort_limit[v], mixed.velocity_limit[v], mixed.damping[v], mixed.friction[v])
        assert len({len(x) for x in coordinates}) == len({len(x) for x in dofs}) == 1
        return [float(x[0]) for x in (*coordinates, *dofs)]

    inf = np.inf
    assert along("hinge") == [-1.5, 2.5, 30, 4, 0.25, 0.5]
    assert along("spin") == [-inf, inf, 7, 8, 0, 0]
    assert along("rail") == [0, 0.5, inf, inf, 0, 0]
    assert along("pinch") == [-inf, inf, inf, inf, 0, 0]
    assert along("float") == along("plane") == [-inf, inf, inf, inf, 0, 0]
    assert not mixed.armature.any() and not mixed.stiffness.any()


def test_a_coupled_joint_follows():
    model = rbd.load_urdf(MIXED)
    assert (model.nq, model.nv) == (13, 12)
    np.testing.assert_array_equal(model.mimic_multiplier, [-2])
    np.testing.assert_array_equal(model.mimic_offset, [0.5])
    q = jnp.zeros(model.nq).at[model.q_slice("hinge")].set(0.75)
    assert float(model.joint_configurations(q)[model.topology.joint_q(model.body_index("wheel"))[0]]) == -1
    with pytest.raises(ValueError, match="'spin' has no coordinates of its own: it mimics 'hinge'"):
        model.q_slice("spin")


def test_gravity_and_base():
    model = rbd.load_urdf(MIXED, True, gravity=(1, 2, 3))
    np.testing.assert_array_equal(model.gravity, [1, 2, 3])
    assert model.body_names[0] == "base" and model.joint_names[0] == "root_joint"
    assert model.q_slice("root_joint") == slice(0, 7) and model.v_slice("root_joint") == slice(0, 6)


def tiny(root, inside="", joint="root_joint"):
    return f"""<robot name="tiny"><link name="{root}">{inside}</link><link name="arm"/>
        <joint name="{joint}" type="revolute"><parent link="{root}"/><child link="arm"/></joint></robot>"""


HEAVY = '<inertial><mass value="3"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>'


def test_the_root_joint_gets_a_name_of_its_own():
    assert rbd.load_urdf(tiny("base")).joint_names == ("root_joint_", "root_joint")


def test_a_root_called_world():
    massless, heavy = tiny("world", joint="elbow"), tiny("world", HEAVY, joint="elbow")
    model = rbd.load_urdf(massless)
    assert (
        model.body_names == ("arm",) and model.joint_names == ("elbow",) and model.topology.parents == (-1,)
    )
    for text, floating in ((heavy, False), (heavy, True), (massless, True)):
        model = rbd.load_urdf(text, floating)
        assert model.body_names == ("world_link", "arm") and model.topology.parents == (-1, 0)
        assert model.joint_names == ("root_joint", "elbow") and model.nv == (7 if floating else 1)


def test_locked_joints():
    model = rbd.load_urdf(MIXED, lock={"hinge": 0.25, "plane": [0.5, 1.0, 2.0], "pinch": None, "weld": None})
    assert not {"hinge", "spin", "plane", "pinch"} & {
        name for body, name in enumerate(model.joint_names) if not model.topology.fixed[body]
    }
    assert (model.nq, model.nv) == (8, 7)  # the rail and the floating joint remain
    # The mimic joint of the hinge is locked at its value: q = -2 * 0.25 + 0.5 = 0.
    assert len(model.topology.mimic_joints) == 0
    free = rbd.load_urdf(MIXED, mimic="free")
    for joint, q in (("hinge", [0.25]), ("spin", [0.0]), ("plane", [0.5, 1.0, 2.0]), ("pinch", [0.0])):
        body = free.topology.joint_index(joint)
        expected = free.placements[body] @ free.joint(joint).transform(jnp.array(q))
        np.testing.assert_allclose(model.placements[body].matrix, expected.matrix, atol=1e-15)
    assert rbd.load_urdf(MIXED, lock=["hinge"]).nv == rbd.load_urdf(MIXED, lock="hinge").nv == 11


def test_a_path_and_the_text_are_the_same(tmp_path):
    path = tmp_path / "mixed.urdf"
    path.write_text(MIXED.strip())
    of_path, of_text = rbd.load_urdf(path), rbd.load_urdf(MIXED)
    assert of_path.topology == of_text.topology
    jax.tree.map(np.testing.assert_array_equal, of_path, of_text)


def test_deep_chains_are_no_recursion():
    size = 1200  # beyond Python's recursion limit
    links = "".join(f'<link name="l{i}"/>' for i in range(size))
    joints = "".join(
        f'<joint name="j{i}" type="fixed"><parent link="l{i - 1}"/><child link="l{i}"/></joint>'
        for i in range(1, size)
    )
    model = rbd.load_urdf(f'<robot name="long">{links}{joints}</robot>')
    assert model.topology.parents == tuple(range(-1, size - 1))


def compare(file, floating_base):
    """Returns the model of a file, after comparing its joints, limits and mass with Pinocchio's."""
    path = str(ROBOTS / file)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = rbd.load_urdf(path, floating_base, mimic="free")
    caught = [str(warning.message) for warning in caught if warning.category is rbd.ModelWarning]
    assert len(caught) <= 1, caught
    peer = pin.buildModelFromUrdf(path, *([pin.JointModelFreeFlyer()] if floating_base else []))
    moving = {name for body, name in enumerate(model.joint_names) if not model.topology.fixed[body]}
    assert moving == set(peer.names) - {"universe"}
    assert model.nv == peer.nv
    np.testing.assert_allclose(model.inertias.mass.sum(), sum(inertia.mass for inertia in peer.inertias))
    ours = {
        name: np.asarray(getattr(model, name))
        for name in ("lower", "upper", "effort_limit", "velocity_limit")
    }
    ours |= {name: np.asarray(getattr(model, name)) for name in ("damping", "friction")}
    for name in moving:
        joint = peer.joints[peer.getJointId(name)]
        if joint.nv != 1:
            continue
        q, v = model.q_slice(name).start, model.v_slice(name).start
        for mine, theirs in (
            ("effort_limit", peer.effortLimit),
            ("velocity_limit", peer.velocityLimit),
            ("damping", peer.damping),
            ("friction", peer.friction),
        ):
            assert ours[mine][v] == theirs[joint.idx_v], (name, mine)
        if joint.nq == 1:  # Pinocchio stores a continuous joint as cosine and sine
            assert ours["lower"][q] == peer.lowerPositionLimit[joint.idx_q], name
            assert ours["upper"][q] == peer.upperPositionLimit[joint.idx_q], name
        else:
            assert np.isinf([ours["lower"][q], ours["upper"][q]]).all(), name
    return model


@pytest.mark.parametrize("floating_base", [False, True], ids=["fixed", "floating"])
@pytest.mark.parametrize("file", FAST)
def test_robots_as_pinocchio_reads_them(file, floating_base):
    compare(file, floating_base)


@pytest.mark.slow
@pytest.mark.parametrize("file", [file for file in FILES if file != EMPTY])
def test_all_robots_as_pinocchio_reads_them(file):
    compare(file, False)
    compare(file, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "file", [file for file in FILES if file != DANGLING and b"<mimic" in (ROBOTS / file).read_bytes()]
)
def test_all_robots_with_followers(file):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rbd.ModelWarning)
        coupled, free = (rbd.load_urdf(ROBOTS / file, mimic=mimic) for mimic in ("couple", "free"))
    assert coupled.nv == free.nv - len(coupled.topology.mimic_joints)
    try:
        assert coupled.nv == pin.buildModelFromUrdf(str(ROBOTS / file), mimic=True).nv
    except ValueError as error:
        # Pinocchio requires every leader above its mimic joints.
        assert "parent joint of the mimic joint is not in the kinematic tree" in str(error)


def test_the_robots_that_are_refused():
    assert len(FILES) == 69
    with pytest.raises(rbd.ModelError, match="robot"):
        rbd.load_urdf(ROBOTS / EMPTY)
    with pytest.raises(rbd.ModelError, match="mimics 'index_q1'.*did you mean 'Left_index_q1'.*mimic='free'"):
        rbd.load_urdf(ROBOTS / DANGLING)
