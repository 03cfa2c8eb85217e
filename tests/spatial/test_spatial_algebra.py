"""The identities of the six-dimensional algebra (book ch. 2 and app. A), on random samples, in plain NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rbd_jax import Inertia, Transform, spatial
from rbd_jax._core.array import skew
from rbd_jax._core.errors import ModelError
from rbd_jax.lie import SO3
from rbd_jax.spatial import Screw


SAMPLES = 7
rng = np.random.default_rng(0)


def some(*shape):
    return jnp.asarray(rng.normal(size=(SAMPLES, *shape)))


V, M, F = some(6), some(6), some(6)
PLACED = Transform(jax.jit(SO3.exp)(some(3)), some(3))
OTHER = Transform(jax.jit(SO3.exp)(some(3)), some(3))


def some_inertia():
    spread = rng.normal(size=(SAMPLES, 3, 3))
    central = jnp.asarray(spread @ np.swapaxes(spread, 1, 2) + np.eye(3))
    return Inertia.from_mass_com(jnp.asarray(rng.uniform(0.5, 2.0, SAMPLES)), some(3), central)


BODY = some_inertia()


def array(x):
    return np.asarray(x)


def inverse(matrix):
    return np.linalg.inv(array(matrix))


def apply(matrix, x):
    return np.einsum("nij,nj->ni", array(matrix), array(x))


def transpose(matrix):
    return np.swapaxes(array(matrix), 1, 2)


def assert_close(a, b, tolerance=1e-13):
    """Allows for a few dozen rounding errors of numbers of size ten."""
    np.testing.assert_allclose(array(a), array(b), rtol=tolerance, atol=10 * tolerance)


# Three-dimensional vectors: table 2.1.


def test_cross_matrix():
    """Table 2.1."""
    a, b, c = (array(x) for x in (some(3), some(3), some(3)))
    rotation = array(PLACED.rotation)
    s = lambda x: array(skew(jnp.asarray(x)))
    eye = np.eye(3)
    outer = lambda x, y: x[:, :, None] * y[:, None, :]
    dot = np.sum(a * b, axis=1)[:, None, None]
    assert_close(apply(s(a), b), np.cross(a, b))
    assert_close(s(2.5 * a), 2.5 * s(a))
    assert_close(s(a + b), s(a) + s(b))
    assert_close(s(a), -transpose(s(a)))
    assert_close(apply(s(a), b), -apply(s(b), a))
    assert_close(s(apply(rotation, a)), rotation @ s(a) @ transpose(rotation))
    assert_close(np.sum(apply(s(a), b) * c, axis=1), np.sum(a * np.cross(b, c), axis=1))
    assert_close(s(np.cross(a, b)), s(a) @ s(b) - s(b) @ s(a))
    assert_close(s(np.cross(a, b)), outer(b, a) - outer(a, b))
    assert_close(s(a) @ s(b), outer(b, a) - dot * eye)


# Transforms: eqs. 2.13 and 2.24 to 2.28.


def test_transform_matrices_are_dual():
    """Eq. 2.13."""
    assert_close(PLACED.force_matrix, transpose(inverse(PLACED.motion_matrix)), 1e-12)


def test_transform_matrix_is_the_books():
    """`ᴮX_A = [[E, 0], [-E r×, E]]` maps A to B, where the matrix here maps B to A; `E = Rᵀ`. Eqs. 2.24 and 2.25."""
    e, r = transpose(PLACED.rotation), array(skew(PLACED.position))
    book = np.block([[e, np.zeros_like(e)], [-e @ r, e]])
    assert_close(PLACED.inverse().motion_matrix, book)
    assert_close(inverse(PLACED.motion_matrix), book, 1e-12)
    assert_close(PLACED.inverse().force_matrix, np.block([[e, -e @ r], [np.zeros_like(e), e]]))


def test_transforms_chain():
    for kind in ("matrix", "motion_matrix", "force_matrix"):
        product = array(getattr(PLACED, kind)) @ array(getattr(OTHER, kind))
        assert_close(getattr(PLACED @ OTHER, kind), product)


def test_transforms_act_as_their_matrices():
    """Eqs. 2.24 to 2.28; Sueda eqs. 1.2, 1.4 and 1.15."""
    assert_close(PLACED.motion(M), apply(PLACED.motion_matrix, M))
    assert_close(PLACED.force(F), apply(PLACED.force_matrix, F))
    assert_close(PLACED.inverse_motion(M), apply(PLACED.inverse().motion_matrix, M))
    assert_close(PLACED.inverse_force(F), apply(PLACED.inverse().force_matrix, F))
    point = some(3)
    assert_close(
        PLACED.point(point), apply(PLACED.matrix, np.concatenate([point, np.ones((SAMPLES, 1))], 1))[:, :3]
    )
    assert_close((PLACED @ PLACED.inverse()).matrix, np.broadcast_to(np.eye(4), (SAMPLES, 4, 4)))


def test_power_does_not_depend_on_the_frame():
    """Eq. 2.12."""
    assert_close(spatial.power(PLACED.motion(M), PLACED.force(F)), spatial.power(M, F), 1e-12)


def test_xyz_rpy_turns_about_fixed_axes():
    """`Rz(yaw) Ry(pitch) Rx(roll)`, the inverse of the book's `E = rx(roll) ry(pitch) rz(yaw)` (eq. 4.7)."""
    angles = array(some(3))
    frames = Transform.from_xyz_rpy(some(3), jnp.asarray(angles))
    for rotation, (roll, pitch, yaw) in zip(array(frames.rotation), angles):
        about = lambda axis, angle: array(jax.jit(SO3.exp)(angle * np.eye(3)[axis]))
        assert_close(rotation, about(2, yaw) @ about(1, pitch) @ about(0, roll))


