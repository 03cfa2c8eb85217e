"""Numbers and worked examples that Featherstone's book prints (*Rigid Body Dynamics Algorithms*, 2008), by section.

Where a number is not printed to full precision, the further digits come from a separate computation in NumPy.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd
from rbd_jax import joints, spatial
from rbd_jax.spatial import planar


def zigzag_arm(links):
    """A planar arm of unit rods about z: unit mass and length, the centre halfway, 1/12 about it (fig. 10.3)."""
    builder = rbd.ModelBuilder(gravity=(0.0, 0.0, 0.0), name="zigzag")
    rod = rbd.Inertia.from_mass_com(1.0, (0.5, 0.0, 0.0), np.diag([0.01, 1 / 12, 1 / 12]))
    parent, placement = "world", rbd.Transform.identity()
    for link in range(links):
        parent = builder.add_body(f"link{link}", parent, joints.Revolute(), placement, rod)
        placement = rbd.Transform.from_xyz_rpy((1.0, 0.0, 0.0))
    return builder.build()


# §10.2: sensitivity.


@pytest.fixture(scope="module")
def arm():
    """The arm at ±75°, and its mass matrix."""
    model = zigzag_arm(6)
    # The first angle only turns the whole arm.
    q = jnp.deg2rad(75.0) * jnp.array([0.3, -1.0, 1.0, -1.0, 1.0, -1.0])
    return model, q, np.asarray(jax.jit(rbd.mass_matrix)(model, q))


def test_zigzag_arm_force(arm):
    """`τ_d` for unit accelerations, printed 126.4936…, 97.4663…, 69.9762…, 43.7998…, 21.9371…, 6.1646…"""
    model, q, mass = arm
    expected = [
        126.493675942598,
        97.46632361701,
        69.976228435536,
        43.799847533486,
        21.937180910858,
        6.164685702961,
    ]
    tau = jax.jit(rbd.inverse_dynamics)(model, q, jnp.zeros(6), jnp.ones(6))
    np.testing.assert_allclose(tau, expected, rtol=1e-13)
    np.testing.assert_allclose(mass @ np.ones(6), expected, rtol=1e-13)
    np.testing.assert_array_equal(
        np.floor(1e4 * np.asarray(tau)), [1264936, 974663, 699762, 437998, 219371, 61646]
    )


def test_zigzag_arm_response_to_rounded_forces(arm):
    """Forces rounded to three digits. The first entry is printed as 0.6952, with two of its digits exchanged."""
    model, q, mass = arm
    rounded = jnp.array([126, 97.5, 70.0, 43.8, 21.9, 6.16])
    expected = [0.6592, 1.3654, 1.3808, 0.5894, 0.9057, 1.0705]
    # The printed digits: to within half of the last one.
    for acceleration in (
        jax.jit(rbd.forward_dynamics)(model, q, jnp.zeros(6), rounded),
        jax.jit(rbd.solve_mass_matrix)(model, q, rounded),
        np.linalg.solve(mass, rounded),
    ):
        np.testing.assert_allclose(acceleration, expected, rtol=0, atol=0.5e-4)
        # "As much as 40 % off, despite forces accurate to better than 0.5 %: a factor of more than 80."
        off = np.abs(np.asarray(acceleration) - 1).max()
        error = np.abs(np.asarray(rounded) / (mass @ np.ones(6)) - 1).max()
        assert 0.40 < off < 0.42 and error < 0.005 and off / error > 80


def test_zigzag_arm_condition(arm):
    """Printed 725. §10.2."""
    mass = arm[2]
    np.testing.assert_allclose(np.linalg.cond(mass), 725.3876281417465, rtol=1e-11)
    first = [46.058667, 33.784190, 23.992076, 13.976419, 6.960762, 1.721562]
    np.testing.assert_allclose(mass[0], first, rtol=0, atol=0.6e-6)
    np.testing.assert_allclose(mass[5, 5], 1 / 3, rtol=1e-14)


@pytest.mark.parametrize("links, expected", [(4, 1074.4), (6, 5685.1), (10, 43523.4)])
def test_worst_condition_is_about_four_times_the_fourth_power(links, expected):
    """The straight arm's; the book gives `4 N⁴`: 5184 for six links, 40 000 for ten."""
    condition = np.linalg.cond(jax.jit(rbd.mass_matrix)(zigzag_arm(links), jnp.zeros(links)))
    np.testing.assert_allclose(condition, expected, rtol=0, atol=0.06)
    assert 1 < condition / (4 * links**4) < 1.1


