"""Joint families: printed formulas (with their errata), equivalent joints, and rejected inputs."""

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from families import FAMILIES, Wobble, control_frames, control_grid
from scipy.spatial.transform import Rotation

from rbd_jax import Transform, joints
from rbd_jax.joints import Joint
from rbd_jax.joints.euler import ORDERS
from rbd_jax.joints.planar import plane
from rbd_jax.lie import SE3, SO3, quaternion


ANGLES = np.array([0.7, -0.4, 1.3])
RATES = np.array([0.3, 1.1, -0.8])


def close(a, b, tolerance=1e-14):
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def stored_rate(joint, q, v):
    """Returns q̇, the rate of the stored coordinates."""
    return jax.jvp(lambda time: joint.integrate(q, time * v), (jnp.zeros(()),), (jnp.ones(()),))[1]


def test_constant_subspaces_of_the_book():
    """Book table 4.1."""
    e = np.eye(6)
    book = [
        (joints.Helical(pitch=0.3), (e[2] + 0.3 * e[5])[:, None]),
        (joints.Cylindrical(), e[:, [2, 5]]),
        (joints.Planar(), e[:, [2, 3, 4]]),
        (joints.Spherical(), e[:, :3]),
        (joints.Free(), e),
        (joints.Translational(), e[:, 3:]),
    ]
    found = jax.jit(lambda: [joint.columns() for joint, _ in book])()
    for columns, (_, expected) in zip(found, book, strict=True):
        close(columns, expected)
    placed = jax.jit(lambda q: joints.Helical(pitch=0.3).transform(q))(np.array([0.7]))
    close(placed.rotation, Rotation.from_euler("z", 0.7).as_matrix())
    close(placed.position, [0, 0, 0.21])


def test_rate_of_the_planar_coordinates():
    """Book example 4.5 without the terms in ω that it prints: θ̇ = ω, and the velocity rotated into the predecessor."""
    q, v = np.array([0.7, 1.2, -0.5]), np.array([0.4, -1.0, 0.6])
    c, s = np.cos(0.7), np.sin(0.7)
    rate = jax.jit(lambda q, v: stored_rate(joints.Planar(), q, v))(q, v)
    close(rate, np.array([[1, 0, 0], [0, c, -s], [0, s, c]]) @ v)


def test_rate_of_the_free_coordinates():
    """ṙ = R v and ṗ = ½ p ∘ (0, ω) (book eqs. 3.7, 4.13), without other terms."""
    joint, v = joints.Free(), np.arange(1.0, 7.0)

    @jax.jit
    def ask(key, v):
        q = joint.random(key)
        expected = joint.transform(q).rotation @ v[3:], quaternion.derivative(q[3:], v[:3])
        return stored_rate(joint, q, v), jnp.concatenate(expected)

    close(*ask(jax.random.key(0), v))


def test_planar_and_free_follow_the_exponential_of_the_group():
    def both(joint, q, v, twist):
        moved = joint.transform(q) @ SE3.exp(twist)
        return joint.transform(joint.integrate(q, v)).matrix, moved.matrix

    v, twist = np.array([0.4, -1.0, 0.6]), np.array([0.0, 0.0, 0.4, -1.0, 0.6, 0.0])
    close(*jax.jit(both)(joints.Planar(), np.array([0.7, 1.2, -0.5]), v, twist))
    free, twist = joints.Free(), np.array([0.5, -1.1, 0.3, 1.0, 2.0, -0.7])
    drawn = jax.jit(lambda key, twist: both(free, free.random(key), twist, twist))
    close(*drawn(jax.random.key(1), twist))


@pytest.mark.parametrize(
    "normal", [(0, 0, 1), (0, 0, -1), (0, 1, 0), (1, 0, 0), (0.1, -0.3, -1e-9), (-1, 2, 3)]
)
def test_directions_of_a_plane(normal):
    normal = joints.Planar(normal).normal
    frame = np.column_stack([plane(normal), normal])
    close(frame.T @ frame, np.eye(3), 1e-15)
    assert np.linalg.det(frame) > 0
    close(plane(jnp.array([0.0, 0.0, 1.0])), np.eye(3)[:, :2])


@pytest.mark.parametrize("order", ORDERS)
def test_euler_orders_against_scipy(order):
    expected = Rotation.from_euler(order.upper(), ANGLES).as_matrix()
    close(joints.SphericalEuler(order).transform(jnp.array(ANGLES)).rotation, expected, 1e-15)