# Cross products: table 2.3.


def test_cross_products_are_their_matrices():
    assert_close(spatial.cross_motion(V, M), apply(spatial.cross_motion_matrix(V), M))
    assert_close(spatial.cross_force(V, F), apply(spatial.cross_force_matrix(V), F))
    assert_close(spatial.cross_force(V, F), apply(spatial.cross_force_operand_matrix(F), V))


def test_cross_product_identities():
    """Table 2.3."""
    u, v = array(V), array(M)
    crm = lambda x: array(spatial.cross_motion_matrix(jnp.asarray(x)))
    crf = lambda x: array(spatial.cross_force_matrix(jnp.asarray(x)))
    x, xf = array(PLACED.motion_matrix), array(PLACED.force_matrix)
    assert_close(crf(v), -transpose(crm(v)))
    assert_close(crm(2.5 * v), 2.5 * crm(v))
    assert_close(crm(u + v), crm(u) + crm(v))
    assert_close(apply(crm(u), v), -apply(crm(v), u))
    assert_close(crm(apply(x, v)), x @ crm(v) @ inverse(x), 1e-12)
    assert_close(crf(apply(x, v)), xf @ crf(v) @ inverse(xf), 1e-12)
    assert_close(crm(apply(crm(u), v)), crm(u) @ crm(v) - crm(v) @ crm(u), 1e-12)
    assert_close(crf(apply(crm(u), v)), crf(u) @ crf(v) - crf(v) @ crf(u), 1e-12)
    # (u × v) · f = -v · (u ×* f)
    assert_close(np.sum(apply(crm(u), v) * F, axis=1), -np.sum(v * apply(crf(u), F), axis=1), 1e-12)


