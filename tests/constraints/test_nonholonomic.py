"""Velocity constraints and constraints given as functions: conservation laws, closed-form motions and rejected input."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mechanisms import loose, placement
from support import assert_close

import rbd_jax as rbd
from rbd_jax import constraints as rc, joints


UP = (0.0, 0.0, 1.0)


def turning(angle):
    """A prescribed function of time."""
    return 0.4 * jnp.sin(3 * angle)


def families():
    rng = np.random.default_rng(1)
    point = lambda: rng.uniform(-0.5, 0.5, 3)

    def string(placements, coordinates):
        way = placements.position[1:] - placements.position[:-1]
        return jnp.stack(
            [jnp.sum(jnp.sqrt(jnp.sum(way**2, axis=1))) - 2.0, jnp.sin(coordinates[0]) * coordinates[1]]
        )

    def swept(placements, coordinates, time):
        away = placements.position[0] - placements.position[1]
        return (away @ away - 1.0 + turning(time) * coordinates[0])[None]

    def towed(placements, coordinates, twists, speeds, time):
        along = twists[0, 3:] @ placements.rotation[0].T @ placements.rotation[1] @ jnp.array([1.0, 0.3, 0.0])
        return jnp.stack([along - turning(time) * speeds[0], coordinates[0] * twists[1, 2] + time])

    return [
        rc.RollingSphere("ball", placement(rng), (0.2, -0.3, 1.0), "leg", point(), 0.3),
        rc.RollingSphere("world", placement(rng), UP, "other", point(), 0.2),
        rc.RollingDisk("base", placement(rng), (0.1, 1.0, 1.0), "tail", point(), (1.0, 0.2, 0.0), 0.4, 0.05),
        rc.KnifeEdge("world", "ball", point(), (1.0, 0.3, 0.0)),
        rc.Skate("leg", placement(rng), UP, "other", placement(rng), (1.0, 1.0, 0.2)),
        rc.Implicit(string, {"base": point(), "ball": None, "leg": placement(rng)}, ["arm", "leg"]),
        rc.Implicit(swept, ["ball", "world"], ["tail"], timed=True),
        rc.ImplicitRate(towed, {"ball": point(), "other": None}, ["arm"], timed=True),
    ]


@pytest.mark.slow
def test_rates_and_biases_are_derivatives():
    """At an inconsistent, time-dependent state: `rate` is the rate of position rows, and `G a + bias` that of all rows.

    Book eqs. 3.29, 3.30.
    """
    constraints = families()
    model = rbd.add_constraints(loose(), *constraints)
    rng, time = np.random.default_rng(5), 0.3
    q = jax.jit(rbd.random_configuration)(model, jax.random.key(1))
    v, a = jnp.asarray(rng.normal(size=(2, model.nv)))

    @jax.jit
    def rates(v, a):
        now = rbd.at_time(model, time)
        jacobian = rbd.constraint_jacobian(now, q)
        first = rbd.constraint_velocity(now, q, v)
        linear = rbd.constraint_velocity(now, q, v + a) - first - jacobian @ a
        power = rbd.constraint_force(now, q, first) - jacobian.T @ first
        return first, jacobian @ a + rbd.constraint_bias(now, q, v), linear, power

    @jax.jit
    @jax.vmap
    def along(step):
        there = rbd.at_time(model, time + step)
        moved = rbd.integrate(model, q, step * v + step**2 / 2 * a)
        # The velocity of that path, to second order.
        return rbd.constraint_residual(there, moved), rbd.constraint_velocity(there, moved, v + step * a)

    first, second, linear, power = rates(v, a)
    step = 1e-3
    g, w = (np.asarray(x) for x in along(step * jnp.arange(-2.0, 3.0)))
    slope = lambda x: (8 * (x[3] - x[1]) - (x[4] - x[0])) / (12 * step)
    holds = np.concatenate([one.holonomic for one in constraints])
    np.testing.assert_allclose(first[holds], slope(g)[holds], atol=1e-7)
    np.testing.assert_allclose(g[:, ~holds], 0)
    np.testing.assert_allclose(second, slope(w), atol=2e-6)
    np.testing.assert_allclose(linear, 0, atol=1e-11)
    np.testing.assert_allclose(power, 0, atol=1e-11)
    assert (~holds).sum() == 10


MASS, RADIUS, GRAVITY = 2.0, 0.3, 9.81


def body(joint=None, kind="disk", **options):
    """Returns a thin disk about its z axis, or a solid sphere."""
    across = MASS * RADIUS**2 * (0.25 if kind == "disk" else 0.4)
    along = MASS * RADIUS**2 * (0.5 if kind == "disk" else 0.4)
    inertia = rbd.Inertia.from_mass_com(MASS, np.zeros(3), np.diag([across, across, along]))
    builder = rbd.ModelBuilder(**options)
    builder.add_body("body", joint=joint or joints.Free(), inertia=inertia)
    return builder.build()


def disk():
    rolling = rc.RollingDisk("world", (0, 0, 0), UP, "body", (0, 0, 0), UP, RADIUS)
    return rbd.add_constraints(body(), rolling)


def leaning(angle, turn, spin):
    """Returns the state of a disk with its axis at `angle` to the vertical.

    `turn` is the rotation rate about the vertical, and `spin` the rate about the disk's axis.
    """
    rotation = np.array([[np.cos(angle), 0, np.sin(angle)], [0, 1, 0], [-np.sin(angle), 0, np.cos(angle)]])
    axis, up = rotation[:, 2], np.array(UP)
    omega = turn * up + (spin - turn * np.cos(angle)) * axis
    offset = -RADIUS * (up - np.cos(angle) * axis) / np.sin(angle)
    q = np.concatenate(
        [[0, 0, RADIUS * np.sin(angle)], rbd.lie.quaternion.from_matrix(jnp.asarray(rotation))]
    )
    v = np.concatenate([rotation.T @ omega, rotation.T @ -np.cross(omega, offset)])
    return jnp.asarray(q), jnp.asarray(v)


@jax.jit
def watched(model, q, v):
    """Returns the energy of every row, and the largest violation of the constraints."""
    energy = jax.vmap(lambda q, v: rbd.mechanical_energy(model, q, v))(q, v)
    slip = jax.vmap(lambda q, v: rbd.constraint_velocity(model, q, v))(q, v)
    return (
        energy,
        jnp.max(jnp.abs(jax.vmap(lambda q: rbd.constraint_residual(model, q))(q))),
        jnp.max(jnp.abs(slip)),
    )


def steady_spin(angle, turn):
    """Returns the spin of a steadily leaning thin disk with moments A and C.

    It solves `A Ω² sin cos - (C + m r²) ω Ω sin - m g r cos = 0` (Routh, Advanced Rigid Dynamics, art. 244). The
    equation balances the rate of angular momentum about the contact point with the moment of the weight.
    """
    across, along = MASS * RADIUS**2 / 4, MASS * RADIUS**2 / 2
    left = across * turn**2 * np.sin(angle) * np.cos(angle) - MASS * GRAVITY * RADIUS * np.cos(angle)
    return left / ((along + MASS * RADIUS**2) * turn * np.sin(angle))


@pytest.mark.slow
def test_a_disk_leans_and_turns_steadily():
    """The disk leans at a constant angle for 10 s; constraints hold to 1e-10 and the energy to 1e-8."""
    angle, turn = 1.2, 1.5
    model, (q, v) = disk(), leaning(angle, turn, steady_spin(angle, turn))
    path = rbd.rollout(model, rbd.State(q, v), dt=2e-3, steps=5000, scheme=rbd.RungeKutta4(), save_every=50)
    axis = jax.vmap(rbd.lie.quaternion.to_matrix)(path.q[:, 3:])[:, :, 2]
    swept = np.stack([np.cos(turn * path.t), np.sin(turn * path.t)], axis=1)
    np.testing.assert_allclose(axis[:, 2], np.cos(angle), atol=1e-8)
    np.testing.assert_allclose(axis[:, :2], np.sin(angle) * swept, atol=1e-8)
    energy, opened, slip = watched(model, path.q, path.v)
    assert np.ptp(energy) < 1e-8 and opened < 1e-10 and slip < 1e-10 and path.opening < 1e-10


@pytest.mark.slow
def test_what_holds_a_disk():
    """At any state the constraint forces do no work, the free joint transmits nothing, and the plane carries the load."""
    model, (q, v) = disk(), leaning(0.9, 0.7, 3.0)
    v = rbd.project_velocity(model, q, v + 0.5)
    moving = rbd.constrained_dynamics(model, q, v, jnp.zeros(6))
    assert abs(v @ rbd.constraint_force(model, q, moving.multipliers)) < 1e-12
    borne = rbd.joint_wrenches(model, q, v, moving.acceleration, multipliers=moving.multipliers)
    np.testing.assert_allclose(borne, 0, atol=1e-12)
    assert moving.rank == 3 and rbd.mobility(model, q) == 3
    lift = rbd.body_accelerations(model, q, v, moving.acceleration, "world_aligned")[0, 3:]
    twist = rbd.body_velocities(model, q, v, "world_aligned")[0]
    lift = lift + jnp.cross(twist[:3], twist[3:])  # acceleration of the center, from the spatial acceleration
    np.testing.assert_allclose(
        moving.multipliers, MASS * (lift + jnp.array([0, 0, GRAVITY]))[jnp.array([2, 0, 1])], atol=1e-10
    )


@pytest.mark.slow
@pytest.mark.parametrize("method", ["elimination", "range_space", "null_space", "kkt"])
def test_derivatives_are_those_of_differences(method):
    """Derivatives of accelerations and multipliers by q, v and tau."""
    model, (q, v) = disk(), leaning(0.9, 0.7, 3.0)
    v = rbd.project_velocity(model, q, v + 0.5)
    tau = jnp.asarray(np.random.default_rng(0).normal(size=6))

    def asked(x, model=model):
        moved = rbd.integrate(model, q, x[:6])
        return jnp.concatenate(
            [*rbd.constrained_dynamics(model, moved, v + x[6:12], tau + x[12:18], method=method)]
        )

    @jax.jit
    def both(x):
        found = rbd.constrained_dynamics_derivatives(model, q, v, tau, method=method)
        step = 1e-5 * jnp.eye(18)
        quotients = (jax.vmap(asked)(step) - jax.vmap(asked)(-step)) / 2e-5
        matrices = [
            jnp.concatenate(part)
            for part in zip(found, (found.multipliers_by_q, found.multipliers_by_v, found.multipliers_by_tau))
        ]
        return jnp.concatenate(matrices, axis=1), quotients.T

    found, quotients = both(jnp.zeros(18))
    assert_close(found, quotients, 1e-7)


@pytest.mark.slow
def test_gradients_of_a_rollout_by_the_radius():
    model, (q, v) = disk(), leaning(0.9, 0.7, 3.0)
    v = rbd.project_velocity(model, q, v)

    @jax.jit
    @jax.value_and_grad
    def reached(radius):
        own = eqx.tree_at(lambda model: model.attached[-1].radius, model, radius)
        start = rbd.project(own, rbd.State(q, v))
        path = rbd.rollout(own, start, dt=0.01, steps=20, scheme=rbd.RungeKutta4())
        return path.q[-1] @ jnp.arange(7.0)

    slope = reached(jnp.asarray(RADIUS))[1]
    quotient = (reached(jnp.asarray(RADIUS + 1e-5))[0] - reached(jnp.asarray(RADIUS - 1e-5))[0]) / 2e-5
    np.testing.assert_allclose(slope, quotient, rtol=1e-6)


@pytest.mark.slow
def test_a_sphere_rolls_down_a_slope():
    """The sphere has 5/7 of the acceleration of a sliding body, friction is 2/7 of gravity's pull, and the mobility is
    three (book §3.4).
    """
    slope = 0.4
    normal = (np.sin(slope), 0.0, np.cos(slope))
    model = rbd.add_constraints(
        body(kind="sphere"), rc.RollingSphere("world", (0, 0, 0), normal, "body", (0, 0, 0), RADIUS)
    )
    q = jnp.concatenate([RADIUS * jnp.array(normal), jnp.array([1.0, 0, 0, 0])])
    assert rbd.mobility(model, q) == 3
    touching = rc.PointOnPlane("world", (0, 0, 0), normal, "body", (0, 0, 0))
    assert rbd.mobility(rbd.add_constraints(body(kind="sphere"), touching), q) == 5  # its reachable positions
    a, multipliers = rbd.constrained_dynamics(model, q, jnp.zeros(6), jnp.zeros(6))
    pull = GRAVITY * np.sin(slope)
    np.testing.assert_allclose(np.linalg.norm(a[3:]), 5 / 7 * pull, rtol=1e-12)
    np.testing.assert_allclose(multipliers[0], MASS * GRAVITY * np.cos(slope), rtol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(multipliers[1:]), 2 / 7 * MASS * pull, rtol=1e-12)
    path = rbd.rollout(model, rbd.State(q, jnp.zeros(6)), dt=0.01, steps=100, scheme=rbd.RungeKutta4())
    np.testing.assert_allclose(np.linalg.norm(path.q[-1, :3] - q[:3]), 5 / 14 * pull, rtol=1e-6)
    np.testing.assert_allclose(path.multipliers(model)[:, 0], MASS * GRAVITY * np.cos(slope), rtol=1e-6)


SLEIGH_MASS, ARM, MOMENT = 1.5, 0.4, 0.2


def sleigh(constraint=None):
    """Returns Chaplygin's sleigh: a blade at the origin of a body whose center of mass is ahead of it."""
    builder = rbd.ModelBuilder(name="sleigh")
    own = rbd.Inertia.from_mass_com(SLEIGH_MASS, (ARM, 0.0, 0.0), np.diag([0.1, 0.1, MOMENT]))
    builder.add_body("sleigh", joint=joints.Planar(), inertia=own)
    builder.add_constraint(constraint or rc.KnifeEdge("world", "sleigh", (0, 0, 0)))
    return builder.build()