def test_euler_zyx_of_the_book():
    """S of the book's eq. 4.8 and c_J of its eq. 4.9."""
    joint, (_, q2, q3), (v1, v2, v3) = joints.SphericalEuler("zyx"), ANGLES, RATES
    c2, s2, c3, s3 = np.cos(q2), np.sin(q2), np.cos(q3), np.sin(q3)
    subspace = np.zeros((6, 3))
    subspace[:3] = [[-s2, 0, 1], [c2 * s3, c3, 0], [c2 * c3, -s3, 0]]
    product = np.zeros(6)
    product[:3] = [
        -c2 * v1 * v2,
        -s2 * s3 * v1 * v2 + c2 * c3 * v1 * v3 - s3 * v2 * v3,
        -s2 * c3 * v1 * v2 - c2 * s3 * v1 * v3 - c3 * v2 * v3,
    ]
    close(joint.motion_subspace(jnp.array(ANGLES)), subspace)
    close(joint.velocity_product(jnp.array(ANGLES), jnp.array(RATES)), product)


def test_euler_xzx_of_sueda():
    """Sueda eqs. 2.34 and 2.35."""
    joint, (_, q2, q3), (_, v2, v3) = joints.SphericalEuler("xzx"), ANGLES, RATES
    c2, s2, c3, s3 = np.cos(q2), np.sin(q2), np.cos(q3), np.sin(q3)
    subspace, rate = np.zeros((6, 3)), np.zeros((6, 3))
    subspace[:3] = [[c2, 0, 1], [-c3 * s2, s3, 0], [s2 * s3, c3, 0]]
    rate[:3, :2] = [
        [-s2 * v2, 0],
        [s3 * s2 * v3 - c3 * c2 * v2, c3 * v3],
        [c2 * s3 * v2 + s2 * c3 * v3, -s3 * v3],
    ]
    close(joint.motion_subspace(jnp.array(ANGLES)), subspace)
    close(joint.subspace_rate(jnp.array(ANGLES), jnp.array(RATES)), rate)


def test_universal_of_sueda():
    """Sueda eqs. 2.37, 2.39 and 2.40."""
    q, v = jnp.array([0.7, -0.4]), jnp.array([0.3, 1.1])
    c1, s1, c2, s2 = np.cos(0.7), np.sin(0.7), np.cos(-0.4), np.sin(-0.4)
    subspace, rate = np.zeros((6, 2)), np.zeros((6, 2))
    subspace[:3] = [[c2, 0], [0, 1], [s2, 0]]
    rate[[0, 2], 0] = -s2 * 1.1, c2 * 1.1
    joint = joints.Universal()
    close(joint.transform(q).rotation, [[c2, 0, s2], [s1 * s2, c1, -s1 * c2], [-c1 * s2, s1, c1 * c2]])
    close(joint.motion_subspace(q), subspace)
    close(joint.subspace_rate(q, v), rate)


def test_rack_and_pinion_of_the_book():
    """Book example 4.6. The contact point of the pinion with the rack is at rest."""
    r, q, v = 0.4, 0.7, 1.1
    c, s = np.cos(q), np.sin(q)
    joint, q, v = joints.RackAndPinion(r), jnp.array([q]), jnp.array([v])
    placed, subspace = joint.transform(q), joint.motion_subspace(q)[:, 0]
    close(placed.position, [r * q[0], 0, 0])
    close(subspace, [0, 0, 1, r * c, -r * s, 0])
    close(joint.velocity_product(q, v), [0, 0, 0, -r * s * v[0] ** 2, -r * c * v[0] ** 2, 0])
    touching = placed.inverse().point(placed.position + jnp.array([0, r, 0]))
    close(subspace[3:] + np.cross(subspace[:3], touching), np.zeros(3))


def test_free_2d_of_sueda():
    """Sueda eqs. 2.55 and 2.56, the latter with the entry (5, 2) corrected to `-q̇ Q^yx`."""
    q, v = np.array([0.5, -1.0, 0.7]), np.array([0.3, 1.1, -0.8])
    joint, turn = joints.Free2D(), Rotation.from_euler("z", 0.7).as_matrix()
    subspace, rate = np.zeros((6, 3)), np.zeros((6, 3))
    subspace[3:, :2], subspace[2, 2] = turn[:2].T, 1
    rate[3, :2], rate[4, :2] = -0.8 * turn[:2, 1], 0.8 * turn[:2, 0]

    @jax.jit
    def ask(q, v):
        placed = joint.transform(q).matrix, joints.Planar().transform(jnp.roll(q, 1)).matrix
        return joint.motion_subspace(q), joint.subspace_rate(q, v), placed

    found = ask(q, v)
    close(found[0], subspace)
    close(found[1], rate)
    close(*found[2])