def test_cross_product_is_the_rate_of_a_transform():
    """`d/dt ᴬX_B = v × ᴬX_B` if B moves at v: eq. 2.45 with A at rest."""

    def along(velocity, rotation, position, time):
        # To first order in time this is the motion with the spatial velocity v.
        turn = SO3.exp(time * velocity[:3])
        moved = Transform(turn, time * velocity[3:]) @ Transform(rotation, position)
        return moved.motion_matrix

    rate = jax.jit(jax.vmap(jax.jacfwd(along, 3), in_axes=(0, 0, 0, None)))
    seen = rate(V, PLACED.rotation, PLACED.position, jnp.zeros(()))
    expected = array(spatial.cross_motion_matrix(V)) @ array(PLACED.motion_matrix)
    assert_close(seen, expected)


# Inertia: §2.13 and §2.15, table 2.5.


def test_inertia_matrix_is_the_books():
    """`[[Ī_C + m c× c×ᵀ, m c×], [m c×ᵀ, m 1]]` (eq. 2.63), from and to its ten parameters."""
    c, m = array(skew(BODY.com)), array(BODY.mass)[:, None, None]
    expected = np.block(
        [[array(BODY.rotational_com) + m * c @ transpose(c), m * c], [m * transpose(c), m * np.eye(3)]]
    )
    assert_close(BODY.matrix, expected)
    assert_close(Inertia.from_parameters(BODY.parameters).matrix, expected)
    assert BODY.parameters.shape == (SAMPLES, 10)


def test_inertia_acts_as_its_matrix():
    """Momentum and kinetic energy, eqs. 2.61 and 2.67."""
    assert_close(BODY.momentum(V), apply(BODY.matrix, V))
    assert_close(BODY.kinetic_energy(V), 0.5 * np.sum(array(V) * apply(BODY.matrix, V), axis=1))


def test_inertia_transforms_by_congruence():
    """`ᴬI = ᴬX*_B ᴮI ᴮX_A` (eq. 2.66): the map from motions to forces of table 2.5."""
    congruent = array(PLACED.force_matrix) @ array(BODY.matrix) @ inverse(PLACED.motion_matrix)
    assert_close(BODY.placed(PLACED).matrix, congruent, 1e-12)
    articulated = spatial.ArticulatedInertia.from_rigid(BODY)
    assert_close(articulated.placed(PLACED).matrix, congruent, 1e-12)
    assert_close(articulated.matrix, BODY.matrix)


def test_articulated_inertia_transforms_by_congruence():
    """In the compact form of table A.3, by the formula of table A.4."""
    spread = array(some(6, 6))
    general = spread @ transpose(spread)
    inertia = spatial.ArticulatedInertia.from_matrix(jnp.asarray(general))
    assert_close(inertia.matrix, general)
    congruent = array(PLACED.force_matrix) @ general @ inverse(PLACED.motion_matrix)
    assert_close(inertia.placed(PLACED).matrix, congruent, 1e-12)
    assert_close(inertia.force(V), apply(general, V))
    assert_close((inertia + inertia).matrix, 2 * general)


def test_inverse_inertia_is_the_books():
    """Eq. 2.74."""
    assert_close(BODY.inverse_matrix, inverse(BODY.matrix), 1e-11)


def test_inverse_inertia_transforms_by_the_other_congruence():
    """The map from forces to motions of table 2.5: `ᴬΦ = ᴬX_B ᴮΦ ᴮX*_A`."""
    x = array(PLACED.motion_matrix)
    expected = x @ array(BODY.inverse_matrix) @ transpose(x)
    assert_close(BODY.placed(PLACED).inverse_matrix, expected, 1e-10)


def test_inertias_add_as_their_matrices():
    """Sueda eq. 1.26, in one frame."""
    other = some_inertia()
    assert_close((BODY + other).matrix, array(BODY.matrix) + array(other.matrix))


