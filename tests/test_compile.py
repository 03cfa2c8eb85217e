"""Public functions compile once per structure of their arguments, and not inside compiled functions."""

import functools
import gc

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd
from rbd_jax._core import jit as compiling


def pendulum(links=2, length=1.0):
    builder = rbd.ModelBuilder(name="pendulum")
    rod = rbd.Inertia.box(1.0, (0.1, 0.1, length), (0.0, 0.0, -length / 2))
    parent = "world"
    for i in range(links):
        builder.add_body(f"{i}", parent, rbd.joints.Revolute((0.0, 1.0, 0.0)), (0.0, 0.0, -length), rod)
        parent = f"{i}"
    return builder.build()


MODEL, LONGER, OTHER = pendulum(), pendulum(2, 1.5), pendulum(3)
V = jnp.array([0.3, -0.2])


@pytest.fixture
def counted():
    """Returns a function that counts the compilations since its last call."""
    compiling.forget()
    before = [compiling.compilations]

    def count():
        now = compiling.compilations
        before[0], made = now, now - before[0]
        return made

    return count


def test_once_for_a_structure(counted):
    """Different values, lists instead of arrays, weak types, and another model of the same structure do not recompile."""
    first = rbd.forward_dynamics(MODEL, V, V, V)
    assert counted() == 1
    for q in (V + 1, [0.1, 0.2], jnp.full(2, 0.1), np.ones(2)):
        rbd.forward_dynamics(MODEL, q, V, tau=V)
    assert counted() <= 1  # a keyword argument is another structure
    longer = rbd.forward_dynamics(LONGER, V, V, V)
    assert counted() == 0 and np.abs(longer - first).max() > 0.1
    rbd.forward_dynamics(OTHER, jnp.zeros(3), jnp.zeros(3), jnp.zeros(3))
    rbd.jacobian(MODEL, V, "0"), rbd.jacobian(MODEL, V, "1"), rbd.jacobian(MODEL, V + 1, "1")
    assert counted() == 3


def test_values_are_those_of_the_function():
    """Values are the same when compiled directly, inside another function, and under derivatives or batches without `jit`."""
    dynamics = functools.partial(rbd.forward_dynamics, MODEL)
    expected = jax.jit(dynamics)(V, V, V)
    np.testing.assert_allclose(dynamics(V, V, V), expected, rtol=1e-13)
    slope = jax.grad(lambda q: jnp.sum(dynamics(q, V, V)))(V)
    np.testing.assert_allclose(slope, jax.jit(jax.grad(lambda q: jnp.sum(dynamics(q, V, V))))(V), rtol=1e-12)
    rows = jnp.stack([V, V + 1])
    np.testing.assert_allclose(
        jax.vmap(lambda q: dynamics(q, V, V))(rows), jnp.stack([dynamics(q, V, V) for q in rows]), rtol=1e-13
    )


def test_nothing_of_it_inside_a_compiled_function(counted):
    """The program equals that of the undecorated function; constants stay constants."""
    plain = rbd.forward_dynamics.__wrapped__
    ways = [str(jax.make_jaxpr(functools.partial(f, MODEL))(V, V, V)) for f in (rbd.forward_dynamics, plain)]
    assert ways[0] == ways[1]
    assert counted() == 0
    step = lambda q: rbd.rollout(MODEL, rbd.State(q, V), dt=0.01, steps=3).q
    assert "jit[name=_simulated" not in str(jax.make_jaxpr(step)(V)) and counted() == 0
    jax.make_jaxpr(jax.vmap(jax.grad(lambda q: jnp.sum(step(q)))))(jnp.stack([V, V]))
    assert counted() == 0


def run(policy, **options):
    state = rbd.State(V, jnp.zeros(2))
    return rbd.rollout(MODEL, state, policy, dt=0.01, steps=4, **options).final.q