# §10.1: round-off far from the origin.


def accelerate(inertia, velocity, force, algebra):
    """`a = I⁻¹ (f - v ×* I v)`, and the matrix and the right-hand side of that."""
    right = force - algebra.cross_force(velocity, inertia.momentum(velocity))
    return jnp.linalg.solve(inertia.matrix, right), inertia.matrix, right


def seen_from_origin(center, dtype=jnp.float64):
    """The example's body: at `v_C = [1, 0, 0]` under `f_C = [1, -1, 1]`, its centre at `center`, seen from O."""
    x, y = center
    cast = partial(jnp.asarray, dtype=dtype)
    frame = planar.Transform(cast(0.0), cast(center))
    body = planar.Inertia.from_mass_com(cast(1.0), cast((0.0, 0.0)), cast(1.0))
    velocity, force = frame.motion(cast([1.0, 0, 0])), frame.force(cast([1.0, -1, 1]))
    solution = accelerate(body.placed(frame), velocity, force, planar)
    return (*solution, np.array([1, y - 1, 1 - x]), frame)


def test_planar_body_far_from_the_origin():
    """The book's numbers for the centre (100, 10)."""
    a, matrix, right, exact, _ = seen_from_origin((100.0, 10.0))
    np.testing.assert_array_equal(matrix, [[10101, -10, 100], [-10, 1, 0], [100, 0, 1]])
    np.testing.assert_array_equal(right, [111, -1, 1])
    # Printed: a condition of 1.02e8, and solved in double precision an error of the order of 1e-12.
    np.testing.assert_allclose(np.linalg.cond(matrix), 1.0205e8, rtol=1e-3)
    np.testing.assert_allclose(a, exact, rtol=0, atol=1e-10)
    assert np.linalg.norm(a - exact) / np.linalg.norm(exact) < 1e-11


def test_spatial_body_far_from_the_origin():
    """The same body in space: the planar result among zeros."""
    center = jnp.array([100.0, 10.0, 0.0])
    frame = rbd.Transform.from_position(center)
    body = rbd.Inertia.from_mass_com(1.0, jnp.zeros(3), jnp.eye(3)).placed(frame)
    in_plane = jnp.array([2, 3, 4])
    place = lambda x: jnp.zeros(6).at[in_plane].set(jnp.asarray(x))
    velocity, force = frame.motion(place([1.0, 0, 0])), frame.force(place([1.0, -1, 1]))
    a, matrix, _ = accelerate(body, velocity, force, spatial)
    np.testing.assert_allclose(a, place([1.0, 9, -99]), rtol=0, atol=1e-10)
    np.testing.assert_allclose(matrix[2, 2], 10101)


def round_off(distance, dtype):
    """The error of the acceleration of the centre, as a mean over directions to it."""
    errors = []
    for angle in np.linspace(0.1, 6.2, 12):
        center = distance * np.array([np.cos(angle), np.sin(angle)])
        a, *_, frame = seen_from_origin(center, dtype)
        errors.append(np.abs(np.asarray(frame.inverse_motion(a)) - [1, -1, 1]).max())
    return np.mean(errors)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_round_off_grows_with_the_square_of_the_distance(dtype):
    """Fig. 10.1: "in proportion to |c|² for |c| > 1, and constant below"."""
    unit = np.finfo(dtype).eps
    near, here, far, further = (round_off(distance, dtype) for distance in (0.01, 1.0, 10.0, 100.0))
    # The sizes to within a factor of ten, which the algorithm of the solver and the directions may cost.
    assert near < 5 * unit and here < 10 * unit
    assert 1 < far / (unit * 10**2) * 10 and far < unit * 10**2 * 10
    assert further < unit * 100**2 * 10
    assert 10 < further / far < 1000