@pytest.mark.slow
def test_a_knife_edge_carries_a_sleigh_as_chaplygin_found():
    """`u̇ = a ω²` and `(J + m a²) ω̇ = -m a u ω`: with b² = (J + m a²) / m, `u = c tanh(a c t / b² + d)`, `b ω = c /
    cosh`.
    """
    model, b = sleigh(), np.sqrt((MOMENT + SLEIGH_MASS * ARM**2) / SLEIGH_MASS)
    turn, speed = 2.0, -1.0
    c = np.hypot(speed, b * turn)
    start = rbd.State(jnp.zeros(3), jnp.array([turn, speed, 0.0]))
    path = rbd.rollout(model, start, dt=2e-3, steps=5000, scheme=rbd.RungeKutta4(), save_every=50)
    phase = ARM * c / b**2 * path.t + np.arctanh(speed / c)
    np.testing.assert_allclose(path.v[:, 1], c * np.tanh(phase), atol=1e-9)
    np.testing.assert_allclose(path.v[:, 0], c / b / np.cosh(phase), atol=1e-9)
    energy, _, slip = watched(model, path.q, path.v)
    assert np.ptp(energy) < 1e-8 and slip < 1e-10


@pytest.mark.slow
def test_a_skate_in_the_plane_is_a_knife_edge():
    skate = sleigh(rc.Skate("world", (0, 0, 0), UP, "sleigh", (0, 0, 0)))
    q, v, tau = jnp.array([0.3, 1.0, 2.0]), jnp.array([2.0, -1.0, 0.0]), jnp.array([0.1, 0.2, -0.4])
    other = rbd.constrained_dynamics(sleigh(), q, v, tau)
    found = rbd.constrained_dynamics(skate, q, v, tau)
    np.testing.assert_allclose(found.acceleration, other.acceleration, atol=1e-12)
    np.testing.assert_allclose(found.multipliers[1:], other.multipliers, atol=1e-12)


