"""Returns, compared with explicit sums."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rbd_jax.learn.short_horizon_actor_critic import returns_td, weights


@pytest.fixture
def seen():
    """Rewards, values, and both kinds of episode ends, of 12 steps of 40 episodes."""
    random = np.random.default_rng(0)
    reward, value = random.normal(size=(2, 12, 40))
    draw = random.uniform(size=(12, 40))
    terminated, truncated = draw < 0.1, draw > 0.9
    return reward, value, terminated, terminated | truncated


found_td = jax.jit(returns_td, static_argnums=(4, 5))


@pytest.mark.parametrize("trace", [0.0, 0.5, 0.95, 1.0])
def test_td_lambda_is_the_mean_of_all_sums_over_some_steps(seen, trace):
    """G = (1 - λ) Σ λᵏ⁻¹ G⁽ᵏ⁾: G⁽ᵏ⁾ has k rewards and then a value, and the last one has the remaining weight."""
    discount = 0.9
    found = np.asarray(found_td(*seen, discount, trace))
    reward, value, terminated, done = seen
    steps, count = reward.shape
    for i in range(count):
        for t in range(steps):
            end = next((k for k in range(t, steps) if done[k, i]), steps - 1)
            sums, total = [], 0.0
            for k in range(t, end + 1):
                total += discount ** (k - t) * reward[k, i]
                gone_on = 0.0 if terminated[k, i] else discount ** (k - t + 1) * value[k, i]
                sums.append(total + gone_on)
            n = len(sums)
            shares = [(1 - trace) * trace**k for k in range(n - 1)] + [trace ** (n - 1)]
            np.testing.assert_allclose(found[t, i], np.dot(shares, sums), rtol=1e-12, atol=1e-12)


def test_the_weight_of_a_step_counts_from_where_its_episode_is_first_seen(seen):
    done = seen[3]
    found = np.asarray(jax.jit(lambda done: weights(done, 0.9, jnp.float64))(done))
    for i in range(done.shape[1]):
        since = 0
        for t in range(done.shape[0]):
            assert found[t, i] == pytest.approx(0.9**since, rel=1e-12)
            since = 0 if done[t, i] else since + 1


def test_what_has_terminated_has_no_more_to_come():
    reward, value = np.ones((3, 1)), np.full((3, 1), 100.0)
    ended = np.array([[False], [True], [False]])
    terminated, truncated = (
        np.asarray(found_td(reward, value, kind, ended, 0.5, 1.0)) for kind in (ended, np.zeros_like(ended))
    )
    np.testing.assert_allclose(terminated[:, 0], [1.5, 1.0, 51.0])
    np.testing.assert_allclose(truncated[:, 0], [1 + 0.5 * 51, 51.0, 51.0])