def test_rollouts_by_what_their_functions_say(counted):
    """An equal policy from the same line reuses the program; another closure value or event recompiles."""

    def damped(gain):
        return run(lambda t, state: -gain * state.v)

    values = [damped(gain) for gain in (2.0, 2.0, 2.0, 3.0)]
    assert counted() == 2
    assert np.array_equal(values[0], values[2]) and not np.array_equal(values[0], values[3])
    for far in (None, 9.0, 9.0):
        run(None, event=far and (lambda t, state, far=far: state.q[0] - far))
    assert counted() == 2
    run(jnp.zeros((4, 2))), run(jnp.ones((4, 2)))
    assert counted() == 1


GAIN = [2.0]


class Controller:
    gain = 2.0

    def __call__(self, t, state):
        return -self.gain * state.v


class Gains(eqx.Module):
    gain: jax.Array

    def __call__(self, t, state):
        return -self.gain * state.v


@pytest.mark.slow
def test_what_may_change_is_looked_at_again(counted):
    """Mutable values are read again: list entries, closure variables and attributes. Gains of a PyTree are data."""
    around = {"gain": 2.0}
    listed, held = (lambda t, state: -GAIN[0] * state.v), (lambda t, state: -around["gain"] * state.v)
    nested = lambda t, state: (lambda v: -GAIN[0] * v)(state.v)
    thing, method = Controller(), Controller()
    ways = (listed, held, nested, thing, method.__call__)
    before = [run(way) for way in ways]
    GAIN[0] = around["gain"] = thing.gain = method.gain = 5.0
    after = [run(way) for way in ways]
    GAIN[0] = 2.0
    assert all(np.array_equal(x, before[0]) for x in before)
    assert all(np.array_equal(x, after[0]) for x in after) and not np.array_equal(before[0], after[0])
    counted()
    few, many = run(Gains(jnp.asarray(2.0))), run(Gains(jnp.asarray(5.0)))
    assert counted() == 1
    np.testing.assert_allclose(few, before[0], rtol=1e-12)
    np.testing.assert_allclose(many, after[0], rtol=1e-12)


@pytest.mark.slow
def test_derivatives_by_what_a_policy_is_written_around():
    """A policy with a traced closure, without `jit`, caches nothing."""
    value = lambda gain: jnp.sum(run(lambda t, state: -gain * state.v))
    found = [jax.grad(value)(gain) for gain in (2.0, 2.0, 3.0)]
    difference = (value(2.0 + 1e-5) - value(2.0 - 1e-5)) / 2e-5
    np.testing.assert_allclose(found[0], difference, rtol=1e-7)
    assert found[0] == found[1] != found[2]


def test_only_so_many_are_kept(counted, monkeypatch):
    monkeypatch.setattr(compiling, "KEPT", 2)
    for body in ("0", "1", "0", "1"):
        rbd.jacobian(MODEL, V, body)
    assert counted() == 2
    rbd.gravity_force(MODEL, V)
    rbd.jacobian(MODEL, V, "0")  # not cached any more
    assert counted() == 2


def test_identity():
    def again(n):
        return again(n - 1) if n else 0

    same = compiling.identity
    assert same(again) == same(again) and hash(same(again)) == hash(same(again))
    assert (
        same(1) != same(1.0)
        and same([1, 2]) != same([2, 1])
        and same({"a": np.ones(2)}) == same({"a": np.ones(2)})
    )
    assert same(functools.partial(again, 2)) != same(functools.partial(again, 3))
    with pytest.raises(compiling.Changeable):
        same(Controller())


def test_batches_and_what_follows_a_rollout(counted):
    """Batches of samples, their energies, multipliers and reactions compile nothing the second time."""
    states = rbd.parallel.random_states(MODEL, 2, jax.random.key(0), 0.2, 0.5)
    made = []
    for dt in (0.01, 0.01, 0.02):
        path = rbd.simulate_batch(MODEL, states, dt=dt, steps=5, frames=2)
        rbd.parallel.energies_along(MODEL, path, (0, 1))
        rbd.parallel.random_states(LONGER, 2, jax.random.key(1), 0.1, 0.5)
        row = rbd.rollout(MODEL, rbd.State(V, V), dt=dt, steps=2)
        row.multipliers(MODEL), row.reactions(MODEL)
        made.append(counted())
    assert made[0] > 0 and made[1:] == [0, 0]
    assert path.q.shape == (2, 3, 2)


