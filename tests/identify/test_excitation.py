"""Excitation motions: they respect their limits, are more informative than random ones, and predict errors correctly."""

import functools
import re
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from support import assert_close

import rbd_jax as rbd
from rbd_jax import identify
from rbd_jax.identify import PeriodicMotion, _design as design_of, excitation
from rbd_jax.identify.excitation import _limits, _moving, _scaled, _standing


pytestmark = pytest.mark.usefixtures("without_kernels")


ARM = rbd.load("double_pendulum")
FREE = [identify.inertias(), identify.damping(), identify.coulomb()]
#: Small and shared by the tests, so that little is compiled.
SMALL = {"seconds": 4.0, "harmonics": 3, "starts": 2, "steps": 75, "rate": 100.0}
LIMITS = {"effort": 40.0, "speed": 4.0, "lower": -2.0, "upper": 2.5, "acceleration": 30.0}
START = [0.3, -0.5]


@functools.cache
def found_motion(**options):
    """Returns the excitation of the arm from `START`, within the limits."""
    return excitation(ARM, FREE, start=START, **options, **LIMITS, **SMALL)


@pytest.fixture(scope="module")
def found():
    return found_motion()


@jax.jit
def along(motion, t):
    """Returns positions, velocities and accelerations at one or several times."""
    return motion.q(t), motion.v(t), motion.a(t)


def states_of(motion, t):
    """Returns the states as NumPy arrays."""
    return map(np.asarray, along(motion, t))


@pytest.fixture(scope="module")
def motion():
    random = np.random.default_rng(1)
    series = random.normal(size=(2, 4, 2))
    return PeriodicMotion.of(ARM, ["elbow", "shoulder"], 3.0, *series, middle=[0.3, -0.2])


# Fourier series.


def test_a_motion_is_what_it_is_the_derivative_of(motion):
    t = np.linspace(-1.0, 7.0, 23)
    of_time = functools.partial(along, motion)
    (q, v, a), one_by_one, rates = jax.jit(
        lambda t: (of_time(t), jax.vmap(motion.q)(t), jax.vmap(jax.jacfwd(of_time))(t))
    )(t)
    assert_close(rates[0], v, 1e-12)
    assert_close(rates[1], a, 1e-12)
    assert_close(q, along(motion, t + 3.0)[0], 1e-12)
    assert_close(one_by_one, q, 1e-15)
    k = 2 * np.pi / 3.0 * np.arange(1, 5)
    sines, cosines = (np.asarray(x)[:, 0] for x in (motion.sines, motion.cosines))
    by_hand = -0.2 + np.sum(sines * np.sin(0.7 * k) + cosines * np.cos(0.7 * k))
    assert_close(np.asarray(along(motion, 0.7)[0])[1], by_hand, 1e-14)


def test_bounds_hold_and_are_met(motion):
    """The bounds include a polynomial of sines between its samples (Ehlich & Zeller)."""
    t = np.arange(20_000) * 3.0 / 20_000
    low, high, speed, acceleration = motion.extent()
    q, v, a = (x[:, [1, 0]] for x in states_of(motion, t))
    room = high - low
    assert (q >= low).all() and (q <= high).all() and (np.ptp(q, axis=0) > 0.99 * room).all()
    for rows, most in ((v, speed), (a, acceleration)):
        assert (np.abs(rows) <= most).all() and (np.abs(rows).max(axis=0) > 0.99 * most).all()


def test_what_does_not_move_rests():
    robot = rbd.load("quadruped")
    joint = robot.joint_names[2]
    motion = PeriodicMotion.of(robot, [joint], 1.0, [[0.2]], [[0.0]])
    q, v, _ = states_of(motion, np.array([0.25, 0.0]))
    place, reference = robot.q_slice(joint).start, np.asarray(robot.reference)
    others = np.delete(np.arange(robot.nq), place)
    assert_close(q[0, others], reference[others], 0)
    assert_close(q[0, place], reference[place] + 0.2, 1e-15)
    assert np.flatnonzero(v[1]).tolist() == [robot.v_slice(joint).start]


def test_a_policy_follows_it(found):
    """The policy converges to the motion at a rate given by the bandwidth."""
    motion, model = found.motion, replace(ARM, damping=jax.device_put(np.array([0.3, 0.2])))

    @jax.jit
    def off_along():
        state = rbd.State(motion.q(0.0) + 0.1, motion.v(0.0))
        path = rbd.rollout(model, state, motion.policy(model), dt=0.005, steps=400)
        return path.q - motion.q(path.t)

    off = np.abs(np.asarray(off_along()))
    assert off[0].max() > 0.09 and off[200:].max() < 2e-2
    assert (off[100] < off[0] / 3).all()


