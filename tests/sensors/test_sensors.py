"""Sensor readings: physical laws, edits of the model, derivatives, noise, and errors."""

import functools
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import assert_close, assert_each_close, quotient

import rbd_jax as rbd
from rbd_jax import sensors as rs


def at(*numbers):
    return rbd.Transform.from_xyz_rpy(numbers[:3], numbers[3:] or (0.0, 0.0, 0.0))


def body(mass):
    return rbd.Inertia.box(mass, (0.2, 0.3, 0.4), (0.1, 0.2, -0.1))


OTHER = rs.OnBody("hull", at(0.1, 0.0, 0.2, 0.0, 1.0, 0.0))
SENSORS = (
    rs.Gyro("gyro", "tip"),
    rs.Accelerometer("accelerometer", "tip"),
    rs.Velocimeter("velocimeter", "tip"),
    rs.Magnetometer("magnetometer", "tip", (0.1, 0.2, 0.3)),
    rs.ForceSensor("force", "wrist"),
    rs.TorqueSensor("torque", "wrist"),
    rs.FramePosition("position", "tip", OTHER),
    rs.FrameOrientation("orientation", "tip", OTHER),
    rs.FrameAxis("axis", "tip", "y", OTHER),
    rs.FrameLinearVelocity("velocity", "tip", OTHER),
    rs.FrameAngularVelocity("turning", "tip", OTHER),
    rs.FrameLinearAcceleration("acceleration", OTHER),
    rs.FrameAngularAcceleration("spinning up", OTHER),
    rs.SubtreeCenterOfMass("center", "flange"),
    rs.SubtreeLinearVelocity("drift", "hull"),
    rs.SubtreeAngularMomentum("spin", "hull"),
    rs.JointPosition("angle", "elbow"),
    rs.JointVelocity("rate", "elbow"),
    rs.JointForce("effort", "elbow"),
    rs.JointOrientation("ball", "shoulder"),
    rs.JointAngularVelocity("ball rate", "shoulder"),
    rs.JointLimitPosition("limit", "elbow", 0.1),
    rs.KineticEnergy("kinetic"),
    rs.PotentialEnergy("potential"),
    rs.Clock("clock"),
)


@pytest.fixture(scope="module")
def model():
    """A floating hull with a ball joint, a hinge and a welded flange, and a separate slide on the ground."""
    builder = rbd.ModelBuilder((1.0, -2.0, -9.0), name="machine")
    builder.add_body("hull", joint=rbd.joints.Free(), inertia=body(5.0))
    builder.add_body(
        "upper",
        "hull",
        rbd.joints.Spherical(),
        at(0.2, 0.1, 0.0, 0.3, 0.0, 0.1),
        body(2.0),
        joint_name="shoulder",
    )
    hinge = rbd.joints.Revolute((0.0, 1.0, 1.0))
    limits = {"lower": -1.0, "upper": 2.0, "damping": 0.2, "stiffness": 0.5}
    builder.add_body("lower", "upper", hinge, at(0.0, 0.2, 0.5), body(1.0), joint_name="elbow", **limits)
    builder.add_body("flange", "lower", placement=at(0.0, 0.0, 0.3, 0.5, 0.2, 0.1), inertia=body(0.5))
    builder.add_body("lamp", "flange", placement=at(0.0, 0.1, 0.3), inertia=body(0.2))
    builder.add_body("cart", joint=rbd.joints.Prismatic((1.0, 0.0, 0.0)), inertia=body(1.0))
    sites = (
        rbd.Site("tip", "lamp", at(0.1, 0.2, 0.3, 1.0, 2.0, 3.0)),
        rbd.Site("wrist", "flange", at(0.0, 0.1, 0.0, 0.1, 0.2, 0.3)),
    )
    return rbd.attach(builder.build(), *SENSORS, *sites)


@pytest.fixture(scope="module")
def motion(model):
    v, tau = np.random.default_rng(1).normal(size=(2, model.nv))
    q = np.array(jax.jit(lambda key: rbd.random_configuration(model, key))(jax.random.key(1)))
    q[model.q_slice("elbow")] = 1.95
    return q, v, tau


