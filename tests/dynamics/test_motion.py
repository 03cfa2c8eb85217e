"""`Motion` computes each quantity once, wherever it is first read."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd
from rbd_jax import constraints, forces, joints


def four_bar():
    builder = rbd.ModelBuilder(name="four-bar")
    inertia = rbd.Inertia.box(1.0, (1.0, 0.05, 0.05))
    for name, parent in (("a", "world"), ("b", "a"), ("c", "b")):
        place = (0.0 if parent == "world" else 1.0, 0.0, 0.0)
        builder.add_body(name, parent, joints.Revolute((0.0, 1.0, 0.0)), place, inertia)
    hinge = joints.Revolute((0.0, 1.0, 0.0))
    builder.add_constraint(constraints.LoopJoint("world", (1.0, 0.0, 0.3), "c", (1.0, 0.0, 0.0), hinge))
    return builder.build()


def sines(function, *arguments) -> int:
    """Returns how often a traced function evaluates the model's hinges, which are one group, by its sines."""

    def count(jaxpr):
        inner = [x for equation in jaxpr.eqns for value in equation.params.values() for x in jaxprs(value)]
        return sum(equation.primitive.name == "sin" for equation in jaxpr.eqns) + sum(map(count, inner))

    def jaxprs(value):
        for x in value if isinstance(value, tuple | list) else [value]:
            x = getattr(x, "jaxpr", x)
            if hasattr(x, "eqns"):
                yield x

    return count(jax.make_jaxpr(function)(*arguments).jaxpr)


def five_forces():
    spring = forces.SpringDamper(("world", "c"), [(0.0, 0.0, 1.0), (0.1, 0.0, 0.0)], 0.5, 10.0, 1.0)
    cable = forces.Cable(("a", "c"), [(0.1, 0.0, 0.0), (0.5, 0.0, 0.0)], 0.2, 10.0)
    wind = forces.DirectionalForce("b", (0.5, 0.0, 0.0), (1.0, 0.0, 0.0))
    return spring, cable, wind, forces.ViscousDamping("c", 0.1), forces.BristleFriction("a", 0.3)


def step_of(model, *given, scheme=None, **options):
    """Returns a function for one rollout step with its scheme and stabilization."""
    scheme = rbd.SemiImplicitEuler() if scheme is None else scheme

    def step(q, v):
        system = rbd.simulate.TreeSystem(model, jnp.zeros(model.nv), given, **options)
        state, time = rbd.State(q, v, system.own), jnp.zeros(())
        here = system.evaluate(time, state).prepared()
        opened = here.constraint_residual()  # as in a rollout
        end, *_ = scheme.step(here, (), jnp.asarray(0.01))
        return opened, system.settled(time + 0.01, end)

    return step


@pytest.mark.slow
def test_kinematics_is_traced_once():
    """Kinematics is traced once in constrained dynamics and in steps, and twice where the state changes in between.

    The steps have five forces or Baumgarte's stabilization.
    """
    model, at = four_bar(), (np.array([0.3, 0.5, 0.7]), np.ones(3))
    assert sines(lambda q, v: rbd.forward_kinematics(model, q), *at) == 1
    assert sines(lambda q, v: rbd.constrained_dynamics(model, q, v, v), *at) == 1
    baumgarte = constraints.Baumgarte(5.0, 5.0)
    pulled = lambda q, v: rbd.constrained_dynamics(model, q, v, v, stabilization=baumgarte)
    assert sines(pulled, *at) == 1
    assert sines(step_of(model, *five_forces()), *at) == 1
    assert sines(step_of(rbd.add_forces(model, *five_forces())), *at) == 1
    assert sines(step_of(model, stabilization=baumgarte), *at) == 1
    assert sines(step_of(model, stabilization=constraints.Projection()), *at) == 2
    assert sines(lambda q, v: rbd.project(model, rbd.State(q, v)), *at) == 1


