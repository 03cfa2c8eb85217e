"""Short-horizon actor-critic (Xu et al. 2022): a policy learned by gradients through the simulation.

The return of many episodes is differentiated through `horizon` steps of the simulation, the actions in it, and the value that a
critic sees at the end. The critic is fitted to the returns of the same steps, and the episodes go on from where they are. So the
gradient is exact but for the critic, its chain of derivatives is short enough not to explode, and no episode has to end before
something is learned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ..parallel import batch_map
from ..tasks import Task, TaskState
from .network import Network, Normalization
from .policy import Policy, as_row


@dataclass(frozen=True)
class ShortHorizonActorCritic:
    """How to learn."""

    epochs: int = 500
    environments: int = 64
    horizon: int = 32
    discount: float = 0.99
    trace: float = 0.95
    actor_widths: tuple[int, ...] = (64, 64)
    critic_widths: tuple[int, ...] = (64, 64)
    actor_rate: float = 2e-3
    critic_rate: float = 2e-3
    last_rate: float = 0.01
    critic_passes: int = 8
    critic_batches: int = 4
    target_rate: float = 0.8
    longest_gradient: float = 1.0
    deviation: float = 0.37
    squashed: bool = True


class Learner(eqx.Module):
    """All that is learned, and where the episodes are, between two epochs."""

    policy: Policy
    critic: Network
    target: Network
    actor_memory: Any
    critic_memory: Any
    episodes: TaskState
    returns: Float[Array, "n"]
    key: PRNGKeyArray
    epoch: Int[Array, ""]


class Steps(NamedTuple):
    """Steps of all episodes, in time and then by episode."""

    observed: Float[Array, "steps n size"]
    reward: Float[Array, "steps n"]
    terminated: Any
    done: Any
    reached: Float[Array, "steps n size"]
    lost: Any


# Returns.


def weights(done, discount: float):
    """What a reward counts for in the return of the episode that it is in, and of which the first step seen counts 1."""

    def next_one(weight, over):
        return jnp.where(over, jnp.ones_like(weight), discount * weight), weight

    return lax.scan(next_one, jnp.ones(done.shape[1:], jnp.float32), done)[1]


def td_lambda(reward, values, terminated, done, discount: float, trace: float):
    """TD(λ)."""

    def earlier(following, step):
        reward, value, terminated, over = step
        later = jnp.where(over, value, (1 - trace) * value + trace * following)
        now = reward + discount * jnp.where(terminated, jnp.zeros_like(later), later)
        return now, now

    return lax.scan(earlier, values[-1], (reward, values, terminated, done), reverse=True)[1]


@jax.custom_vjp
def guarded(numbers, probe):
    return numbers


def _fwd(numbers, probe):
    return numbers, None


def _bwd(_, cotangents):
    sizes = [jnp.sum(jnp.reshape(x, (len(x), -1)), axis=1) for x in jax.tree.leaves(cotangents)]
    bad = ~jnp.isfinite(sum(sizes))
    masked = jax.tree.map(
        lambda x: jnp.where(jnp.reshape(bad, (-1,) + (1,) * (x.ndim - 1)), jnp.zeros_like(x), x), cotangents
    )
    return masked, bad.astype(sizes[0].dtype)


guarded.defvjp(_fwd, _bwd)


def advance(task: Task, episodes: TaskState, actions, probe):
    numbers, rest = eqx.partition(episodes, eqx.is_inexact_array)
    numbers, actions = guarded((numbers, actions), probe)

    @jax.checkpoint
    def one(state, action):
        new = task.step_and_reset(state, action)
        told = new.reward, new.observation, new.final_observation, new.state.q, new.state.v
        fine = jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(told)]))

        def begun(new):
            fresh = task.reset(jax.random.fold_in(state.key, state.steps))
            return eqx.tree_at(lambda s: s.terminated, fresh, jnp.asarray(True))

        return lax.cond(fine, lambda new: new, begun, new), ~fine

    return batch_map(one)(eqx.combine(numbers, rest), actions)


def objective(policy_numbers, probe, policy_rest, task, config, learner, noise):
    """Minus the mean return a step."""
    policy = eqx.combine(policy_numbers, policy_rest)

    def act(episodes, noise):
        observed = as_row(episodes.observation, 2)
        new, lost = advance(task, episodes, policy.drawn(observed, noise), probe)
        return new, Steps(
            observed, new.reward, new.terminated, new.done, as_row(new.final_observation, 2), lost
        )

    episodes, steps = lax.scan(act, learner.episodes, noise)
    values = value(learner.target, policy.normalization, steps.reached, config)
    weight = weights(steps.done, config.discount).astype(values.dtype)
    last = (jnp.arange(config.horizon) == config.horizon - 1)[:, None]
    ends = (steps.done | last) & ~steps.terminated
    total = weight * (steps.reward + jnp.where(ends, config.discount * values, jnp.zeros_like(values)))
    return -jnp.sum(total) / total.size, (episodes, steps, values)


def value(critic: Network, normalization: Normalization, observed, config):
    return critic(normalization(observed))[..., 0] / (1 - config.discount)


def descended(optimizer, thing, memory, gradient):
    with jax.numpy_dtype_promotion("standard"):  # optax relies on it
        updates, memory = optimizer.update(gradient, memory, thing)
    return eqx.apply_updates(thing, updates), memory


def fitted(critic, memory, optimizer, normalization, observed, targets, key, config):
    observed = normalization(observed.reshape(-1, observed.shape[-1]))
    targets = (1 - config.discount) * targets.reshape(-1)
    rows = len(targets)
    size = rows // config.critic_batches

    def error(critic, batch):
        observed, target = batch
        return jnp.mean((critic(observed)[:, 0] - target) ** 2)

    def turn(carry, rows):
        critic, memory = carry
        loss, gradient = jax.value_and_grad(error)(critic, (observed[rows], targets[rows]))
        return descended(optimizer, critic, memory, gradient), loss

    keys = jax.random.split(key, config.critic_passes)
    order = jax.vmap(lambda key: jax.random.permutation(key, rows))(keys)
    batches = order[:, : size * config.critic_batches].reshape(-1, size)
    (critic, memory), losses = lax.scan(turn, (critic, memory), batches)
    return critic, memory, losses[-config.critic_batches :].mean()


def optimizers(config):
    import optax

    def one(rate, count):
        schedule = optax.linear_schedule(rate, config.last_rate * rate, count)
        return optax.chain(
            optax.clip_by_global_norm(config.longest_gradient), optax.adam(schedule, b1=0.7, b2=0.95)
        )

    return one(config.actor_rate, config.epochs), one(
        config.critic_rate, config.epochs * config.critic_passes * config.critic_batches
    )


def trained_part(policy):
    spec = jax.tree.map(lambda x: True, policy)
    return eqx.tree_at(lambda p: p.normalization, spec, jax.tree.map(lambda x: False, policy.normalization))


def begin(task: Task, config, key) -> Learner:
    key, actor_key, critic_key, episode_key = jax.random.split(key, 4)
    episodes = batch_map(task.reset)(jax.random.split(episode_key, config.environments))
    observed = as_row(episodes.observation, 2)
    size, dtype = observed.shape[-1], observed.dtype
    policy = Policy(
        Network.drawn(actor_key, size, config.actor_widths, task.action_size, 0.01, dtype),
        jnp.full(task.action_size, jnp.log(config.deviation), dtype),
        Normalization.of_size(size, dtype),
        config.squashed,
    )
    critic = Network.drawn(critic_key, size, config.critic_widths, 1, 1.0, dtype)
    actor, critical = optimizers(config)
    return Learner(
        policy,
        critic,
        critic,
        actor.init(eqx.filter(policy, trained_part(policy))),
        critical.init(critic),
        episodes,
        jnp.zeros(config.environments, dtype),
        key,
        jnp.int32(0),
    )


def epoch(task: Task, config, learner: Learner):
    actor, critical = optimizers(config)
    key, noise_key, fit_key = jax.random.split(learner.key, 3)
    policy = learner.policy
    dtype = policy.log_deviation.dtype
    noise = jax.random.normal(noise_key, (config.horizon, config.environments, task.action_size), dtype)
    numbers, rest = eqx.partition(policy, trained_part(policy))
    probe = jnp.zeros(config.environments, dtype)
    (loss, (episodes, steps, values)), (gradient, dropped) = jax.value_and_grad(
        objective, argnums=(0, 1), has_aux=True
    )(numbers, probe, rest, task, config, learner, noise)
    import optax

    norm = optax.global_norm(gradient)
    numbers, actor_memory = descended(actor, numbers, learner.actor_memory, gradient)
    targets = td_lambda(steps.reward, values, steps.terminated, steps.done, config.discount, config.trace)
    critic, critic_memory, error = fitted(
        learner.critic,
        learner.critic_memory,
        critical,
        policy.normalization,
        steps.observed,
        targets,
        fit_key,
        config,
    )
    target = jax.tree.map(lambda old, new: old + config.target_rate * (new - old), learner.target, critic)
    new = eqx.combine(numbers, rest)
    new = eqx.tree_at(
        lambda p: p.normalization,
        new,
        policy.normalization.with_more(steps.observed.reshape(-1, steps.observed.shape[-1])),
    )

    def count(carry, step):
        reward, done = step
        total = carry + reward
        return jnp.where(done, jnp.zeros_like(total), total), jnp.where(done, total, jnp.zeros_like(total))

    returns, ended = lax.scan(count, learner.returns, (steps.reward, steps.done))
    episodes_ended = jnp.sum(steps.done)
    told = {
        "reward": jnp.mean(steps.reward),
        "return": jnp.sum(ended) / episodes_ended.astype(dtype),
        "episodes": episodes_ended,
        "terminated": jnp.sum(steps.terminated),
        "gradient": norm,
        "error": error,
        "value": jnp.mean(values),
        "deviation": jnp.mean(jnp.exp(policy.log_deviation)),
        "dropped": jnp.sum(dropped),
        "lost": jnp.sum(steps.lost),
    }
    return (
        Learner(new, critic, target, actor_memory, critic_memory, episodes, returns, key, learner.epoch + 1),
        told,
    )