def test_rate_of_a_moving_inertia():
    """`dI/dt = v×* I - I v×` (eq. 2.65), by differentiating the placed inertia."""

    def along(velocity, parameters, time):
        turn = Transform(SO3.exp(time * velocity[:3]), time * velocity[3:])
        return Inertia.from_parameters(parameters).placed(turn).matrix

    rate = jax.jit(jax.vmap(jax.jacfwd(along, 2), in_axes=(0, 0, None)))(V, BODY.parameters, jnp.zeros(()))
    matrix = array(BODY.matrix)
    crf, crm = array(spatial.cross_force_matrix(V)), array(spatial.cross_motion_matrix(V))
    assert_close(rate, crf @ matrix - matrix @ crm, 1e-12)


@pytest.mark.parametrize(
    "inertia, principal",
    [
        # ∫ (y² + z²) dm over the shapes, computed by hand.
        (Inertia.box(12.0, (1.0, 2.0, 3.0)), (13.0, 10.0, 5.0)),
        (Inertia.sphere(5.0, 2.0), (8.0, 8.0, 8.0)),
        (Inertia.cylinder(12.0, 2.0, 3.0), (21.0, 21.0, 24.0)),
    ],
    ids=["box", "sphere", "cylinder"],
)
def test_uniform_shapes(inertia, principal):
    """The cuboid is Sueda's eq. 1.24."""
    assert_close(inertia.rotational_com, np.diag(principal))
    assert_close(inertia.com, np.zeros(3))


def test_uniform_shapes_anywhere():
    com = np.array([0.3, -0.2, 0.5])
    moved = Inertia.box(12.0, (1.0, 2.0, 3.0), com)
    assert_close(moved.com, com)
    assert_close(moved.rotational_com, np.diag([13.0, 10.0, 5.0]))


# Screws and accelerations.


def test_screw_is_line_and_free_vector():
    """`[s; s_O] = [s; s_O - h s] + [0; h s]`: a rotation about a line, and a slide along it (eq. 2.10)."""
    screw = jax.jit(Screw.of_motion)(V)
    direction, point = array(screw.direction), array(screw.point)
    size, pitch = array(screw.magnitude)[:, None], array(screw.pitch)[:, None]
    turn = size * direction
    assert_close(np.concatenate([turn, np.cross(point, turn) + pitch * turn], axis=1), V)
    assert_close(np.sum(direction**2, axis=1), np.ones(SAMPLES))
    assert_close(np.sum(point * direction, axis=1), np.zeros(SAMPLES))


def test_screw_of_a_force_is_its_line_of_action():
    """A force has the parts exchanged: f is the line's direction, and `n_O = r × f + h f`."""
    screw = jax.jit(Screw.of_force)(F)
    force = array(screw.magnitude)[:, None] * array(screw.direction)
    moment = np.cross(array(screw.point), force) + array(screw.pitch)[:, None] * force
    assert_close(np.concatenate([moment, force], axis=1), F)


def test_screw_of_a_slide_and_of_nothing():
    slide = jax.jit(Screw.of_motion)(jnp.array([0.0, 0.0, 0.0, 0.0, 3.0, 4.0]))
    assert np.isposinf(slide.pitch)
    assert_close(slide.magnitude, 5.0)
    assert_close(slide.direction, [0.0, 0.6, 0.8])
    nothing = jax.jit(Screw.of_motion)(jnp.zeros(6))
    assert_close(nothing.direction, np.zeros(3))
    assert nothing.pitch == 0 and nothing.magnitude == 0


def test_spatial_and_classical_acceleration():
    """§2.11: steady rotation about a fixed axis has no spatial acceleration; its points have centripetal acceleration."""
    spin, arm = np.array([0.0, 0.0, 3.0]), np.array([2.0, 0.0, 0.0])
    # A point at `arm` from the axis: velocity ω × r, classical acceleration ω × (ω × r).
    velocity = jnp.asarray(np.concatenate([spin, np.cross(spin, arm)]))
    classical = spatial.classical_acceleration(velocity, jnp.zeros(6))
    assert_close(classical, [0, 0, 0, -18.0, 0, 0])
    assert_close(spatial.spatial_acceleration(velocity, classical), np.zeros(6))