@pytest.mark.slow
def test_a_function_of_rates_is_what_a_family_is():
    def sideways(placements, coordinates, twists, speeds):
        return twists[0, 4:5]

    both = sleigh(rc.ImplicitRate(sideways, ["sleigh"])), sleigh()
    run = jax.jit(lambda *state: [rbd.constrained_dynamics(model, *state) for model in both])
    found, expected = run(np.array([0.3, 1.0, 2.0]), np.array([2.0, -1.0, 0.0]), np.array([0.1, 0.2, -0.4]))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


@pytest.mark.slow
def test_projection_moves_velocities_and_not_positions():
    """A velocity constraint alone leaves the configuration unchanged.

    With an additional position constraint, the configuration is the same as with that constraint alone.
    """
    model, q, v = sleigh(), jnp.array([0.3, 1.0, 2.0]), jnp.array([2.0, -1.0, 0.7])
    found = rbd.project(model, rbd.State(q, v))
    here, projected = found.q, found.v
    np.testing.assert_array_equal(here, q)
    assert abs(projected[2]) < 1e-15 and abs(rbd.constraint_velocity(model, q, v)[0]) > 0.1
    # The projection is orthogonal: the removed velocity is orthogonal to the remaining one.
    assert abs(rbd.mass_matrix(model, q) @ (v - projected) @ projected) < 1e-12
    wall = rc.PointOnPlane("world", (0, 0, 0), (1.0, 0.5, 0.0), "sleigh", (0.2, 0.1, 0.0))
    alone = rbd.add_constraints(rbd.detach(model, "constraint"), wall)
    both = rbd.add_constraints(model, wall)
    near = jnp.array([0.3, 0.02, 0.05])
    np.testing.assert_allclose(
        *(rbd.project(which, rbd.State(near, v)).q for which in (both, alone)), atol=1e-13
    )
    assembled = rbd.assemble(both, near)
    np.testing.assert_allclose(assembled.q, rbd.assemble(alone, near).q, atol=1e-13)
    assert assembled.closed