def test_free_3d_is_free():
    """The same coordinates and, with the linear velocity in the other frame, the same twist.

    Sueda eqs. 2.57 to 2.59 have its parts in the other order.
    """
    joint, free, v = joints.Free3D(), joints.Free(), np.arange(1.0, 7.0)

    @jax.jit
    def ask(key, v):
        q = free.random(key)
        placed = joint.transform(q).matrix, free.transform(q).matrix
        own = jnp.concatenate([free.transform(q).rotation @ v[3:], v[:3]])
        return placed, joint.motion_subspace(q) @ own

    placed, twist = ask(jax.random.key(2), v)
    close(*placed)
    close(twist, v, 1e-13)


@pytest.mark.parametrize(
    "whole, parts",
    [
        (joints.SphericalEuler("yzx"), [joints.Revolute(np.eye(3)[i]) for i in (1, 2, 0)]),
        (
            FAMILIES["universal"],
            [joints.Revolute(FAMILIES["universal"].axis1), joints.Revolute((0.3, 1.0, -0.2))],
        ),
        (joints.Cylindrical(), [joints.Prismatic(), joints.Composite([joints.Fixed()]), joints.Revolute()]),
    ],
    ids=["euler", "universal", "cylindrical"],
)
def test_a_composite_is_the_joint_of_its_parts(whole, parts):
    """Sueda eqs. 2.48 to 2.52."""
    composite = joints.Composite(parts)
    order = np.array([1, 0]) if isinstance(whole, joints.Cylindrical) else np.arange(whole.nv)
    q, v = np.array(ANGLES[: whole.nv]), np.array(RATES[: whole.nv])
    seen = lambda joint, q, v: (
        joint.transform(q).matrix,
        joint.motion_subspace(q),
        joint.velocity_product(q, v),
    )
    placed, subspace, product = jax.device_get(jax.jit(seen)(composite, q[order], v[order]))
    for found, expected in zip(
        (placed, subspace[:, order], product), jax.jit(seen)(whole, q, v), strict=True
    ):
        close(found, expected)


#: Rotation vectors of length zero to almost two turns, and their rates.
LENGTHS = np.array([0.0, 1e-9, 3.1, 3.2, 6.2, 6.3, 11.0])
AXES = np.random.default_rng(0).normal(size=(7, 3))
AXES /= np.linalg.norm(AXES, axis=1, keepdims=True)
VECTORS, SPEEDS = AXES * LENGTHS[:, None], np.random.default_rng(1).normal(size=(7, 3))


def turning(q, v):
    """Returns rotation and angular velocity of a rotation vector and its rate, before and after reparametrization."""
    joint = joints.SphericalExponential()
    motion = lambda q, v: (joint.transform(q).rotation, joint.motion_subspace(q) @ v)
    return motion(q, v), motion(*joint.reparametrize(q, v))


def test_reparametrize_changes_no_motion():
    """The same rotation and angular velocity, with |q| ≤ π; unchanged if |q| is smaller already (Sueda eq. 2.47)."""
    q, v, axes, lengths = VECTORS, SPEEDS, AXES, LENGTHS

    @jax.jit
    @jax.vmap
    def compare(q, v):
        return joints.SphericalExponential().reparametrize(q, v), *turning(q, v)

    (short, moved), before, after = jax.device_get(compare(q, v))
    close(before[0], after[0], 1e-13)
    close(before[1], after[1], 1e-13)
    assert (np.linalg.norm(short, axis=1) <= np.pi).all()
    assert (short[:3] == q[:3]).all() and (moved[:3] == v[:3]).all()
    assert not np.allclose(moved[3:], v[3:])
    close(short[3:], (lengths[3:] - 2 * np.pi * np.array([1, 1, 1, 2]))[:, None] * axes[3:], 1e-13)


