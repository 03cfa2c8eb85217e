"""Models in a few independent variables agree with constrained models and mimic joints, and do not drift."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mechanisms import at, inertia, placement
from support import differences

import rbd_jax as rbd
from rbd_jax import constraints as rc, forces, joints
from rbd_jax.lie import SE3
from rbd_jax.simulate import system_of


RATIOS = (1.0, 0.7, -0.4)


def finger(mimic=False, curved=False, **along):
    """Returns a rotating palm and three knuckles.

    The knuckles follow the first with `mimic`, by constraints with `curved`, or else move independently.
    """
    rng = np.random.default_rng(4)
    builder = rbd.ModelBuilder(name="finger")
    builder.add_body("palm", "world", joints.Revolute((0.3, 1.0, 0.2)), placement(rng), inertia(rng), **along)
    parent = "palm"
    for i, ratio in enumerate(RATIOS):
        follow = {"mimic": rbd.Mimic("knuckle 0", ratio)} if mimic and i else {}
        turn = joints.Revolute((0.2, 1.0, 0.1 * i))
        parent = builder.add_body(
            f"knuckle {i}", parent, turn, at((0.4, 0.0, 0.1)), inertia(rng), **along, **follow
        )
    if curved:
        for i, row in enumerate(CURVES, 1):
            tie = {f"knuckle {i}": (0.0, -1.0), "knuckle 0": (0.0, *row)}
            builder.add_constraint(rc.CoordinateCoupling(tie))
    return builder.build()


#: Rotations of the second and third knuckle, as polynomials in the first knuckle's angle.
CURVES = ((0.7, 0.3, 0.0), (0.4, -0.2, 0.1))


def tendon(y):
    """Returns the joint angles for the palm and a tendon that rotates the three knuckles nonlinearly."""
    powers = y[1] ** jnp.arange(1.0, 4.0)
    return jnp.concatenate([y, jnp.sum(jnp.array(CURVES) * powers[None], axis=1)])


class Proportional(eqx.Module):
    """Maps the palm's angle and one variable to joint angles, with fixed ratios for the knuckles."""

    ratios: jax.Array

    def __call__(self, y):
        return jnp.concatenate([y[:1], self.ratios * y[1]])


PASSIVE = {"stiffness": 3.0, "damping": 0.2, "armature": 0.05}
Y, RATE = jax.device_put((np.array([0.4, 0.6]), np.array([0.7, -1.1])))
SPRING = forces.SpringDamper(("world", "knuckle 2"), [[1.0, 0.2, 0.5], [0.3, 0.0, 0.0]], 0.4, 40.0, 2.0)


@pytest.mark.slow
def test_the_same_mechanism_as_under_constraints():
    """Accelerations under all forces, and a motion. Sueda §2.6."""
    tied, free = finger(curved=True, **PASSIVE), finger(**PASSIVE)
    reduced, effort = rbd.ReducedModel(free, tendon, 2), jnp.array([1.3, -0.8])

    @jax.jit
    def run(tied, reduced):
        here = reduced.at(Y, RATE)
        system, now = system_of(reduced, effort, (SPRING,)), jnp.zeros(())
        acceleration = system.acceleration(now, rbd.State(Y, RATE))
        tau = jnp.concatenate([effort, jnp.zeros(2)])
        tau = tau + rbd.dynamics.passive_force(tied, here.q, here.v) + SPRING(tied, here.q, here.v)
        motion = rbd.constrained_dynamics(tied, here.q, here.v, tau)
        again = rc.closure_dynamics(tied, tendon, Y, RATE, tau)
        options = {"dt": 2e-3, "steps": 200, "scheme": rbd.RungeKutta4(), "forces": (SPRING,)}
        way = rbd.rollout(reduced, rbd.State(Y, RATE), **options)
        path = rbd.rollout(tied, rbd.State(here.q, here.v), **options)
        end = reduced.at(way.q[-1], way.v[-1])
        matrix = (
            system.evaluate(now, rbd.State(Y, RATE)).mass_matrix(),
            here.jacobian.T @ rbd.mass_matrix(tied, here.q) @ here.jacobian,
        )
        residual = rbd.constraint_residual(tied, here.q), rbd.constraint_velocity(tied, here.q, here.v)
        whole = here.jacobian @ acceleration + here.bias
        return residual, matrix, (whole, motion.acceleration), (acceleration, again), (end, path.final)

    residual, matrix, accelerations, again, (end, final) = run(tied, reduced)
    np.testing.assert_allclose(jnp.concatenate(residual), 0, atol=1e-14)
    np.testing.assert_allclose(*matrix, atol=1e-13)
    np.testing.assert_allclose(*accelerations, rtol=0, atol=1e-11 * np.abs(accelerations[1]).max())
    np.testing.assert_allclose(*again, rtol=1e-11)
    assert np.abs(end.q - tendon(Y)).max() > 0.1
    np.testing.assert_allclose(end.q, final.q, atol=1e-8)
    np.testing.assert_allclose(end.v, final.v, atol=1e-7)


