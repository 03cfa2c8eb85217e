"""Constrained mechanisms with known motions: exact solutions, and figures published by Müller & Terze (2013)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mechanisms import bricard, four_bars, four_bars_state

import rbd_jax as rbd
from rbd_jax import constraints as rc, joints


def simulate(model, state, dt, steps, scheme=None, stabilization=None):
    """Returns the trajectory, and its residual and energy."""

    @jax.jit
    def run(model, state):
        options = {"scheme": scheme or rbd.RungeKutta4(), "stabilization": stabilization}
        path = rbd.rollout(model, state, dt=dt, steps=steps, **options)
        residual = jax.vmap(lambda q: rbd.constraint_residual(model, q))(path.q)
        energy = lambda q, v: rbd.kinetic_energy(model, q, v) + rbd.potential_energy(model, q)
        return path, residual, jax.vmap(energy)(path.q, path.v)

    return run(model, state)


@pytest.mark.slow
def test_pendulum_as_a_point_on_a_rod():
    """IFToMM benchmark A01, a point mass at a fixed distance, with positions from elliptic functions."""
    builder = rbd.ModelBuilder(gravity=(0.0, -9.81, 0.0), name="pendulum")
    point = rbd.Inertia.from_mass_com(1.0, (0.0, 0.0, 0.0), np.zeros((3, 3)))
    builder.add_body("point", "world", joints.Translational(), inertia=point)
    builder.add_constraint(rc.Distance("world", None, "point", None, 1.0))
    state = rbd.State(np.array([-1.0, 0.0, 0.0]), np.zeros(3))
    path, residual, energy = jax.device_get(simulate(builder.build(), state, 1e-3, 2000))
    np.testing.assert_allclose(path.q[1000, :2], (0.986291751132, -0.165010853126), atol=1e-9)
    np.testing.assert_allclose(path.q[2000, :2], (-0.793566195343, -0.608483930444), atol=1e-9)
    assert np.abs(residual).max() < 1e-9 and np.abs(energy - energy[0]).max() < 1e-8


@pytest.mark.slow
@pytest.mark.parametrize(
    "count, seconds, step, held",
    [(2, 2, 1e-3, None), (2, 10, 1e-3, "auto"), (40, 2, 2e-3, None)],
    ids=("2 four-bars for 2 s", "2 four-bars for 10 s", "40 four-bars for 2 s"),
)
def test_four_bars_pass_through_the_line(count, seconds, step, held):
    """IFToMM benchmark A02: the constraints lose rank where the rods are in a line, and the motion continues smoothly.

    From upright at 1 m/s: `((N + 1)/3 + N) θ̈ = -g ((N + 1)/2 + N) cos θ`. Each passage through the line amplifies
    constraint drift by a factor of 10 to 1000. Two passages succeed without stabilization, ten do not.
    """
    steps = round(seconds / step)
    start = four_bars_state(count, jnp.pi / 2, -1.0)
    path, residual, energy = simulate(four_bars(count), start, step, steps, stabilization=held)
    exact = {
        (2, 1): (-0.195020301949, -0.980799205662),
        (2, 2): (0.057815795768, 0.998327267863),
        (2, 10): (0.328458111539, 0.944518538179),
    }
    ratio = ((count + 1) / 2 + count) / ((count + 1) / 3 + count)

    def rate(angle, speed):
        return speed, -9.81 * ratio * np.cos(angle)

    angle, speed, fine = np.pi / 2, -1.0, 4
    for number in range(1, steps + 1):
        for _ in range(fine):
            h = step / fine
            k1 = rate(angle, speed)
            k2 = rate(angle + h / 2 * k1[0], speed + h / 2 * k1[1])
            k3 = rate(angle + h / 2 * k2[0], speed + h / 2 * k2[1])
            k4 = rate(angle + h * k3[0], speed + h * k3[1])
            angle += h / 6 * (k1[0] + 2 * k2[0] + 2 * k3[0] + k4[0])
            speed += h / 6 * (k1[1] + 2 * k2[1] + 2 * k3[1] + k4[1])
        time = number * step
        if (count, round(time)) in exact and abs(time - round(time)) < 1e-9:
            np.testing.assert_allclose((np.cos(angle), np.sin(angle)), exact[count, round(time)], atol=1e-9)
    tip = np.cos(path.q[-1, 0]), np.sin(path.q[-1, 0])
    assert np.cos(np.asarray(path.q[:, 0])).max() > 0.999  # it has passed through the line
    np.testing.assert_allclose(tip, (np.cos(angle), np.sin(angle)), atol=1e-5)
    assert np.abs(residual).max() < 1e-5 and np.abs(energy - energy[0]).max() < 1e-4


GROUPS = {"SE3": joints.Free, "SO3xR3": joints.Free3D}


def boxes(group, mass, sides, balls, motion, gravity=0.0):
    """Returns boxes with frames at their centers, on joints of the group and connected by ball joints, and their state.

    `motion` has for each box the center, the angular velocity in body axes and the velocity of the center. Initial
    rotations are the identity.
    """
    builder = rbd.ModelBuilder(gravity=(0.0, 0.0, -gravity), name="boxes")
    for name in motion:
        builder.add_body(name, "world", GROUPS[group](), inertia=rbd.Inertia.box(mass, sides))
    for ball in balls:
        builder.add_constraint(rc.Connect(*ball))
    q = [jnp.array([*center, 1.0, 0.0, 0.0, 0.0]) for center, _, _ in motion.values()]
    parts = [(turn, slide) if group == "SE3" else (slide, turn) for _, turn, slide in motion.values()]
    v = [jnp.array([*first, *second]) for first, second in parts]
    return builder.build(), rbd.State(jnp.concatenate(q), jnp.concatenate(v))


def heavy_top(group):
    turn = np.array([0.0, 20 * np.pi, 10 * np.pi])
    center = np.array([0.5, 0.0, 0.0])
    balls = [("world", (0.0, 0.0, 0.0), "box", (-0.5, 0.0, 0.0))]
    motion = {"box": (center, turn, np.cross(turn, center))}
    return boxes(group, 21.6, (0.1, 0.2, 0.4), balls, motion)


@pytest.mark.parametrize(
    "group, largest",
    [
        pytest.param("SE3", (0, 1e-12), marks=pytest.mark.slow),
        pytest.param("SO3xR3", (9.0e-7, 9.6e-7), marks=pytest.mark.slow),
    ],
)
def test_heavy_top_without_gravity(group, largest):
    """Müller & Terze §5.1, a box on a ball joint: SE(3) satisfies the constraint to rounding, SO(3) × R³ to fourth order."""
    path, residual, energy = simulate(*heavy_top(group), 1e-3, 1000)
    np.testing.assert_allclose(energy[0], 13972.398951, atol=1e-6)
    broken = np.linalg.norm(residual, axis=1).max()
    assert largest[0] <= broken <= largest[1]
    np.testing.assert_allclose(energy, energy[0], atol=2e-3)


@pytest.mark.slow
def test_heavy_top_is_held_by_schemes_of_any_order():
    """On SE(3) the constraint holds for schemes of every order."""
    _, residual, _ = simulate(*heavy_top("SE3"), 1e-3, 1000, rbd.SemiImplicitEuler())
    assert np.abs(residual).max() < 5e-12


@pytest.mark.slow
@pytest.mark.parametrize(
    "group, first, second",
    [("SE3", (0, 1e-13), (7.1e-6, 7.22e-6)), ("SO3xR3", (8.8e-7, 8.9e-7), (5.8e-6, 6.0e-6))],
)
def test_double_pendulum(group, first, second):
    """Müller & Terze §5.2: SE(3) satisfies the joint to the ground; between the boxes both groups are of fourth order."""
    turns = np.array([10.0, 0.0, 0.0]), np.pi * np.array([10.0, 10.0, 20.0])
    half = np.array([0.1, 0.0, 0.0])
    knee = np.cross(turns[0], 2 * half)
    balls = [("world", (0.0, 0.0, 0.0), "upper", -half), ("upper", half, "lower", -half)]
    motion = {
        "upper": (half, turns[0], np.cross(turns[0], half)),
        "lower": (3 * half, turns[1], knee + np.cross(turns[1], half)),
    }
    model, state = boxes(group, 2.7, (0.2, 0.1, 0.05), balls, motion, 9.81)
    path, residual, energy = simulate(model, state, 1e-3, 1000)
    np.testing.assert_allclose(energy[0], 95.073882, atol=1e-6)
    broken = np.linalg.norm(np.asarray(residual).reshape(-1, 2, 3), axis=2).max(axis=0)
    assert first[0] <= broken[0] <= first[1] and second[0] <= broken[1] <= second[1], broken
    np.testing.assert_allclose(energy, energy[0], atol=3.5e-4)
    np.testing.assert_allclose(path.q[500, :3], (0.07381169, 0.06449982, -0.01978907), atol=2e-5)
    np.testing.assert_allclose(path.q[500, 7:10], (0.23577685, 0.08367364, -0.05278869), atol=2e-5)
    own = slice(0, 3) if group == "SE3" else slice(3, 6)
    np.testing.assert_allclose(path.v[500, own], (22.532179, -16.091302, 23.076080), atol=2e-2)


@pytest.mark.slow
@pytest.mark.parametrize("group, largest", [("SE3", 5.08e-5), ("SO3xR3", 5.01e-5)])
def test_floating_pair(group, largest):
    """Müller & Terze §5.3: neither group is better for two floating bodies."""
    turns = np.array([0.0, 0.0, -10.0]), np.array([1.0, -1.0, 2 * np.pi])
    half = np.array([0.1, 0.0, 0.0])
    knee = np.cross(turns[0], half)
    balls = [("first", half, "second", -half)]
    motion = {
        "first": (half, turns[0], np.zeros(3)),
        "second": (3 * half, turns[1], knee + np.cross(turns[1], half)),
    }
    model, state = boxes(group, 2.7, (0.2, 0.1, 0.05), balls, motion)
    _, residual, energy = simulate(model, state, 1e-2, 500)
    np.testing.assert_allclose(energy[0], 0.990752, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(residual, axis=1).max(), largest, rtol=2e-2)


class SomeRows(rc.Constraint):
    """A constraint in which equations of weight zero are omitted."""

    whole: rc.Constraint
    weights: jax.Array

    def __init__(self, whole, weights):
        self.bodies, self.frames, self.joints = whole.bodies, whole.frames, whole.joints
        self.whole, self.weights = whole, weights

    @property
    def rows(self):
        return self.whole.rows

    def residual(self, placements, coordinates):
        return self.weights * self.whole.residual(placements, coordinates)


@pytest.mark.slow
def test_bricard_moves_although_it_should_not():
    """Ten seconds with five rows of rank four for five degrees of freedom.

    The motion does not depend on which of the dependent rows is omitted.
    """
    model = bricard()
    q, v = jnp.zeros(5), jnp.zeros(5)
    path, residual, energy = simulate(model, rbd.State(q, v), 1e-3, 10000)
    assert residual.shape == (10001, 5)
    assert np.abs(path.q).max() > 1
    assert np.abs(residual).max() < 1e-8 and np.abs(energy - energy[0]).max() < 1e-7

    @jax.jit
    @jax.vmap
    def motions(q, v):
        def without(weights):
            (loop,) = model.constraints
            less = rbd.add_constraints(rc.without_constraints(model), SomeRows(loop, weights))
            return rbd.constrained_dynamics(less, q, v, jnp.zeros(5))

        whole = rbd.constrained_dynamics(model, q, v, jnp.zeros(5))
        return whole, jax.vmap(without)(1 - jnp.eye(5)), rbd.mobility(model, q)

    whole, less, dofs = motions(path.q[::500], path.v[::500])
    assert (np.asarray(whole.rank) == 4).all() and (np.asarray(dofs) == 1).all()
    redundant = np.asarray(less.rank) == 4
    assert (redundant.sum(axis=1) >= 2).all()  # at every state more than one row is redundant
    all_rows = np.broadcast_to(np.asarray(whole.acceleration)[:, None], less.acceleration.shape)
    np.testing.assert_allclose(less.acceleration[redundant], all_rows[redundant], atol=1e-6)


@pytest.mark.slow
def test_bricard_of_free_bodies_has_one_redundant_row():
    """Thirty rows of rank 29, for thirty degrees of freedom."""
    model = bricard()
    maximal = rbd.maximal_coordinates(model)

    @jax.jit
    def look(model, maximal):
        q, _ = rbd.to_maximal(model, maximal, jnp.zeros(5), jnp.zeros(5))
        return rbd.mobility(maximal, q), rbd.constraint_residual(maximal, q)

    dofs, residual = look(model, maximal)
    assert maximal.nv == 30 and residual.shape == (30,) and dofs == 1
    np.testing.assert_allclose(residual, 0, atol=1e-12)