@jax.jit
def sense(model, q, v, tau):
    return rbd.sense(model, rbd.State(q, v), tau, time=2.0)


def as_numpy(tree):
    return jax.tree.map(np.asarray, tree)


def named(readings):
    """Returns the readings by sensor name, as NumPy arrays."""
    vector = np.asarray(readings.vector)
    parts = {name: vector[..., readings.place(name)] for name in readings}
    return {name: part[..., 0] if part.shape[-1] == 1 else part for name, part in parts.items()}


@pytest.fixture(scope="module")
def readings(model, motion):
    return sense(model, *motion)


@pytest.fixture(scope="module")
def values(readings):
    return named(readings)


# Meaning of the readings.


@pytest.mark.slow
def test_an_imu_feels_how_its_site_moves(model, motion, values):
    """The reading is the second derivative of the site's position under acceleration `a`, minus g."""
    q, v, tau = motion

    @jax.jit
    def moving(q, v, tau):
        a = rbd.forward_dynamics(model, q, v, tau + rbd.passive_force(model, q, v))

        def place(t):
            return rbd.site_frames(model, rbd.integrate(model, q, v * t + a * t**2 / 2))[0].position

        zero, one = jnp.zeros(()), jnp.ones(())
        speed = lambda t: jax.jvp(place, (t,), (one,))[1]
        twist = rbd.site_velocities(model, q, v, frame="site")[0]
        # The wrench transmitted by the flange's weld, in the axes of the site.
        wrench = model.named("site", "wrist").placement.inverse_force(
            rbd.joint_wrenches(model, q, v, a)[model.body_index("flange")]
        )
        rotation = rbd.site_frames(model, q)[0].rotation
        return rotation, speed(zero), jax.jvp(speed, (zero,), (one,))[1], twist, wrench

    rotation, speed, acceleration, twist, wrench = as_numpy(moving(q, v, tau))
    assert_each_close(values["velocimeter"], rotation.T @ speed, 1e-11)
    gravity = np.asarray(model.gravity)
    assert_each_close(values["accelerometer"], rotation.T @ (acceleration - gravity), 1e-10)
    assert_each_close((values["gyro"], values["velocimeter"]), (twist[:3], twist[3:]), 1e-12)
    assert_each_close((values["torque"], values["force"]), (wrench[:3], wrench[3:]), 1e-11)


def test_at_rest_it_feels_gravity(model, motion):
    """The reading points up, opposite to gravity; the force of a lamp on a flange is its weight."""
    held = rbd.lock_joints(model, ["hull", "shoulder", "elbow", "cart"])
    assert [one.name for one in held.sensors] == [one.name for one in SENSORS if not one.joints]
    none = np.zeros(0)
    read = named(rbd.sense(held, rbd.State(none, none)))
    tip, wrist = np.asarray(rbd.site_frames(held, none).rotation)
    gravity = np.asarray(model.gravity)
    assert_each_close(read["accelerometer"], -tip.T @ gravity, 1e-12)
    assert_each_close(read["force"], -0.7 * wrist.T @ gravity, 1e-12)
    assert_each_close((read["gyro"], read["kinetic"]), (np.zeros(3), np.zeros(())))


def test_the_others(model, motion, readings, values):
    q, v, tau = motion
    assert_each_close(
        (values["angle"], values["effort"]), (q[model.q_slice("elbow")][0], tau[model.v_slice("elbow")][0])
    )
    assert_each_close(values["limit"], 2.0 - 1.95 - 0.1, 1e-12)
    assert_each_close(values["clock"], 2.0)
    assert_each_close(values["kinetic"] + values["potential"], np.asarray(rbd.mechanical_energy(model, q, v)))
    assert set(readings.keys()) == {one.name for one in SENSORS} and readings["ball"].shape == (4,)
    assert len(readings) == len(SENSORS) and dict(readings)["gyro"].shape == (3,)
    assert "gyro" in repr(readings)
    with pytest.raises(rbd.UnknownNameError, match="no sensor 'giro'; did you mean 'gyro'"):
        readings["giro"]


