"""States between our conventions and Pinocchio's: round trips, meaning, duality, and errors."""

import jax
import numpy as np
import pytest
from jax.test_util import check_grads

import rbd_jax as rbd
from rbd_jax.interop.pinocchio import PinocchioMap, spatial_matrix, spatial_vector


pin = pytest.importorskip("pinocchio")

INERTIA = (
    '<inertial><mass value="1"/><inertia ixx="1" iyy="2" izz="2.5" ixy=".1" ixz="0" iyz=".2"/></inertial>'
)
LINKS = "abcdefg"
#: Joints of all URDF types, in an order that differs from Pinocchio's (which sorts siblings by name).
JOINTS = [
    (
        "slide",
        "prismatic",
        "a",
        "b",
        '<axis xyz="0 .6 .8"/><limit lower="-1" upper="1" effort="1" velocity="1"/>',
    ),
    ("spin", "continuous", "a", "c", '<axis xyz="0 -.6 .8"/>'),
    ("plane", "planar", "b", "d", '<axis xyz="0 0 1"/>'),
    (
        "hinge",
        "revolute",
        "a",
        "e",
        '<axis xyz="0 0 -1"/><limit lower="-1" upper="1" effort="1" velocity="1"/>',
    ),
    ("cup", "floating", "e", "f", ""),
    ("axle", "continuous", "f", "g", '<axis xyz="1 0 0"/>'),
]
URDF = (
    '<robot name="all">'
    + "".join(f'<link name="{name}">{INERTIA}</link>' for name in LINKS)
    + "".join(
        f'<joint name="{name}" type="{kind}"><origin xyz=".1 -.2 .3" rpy=".3 .2 .1"/>'
        f'<parent link="{parent}"/><child link="{child}"/>{rest}</joint>'
        for name, kind, parent, child, rest in JOINTS
    )
    + "</robot>"
)


@pytest.fixture(scope="module")
def both():
    """Our model, Pinocchio's, and the map."""
    model = rbd.load_urdf(URDF, floating_base=True)
    pin_model = pin.buildModelFromXML(URDF, pin.JointModelFreeFlyer())
    return model, pin_model, PinocchioMap(model, pin_model)


@pytest.fixture(scope="module")
def state(both):
    """q, with unit quaternions and angles within half a turn, and two vectors over degrees of freedom."""
    model, random = both[0], np.random.default_rng(0)
    q = random.uniform(-1, 1, model.nq)
    for joint in ("root_joint", "cup"):
        quaternion = q[model.q_slice(joint)][3:]
        quaternion /= np.linalg.norm(quaternion)
    return q, *random.normal(size=(2, model.nv))


def test_round_trips(both, state):
    _, pin_model, there = both
    q, v, _ = state
    pairs = (
        (there.velocity, there.velocity_from),
        (there.acceleration, there.acceleration_from),
        (there.force, there.force_from),
    )

    @jax.jit
    def converted(q, v):
        q_pin = there.configuration(q)
        ways = [way for to, back in pairs for way in (back(to(v)), to(back(v)))]
        return q_pin, there.configuration_from(q_pin), ways

    q_pin, again, ways = converted(q, v)
    assert q_pin.shape == (pin_model.nq,)
    np.testing.assert_allclose(again, q, atol=1e-15)
    for way in ways:
        np.testing.assert_array_equal(way, v)


def test_matrices(both, state):
    there = both[2]
    _, v, _ = state
    m = np.random.default_rng(1).normal(size=(len(v), len(v)))
    square, jacobian = m[:6, :6], m[:6]

    @jax.jit
    def converted():
        products = [
            (there.matrix(m) @ there.velocity(v), there.force(m @ v)),
            (there.jacobian(jacobian) @ there.velocity(v), spatial_vector(jacobian @ v)),
            (spatial_matrix(square) @ spatial_vector(v[:6]), spatial_vector(square @ v[:6])),
        ]
        back = there.matrix_from(there.matrix(m)), there.jacobian_from(there.jacobian(jacobian))
        return products, back

    products, back = converted()
    for product, expected in products:
        np.testing.assert_allclose(product, expected, atol=1e-14)
    np.testing.assert_array_equal(back[0], m)
    np.testing.assert_array_equal(back[1], jacobian)


def test_spatial_vectors_and_matrices_are_pinocchios():
    vectors = np.arange(12.0).reshape(2, 6)

    @jax.jit
    def ours():
        inertia = rbd.Inertia.from_mass_com(2.0, [0.1, 0.2, 0.3], np.diag([1.0, 2.0, 2.5]))
        frame = rbd.Transform.from_xyz_rpy([1.0, 2.0, 3.0], [0.1, 0.2, 0.3])
        matrices = [spatial_matrix(x) for x in (inertia.matrix, frame.motion_matrix, frame.force_matrix)]
        return frame.rotation, frame.position, *matrices, spatial_vector(spatial_vector(vectors))

    rotation, position, inertia, motion, force, twice = map(np.asarray, ours())
    theirs = pin.Inertia(2.0, np.array([0.1, 0.2, 0.3]), np.diag([1.0, 2.0, 2.5]))
    np.testing.assert_allclose(inertia, theirs.matrix(), atol=1e-15)
    placement = pin.SE3(rotation, position)
    np.testing.assert_allclose(motion, placement.action, atol=1e-15)
    np.testing.assert_allclose(force, placement.dualAction, atol=1e-15)
    np.testing.assert_array_equal(twice, vectors)


