"""Forward dynamics by divide and conquer: its depth, and agreement with forward dynamics (book §7.5)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import (
    SAMPLES,
    States,
    assert_close,
    case_of,
    compiled,
    some_inertia,
    some_placement,
    some_states,
)
from jax.extend.core import jaxprs_in_params
from support import differences

import rbd_jax as rbd
from rbd_jax import joints
from rbd_jax.model.contraction import contraction


def chain(n):
    return list(range(-1, n - 1))


def star(n):
    return [-1] + [0] * (n - 1)


def random_tree(n, seed=0, reach=None):
    rng = np.random.default_rng(seed)
    return [-1] + [int(rng.integers(0 if reach is None else max(0, i - reach), i)) for i in range(1, n)]


def caterpillar(n):
    return [-1] + [i - 1 if i % 2 else max(i - 2, 0) for i in range(1, n)]


TREES = {
    "none": [],
    "one": [-1],
    "chain": chain(1000),
    "star": star(1000),
    "random": random_tree(500),
    "deep": random_tree(500, reach=3),
    "caterpillar": caterpillar(501),
    "binary": [(i - 1) // 2 if i else -1 for i in range(511)],
    "forest": [-1, -1, 0, 1, 2, 3, 3, -1],
    "broom": chain(200) + [199] * 300,
}


# The contraction order.


@pytest.mark.parametrize("name", TREES)
def test_depth_is_logarithmic(name):
    """There are at most `log n` to the base 4/3 rounds of independent assemblies."""
    parents = TREES[name]
    rounds = contraction(parents)
    assert len(rounds) <= np.log(max(len(parents), 1)) / np.log(4 / 3) + bool(parents)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 9, 100, 512, 1000, 1024])
def test_depth_of_a_chain_and_of_a_star(n):
    """A chain is halved, with a remainder at its end, in `⌊log₂ n⌋ + 1` rounds. A star takes two."""
    assert len(contraction(chain(n))) == int(np.log2(n)) + 1
    assert len(contraction(star(n))) == min(n, 2)


@pytest.mark.parametrize("seed", range(5))
def test_depth_of_random_trees(seed):
    for n, reach in ((500, None), (500, 2), (500, 10), (64, None)):
        assert len(contraction(random_tree(n, seed, reach))) <= 1.3 * np.log2(n)


@pytest.mark.parametrize("name", TREES)
def test_each_body_is_assembled_once(name):
    """Bodies joined in one round take part in only one joining of that round."""
    parents = TREES[name]
    rounds = contraction(parents)
    bodies = np.concatenate([one.converted_bodies for one in rounds] or [np.zeros(0, int)])
    np.testing.assert_array_equal(np.sort(bodies), np.arange(len(parents)))
    left = len(parents)
    for one in rounds:
        assert one.places == left
        taken = np.concatenate([one.raked, one.upper, one.lower, one.kept])
        np.testing.assert_array_equal(np.sort(taken), np.arange(left))
        left = len(one.kept) + len(one.lower)
    assert left == 0


def test_the_depth_of_the_whole_computation():
    """Neither kinematics nor dynamics have a loop as long as the chain."""
    model = machine(chain(40))
    zero = np.zeros(40)
    whole = jax.make_jaxpr(lambda q, v, tau: rbd.forward_dynamics_by_assembly(model, q, v, tau))

    def longest(jaxpr):
        lengths = [0]
        for equation in jaxpr.eqns:
            if equation.primitive.name == "scan":
                lengths.append(equation.params["length"])
            lengths += [longest(inner) for inner in jaxprs_in_params(equation.params)]
        return max(lengths)

    assert longest(whole(zero, zero, zero).jaxpr) <= 6  # columns of a 6x6 matrix
    walked = jax.make_jaxpr(lambda q, v, tau: rbd.forward_dynamics(model, q, v, tau))
    assert longest(walked(zero, zero, zero).jaxpr) == 40


# Dynamics.


def machine(parents, seed=0, empty=()):
    """Returns a model of hinges.

    Bodies in `empty` have no mass and no distance to the next hinge.
    """
    rng, builder = np.random.default_rng(seed), rbd.ModelBuilder(gravity=(0.4, -0.7, -9.6))
    for i, parent in enumerate(parents):
        inertia = None if i in empty else some_inertia(rng)
        placement = rbd.Transform.identity() if parent in empty else some_placement(rng)
        joint = joints.Revolute(np.eye(3)[i % 3] if i in empty or parent in empty else rng.normal(size=3))
        above = f"{parent}" if parent >= 0 else "world"
        builder.add_body(f"{i}", above, joint, placement, inertia)
    return builder.build()


def both(model, q, v, tau, f_ext):
    return (
        rbd.forward_dynamics_by_assembly(model, q, v, tau, f_ext),
        rbd.forward_dynamics(model, q, v, tau, f_ext),
    )


def assert_the_same(model, tolerance, samples=SAMPLES):
    states: States = some_states(model, samples=samples)
    found, expected = compiled(both)(model, states.q, states.v, states.a, states.f_ext)
    scale = np.abs(expected).max(axis=1, keepdims=True)
    np.testing.assert_array_less(np.abs(found - expected) / scale, tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("name", ("chain", "forest", "driven", "floating", "mixed"))
def test_it_is_forward_dynamics(name):
    """Floating bases, joints of every type, driven joints, armature, welds, several trees."""
    case = case_of(name)
    s = case.states
    found, expected = compiled(both)(case.model, s.q, s.v, s.a, s.f_ext)
    assert_close(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["chain", "star", "random", "deep", "caterpillar", "binary", "broom"])
def test_it_is_forward_dynamics_of_large_trees(name):
    """Ten digits for a thousand links, with a mass matrix of condition number 1e12, and for trees of five hundred."""
    assert_the_same(machine(TREES[name]), 1e-10, samples=2)


def test_bodies_without_mass():
    """Pairs of intersecting hinges with a massless body between, like universal joints: in a chain, in a branch and
    twice in a row.

    Such a body alone has neither an inverse inertia nor a joint-space inertia.
    """
    assert_the_same(machine([-1, 0, 1, 2, 3, 4, 5, 6, 3, 8, 9], empty=(0, 2, 4, 5, 8)), 1e-11)


@pytest.mark.slow
def test_points_of_mass():
    """Point masses on sliders, with massless hinges between: no body has rotational inertia about its origin."""
    builder, up = rbd.ModelBuilder(), rbd.Transform.from_xyz_rpy((0.0, 0.3, 0.4), (0.2, 0.0, 0.1))
    point = rbd.Inertia.from_mass_com(0.7, (0.0, 0.0, 0.0), np.zeros((3, 3)))
    for i in range(0, 6, 2):
        above = f"{i - 1}" if i else "world"
        builder.add_body(f"{i}", above, joints.Revolute((1.0, 0.2, 0.0)), up)
        builder.add_body(f"{i + 1}", f"{i}", joints.Prismatic((0.1, 0.0, 1.0)), up, point)
    assert_the_same(builder.build(), 1e-11)


def test_sums_by_doubling():
    """Kinematics, inverse dynamics and mass matrix by doubling agree with those by recursion."""
    case = case_of("forest")

    def of(traversal, q, v, a, f_ext):
        model = rbd.with_traversal(case.model, traversal)
        return (
            rbd.forward_kinematics(model, q).matrix,
            rbd.body_velocities(model, q, v),
            rbd.inverse_dynamics(model, q, v, a, f_ext),
            rbd.mass_matrix(model, q),
        )

    s = case.states
    found, expected = (
        jax.jit(of, static_argnums=0)(traversal, s.q[0], s.v[0], s.a[0], s.f_ext[0])
        for traversal in ("doubling", "scan")
    )
    for a, b in zip(found, expected, strict=True):
        assert_close(a, b, 1e-12)


@pytest.mark.slow
def test_single_precision():
    model = machine(random_tree(6))
    states = some_states(model)
    expected = compiled(rbd.forward_dynamics)(model, states.q, states.v, states.a)
    single = rbd.astype(model, jnp.float32)
    found = compiled(rbd.forward_dynamics_by_assembly)(
        single, *(x.astype(np.float32) for x in (states.q, states.v, states.a))
    )
    assert found.dtype == np.float32
    assert np.abs(found - expected).max() < 1e-4 * np.abs(expected).max()


def test_models_without_motion():
    model = rbd.ModelBuilder(name="nothing").build()
    nothing = np.zeros(0)
    assert rbd.forward_dynamics_by_assembly(model, nothing, nothing, nothing).shape == (0,)


def test_joints_that_follow_others_are_refused():
    model = case_of("coupled").model
    still = np.zeros(model.nv)
    with pytest.raises(ValueError, match="mimic joints.*use forward_dynamics"):
        rbd.forward_dynamics_by_assembly(model, case_of("coupled").states.q[0], still, still)


# Derivatives.


@pytest.mark.slow
def test_derivatives():
    """Derivatives by all inputs in both modes, with a massless body, agree with differences and the other algorithm."""
    model = machine([-1, 0, 1, 2, 1], empty=(1,))
    states = some_states(model)
    x = np.concatenate([states.q, states.v, states.a], axis=1)

    def acceleration(model, x):
        return rbd.forward_dynamics_by_assembly(model, *jnp.split(x, 3))

    batched = jax.jit(jax.vmap(lambda x: acceleration(model, x)))
    by_rows = jax.jit(jax.vmap(jax.jacrev(acceleration, 1), (None, 0)))(model, x)
    by_columns = jax.jit(jax.vmap(jax.jacfwd(acceleration, 1), (None, 0)))(model, x)
    assert_close(by_rows, differences(batched, x, 1e-3, 4), 1e-7)
    assert_close(by_columns, by_rows)

    def of_model(function):
        return jax.jit(jax.grad(lambda m: jnp.sin(function(m, *jnp.split(x[0], 3))).sum()))(model)

    found, expected = of_model(rbd.forward_dynamics_by_assembly), of_model(rbd.forward_dynamics)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert_close(a, b, 1e-10)


@pytest.mark.slow
def test_second_derivatives():
    model = machine(chain(2))
    states = some_states(model)

    def twice(function):
        of = lambda q: jnp.sin(function(model, q, states.v[0], states.a[0])).sum()
        return jax.jit(jax.hessian(of))(states.q[0])

    assert_close(twice(rbd.forward_dynamics_by_assembly), twice(rbd.forward_dynamics), 1e-10)