@pytest.mark.slow
def test_springs_and_constraints_on_bodies_are_borne():
    """A pendulum held by a spring, and one with a constraint: the hinge supports the rest."""
    spring = rbd.forces.SpringDamper(
        ("world", "bob"), ((0, 0, 1), (0, 0, -1)), rest_length=0.5, spring_constant=30.0
    )
    site, sensor = rbd.Site("pivot", "bob"), rs.ForceSensor("force", "pivot")
    bare = rbd.attach(rbd.load("pendulum"), site, sensor)
    tied = rbd.add_constraints(
        bare, rbd.constraints.PointOnPlane("world", (0, 0, 0), (1, 0, 0), "bob", (0, 0, -0.5))
    )
    state = rbd.State(np.zeros(1), np.zeros(1))
    force = lambda model, **more: named(rbd.sense(model, state, **more))["force"]
    weight, held = force(bare), force(rbd.add_forces(bare, spring))
    # At rest and hanging, the spring pulls up with 30 (2 - 0.5).
    assert_each_close(held - weight, np.array([0.0, 0.0, -45.0]), 1e-9)
    pulled = {
        "bob": jax.device_put(np.array([0.0, -4.0, 0.0, 4.0, 0.0, 0.0]))
    }  # a sideways force at the end of the rod
    free, kept = (force(one, f_ext=pulled) for one in (bare, tied))
    a, multipliers = rbd.constrained_dynamics(tied, state.q, state.v, np.zeros(1), pulled)
    expected = rbd.joint_wrenches(tied, state.q, state.v, a, pulled, multipliers)
    assert_each_close(kept, np.asarray(expected)[0, 3:], 1e-10)
    assert abs(float(kept[0] - free[0])) > 1


def test_a_joint_that_friction_holds():
    """With a time step it is held, also on an unloaded axis; without one it falls."""
    imu = rs.Accelerometer("imu", rs.OnBody("bob", (0, 0, -1)))
    model = rbd.attach(rbd.load("pendulum"), imu)
    stuck = eqx.tree_at(lambda m: m.friction, model, jax.device_put(np.array([100.0])))
    state = rbd.State(np.array([np.pi / 2]), np.zeros(1))  # horizontal
    along = lambda model, **options: rbd.sense(model, state, **options)["imu"]

    @jax.jit
    @functools.partial(jax.value_and_grad, has_aux=True)
    def held(dt):
        felt = along(stuck, dt=dt)
        return felt[0], felt

    (_, felt), slope = held(0.01)
    assert_each_close(np.linalg.norm(felt), 9.81, 1e-6)
    assert_each_close(along(stuck), along(model), 1e-12)
    assert np.linalg.norm(along(model)) < 0.1
    assert np.isfinite(slope)


# Edits.


@pytest.mark.slow
def test_edits_do_not_change_what_is_read(model, motion, readings):
    """Fused, renamed, concatenated or rebuilt models have the same readings, to rounding.

    Locked models have those of the remaining sensors.
    """
    q, v, tau = motion
    fused = rbd.fuse_fixed(model)
    # The lamp is part of the flange, which is not fused because of the force sensor and the center of mass.
    assert fused.body_names == ("hull", "upper", "lower", "flange", "cart")
    assert fused.topology.fixed.tolist() == [False, False, False, True, False]
    names = {("sensor", "gyro"): "imu", ("site", "tip"): "end", ("sensor", "axis"): "y"}
    renamed = rbd.rename(model, {"hull": "ship", "flange": "plate"}, {"elbow": "bend"}, names)
    assert renamed.sensors[0].name == "imu" and renamed.sensors[0].refers[0].name == "end"
    rebuilt = rbd.ModelBuilder.from_model(model).build()
    for other in (rbd.rename(fused, attached=names), renamed, rebuilt):
        assert_close(sense(other, q, v, tau).vector, readings.vector, 1e-11, other.body_names)
    both = rbd.concatenate(model, model, names=("a", "b"))
    twice = named(sense(both, *(np.concatenate([x, x]) for x in (q, v, tau))))
    for name in ("gyro", "force", "position", "center", "angle"):
        assert_close(twice[f"b/{name}"], named(readings)[name], 1e-10, name)


