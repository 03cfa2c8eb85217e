"""Gears as models: the book's two-link arm with motors (§9.6), and the limit of the elastic gear."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import assert_close, differences

import rbd_jax as rbd
from rbd_jax import forces


RATIOS = 7.0, -11.0
LINK = rbd.Inertia.box(3.0, (0.6, 0.1, 0.1), (0.3, 0.0, 0.0))
ROTOR = rbd.Inertia.cylinder(0.2, 0.03, 0.05, (0.0, 0.0, 0.02))
AT = rbd.Transform.from_xyz_rpy((0.1, 0.05, 0.0), (0.3, 0.0, 0.0))


def arm():
    builder = rbd.ModelBuilder(name="arm")
    builder.add_body("upper", joint=rbd.joints.Revolute(), inertia=LINK)
    elbow = rbd.Transform.from_xyz_rpy((0.6, 0.0, 0.0))
    builder.add_body("fore", "upper", rbd.joints.Revolute((0.0, 0.6, 0.8)), elbow, LINK)
    return builder.build()


def with_free_rotors():
    """Returns the tree without gear constraints.

    The book's joints are 1 upper, 3 fore, 2 and 4 the rotors; here the order is 1, 3, 2, 4.
    """
    builder = rbd.ModelBuilder.from_model(arm())
    builder.add_body("upper rotor", "world", rbd.joints.Revolute(), AT, ROTOR)
    builder.add_body("fore rotor", "upper", rbd.joints.Revolute(), AT, ROTOR)
    return builder.build()


def geared():
    model = forces.add_rotor(arm(), "upper", RATIOS[0], ROTOR, placement=AT)
    return forces.add_rotor(model, "fore", RATIOS[1], ROTOR, placement=AT)


Y, RATE, PUSH = (jnp.asarray(np.array(x)) for x in ([0.3, -0.8], [1.1, 0.7], [2.0, -1.0]))
G = np.array([[1.0, 0.0], [0.0, 1.0], [RATIOS[0], 0.0], [0.0, RATIOS[1]]])


@pytest.fixture(scope="module")
def dynamics():
    def ask(model, q, v):
        return rbd.mass_matrix(model, q), rbd.bias_force(model, q, v)

    rigid = geared()

    @jax.jit
    def everything():
        there = jnp.asarray(G) @ Y, jnp.asarray(G) @ RATE
        return (
            ask(with_free_rotors(), *there),
            ask(rigid, Y, RATE),
            rbd.forward_dynamics(rigid, Y, RATE, PUSH),
        )

    return everything()


def test_rotors_are_eliminated_as_the_book_says(dynamics):
    """`Gᵀ H G` and `Gᵀ C`, (9.26), for rotors as bodies on mimic joints."""
    (H, C), (reduced, bias), acceleration = dynamics
    np.testing.assert_allclose(reduced, G.T @ H @ G, rtol=1e-12)
    np.testing.assert_allclose(bias, G.T @ C, rtol=1e-12)
    np.testing.assert_allclose(acceleration, np.linalg.solve(G.T @ H @ G, PUSH - G.T @ C), rtol=1e-10)


def test_closed_form_of_the_book(dynamics):
    """(9.27), with the zeros of H from the tree's branches."""
    (H, _), (reduced, _), _ = dynamics
    H = np.asarray(H)
    (one, three, two, four), (r1, r2) = range(4), RATIOS
    assert H[one, two] == H[two, three] == H[two, four] == 0 and abs(H[three, four]) < 1e-15
    coupling = H[one, three] + r2 * H[one, four]
    expected = [
        [H[one, one] + r1**2 * H[two, two], coupling],
        [coupling, H[three, three] + r2**2 * H[four, four]],
    ]
    np.testing.assert_allclose(reduced, expected, rtol=1e-12)
    assert abs(H[one, four]) > 1e-5  # the coupling exists


def test_reflected_rotor():
    """(9.28): ρ² times the rotor's inertia, on the driven joint only."""
    model = forces.reflect_rotor(arm(), "fore", RATIOS[1], 2e-4)
    np.testing.assert_allclose(model.armature, [0.0, RATIOS[1] ** 2 * 2e-4], rtol=1e-12)


# Exact and approximate rotors.

#: Placement in its stator of a rotor that is axisymmetric about z.
PLACE = rbd.Transform.from_xyz_rpy((0.2, 0.05, -0.1), (0.4, 0.9, 0.0))
MOMENT = float(ROTOR.rotational_matrix[2, 2])