# §6.5 and §4.1.4: sets on the tree.


def from_book(parents):
    """A tree from the book's parent array, which counts bodies from 1 and the root as 0."""
    return rbd.Tree([parent - 1 for parent in parents])


def test_expanded_parent_array():
    """Table 6.4: λ = (0, 1, 1, 2, 2, 3) and a joint 2 with three degrees of freedom give λ' = (0, 1, 2, 3, 1, 4, 4, 5)."""
    expanded = from_book((0, 1, 1, 2, 2, 3)).expanded([1, 3, 1, 1, 1, 1])
    assert tuple(parent + 1 for parent in expanded.parents) == (0, 1, 2, 3, 1, 4, 4, 5)


def test_sets_of_a_tree():
    """§4.1.4: κ, the joints on the way to the root; ν, the bodies of the subtree; μ, the children.

    The figure's parents of bodies 6 and 7, of which nothing is said but that joint 4 carries them, are chosen.
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


# §2.16 and §7.1: how many numbers an inertia has.


def test_numbers_of_an_inertia():
    """Ten for a rigid body, four in the plane; 21 for an articulated body."""
    body = rbd.Inertia.sphere(2.0, 0.3)
    assert body.parameters.shape == (10,)
    flat = planar.Inertia.from_mass_com(1.0, jnp.zeros(2), 1.0)
    assert flat.parameters.shape == (4,)
    articulated = spatial.ArticulatedInertia.from_rigid(body)
    assert sum(leaf.size for leaf in jax.tree.leaves(articulated)) == 21


# Example 7.1 and §7.2: articulated-body inertia.

BOX, CYLINDER = (2.0, 0.3), (1.5, 0.2)  # mass, moment of inertia


def box_and_cylinder(shift):
    """The box with a slot, and the cylinder in it that turns about x and slides along y; `shift` is its centre."""
    builder = rbd.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    mass, moment = BOX
    box = rbd.Inertia.from_mass_com(mass, jnp.zeros(3), moment * jnp.eye(3))
    builder.add_body("box", "world", joints.Free(), inertia=box)
    mass, moment = CYLINDER
    cylinder = rbd.Inertia.from_mass_com(mass, jnp.asarray(shift), moment * jnp.eye(3))
    within = joints.Composite((joints.Prismatic((0.0, 1.0, 0.0)), joints.Revolute((1.0, 0.0, 0.0))))
    builder.add_body("cylinder", "box", within, inertia=cylinder)
    return builder.build()


def projected(model, q):
    """`I^A = (J H⁻¹ Jᵀ)⁻¹` of the box (eq. 7.12)."""
    jacobian = rbd.jacobian(model, q, "box", frame="body")
    return jnp.linalg.inv(jacobian @ rbd.solve_mass_matrix(model, q, jacobian.T))


@pytest.mark.parametrize("shift", [(0.0, 0.0, 0.0), (0.3, -0.2, 0.5)], ids=["example", "general"])
def test_articulated_inertia_of_box_and_cylinder(shift):
    """Projection (7.12), assembly (7.19) and its form with inverse inertias (7.2, variant 1) agree; `I^a S = 0`."""
    model = box_and_cylinder(shift)
    inertia = np.asarray(jax.jit(projected)(model, rbd.neutral(model)))
    i1, i2 = np.asarray(model.inertias.matrix)
    s = np.zeros((6, 2))
    s[4, 0] = s[0, 1] = 1
    t = np.eye(6)[:, [1, 2, 3, 5]]
    apparent = i2 - i2 @ s @ np.linalg.inv(s.T @ i2 @ s) @ s.T @ i2
    np.testing.assert_allclose(apparent @ s, 0, atol=1e-14)
    np.testing.assert_allclose(inertia, i1 + apparent, atol=1e-12)
    phi1, phi2 = np.linalg.inv(i1), np.linalg.inv(i2)
    phi = phi1 - phi1 @ t @ np.linalg.inv(t.T @ (phi1 + phi2) @ t) @ t.T @ phi1
    np.testing.assert_allclose(inertia, np.linalg.inv(phi), atol=1e-12)
    if not any(shift):
        (m1, turn1), (m2, turn2) = BOX, CYLINDER
        printed = [turn1, turn1 + turn2, turn1 + turn2, m1 + m2, m1, m1 + m2]
        np.testing.assert_allclose(inertia, np.diag(printed), atol=1e-14)


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
    for joint, columns in table:
        np.testing.assert_allclose(joint.motion_subspace(joint.neutral()), np.transpose(columns), atol=1e-15)


def test_rack_and_pinion():
    """Example 4.6: `S = [0, 0, 1, r c, -r s, 0]`, `c_J = [0, 0, 0, -r s q̇², -r c q̇², 0]`."""
    r, q, speed = 0.4, 0.7, 1.3
    joint, c, s = joints.RackAndPinion(r), np.cos(q), np.sin(q)
    subspace = joint.motion_subspace(jnp.array([q]))[:, 0]
    product = joint.velocity_product(jnp.array([q]), jnp.array([speed]))
    np.testing.assert_allclose(subspace, [0, 0, 1, r * c, -r * s, 0], atol=1e-15)
    np.testing.assert_allclose(product, [0, 0, 0, -r * s * speed**2, -r * c * speed**2, 0], atol=1e-15)


def test_euler_angles():
    """Yaw, pitch and roll: eqs. 4.7 to 4.9."""
    q, w = np.array([0.4, -0.7, 1.1]), np.array([0.9, -0.3, 1.4])
    (s2, c2), (s3, c3) = ((np.sin(x), np.cos(x)) for x in q[1:])
    joint = joints.SphericalEuler("zyx")
    subspace = [[-s2, 0, 1], [c2 * s3, c3, 0], [c2 * c3, -s3, 0]]
    np.testing.assert_allclose(joint.motion_subspace(jnp.array(q))[:3], subspace, atol=1e-15)
    yp, yr, pr = w[0] * w[1], w[0] * w[2], w[1] * w[2]
    product = [
        -c2 * yp,
        -s2 * s3 * yp + c2 * c3 * yr - s3 * pr,
        -s2 * c3 * yp - c2 * s3 * yr - c3 * pr,
    ]
    seen = joint.velocity_product(jnp.array(q), jnp.array(w))
    np.testing.assert_allclose(seen, [*product, 0, 0, 0], atol=1e-15)
    rotation = joint.transform(jnp.array(q)).rotation
    np.testing.assert_allclose(rotation, rbd.Transform.from_xyz_rpy(rpy=q[::-1]).rotation, atol=1e-15)


def rate_of(joint, q, v):
    """`q̇` of one joint by its velocity."""
    return jax.jvp(lambda t: joint.integrate(q, t * v), (jnp.zeros(()),), (jnp.ones(()),))[1]


def test_configuration_rate_of_a_quaternion():
    """Eq. 4.13: `ṗ = ½ [[-p1, -p2, -p3], [p0, -p3, p2], [p3, p0, -p1], [-p2, p1, p0]] ω`."""
    p = np.array([0.5, -0.1, 0.7, 0.4])
    p /= np.linalg.norm(p)
    w = np.array([0.3, -0.8, 1.1])
    p0, p1, p2, p3 = p
    matrix = np.array([[-p1, -p2, -p3], [p0, -p3, p2], [p3, p0, -p1], [-p2, p1, p0]])
    rate = rate_of(joints.Spherical(), jnp.array(p), jnp.array(w))
    np.testing.assert_allclose(rate, matrix @ w / 2, atol=1e-15)


def test_configuration_rate_of_a_planar_joint():
    """Example 4.5, corrected: `[[1, 0, 0], [0, c, -s], [0, s, c]] α`; printed with terms in q that are not there."""
    q, alpha = jnp.array([0.7, 0.4, -1.2]), jnp.array([0.9, 0.3, -0.5])
    c, s = np.cos(0.7), np.sin(0.7)
    expected = np.array([[1, 0, 0], [0, c, -s], [0, s, c]]) @ alpha
    np.testing.assert_allclose(rate_of(joints.Planar(), q, alpha), expected, atol=1e-15)


# §2.11: accelerations.


def test_acceleration_of_a_body_that_turns_steadily():
    """The spatial acceleration of a body in steady rotation about a fixed axis is zero, wherever it is seen from."""
    model = zigzag_arm(1)
    a = jax.jit(rbd.body_accelerations)(model, jnp.array([0.4]), jnp.array([2.0]), jnp.zeros(1))
    np.testing.assert_allclose(a, np.zeros((1, 6)), atol=1e-15)
    velocity = spatial.cross_motion(jnp.zeros(6), jnp.zeros(6)).at[2].set(2.0)
    tip = rbd.Transform.from_position(jnp.array([1.0, 0.0, 0.0])).inverse_motion(velocity)
    np.testing.assert_allclose(
        spatial.classical_acceleration(tip, jnp.zeros(6))[3:], [-4.0, 0, 0], atol=1e-15
    )


# Conservation of energy and momentum, and the orders of the schemes.


def tumbling_pair():
    """Two bodies that float in free space, joined by a ball joint."""
    builder = rbd.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_body("body", "world", joints.Free(), inertia=rbd.Inertia.box(2.0, (0.5, 0.7, 1.1)))
    builder.add_body(
        "link",
        "body",
        joints.Spherical(),
        rbd.Transform.from_xyz_rpy((0.2, 0.4, 0.1), (0.3, 0.2, 0.1)),
        rbd.Inertia.box(1.0, (0.3, 0.9, 0.4), (0.1, 0.5, 0.0)),
    )
    return builder.build()


STEP, HALVINGS, STEPS = 0.08, 4, 160


def tumble(scheme):
    """States at one time, reached in 10, 20, 40, 80 and 160 steps, and the energy and momentum before and after."""
    model = tumbling_pair()
    q = rbd.neutral(model)
    v = 0.5 * jnp.array([0.8, -1.1, 0.6, 0.3, -0.2, 0.5, -0.9, 0.7, 1.2])

    def run(dt):
        return rbd.rollout(model, rbd.State(q, v), dt=dt, steps=STEPS, scheme=scheme)

    def invariants(q, v):
        return rbd.kinetic_energy(model, q, v), rbd.momentum(model, q, v)

    paths = jax.jit(jax.vmap(run))(jnp.asarray(STEP / 2.0 ** np.arange(HALVINGS + 1)))
    rows = np.arange(HALVINGS + 1), STEPS // 2**HALVINGS * 2 ** np.arange(HALVINGS + 1)
    ends = paths.q[rows], paths.v[rows]
    start_and_ends = jax.tree.map(lambda one, many: jnp.concatenate([one[None], many]), (q, v), ends)
    seen = jax.jit(jax.vmap(invariants))(*start_and_ends)
    before, after = jax.tree.map(lambda x: x[0], seen), jax.tree.map(lambda x: x[1:], seen)
    return jax.tree.map(np.asarray, (jnp.concatenate(ends, axis=1), after, before))


@pytest.mark.parametrize(
    "scheme, order",
    [(rbd.SemiImplicitEuler(), 1), (rbd.RungeKutta4(), 4)],
    ids=["euler", "rk4"],
)
@pytest.mark.slow
def test_order_of_accuracy_and_conservation(scheme, order):
    """Halving the step divides the error by `2^order`, also for quaternions, and that of energy and momentum."""
    ends, (energy, momentum), (energy0, momentum0) = tumble(scheme)
    steps = np.abs(np.diff(ends, axis=0)).max(axis=1)
    np.testing.assert_allclose(np.log2(steps[:-1] / steps[1:])[-2:], order, atol=0.15)
    drift = np.abs(energy - energy0) + np.abs(momentum - momentum0).max(axis=1)
    # The error of an invariant may fall faster than that of the state.
    assert np.all(np.log2(drift[:-1] / drift[1:]) > order - 0.3)
    if order == 4:
        assert drift[-1] < 1e-9