@pytest.mark.slow
def test_what_a_lock_takes_goes(model, motion):
    """Locking removes sensors of the joint; the others read the same as in the full model with this motion."""
    q, v, _ = motion
    still = v.copy()
    still[model.v_slice("elbow")] = 0.0
    locked = rbd.lock_joints(model, {"elbow": 1.95})
    gone = {"angle", "rate", "effort", "limit"}
    assert {one.name for one in model.sensors} - {one.name for one in locked.sensors} == gone
    own = (
        np.delete(np.arange(model.nq), model.q_slice("elbow")),
        np.delete(np.arange(model.nv), model.v_slice("elbow")),
    )
    read = named(sense(locked, q[own[0]], still[own[1]], np.zeros(locked.nv)))
    whole = named(sense(model, q, still, np.zeros(model.nv)))
    for name in ("gyro", "velocity", "turning", "orientation", "spin", "drift", "center", "ball"):
        assert_close(read[name], whole[name], 1e-11, name)


def test_a_site_that_goes_is_missed(model):
    without = tuple(thing for thing in model.attached if thing.name != "tip")
    with pytest.raises(rbd.UnknownNameError, match=r"Gyro\('gyro'\): there is no site 'tip'"):
        rbd.attach(rbd.load("pendulum"), *without)


# Derivatives.


@pytest.mark.slow
def test_derivatives(model, motion):
    """With respect to q, v and tau at once, in reverse mode, compared with central differences along a direction."""
    q, v, tau = motion

    def changed(step):
        parts = jnp.split(step, 3)
        q_moved = rbd.integrate(model, q, parts[0])
        return rbd.sense(model, rbd.State(q_moved, v + parts[1]), tau + parts[2]).vector

    direction = np.random.default_rng(9).normal(size=3 * model.nv)
    weigh = lambda readings: (
        jnp.sin(jnp.arange(1.0, 1.0 + readings.size)) @ readings
    )  # all readings at once, with both signs
    weighted = jax.jit(jax.value_and_grad(lambda step: weigh(changed(step))))
    numeric = quotient(lambda t: weighted(t * direction)[0])
    assert_close(np.asarray(weighted(np.zeros(3 * model.nv))[1]) @ direction, numeric, 1e-7)


@pytest.mark.slow
def test_derivatives_are_finite_everywhere(model):
    """At rest, at the limit, for coincident frames, and for a rotation of half a turn."""
    half = rs.FrameOrientation("half", rs.OnBody("hull"), rs.OnBody("hull", at(0, 0, 0, 0, 0, np.pi)))
    same = rs.FrameOrientation("same", rs.OnBody("hull"), rs.OnBody("hull"))
    nothing = rs.SubtreeAngularMomentum("nothing", "dust"), rs.SubtreeCenterOfMass("nowhere", "dust")
    builder = rbd.ModelBuilder.from_model(model)
    builder.add_body("dust", "hull", inertia=rbd.Inertia.zero())
    there = rbd.attach(builder.build(), half, same, *nothing)
    q = np.array(rbd.neutral(there))
    q[there.q_slice("elbow")] = 2.0

    def total(model, q, v, tau):
        return jnp.sum(jnp.abs(rbd.sense(model, rbd.State(q, v), tau, key=jax.random.key(0)).vector) ** 2)

    v = np.zeros(there.nv)
    slopes = eqx.filter_jit(jax.grad(total, (0, 1, 2, 3), allow_int=True))(there, q, v, v)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(eqx.filter(slopes, eqx.is_inexact_array)))
    read = named(rbd.sense(there, rbd.State(q, v)))
    assert_each_close(read["nowhere"], np.zeros(3))