# Solutions.


def test_limits_are_kept(found):
    t = np.arange(7919) * 4.0 / 7919
    q, v, a = states_of(found.motion, t)
    assert (q >= -2.0).all() and (q <= 2.5).all() and (np.abs(v) <= 4.0).all() and (np.abs(a) <= 30.0).all()
    tau = np.asarray(jax.jit(jax.vmap(lambda *x: rbd.inverse_dynamics(ARM, *x)))(q, v, a))
    assert (np.abs(tau) <= 40.0).all()
    # At least one of the limits is active, up to the margin of five percent.
    assert (found.low == -2.0 + 0.05 * 4.5 / 2).all() and (found.speed == 0.95 * 4.0).all()
    used = [np.ptp(q, 0) / 4.5, np.abs(v).max(0) / 4.0, np.abs(a).max(0) / 30.0, np.abs(tau).max(0) / 40.0]
    assert (np.max(used, axis=0) > 0.9).all() and np.max(used) <= 0.951


def test_it_starts_at_rest_where_it_was_told(found):
    for time in (0.0, 4.0):
        q, v, a = along(found.motion, time)
        assert_close(q, np.array(START), 1e-12)
        assert_close(v, np.zeros(2), 1e-12)
        assert_close(a, np.zeros(2), 1e-11)


def test_it_says_more_than_random_motions(found):
    """This holds by the reported gain and by the determinant of the estimates' covariance."""
    assert found.gain > 1.5
    random = np.random.default_rng(3)
    sizes = []
    for _ in range(8):
        coordinates = design_of._coordinates(3, True) @ random.normal(size=(4, 2))
        motion = PeriodicMotion.of(ARM, ARM.joint_names, 4.0, coordinates[:3], coordinates[3:])
        share = 0.95 * min(1.0, 4.0 / motion.extent()[2].max(), 2.0 / np.abs(motion.extent()[:2]).max())
        sizes.append(covariance_of(motion, share))
    best = covariance_of(found.motion)
    assert (np.median(sizes) - best) / len(found.base_names) > np.log(1.3)
    assert best < min(sizes)


def covariance_of(motion, share=1.0):
    """Returns the log-determinant of the covariance from the regressor of the motion, scaled by `share`."""
    rows = np.asarray(regressors_along(motion, share, motion.times(100.0)))
    kept = np.concatenate([np.array(base().kept), np.arange(20, 24) + 2])  # inertias, damping, friction
    rows = (rows[:, :, kept] / 0.4).reshape(-1, len(kept))
    return -np.linalg.slogdet(rows.T @ rows)[1]


@jax.jit
def regressors_along(motion, share, t):
    states = along(motion.shrunk(share, jnp.zeros(2)), t)
    return jax.vmap(lambda q, v, a: identify.torque_regressor(ARM, q, v, a))(*states)


@functools.cache
def base():
    return rbd.base_parameters(ARM)


@pytest.mark.slow
def test_errors_are_what_estimates_have():
    """Predicted errors match the scatter of many noisy runs, with different noise in each joint."""
    robot = replace(ARM, damping=jnp.array([0.6, 0.4]), friction=jnp.array([0.5, 0.3]))
    found = excitation(robot, FREE, start=START, noise=[0.5, 0.1], **LIMITS, **SMALL)
    random, log, runs = np.random.default_rng(5), found.log(), 200
    samples = identify.samples_of(robot, log)
    values = []
    for _ in range(runs):
        noisy = replace(samples, tau=samples.tau + random.normal(size=samples.tau.shape) * [0.5, 0.1])
        values.append(identify.Equations.none(robot).with_samples(noisy).factors)
    # Least squares for all runs at once.
    kept = np.array([found.parameters.names.index(name) for name in found.base_names])
    columns = np.concatenate([np.arange(20), np.arange(22, 26)])[kept]
    estimates = []
    for factors in values:
        rows = np.concatenate([factors[0] / 0.5, factors[1] / 0.1])
        estimates.append(np.linalg.lstsq(rows[:, columns], rows[:, -1])[0])
    spread = np.std(estimates, axis=0)
    np.testing.assert_allclose(spread, found.base_standard_errors, rtol=0.25)
    assert found.noise.tolist() == [0.5, 0.1]
    # `least_squares` reports the same for a single run.
    noisy = replace(log, tau=log.tau.values + random.normal(size=samples.tau.shape) * [0.5, 0.1])
    estimate = identify.least_squares(ARM, noisy, FREE)
    assert estimate.base_names == found.base_names
    np.testing.assert_allclose(estimate.base_standard_errors, found.base_standard_errors, rtol=0.15)