def test_kinematics_of_a_rollout():
    """Kinematics is traced in each step, in the projection onto the constraints, and after the last step to check the
    loops.
    """
    model, at = four_bar(), (np.array([0.3, 0.5, 0.7]), np.ones(3))

    def run(q, v, **options):
        return rbd.rollout(model, rbd.State(q, v), dt=0.01, steps=3, forces=five_forces(), **options).q

    assert sines(run, *at) == 3
    assert sines(functools.partial(run, stabilization=None), *at) == 2


Q, V = np.array([0.3, 0.5, 0.7]), np.array([1.0, -2.0, 0.5])


@functools.cache
def expected_twists():
    return np.asarray(rbd.body_velocities(four_bar(), Q, V, "body"))


@pytest.fixture
def motion():
    return rbd.Motion(four_bar(), *jax.device_put((Q, V)))


def asked_in_a_loop(motion):
    total = lambda total, x: (total + x * motion.twists, None)
    return jax.lax.scan(total, np.zeros((3, 6)), np.array([0.25, 0.75]))[0]


def asked_in_a_branch(motion):
    return jax.lax.cond(motion.q[0] > 0, lambda: motion.twists, lambda: 0 * motion.twists)


def asked_in_a_batch(motion):
    return jax.vmap(lambda x: x * motion.twists)(np.ones(2))[0]


def asked_in_a_derivative(motion):
    return jax.jacfwd(lambda x: x * motion.twists)(1.0)


def asked_under_jit(motion):
    return jax.jit(lambda x: x * motion.twists)(1.0)


@pytest.mark.parametrize(
    "ask", [asked_in_a_loop, asked_in_a_branch, asked_in_a_batch, asked_in_a_derivative, asked_under_jit]
)
@pytest.mark.parametrize("traced", [pytest.param(False, marks=pytest.mark.slow), True])
def test_asked_first_inside(motion, ask, traced):
    """A quantity first read inside a separate JAX trace is correct there and outside afterwards."""

    def both(motion):
        return ask(motion), motion.twists, motion.velocities

    inside, outside, _ = jax.jit(both)(motion) if traced else both(motion)
    np.testing.assert_allclose(inside, expected_twists(), atol=1e-14)
    np.testing.assert_allclose(outside, expected_twists(), atol=1e-14)


def test_a_tree_of_arrays(motion):
    """Computed quantities are preserved, also under batching and differentiation."""
    known = jax.jit(lambda motion: motion.computed("twists"))(motion)
    np.testing.assert_allclose(known.twists, expected_twists(), atol=1e-14)
    np.testing.assert_array_equal(jax.jit(lambda motion: motion.twists)(known), known.twists)
    computed = lambda q: rbd.Motion(motion.model, q, motion.v).computed("twists")
    batch = jax.jit(jax.vmap(computed))(np.stack([Q, Q]))
    np.testing.assert_allclose(np.asarray(batch.twists)[1], known.twists, atol=1e-14)

    def energy(q):
        here = rbd.Motion(motion.model, q, motion.v).computed("velocities", "inertias")
        return jax.jit(lambda here: jnp.sum(here.inertias.kinetic_energy(here.velocities)))(here)

    both = energy, lambda q: rbd.kinetic_energy(motion.model, q, motion.v)
    found, expected = jax.jit(lambda q: [jax.grad(function)(q) for function in both])(Q)
    np.testing.assert_allclose(found, expected, atol=1e-13)


def test_a_motion_stays_as_it_is(motion):
    """Reading a property stores nothing, and `computed` does not compute a stored property again."""
    before = jax.tree.structure(motion)
    assert motion.twists.shape == (3, 6) and jax.tree.structure(motion) == before
    with pytest.raises(AttributeError):
        motion.v = motion.v
    known = motion.computed("twists")
    assert known.computed("twists", "velocities") is known
    assert known.velocities is known.velocities and known.common is motion.common


def test_another_velocity_shares_the_configuration(motion):
    @jax.jit
    def run(motion):
        common = motion.common
        other = motion.with_velocity(2 * motion.v)
        assert other.common is common
        return other.twists, motion.twists

    doubled, twists = jax.device_get(run(motion))
    np.testing.assert_allclose(doubled, 2 * twists, atol=1e-14)
