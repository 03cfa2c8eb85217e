"""Forces with internal states and time-dependent forces: closed forms, an independent solution, and edits of the model."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

import rbd_jax as rbd
from rbd_jax import forces, joints


def arm(**along):
    """Returns two hinges, a plate welded to the second, and a hinge at its end."""
    builder = rbd.ModelBuilder(name="arm")
    inertia = rbd.Inertia.from_mass_com(1.5, (0.3, 0.0, 0.1), np.diag([0.02, 0.05, 0.04]))
    place = lambda x: rbd.Transform.from_xyz_rpy((x, 0.0, 0.05))
    builder.add_body("upper", "world", joints.Revolute((0.0, 1.0, 0.0)), None, inertia, **along)
    builder.add_body("lower", "upper", joints.Revolute((0.0, 1.0, 0.0)), place(0.6), inertia, **along)
    builder.add_body("plate", "lower", joints.Fixed(), place(0.2), inertia)
    builder.add_body("hand", "plate", joints.Revolute((1.0, 0.0, 0.0)), place(0.3), inertia, **along)
    return builder.build()


def muscle(excitation=0.9, activation=0.2, **options):
    points = [(0.0, 0.0, 0.4), (0.2, 0.0, 0.05)]
    return forces.ActivatedMuscle(
        ("world", "plate"), points, 60.0, 0.7, excitation=excitation, activation=activation, **options
    )


def friction(names=("upper", "hand"), **options):
    return forces.BristleFriction(
        names,
        (0.6, 0.3)[: len(names)],
        (0.9, 0.5)[: len(names)],
        0.2,
        stiffness=20.0,
        damping=0.4,
        viscous=0.05,
        **options,
    )


Q, V = (jnp.asarray(np.array(x)) for x in ([0.3, -0.5, 0.7], [0.4, 1.0, -0.6]))


@pytest.mark.parametrize("excitation, start, time", [(0.9, 0.2, 0.05), (0.1, 0.7, 0.2)])
def test_activation_follows_its_closed_form(excitation, start, time):
    """`a = u + (a₀ - u) exp(-t/τ)`, with different τ for activation and deactivation."""
    model = rbd.add_forces(arm(), muscle(excitation, start, activation_time=0.05, deactivation_time=0.2))
    path = rbd.rollout(model, rbd.State(Q, V), dt=0.005, steps=20, scheme=rbd.RungeKutta4())
    expected = excitation + (start - excitation) * np.exp(-np.asarray(path.t) / time)
    # At a tenth of the time constant a step of fourth order has an error of (h/τ)⁵/120, twenty steps about 2e-7.
    np.testing.assert_allclose(np.asarray(path.own)[:, 0], expected, atol=5e-7)


class Swing(eqx.Module):
    """An excitation as a function of time with a parameter."""

    rate: jax.Array

    def __call__(self, time):
        return 0.5 + 0.4 * jnp.sin(self.rate * time)


@pytest.mark.slow
def test_excitation_as_a_function_of_time():
    """The solution of `ȧ = (u(t) - a)/τ` with a sinusoidal u, and its derivative by the frequency, agree with closed
    forms.
    """
    tau, rate, offset = 0.3, 5.0, 2.0
    both = {"activation_time": tau, "deactivation_time": tau}
    model = arm()

    @jax.jit
    def end(rate):
        element = muscle(Swing(rate), 0.5, **both)
        state = rbd.State(Q, V)
        run = lambda rate: rbd.rollout(
            rbd.add_forces(model, eqx.tree_at(lambda m: m.excitation.rate, element, rate)),
            state, dt=0.01, steps=40, t0=offset, scheme=rbd.RungeKutta4(),
        ).own[-1, 0]  # fmt: skip
        return jax.value_and_grad(run)(rate)

    def solved(rate):
        swing = lambda t: 0.4 * (np.sin(rate * t) - rate * tau * np.cos(rate * t)) / (1 + (rate * tau) ** 2)
        return 0.5 + swing(offset + 0.4) - swing(offset) * np.exp(-0.4 / tau)

    value, gradient = end(jnp.asarray(rate))
    np.testing.assert_allclose(value, solved(rate), atol=1e-7)
    np.testing.assert_allclose(gradient, (solved(rate + 1e-5) - solved(rate - 1e-5)) / 2e-5, atol=1e-6)


def test_steady_sliding_and_sticking():
    """In steady sliding the bristle deflection is `g(v)/σ₀` and the friction `g(v) + σ₂ v`; at rest bristles are springs."""
    model, element = arm(), friction()
    static, coulomb = np.array([0.9, 0.5]), np.array([0.6, 0.3])

    @jax.jit
    def ask(own, v):
        held = element.holding(own)
        return held.own_rate(rbd.Motion(model, Q, v)), held(model, Q, v), held.energy(model, Q)

    for speeds in (np.array([0.1, -0.3]), np.array([-2.0, 1.5])):
        v = np.array([speeds[0], 0.0, speeds[1]])
        level = coulomb + (static - coulomb) * np.exp(-((speeds / 0.2) ** 2))
        rate, tau, _ = ask(np.sign(speeds) * level / 20.0, v)
        np.testing.assert_allclose(rate, 0, atol=1e-14)
        expected = -(np.sign(speeds) * level + 0.05 * speeds)
        np.testing.assert_allclose(np.asarray(tau)[[0, 2]], expected, atol=1e-14)
    _, tau, energy = ask(np.array([0.01, -0.02]), np.zeros(3))
    np.testing.assert_allclose(tau, [-0.2, 0.0, 0.4], atol=1e-14)
    np.testing.assert_allclose(energy, 0.5 * 20 * (0.01**2 + 0.02**2), atol=1e-14)


def test_friction_against_an_independent_solution():
    """A rotor that is pushed, sticks, breaks loose and slides, against plain NumPy with a fiftieth of the time step."""
    inertia, push = 0.05, 1.2
    builder = rbd.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_body("rotor", "world", joints.Revolute((0.0, 0.0, 1.0)), armature=inertia)
    element = forces.BristleFriction("rotor", 0.6, 0.9, 0.2, stiffness=40.0, damping=0.2, viscous=0.05)
    model = rbd.add_forces(builder.build(), element)
    steps, dt = 60, 0.005

    @jax.jit
    def run(model):
        policy = lambda t, state: jnp.array([push]) * jnp.where(t < 0.15, 0.4, 1.0)
        start = rbd.State(jnp.zeros(1), jnp.array([-0.3]))
        return rbd.rollout(model, start, policy, dt=dt, steps=steps, scheme=rbd.RungeKutta4())

    def rates(x, tau):
        q, v, z = x
        level = 0.6 + 0.3 * np.exp(-((v / 0.2) ** 2))
        bend = v - 40.0 * abs(v) * z / level
        return np.array([v, (tau - 40.0 * z - 0.2 * bend - 0.05 * v) / inertia, bend])

    x, fine = np.array([0.0, -0.3, 0.0]), 50
    for number in range(steps * fine):
        tau, h = push * (0.4 if (number // fine) * dt < 0.15 else 1.0), dt / fine
        a = rates(x, tau)
        b = rates(x + h / 2 * a, tau)
        c = rates(x + h / 2 * b, tau)
        x = x + h / 6 * (a + 2 * b + 2 * c + rates(x + h * c, tau))
    path = run(model)
    end = [np.asarray(part)[-1, 0] for part in (path.q, path.v, path.own)]
    np.testing.assert_allclose(end, x, atol=3e-5)


def carried(*more):
    limit = forces.JointLimit(50.0, 1.0)
    gear = forces.Gear("upper", "lower", 2.0, 4.0)
    return rbd.add_forces(arm(lower=-0.2, upper=0.2), *more, limit, gear, friction())


def carried_on_bodies():
    springs = forces.SpringDamper(("world", "plate"), [(0.1, 0.0, 0.5), (0.1, 0.0, 0.1)], 0.3, 30.0, 2.0)
    drag = forces.ViscousDamping("plate", (0.1, 0.2, 0.3, 1.0, 2.0, 3.0))
    field = forces.GravityField(forces.CentralPotential(5.0, (3.0, 1.0, -2.0)))
    return carried(springs, muscle(), drag, field)


def acting(model, q, v, own):
    """Returns the generalized force of a model's forces and the rates of their internal states."""
    system = rbd.simulate.TreeSystem(model, jnp.zeros(model.nv, q.dtype))
    state, time = rbd.State(q, v, own), jnp.zeros((), q.dtype)
    here = system.evaluate(time, state)
    return here.force(), here.own_rate()


