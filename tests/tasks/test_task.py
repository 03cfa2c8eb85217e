"""Tasks are pure and differentiable, run alone or in batches, and have terminated and truncated episodes."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import assert_each_close

import rbd_jax as rbd


class Balance(rbd.Task):
    """Balances a pole at a random position; stores the previous force."""

    stiff: float = 0.1

    def begin(self, model, key):
        start, where = jax.random.split(key)
        q = jax.random.uniform(start, (2,), minval=-0.1, maxval=0.1)
        return rbd.State(q, jnp.zeros(2)), {"place": jax.random.normal(where), "action": jnp.zeros(1)}

    def observe(self, now):
        return jnp.concatenate([now.q, now.v, now.memory["action"], now.memory["place"][None]])

    def reward(self, before, action, now):
        square = jnp.sum((action - before.memory["action"]) ** 2)
        return {
            "upright": jnp.cos(now.q[1]),
            "place": -((now.q[0] - now.memory["place"]) ** 2),
            "steady": -self.stiff * square,
        }

    def terminated(self, now):
        return jnp.abs(now.q[1]) > 0.3

    def remember(self, before, action, now):
        return before.memory | {"action": action}


CART = rbd.load("cartpole")


@pytest.fixture(scope="module")
def task():
    return Balance(
        CART, dt=0.02, substeps=2, episode_length=6, randomization=rbd.tasks.scaled_masses(0.8, 1.2)
    )


@functools.partial(jax.jit, static_argnums=(1, 2))
def actions(key, steps, size=1):
    return jax.random.uniform(key, (steps, size), minval=-1.0, maxval=1.0)


@pytest.fixture(scope="module")
def unroll(task):
    """Returns the states after each step of a sample, with resets."""

    @jax.jit
    def run(key, actions):
        def step(state, action):
            new = task.step_and_reset(state, action)
            return new, new

        return jax.lax.scan(step, task.reset(key), actions)[1]

    return run


def test_sizes(task):
    assert (task.observation_size, task.action_size) == (6, 1)


def test_what_is_drawn_depends_on_the_key_alone(task, unroll, key):
    given = actions(key, 14)
    one, again = unroll(jax.random.key(3), given), unroll(jax.random.key(3), given)
    assert all(np.array_equal(a, b) for a, b in zip(_numbers(one), _numbers(again)))
    other = unroll(jax.random.key(4), given)
    assert not np.array_equal(one.observation, other.observation)
    assert_each_close(
        task.reset(jax.random.PRNGKey(3)).observation, task.reset(jax.random.key(3)).observation
    )


@pytest.mark.slow
def test_a_batch_is_its_samples_one_by_one(task, unroll, key):
    keys, given = jax.random.split(key, 5), jax.random.uniform(key, (5, 14, 1), minval=-1, maxval=1)
    singly = [unroll(one, each) for one, each in zip(keys, given)]
    stacked = jax.tree.map(lambda *x: np.stack(x), *map(_numbers, singly))
    assert_each_close(_numbers(jax.jit(jax.vmap(unroll))(keys, given)), stacked, 1e-10)
    assert_each_close(_numbers(jax.jit(rbd.batch_map(unroll))(keys, given)), stacked, 1e-10)
    # Samples of half a batch equal those of the full batch.
    assert_each_close(
        _numbers(jax.jit(jax.vmap(unroll))(keys[:2], given[:2])), [x[:2] for x in stacked], 1e-10
    )


def _numbers(tree):
    leaves = jax.tree.leaves(tree)
    return [jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x for x in leaves]


def at(*numbers):
    """Returns an action."""
    return jax.device_put(np.array(numbers))


def test_steps_are_those_of_the_simulation(task):
    """A step equals `rbd.step` of the episode's model under the action, with the same substeps."""
    state = task.reset(jax.random.key(0))
    model = jax.jit(lambda state: task.situation(state).model)(state)
    assert not np.array_equal(model.inertias.mass, CART.inertias.mass)
    after, push = task.step(state, at(0.5)), rbd.Controls(at(10.0))
    expected = rbd.step(model, state.state, push, dt=0.02, substeps=2)
    assert_each_close((after.state.q, after.state.v), (expected.q, expected.v))
    half = rbd.step(model, state.state, push, dt=0.01)
    assert_each_close(rbd.step(model, half, push, dt=0.01).q, expected.q)
    assert_each_close(after.reward, sum(after.metrics.values()))
    assert int(after.steps) == 1 and not state.done and not after.done
    # Actions beyond the bounds are clipped.
    assert_each_close(task.step(state, at(7.0)).observation, task.step(state, at(1.0)).observation)


