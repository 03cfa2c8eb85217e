"""Load-dependent joint friction (Sueda's notes, §2.11): sticking limits, closed forms and staggered projections."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import assert_close, quotient

import rbd_jax as rbd
from rbd_jax import constraints, forces, joints
from rbd_jax._core.array import with_precision
from rbd_jax._core.errors import ModelError


DT, G = 0.01, 9.81
TIP = rbd.Transform.from_xyz_rpy((1.0, 0.0, 0.0))


def hinge(inertia, gravity=(0.0, 0.0, -G), **bearing):
    """Returns a body on a hinge about y."""
    builder = rbd.ModelBuilder(gravity=gravity, name="hinge")
    builder.add_body("body", joint=joints.Revolute((0, 1, 0)), inertia=inertia)
    return rbd.attach(builder.build(), forces.Bearing("body", **bearing))


def start(q, v):
    return rbd.State(np.asarray(q, float), np.asarray(v, float))


WHEEL = rbd.Inertia.from_mass_com(2.0, (0, 0, 0), 0.1 * np.eye(3))
PENDULUM = rbd.Inertia.from_mass_com(2.0, (0, 0, -0.5), 0.1 * np.eye(3))


#: Number of initial states in each call of `swung`, fixed so that it compiles once.
STARTS = 20


@functools.partial(jax.jit, static_argnums=3)
@functools.partial(jax.vmap, in_axes=(0, 0, None, None))
def swung(q, v, dt, scheme):
    """Returns trajectories of 200 steps of pendulums with friction, from each initial state."""
    model = hinge(PENDULUM, coefficient=0.4, radius=0.1)
    return rbd.rollout(model, rbd.State(q, v), dt=dt, steps=200, scheme=scheme)


@pytest.mark.slow
def test_a_wheel_on_a_loaded_bearing():
    """Its speed decreases by μ r m g / I per second until it stops and stays at rest."""
    model = hinge(WHEEL, coefficient=0.1, radius=0.05)
    path = rbd.rollout(model, start([0.3], [1.0]), dt=DT, steps=150)
    t = np.asarray(path.t)
    assert_close(path.v[:, 0], np.maximum(1 - 0.1 * 0.05 * 2 * G / 0.1 * t, 0), 1e-8)
    assert np.abs(path.v[110:]).max() < 1e-10 and np.ptp(path.q[110:]) < 1e-10
    loads = np.asarray(path.reactions(model))
    assert_close(np.linalg.norm(loads[:, 0, 3:], axis=1), np.full(150, 2 * G), 1e-9)


def test_a_pendulum_is_held_where_its_lever_is_short():
    """It rests up to sin q = μ r / l for any weight, and moves beyond."""
    edge = np.arcsin(0.4 * 0.1 / 0.5)
    q = edge * np.array([-0.999, 0.0, 0.5, 0.999, 1.001, -1.001])
    q = np.concatenate([q, np.zeros(STARTS - 6)])[:, None]
    v = np.asarray(swung(q, 0 * q, DT, rbd.SemiImplicitEuler()).v)[:6, 10, 0]
    moved = np.abs(v)
    assert (moved[:4] < 1e-10).all() and (moved[4:] > 1e-5).all()
    assert (np.sign(v[4:]) == -np.sign(q[4:6, 0])).all()


def test_a_pendulum_that_swings():
    """The torque is μ r times the reaction, which depends on the resulting acceleration."""
    model = hinge(PENDULUM, coefficient=0.4, radius=0.1)
    mass, lever, inertia = 2.0, 0.5, 0.1 + 2 * 0.25
    rng = np.random.default_rng(0)
    q, v = rng.uniform(-3, 3, STARTS), rng.choice([-1, 1], STARTS) * rng.uniform(0.5, 4, STARTS)
    a = np.zeros(STARTS)
    for _ in range(100):
        normal = np.hypot(mass * (lever * v**2 + G * np.cos(q)), mass * (lever * a + G * np.sin(q)))
        a = (-mass * G * lever * np.sin(q) - 0.4 * 0.1 * normal * np.sign(v)) / inertia
    one = swung(q[:, None], v[:, None], 1e-3, rbd.SemiImplicitEuler())
    assert_close((np.asarray(one.v)[:, 1, 0] - v) / 1e-3, a, 1e-8)
    # `acceleration` smooths friction and gives the same at high speed.
    now = jax.jit(jax.vmap(lambda q, v: rbd.acceleration(model, rbd.State(q, v))))
    assert_close(np.asarray(now(q[:, None], v[:, None]))[:, 0], a, 1e-4)


@pytest.mark.slow
def test_as_staggered_projections_of_the_contacts_inside():
    """Four contacts around each end of a cylinder on a free body, as in Sueda (algorithm 8, eq. 2.118)."""
    mu, r, length, h = 0.3, 0.05, 0.2, 1e-3
    inertia = rbd.Inertia.from_mass_com(2.0, (0.0, 0.15, 0.0), np.diag([0.2, 0.1, 0.3]))
    model = hinge(inertia, gravity=(-G, 0.0, 0.0), coefficient=mu, radius=r, length=length)
    found = rbd.step(model, start([0.0], [5.0]), dt=h).v[0]

    normals, tangents, axis = [], [], np.array([0.0, 1.0, 0.0])
    for end in (-length / 2, length / 2):
        for n in ([1, 0, 0], [-1, 0, 0], [0, 0, 1], [0, 0, -1]):
            n = np.array(n, float)
            at, t = end * axis + r * n, np.cross(axis, n)
            normals.append(np.concatenate([np.cross(at, n), n]))
            tangents.append(np.concatenate([np.cross(at, t), t]))
    normals.append(np.concatenate([np.zeros(3), axis]))  # fixed along the axis, without load
    tangents.append(np.concatenate([np.zeros(3), [1.0, 0, 0]]))
    mass = np.asarray(inertia.matrix)
    weight = np.concatenate([np.cross([0, 0.15, 0], [-2 * G, 0, 0]), [-2 * G, 0, 0]])
    free = np.array([0, 5.0, 0, 0, 0, 0]) + h * np.linalg.solve(mass, weight)
    solved = rbd.contact.solvers.staggered_projections(
        jnp.asarray(mass),
        jnp.asarray(free),
        jnp.asarray(normals),
        jnp.asarray(tangents)[:, None],
        jnp.asarray([mu] * 8 + [0.0]),
        bilateral=jnp.ones(9, bool),
    )
    assert solved.code == 0
    assert_close(solved.velocity[1], found, 1e-7)
    # The bushings are at ±0.1 and the mass at 0.15: they support 1.25 and -0.25 of the weight.
    assert_close(5 - found, h * mu * r * 2 * G * 1.5 / 0.1, 1e-7)


@pytest.mark.slow
def test_a_drawer_jams():
    """Pushed at a distance d from its middle, it moves only if 2 μ d < L, for any force."""
    builder = rbd.ModelBuilder(gravity=(0.0, 0.0, 0.0), name="drawer")
    builder.add_body("drawer", joint=joints.Prismatic((1.0, 0, 0)), inertia=WHEEL)
    model = rbd.attach(builder.build(), forces.Bearing("drawer", 0.5, radius=0.1, length=0.4))

    def pushed(force, off, up):
        point = jnp.stack([0.0, off, up])
        push = forces.DirectionalForce("drawer", point, (force, 0.0, 0.0))
        return rbd.step(model, start([0.0], [0.0]), dt=DT, forces=(push,)).v[0]

    off = jnp.array([0.1, 0.2, 0.39, 0.41, 1.0])
    for size in (1.0, 1000.0):
        speed = jax.vmap(lambda d, size=size: pushed(size, d, 0.0))(off) / size
        assert_close(speed, DT * np.maximum(1 - 2 * 0.5 * np.asarray(off) / 0.4, 0) / 2, 1e-9)
    assert_close(pushed(1.0, 0.12, 0.16), DT * (1 - 2 * 0.5 * 0.2 / 0.4) / 2, 1e-9)


@pytest.mark.slow
def test_a_follower_rubs_through_its_gear():
    """A wheel that turns three times as fast as its leader slows it by three times its friction; in single precision."""
    builder = rbd.ModelBuilder(name="gear")
    builder.add_body("slow", joint=joints.Revolute((0, 1, 0)), inertia=WHEEL)
    follow = rbd.Mimic("slow", -3.0)
    builder.add_body("fast", joint=joints.Revolute((0, 1, 0)), inertia=WHEEL, mimic=follow)
    model = with_precision(rbd.attach(builder.build(), forces.Bearing("fast", 0.1, 0.05)), jnp.float32)
    state = rbd.State(jnp.zeros(1, jnp.float32), jnp.ones(1, jnp.float32))
    path = rbd.rollout(model, state, dt=DT, steps=50)
    assert path.v.dtype == jnp.float32 and path.code == 0
    slower = 3 * 0.1 * 0.05 * 2 * G / (0.1 + 9 * 0.1)
    assert_close(path.v[:, 0], 1 - slower * np.asarray(path.t), 1e-5)


def four_bar():
    builder = rbd.ModelBuilder(gravity=(0.0, G, 0.0), name="four-bar")
    rod = rbd.Inertia.box(1.0, (1.0, 0.05, 0.05), (0.5, 0.0, 0.0))
    builder.add_body("crank", "world", joints.Revolute(), inertia=rod)
    builder.add_body("coupler", "crank", joints.Revolute(), TIP, rod)
    builder.add_body("follower", "world", joints.Revolute(), TIP, rod)
    builder.add_constraint(constraints.HingeLoop("coupler", TIP, "follower", TIP))
    return builder.build()


@pytest.mark.slow
def test_with_a_loop():
    """Each joint has its own reaction, which the others' friction changes (Sueda eqs. 2.119, 2.120).

    The energy decreases until the motion stops.
    """
    plain = four_bar()
    model = rbd.attach(plain, forces.Bearing(["crank", "coupler", "follower"], [2.0, 1.5, 1.0], 0.1))
    q, v = jnp.array([0.6, -0.6, 0.6]), jnp.array([2.0, -2.0, 2.0])
    sizes = np.zeros(3)
    for _ in range(40):
        a, multipliers = rbd.constrained_dynamics(plain, q, v, -jnp.asarray(sizes) * jnp.sign(v))
        borne = rbd.joint_wrenches(plain, q, v, a, multipliers=multipliers)
        sizes = np.array([2.0, 1.5, 1.0]) * 0.1 * np.linalg.norm(borne[:, 3:], axis=1)
    path = rbd.rollout(model, rbd.State(q, v), dt=1e-3, steps=2000, save_every=50)
    one = rbd.rollout(model, rbd.State(q, v), dt=1e-3, steps=1, stabilization=None)
    assert_close((one.v[1] - v) / 1e-3, a, 1e-8)
    energy = jax.vmap(lambda q, v: rbd.kinetic_energy(plain, q, v) + rbd.potential_energy(plain, q))
    energies = np.asarray(energy(path.q, path.v))
    assert path.code == rbd.Result.SUCCESS and (np.diff(energies) < 2e-3).all()
    assert np.abs(path.v[-5:]).max() < 1e-8 and energies[-1] < energies[0] - 1


def chain():
    builder = rbd.ModelBuilder(name="chain")
    rod = rbd.Inertia.from_mass_com(1.2, (0.3, 0.0, 0.1), np.diag([0.02, 0.05, 0.04]))
    builder.add_body("a", "world", joints.Revolute((0, 1, 0)), inertia=rod)
    builder.add_body("b", "a", joints.Revolute((1, 0.3, 0)), TIP, rod, friction=0.1)
    builder.add_body("c", "b", joints.Prismatic((1, 0, 0)), TIP, rod)
    return builder.build()


@pytest.mark.slow
def test_derivatives():
    """With respect to μ, r, L, torque and state, for sliding and sticking joints."""
    plain, rng = chain(), np.random.default_rng(1)
    given = {
        "coefficient": jnp.array([0.3, 0.2, 0.4]),
        "radius": jnp.array([0.05, 0.9, 0.1]),
        "length": jnp.array([0.3, 0.4, 0.2]),
        "tau": jnp.asarray(rng.normal(size=3)),
        "q": jnp.asarray(rng.normal(size=3)),
        "v": jnp.array([1.0, 0.0, -0.8]),
    }
    weights = jnp.asarray(rng.normal(size=6))

    def end(x):
        bearing = forces.Bearing(["a", "b", "c"], x["coefficient"], x["radius"], x["length"])
        state = rbd.State(x["q"], x["v"])
        model = rbd.attach(plain, bearing)
        return rbd.rollout(model, state, jnp.stack([x["tau"]] * 2), dt=5e-3).final

    def value(x):
        final = end(x)
        return weights @ jnp.concatenate([final.q, final.v])

    along = {name: jnp.asarray(rng.normal(size=3)) for name in given}
    along["v"] = along["v"].at[1].set(0.0)  # a sticking joint has zero velocity
    moved = lambda step: jax.tree.map(lambda x, dx: x + step * dx, given, along)
    final = end(given)
    assert abs(final.v[1]) < 1e-9 and abs(final.v[0]) > 0.1 and abs(final.v[2]) > 0.1
    both = jax.jit(jax.vmap(lambda step: value(moved(step))))
    expected = (both(jnp.array([1e-5]))[0] - both(jnp.array([-1e-5]))[0]) / 2e-5
    slopes = jax.jit(jax.grad(value))(given)
    found = sum(jnp.vdot(slopes[name], along[name]) for name in given)
    assert_close(found, expected, 1e-6)


@pytest.mark.slow
def test_explicit_schemes():
    """They smooth it, like other friction."""
    q, v = (np.full((STARTS, 1), x) for x in (2.0, 1.5))
    ends = [
        np.asarray(swung(q, v, 1e-3, scheme).q)[0, -1]
        for scheme in (rbd.SemiImplicitEuler(), rbd.RungeKutta4())
    ]
    assert_close(ends[0], ends[1], 2e-3)


def test_other_schemes():
    """Implicit schemes and reduced models reject bearings."""
    model, state = hinge(PENDULUM, coefficient=0.4, radius=0.1), start([2.0], [1.5])
    with pytest.raises(ModelError, match="bearings.*SemiImplicitEuler"):
        rbd.rollout(model, state, dt=DT, steps=1, scheme=rbd.ImplicitMidpoint())
    reduced = rbd.ReducedModel(model, lambda y: y, 1)
    with pytest.raises(ValueError, match="bearings"):
        rbd.rollout(reduced, state, dt=DT, steps=1)


@pytest.mark.slow
def test_derivatives_where_nothing_presses():
    """They are finite without load and at rest, and zero for sticking joints."""
    weightless = hinge(WHEEL, gravity=(0.0, 0.0, 0.0), coefficient=0.1, radius=0.05)

    def speed(mu, gravity, v):
        bearing = dataclasses.replace(weightless.attached[0], coefficient=mu[None])
        model = dataclasses.replace(weightless, gravity=gravity, attached=(bearing,))
        return rbd.step(model, rbd.State(jnp.zeros(1), v[None]), dt=DT).v[0]

    slopes = jax.jit(jax.vmap(jax.grad(speed, argnums=(0, 1, 2)), in_axes=(None, 0, 0)))
    mu, gravity, v = jnp.array(0.1), jnp.array([[0.0, 0, 0], [0, 0, 0], [0, 0, -G]]), jnp.array([0.0, 1, 0])
    by_mu, by_gravity, by_v = slopes(mu, gravity, v)
    assert_close(by_mu, np.zeros(3), 1e-8)
    # At the kink of zero load, any slope between the one-sided ones is valid.
    most = DT * 0.1 * 0.05 * 2 / 0.1 * (1 + 1e-6)
    assert np.abs(by_gravity).max() <= most and not np.abs(by_gravity[np.array([0, 2])]).max() > 1e-8
    assert_close(by_v, np.array([1.0, 1.0, 0.0]), 1e-6)


@pytest.mark.slow
def test_matrices_of_a_step():
    """These use forward mode."""
    model, state = hinge(PENDULUM, coefficient=0.4, radius=0.1), start([2.0], [1.5])
    a, b = rbd.step_derivatives(model, state, dt=DT)
    by_tau = quotient(lambda tau: rbd.step(model, state, jnp.full(1, tau), dt=DT).v)
    by_q = quotient(lambda q: rbd.step(model, start([2.0 + q], [1.5]), dt=DT).v)
    assert_close(b[1], by_tau, 1e-7)
    assert_close(a[1, :1], by_q, 1e-7)


@pytest.mark.slow
def test_under_a_contact_law():
    """A lever with its tip on the floor rises if a torque exceeds half of its weight plus the bearing friction."""
    builder = rbd.ModelBuilder(name="lever")
    builder.add_body(
        "lever", "world", joints.Revolute((0, -1, 0)), None, rbd.Inertia.box(1.0, (1, 0.1, 0.1), (0.5, 0, 0))
    )
    builder.attach(
        rbd.Shape("tip", "lever", rbd.shapes.Sphere(0.1), (1.0, 0, 0)),
        rbd.Shape("floor", "world", rbd.shapes.Plane(), (0, 0, -0.1)),
        rbd.contact.Rigid(),
        forces.Bearing("lever", 0.5, 0.2),
    )
    model = builder.build()
    most = G * 0.5 + 0.5 * 0.2 * G
    tau = jnp.array([0.0, 0.55 * G, 0.995 * most, 1.01 * most])
    run = lambda tau: rbd.rollout(model, start([0.0], [0.0]), jnp.full((5, 1), tau), dt=DT)
    speed = np.asarray(jax.vmap(run)(tau).v[:, -1, 0])
    assert (np.abs(speed[:3]) < 1e-6).all() and speed[3] > 1e-3


def test_what_it_is_on():
    model = hinge(WHEEL, coefficient=0.1, radius=0.05)
    assert rbd.detach(model, "bearing").attached == ()
    with pytest.raises(ModelError, match="degrees of freedom"):
        rbd.attach(rbd.load("quadruped"), forces.Bearing(rbd.load("quadruped").joint_names[0], 0.1, 0.1))
    with pytest.raises(ValueError, match="radius"):
        forces.Bearing("body", 0.1, 0.0)
    builder = rbd.ModelBuilder()
    builder.add_body("nut", joint=joints.Helical((0, 0, 1), 0.1), inertia=WHEEL)
    with pytest.raises(ModelError, match="Helical"):
        screw = rbd.attach(builder.build(), forces.Bearing("nut", 0.1, 0.1))
        rbd.step(screw, start([0.0], [0.0]), dt=DT)
    lighter = dataclasses.replace(forces.Bearing(["x", "y"], 0.1, [0.1, 0.2], 0.3))
    left = lighter.locked(["x"])
    assert (
        left.joints == ("y",) and left.radius == 0.2 and left.length == 0.3 and lighter.locked("xy") is None
    )
