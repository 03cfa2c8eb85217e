"""Policies: decisions, rollouts, evaluation, and complete files."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from push import cart, push

import rbd_jax as rbd


class Following(rbd.Task):
    """A cart follows a moving target and stores its last action; its mass differs between episodes."""

    def begin(self, model, key):
        start, where = jax.random.split(key)
        memory = {"place": jax.random.normal(where, (), model.dtype), "action": jnp.zeros(1, model.dtype)}
        return rbd.State(jax.random.normal(start, (1,), model.dtype), jnp.zeros(1, model.dtype)), memory

    def observe(self, now):
        noise = 0.01 * jax.random.normal(now.key, (1,), now.q.dtype)
        place = now.memory["place"] + jnp.sin(now.time)
        return jnp.concatenate([now.q + noise, now.v, now.memory["action"], place[None]])

    def reward(self, before, action, now):
        return -((now.q[0] - now.memory["place"]) ** 2)

    def controls(self, now, action):
        # Held from the time of the decision.
        return rbd.Controls(2.0 * action - now.v)

    def remember(self, before, action, now):
        return before.memory | {"action": action}


@pytest.fixture(scope="module")
def following():
    task = Following(
        cart(), dt=0.1, substeps=3, episode_length=8, randomization=rbd.tasks.scaled_masses(0.5, 2.0)
    )
    return task, wild(task, (8,))


def wild(task, *options):
    """Returns a random policy with actions that are not near zero."""

    @jax.jit
    def drawn(key):
        policy = rbd.learn.Policy.drawn(task, key, *options)
        return jax.tree.map(
            lambda x: x + 0.5 * jnp.sin(1.0 + jnp.arange(x.size, dtype=x.dtype)).reshape(x.shape), policy
        )

    return drawn(jax.random.key(0))


@pytest.fixture(scope="module")
def pushing():
    task = push(substeps=1)
    return task, wild(task, (8,))


def test_a_rollout_with_its_controller_is_an_episode(following):
    task, policy = following
    key = jax.random.key(3)
    episode = rbd.learn.play(task, policy, key)
    controller, start = rbd.learn.Controller(task, policy), task.reset(key)
    model, memory = jax.jit(lambda start: (task.situation(start).model, controller.begin(start)))(start)
    path = rbd.rollout(model, start.state, controller, dt=0.1 / 3, steps=24, save_every=3, memory=memory)
    np.testing.assert_allclose(path.q, episode.states.state.q, atol=1e-12)
    np.testing.assert_allclose(path.v, episode.states.state.v, atol=1e-12)
    assert np.ptp(episode.actions) > 0.01


def test_without_a_memory_it_decides_by_the_state(pushing):
    task, policy = pushing
    episode = rbd.learn.play(task, policy, jax.random.key(3), steps=5)
    start = jax.tree.map(lambda x: np.asarray(x)[0], episode.states.state)
    path = rbd.rollout(task.model, start, rbd.learn.Controller(task, policy), dt=0.1, steps=5)
    np.testing.assert_allclose(path.q, episode.states.state.q, atol=1e-12)


def test_what_remembers_needs_a_memory(following):
    task, policy = following
    start = task.reset(jax.random.key(0))
    with pytest.raises(ValueError, match="Following has a memory .*memory=controller.begin"):
        rbd.rollout(task.model, start.state, rbd.learn.Controller(task, policy), dt=0.1, steps=2)


def test_an_evaluation_is_the_sum_of_what_is_played(pushing):
    task, policy = pushing
    key = jax.random.key(7)
    found = jax.tree.map(np.asarray, rbd.learn.evaluate(task, policy, key, 5))
    for i, own in enumerate(jax.random.split(key, 5)):
        episode = rbd.learn.play(task, policy, own)
        steps = int(episode.steps)
        assert found.steps[i] == steps
        states = episode.states
        reward, place = (np.asarray(x)[1 : steps + 1].sum() for x in (states.reward, states.metrics["place"]))
        np.testing.assert_allclose(found.returns[i], reward, atol=1e-12)
        np.testing.assert_allclose(found.terms["place"][i], place, atol=1e-12)
        assert found.terminated[i] == np.asarray(states.terminated)[-1]
    np.testing.assert_allclose(found.mean, np.mean(found.returns))
    # Any function of an observation is accepted.
    held = rbd.learn.evaluate(task, lambda seen: -seen["place"], jax.random.key(7), 2, steps=4)
    assert (np.asarray(held.steps) <= 4).all()


@pytest.mark.parametrize("squashed", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_file_has_all_of_it(tmp_path, squashed, dtype):
    task = push()
    policy = wild(task, (8, 4), 0.3, squashed)
    policy = jax.tree.map(lambda x: jax.device_put(np.asarray(x).astype(dtype)), policy)
    rbd.learn.save(tmp_path / "policy", policy)
    assert [file.name for file in tmp_path.iterdir()] == ["policy"]
    found = rbd.learn.load(tmp_path / "policy", task)
    assert jax.tree.structure(found) == jax.tree.structure(policy)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(policy)):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    seen = task.reset(jax.random.key(0)).observation
    np.testing.assert_array_equal(found(seen), policy(seen))


def test_it_takes_samples_one_by_one_or_under_vmap(pushing):
    task, policy = pushing
    reset = jax.jit(jax.vmap(lambda key: task.reset(key).observation))
    seen = jax.tree.map(np.asarray, reset(jax.random.split(jax.random.key(0), 3)))
    batch = jax.vmap(policy)(seen)
    for i in range(3):
        np.testing.assert_allclose(batch[i], policy(jax.tree.map(lambda x, i=i: x[i], seen)), atol=1e-15)
    assert np.abs(batch).max() <= 1
    with pytest.raises(ValueError, match="observation has 6 numbers.*takes 2; it takes one sample, so batch"):
        policy(seen)


def test_what_does_not_fit_is_refused(tmp_path, following, pushing, unchecked):
    (task, policy), (other, _) = following, pushing
    path = tmp_path / "policy.npz"
    rbd.learn.save(path, policy)
    for call in (
        lambda: rbd.learn.load(path, other),
        lambda: rbd.learn.evaluate(other, policy, jax.random.key(0)),
        lambda: rbd.learn.play(other, policy, jax.random.key(0)),
    ):
        with pytest.raises(
            ValueError, match=r"observations of 4 numbers \(of Following\), and those of Push have 2"
        ):
            call()
    with pytest.raises(ValueError, match="steps is missing; it is needed for a task without episode_length"):
        rbd.learn.play(push(episode_length=None), lambda seen: jnp.zeros(1), jax.random.key(0))
    with pytest.raises(ValueError, match="learn.evaluate: policy is a int"):
        rbd.learn.evaluate(task, 3, jax.random.key(0))
    with pytest.raises(ValueError, match="learn.save: policy is a dict"):
        rbd.learn.save(path, {})
    with pytest.raises(FileNotFoundError):
        rbd.learn.load(tmp_path / "none.npz")
    content = path.read_bytes()
    for damaged in (b"", b"text", content[: len(content) // 2]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="policy.npz is no file of a policy, or it is damaged"):
            rbd.learn.load(path)