def test_the_same_seed_makes_the_same_motion(found):
    again, other = (
        np.asarray(excitation(ARM, FREE, start=START, seed=seed, **LIMITS, **SMALL).motion.sines)
        for seed in (0, 1)
    )
    np.testing.assert_array_equal(again, found.motion.sines)
    assert np.abs(other - again).max() > 1e-3


def test_units_do_not_matter():
    """An arm in centimeters gets the same motion."""
    long, inertias = 100.0, ARM.inertias.parameters
    scale = jnp.array([[1.0] + [long] * 3 + [long**2] * 6])
    other = replace(
        ARM,
        gravity=long * ARM.gravity,
        placements=rbd.Transform(ARM.placements.rotation, long * ARM.placements.position),
        inertias=rbd.Inertia.from_parameters(inertias * scale),
    )
    limits = LIMITS | {"effort": 40.0 * long**2}
    found = excitation(other, FREE, start=START, noise=0.4 * long**2, **limits, **SMALL)
    same = found_motion(noise=0.4)
    assert_close(found.motion.sines, same.motion.sines, 1e-4)
    assert abs(found.gain - same.gain) < 1e-3


@pytest.mark.slow
def test_joints_that_are_not_measured_and_do_not_move():
    found = excitation(ARM, identify.inertias(), joints=["elbow"], noise=0.1, effort=40.0, **SMALL)
    assert np.isinf(found.noise[0]) and (np.asarray(along(found.motion, 1.3)[1])[0] == 0)
    # A single hinge in a vertical plane has three observable parameters.
    assert found.base_names == ("lower hx", "lower hz", "lower Iyy")
    both = excitation(ARM, identify.inertias(), joints=["elbow"], noise=[0.1, 0.1], effort=40.0, **SMALL)
    assert len(both.base_names) > 3


@pytest.mark.slow
def test_single_precision():
    model = rbd.astype(ARM, jnp.float32)
    found = excitation(model, FREE, start=START, **LIMITS, **SMALL)
    assert along(found.motion, 0.1)[0].dtype == jnp.float32 and found.gain > 1.3
    assert (found.motion.extent()[2] <= 0.95 * 4.0 * (1 + 1e-4)).all()
    assert found.base_names == found_motion().base_names


@pytest.mark.slow
def test_an_arm_with_seven_joints():
    robot = rbd.load("arm7")
    found = excitation(robot, FREE, starts=4, steps=200)
    assert found.gain > 3
    q, v, _ = states_of(found.motion, found.motion.times(1000))
    tau = found.log(1000).tau.values
    low, high, fast, strong = map(
        np.asarray, (robot.lower, robot.upper, robot.velocity_limit, robot.effort_limit)
    )
    assert (q > low).all() and (q < high).all() and (np.abs(v) < fast).all() and (np.abs(tau) < strong).all()
    assert len(found.base_names) == rbd.base_parameters(robot).count + 14


# Shapes.


def with_a_pillar():
    """Returns the arm with a hand, and a pillar in its workspace."""
    return rbd.attach(
        rbd.detach(ARM, "shape"),
        rbd.Shape("hand", "lower", rbd.shapes.Sphere(0.1), (0, 0, -1.0)),
        rbd.Shape("pillar", "world", rbd.shapes.Capsule(0.2, 1.0), (1.2, 0.0, -0.8)),
        rbd.Shape("floor", "world", rbd.shapes.Plane(), (0, 0, -2.15)),
    )


@pytest.mark.slow
def test_shapes_are_kept_apart():
    """The hand avoids a pillar that it would hit without the clearance."""
    model = with_a_pillar()
    motions = {}
    for clearance in (0.03, None):
        motions[clearance] = excitation(model, FREE, clearance=clearance, **LIMITS, **SMALL)
    apart = jax.jit(jax.vmap(lambda q: rbd.contacts(model, q).distance))
    t = np.arange(7919) * 4.0 / 7919
    near = {
        clearance: float(np.asarray(apart(along(found.motion, t)[0])).min())
        for clearance, found in motions.items()
    }
    assert near[None] < -0.05 and near[0.03] > 0.0299
    assert abs(motions[0.03].distance - near[0.03]) < 1e-3 and np.isinf(motions[None].distance)
    assert not any("shapes" in line for line in motions[0.03].remarks)


