"""Batches in lanes equal `vmap`, for every type of operation, loop and branch, and for derivatives."""

from dataclasses import replace
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from support import assert_same, by_xla

import rbd_jax as rbd
from rbd_jax.compiler import lanes
from rbd_jax.parallel import fastest


X, M, FIXED, WIDE = (
    jax.device_put(np.random.default_rng(seed).normal(size=shape))
    for seed, shape in enumerate([(5, 4), (5, 3, 4), (4, 3), (4, 120)])
)
K = jax.device_put(np.array([0, 2, 1, 3, 1]))
TABLE = np.array([2, 0, 1, 1])


def newton(x):
    """Computes square roots; the number of steps differs between samples."""
    go_on = lambda state: jnp.any(jnp.abs(state[0] ** 2 - x**2 - 1) > 1e-9) & (state[1] < 30)
    return lax.while_loop(
        go_on, lambda s: (s[0] - (s[0] ** 2 - x**2 - 1) / (2 * s[0]), s[1] + 1), (x**2 + 1, 0)
    )


def summed(x, rows):
    """A scan that starts with values common to all samples, and counts."""

    def step(carry, row):
        total, count = carry
        total = total + row * x
        return (total, count + 1), (total[0], count)

    return lax.scan(step, (jnp.zeros(4), 0), rows)