def test_time_that_is_over_truncates_and_falling_terminates(task, unroll):
    """Six steps upright truncate; a fall terminates earlier. In both cases the next episode starts."""
    calm = unroll(jax.random.key(0), np.zeros((14, 1)))
    assert np.flatnonzero(calm.truncated).tolist() == [5, 11] and not calm.terminated.any()
    assert calm.steps.tolist() == [1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0, 1, 2]
    pushed = eqx.tree_at(lambda t: t.model.inertias.mass, task, 0.05 * task.model.inertias.mass)
    state = pushed.reset(jax.random.key(0))
    ended = []
    for _ in range(5):
        state = pushed.step(state, jnp.array([1.0]))
        ended.append((bool(state.terminated), bool(state.truncated)))
    first = [terminated for terminated, _ in ended].index(True)
    assert 0 < first < 5 and not any(truncated for _, truncated in ended[: first + 1])


def test_at_a_reset_the_end_is_kept(task, unroll):
    states = unroll(jax.random.key(0), np.zeros((14, 1)))
    ended = np.flatnonzero(states.truncated)
    going = np.setdiff1d(np.arange(14), ended)
    observed, final = np.asarray(states.observation), np.asarray(states.final_observation)
    np.testing.assert_array_equal(observed[going], final[going])
    # The same steps without resets.
    state = task.reset(jax.random.key(0))
    for _ in range(6):
        state = task.step(state, jnp.zeros(1))
    assert_each_close(state.observation, final[5])
    assert_each_close(state.reward, np.asarray(states.reward)[5])
    assert_each_close(final[6], task.step(_row(states, 5), jnp.zeros(1)).observation)
    # The next episode has another initial state, target and model.
    begun = observed[[5, 11]][:, [0, 1, 5]]
    assert np.abs(begun[0] - begun[1]).min() > 1e-6
    masses = [np.asarray(leaf) for leaf in jax.tree.leaves(states.changes)][0]
    assert not np.allclose(masses[5], masses[11]) and np.array_equal(masses[5], masses[8])


@jax.jit
def _row(states, index):
    return jax.tree.map(lambda x: x[index], states)


@pytest.fixture(scope="module")
def total(task):
    """Returns a function for the return of a sample, differentiable with respect to actions and task parameters."""

    def run(task, actions):
        def step(state, action):
            new = task.step_and_reset(state, action)
            return new, new.reward

        return jnp.sum(jax.lax.scan(step, task.reset(jax.random.key(0)), actions)[1])

    return run


@pytest.mark.slow
def test_gradients_are_those_of_differences(task, total, key):
    """With respect to actions and leaves of the task, across a reset; in both modes; alone and in a batch."""
    given, direction = 0.1 * actions(key, 8), actions(jax.random.key(9), 8)
    numbers, rest = eqx.partition(task, eqx.is_inexact_array)

    def along(step, given):
        mass = numbers.model.inertias.mass * (1 + 0.3 * step)
        moved = eqx.tree_at(
            lambda t: (t.model.inertias.mass, t.dt), numbers, (mass, numbers.dt * (1 + 0.1 * step))
        )
        return total(eqx.combine(moved, rest), given + step * direction)

    value = jax.jit(along)
    h = 1e-5
    expected = (value(h, given) - value(-h, given)) / (2 * h)
    grad = jax.jit(jax.grad(along))
    np.testing.assert_allclose(grad(0.0, given), expected, rtol=1e-6)
    forward = jax.jit(lambda x, given: jax.jvp(lambda x: along(x, given), (x,), (1.0,))[1])
    np.testing.assert_allclose(forward(0.0, given), expected, rtol=1e-6)
    batch = jax.vmap(jax.grad(along), in_axes=(0, None))(jnp.zeros(3), given)
    np.testing.assert_allclose(batch, expected, rtol=1e-6)


@pytest.mark.slow
def test_nothing_is_learnt_from_what_comes_after_an_end(task):
    """The initial state of the next episode does not depend on the actions of the last one."""

    def later(action):
        def step(state, _):
            return task.step_and_reset(state, action), None

        state = jax.lax.scan(step, task.reset(jax.random.key(0)), None, length=6)[0]
        return jnp.sum(state.observation)

    assert jax.jit(jax.grad(later))(jnp.zeros(1)) == 0


