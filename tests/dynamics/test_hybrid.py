"""Hybrid dynamics for every choice of prescribed joints, including forward and inverse dynamics (book §9.1, §9.2)."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import assert_close, build, coupled, driven, pair, some_states
from support import quotient

import rbd_jax as rbd
from rbd_jax import joints
from rbd_jax.dynamics import hybrid


def tree():
    """Returns six degrees of freedom on two branches, one of them behind a weld."""
    bodies = [
        ("trunk", "world", joints.Revolute((1.0, -2.0, 0.5))),
        ("ball", "trunk", joints.Universal((1.0, 0.2, 0.1), (0.3, 1.0, -0.2))),
        ("slide", "ball", joints.Prismatic((0.3, 0.2, -1.0))),
        ("flange", "trunk", joints.Fixed()),
        ("tube", "flange", joints.Cylindrical((0.4, 1.0, 0.3))),
    ]
    return build("tree", bodies, seed=6, slide={"armature": 0.3}, trunk={"armature": 0.2})


def subsets(count):
    """Returns a row of flags for each subset."""
    return (np.arange(2**count)[:, None] >> np.arange(count)) & 1 == 1


def both_ways(model, q, v, tau, a, f_ext, prescribed):
    motion = hybrid.hybrid_dynamics(model, q, v, tau, a, prescribed, f_ext)
    known = jnp.where(prescribed, a, tau)
    return {
        "acceleration": motion.acceleration,
        "tau": motion.tau,
        "by mass matrix": hybrid.by_mass_matrix(known, rbd.Motion(model, q, v), f_ext, prescribed)[0],
        "needed": rbd.inverse_dynamics(model, q, v, motion.acceleration, f_ext),
    }


@pytest.mark.parametrize(
    "make", [pair, *(pytest.param(make, marks=pytest.mark.slow) for make in (tree, coupled, driven))]
)
def test_every_subset(make):
    """Both algorithms agree, preserve the given values, and solve the equation of motion.

    Without prescribed degrees of freedom the result is forward dynamics, with all prescribed it is inverse dynamics.

    Tables 9.2 and 9.3, eqs. 9.2 and 9.3; Sueda's algorithm 9.
    """
    model = make()
    states = some_states(model, 1)
    tau, flags = states.v[::-1], subsets(model.nv if model.nv < 9 else 4)
    flags = np.pad(flags, ((0, 0), (0, model.nv - flags.shape[1])))

    @jax.jit
    def run(model, *given):
        one = lambda *state: jax.vmap(lambda flags: both_ways(model, *state, flags))(jnp.asarray(flags))
        return jax.vmap(one)(*given)

    seen = run(model, states.q, states.v, tau, states.a, states.f_ext)
    assert_close(seen["acceleration"], seen["by mass matrix"])
    assert_close(seen["needed"], seen["tau"])
    given = np.where(flags, states.a[:, None], tau[:, None])
    np.testing.assert_array_equal(np.where(flags, seen["acceleration"], seen["tau"]), given)


@pytest.mark.slow
@pytest.mark.parametrize("make", [tree, coupled])
def test_derivatives(make):
    """First and second derivatives by all inputs agree with differences; all are finite at rest in the neutral state."""
    model = make()
    states = some_states(model, 2, 1)
    flags = jnp.arange(model.nv) % 3 == 1
    numbers, rest = eqx.partition(model, eqx.is_inexact_array)
    state = (states.q[0], states.v[0], states.a[0], states.v[0][::-1], states.f_ext[0])
    weights = np.random.default_rng(0).normal(size=(2, model.nv))

    def value(given):
        numbers, (q, v, a, tau, f_ext) = given
        acceleration, tau = hybrid.hybrid_dynamics(eqx.combine(numbers, rest), q, v, tau, a, flags, f_ext)
        return jnp.sum(weights[0] * jnp.sin(acceleration / 10) + weights[1] * jnp.sin(tau / 10))

    rng = np.random.default_rng(1)
    along = jax.tree.map(lambda x: jnp.where(jnp.isfinite(x), rng.normal(size=x.shape), 0), (numbers, state))

    def moved(given, step):
        return jax.tree.map(lambda x, d: jnp.where(jnp.isfinite(x), x + step * d, x), given, along)

    @jax.jit
    def derivatives(given):
        gradient, change = jax.jvp(jax.grad(value), (given,), (along,))
        slope = lambda g: sum(jnp.sum(x * d) for x, d in zip(jax.tree.leaves(g), jax.tree.leaves(along)))
        first = quotient(lambda h: value(moved(given, h)))
        second = quotient(lambda h: slope(jax.grad(value)(moved(given, h))))
        return (slope(gradient), first), (slope(change), second), gradient

    first, second, _ = derivatives((numbers, state))
    np.testing.assert_allclose(*first, rtol=1e-7)
    np.testing.assert_allclose(*second, rtol=1e-6)
    still = jax.tree.map(jnp.zeros_like, state)
    gradient = derivatives((numbers, (rbd.neutral(model), *still[1:])))[2]
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


def test_arguments():
    model = coupled()
    q, zero = some_states(model).q[0], np.zeros(model.nv)
    given = lambda prescribed: jax.jit(
        lambda: hybrid.hybrid_dynamics(model, q, zero, zero, zero, prescribed)
    )()
    by_name, by_flag = given(["b", "f"]), given(np.array([False, True, False, True, True, True]))
    np.testing.assert_array_equal(by_name.tau, by_flag.tau)
    with pytest.raises(rbd.UnknownNameError, match="hybrid_dynamics: prescribed: .* no joint 'z'"):
        given(["z"])
    with pytest.raises(ValueError, match="mimics 'a'"):
        given(["c"])
    with pytest.raises(ValueError, match=r"prescribed has shape \(3,\); .* nv = 6 booleans"):
        given(np.zeros(3, bool))
    with pytest.raises(ValueError, match="prescribed is 'b'; it takes a sequence of joints"):
        given("b")


@pytest.mark.slow
def test_where_few_are_left():
    """Joints given by name use a program with H₁₁ only (book table 9.1), with the same motion and derivatives."""
    model = tree()
    states = some_states(model, 3, 1)
    led, left = ["trunk", "ball"], np.array([3, 4, 5])
    flags = ~np.isin(np.arange(6), left)
    given = (states.q[0], states.v[0], states.v[0][::-1], states.a[0])

    @jax.jit
    def run(model, given):
        def value(given, prescribed):
            motion = hybrid.hybrid_dynamics(model, *given, prescribed, states.f_ext[0])
            return jnp.sum(jnp.sin(motion.acceleration / 10)) + jnp.sum(jnp.sin(motion.tau / 10)), motion

        few, all_ = (jax.value_and_grad(value, has_aux=True)(given, one) for one in (led, flags))
        whole, part = rbd.Motion(model, given[0]), hybrid.mass_matrix_among(rbd.Motion(model, given[0]), left)
        return few, all_, part, rbd.mass_matrix(model, whole.q)[np.ix_(left, left)]

    few, every, part, expected = run(model, given)
    np.testing.assert_allclose(part, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(few[0][1].tau, every[0][1].tau, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(few[0][1].acceleration, every[0][1].acceleration, rtol=1e-10, atol=1e-10)
    for one, other in zip(few[1], every[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8)
    sparsity = rbd.dynamics.dof_tree(model, led).supports
    # A rotation and a translation along one axis depend on each other in the tree, but have no inertia coupling.
    assert not (np.asarray(part)[~(sparsity | sparsity.T)]).any() and sparsity.sum() == 4


def test_the_tree_of_what_is_left():
    """Nodes connected by prescribed joints are merged and renumbered (book figure 9.1)."""
    bodies = [("1", "world"), ("2", "1"), ("3", "1"), ("4", "2"), ("5", "2"), ("6", "3"), ("7", "3")]
    axis = joints.Revolute((0.2, 1.0, 0.3))
    model = build("figure", [(name, parent, axis) for name, parent in bodies], seed=1)
    assert list(rbd.dynamics.dof_tree(model).parents) == [-1, 0, 0, 1, 1, 2, 2]
    assert list(rbd.dynamics.dof_tree(model, ["1", "2"]).parents) == [-1, -1, -1, 0, 0]
    assert list(rbd.dynamics.dof_tree(model, ["3"]).parents) == [-1, 0, 1, 1, 0, 0]
    assert list(rbd.dynamics.dof_tree(model, [0, 1, 2]).parents) == [-1] * 4