@pytest.mark.slow
def test_single_precision(model, motion, values):
    """Accurate to 1e-5 relative to the size of the readings."""
    q, v, tau = (x.astype(np.float32) for x in motion)
    read = sense(rbd.astype(model, jnp.float32), q, v, tau)
    assert read.vector.dtype == jnp.float32
    for name, found in named(read).items():
        assert_close(found, values[name], 1e-5, name)


# Sensor noise.


@pytest.fixture(scope="module")
def noisy(model):
    """Some of the sensors, with noise."""
    names = ("gyro", "angle", "kinetic", "orientation", "axis", "ball")
    sensors = [one.changed(noise=rs.Noise(0.1, 0.05)) for one in model.sensors if one.name in names]
    return rbd.attach(replace(model, attached=model.sites), *sensors)


def test_noise(noisy, motion, values):
    """Noise has the specified deviation; axes and quaternions keep unit length and rotate by as much."""
    q, v, _ = motion
    many = jax.jit(jax.vmap(lambda key: rbd.sense(noisy, rbd.State(q, v), key=key)))
    keys = jax.random.split(jax.random.key(0), 4000)
    read, again = many(keys), many(keys)
    np.testing.assert_array_equal(read.vector, again.vector)
    read = named(read)
    spread = np.sqrt(0.1**2 + 0.05**2)
    for name in ("gyro", "angle", "kinetic"):
        assert_each_close(
            np.std(read[name] - values[name][None], axis=0), spread * np.ones(values[name].shape), 0.05
        )
    for name in ("orientation", "axis", "ball"):
        assert_each_close(np.linalg.norm(read[name], axis=-1), np.ones(4000), 1e-12)
    for name in ("orientation", "ball"):
        turned = 2 * np.arccos(np.clip(np.abs(read[name] @ values[name]), -1, 1))
        assert_each_close(np.sqrt(np.mean(turned**2) / 3), spread, 0.05)
    exact = rbd.sense(noisy, rbd.State(q, v))
    assert_each_close(exact.vector, np.concatenate([np.ravel(values[name]) for name in exact]), 1e-12)


@pytest.fixture(scope="module")
def path():
    """A falling pendulum with exact, delayed and noisy angle sensors."""
    sensors = (
        rs.JointPosition("angle", "swing"),
        rs.JointPosition("late", "swing", delay=0.025),
        rs.JointPosition("biased", "swing", noise=rs.Noise(bias=0.1)),
        rs.JointPosition("drifting", "swing", noise=rs.Noise(drift=0.2)),
        rs.Accelerometer("felt", rs.OnBody("bob", (0, 0, -1))),
        rs.JointForce("effort", "swing"),
        rs.JointPosition("cut", "swing", cutoff=0.95),
    )
    model = rbd.attach(rbd.load("pendulum"), *sensors)
    state = rbd.State(np.array([1.0]), np.zeros(1))
    return model, rbd.rollout(model, state, lambda t, state: -0.1 * state.v, dt=0.01, steps=100)


def test_along_a_trajectory(path):
    """Each row equals the reading in its state under its control; delayed readings interpolate between rows."""
    model, motion = path
    read = rbd.sense_along(model, motion)
    assert read.vector.shape == (100, 9)
    read, motion = named(read), as_numpy(motion)
    for row in (0, 57):
        state = rbd.State(motion.q[row], motion.v[row])
        tau, time = map(jax.device_put, (motion.tau[row], motion.t[row]))
        one = named(rbd.sense(model, state, tau, time=time))
        for name in ("angle", "felt", "effort", "cut"):
            assert_each_close(read[name][row], one[name])
    assert_each_close(read["late"][50], (motion.q[47, 0] + motion.q[48, 0]) / 2, 1e-9)
    assert_each_close(read["late"][:2], np.ones(2))
    assert_each_close(read["cut"][0], 0.95)


def test_errors_along_a_trajectory(path):
    """A bias is constant for a key, a drift grows with the square root of time."""
    model, motion = path
    keys = jax.random.split(jax.random.key(2), 500)
    read = named(jax.jit(jax.vmap(lambda key: rbd.sense_along(model, motion, key=key)))(keys))
    exact = np.asarray(motion.q)[:-1, 0]
    bias = read["biased"] - exact
    assert_each_close(bias, np.broadcast_to(bias[:, :1], bias.shape), 1e-12)
    drift = np.std(read["drifting"] - exact, axis=0)
    assert_each_close(
        (np.std(bias[:, 0]), drift[0], drift[99], drift[25]), (0.1, 0.0, 0.2 * 0.99**0.5, 0.1), 0.01
    )


