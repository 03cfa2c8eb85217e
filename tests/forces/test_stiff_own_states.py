"""Internal states of forces that change faster than a time step: bounded, convergent and differentiable by default."""

import functools
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd
from rbd_jax import forces, joints


IMPLICIT = [
    rbd.SemiImplicitEuler(),
    pytest.param(rbd.LinearlyImplicitEuler(), marks=pytest.mark.slow, id="LinearlyImplicitEuler"),
]


def slides(mass, *more):
    """Returns two stacked sliders at an angle, whose mass matrix is constant and has a coupling."""
    builder = rbd.ModelBuilder(gravity=(0.0, 0.0, 0.0), name="slides")
    ball = rbd.Inertia.sphere(1.0, 0.1)
    builder.add_body("x", joint=joints.Prismatic((1.0, 0.0, 0.0)), inertia=ball)
    builder.add_body("y", "x", joints.Prismatic((0.8, 0.6, 0.0)), inertia=ball)
    model = rbd.add_forces(builder.build(), *more)
    return eqx.tree_at(lambda m: m.inertias, model, jax.tree.map(lambda x: mass * x, model.inertias))


#: Bristle stiffness, static friction, and the speed at which static friction vanishes.
BRISTLES = [(1e4, 0.3, 0.01), (1e7, 0.6, 1e-3), (1e2, 0.6, 0.1)]
STEPS = [1e-5, 1e-4, 1e-3, 1e-2]
PUSHES = [(0.0, 1.0), (0.2, 0.0), (0.33, 0.0), (10.0, -3.0)]


@pytest.mark.parametrize("scheme", IMPLICIT)
@pytest.mark.parametrize("dtype", [np.float64, pytest.param(np.float32, marks=pytest.mark.slow)])
def test_bristles_are_stable_at_every_step(scheme, dtype):
    """Friction stays below static friction, and without a push the energy decreases, for all time steps, masses and
    bristles.
    """

    def one(bristles, mass, dt, push):
        stiffness, static, speed = bristles
        friction = forces.BristleFriction(("x", "y"), 0.3, static, speed, stiffness)
        model = rbd.astype(slides(mass.astype(float), friction), dtype)
        state = rbd.State(jnp.zeros(2, dtype), jnp.stack([push[1], -push[1]]))
        tau = push[0] * jnp.cos(0.05 * jnp.arange(200, dtype=dtype))[:, None] + jnp.zeros((1, 2), dtype)
        path = rbd.rollout(model, state, tau, dt=dt, scheme=scheme)
        energy = lambda q, v, own: rbd.kinetic_energy(model, q, v) + 0.5 * stiffness * jnp.sum(own**2)
        return path.code, stiffness * path.own / static, jax.vmap(energy)(path.q, path.v, path.own)

    cases = list(itertools.product(BRISTLES, [1e-3, 1.0, 100.0], STEPS, PUSHES))
    given = [np.array(each, dtype) for each in zip(*cases, strict=True)]
    code, friction, energy = map(np.asarray, jax.jit(jax.vmap(one))(*given))
    eps = np.finfo(dtype).eps
    assert friction.dtype == dtype and (code == 0).all()
    assert np.abs(friction).max() <= 1 + 4 * eps
    free = given[3][:, 0] == 0
    assert (np.diff(energy[free], axis=1) <= 50 * eps * energy[free, :1]).all()


def rotor(element):
    builder = rbd.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_body("rotor", "world", joints.Revolute((0.0, 0.0, 1.0)), armature=0.05)
    return rbd.add_forces(builder.build(), element)


@pytest.mark.parametrize("scheme", IMPLICIT)
def test_bristles_stick_and_break_loose(scheme):
    """Below the limit the rotor comes to rest with bristles deflected by the push; above it moves as under Coulomb
    friction.
    """
    friction = forces.BristleFriction("rotor", 0.6, stiffness=1e4, damping=20.0)
    model, steps, dt = rotor(friction), 300, 0.01

    @jax.jit
    @jax.vmap
    def run(push):
        start = rbd.State(jnp.zeros(1), jnp.zeros(1))
        return rbd.rollout(model, start, jnp.full((steps, 1), push), dt=dt, scheme=scheme)

    pushes = np.array([0.5, -0.3, 0.7, -3.0])
    path = run(pushes)
    assert (np.asarray(path.code) == 0).all()
    np.testing.assert_allclose(np.asarray(path.v)[:2, -1, 0], 0, atol=1e-9)
    np.testing.assert_allclose(np.asarray(path.own)[:2, -1, 0], pushes[:2] / 1e4, rtol=1e-6)
    loose = (pushes[2:] - 0.6 * np.sign(pushes[2:])) / 0.05 * steps * dt
    np.testing.assert_allclose(np.asarray(path.v)[2:, -1, 0], loose, rtol=0.01)