def wrist(stator_moves=True):
    """Returns a body that rotates in all directions, or only translates, with a hinge on it."""
    builder = rbd.ModelBuilder(name="wrist")
    carrier = rbd.joints.Spherical() if stator_moves else rbd.joints.Translational()
    builder.add_body("hand", joint=carrier, inertia=LINK)
    builder.add_body("finger", "hand", rbd.joints.Revolute((0.0, 0.6, 0.8)), (0.3, 0.0, 0.1), LINK)
    return builder.build()


def both_rotors(model, ratio, inertia=ROTOR):
    exact = forces.add_rotor(model, "finger", ratio, inertia, placement=PLACE)
    return exact, forces.reflect_rotor(model, "finger", ratio, inertia, placement=PLACE)


Q = np.array([0.8, 0.3, -0.4, 0.2, 0.7])
V = np.array([1.0, -2.0, 0.5, 3.0])


@pytest.fixture(scope="module")
def ask():
    def said(model, q, v):
        return rbd.mass_matrix(model, q), rbd.bias_force(model, q, v), rbd.kinetic_energy(model, q, v)

    compiled = jax.jit(said)
    return lambda model, q, v: jax.tree.map(np.asarray, compiled(model, q, v))


def test_what_the_approximate_rotor_leaves_out(ask):
    """The approximation omits the energy `ratio q̇ I e · ω` and nothing else.

    This gives the coupling `ratio I e` in the mass matrix. By Lagrange's equation it also gives the gyroscopic moment
    `ratio I q̇ ω × e` on a body that rotates at ω in its own axes.
    """
    ratio = 30.0
    exact, brief = both_rotors(wrist(), ratio)
    more = [a - b for a, b in zip(ask(exact, Q, V), ask(brief, Q, V), strict=True)]
    axis, turning = np.asarray(PLACE.rotation)[:, 2], V[:3]
    mass = np.zeros((4, 4))
    mass[:3, 3] = mass[3, :3] = ratio * MOMENT * axis
    np.testing.assert_allclose(more[0], mass, atol=1e-13)
    gyroscopic = ratio * MOMENT * float(V[3]) * np.cross(turning, axis)
    assert np.linalg.norm(gyroscopic) > 0.01
    np.testing.assert_allclose(more[1], [*gyroscopic, 0.0], atol=1e-12)
    np.testing.assert_allclose(more[2], ratio * float(V[3]) * MOMENT * axis @ turning, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("held", ["by what slides", "by the world"])
def test_they_are_one_where_the_stator_does_not_turn(ask, held):
    if held == "by the world":
        model = arm()
        place = {"placement": AT}
        exact = forces.add_rotor(model, "upper", 30.0, ROTOR, **place)
        brief, state = forces.reflect_rotor(model, "upper", 30.0, ROTOR, **place), (Y, RATE)
    else:
        exact, brief = both_rotors(wrist(stator_moves=False), 30.0)
        state = np.array([0.8, 0.3, -0.4, 0.7]), V
    for a, b in zip(ask(exact, *state), ask(brief, *state), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_the_difference_goes_with_the_ratio(ask):
    """For constant `ratio² I` the rotor's angular momentum, and with it the error of the approximation, is proportional
    to 1/ratio.
    """
    left_out = []
    for ratio in (10.0, 100.0, 1000.0):
        small = rbd.Inertia.from_parameters(jnp.asarray(np.asarray(ROTOR.parameters) * (10.0 / ratio) ** 2))
        exact, brief = both_rotors(wrist(), ratio, small)
        np.testing.assert_allclose(np.asarray(brief.armature)[3], 100 * MOMENT, rtol=1e-12)
        (M, C, _), (M_brief, C_brief, _) = ask(exact, Q, V), ask(brief, Q, V)
        left_out.append([np.abs(M - M_brief).max(), np.abs(C - C_brief).max()])
    left_out = np.array(left_out)
    np.testing.assert_allclose(left_out[1:] / left_out[:-1], 0.1, rtol=1e-6)


def test_a_rotor_that_is_not_balanced_turns_its_inertia(ask):
    """The mass matrix depends on the angle of an unbalanced rotor, which armature cannot represent."""
    lopsided = rbd.Inertia.cylinder(0.2, 0.03, 0.05, (0.01, 0.0, 0.02))
    exact, brief = both_rotors(wrist(), 30.0, lopsided)
    turned = Q + 0.05 * np.eye(5)[4]  # the rotor a quarter of a revolution further
    change = lambda model: ask(model, turned, V)[0] - ask(model, Q, V)[0]
    assert np.abs(change(exact) - change(brief)).max() > 1e-3


@pytest.mark.slow
def test_derivatives_of_rotors():
    """Derivatives of both rotors by ratio, inertia and placement."""

    def said(x):
        inertia = rbd.Inertia.from_parameters(ROTOR.parameters * (1 + x[:10]))
        place = rbd.Transform.from_xyz_rpy(x[10:13], (0.4, 0.9, 0.0))
        given = dict(axis=jnp.array([0.1, 0.2, 1.0]) + x[14:], placement=place)
        models = [
            make(wrist(), "finger", 7 + x[13], inertia, **given)
            for make in (forces.add_rotor, forces.reflect_rotor)
        ]
        return jnp.concatenate(
            [rbd.bias_force(model, Q, V) + rbd.mass_matrix(model, Q)[3] for model in models]
        )

    x = jnp.asarray(np.random.default_rng(0).uniform(-0.2, 0.2, (1, 17)))
    slopes = jax.jit(jax.vmap(jax.jacfwd(said)))(x)
    assert_close(slopes, differences(jax.jit(jax.vmap(said)), x, 1e-3, 4), 1e-8)


def test_meshed_joints_are_one_freedom():
    model = forces.mesh_gears(with_free_rotors(), "fore", "fore rotor", RATIOS[1], 0.25)
    assert model.nv == 3
    q = np.array([0.3, -0.8, 0.4])
    expected = np.array([0.3, -0.8, 0.4, RATIOS[1] * -0.8 + 0.25])
    ask = jax.jit(lambda *given: [rbd.forward_kinematics(*one).rotation for one in given])
    frames = ask((model, q), (with_free_rotors(), expected))
    np.testing.assert_allclose(*frames, atol=1e-12)


def test_elastic_gear_approaches_the_rigid_one(dynamics):
    """Elastic teeth in equilibrium under load accelerate like rigid teeth, up to 1/stiffness."""
    (H, C), (reduced, bias), acceleration = dynamics
    # On joints 1, 3, 2, 4: accelerations with constant slip require these two tooth forces.
    across = np.array([[-RATIOS[0], 0.0, 1.0, 0.0], [0.0, -RATIOS[1], 0.0, 1.0]])
    H, C = np.asarray(H), np.asarray(C)
    free = np.linalg.solve(H, np.concatenate([np.asarray(PUSH), np.zeros(2)]) - C)
    teeth = np.linalg.solve(across @ np.linalg.solve(H, across.T), -across @ free)
    stiffness = 1e6
    slips = -teeth / stiffness
    model = with_free_rotors()
    q = G @ np.asarray(Y) + np.concatenate([np.zeros(2), slips])
    pair = forces.Together(
        forces.Gear("upper", "upper rotor", RATIOS[0], stiffness),
        forces.Gear("fore", "fore rotor", RATIOS[1], stiffness),
    )
    v = G @ np.asarray(RATE)

    @jax.jit
    def ask(q, v):
        tau = pair(model, q, v)
        return tau, rbd.forward_dynamics(model, q, v, tau + jnp.concatenate([PUSH, jnp.zeros(2)]))

    tau, found = ask(q, v)
    np.testing.assert_allclose(tau, across.T @ teeth, rtol=1e-6)
    np.testing.assert_allclose(found, G @ np.asarray(acceleration), rtol=1e-5)


def test_refused():
    with pytest.raises(rbd.UnknownNameError, match="'wrist'"):
        forces.add_rotor(arm(), "wrist", 3.0, ROTOR)
    with pytest.raises(rbd.UnknownNameError, match="'wrist'"):
        forces.mesh_gears(arm(), "wrist", "fore", 3.0)
    with pytest.raises(rbd.ModelError, match="driven by 'fore' already"):
        forces.mesh_gears(geared(), "upper", "fore rotor", 3.0)
    with pytest.raises(ValueError, match="inertia.*less than 0"):
        forces.reflect_rotor(arm(), "fore", 3.0, -1.0)
    with pytest.raises(rbd.ModelError, match="give an Inertia to use axis, stator or placement"):
        forces.reflect_rotor(arm(), "fore", 3.0, 1.0, placement=AT)
    with pytest.raises(rbd.UnknownNameError, match="'hand'"):
        forces.reflect_rotor(arm(), "fore", 3.0, ROTOR, stator="hand")
    with pytest.raises(ValueError, match="multiplier"):
        forces.mesh_gears(arm(), "upper", "fore", np.inf)