@pytest.mark.slow
def test_what_cannot_be_kept_apart_is_told():
    """Shapes that are never apart are skipped with a remark; if no motion avoids contact, the error names the shapes."""
    always = rbd.attach(
        with_a_pillar(),
        rbd.Shape("shell", "world", rbd.shapes.Sphere(2.5)),
        rbd.contact.ContactPair("p", "shell", "hand"),
    )
    found = excitation(always, FREE, **LIMITS, **SMALL)
    assert "shapes 'shell' and 'hand' are never 0.01 m apart, so they are not kept apart" in found.remarks
    with pytest.raises(
        ValueError, match="in start shapes 'hand' and 'floor' are 0.05 m apart; .*ContactExclusion"
    ):
        excitation(with_a_pillar(), FREE, start=[0.0, 0.0], clearance=0.1, **LIMITS, **SMALL)
    with pytest.raises(ValueError, match=r"joint 'shoulder' needs .* and may take 0.95"):
        excitation(ARM, FREE, start=[1.5, 0.0], effort=1.0, **SMALL)
    found = excitation(ARM, FREE, **(LIMITS | {"lower": None, "upper": None}), **SMALL)
    said = "\n".join(found.remarks)
    assert "nothing keeps its bodies away" in said and "joint 'elbow' has no limits of its own" in said


# Parts of the optimization problem.


def designed(model=None, start=None, noise=None, **options):
    model = ARM if model is None else model
    parameters = identify.Parameters(model, options.pop("free", FREE))
    moving = _moving(model, None)
    limits = _limits(model, moving, margin=0.05, **LIMITS | options)
    design, _ = _standing(model, moving, limits, start, 0.03, 3, 4.0, True, np.random.default_rng(0))
    points = design.random_points(jax.random.key(0), 4)
    return *_scaled(design, parameters, design_of.series_of(design, points), noise, 400.0), points


@pytest.mark.parametrize("start", [pytest.param(None, marks=pytest.mark.slow), START])
def test_gradients_are_differences(start):
    """The gradient of the loss, including violated torque and distance limits, matches finite differences."""
    design, _, points = designed(with_a_pillar(), start, effort=15.0)
    # One motion at seven times violates both limits: with fewer than eight states no kernel is made.
    number, count = 2 if start is None else 3, 7
    points = jax.tree.map(lambda x: jax.device_put(np.asarray(x)[number : number + 1]), points)
    whole, back = ravel_pytree(points)
    loss = lambda x: jnp.sum(design_of.losses(design, back(x), 3.0, count))
    over = design_of.judged(design, design_of.series_of(design, points), count)[1:]
    assert all(np.max(np.asarray(x)) > 0.01 for x in over)
    step, ways = 1e-6, np.random.default_rng(2).normal(size=(4, len(whole)))
    moved = step * np.concatenate([ways, -ways])
    slope, values = jax.jit(
        lambda x, moved: (jax.grad(loss)(x), jax.lax.map(lambda by: loss(x + by), moved))
    )(whole, moved)
    forth, back_again = np.asarray(values).reshape(2, 4)
    for way, quotient in zip(ways, (forth - back_again) / (2 * step)):
        assert_close(np.asarray(slope) @ way, quotient, 1e-6)


def test_all_points_are_within_limits():
    """For any unknowns, positions, speeds and accelerations are within limits, and motions start at rest if requested."""
    for start in (None, START):
        design, _, points = designed(start=start)
        random = np.random.default_rng(3)
        wild = jax.tree.map(lambda x, random=random: jax.device_put(30 * random.normal(size=x.shape)), points)
        q, v, a = map(np.asarray, design_of.states(design, design_of.series_of(design, wild), 3001))
        low, high = np.asarray(design.low), np.asarray(design.high)
        assert (q >= low - 1e-9).all() and (q <= high + 1e-9).all()
        assert (np.abs(v) <= 0.95 * 4.0 + 1e-9).all() and (np.abs(a) <= 0.95 * 30.0 + 1e-9).all()
        assert np.abs(v[:, 0]).max() < 1e-12 and np.abs(a[:, 0]).max() < 1e-11


def test_random_motions_are_the_unit_of_information():
    # Without friction, which the search smooths.
    free = [identify.inertias(), identify.damping()]
    design, _, points = designed(free=free)
    found = design_of.judged(design, design_of.series_of(design, points), 48)[0]
    assert_close(np.mean(found, axis=0), np.eye(8), 1e-8)