@pytest.mark.slow
def test_a_step_that_cannot_be_made_ends_the_episode_and_spoils_nothing():
    """A force of 1e300 N on one of three samples terminates it at its state; gradients of the others are unaffected."""

    class Wild(Balance):
        def controls(self, now, action):
            force = jnp.where(
                now.memory["place"] > 0, 20.0 * action, 1e306 * action * jnp.exp(now.q[:1] + 9.0)
            )
            return rbd.Controls(force)

    free = rbd.attach(rbd.detach(CART, "actuator"), rbd.actuators.Motor("motor", "slide"))
    free = eqx.tree_at(lambda m: m.effort_limit, free, jnp.full(2, jnp.inf))
    task = Wild(free, dt=0.02)
    keys = jax.random.split(jax.random.key(1), 6)
    states = jax.vmap(task.reset)(keys)
    wild = np.asarray(states.memory["place"]) <= 0
    assert 0 < wild.sum() < 6

    def loss(gain, keep):
        def one(state, keep):
            new = task.step(state, gain * jnp.ones(1))
            return keep * jnp.sum(new.observation), new

        sums, new = jax.vmap(one)(states, keep)
        return jnp.sum(sums), new

    (_, new), gradient = jax.jit(jax.value_and_grad(loss, has_aux=True))(0.5, jnp.ones(6))
    assert np.array_equal(new.terminated, wild) and np.array_equal(new.code != 0, wild)
    np.testing.assert_array_equal(new.state.q[wild], states.state.q[wild])
    assert np.isfinite(new.observation).all() and np.isfinite(new.reward).all() and np.isfinite(gradient)
    # In the diverged samples only the action counts, which is stored.
    (_, _), others = jax.value_and_grad(loss, has_aux=True)(0.5, jnp.asarray(~wild, float))
    np.testing.assert_allclose(gradient - others, wild.sum(), rtol=1e-9)


def test_one_leaf_over_a_batch(task, key):
    """A batch of models is a task with batched leaves."""
    masses = np.linspace(0.5, 2.0, 3)

    def after(mass):
        other = eqx.tree_at(lambda t: t.model.inertias.mass, task, mass * task.model.inertias.mass)
        return other.step(other.reset(key), jnp.ones(1)).observation

    found = np.asarray(jax.jit(jax.vmap(after))(masses))
    assert_each_close(found, np.stack([after(mass) for mass in masses]))
    assert len(np.unique(found[:, 0])) == 3


@pytest.mark.slow
def test_in_single_precision(task, key):
    single = Balance(rbd.astype(CART, jnp.float32), dt=0.02, substeps=2, episode_length=6)
    double = Balance(CART, dt=0.02, substeps=2, episode_length=6)
    state, other = single.reset(key), double.reset(key)
    state = eqx.tree_at(
        lambda s: (s.state, s.memory),
        state,
        jax.tree.map(lambda x: x.astype("f4"), (other.state, other.memory)),
    )
    for _ in range(3):
        state, other = single.step(state, jnp.ones(1)), double.step(other, jnp.ones(1))
    assert all(x.dtype == jnp.float32 for x in (state.state.q, state.state.v, state.reward))
    np.testing.assert_allclose(state.state.q, other.state.q, atol=1e-5)


@pytest.mark.parametrize(
    "scheme",
    [rbd.RungeKutta4(), pytest.param(rbd.ImplicitMidpoint(), marks=pytest.mark.slow)],
    ids=lambda s: type(s).__name__,
)
def test_other_schemes(scheme):
    task = Balance(CART, dt=0.02, scheme=scheme)
    state = task.reset(jax.random.key(0))
    expected = rbd.step(CART, state.state, rbd.Controls(jnp.array([20.0])), dt=0.02, scheme=scheme)
    assert_each_close(task.step(state, jnp.ones(1)).state.v, expected.v)


def test_a_model_that_moves_in_few_variables():
    """A reduced model: two geared pendulums, controlled by a generalized force."""

    class Turn(rbd.Task):
        action_size = 1

        def begin(self, model, key):
            return rbd.State(jnp.zeros(1), jnp.zeros(1))

        def controls(self, now, action):
            return 5.0 * action

        def observe(self, now):
            return jnp.concatenate([now.q, now.v])

        def reward(self, before, action, now):
            return -now.q[0]

    reduced = rbd.ReducedModel(rbd.load("double_pendulum"), lambda y: jnp.concatenate([y, -y]), 1)
    state = Turn(reduced, dt=0.01, randomization=rbd.tasks.scaled_masses(2.0, 2.0)).reset(jax.random.key(0))
    state = Turn(reduced, dt=0.01).step(state, at(1.0))
    assert int(state.code) == 0 and float(np.asarray(state.state.v)[0]) > 0 and state.metrics == {}
    with pytest.raises(ValueError, match="moves in a few variables; ask `now.model`"):
        Turn(reduced, dt=0.01).situation(state).motion  # noqa: B018


