"""Printed numbers and worked examples of Featherstone's *Rigid Body Dynamics Algorithms* (2008), by section.

A separate NumPy computation supplies further digits of numbers that are printed with low precision. The examples of
`test_acceptance.py` are not repeated.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from book_examples import zigzag_arm

import rbd_jax as rbd
from rbd_jax import joints, spatial
from rbd_jax.spatial import planar


# §10.2: sensitivity.


@pytest.mark.parametrize("links, expected", [(4, 1074.4), (6, 5685.1), (10, 43523.4)])
def test_worst_condition_is_about_four_times_the_fourth_power(links, expected):
    """Condition number of the straight arm. The book gives `4 N⁴`: 5184 for six links, 40 000 for ten."""
    condition = np.linalg.cond(rbd.mass_matrix(zigzag_arm(links), np.zeros(links)))
    np.testing.assert_allclose(condition, expected, rtol=0, atol=0.06)
    assert 1 < condition / (4 * links**4) < 1.1


# §10.1: round-off error far from the origin.


@jax.jit
@jax.vmap
def accelerate(center):
    """Solves the example in coordinates of O: `v_C = [1, 0, 0]`, `f_C = [1, -1, 1]`, body centered at `center`.

    Returns `a = I⁻¹ (f - v ×* I v)`, the matrix and the right-hand side of this equation, and the acceleration of the
    center.
    """
    cast = partial(jnp.asarray, dtype=center.dtype)
    frame = planar.Transform.from_angle(cast(0.0), center)
    body = planar.Inertia.from_mass_com(cast(1.0), cast((0.0, 0.0)), cast(1.0)).placed(frame)
    velocity, force = frame.motion(cast([1.0, 0, 0])), frame.force(cast([1.0, -1, 1]))
    right = force - planar.cross_force(velocity, body.momentum(velocity))
    a = jnp.linalg.solve(body.matrix, right)
    return a, body.matrix, right, frame.inverse_motion(a)


def test_planar_body_far_from_the_origin():
    """The book's numbers for the center (100, 10)."""
    x, y = 100.0, 10.0
    exact = np.array([1, y - 1, 1 - x])
    a, matrix, right, _ = (value[0] for value in jax.device_get(accelerate(np.array([[x, y]]))))
    np.testing.assert_array_equal(matrix, [[10101, -10, 100], [-10, 1, 0], [100, 0, 1]])
    np.testing.assert_array_equal(right, [111, -1, 1])
    # Printed: a condition number of 1.02e8, and an error of the order of 1e-12 in double precision.
    np.testing.assert_allclose(np.linalg.cond(matrix), 1.0205e8, rtol=1e-3)
    np.testing.assert_allclose(a, exact, rtol=0, atol=1e-10)
    assert np.linalg.norm(a - exact) / np.linalg.norm(exact) < 1e-11


def round_off(distances, dtype):
    """Returns the error of the center's acceleration at each distance, averaged over directions."""
    angles = np.linspace(0.1, 6.2, 12)
    directions = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    centers = (np.array(distances)[:, None, None] * directions).reshape(-1, 2)
    seen = np.asarray(accelerate(centers.astype(dtype))[3])
    return np.abs(seen - [1, -1, 1]).max(axis=1).reshape(len(distances), -1).mean(axis=1)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_round_off_grows_with_the_square_of_the_distance(dtype):
    """Fig. 10.1: "in proportion to |c|² for |c| > 1, and constant below"."""
    unit = np.finfo(dtype).eps
    near, here, far, further = round_off((0.01, 1.0, 10.0, 100.0), dtype)
    # The tolerance is a factor of ten, because errors depend on the linear solver and the directions.
    assert near < 5 * unit and here < 10 * unit
    assert 1 < far / (unit * 10**2) * 10 and far < unit * 10**2 * 10
    assert further < unit * 100**2 * 10
    assert 10 < further / far < 1000


# §6.5 and §4.1.4: sets of a tree.