def test_classical_and_spatial_acceleration_are_inverse():
    assert_close(spatial.spatial_acceleration(V, spatial.classical_acceleration(V, M)), M)
    difference = array(spatial.classical_acceleration(V, M)) - array(M)
    expected = np.concatenate([np.zeros((SAMPLES, 3)), np.cross(array(V)[:, :3], array(V)[:, 3:])], axis=1)
    assert_close(difference, expected)


def test_capsule():
    """The limits are a ball and a rod; a fine mesh of one has the same inertia (below)."""
    central = lambda inertia: np.diag(inertia.rotational_com)
    np.testing.assert_allclose(
        central(Inertia.capsule(3.0, 0.2, 0.0)), central(Inertia.sphere(3.0, 0.2)), rtol=1e-14
    )
    thin = central(Inertia.capsule(3.0, 1e-9, 2.0))
    np.testing.assert_allclose(thin, [1.0, 1.0, 0.0], atol=1e-8)


CUBE = np.array([(x, y, z) for x in (0.0, 1.0) for y in (0.0, 1.0) for z in (0.0, 1.0)])
CUBE_FACES = np.array(
    [
        *[(0, 1, 3), (0, 3, 2), (4, 6, 7), (4, 7, 5), (0, 4, 5), (0, 5, 1)],
        *[(2, 3, 7), (2, 7, 6), (0, 2, 6), (0, 6, 4), (1, 5, 7), (1, 7, 3)],
    ]
)


def revolved(profile, count):
    """Returns a closed mesh around z through rings of the given `(radius, height)`, from the lowest point to the highest."""
    rings, angles = profile[1:-1], 2 * np.pi * np.arange(count) / count
    vertices = [(0.0, 0.0, profile[0][1])]
    for radius, height in rings:
        vertices += [(radius * np.cos(a), radius * np.sin(a), height) for a in angles]
    vertices.append((0.0, 0.0, profile[-1][1]))
    at = lambda ring, i: 1 + ring * count + i % count
    faces = []
    for i in range(count):
        faces.append((0, at(0, i + 1), at(0, i)))
        faces.append((len(vertices) - 1, at(len(rings) - 1, i), at(len(rings) - 1, i + 1)))
        for ring in range(len(rings) - 1):
            faces.append((at(ring, i), at(ring, i + 1), at(ring + 1, i + 1)))
            faces.append((at(ring, i), at(ring + 1, i + 1), at(ring + 1, i)))
    return np.array(vertices), np.array(faces)


def test_meshes():
    sides, corner = np.array([1.0, 2.0, 3.0]), np.array([0.3, -0.2, 5.0])
    found = Inertia.from_mesh(corner + sides * CUBE, CUBE_FACES, density=2.0)
    expected = Inertia.box(12.0, sides, corner + sides / 2)
    np.testing.assert_allclose(found.parameters, expected.parameters, rtol=1e-13, atol=1e-13)
    found = Inertia.from_mesh(corner + sides * CUBE, CUBE_FACES, mass=12.0)
    np.testing.assert_allclose(found.parameters, expected.parameters, rtol=1e-13, atol=1e-13)

    angles = np.linspace(-np.pi / 2, 0, 40)
    lower = [(0.2 * np.cos(a), -0.5 + 0.2 * np.sin(a)) for a in angles]
    profile = [*lower, *[(radius, -height) for radius, height in reversed(lower)]]
    found = Inertia.from_mesh(*revolved(profile, 120), mass=3.0)
    expected = Inertia.capsule(3.0, 0.2, 1.0)
    np.testing.assert_allclose(found.parameters, expected.parameters, rtol=2e-3, atol=1e-12)