FUNCTIONS = {
    "elements": (lambda x: jnp.clip(jnp.sin(x) * 2.0 / (1 + x**2), -0.5, jnp.abs(x)), (X,)),
    "a scalar that chooses": (lambda x, k: jnp.where(k > 1, x, -x), (X, K)),
    "axes": (lambda m: (m.T, m[None], m.reshape(2, 6), m[::-1], m[1:, ::2], jnp.moveaxis(m, 0, -1)), (M,)),
    "joined": (lambda x, m: jnp.concatenate([m, x[None], jnp.ones((1, 4))]), (X, M)),
    "stacked and split": (lambda x: (jnp.stack([x, FIXED[:, 0]]), *jnp.split(x, 2)), (X,)),
    "padded": (lambda x: (jnp.pad(x, (1, 2)), lax.pad(jnp.ones(3), x[0], [(1, 0, 1)])), (X,)),
    "sums": (lambda m: (m.sum(0), m.sum((0, 1)), m.max(1), m.argmin(0), jnp.cumsum(m, 1), m.prod()), (M,)),
    "many terms": (lambda x: jnp.tile(x, 30).sum() + jnp.tile(x, 30) @ jnp.arange(120.0), (X,)),
    "a network": (lambda x: (WIDE @ jnp.tanh(WIDE.T @ x), jnp.tanh(x @ WIDE) @ WIDE.T, (M[0] @ WIDE) @ jnp.tile(x, 30)), (X,)),
    "large products": (lambda x: (jnp.outer(x, jnp.tile(x, 30)) @ WIDE.T, jnp.tile(x, 30) @ jnp.tile(x, 30)), (X,)),
    "sorted": (lambda m, x: (jnp.sort(m, 0), jnp.argsort(x), lax.top_k(x, 2)), (M, X)),
    "products": (lambda m, x: (m @ x, m @ m.T, m @ FIXED, FIXED @ m[:, :3], jnp.outer(x, x)), (M, X)),
    "products of batches": (lambda m: jnp.einsum("ij,ikj->ik", m, m[:, None] * m[None, 0, None]), (M,)),
    "rows": (lambda m, x: (m[np.array([2, 0, 2])], x[TABLE], m[:, TABLE], m[1], x[None][0]), (M, X)),
    "rows that depend": (lambda m, k, x: (x[k], lax.dynamic_slice(m, (k % 2, 1), (2, 2)), m[k % 3]), (M, K, X)),
    "written": (lambda m, x: (m.at[1].set(x), m.at[TABLE].add(x), m.at[:, 1].multiply(2.0), FIXED.at[0].set(x[:3])), (M, X)),
    "written where it depends": (lambda x, k: (x.at[k].set(7.0), x.at[k].add(x[0]), jnp.zeros(4).at[k].set(1)), (X, K)),
    "factors": (lambda m: (jnp.linalg.cholesky(m @ m.T + jnp.eye(3)), jnp.linalg.solve(m @ m.T, m[:, 0])), (M,)),
    "random": (lambda k: jax.random.normal(jax.random.key(k), (3,)), (K,)),
    "kinds": (lambda k, x: (k.astype(float), x > 0, x.astype(jnp.float32), k // 2, k % 2 == 1, k & 1), (K, X)),
    "a loop of known length": (lambda x, m: summed(x, m), (X, M)),
    "a loop over what all share": (lambda x: summed(x, FIXED.T), (X,)),
    "a loop that depends": (newton, (X,)),
    "a loop that does not": (lambda x: lax.while_loop(lambda s: s[0] < 4, lambda s: (s[0] + 1, s[1] * x), (0, x))[1], (X,)),
    "a branch for each": (lambda k, x: lax.switch(k, [jnp.sin, jnp.cos, lambda x: 0 * FIXED[:, 0]], x), (K, X)),
    "a branch for all": (lambda x: lax.cond(FIXED[0, 0] > 0, jnp.sin, lambda x: FIXED[:, 1], x), (X,)),
    "what is the same for all": (lambda x: (FIXED @ FIXED.T, jnp.asarray(3), x[:0], FIXED[:0]), (X,)),
    "functions with rules": (lambda x: (jax.nn.relu(x), jax.checkpoint(jnp.tanh)(x), jax.jit(jnp.exp)(x)), (X,)),
    "gradients": (jax.grad(lambda x: jnp.sum(jnp.linalg.norm(M[0] * jnp.sin(x)[None], axis=1))), (X,)),
    "scalars": (lambda k: k * 2, (K,)),
    "a callback": (lambda x: jax.pure_callback(lambda x: 2 * x, x, x, vmap_method="expand_dims"), (X,)),
}  # fmt: skip


@pytest.mark.slow
def test_every_operation_is_vmaps():
    """One compilation for each number of lanes: fewer than the samples, with padding, and as many."""
    arguments = {name: given for name, (_, given) in FUNCTIONS.items()}

    def everything(batching):
        return jax.jit(
            lambda given: {name: batching(FUNCTIONS[name][0])(*given[name]) for name in FUNCTIONS}
        )(arguments)

    expected = everything(jax.vmap)
    for count in (2, 5, 8):
        found = everything(partial(rbd.batch_map, lanes=count))
        for name in FUNCTIONS:
            assert_same(found[name], expected[name])


@pytest.mark.parametrize(
    "name, left",
    [
        ("rows that depend", {"dynamic_slice"}),
        ("factors", {"cholesky"}),
        ("elements", set()),
        ("functions with rules", set()),
    ],
)
def test_what_has_no_rule_is_left_to_jax(name, left):
    function, given = FUNCTIONS[name]
    program = lanes.Program.of(lambda rows: function(*rows), given)
    reader = lanes.Lanes(5)

    def run(*columns):
        return reader.run(program.jaxpr, program.consts, columns, (True,) * len(columns))

    jax.eval_shape(run, *(np.moveaxis(x, 0, -1) for x in program.samples))
    assert left <= reader.by_jax and (left or not reader.by_jax)


@pytest.mark.slow
def test_the_recursions_have_rules_for_all_they_do():
    """No operation of the dynamics falls back to JAX, which would put the batch axis first."""
    model = rbd.load("quadruped")
    q, v = np.zeros((4, model.nq)), np.ones((4, model.nv))
    for function in (
        rbd.forward_dynamics,
        rbd.inverse_dynamics,
        rbd.forward_dynamics_derivatives,
        lambda model, q, v, tau: jax.grad(lambda q: jnp.sum(rbd.forward_dynamics(model, q, v, tau)))(q),
    ):
        program = lanes.Program.of(lambda rows, f=function: f(model, rows[0], rows[1], rows[1]), (q, v))
        reader = lanes.Lanes(4)

        def run(*columns, program=program, reader=reader):
            return reader.run(program.jaxpr, program.consts, columns, (True,) * len(columns))

        jax.eval_shape(run, *(np.moveaxis(x, 0, -1) for x in program.samples))
        assert not reader.by_jax


def test_rollouts_have_rules():
    """This requires a model without dry friction, because friction needs a search in each step; results equal `vmap`."""
    model = rbd.load("double_pendulum")
    q, v = np.linspace(-1, 1, 8).reshape(4, 2), np.linspace(1, -1, 8).reshape(4, 2)

    def path(rows, model=model):
        path = rbd.rollout(model, rbd.State(*rows), dt=0.01, steps=3)
        return path.q, path.v

    program = lanes.Program.of(path, (q, v))
    assert lanes.has_rules(program.jaxpr, (True, True))
    assert_same(jax.jit(lambda: lanes.in_lanes(path, (q, v), 4, 4))(), by_xla(path)((q, v)))
    rubbing = replace(model, friction=jax.device_put(np.asarray(model.friction) + 0.1))
    searching = lanes.Program.of(lambda rows: path(rows, rubbing), (q, v))
    assert not lanes.has_rules(searching.jaxpr, (True, True))


@pytest.mark.parametrize("friction", [0.0, 0.1])
def test_simulated_batches_are_in_lanes_where_nothing_rubs(friction, monkeypatch):
    """The model is an argument of the compiled function, but the absence of dry friction is static."""
    monkeypatch.setattr(fastest, "ENOUGH", 4)  # too few samples for a kernel
    used = []
    side_by_side = lanes.side_by_side
    monkeypatch.setattr(
        lanes,
        "side_by_side",
        lambda jaxpr, count, *given: used.append(count) or side_by_side(jaxpr, count, *given),
    )
    model = rbd.load("pendulum")
    model = replace(model, friction=jax.device_put(np.asarray(model.friction) + friction))
    line = np.linspace(-1, 1, 5)[:, None]
    states = rbd.State(jax.device_put(line), jax.device_put(-line))
    path = rbd.simulate_batch(model, states, dt=0.01, steps=6, frames=2)
    assert used == [5] * (2 if friction else 3)  # the initial data, the evaluation, and the segments
    each = jax.vmap(lambda q, v: rbd.rollout(model, rbd.State(q, v), dt=0.01, steps=6, save_every=3))
    expected = jax.jit(each)(states.q, states.v)
    assert_same((path.q, path.v), (expected.q, expected.v), 1e-12)


@pytest.mark.slow
def test_derivatives_of_what_is_mapped():
    """With respect to samples and closure, in forward and reverse mode, and twice; and for a batch of batches."""
    gravity = jax.device_put(np.array([0.0, 0.0, -9.81]))
    model = rbd.load("double_pendulum")
    q = jax.device_put(np.random.default_rng(3).normal(size=(3, 2)))

    def loss(batching, gravity, q):
        heavy = eqx.tree_at(lambda m: m.gravity, model, gravity)
        at = lambda q: rbd.forward_dynamics(heavy, q, q, gravity[:2])
        return jnp.sum(batching(at)(q) ** 2)

    ours, theirs = partial(loss, partial(rbd.batch_map, lanes=2)), partial(loss, jax.vmap)
    assert_same(
        jax.jit(jax.grad(ours, argnums=(0, 1)))(gravity, q),
        jax.jit(jax.grad(theirs, argnums=(0, 1)))(gravity, q),
    )
    assert_same(*(jax.jit(lambda f=f: jax.jvp(f, (gravity, q), (gravity, 0 * q)))() for f in (ours, theirs)))
    assert_same(*(jax.jit(jax.hessian(lambda g, f=f: f(g, q)))(gravity) for f in (ours, theirs)), 1e-10)
    several = np.stack([q, np.asarray(q) + 1])
    assert_same(*(by_xla(lambda q, f=f: f(gravity, q))(several) for f in (ours, theirs)))


@pytest.mark.slow
def test_gradients_in_lanes_are_finite_where_they_are_singular():
    """The program of a mapped gradient contains the custom derivative rules."""
    model = rbd.load("quadruped")
    q = np.tile(rbd.neutral(model), (3, 1))
    one = jax.grad(
        lambda q: jnp.sum(rbd.forward_dynamics(model, q, jnp.zeros(model.nv), jnp.zeros(model.nv)))
    )
    found = rbd.batch_map(one, lanes=2)(q)
    assert np.isfinite(found).all()
    assert_same(found, by_xla(one)(q), 1e-9)


def test_in_single_precision():
    model = rbd.astype(rbd.load("double_pendulum"), jnp.float32)
    q = np.random.default_rng(4).normal(size=(5, 2)).astype(np.float32)
    one = lambda q: rbd.forward_dynamics(model, q, q, q)
    found = rbd.batch_map(one, lanes=4)(q)
    assert found.dtype == jnp.float32
    found, expected = np.asarray(found), np.asarray(by_xla(one)(q))
    assert np.abs(found - expected).max() < 2e-5 * np.abs(expected).max()


def test_a_program_that_says_something_is_run_one_by_one():
    said = []

    def function(x):
        jax.debug.callback(lambda x: said.append(float(x)), x)
        return 2 * x

    found = rbd.batch_map(function, lanes=2)(np.arange(3.0))
    jax.effects_barrier()
    assert said == [0.0, 1.0, 2.0] and found.tolist() == [0.0, 2.0, 4.0]


@pytest.mark.parametrize("count", [0, -1, True])
def test_refused(count):
    with pytest.raises(
        ValueError, match="^batch_map: lanes is .*; it is a number of samples, 1 or more, or None"
    ):
        rbd.batch_map(jnp.sin, lanes=count)


# The automatic choice.


def test_without_kernels_large_batches_of_what_has_rules(monkeypatch):
    """Excluded: iterations that depend on the sample, operations that JAX must batch, keys, and callbacks."""
    asked = []
    side_by_side = lambda jaxpr, count, consts, samples: asked.append(count) or [samples[0]]
    monkeypatch.setattr(lanes, "side_by_side", side_by_side)
    model = rbd.load("pendulum")
    counted = lambda x: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, 2 * s[1]), (0, x))[1]
    for function in (jnp.sin, counted, lambda x: rbd.forward_dynamics(model, x[None], x[None], x[None])):
        rbd.batch_map(function, fused=False)(np.arange(fastest.ENOUGH - 1.0))
        assert not asked
        rbd.batch_map(function, fused=False)(np.arange(fastest.ENOUGH + 0.0))
        assert asked == [lanes.SIDE_BY_SIDE]
        asked.clear()
    for function, x in (
        (newton, np.ones((500, 4))),
        (lambda m: jnp.linalg.cholesky(m), np.tile(np.eye(3), (500, 1, 1))),
        (lambda key: jax.random.normal(key), jax.random.split(jax.random.key(0), 500)),
        (
            lambda k: lax.fori_loop(0, 3, lambda i, total: total + FIXED[(k + i) % 4, 0], 0.0),
            np.arange(500) % 4,
        ),
        (lambda x: jnp.tile(x, 30) @ jnp.tile(x, 30), np.ones((500, 4))),
        (lambda x: jax.debug.callback(lambda: None) or x, np.ones(500)),
    ):
        rbd.batch_map(function, fused=False)(x)
        assert not asked


def test_nothing_is_measured_any_more(unchecked):
    with pytest.warns(DeprecationWarning, match="deprecated"):
        mapped = rbd.batch_map(jnp.sin, lanes="measured")  # pyright: ignore[reportArgumentType]
    np.testing.assert_allclose(mapped(np.arange(5.0)), np.sin(np.arange(5.0)), rtol=1e-15)