OWN = jnp.asarray(np.array([0.4, 0.01, -0.005]))


@pytest.mark.slow
def test_edits_carry_forces():
    """Forces do not change when a model is renamed, fused, concatenated, cast or locked."""
    model = carried_on_bodies()
    act = jax.jit(acting)
    tau, rates = act(model, Q, V, OWN)
    assert np.abs(tau).min() > 1e-3 and np.abs(rates).min() > 1e-3

    renamed = rbd.rename(model, bodies={"plate": "sheet"}, joints={"hand": "wrist"})
    assert renamed.body_names[2] == "sheet" and renamed.forces[1].bodies == ("world", "sheet")
    same = lambda found, tau, rates, tolerance=1e-13: [
        np.testing.assert_allclose(a, b, atol=tolerance) for a, b in zip(found, (tau, rates), strict=True)
    ]
    same(act(renamed, Q, V, OWN), tau, rates)

    # A field's second-order part depends on the fused body's inertia, which equals the sum of its parts to third order
    # in its size.
    without = lambda model: eqx.tree_at(
        lambda m: m.attached,
        model,
        tuple(thing for thing in model.attached if not isinstance(thing, forces.GravityField)),
    )
    same(act(rbd.fuse_fixed(without(model)), Q, V, OWN), *act(without(model), Q, V, OWN))
    same(act(rbd.fuse_fixed(model), Q, V, OWN), tau, rates, 1e-2)

    single = rbd.astype(model, jnp.float32)
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(single.attached))
    numbers = [x.astype(jnp.float32) for x in (Q, V, OWN)]
    same(act(single, *numbers), tau, rates, 2e-4)

    twice = [jnp.concatenate([x, x]) for x in (Q, V, OWN)]
    away = rbd.Transform.from_position(jnp.array([3.0, -1.0, 2.0]))
    pair = rbd.concatenate(without(model), without(model), names=("l", "r"), placements=(None, away))
    expected = act(without(model), Q, V, OWN)
    order = jnp.array([0, 1, 2, 0, 1, 2])
    same(act(pair, *twice), expected[0][order], expected[1][order])