@pytest.mark.slow
def test_the_same_mechanism_as_with_followers():
    """Proportional knuckles with implicit stiffness and damping (Sueda eqs. 2.79, 2.83), and the gradient by the
    closure's ratios.
    """
    mimic = finger(mimic=True, **PASSIVE)
    reduced = rbd.ReducedModel(finger(**PASSIVE), Proportional(jnp.array(RATIOS)), 2)
    controls = jnp.asarray(np.random.default_rng(5).normal(size=(20, 2)))

    def roll(model):
        scheme = rbd.LinearlyImplicitEuler()
        return rbd.rollout(model, rbd.State(Y, RATE), controls, dt=0.02, scheme=scheme, forces=(SPRING,))

    def tip(ratios):
        return jnp.sum(roll(eqx.tree_at(lambda r: r.closure.ratios, reduced, ratios)).q[-1])

    @jax.jit
    def run(mimic, reduced, ratios, steps):
        stepped = jax.vmap(lambda step: tip(ratios + step))(steps)
        return roll(mimic), roll(reduced), jax.jacfwd(tip)(ratios), stepped

    steps = 1e-5 * jnp.concatenate([jnp.eye(3), -jnp.eye(3)])
    expected, found, gradient, stepped = run(mimic, reduced, reduced.closure.ratios, steps)
    np.testing.assert_allclose(found.q, expected.q, atol=1e-12)
    np.testing.assert_allclose(found.v, expected.v, atol=1e-11)
    np.testing.assert_allclose(gradient, (stepped[:3] - stepped[3:]) / 2e-5, rtol=1e-6)


@pytest.mark.slow
def test_a_posed_rope_keeps_its_energy():
    """Ball joints along a curve of two variables under gravity; an event ends the rollout."""
    rng = np.random.default_rng(6)
    builder, parent = rbd.ModelBuilder(name="rope"), "world"
    for i in range(3):
        parent = builder.add_body(f"part {i}", parent, joints.Spherical(), at((0.0, 0.0, -0.3)), inertia(rng))
    model = builder.build()

    def posed(y):
        along = jnp.array([0.2, 0.5, 0.9])[:, None]
        turns = jnp.concatenate([y[0] * along, y[1] * along**2, y[0] * y[1] * along**3], axis=1)
        return rbd.lie.quaternion.exp(turns).reshape(-1)

    reduced = rbd.ReducedModel(model, posed, 2)

    @jax.jit
    def run(reduced):
        path = rbd.rollout(
            reduced, rbd.State(Y, RATE), dt=5e-3, steps=160, save_every=4, scheme=rbd.RungeKutta4(),
            event=lambda time, state: state.q[0] - 0.5,
        )  # fmt: skip

        def energy(y, rate):
            here = reduced.at(y, rate)
            kinetic = rbd.kinetic_energy(model, here.q, here.v)
            return jnp.stack([kinetic, rbd.potential_energy(model, here.q)])

        return path, jax.vmap(energy)(path.q, path.v), path.at(reduced, path.event_time)

    path, energy, crossing = run(reduced)
    assert path.event_step > 0 and np.ptp(energy, axis=0).min() > 1e-2
    np.testing.assert_allclose(energy.sum(axis=1), energy[0].sum(), atol=1e-6)
    np.testing.assert_allclose(path.final.q[0], 0.5, atol=1e-12)
    np.testing.assert_allclose(crossing.q[0], 0.5, atol=1e-3)