def test_what_is_known_beforehand_counts():
    """The information of a prior is that of the covariance of observable combinations, without the unobservable part."""
    deviation = 0.1 * np.abs(np.asarray(ARM.inertias.parameters)).max() + np.arange(10) / 50
    free = [identify.inertias(prior=(None, deviation)), identify.damping(prior=(None, 0.3))]
    design, _, _ = designed(free=free)
    kept = np.concatenate([np.array(base().kept), [20, 21]])
    grouping = np.zeros((8, 22))
    grouping[:6, :20], grouping[6:, 20:] = np.asarray(base().grouping), np.eye(2)
    known = grouping * np.concatenate([deviation, deviation, [0.3, 0.3]])
    ways = grouping @ np.asarray(design.ways)[[*range(20), 22, 23]]
    expected = ways.T @ np.linalg.inv(known @ known.T) @ ways / 400
    assert len(kept) == 8
    assert_close(design.known, expected, 1e-8)


# Files and errors.


def test_files_are_logs(found, tmp_path, recwarn):
    for name in ("motion.csv", "motion.npz"):
        found.save(tmp_path / name)
        log = identify.read_log(tmp_path / name, ARM)
        for channel in ("q", "v", "a", "tau"):
            assert_close(log.channels[channel].values, found.log().channels[channel].values, 1e-8)
        identify.check_log(ARM, log)
    assert not [one for one in recwarn if issubclass(one.category, identify.LogWarning)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["motion.csv", "motion.npz"]
    motion = PeriodicMotion.read(tmp_path / "motion.npz", ARM)
    assert jax.tree.all(jax.tree.map(np.array_equal, motion, found.motion))
    np.savez(tmp_path / "other.npz", t=np.arange(3))
    with pytest.raises(ValueError, match="has no series"):
        PeriodicMotion.read(tmp_path / "other.npz", ARM)
    with pytest.raises(ValueError, match="neither .csv nor .npz"):
        found.save(tmp_path / "motion.txt")


def test_it_says_what_it_is(found):
    assert repr(found).startswith(
        "Excitation(2 joints of 'double_pendulum', 4 s; 10 combinations of 24 values seen, 14 not;"
    )
    assert "N m s/rad" in found.table() and "lower Iyy" in found.table()
    assert any("lower Ixx: not seen at all" in line for line in found.unobservable)


@functools.cache
def slide():
    builder = rbd.ModelBuilder(name="slide")
    builder.add_body(
        "cart", joint=rbd.joints.Prismatic(), inertia=rbd.Inertia.sphere(1.0, 0.1), joint_name="rail"
    )
    return builder.build()


@pytest.mark.parametrize(
    "model, free, options, said",
    [
        (None, identify.joint_offsets(), {}, "not linear in what identify.JointOffsets"),
        (None, identify.inertias(), {"joints": ["knee"]}, "knee"),
        (None, identify.inertias(), {"joints": []}, "no joint"),
        (None, identify.inertias(), {"start": [0.0, 4.0]}, "start has joint 'elbow' at 4"),
        (None, identify.inertias(), {"start": [0.0]}, "start has shape (1,)"),
        (None, identify.inertias(), {"seconds": 0.0}, "seconds is 0.0"),
        (None, identify.inertias(), {"harmonics": 1}, "two or more"),
        (None, identify.inertias(), {"harmonics": 0}, "harmonics is 0"),
        (None, identify.inertias(), {"rate": 1.0, "seconds": 2.0}, "too few"),
        (None, identify.inertias(), {"noise": -1.0}, "noise is -1.0"),
        (None, identify.inertias(), {"noise": [1.0, 2.0, 3.0]}, "one positive number or 2"),
        (None, identify.inertias(), {"speed": 0.0}, "give another by speed=..."),
        (None, identify.inertias(), {"effort": [1.0]}, "one number or an array of 2"),
        (None, identify.inertias(), {"lower": 1.0, "upper": 0.0}, "leave no room"),
        (None, identify.inertias(), {"margin": 1.0}, "margin is 1.0"),
        (None, identify.inertias(), {"seed": -1}, "seed is -1"),
        (None, identify.inertias(), {"clearance": -0.1}, "clearance is -0.1"),
        (slide, identify.inertias(), {}, "joint 'rail' slides and has no limits"),
        (lambda: rbd.load("quadruped"), identify.inertias(), {}, "a Free with 6 degrees of freedom"),
        (None, [], {}, "free is empty"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(model, free, options, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        excitation(ARM if model is None else model(), free, **(SMALL | {"effort": 30.0} | options))


def test_what_is_no_tree_by_itself_is_refused():
    tied = rbd.add_constraints(ARM, rbd.constraints.Distance("world", None, "lower", (0.0, 0.0, -1.0), 1.5))
    with pytest.raises(ValueError, match="has constraints"):
        excitation(tied, identify.inertias(), **SMALL)