@pytest.mark.slow
def test_reparametrize_changes_no_derivative():
    """As functions of the rotation vector, the motion before and after have the same derivatives."""
    slopes = jax.jit(jax.vmap(jax.jacrev(turning)))
    for before, after in zip(*map(jax.tree.leaves, slopes(VECTORS, SPEEDS))):
        close(before, after, 1e-11)


def test_exponential_coordinates_move_as_the_jacobian_says():
    """Sueda eqs. 2.43 and 2.44 as printed, away from zero."""
    q = jnp.array([0.5, -1.2, 0.8])
    rotation = np.asarray(SO3.exp(q))
    for i in range(3):
        inner = np.cross(q, (np.eye(3) - rotation)[:, i])
        slope = rotation.T @ np.asarray(SO3.hat(q[i] * q + inner)) @ rotation / (q @ q)
        close(SO3.vee(slope), joints.SphericalExponential().motion_subspace(q)[:3, i])


@pytest.mark.parametrize("family", ["spherical", pytest.param("free", marks=pytest.mark.slow)])
def test_quaternions_of_any_length(family):
    joint = FAMILIES[family]
    one = jnp.ones(joint.nv)

    @jax.jit
    def everything(key):
        q = joint.random(key)
        scaled = q.at[-4:].multiply(-3.0)
        placed = joint.transform(scaled).matrix, joint.transform(q).matrix
        moved = joint.integrate(scaled, one)
        back = joint.configuration_velocity(scaled, joint.configuration_rate(scaled, one))
        both = lambda q: jax.tree.leaves((joint.transform(q), joint.difference(q, scaled)))
        return placed, joint.difference(q, scaled), moved, back, jax.jacrev(both)(jnp.zeros_like(q))

    placed, difference, moved, back, slopes = everything(jax.random.key(3))
    close(*placed)
    close(difference, np.zeros(joint.nv))
    close(np.linalg.norm(np.asarray(moved)[-4:]), 1)
    close(back, np.ones(joint.nv))
    assert all(np.isfinite(slope).all() for slope in slopes)


def test_driven_by_a_function():
    """σ = cos t and σ̊ = -sin t about the axis; time and motion parameters are differentiable."""
    joint = joints.Driven(joints.Revolute(), lambda time: jnp.sin(time)[None]).at_time(0.3)
    none = jnp.zeros(0)
    everything = lambda q, v: (joint.transform(q).rotation, joint.drift(q), joint.velocity_product(q, v))
    rotation, drift, product = jax.jit(everything)(none, none)
    close(rotation, Rotation.from_euler("z", np.sin(0.3)).as_matrix())
    close(drift, [0, 0, np.cos(0.3), 0, 0, 0])
    close(product, [0, 0, -np.sin(0.3), 0, 0, 0])

    def turn(rate):
        motion = Wobble(jnp.zeros(1), jnp.ones(1), rate[None])
        return joints.Driven(joints.Revolute(), motion).at_time(0.3).drift(none)[2]

    close(jax.jit(jax.grad(turn))(2.0), np.cos(0.6) - 0.6 * np.sin(0.6))


def test_constant_velocity():
    velocity, none = jnp.arange(1.0, 7.0), jnp.zeros(0)
    start = joints.Free().random(jax.random.key(4))
    joint = joints.ConstantVelocity(joints.Free(), velocity, start)
    close(joint.transform(none).matrix, joints.Free().transform(start).matrix)
    later = joint.at_time(0.3)
    close(later.transform(none).matrix, (joint.transform(none) @ SE3.exp(0.3 * velocity)).matrix)
    close(later.drift(none), velocity, 1e-13)
    close(later.velocity_product(none, none), np.zeros(6), 1e-11)
    assert later.rheonomic and joints.Composite([joints.Revolute(), later]).rheonomic
    assert not joints.Composite([joints.Revolute()]).rheonomic


def test_stacked_joints_take_one_time():
    one, other = (joints.ConstantVelocity(joints.Revolute(), [speed]) for speed in (2.0, 3.0))
    both = jax.tree.map(lambda *leaves: np.stack(leaves), one, other)

    @jax.jit
    def turned(both):
        rotation = lambda joint: joint.transform(jnp.zeros(0)).rotation
        drifts = jax.vmap(lambda joint: rotation(joint.at_time(jnp.array(0.5))))(both)
        return drifts, jax.vmap(rotation)(both.at_time(jnp.array(0.5)))

    drifts, at_once = turned(both)
    close(drifts, Rotation.from_euler("z", [[1.0], [1.5]]).as_matrix())
    close(at_once, drifts)