def test_mesh_derivatives():
    """Derivatives with respect to vertices match differences; a rotated mesh has the rotated inertia."""
    vertices = jnp.asarray(CUBE) + 0.1 * jax.random.normal(jax.random.key(0), CUBE.shape)

    def weigh(vertices):
        return Inertia.from_mesh(vertices, CUBE_FACES, density=1.5).parameters

    direction = jax.random.normal(jax.random.key(1), CUBE.shape)
    _, found = jax.jvp(weigh, (vertices,), (direction,))
    expected = (weigh(vertices + 1e-5 * direction) - weigh(vertices - 1e-5 * direction)) / 2e-5
    np.testing.assert_allclose(found, expected, atol=1e-9)
    frame = Transform.from_xyz_rpy((0.4, -1.0, 2.0), (0.3, 0.8, -1.1))
    moved = Inertia.from_mesh(jax.vmap(frame.point)(vertices), CUBE_FACES, density=1.5)
    np.testing.assert_allclose(
        moved.parameters,
        Inertia.from_mesh(vertices, CUBE_FACES, density=1.5).placed(frame).parameters,
        atol=1e-12,
    )


def test_bad_meshes():
    for faces, said in [
        (CUBE_FACES[:-1], "not closed"),
        (CUBE_FACES[:, ::-1], "encloses the volume -1"),
        (np.concatenate([CUBE_FACES[:-1], CUBE_FACES[-1:, ::-1]]), "not closed"),
        (CUBE_FACES + 1, "one of the 8"),
        (CUBE_FACES.astype(float), "integers"),
    ]:
        with pytest.raises(ModelError, match=said):
            Inertia.from_mesh(CUBE, faces, density=1.0)
    with pytest.raises(ModelError, match="either density or mass"):
        Inertia.from_mesh(CUBE, CUBE_FACES)


def placed_box():
    box = Inertia.box(2.0, (1.0, 0.2, 0.3), (0.1, 0.2, 0.3))
    return box.placed(Transform.from_xyz_rpy((0.3, 0.0, 0.0), (0.3, 0.4, 0.5)))


@pytest.mark.parametrize(
    "make", [placed_box, lambda: Inertia.sphere(1.0, 0.1, (0.2, 0.0, 0.0)), Inertia.zero]
)
def test_principal_frame(make):
    """The inertia is diagonal in it, for three, two or no distinct moments, and for a zero inertia. Sueda §1.7."""
    inertia = make()
    frame, moments = inertia.principal()
    assert np.all(np.diff(moments) >= -1e-15) and abs(np.linalg.det(frame.rotation) - 1) < 1e-12
    seen = Inertia.from_mass_com(inertia.mass, np.zeros(3), np.diag(moments))
    np.testing.assert_allclose(seen.placed(frame).matrix, inertia.matrix, atol=1e-14)


def test_derivatives_of_the_principal_frame():
    """They match differences for distinct moments; otherwise they are finite, with correct sums of moments."""
    inertia, other = placed_box(), Inertia.box(0.5, (0.1, 0.4, 0.2), (0.5, 0.0, -0.2))

    @jax.jit
    def joined(s):
        """Returns the entries of principal frame and moments of both bodies combined, and their derivatives."""
        both = lambda s: jax.tree.map(lambda a, b: a + s * b, inertia, other).principal()
        found = jax.jvp(both, (s,), (1.0,))
        return [jnp.concatenate([x.reshape(-1) for x in jax.tree.leaves(tree)]) for tree in found]

    (ahead, _), (behind, _) = (jax.device_get(joined(s)) for s in (0.3 + 1e-6, 0.3 - 1e-6))
    np.testing.assert_allclose(joined(0.3)[1], (ahead - behind) / 2e-6, atol=1e-8)
    frame, moments = jax.jit(jax.jacrev(lambda r: Inertia.sphere(2.0, r).principal()))(0.1)
    np.testing.assert_allclose(moments, 0.8 * 2.0 * 0.1 * np.ones(3), rtol=1e-12)
    assert np.isfinite(frame.rotation).all()