def test_the_same_state(both, state):
    """Placements, velocities and dynamics agree, and so does power."""
    model, pin_model, there = both
    q, v, tau = state
    data = pin_model.createData()
    send = jax.jit(lambda q, v, tau: (there.configuration(q), there.velocity(v), there.force(tau)))
    q_pin, v_pin, tau_pin = map(np.asarray, send(q, v, tau))
    np.testing.assert_allclose(tau_pin @ v_pin, tau @ v)
    pin.forwardKinematics(pin_model, data, q_pin, v_pin)
    pin.updateFramePlacements(pin_model, data)
    frames = [pin_model.getFrameId(name, pin.FrameType.BODY) for name in model.body_names]

    @jax.jit
    def ours(q, v, tau):
        velocities = spatial_vector(rbd.body_velocities(model, q, v))
        accelerations = there.acceleration(rbd.forward_dynamics(model, q, v, tau))
        return rbd.forward_kinematics(model, q).matrix, velocities, accelerations

    matrices, velocities, accelerations = ours(q, v, tau)
    np.testing.assert_allclose(matrices, [data.oMf[f].homogeneous for f in frames], atol=1e-13)
    theirs = [pin.getFrameVelocity(pin_model, data, f, pin.WORLD).vector for f in frames]
    np.testing.assert_allclose(velocities, theirs, atol=1e-12)
    theirs = pin.aba(pin_model, data, q_pin, v_pin, tau_pin)
    np.testing.assert_allclose(accelerations, theirs, rtol=1e-10)


def test_the_same_manifold(both, state):
    """`⊕` equals Pinocchio's integration on the manifold."""
    model, pin_model, there = both
    q, v, _ = state
    send = jax.jit(lambda q, v: (there.configuration(q), there.velocity(v)))
    moved = pin.integrate(pin_model, *map(np.asarray, send(q, v)))

    @jax.jit
    def error(q, v, moved):
        return rbd.difference(model, rbd.integrate(model, q, v), there.configuration_from(moved))

    off = np.asarray(error(q, v, moved))
    turns = np.round(off / (2 * np.pi)) * 2 * np.pi  # Pinocchio's continuous joints have no turn count
    np.testing.assert_allclose(off, turns, atol=1e-12)


def test_quaternions_of_any_length(both, state):
    model, pin_model, there = both
    q = np.array(state[0])
    q[3:7] *= 3.0
    to = jax.jit(there.configuration)
    np.testing.assert_allclose(to(q), to(state[0]), atol=1e-15)
    assert pin.isNormalized(pin_model, np.asarray(to(q)), 1e-12)


def test_jit_vmap_grad(both, state):
    there = both[2]
    q, to = np.asarray(state[0]), jax.jit(there.configuration)
    np.testing.assert_allclose(to(q), there.configuration(q), atol=1e-15)
    batch = np.asarray(jax.jit(jax.vmap(there.configuration))(np.stack([q, 2 * q])))
    np.testing.assert_allclose(batch[1], to(2 * q), atol=1e-15)
    check_grads(to, (q,), 1, rtol=1e-6)
    check_grads(jax.jit(there.configuration_from), (to(q),), 1, rtol=1e-6)


def test_coupled_joints():
    limit, mimic = '<limit effort="1" velocity="1"/>', '<mimic joint="hinge" multiplier="-2" offset=".5"/>'
    urdf = URDF.replace('<axis xyz="1 0 0"/>', f'<axis xyz="1 0 0"/>{limit}{mimic}')
    urdf = urdf.replace('name="axle" type="continuous"', 'name="axle" type="revolute"')
    model = rbd.load_urdf(urdf)
    pin_model = pin.buildModelFromXML(urdf, mimic=True)
    there = PinocchioMap(model, pin_model)
    q = np.random.default_rng(0).normal(size=model.nq)
    data = pin_model.createData()
    pin.framesForwardKinematics(pin_model, data, np.asarray(jax.jit(there.configuration)(q)))
    theirs = data.oMf[pin_model.getFrameId("g", pin.FrameType.BODY)].homogeneous
    placed = jax.jit(lambda q: rbd.forward_kinematics(model, q).matrix)(q)
    np.testing.assert_allclose(np.asarray(placed)[model.body_index("g")], theirs, atol=1e-13)


def test_names():
    model = rbd.load_urdf(URDF)
    pin_model = pin.buildModelFromXML(URDF.replace('"hinge"', '"elbow"'))
    with pytest.raises(rbd.ModelError, match="'hinge'.*not a joint of the Pinocchio model.*'elbow'"):
        PinocchioMap(model, pin_model)
    there = PinocchioMap(model, pin_model, names={"hinge": "elbow"})
    elbow = pin_model.joints[pin_model.getJointId("elbow")]
    q = np.array(rbd.neutral(model))
    q[model.q_slice("hinge")] = 0.5
    assert np.asarray(jax.jit(there.configuration)(q))[elbow.idx_q] == 0.5


def test_refusals(both, state):
    model, pin_model, there = both
    with pytest.raises(rbd.ModelError, match="floating base"):
        PinocchioMap(rbd.load_urdf(URDF), pin_model)
    with pytest.raises(
        rbd.ModelError, match="'slide' is a Revolute here, but in Pinocchio JointModelPrismatic"
    ):
        swapped = URDF.replace('name="slide" type="prismatic"', 'name="slide" type="revolute"')
        PinocchioMap(rbd.load_urdf(swapped, floating_base=True), pin_model)
    with pytest.raises(rbd.ModelError, match="normal"):
        turned = URDF.replace('<axis xyz="0 0 1"/>', '<axis xyz="0 1 0"/>')
        PinocchioMap(rbd.load_urdf(turned, floating_base=True), pin_model)
    with pytest.raises(rbd.UnknownNameError, match="nobody"):
        PinocchioMap(model, pin_model, names={"nobody": "slide"})
    with pytest.raises(ValueError, match="length"):
        there.configuration(np.zeros(3))
    with pytest.raises(ValueError, match="length"):
        there.velocity(np.stack([state[1], state[1]]))