def reference(push, until, steps):
    """Integrates the rotor with the Runge-Kutta method in plain NumPy."""

    def rates(x):
        _, v, z = x
        level = 0.6 + 0.3 * np.exp(-((v / 0.2) ** 2))
        bend = v - 400.0 * abs(v) * z / level
        return np.array([v, (push - 400.0 * z - 2.0 * bend - 0.05 * v) / 0.05, bend])

    x, h = np.array([0.0, -0.3, 0.0]), until / steps
    for _ in range(steps):
        a = rates(x)
        b = rates(x + h / 2 * a)
        c = rates(x + h / 2 * b)
        x = x + h / 6 * (a + 2 * b + 2 * c + rates(x + h * c))
    return x


@pytest.mark.slow
@pytest.mark.parametrize("scheme", [rbd.SemiImplicitEuler(), rbd.LinearlyImplicitEuler()])
def test_bristles_converge(scheme):
    """The rotor slides, reverses, breaks loose and accelerates beyond the Stribeck velocity; the error is of first order."""
    friction = forces.BristleFriction("rotor", 0.6, 0.9, 0.2, stiffness=400.0, damping=2.0, viscous=0.05)
    model, until = rotor(friction), 0.2
    expected = reference(1.2, until, 20_000)

    @jax.jit
    @functools.partial(jax.vmap, in_axes=(0, None))
    def errors(dt, start):
        # All runs have as many steps as the run with the smallest step; the comparison is at time `until`.
        path = rbd.rollout(model, start, jnp.full((800, 1), 1.2), dt=dt, scheme=scheme)
        end = jnp.round(until / dt).astype(int)
        return jnp.concatenate([path.q[end], path.v[end], path.own[end]]) - expected

    found = np.abs(errors(np.array([1e-3, 5e-4, 2.5e-4]), rbd.State(np.zeros(1), np.full(1, -0.3))))
    # Deflections are of the order of 1e-3.
    sizes = (found / [1.0, 1.0, 1e-3]).max(axis=1)
    assert sizes[0] < 0.1
    np.testing.assert_allclose(sizes[:-1] / sizes[1:], 2, rtol=0.2)


@pytest.mark.parametrize("scheme", IMPLICIT)
def test_derivatives_of_bristles(scheme):
    """Derivatives by all numbers agree with differences where the joint slides, sticks, reverses and stops."""

    def value(x):
        friction = forces.BristleFriction(
            "rotor", x["coulomb"], x["static"], 0.1, x["stiffness"], x["damping"], 0.1
        )
        start = rbd.State(jnp.zeros(1), x["v"], x["own"])
        end = rbd.step(rotor(friction), start, x["tau"], 0.01, scheme)
        return end.v[0] + 1e4 * end.own[0]

    numbers = {"coulomb": 0.3, "static": 0.5, "stiffness": 1e4, "damping": 3.0}
    moving = [(1.0, 2e-5, 0.1), (-2.0, -4.5e-5, 0.2), (0.0, 1e-5, 0.07), (0.0, 0.0, 0.9), (0.02, 1e-5, -0.1)]
    starts = {name: np.full(len(moving), number) for name, number in numbers.items()}
    v, own, push = np.array(moving).T
    starts |= {"v": v[:, None], "own": own[:, None], "tau": push[:, None]}
    rng = np.random.default_rng(0)
    # Magnitudes for the difference steps.
    scale = {"own": 1e-5, "stiffness": 1e4}
    along = {name: scale.get(name, 1.0) * rng.normal(size=x.shape[1:]) for name, x in starts.items()}

    @jax.jit
    @jax.vmap
    def run(x):
        at = lambda step: value(jax.tree.map(lambda x, dx: x + step * dx, x, along))
        gradient = jax.grad(value)(x)
        total = sum(jnp.sum(gradient[name] * along[name]) for name in along)
        return total, jax.vmap(at)(jnp.array([1e-7, -1e-7])), gradient

    total, ends, gradient = run(starts)
    ends = np.asarray(ends)
    np.testing.assert_allclose(total, (ends[:, 0] - ends[:, 1]) / 2e-7, rtol=3e-6)
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(gradient))


class Motor(forces.Force):
    """Exerts `k i` along joints, with a current that depends on the speed: `L di/dt = u - R i - k v`."""

    joints: tuple[str, ...] = eqx.field(static=True)
    inductance: jax.Array
    current: jax.Array

    def generalized_force(self, motion):
        return motion.along(self.joints, 5.0 * self.current)

    def stored_energy(self, motion):
        return jnp.sum(self.inductance * self.current**2) / 2

    @property
    def own(self):
        return self.current

    def holding(self, own):
        return self.changed(current=own)

    def own_rate(self, motion):
        return (1.0 - 0.1 * self.current - 5.0 * motion.speeds(self.joints)) / self.inductance