def test_what_is_refused():
    model = finger()
    with pytest.raises(ValueError, match=r"closure returns an array of shape \(3,\); .* of length nq = 4"):
        rbd.ReducedModel(model, lambda y: jnp.ones(3), 2)
    reduced = rbd.ReducedModel(model, tendon, 2)
    state = rbd.State(Y, RATE)
    with pytest.raises(ValueError, match="has no constraints to stabilize"):
        rbd.rollout(reduced, state, dt=0.01, steps=1, stabilization=rc.Baumgarte(1.0, 1.0))
    with pytest.raises(ValueError, match="have no independent degrees of freedom"):
        scheme = rbd.LinearlyImplicitEuler(prescribed=("palm",))
        rbd.rollout(reduced, state, dt=0.01, steps=1, scheme=scheme)
    with pytest.raises(ValueError, match=r"q has shape \(4,\), but model 'finger' has nq = 2"):
        rbd.rollout(reduced, rbd.State(np.zeros(4), RATE), dt=0.01, steps=1)


def test_the_force_that_holds_the_joints():
    """`τ_c` solves the book's systems with unknown constraint forces (eqs. 3.18 and 3.19), and does no work.

    Printed (3.19) has the inverse inertia with the other sign, so that its solution is `-τ_c`.
    """
    reduced, tau = rbd.ReducedModel(finger(), tendon, 2), np.array([1.0, -2.0, 0.5, 3.0])

    @jax.jit
    def run(tau):
        here = reduced.at(Y, RATE)
        force = rc.closure_force(reduced, Y, RATE, tau)
        change = rc.closure_dynamics(reduced.model, tendon, Y, RATE, tau)
        bias = rbd.inverse_dynamics(reduced.model, here.q, here.v, jnp.zeros(4))
        return here, force, change, rbd.mass_matrix(reduced.model, here.q), bias

    here, force, change, mass, bias = jax.tree.map(np.asarray, run(tau))
    g, one, missing = here.jacobian, np.eye(4), tau - bias
    none = lambda *shape: np.zeros(shape)
    whole = np.block([[mass, -one, none(4, 2)], [-one, none(4, 4), g], [none(2, 4), g.T, none(2, 2)]])
    found = np.linalg.solve(whole, np.concatenate([missing, -here.bias, none(2)]))
    assert np.abs(force).max() > 0.1
    np.testing.assert_allclose(force, found[4:8], atol=1e-11)
    np.testing.assert_allclose(change, found[8:], atol=1e-11)
    np.testing.assert_allclose(g @ change + here.bias, found[:4], atol=1e-11)
    less = np.block([[-np.linalg.inv(mass), g], [g.T, none(2, 2)]])
    found = np.linalg.solve(less, np.concatenate([np.linalg.solve(mass, missing) - here.bias, none(2)]))
    np.testing.assert_allclose(force, found[:4], atol=1e-10)
    np.testing.assert_allclose(g.T @ force, 0, atol=1e-11)