def from_book(parents):
    """Returns a tree from the book's parent array, which numbers bodies from 1 and the root as 0."""
    return rbd.Tree([parent - 1 for parent in parents])


def test_expanded_parent_array():
    """Table 6.4: λ = (0, 1, 1, 2, 2, 3), where joint 2 has three degrees of freedom, gives λ' = (0, 1, 2, 3, 1, 4, 4, 5)."""
    expanded = from_book((0, 1, 1, 2, 2, 3)).expanded([1, 3, 1, 1, 1, 1])
    assert tuple(parent + 1 for parent in expanded.parents) == (0, 1, 2, 3, 1, 4, 4, 5)


def test_sets_of_a_tree():
    """§4.1.4: κ are the joints on the path to the root, ν the bodies of the subtree, and μ the children.

    The figure does not show the parents of bodies 6 and 7, only that joint 4 carries them. The parents here are an
    arbitrary choice.
    """
    tree = from_book((0, 1, 1, 0, 3, 4, 6, 4))
    path = lambda body: set(np.flatnonzero(tree.supports[body - 1]) + 1)
    subtree = lambda body: set(np.flatnonzero(tree.supports[:, body - 1]) + 1)
    children = lambda body: {i + 1 for i, parent in enumerate(tree.parents) if parent == body - 1}
    assert (path(1), path(2), path(3), path(8)) == ({1}, {1, 2}, {1, 3}, {4, 8})
    assert (subtree(1), subtree(2), subtree(8)) == ({1, 2, 3, 5}, {2}, {8})
    assert (children(0), children(1), children(2), children(8)) == ({1, 4}, {2, 3}, set(), set())
    # Σ_i Σ_{j ∈ κ(i)} = Σ_j Σ_{i ∈ ν(j)} (eq. 4.3)
    bodies = range(1, 9)
    assert {(i, j) for i in bodies for j in path(i)} == {(i, j) for j in bodies for i in subtree(j)}


# §2.16 and §7.1: the number of parameters of an inertia.


def test_numbers_of_an_inertia():
    """A rigid body has ten parameters, four in the plane; an articulated body has 21."""
    body = rbd.Inertia.sphere(2.0, 0.3)
    assert body.parameters.shape == (10,)
    flat = planar.Inertia.from_mass_com(1.0, np.zeros(2), 1.0)
    assert flat.parameters.shape == (4,)
    articulated = spatial.ArticulatedInertia.from_rigid(body)
    assert sum(leaf.size for leaf in jax.tree.leaves(articulated)) == 21


# §4.4: joint models.


def test_constant_motion_subspaces():
    """Table 4.1, in successor coordinates."""
    e = np.eye(6)
    table = [
        (joints.Revolute(), [e[2]]),
        (joints.Prismatic(), [e[5]]),
        (joints.Helical(pitch=0.3), [e[2] + 0.3 * e[5]]),
        (joints.Cylindrical(), [e[2], e[5]]),
        (joints.Planar(), [e[2], e[3], e[4]]),
        (joints.Spherical(), [e[0], e[1], e[2]]),
        (joints.Free(), e),
    ]
    found = jax.jit(lambda: [joint.motion_subspace(joint.neutral()) for joint, _ in table])()
    for subspace, (_, columns) in zip(found, table, strict=True):
        np.testing.assert_allclose(subspace, np.transpose(columns), atol=1e-15)


def test_rack_and_pinion():
    """Example 4.6: `S = [0, 0, 1, r c, -r s, 0]`, `c_J = [0, 0, 0, -r s q̇², -r c q̇², 0]`."""
    r, q, speed = 0.4, 0.7, 1.3
    joint, c, s = joints.RackAndPinion(r), np.cos(q), np.sin(q)
    seen = jax.jit(lambda q, v: (joint.motion_subspace(q)[:, 0], joint.velocity_product(q, v)))
    subspace, product = seen(np.array([q]), np.array([speed]))
    np.testing.assert_allclose(subspace, [0, 0, 1, r * c, -r * s, 0], atol=1e-15)
    np.testing.assert_allclose(product, [0, 0, 0, -r * s * speed**2, -r * c * speed**2, 0], atol=1e-15)


