"""Inverse kinematics reaches targets within limits and constraints, and approaches unreachable ones as closely as
possible.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arms import panda, planar_arm
from support import assert_close, quotient

import rbd_jax as rbd
from rbd_jax.control import Bounds, Clearance, Code, Constraint, Pose, Position, Posture, inverse_kinematics


TARGET = np.array([0.7, 0.0, 1.2])
AT = np.array([0.3, 0.5, -0.9, 0.7])


@pytest.fixture(scope="module")
def arm():
    return planar_arm()


def tip(arm, q):
    frame = rbd.forward_kinematics(arm, q)
    return frame.position[-1] + 0.5 * frame.rotation[-1, :, 2]


@pytest.fixture(scope="module")
def tip_of(arm):
    return jax.jit(lambda q: tip(arm, q))


@pytest.fixture(scope="module")
def slope_of(arm):
    return jax.jit(jax.jacfwd(lambda q: tip(arm, q)))


def reached_of(dtype, count, seed):
    """Solves for random reachable poses.

    Returns the solutions, the hand's error for each, and whether all are within the joint limits.
    """
    model = panda(dtype)
    (hand,) = model.sites
    flange = jax.tree.map(lambda x: x.astype(dtype), hand.frames[0])
    frame = lambda q: rbd.forward_kinematics(model, q)[6] @ flange
    drawn = lambda key: rbd.random_configuration(model, key)
    targets = rbd.batch_map(lambda key: frame(drawn(key)))(jax.random.split(jax.random.key(seed), count))
    found = rbd.batch_map(lambda target: inverse_kinematics(model, [Pose("hand", target)]))(targets)
    ends = rbd.batch_map(frame)(found.q)
    apart = jnp.abs(ends.position - targets.position).max(axis=1)
    turned = jnp.abs(ends.rotation - targets.rotation).max(axis=(1, 2))
    within = ((found.q >= model.lower[None]) & (found.q <= model.upper[None])).all()
    return found, jnp.maximum(apart, turned), within


@pytest.mark.slow
def test_random_poses_of_a_panda_are_reached():
    found, off, within = reached_of(jnp.float64, 40, 0)
    assert within
    assert (np.asarray(found.converged) == (np.asarray(off) < 1e-7)).all()
    assert found.converged.sum() >= 39
    assert np.median(found.iterations) < 40


@pytest.mark.slow
def test_a_thousand_random_poses_of_a_panda_are_reached():
    found, off, within = reached_of(jnp.float64, 1000, 1)
    assert within
    assert (off < 1e-6).sum() >= 990
    assert (found.converged == (off < 1e-6)).all()


@pytest.mark.slow
def test_single_precision():
    found, off, within = reached_of(jnp.float32, 20, 2)
    assert found.q.dtype == jnp.float32 and within
    assert found.converged.sum() >= 19
    assert np.median(off) < 1e-5


@pytest.fixture(scope="module")
def reach(arm):
    """Returns compiled functions that move an arm's tip to a target from a configuration, and their derivative by the
    target.
    """
    run = lambda target, q: inverse_kinematics(arm, [Position("tip", target)], q, tolerance=1e-11)
    return jax.jit(run), jax.jit(lambda target, q, by: jax.jvp(lambda x: run(x, q).q, (target,), (by,))[1])


def test_it_stays_near_where_it_starts(tip_of, reach):
    start = np.asarray(tip_of(AT))
    found = reach[0](start + np.array([0.01, 0.0, -0.01]), AT)
    assert found.converged and found.start == 0
    assert_close(found.q, AT, 0.05)
    assert reach[0](start, AT).iterations == 1


def test_derivatives_are_the_least_change(slope_of, reach):
    by = np.array([0.4, 0.0, -0.8])
    found = reach[0](TARGET, AT)
    change = reach[1](TARGET, found.q, by)
    J = np.asarray(slope_of(found.q))
    assert_close(change, np.linalg.pinv(J, rcond=1e-10) @ by, 1e-7)
    at = lambda s: np.asarray(reach[0](TARGET + s * by, found.q).q)
    assert_close(change, quotient(at, 1e-4), 1e-6)


FAR = np.array([3.0, 0.0, 1.0])


def test_what_is_out_of_reach_is_gone_to_as_near_as_possible(reach, tip_of):
    found = reach[0](FAR, AT)
    assert found.code == Code.INFEASIBLE and not found.converged
    distance = np.sqrt(10.0)
    assert_close(tip_of(found.q), FAR * 2 / distance, 1e-5)
    assert_close(found.q, [np.arctan2(3.0, 1.0), 0, 0, 0], 1e-5)
    by = np.array([0.0, 0.0, 1.0])
    change = reach[1](FAR, AT, by)
    assert_close(change, [-3.0 / 10.0, 0, 0, 0], 1e-4)


def test_at_the_edge_of_reach_everything_is_finite(reach):
    edge = np.array([0.0, 0.0, 2.0])
    for start in (AT, np.zeros(4)):
        found = reach[0](edge, start)
        assert found.error < 1e-4 and np.isfinite(found.q).all()
        assert np.isfinite(reach[1](edge, found.q, np.array([1.0, 0.0, 0.0]))).all()


@pytest.fixture(scope="module")
def limited(arm):
    """Returns a function with narrow limits and a secondary posture, and its derivative along a direction of the inputs."""

    def run(given):
        bounds, targets = Bounds(q=(-given["upper"], given["upper"])), [Position("tip", given["target"])]
        found = inverse_kinematics(
            arm, targets, secondary=[Posture(given["rest"])], bounds=bounds, tolerance=1e-9
        )
        return found.q, found.converged

    return jax.jit(lambda given, by: jax.jvp(run, (given,), (by,), has_aux=True))


UPPER = np.array([2.0, 0.4, 2.0, 2.0])
GIVEN = {"target": TARGET, "upper": UPPER, "rest": np.array([0.0, 1.0, 0.5, 0.2])}
NO_CHANGE = {name: np.zeros(x.shape) for name, x in GIVEN.items()}


def test_what_is_left_free_is_used_within_limits(tip_of, slope_of, limited):
    q, _, converged = jax.device_get(limited(GIVEN, NO_CHANGE))
    assert converged
    assert_close(tip_of(q), TARGET, 1e-9)
    assert q[1] == UPPER[1]
    # Within the limits, no direction in the null space reduces the distance.
    J = np.asarray(slope_of(q))[np.array([0, 2])]
    free = np.array([0, 2, 3])
    null = np.linalg.svd(J[:, free])[2][2:]
    assert_close(null @ (q - GIVEN["rest"])[free], np.zeros(1), 1e-5)


@pytest.mark.parametrize("name", ["target", "upper", "rest"])
def test_derivatives_of_a_choice(limited, name):
    by = {"target": np.array([1.0, 0.0, -0.5]), "upper": np.array([0.0, 1.0, 0.0, 0.0]), "rest": AT}[name]
    change = NO_CHANGE | {name: by}
    at = lambda s: jax.device_get(limited(GIVEN | {name: GIVEN[name] + s * by}, change))
    _, slope, converged = at(0.0)
    assert converged
    assert_close(slope, quotient(lambda s: at(s)[0], 1e-3), 1e-4)


@pytest.mark.slow
def test_other_starts_find_what_the_first_does_not():
    arm = planar_arm(2)
    # The elbow must bend in the opposite direction to the initial guess.
    bounds = Bounds(q=(np.array([-2.5, 0.3]), np.array([2.5, 2.5])))
    goal, start = tip(arm, jax.device_put(np.array([-0.2, 1.0]))), jax.device_put(np.array([1.9, 2.4]))
    found = inverse_kinematics(arm, [Position("tip", goal)], start, bounds=bounds)
    assert found.converged
    assert_close(found.q, [-0.2, 1.0], 1e-6)
    several = inverse_kinematics(arm, [Position("tip", goal)], start, bounds=bounds, at_once=4)
    assert several.converged
    assert_close(several.q, found.q, 1e-6)


@pytest.mark.slow
def test_shapes_are_kept_apart(arm):
    ball = rbd.Shape("ball", "world", rbd.shapes.Sphere(0.2), (0.5, 0.0, 0.9))
    hand = rbd.Shape("elbow", "link2", rbd.shapes.Sphere(0.05))
    model = rbd.attach(arm, ball, hand)
    start = jax.device_put(np.array([0.5, 0.3, 0.4, 0.2]))
    kept = Constraint(Clearance([("ball", "elbow")]), lower=0.03)
    goal = tip(arm, np.array([0.5, 0.1, 0.2, 0.3]))
    free = inverse_kinematics(model, [Position("tip", goal)], start)
    found = inverse_kinematics(model, [Position("tip", goal)], start, constraints=[kept])
    distance = lambda q: (
        jnp.linalg.norm(rbd.forward_kinematics(arm, q).position[2] - jnp.array([0.5, 0, 0.9])) - 0.25
    )
    assert distance(free.q) < 0.03
    assert found.converged and found.violation <= 1e-8
    assert distance(found.q) >= 0.03 - 1e-7
    assert_close(tip(arm, found.q), goal, 1e-7)


@pytest.mark.slow
def test_loops_are_closed_and_what_is_held_stays():
    slider = rbd.constraints.PointOnPlane("world", (0, 0, 0), (1, 0, 0), "lower", (0, 0, -1))
    model = rbd.add_constraints(rbd.load("double_pendulum"), slider)
    end = rbd.sensors.OnBody("lower", (0.0, 0.0, -1.0))
    found = inverse_kinematics(model, [Position(end, (0.0, 0.0, -1.2))])
    assert found.converged and found.violation <= 1e-8
    assert_close(np.cos(found.q[0]) * 2, 1.2, 1e-7)
    aside = inverse_kinematics(model, [Position(end, (0.3, 0.0, -1.2))])
    assert aside.code == Code.INFEASIBLE and aside.violation <= 1e-7
    assert_close(aside.error, 0.3, 1e-6)
    arm = planar_arm()
    found = inverse_kinematics(arm, [Position("tip", TARGET)], jax.device_put(AT), hold=["link0"])
    assert found.converged and found.q[0] == AT[0]


def test_weights_count_where_not_all_can_be_reached(arm, tip_of):
    left, right = Position("tip", (-1.0, 0.0, 0.5)), Position("tip", (1.0, 0.0, 0.5))
    found = inverse_kinematics(arm, [3 * left, right])
    assert found.code == Code.INFEASIBLE
    assert_close(tip_of(found.q), [-0.5, 0.0, 0.5], 1e-5)
    assert_close(found.errors, [0.5, 1.5], 1e-5)


def test_bad_input(arm, unchecked):
    tip = Position("tip", TARGET)
    for given, words in [
        ({"targets": []}, "targets is empty"),
        ({"targets": 3.0}, "targets is 3.0"),
        ({"q": np.zeros(3)}, "q has shape"),
        ({"hold": ["link9"]}, "link9"),
        ({"constraints": [tip]}, "constraints"),
        ({"starts": 0}, "starts is 0"),
        ({"tolerance": 0.0}, "tolerance is 0"),
        ({"bounds": Bounds(q=(np.zeros(3), np.ones(3)))}, r"a bound of q has shape \(3,\)"),
    ]:
        with pytest.raises((ValueError, TypeError, KeyError), match=words):
            inverse_kinematics(arm, given.pop("targets", [tip]), **given)