BARS = 4
#: Sueda's example, in which all angles are equal, and one with a varying J_rR.
CLOSURES = {
    "equal angles": lambda y: jnp.full(BARS, y[0]),
    "curl": lambda y: y[0] * jnp.arange(1.0, BARS + 1) + y[1] * jnp.sin(y[0] * jnp.arange(0.0, BARS)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CLOSURES)
def test_hyper_reduced_equations(name):
    """Sueda (eqs. 2.80 to 2.83), each matrix separately: chained Jacobians, their rates, and the acceleration.

    Derivatives by the variables and their rates agree with differences.
    """
    closure, size = CLOSURES[name], 1 if name == "equal angles" else 2
    builder, parent = rbd.ModelBuilder(name="chain"), "world"
    for i in range(BARS):
        bar = rbd.Inertia.box(0.8, (0.5, 0.1, 0.2), (0.25, 0.0, 0.0))
        axis = (0.0, 1.0, 0.3 * i)
        parent = builder.add_body(
            f"bar {i}", parent, joints.Revolute(axis), at((0.5 * (i > 0), 0.0, 0.0)), bar
        )
    model = builder.build()
    reduced = rbd.ReducedModel(model, closure, size)
    start = jnp.array([0.4, 0.3])[:size], jnp.array([1.2, -0.7])[:size]
    system = system_of(reduced, jnp.zeros(size), ())

    def acceleration(y, rate):
        return system.acceleration(jnp.zeros(()), rbd.State(y, rate))

    def maximal(q):
        """Returns J_mr, in the axes of each body."""
        product = lambda dv: rbd.jacobian_product(model, q, dv, "body").reshape(-1)
        return jax.vmap(product, out_axes=1)(jnp.eye(BARS))

    @jax.jit
    def run(y, rate):
        here = reduced.at(y, rate)
        J_rR, J_rR_rate = jax.jvp(jax.jacfwd(closure), (y,), (rate,))
        J_mr, J_mr_rate = jax.jvp(maximal, (here.q,), (here.v,))
        _, whole_rate = jax.jvp(lambda y: maximal(closure(y)) @ jax.jacfwd(closure)(y), (y,), (rate,))
        J, J_rate = J_mr @ J_rR, J_mr_rate @ J_rR + J_mr @ J_rR_rate  # (2.82)
        twists = (J @ rate).reshape(BARS, 6)
        M = jax.vmap(lambda inertia: inertia.matrix)(model.inertias)
        gravity = rbd.forward_kinematics(model, here.q).rotation.transpose(0, 2, 1) @ model.gravity
        zero = jnp.zeros_like(gravity)
        pull = jnp.einsum("bij,bj->bi", M, jnp.concatenate([zero, gravity], axis=1))
        whirl = jax.vmap(lambda M, twist: SE3.ad(twist).T @ M @ twist)(M, twists)
        wrenches = pull + whirl - jnp.einsum("bij,bj->bi", M, (J_rate @ rate).reshape(BARS, 6))
        inertia = jnp.einsum("bia,bij,bjc->ac", J.reshape(BARS, 6, size), M, J.reshape(BARS, 6, size))
        printed = jnp.linalg.solve(inertia, J.T @ wrenches.reshape(-1))  # (2.83)
        slopes = jax.jacfwd(lambda x: acceleration(*jnp.split(x, 2)))(jnp.concatenate([y, rate]))
        return (J_rR, here.jacobian), (J_rate, whole_rate), (printed, acceleration(y, rate)), slopes

    chained, rates, accelerations, slopes = run(*start)
    np.testing.assert_allclose(*chained, atol=1e-14)
    np.testing.assert_allclose(*rates, atol=1e-13)
    np.testing.assert_allclose(*accelerations, rtol=1e-12)
    assert (np.abs(rates[0]).max() > 0.1) and np.abs(accelerations[0]).min() > 0.1
    batched = jax.jit(jax.vmap(lambda x: acceleration(*jnp.split(x, 2))))
    at_differences = differences(batched, np.concatenate(start)[None], 1e-3, 4)[0]
    np.testing.assert_allclose(slopes, at_differences.reshape(slopes.shape), rtol=1e-7, atol=1e-7)
