"""The bundled tasks can be simulated and differentiated, and their rewards are as documented."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd
from rbd_jax import tasks


#: The sizes of observations and actions.
SIZES = {
    "cartpole": (5, 1),
    "acrobot": (6, 1),
    "reacher": (10, 2),
    "arm_reach": (20, 7),
    "quadruped_stand": (45, 12),
    "quadruped_trot": (50, 12),
    "hopper": (11, 3),
}


@pytest.mark.parametrize("name", tasks.NAMES)
def test_sizes_and_lengths(name):
    task = tasks.load(name)
    assert (task.observation_size, task.action_size) == SIZES[name]
    assert task.episode_length * float(task.dt) >= 3
    assert tasks.load(name, episode_length=7).episode_length == 7


@pytest.mark.slow
@pytest.mark.parametrize("name", tasks.NAMES)
def test_gradients_are_those_of_differences(name):
    """The return of a few steps is differentiable along a direction in all actions; single precision gives the same steps."""
    task = tasks.load(name)
    keys = jax.random.split(jax.random.key(1), 3)
    steps = 4
    given, direction = (
        jax.random.uniform(one, (steps, task.action_size), minval=-0.5, maxval=0.5) for one in keys[:2]
    )

    def total(task, along):
        def step(state, action):
            new = task.step(state, action)
            return new, (new.reward, new.observation, new.code)

        rewards, seen, codes = jax.lax.scan(step, task.reset(keys[2]), given + along * direction)[1]
        return jnp.sum(rewards), (seen, codes)

    run = jax.jit(jax.value_and_grad(total, argnums=1, has_aux=True))
    (value, (seen, codes)), gradient = run(task, 0.0)
    h = 1e-5
    expected = (run(task, h)[0][0] - run(task, -h)[0][0]) / (2 * h)
    assert not codes.any() and np.isfinite(seen).all()
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-7)

    single = tasks.load(name, model=rbd.astype(task.model, jnp.float32))
    state = single.step(single.reset(keys[2]), given[0])
    assert state.observation.dtype == state.reward.dtype == state.state.q.dtype == jnp.float32
    assert state.code == 0 and np.isfinite(state.observation).all()


def unrolled(task, key, action):
    """Returns rewards and states under a constant action, or under one computed from the state."""

    def step(state, _):
        new = task.step(state, action(state) if callable(action) else action)
        return new, new

    return jax.lax.scan(step, task.reset(key), None, length=task.episode_length)[1]


@pytest.mark.slow
def test_the_quadruped_stands_on_its_servos():
    """With zero action the trotting quadruped stands for an episode, without moving away, tumbling or shaking."""
    task = tasks.load("quadruped_trot", episode_length=200)
    run = jax.jit(rbd.batch_map(lambda key: unrolled(task, key, jnp.zeros(12))))
    states = run(jax.random.split(jax.random.key(0), 3))
    assert not states.terminated.any() and not states.code.any()
    late = states.state.v[:, 100:]
    assert np.abs(late).max() < 0.3
    assert states.metrics["velocity"].mean() < 0.6


@pytest.mark.slow
def test_lying_is_on_the_ground():
    """Episodes start with the lowest point touching the ground; the limp robot sinks no deeper than contact compliance allows."""
    task = tasks.load("quadruped_stand", episode_length=60)
    keys = jax.random.split(jax.random.key(0), 4)
    states = jax.jit(rbd.batch_map(lambda key: unrolled(task, key, jnp.zeros(12))))(keys)
    assert not states.code.any() and np.abs(states.state.v[:, -1]).max() < 1.0
    height = states.state.q[:, :, 2] - task.model.reference[2]
    assert (height < -0.02).all() and (height > -0.36).all()
    assert states.reward[:, -1].max() < 1.7


def test_pulling_towards_a_target():
    """The reward increases toward the target, with a finite gradient everywhere, also at the target."""
    from rbd_jax.tasks.reaching import closeness

    value = lambda x: sum(closeness(x * jnp.array([0.6, 0.8])).values())
    near = np.append(np.linspace(0, 1, 20), 1e-9)
    found, slopes = map(np.asarray, jax.jit(jax.vmap(jax.value_and_grad(value)))(near))
    assert (np.diff(found[:20]) < 0).all()
    assert slopes[0] == 0 and np.isfinite(slopes[20])