def test_observations_by_name(key):
    class Named(Balance):
        def observe(self, now):
            return {"q": now.q, "rates": now.v, "noise": jax.random.normal(now.key, (2,))}

    task = Named(CART, dt=0.02, episode_length=2)
    assert task.observation_size == {"q": (2,), "rates": (2,), "noise": (2,)}
    first = task.reset(key)
    second = task.step_and_reset(first, jnp.ones(1))
    assert not np.allclose(first.observation["noise"], second.observation["noise"])
    third = task.step_and_reset(second, jnp.ones(1))
    assert third.truncated and not np.array_equal(third.observation["q"], third.final_observation["q"])


class Silent(Balance):
    def reward(self, before, action, now):
        return jnp.zeros(2)


class Forgetful(Balance):
    def remember(self, before, action, now):
        return {"action": action}


class Stateless(Balance):
    def begin(self, model, key):
        return jnp.zeros(2)


REFUSED = {
    "a model": (lambda: Balance("cartpole", dt=0.02), ValueError, "Task: model is a str"),
    "dt": (lambda: Balance(CART, dt=0.0), ValueError, "Task: dt is 0.0; it must be greater than 0"),
    "substeps": (
        lambda: Balance(CART, dt=0.02, substeps=0),
        ValueError,
        "substeps is 0; it is a positive integer",
    ),
    "length": (
        lambda: Balance(CART, dt=0.02, episode_length=0.5),
        ValueError,
        "episode_length is 0.5; it is a number of steps",
    ),
    "scheme": (
        lambda: Balance(CART, dt=0.02, scheme="rk4"),
        ValueError,
        "scheme is a str; it takes an instance of rbd.Scheme",
    ),
    "abstract": (lambda: rbd.Task(CART, dt=0.02), TypeError, "abstract"),
    "no actuators": (
        lambda: Balance(rbd.load("double_pendulum"), dt=0.02),
        ValueError,
        "Balance: model 'double_pendulum' has no actuators; attach some",
    ),
    "no range": (
        lambda: Balance(rbd.load("quadruped"), dt=0.02),
        ValueError,
        "actuator 'FL_hip' .* has no control_range",
    ),
    "a key": (
        lambda: Balance(CART, dt=0.02).reset(0),
        ValueError,
        r"Balance.reset: key is 0; it takes a key",
    ),
    "keys": (
        lambda: Balance(CART, dt=0.02).reset(jax.random.split(jax.random.key(0))),
        ValueError,
        r"key has shape \(2,\); it takes one, so batch: jax.vmap\(task.reset\)",
    ),
    "an action": (
        lambda: Balance(CART, dt=0.02).step(
            Balance(CART, dt=0.02).reset(jax.random.key(0)), jnp.zeros((3, 1))
        ),
        ValueError,
        r"Balance.step: action has shape \(3, 1\); it is \(1,\) for this task; it takes one sample, so batch",
    ),
    "a reward": (
        lambda: Silent(CART, dt=0.02).reset(jax.random.key(0)),
        ValueError,
        r"Silent.reward: the result has shape \(2,\); it is one number",
    ),
    "a memory": (
        lambda: Forgetful(CART, dt=0.02).step(
            Forgetful(CART, dt=0.02).reset(jax.random.key(0)), jnp.zeros(1)
        ),
        ValueError,
        "Forgetful.remember returned .*; the memory that `begin` returned is",
    ),
    "a beginning": (
        lambda: Stateless(CART, dt=0.02).reset(jax.random.key(0)),
        ValueError,
        "Stateless.begin: the result is a .*; it takes a rbd.State",
    ),
    "a name": (
        lambda: rbd.tasks.load("cartpol"),
        rbd.UnknownNameError,
        "there is no task 'cartpol'; did you mean 'cartpole'",
    ),
}


@pytest.mark.parametrize("make, error, message", REFUSED.values(), ids=REFUSED)
def test_what_is_refused(make, error, message, unchecked):
    with pytest.raises(error, match=message):
        make()
