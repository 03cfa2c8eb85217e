"""A task as Gymnasium's vector environment, compared with Gymnasium itself."""

import importlib

import jax
import numpy as np
import pytest

import rbd_jax as rbd
from rbd_jax import tasks


gym = pytest.importorskip("gymnasium")

MODES = ("same_step", "next_step", "disabled")


@pytest.fixture(scope="module")
def task():
    return tasks.load("cartpole", episode_length=4, substeps=1)


@pytest.fixture(scope="module")
def env_of(task):
    """Returns an environment of each mode, created once and compiled then."""
    made = {mode: tasks.to_gymnasium(task, 3, seed=7, autoreset=mode) for mode in MODES}
    return made.__getitem__


def test_what_it_says_of_itself(task, env_of):
    env = env_of("same_step")
    assert isinstance(env, gym.vector.VectorEnv) and env.num_envs == 3 and env.unwrapped is env
    assert env.metadata["autoreset_mode"] is gym.vector.AutoresetMode.SAME_STEP
    assert env_of("next_step").metadata["autoreset_mode"] is gym.vector.AutoresetMode.NEXT_STEP
    assert env.single_action_space == gym.spaces.Box(-1, 1, (1,), np.float32)
    assert env.single_observation_space == gym.spaces.Box(-np.inf, np.inf, (5,), np.float64)
    assert env.observation_space.shape == (3, 5) and env.action_space.shape == (3, 1)


@pytest.mark.parametrize("mode", MODES)
def test_spaces_hold_what_comes(env_of, mode):
    env = env_of(mode)
    seen, infos = env.reset(seed=3)
    assert seen in env.observation_space and infos == {}
    env.action_space.seed(0)
    for _ in range(3):
        seen, reward, terminated, truncated, infos = env.step(env.action_space.sample())
        assert seen in env.observation_space and isinstance(seen, np.ndarray)
        assert reward.shape == terminated.shape == truncated.shape == (3,)
        assert reward.dtype == np.float64 and terminated.dtype == truncated.dtype == bool
        np.testing.assert_allclose(
            sum(infos[name] for name in ("upright", "middle", "slow", "effort")), reward
        )
        seen[:], terminated[:] = 0, True  # the arrays belong to the caller


def test_seeds(env_of):
    env = env_of("same_step")
    first, again, other = (env.reset(seed=seed)[0] for seed in (1, 1, 2))
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    assert len(np.unique(first[:, 0])) == 3
    following = env.reset()[0]
    assert not np.array_equal(following, env.reset()[0])
    env.reset(seed=2)
    assert np.array_equal(env.reset()[0], (env.reset(seed=2), env.reset())[1][0])


def test_the_same_step_mode(task, env_of):
    """The last step returns the first observation of the next episode, and `final_obs`, as the task does."""
    env = env_of("same_step")
    env.reset(seed=5)
    states = env.state
    actions = np.full((3, 1), 0.5, np.float32)
    for step in range(4):
        seen, reward, terminated, truncated, infos = env.step(actions)
        states = jax.vmap(task.step)(states, actions)
        ended = step == 3
        assert (truncated == ended).all() and not terminated.any() and ("final_obs" in infos) == ended
        np.testing.assert_allclose(reward, states.reward)
    np.testing.assert_allclose(np.stack(infos["final_obs"]), states.observation)
    assert infos["_final_obs"].all() and not np.allclose(seen, states.observation)
    np.testing.assert_allclose(infos["final_info"]["upright"], states.metrics["upright"])


def test_the_next_step_mode(env_of):
    env = env_of("next_step")
    env.reset(seed=5)
    actions = np.ones((3, 1), np.float32)
    rows = [env.step(actions) for _ in range(6)]
    assert [row[3].all() for row in rows] == [False, False, False, True, False, False]
    assert (
        (rows[4][1] == 0).all() and not np.allclose(rows[3][0], rows[4][0]) and "final_obs" not in rows[3][4]
    )
    assert (np.abs(rows[4][0][:, 0]) < 0.6).all()


def test_no_resets_but_those_asked_for(env_of):
    env = env_of("disabled")
    env.reset(seed=5)
    actions = np.ones((3, 1), np.float32)
    before = [env.step(actions) for _ in range(5)][-1]
    assert before[3].all()
    seen, _ = env.reset(options={"reset_mask": np.array([True, False, True])})
    assert np.array_equal(seen[1], before[0][1]) and not np.array_equal(seen[0], before[0][0])
    assert env.state.steps.tolist() == [0, 5, 0]


def test_with_wrappers_of_gymnasium(task, env_of):
    """Returns and lengths of episodes are those that Gymnasium counts."""
    env = gym.wrappers.vector.RecordEpisodeStatistics(env_of("same_step"))
    env.reset(seed=1)
    total = 0.0
    for _ in range(4):
        *_, infos = row = env.step(np.zeros((3, 1), np.float32))
        total = total + row[1]
    np.testing.assert_allclose(infos["episode"]["r"], total, rtol=1e-5)
    assert (infos["episode"]["l"] == 4).all()


def test_observations_by_name(task):
    class Named(type(task)):
        def observe(self, now):
            return {"q": now.q, "v": now.v}

    env = tasks.to_gymnasium(Named(task.model, dt=0.04), 2)
    seen, _ = env.reset(seed=0)
    assert isinstance(env.single_observation_space, gym.spaces.Dict) and seen in env.observation_space


def test_what_is_refused(task, env_of, monkeypatch, unchecked):
    with pytest.raises(ValueError, match="to_gymnasium: task is a str; it takes a Task"):
        tasks.to_gymnasium("cartpole", 3)
    with pytest.raises(ValueError, match="num_envs is 0; it is a positive integer"):
        tasks.to_gymnasium(task, 0)
    with pytest.raises(ValueError, match="autoreset is 'never'; it must be one of 'same_step', 'next_step'"):
        tasks.to_gymnasium(task, 3, autoreset="never")
    with pytest.raises(ValueError, match=r"actions have shape \(2, 1\); for 3 environments it is \(3, 1\)"):
        env_of("same_step").reset(), env_of("same_step").step(np.zeros((2, 1)))
    with pytest.raises(ValueError, match="env.reset.. comes first"):
        tasks.to_gymnasium(task, 3).step(np.zeros((3, 1)))

    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ImportError, match=r"it needs Gymnasium: pip install 'rbd_jax\[learn\]'"):
        tasks.to_gymnasium(rbd.tasks.load("cartpole"), 3)