@pytest.mark.slow
def test_wheels_of_a_cart():
    """Two rolling wheels under a planar body: the redundant height rows do not change the result."""
    builder = rbd.ModelBuilder(name="cart")
    builder.add_body(
        "cart", joint=joints.Planar(), inertia=rbd.Inertia.box(3.0, (0.5, 0.4, 0.1), (0.1, 0.0, 0.0))
    )
    wide, radius = 0.25, 0.1
    for name, side in (("left", 1), ("right", -1)):
        at = (0.0, side * wide, radius)
        wheel = rbd.Inertia.cylinder(0.4, radius, 0.03)
        turned = rbd.Transform.from_xyz_rpy(at, (-np.pi / 2, 0.0, 0.0))
        builder.add_body(name, "cart", joints.Revolute(), turned, wheel)
        builder.add_constraint(rc.RollingDisk("world", (0, 0, 0), UP, name, (0, 0, 0), UP, radius))
    model = builder.build()
    q = jnp.array([0.4, 1.0, 2.0, 0.3, -0.8])
    assert rbd.mobility(model, q) == 2
    v = rbd.project_velocity(model, q, jnp.array([1.0, 0.5, 0.3, 4.0, -2.0]))
    np.testing.assert_allclose(v[1], radius * (v[3] + v[4]) / 2, atol=1e-12)
    np.testing.assert_allclose(v[0], radius * (v[4] - v[3]) / (2 * wide), atol=1e-12)
    assert abs(v[2]) < 1e-12
    a, _ = rbd.constrained_dynamics(model, q, v, jnp.array([0, 0, 0, 0.5, 0.2]))
    power = rbd.mass_matrix(model, q) @ a + rbd.bias_force(model, q, v)
    np.testing.assert_allclose(power @ v, v[3] * 0.5 + v[4] * 0.2, atol=1e-11)