@pytest.mark.slow
def test_spline_through_a_screw():
    """Frames at equal steps of one screw (Sueda eq. 2.67): the curve is that screw, at any parameter of an open spline."""
    step = jnp.array([0.3, -0.2, 0.5, 1.0, 0.4, -0.6])
    frames = SE3.exp(jnp.outer(jnp.arange(6.0), step))
    joint = joints.SplineCurve(frames, cyclic=False)
    for q in (jnp.array([0.0]), jnp.array([1.7]), jnp.array([3.0]), jnp.array([-0.5]), jnp.array([3.5])):
        close(joint.transform(q).matrix, SE3.exp((1 + q[0]) * step).matrix, 1e-13)
        close(joint.motion_subspace(q)[:, 0], step, 1e-13)
        close(joint.subspace_rate(q, jnp.array([1.3])), np.zeros((6, 1)), 1e-13)


def test_spline_of_points_and_of_equal_frames():
    """Pure displacements give the spline of Sueda's eq. 2.62, and equal frames give that frame."""
    points = np.random.default_rng(0).normal(size=(6, 3))
    joint = joints.SplineCurve(Transform.from_position(jax.device_put(points)))
    place = jax.jit(lambda q: joint.transform(q).position)
    basis = np.array([[1, -3, 3, -1], [4, 0, -6, 3], [1, 3, 3, -3], [0, 0, 0, 1]]) / 6
    s = 0.3
    for first in (1, 4):
        acting = points[(first + np.arange(4)) % 6]
        close(place(np.array([first + s])), acting.T @ basis @ [1, s, s**2, s**3])
    frame = jax.tree.map(lambda x: np.asarray(x)[0], control_frames(4))
    same = joints.SplineCurve(jax.device_put(jax.tree.map(lambda x: np.stack([x] * 5), frame)))
    placed, subspace = jax.jit(lambda q: (same.transform(q), same.motion_subspace(q)))(np.array([2.4]))
    close(placed.rotation, frame.rotation)
    close(placed.position, frame.position)
    close(subspace, np.zeros((6, 1)))


@pytest.mark.slow
def test_spline_closes_and_is_smooth():
    """A cyclic curve returns after n segments; transform, S and dS/dq are continuous at the knots (Sueda algorithm 3)."""
    joint = FAMILIES["spline curve"]

    @jax.jit
    @jax.vmap
    def curve(q):
        return joint.transform(q).matrix, joint.motion_subspace(q), joint.subspace_rate(q, jnp.ones(1))

    q = jnp.array([0.3, 2.0, 4.9, -1.2])[:, None]
    for here, there in zip(curve(q), curve(q + 6)):
        close(here, there, 1e-12)
    knots = jnp.arange(0.0, 7.0)[:, None]
    for before, after in zip(curve(knots - 1e-12), curve(knots + 1e-12)):
        close(before, after, 1e-10)


def algorithm_4(controls, q1, q2):
    """Returns Q, S and dS/dq of a surface with one patch, as Sueda prints them."""
    basis = np.array([[1, -3, 3, -1], [4, 0, -6, 3], [1, 3, 3, -3], [0, 0, 0, 1]]) / 6
    powers = [
        lambda q: np.array([1, q, q**2, q**3]),
        lambda q: np.array([0, 1, 2 * q, 3 * q**2]),
        lambda q: np.array([0, 0, 2, 6 * q]),
    ]

    def f(k, *orders):
        i, j = orders.count(0), orders.count(1)
        return powers[i](q1) @ basis.T @ controls[:, :, k] @ basis @ powers[j](q2)

    directions = np.eye(6)[[3, 4, 5, 0, 1, 2]]
    placed, columns, slopes = Transform.identity(), np.zeros((2, 6)), np.zeros((2, 2, 6))
    for k, e in enumerate(directions):
        factor = SE3.exp(jnp.array(e * f(k)))
        back = np.asarray(factor.inverse().motion_matrix)
        placed = placed @ factor
        for i in range(2):
            carried = np.asarray(SE3.ad(jnp.array(columns[i])))
            columns[i] = e * f(k, i) + back @ columns[i]
            for j in range(2):
                slopes[i, j] = e * f(k, i, j) + back @ (slopes[i, j] + carried @ e * f(k, j))
    return placed, columns.T, np.moveaxis(slopes, -1, 0)