# Errors.


BAD = {
    "site": (lambda: rs.Gyro("imu", "tipp"), r"Gyro\('imu'\): there is no site 'tipp'; did you mean 'tip'"),
    "body": (lambda: rs.FramePosition("x", rs.OnBody("hul")), "there is no body 'hul'; did you mean 'hull'"),
    "shape": (lambda: rs.FramePosition("x", rs.OnShape("ball")), "there is no shape 'ball'"),
    "joint": (lambda: rs.JointPosition("x", "elbo"), "there is no joint 'elbo'; did you mean 'elbow'"),
    "subtree": (lambda: rs.SubtreeCenterOfMass("x", "hul"), "there is no body 'hul'"),
    "ball": (lambda: rs.JointPosition("x", "shoulder"), "joint 'shoulder' has 3 degrees of freedom"),
    "twice": (lambda: rs.Clock("gyro"), "two sensors are called 'gyro'"),
    "place": (lambda: rs.Gyro("imu", 3), "Gyro 'imu': a place is 3; it is the name of a site, or"),
    "noise": (lambda: rs.Clock("x", noise=-1.0), "Clock 'x': noise is -1.0; it cannot be less than 0"),
    "cutoff": (lambda: rs.Clock("x", cutoff=0.0), "cutoff is 0.0; it must be greater than 0"),
    "axis": (
        lambda: rs.FrameAxis("x", "tip", "w"),
        "FrameAxis 'x': axis is 'w'; it must be one of 'x', 'y', 'z'",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_what_is_refused(model, what, unchecked):
    make, words = BAD[what]
    with pytest.raises(ValueError, match=words):
        rbd.attach(model, make())


def test_more_that_is_refused(model, motion, path, unchecked):
    q, v, _ = motion
    hinge = rbd.attach(model, rs.JointOrientation("x", "elbow"))
    with pytest.raises(
        rbd.ModelError,
        match=r"JointOrientation\('x'\): joint 'elbow' is a Revolute; this is measured of a Sph",
    ):
        rbd.sense(hinge, rbd.State(q, v))
    with pytest.raises(ValueError, match="sense: tau has shape"):
        rbd.sense(model, rbd.State(q, v), np.zeros(3))
    with pytest.raises(ValueError, match="sense: dt is 0.0; it must be greater than 0"):
        rbd.sense(model, rbd.State(q, v), dt=0.0)
    with pytest.raises(ValueError, match="sense: state is a tuple; it takes a State"):
        rbd.sense(model, (q, v))
    with pytest.raises(ValueError, match="sense_along: trajectory is a batch"):
        rbd.sense_along(path[0], jax.tree.map(lambda x: x[None], path[1]))


def test_a_model_without_sensors_reads_nothing():
    assert rbd.sense(rbd.load("pendulum"), rbd.State(np.zeros(1), np.zeros(1))).vector.shape == (0,)


def test_no_acceleration_is_computed_that_nobody_asks_for(model, motion):
    """With only a gyro, nothing that depends on forces is computed."""
    q, v, tau = motion
    late = {"accelerometer", "force", "torque", "acceleration", "spinning up"}
    early = replace(model, attached=tuple(thing for thing in model.attached if thing.name not in late))
    # If an acceleration were traced, the force would be called.
    asked = []

    def force(model, state, t):
        asked.append(1)
        return jnp.zeros(model.nv)

    jax.make_jaxpr(lambda q, v: rbd.sense(early, rbd.State(q, v), forces=[force]).vector)(q, v)
    assert not asked
    jax.make_jaxpr(lambda q, v: rbd.sense(model, rbd.State(q, v), forces=[force]).vector)(q, v)
    assert len(asked) == 1
