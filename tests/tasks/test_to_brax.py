"""A task as an environment of Brax: alone, and under Brax's wrappers if it is installed."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import assert_each_close

from rbd_jax import tasks


@pytest.fixture(scope="module")
def env():
    return tasks.to_brax(tasks.load("cartpole", substeps=1))


def test_it_has_what_brax_asks_for(env):
    assert (env.observation_size, env.action_size, env.backend) == (5, 1, "rbd_jax") and env.unwrapped is env
    state = jax.jit(env.reset)(jax.random.PRNGKey(0))
    assert state.reward == state.done == 0 and state.info == {}
    other = state.replace(reward=jnp.ones(()))
    assert other.reward == 1 and jax.tree.structure(other) == jax.tree.structure(state)


def test_steps_are_those_of_the_task(env):
    state, expected = env.reset(jax.random.PRNGKey(3)), env.task.reset(jax.random.PRNGKey(3))
    state.info["kept"], state.metrics["mine"] = np.ones(()), np.ones(())
    for action in jax.device_put([np.array([0.5]), np.array([-1.0])]):
        state, expected = env.step(state, action), env.task.step(expected, action)
    assert_each_close((state.obs, state.reward), (expected.observation, expected.reward))
    assert state.info["kept"] == state.metrics["mine"] == 1 and "upright" in state.metrics
    # Falling off the rail terminates; Brax itself handles the time limit.
    task = tasks.load("cartpole", substeps=1, episode_length=1)
    short = tasks.to_brax(task)
    assert short.step(short.reset(jax.random.PRNGKey(0)), jnp.zeros(1)).done == 0
    far = eqx.tree_at(lambda s: s.pipeline_state.state.q, state, np.array([2.5, 0.0]))
    assert env.step(far, jnp.zeros(1)).done == 1


def test_another_model(env):
    """Brax's domain randomization sets the model this way."""
    own = env.sys
    try:
        env.sys = eqx.tree_at(lambda m: m.inertias.mass, own, 2 * own.inertias.mass)
        assert env.task.model.inertias.mass[0] == 2 * own.inertias.mass[0]
    finally:
        env.sys = own


@pytest.fixture
def promoting():
    """Brax mixes precisions and ranks, so promotion is allowed."""
    jax.config.update("jax_numpy_rank_promotion", "allow")
    jax.config.update("jax_numpy_dtype_promotion", "standard")
    yield
    jax.config.update("jax_numpy_rank_promotion", "raise")
    jax.config.update("jax_numpy_dtype_promotion", "strict")


@pytest.mark.slow
def test_under_its_wrappers(env, promoting):
    """Batches, episodes of six steps, resets, and differing models."""
    envs = pytest.importorskip("brax.envs")
    env = tasks.to_brax(env.task)
    assert isinstance(env, envs.Env)

    def heavier(model):
        batched = eqx.tree_at(lambda m: m.gravity, model, jnp.stack([model.gravity, 3 * model.gravity]))
        axes = eqx.tree_at(
            lambda m: m.gravity, jax.tree.map(lambda x: None, model), 0, is_leaf=lambda x: x is None
        )
        return batched, axes

    wrapped = envs.training.wrap(env, episode_length=6, randomization_fn=heavier)
    state = jax.jit(wrapped.reset)(jax.random.split(jax.random.PRNGKey(0), 2))
    first, step = state.obs, jax.jit(wrapped.step)
    ends = []
    for _ in range(8):
        state = step(state, jnp.ones((2, 1)))
        ends.append((state.done.tolist(), state.info["truncation"].tolist()))
        if len(ends) == 6:
            assert_each_close(state.obs, first)
            assert state.info["episode_metrics"]["length"].tolist() == [6, 6]
    assert [end == ([1.0, 1.0], [1.0, 1.0]) for end in ends] == [False] * 5 + [True] + [False] * 2
    assert not np.allclose(state.obs[0, 2], state.obs[1, 2], rtol=1e-3)


@pytest.mark.slow
def test_it_is_trained_by_brax(promoting, monkeypatch):
    """A few updates of Brax's PPO give finite numbers; the test does not check that it learns."""
    pytest.importorskip("brax")
    ppo = pytest.importorskip("brax.training.agents.ppo.train")
    # Brax 0.14 uses a function that JAX 0.10 has removed.
    stacked = lambda tree, devices: jax.tree.map(lambda x: jnp.stack([x] * len(devices)), tree)
    monkeypatch.setattr(jax, "device_put_replicated", stacked, raising=False)
    _, _, metrics = ppo.train(
        environment=tasks.to_brax(tasks.load("cartpole")),
        num_timesteps=2_000,
        episode_length=50,
        num_envs=8,
        batch_size=8,
        num_minibatches=2,
        unroll_length=5,
        num_updates_per_batch=1,
        num_evals=2,
        num_eval_envs=4,
        max_devices_per_host=1,
        seed=0,
    )
    assert np.isfinite(metrics["eval/episode_reward"]) and metrics["eval/avg_episode_length"] > 1