def test_surface_is_that_of_sueda():
    """Sueda's algorithm 4, on the second of the six patches."""
    controls = control_grid(5, 6)
    joint, q, v = joints.SplineSurface(controls), jnp.array([1.3, 0.6]), jnp.array([0.7, -0.4])
    placed, columns, slopes = algorithm_4(np.asarray(controls[1:5, :4]), 0.3, 0.6)
    close(joint.transform(q).matrix, placed.matrix)
    close(joint.motion_subspace(q), columns)
    close(joint.subspace_rate(q, v), slopes @ np.asarray(v))


FRAMES = control_frames(5)
REFUSED = {
    "zero axis": (lambda: joints.Helical((0, 0, 0)), "Helical: axis .* no direction"),
    "axis of two": (lambda: joints.Cylindrical((0, 1)), r"Cylindrical: axis has shape \(2,\)"),
    "zero normal": (lambda: joints.Planar((0, 0, 0)), "Planar: normal .* no direction"),
    "pitch of two": (
        lambda: joints.Helical(pitch=(1, 2)),
        r"Helical: pitch has shape \(2,\); it is one number",
    ),
    "infinite pitch": (lambda: joints.Helical(pitch=np.inf), "Helical: pitch is inf, which is not finite"),
    "radius of two": (lambda: joints.RackAndPinion((1, 2)), "RackAndPinion: radius has shape"),
    "parallel axes": (lambda: joints.Universal((1, 0, 0), (-2, 0, 0)), "Universal: .* are parallel"),
    "order": (
        lambda: joints.SphericalEuler("xxy"),
        "SphericalEuler: order is 'xxy'; it must be one of 'xyz', 'xzy', .*'zyz'",
    ),
    "joint of another kind": (
        lambda: joints.Driven(joints.Revolute, lambda time: time),
        "Driven: joint is the class Revolute; it takes an instance",
    ),
    "no frames": (lambda: joints.SplineCurve(np.ones((4, 3))), "SplineCurve: frames is a ndarray; it takes"),
    "no joints": (lambda: joints.Composite(()), "Composite: no joints"),
    "not a joint": (
        lambda: joints.Composite((joints.Fixed(), 3)),
        r"Composite: joints\[1\] is a int; it takes an instance",
    ),
    "motion's size": (
        lambda: joints.Driven(joints.Free(), lambda time: time * jnp.ones(6)),
        r"Driven: motion returns .* \(6,\); expected \(7,\)",
    ),
    "velocity's size": (
        lambda: joints.ConstantVelocity(joints.Revolute(), 3.0),
        r"ConstantVelocity: velocity has shape \(\); it is an array of shape \(1,\)",
    ),
    "start's size": (
        lambda: joints.ConstantVelocity(joints.Spherical(), np.ones(3), np.ones(3)),
        r"ConstantVelocity: start has shape \(3,\); it is an array of shape \(4,\)",
    ),
    "one frame": (lambda: joints.SplineCurve(FRAMES[0]), "SplineCurve: frames has rotations"),
    "three frames": (lambda: joints.SplineCurve(FRAMES[:3]), "SplineCurve: 3 control frames"),
    "grid's shape": (lambda: joints.SplineSurface(np.ones((4, 4, 3))), r"controls has shape \(4, 4, 3\)"),
    "grid's size": (lambda: joints.SplineSurface(np.ones((4, 3, 6))), "grid of 4 x 3 controls"),
}


@pytest.mark.parametrize("make, message", REFUSED.values(), ids=REFUSED)
def test_refused(make, message, monkeypatch):
    """The functions check arguments themselves, as users have no annotation checks."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(ValueError, match=message):
        make()


def test_parameters_may_be_traced():
    """A model can be built under a transformation: traced values are not checked."""

    def height(pitch, axis):
        return joints.Helical(axis, pitch).transform(jnp.array([0.7])).position[2]

    close(jax.jit(jax.grad(height))(jnp.array(0.2), jnp.array([0.0, 0.0, 2.0])), 0.7)


def test_all_families_are_covered():
    made = {type(joint) for joint in FAMILIES.values()}
    public = {cls for cls in vars(joints).values() if isinstance(cls, type) and issubclass(cls, Joint)}
    # A joint in a plane has vectors of three; it has a separate test file.
    assert public - made == {Joint, joints.ConstantSubspaceJoint, joints.InPlane}