@pytest.mark.parametrize("scheme", IMPLICIT)
@pytest.mark.parametrize("reduced", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_any_state_may_be_stiff(scheme, reduced):
    """A motor with negligible inductance acts as a damper of 250 Ns/m on 100 g, and is stable at every step."""

    @jax.jit
    @jax.vmap
    def run(inductance, dt):
        each = [Motor((joint,), inductance[None], jnp.zeros(1)) for joint in ("x", "y")]
        model = slides(0.1, forces.Together(*each))
        start = rbd.State(jnp.zeros(2), jnp.array([1.0, -1.0]))
        if reduced:
            model = rbd.ReducedModel(model, lambda y: jnp.concatenate([y, y]), 1)
            start = rbd.State(jnp.zeros(1), jnp.ones(1))
        path = rbd.rollout(model, start, dt=dt, steps=100, scheme=scheme)
        return path.code, path.v, path.own

    inductances, steps = np.meshgrid([1e-2, 1e-4, 1e-8], STEPS)
    code, v, own = map(np.asarray, run(inductances.ravel(), steps.ravel()))
    assert (code == 0).all() and np.abs(v).max() < 3
    settled = (steps.ravel() == 1e-2) & (inductances.ravel() < 1e-3)
    np.testing.assert_allclose(v[settled, -1], 0.2, rtol=1e-9)
    np.testing.assert_allclose(own[settled, -1], 0, atol=1e-6)


def test_activations_are_exact():
    """Filters and muscles have the exact solution `u + (a₀ - u) exp(-t/T)` for steps of 1e-3 to 1e3 time constants."""
    times = np.array([1e-5, 1e-2, 10.0])

    @jax.jit
    @jax.vmap
    def run(time):
        points = [(0.0, 0.0, -0.2), (0.1, 0.0, -0.3)]
        muscle = forces.ActivatedMuscle(
            ("upper", "lower"), points, 5.0, 1.1, activation=0.2, excitation=0.8, activation_time=time
        )
        servo = rbd.actuators.Position("servo", "elbow", kp=1.0, kv=0.1, time_constant=time)
        model = rbd.attach(rbd.add_forces(rbd.load("double_pendulum"), muscle), servo)
        controls = rbd.Controls(jnp.full((20, 1), 0.5))
        path = rbd.rollout(model, rbd.State(jnp.zeros(2), jnp.zeros(2)), controls, dt=0.01)
        return path.code, path.own

    code, own = run(times)
    decay = np.exp(-0.01 * np.arange(21) / times[:, None])
    assert (np.asarray(code) == 0).all()
    np.testing.assert_allclose(np.asarray(own)[..., 0], 0.8 - 0.6 * decay, atol=1e-12)
    np.testing.assert_allclose(np.asarray(own)[..., 1], 0.5 - 0.5 * decay, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("law", ["hunt-crossley", "viscoelastic"])
def test_surfaces_may_relax_at_once(law):
    """A ball is thrown along a floor; its bristles and surface relax within a step when it slips or separates."""
    builder = rbd.ModelBuilder()
    builder.add_body("ball", joint=joints.Free(), inertia=rbd.Inertia.sphere(1.0, 0.1))
    shapes = (
        rbd.Shape("ball", "ball", rbd.shapes.Sphere(0.1)),
        rbd.Shape("floor", "world", rbd.shapes.Plane()),
    )
    bare = rbd.attach(builder.build(), *shapes)

    @jax.jit
    @jax.vmap
    def run(damping):
        more = {"series_stiffness": 1e3} if law == "viscoelastic" else {"exponent": 1.0}
        bristles = {"sliding": "bristle", "bristle_stiffness": 1e3, "bristle_damping": damping}
        touch = rbd.contact.Compliant(
            "floor",
            "ball",
            1e3,
            damping if more.get("series_stiffness") else 5.0,
            0.5,
            law=law,
            **bristles,
            **more,
        )
        start = rbd.State(jnp.asarray(np.array([0, 0, 0.095, 1, 0, 0, 0.0])), jnp.array([0, 0, 0, 0.5, 0, 0]))
        path = rbd.rollout(rbd.add_forces(bare, touch), start, dt=2e-3, steps=200)
        return path.code, path.q[:, 0], path.v[:, 1], path.own

    code, x, turning, own = map(np.asarray, run(np.array([1e-9, 1e-3, 1.0])))
    assert (code == 0).all() and np.abs(own).max() < 0.05
    speed = np.diff(x, axis=1) / 2e-3
    assert speed.max() < 0.51
    # At the end it rolls at 5/7 of its speed.
    np.testing.assert_allclose(speed[:, -20:].mean(axis=1), 0.5 * 5 / 7, rtol=0.1)
    np.testing.assert_allclose(0.1 * turning[:, -20:].mean(axis=1), 0.5 * 5 / 7, rtol=0.1)