class Numbers(eqx.Module):
    values: object


def test_modules_are_taken_apart_once(monkeypatch):
    """Modules of immutable arrays are flattened once while they exist; mutable ones are flattened in every call."""
    compiling.forget()
    total = compiling.compiled(lambda numbers: numbers.values[0] + numbers.values[1])
    fixed, changing = Numbers([jnp.array(1.0), jnp.array(2.0)]), Numbers(np.array([1.0, 2.0]))
    assert total(fixed) == total(changing) == 3
    monkeypatch.setattr(compiling, "_Parts", None)  # must not be called again
    assert total(fixed) == 3
    monkeypatch.undo()
    changing.values[0] = 5.0
    assert total(changing) == 7
    assert len(compiling._apart) == 1
    other = Numbers([jnp.array(3.0), jnp.array(2.0)])
    assert total(other) == 5 and len(compiling._apart) == 2
    del fixed, other
    gc.collect()
    assert not compiling._apart


class Many(eqx.Module):
    """Has enough arrays to be packed."""

    arrays: list
    name: str = eqx.field(static=True, default="many")


@compiling.compiled
def told(many):
    return [(1 + x) * 2 for x in many.arrays]


def test_small_arrays_of_a_model_travel_as_one():
    """Arrays of each type are packed together, large arrays stay separate, and unpacking restores them."""
    arrays = [np.full((2, 3), i * 0.5) for i in range(20)] + [np.arange(i) for i in range(4)]
    arrays += [np.ones((), bool), np.ones(5000), np.zeros((0, 3)), np.array(3, np.float32)]
    arrays = jax.device_put(arrays)
    many = Many(arrays)
    parts = compiling._parts(many)
    assert len(parts.numbers) == 5  # float64, int64, bool, float32 and the large one
    again = jax.jit(lambda numbers: parts.put_together(iter(numbers)))(parts.numbers)
    for x, y in zip(again.arrays, arrays, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)
    assert len(compiling._parts(MODEL).numbers) <= 3 < len(jax.tree.leaves(MODEL))


def test_arrays_of_other_shapes_are_another_structure():
    """This holds although the total number of entries is the same."""
    for shape in ((2, 3), (3, 2), (6,)):
        for x in told(Many([jax.device_put(np.ones(shape))] * 20)):
            np.testing.assert_array_equal(x, np.full(shape, 4.0))


def test_what_is_put_somewhere_is_not_packed(counted):
    """Small numbers of arrays and traced arrays are not packed either; the results are the same."""
    device = jax.devices()[0]
    arrays = jax.device_put([np.full(3, float(i)) for i in range(20)])
    placed = Many([jax.device_put(x, device) for x in arrays])
    for many in (placed, Many(arrays[:3])):
        assert len(compiling._parts(many).numbers) == len(many.arrays)
    expected = [2 * (1 + np.asarray(x)) for x in arrays]
    for found in (told(placed), told(Many(arrays)), jax.vmap(told)(Many(arrays))):
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_array_equal(x, y)
    slope = jax.grad(lambda many: told(many)[7][0])(Many(arrays))
    np.testing.assert_array_equal(slope.arrays[7], [2.0, 0.0, 0.0])


def test_a_function_is_traced_with_its_own_globals():
    """A retraced function uses its own globals, even though equivalent functions share a program."""
    source = compile("double = lambda x: k * x", "<somewhere>", "exec")
    one, other = {"k": 2.0}, {"k": 2.0}
    exec(source, one)
    exec(source, other)
    call = compiling.compiled(lambda function, x: function(x))
    np.testing.assert_array_equal(call(one["double"], np.ones(2)), [2.0, 2.0])
    one.clear()
    np.testing.assert_array_equal(call(other["double"], np.ones(3)), [2.0, 2.0, 2.0])