def walled():
    """Returns the sleigh shortly before its nose hits an oblique wall, and its configuration at contact."""
    nose = rbd.Shape("nose", "sleigh", rbd.shapes.Sphere(0.1), (0.5, 0, 0), friction=(0, 0, 0))
    askew = rbd.Transform.from_xyz_rpy((0.7, 0, 0), (0, 0, ASKEW))
    wall = rbd.Shape("wall", "world", rbd.shapes.Box((0.1, 2, 1)), askew, friction=(0, 0, 0))
    # The sphere is 0.1 before the box, which is 0.1 thick on this side.
    reach = 0.7 - 0.2 / np.cos(ASKEW) - 0.5
    return rbd.attach(sleigh(), nose, wall), jnp.array([0.0, reach, 0.0])


ASKEW = 0.4


def towards_the_wall(model, q, v):
    twist = rbd.body_velocities(model, q, v, "world_aligned")[0]
    nose = twist[3:] + np.cross(twist[:3], np.array([0.5 * np.cos(q[0]), 0.5 * np.sin(q[0]), 0.0]))
    return nose @ np.array([np.cos(ASKEW), np.sin(ASKEW), 0.0])


@pytest.mark.slow
def test_impacts_hold_them():
    """The blade constrains the sleigh during the impact, so that the sleigh rotates."""
    model, q = walled()
    v = jnp.array([0.0, 2.0, 0.0])
    hit = rbd.contact.impact(model, q, v, restitution=0.5)
    assert abs(hit.velocity[2]) < 1e-10 and hit.velocity[0] < -0.1
    coming, going = (towards_the_wall(model, q, each) for each in (v, hit.velocity))
    np.testing.assert_allclose(going, -0.5 * coming, atol=1e-6)