def test_euler_angles():
    """Yaw, pitch and roll, eqs. (4.7) to (4.9)."""
    q, w = np.array([0.4, -0.7, 1.1]), np.array([0.9, -0.3, 1.4])
    (s2, c2), (s3, c3) = ((np.sin(x), np.cos(x)) for x in q[1:])
    joint = joints.SphericalEuler("zyx")
    subspace = [[-s2, 0, 1], [c2 * s3, c3, 0], [c2 * c3, -s3, 0]]

    @jax.jit
    def seen(q, w):
        return joint.motion_subspace(q)[:3], joint.velocity_product(q, w), joint.transform(q).rotation

    found, velocity_product, rotation = seen(q, w)
    np.testing.assert_allclose(found, subspace, atol=1e-15)
    yp, yr, pr = w[0] * w[1], w[0] * w[2], w[1] * w[2]
    product = [
        -c2 * yp,
        -s2 * s3 * yp + c2 * c3 * yr - s3 * pr,
        -s2 * c3 * yp - c2 * s3 * yr - c3 * pr,
    ]
    np.testing.assert_allclose(velocity_product, [*product, 0, 0, 0], atol=1e-15)
    np.testing.assert_allclose(rotation, rbd.Transform.from_xyz_rpy(rpy=q[::-1]).rotation, atol=1e-15)


def rate_of(joint, q, v):
    """Returns `q̇` of one joint for a velocity."""
    return jax.jit(lambda q, v: jax.jvp(lambda t: joint.integrate(q, t * v), (0.0,), (1.0,))[1])(q, v)


def test_configuration_rate_of_a_quaternion():
    """Eq. 4.13: `ṗ = ½ [[-p1, -p2, -p3], [p0, -p3, p2], [p3, p0, -p1], [-p2, p1, p0]] ω`."""
    p = np.array([0.5, -0.1, 0.7, 0.4])
    p /= np.linalg.norm(p)
    w = np.array([0.3, -0.8, 1.1])
    p0, p1, p2, p3 = p
    matrix = np.array([[-p1, -p2, -p3], [p0, -p3, p2], [p3, p0, -p1], [-p2, p1, p0]])
    rate = rate_of(joints.Spherical(), p, w)
    np.testing.assert_allclose(rate, matrix @ w / 2, atol=1e-15)


def test_configuration_rate_of_a_planar_joint():
    """Example 4.5, corrected: `[[1, 0, 0], [0, c, -s], [0, s, c]] α`. The printed matrix has extra terms in q."""
    q, alpha = np.array([0.7, 0.4, -1.2]), np.array([0.9, 0.3, -0.5])
    c, s = np.cos(0.7), np.sin(0.7)
    expected = np.array([[1, 0, 0], [0, c, -s], [0, s, c]]) @ alpha
    np.testing.assert_allclose(rate_of(joints.Planar(), q, alpha), expected, atol=1e-15)


# §2.11: accelerations.


def test_acceleration_of_a_body_that_turns_steadily():
    """The spatial acceleration of a body in steady rotation about a fixed axis is zero in every frame."""
    model = zigzag_arm(1)
    a = rbd.body_accelerations(model, np.array([0.4]), np.array([2.0]), np.zeros(1))
    np.testing.assert_allclose(a, np.zeros((1, 6)), atol=1e-15)

    @jax.jit
    def at_the_tip(velocity, acceleration):
        tip = rbd.Transform.from_position(jnp.array([1.0, 0.0, 0.0])).inverse_motion(velocity)
        return spatial.classical_acceleration(tip, acceleration)

    seen = at_the_tip(np.array([0.0, 0.0, 2.0, 0.0, 0.0, 0.0]), np.zeros(6))
    np.testing.assert_allclose(seen[3:], [-4.0, 0, 0], atol=1e-15)