def test_locking_a_joint():
    """Forces along a locked joint are removed, forces on bodies remain, and a gear on the joint is an error."""
    model = carried(muscle())
    with pytest.raises(rbd.ModelError, match="Gear.*'upper'.*0 .* once it is locked"):
        rbd.lock_joints(model, {"upper": 0.3})
    loose = eqx.tree_at(
        lambda m: m.attached, model, tuple(x for x in model.attached if not isinstance(x, forces.Gear))
    )
    locked = rbd.lock_joints(loose, {"upper": 0.3})
    kept = {type(force).__name__: force for force in locked.forces}
    assert kept["BristleFriction"].joints == ("hand",) and kept["JointLimit"].joints == ("lower", "hand")
    q, v, own = np.asarray(Q), np.array([0.0, 1.0, -0.6]), np.asarray(OWN)
    tau, rates = map(np.asarray, jax.jit(acting)(loose, q, v, own))
    found = jax.jit(acting)(locked, q[1:], v[1:], own[[0, 2]])
    np.testing.assert_allclose(found[0], tau[1:], atol=1e-13)
    np.testing.assert_allclose(found[1], rates[[0, 2]], atol=1e-13)
    stuck = rbd.lock_joints(loose, ["upper", "hand"])
    assert "BristleFriction" not in {type(force).__name__ for force in stuck.forces}


@pytest.mark.slow
def test_given_and_carried_forces_add_up():
    """Forces of the model and of the rollout are added, with separate internal states in this order."""
    model, one, two = arm(), muscle(), friction()

    @jax.jit
    def run(model, given):
        return rbd.rollout(model, rbd.State(Q, V), dt=0.01, steps=5, forces=given)

    apart = run(rbd.add_forces(model, one), (two,))
    together = run(rbd.add_forces(model, one, two), ())
    as_one = run(model, (forces.Together(one, two),))
    for path in (together, as_one):
        np.testing.assert_allclose(path.q, apart.q, atol=1e-14)
        np.testing.assert_allclose(path.own, apart.own, atol=1e-14)
    assert apart.own.shape == (6, 3)
    halves = run(rbd.add_forces(model, one, two), ())
    rest = jax.jit(lambda m, s: rbd.rollout(m, s, dt=0.01, steps=5))(
        rbd.add_forces(model, one, two), halves.final
    )
    whole = jax.jit(lambda m: rbd.rollout(m, rbd.State(Q, V), dt=0.01, steps=10))(
        rbd.add_forces(model, one, two)
    )
    np.testing.assert_allclose(rest.own[-1], whole.own[-1], atol=1e-13)


def test_wrong_states_and_forces_are_refused(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    model = rbd.add_forces(arm(), muscle())
    with pytest.raises(ValueError, match=r"rollout: own has shape \(2,\)"):
        rbd.rollout(model, rbd.State(Q, V, np.zeros(2)), dt=0.01, steps=1)
    with pytest.raises(rbd.ModelError, match="not a force"):
        rbd.add_forces(model, rbd.joints.Fixed())
    with pytest.raises(rbd.UnknownNameError, match="there is no body 'foot'"):
        rbd.add_forces(model, forces.DirectionalForce("foot", (0.0, 0.0, 0.0), (1.0, 0.0, 0.0)))
    with pytest.raises(rbd.UnknownNameError, match="there is no joint 'knee'; there are"):
        rbd.add_forces(model, forces.BristleFriction("knee", 1.0))
    with pytest.raises(rbd.UnknownNameError, match="rename: there is no body 'foot'"):
        rbd.rename(model, bodies={"foot": "toe"})
    with pytest.raises(rbd.ModelError, match="the body name 'hand' is taken"):
        rbd.rename(model, bodies={"plate": "hand"})