@pytest.mark.slow
def test_contact_laws_hold_them():
    model, q = walled()
    rigid = rbd.attach(model, rbd.contact.Rigid())
    start = rbd.State(q.at[1].add(-0.1), jnp.array([0.0, 2.0, 0.0]))
    path = rbd.rollout(rigid, start, dt=0.01, steps=10)
    slip = jax.vmap(lambda q, v: rbd.constraint_velocity(rigid, q, v))(path.q, path.v)
    assert jnp.max(jnp.abs(slip)) < 1e-10 and path.v[-1, 0] < -0.1


def test_refusals():
    model = sleigh()
    with pytest.raises(ValueError, match="KnifeEdge.*holds velocities"):
        rbd.ReducedModel(model, lambda y: jnp.concatenate([y, y, y]), 1)
    with pytest.raises(ValueError, match="breaks its constraints: KnifeEdge.*in velocity by 1"):
        rbd.rollout(model, rbd.State(np.zeros(3), np.array([0.0, 0.0, 1.0])), dt=0.01, steps=1)
    with pytest.raises(ValueError, match="not linear in twists"):
        rc.ImplicitRate(lambda p, c, twists, speeds: twists[0, :1] ** 2, ["sleigh"])
    with pytest.raises(ValueError, match=r"shape \(\)"):
        rc.Implicit(lambda p, c: c[0], joints=["a"])
    with pytest.raises(ValueError, match="no body and on no joint"):
        rc.Implicit(lambda p, c: c)
    with pytest.raises(ValueError, match="a list of names"):
        rc.Implicit(lambda p, c: c, joints="a")
    with pytest.raises(ValueError, match="angles has 1 entries"):
        rc.Implicit(lambda p, c: c, joints=["a", "b"], angles=[True])


@pytest.mark.slow
def test_three_disks_in_a_taut_string():
    """The book's constraint between three bodies, `l1 + l2 + l3 + 2 π r = p` (§3.4).

    The multiplier is the negative tension.
    """
    radius = 0.1

    def perimeter(placements, coordinates):
        around = placements.position[jnp.array([1, 2, 0])] - placements.position
        return (jnp.sum(jnp.sqrt(jnp.sum(around**2, axis=1))) + 2 * jnp.pi * radius - 4.0)[None]

    builder = rbd.ModelBuilder(gravity=(0, 0, 0), name="disks")
    for name in ("a", "b", "c"):
        builder.add_body(name, joint=joints.Planar(), inertia=rbd.Inertia.cylinder(1.0, radius, 0.02))
    builder.add_constraint(rc.Implicit(perimeter, ["a", "b", "c"]))
    model = builder.build()
    q = rbd.assemble(model, jnp.array([0, 0.0, 0, 0, 1.2, 0.1, 0, 0.4, 0.9])).q
    pulled = jnp.array([0, 0, 0, 0, 5.0, 0, 0, 0, 3.0])
    a, multipliers = rbd.constrained_dynamics(model, q, jnp.zeros(9), pulled)
    assert multipliers[0] < 0  # the string is in tension
    place = q.reshape(3, 3)[:, 1:]
    for i in range(3):
        ways = [place[j] - place[i] for j in range(3) if j != i]
        tension = -multipliers[0] * sum(way / np.linalg.norm(way) for way in ways)
        np.testing.assert_allclose(a.reshape(3, 3)[i, 1:], pulled.reshape(3, 3)[i, 1:] + tension, atol=1e-9)
    start = rbd.State(q, rbd.project_velocity(model, q, jnp.arange(9.0) / 9))
    path = rbd.rollout(model, start, dt=0.01, steps=100, scheme=rbd.RungeKutta4())
    assert path.opening < 1e-12


@pytest.mark.slow
def test_ways_to_solve_agree_on_all_of_them():
    """The model has loops between bodies of a tree, and a driven joint."""
    model = rbd.add_constraints(loose(mimicking=False), *families())
    rng = np.random.default_rng(5)
    q = jax.jit(rbd.random_configuration)(model, jax.random.key(1))
    v, tau = jnp.asarray(rng.normal(size=(2, model.nv)))
    now = rbd.at_time(model, 0.3)
    found = [
        jax.jit(lambda q, v, method=method: rbd.constrained_dynamics(now, q, v, tau, method=method))(q, v)
        for method in ("elimination", "kkt")
    ]
    assert_close(found[0].acceleration, found[1].acceleration, 1e-8)
    assert found[0].rank == found[1].rank


@pytest.mark.slow
def test_slip_decays_under_baumgarte():
    """A velocity constraint w obeys `ẇ = -2 α w` for every β."""
    model, q, v = sleigh(), jnp.array([0.3, 1.0, 2.0]), jnp.array([2.0, -1.0, 0.7])
    a = rbd.constrained_dynamics(
        model, q, v, jnp.zeros(3), stabilization=rc.Baumgarte(3.0, 50.0)
    ).acceleration
    rate = rbd.constraint_jacobian(model, q) @ a + rbd.constraint_bias(model, q, v)
    np.testing.assert_allclose(rate, -2 * 3.0 * rbd.constraint_velocity(model, q, v), atol=1e-12)


@pytest.mark.slow
def test_single_precision_and_a_disk_that_lies_flat():
    """Single precision agrees. For a disk that lies flat, without a unique contact point, values and gradients are finite."""
    model, (q, v) = disk(), leaning(0.9, 0.7, 3.0)
    single = rbd.astype(model, jnp.float32)
    asked = [x.astype(jnp.float32) for x in (q, v, jnp.zeros(6))]
    rough, fine = (
        rbd.constrained_dynamics(single, *asked),
        rbd.constrained_dynamics(model, q, v, jnp.zeros(6)),
    )
    assert rough.acceleration.dtype == jnp.float32
    assert_close(rough.acceleration, fine.acceleration, 1e-4)
    rolling = model.constraints[0]

    @jax.jit
    def everything(turn):
        lying = rbd.Transform(rbd.lie.SO3.exp(turn), jnp.zeros(3))
        placed = jax.tree.map(lambda a, b: jnp.stack([a, b]), rbd.Transform.identity(), lying)
        twists = jnp.ones((2, 6)) * jnp.arange(2.0)[:, None]
        bias = rolling.bias(placed, jnp.zeros(0), twists, jnp.zeros(0), twists)
        return jnp.concatenate(
            [rolling.residual(placed, jnp.zeros(0)), rolling.jacobian(placed, jnp.zeros(0))[0].ravel(), bias]
        )

    for turn in (jnp.zeros(3), jnp.array([jnp.pi, 0.0, 0.0])):
        assert np.isfinite(everything(turn)).all() and np.isfinite(jax.jacfwd(everything)(turn)).all()


@pytest.mark.slow
def test_energy_momentum_keeps_the_energy_of_a_disk():
    """Energy is conserved to rounding, with constraints that hold on average over each step."""
    model, (q, v) = disk(), leaning(1.1, 1.0, 4.0)
    v = rbd.project_velocity(model, q, v)
    path = rbd.rollout(
        model, rbd.State(q, v), dt=0.01, steps=1000, scheme=rbd.EnergyMomentum(), save_every=10
    )
    energy, opened, slip = watched(model, path.q, path.v)
    assert np.ptp(energy) < 1e-8 and opened < 1e-10 and slip < 0.05
