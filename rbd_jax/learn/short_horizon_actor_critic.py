"""Short-horizon actor-critic (Xu et al. 2022): a policy learned by gradients through the simulation.

The return of many episodes is differentiated through `horizon` steps of the simulation, the actions in them, and the critic's
value of the last state. The critic is fitted to the returns of the same steps, and the episodes continue from their current
states. The gradient is exact except for the critic, the chain of derivatives is too short to explode, and no step waits for an
episode to end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from .._core.arguments import number, whole_number
from ..tasks import TaskState
from ..tasks.task import Task
from ._episodes import Moment, advanced, begun, length_of
from .network import Network, Normalization, mean_over, sum_over
from .policy import Policy, as_row


class Learner(eqx.Module):
    """The complete state of training between two epochs, including the episodes.

    - `target`: The target critic, which follows the critic slowly and gives the values of states.
    - `actor_memory`, `critic_memory`: The states of the optimizers.
    - `returns`: The returns of the current episodes so far.

    >>> task = rbd.tasks.load("cartpole")
    >>> small = rbd.learn.ShortHorizonActorCritic(epochs=2, environments=4, horizon=4)
    >>> learner = rbd.learn.train(task, small, key=jax.random.key(0)).learner
    >>> print(learner.epoch, learner.episodes.steps)
    2 [8 8 8 8]
    """

    policy: Policy
    critic: Network
    target: Network
    actor_memory: Any
    critic_memory: Any
    episodes: TaskState
    returns: Float[Array, "n"]
    key: PRNGKeyArray
    epoch: Int[Array, ""]


@dataclass(frozen=True)
class ShortHorizonActorCritic:
    """A policy trained by gradients through `horizon` steps of the simulation, with a critic for the value of later steps.

    - `epochs`: The number of epochs, with one gradient step of the policy each.
    - `environments`: The number of simultaneous episodes.
    - `horizon`: The number of steps in an epoch, all of which are differentiated.
    - `discount`: The discount factor of rewards per step.
    - `trace`: λ of the TD(λ) returns that the critic is fitted to.
    - `actor_widths`, `critic_widths`: The widths of the hidden layers.
    - `actor_rate`, `critic_rate`: The learning rates in the first epoch. They fall linearly to the fraction `last_rate` in the
      last.
    - `critic_passes`, `critic_batches`: The number of passes of the critic over the steps of an epoch, and of batches per
      pass.
    - `following`: The fraction of the difference by which the target critic moves to the critic in an epoch.
    - `longest_gradient`: The length to which gradients are clipped.
    - `steepest`: The length to which derivatives of the return by state and action of one step are clipped, per sample.
    - `deviation`: The standard deviation of actions before squashing in the first epoch; it is then learned.
    - `squashed`: If True, the hyperbolic tangent maps actions into [-1, 1]; otherwise they are clipped.

    >>> small = rbd.learn.ShortHorizonActorCritic(epochs=100, environments=16, horizon=32, discount=0.98)
    >>> print(small.epochs, small.actor_widths)
    100 (64, 64)
    """

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
    following: float = 0.8
    longest_gradient: float = 1.0
    steepest: float = 1e4
    deviation: float = 0.5
    squashed: bool = True

    def __post_init__(self):
        owner = "ShortHorizonActorCritic"
        for name in ("epochs", "environments", "horizon", "critic_passes", "critic_batches"):
            whole_number(owner, name, getattr(self, name))
        for name in ("actor_widths", "critic_widths"):
            widths = getattr(self, name)
            if not isinstance(widths, tuple):
                raise ValueError(
                    f"{owner}: {name} is {widths!r}; it is a tuple of numbers, one for each hidden layer"
                )
            for width in widths:
                whole_number(owner, name, width)
        if self.critic_batches > self.environments * self.horizon:
            steps = self.environments * self.horizon
            raise ValueError(
                f"{owner}: critic_batches is {self.critic_batches}; an epoch has {steps} steps, and each batch takes one or more"
            )
        for name in ("actor_rate", "critic_rate", "longest_gradient", "steepest", "deviation", "following"):
            number(owner, name, getattr(self, name), above=0)
        for name in ("discount", "trace", "last_rate"):
            number(owner, name, getattr(self, name), least=0)
        for name in ("trace", "last_rate", "following"):
            number(owner, name, getattr(self, name), most=1)
        if self.discount >= 1:
            raise ValueError(
                f"{owner}: discount is {self.discount}; it is less than 1, so that returns are finite"
            )
        if not isinstance(self.squashed, bool):
            raise ValueError(f"{owner}: squashed is {self.squashed!r}; it is True or False")

    # The initial state, and an epoch.

    def begin(self, task: Task, key: PRNGKeyArray) -> Learner:
        """Returns the state before the first epoch."""
        key, of_actor, of_critic, of_episodes = jax.random.split(key, 4)
        episodes = begun(task, jax.random.split(of_episodes, self.environments))
        policy = Policy.drawn(task, of_actor, self.actor_widths, self.deviation, self.squashed)
        size, dtype = policy.observation_size, policy.log_deviation.dtype
        critic = Network.drawn(of_critic, size, self.critic_widths, 1, 1.0, dtype)
        learned: Any = _learned(policy)  # optax treats it as a dictionary
        judging: Any = critic
        memories = self._actor_optimizer.init(learned), self._critic_optimizer.init(judging)
        returns = jnp.zeros(self.environments, dtype)
        return Learner(policy, critic, critic, *memories, episodes, returns, key, jnp.int32(0))

    def epoch(
        self, task: Task, learner: Learner, among: str | None = None
    ) -> tuple[Learner, dict[str, Array]]:
        """Runs the next `horizon` steps of all episodes and updates policy and critic; returns the learner and statistics.

        Args:
          task: The task.
          learner: The state of training.
          among: The axis of the devices that share the episodes, under `jax.shard_map`: each has some of the episodes, and all
            make the same updates.
        """
        policy, dtype = learner.policy, learner.returns.dtype
        key, *keys = jax.random.split(learner.key, 3)
        if among:
            keys = [jax.random.fold_in(key, lax.axis_index(among)) for key in keys]
        of_noise, of_critic = keys
        noise = jax.random.normal(of_noise, (self.horizon, learner.returns.size, task.action_size), dtype)

        probe = jnp.zeros_like(learner.returns)
        loss = jax.grad(self._loss, argnums=(0, 1), has_aux=True)
        (gradient, dropped), seen = loss(_learned(policy), probe, task, learner, noise)
        episodes, observed, moments, values = seen
        gradient = mean_over(among, jax.tree.map(lambda x: x / moments.reward.size, gradient))
        learned, actor_memory, length = _descended(
            self._actor_optimizer, learner.actor_memory, _learned(policy), gradient
        )

        targets = returns_td(
            moments.reward, values, moments.terminated, moments.done, self.discount, self.trace
        )
        critic, critic_memory, error = self._fitted(learner, observed, targets, of_critic, among)
        target = jax.tree.map(lambda old, new: old + self.following * (new - old), learner.target, critic)

        normalization = policy.normalization.with_more(observed.reshape(-1, observed.shape[-1]), among)
        policy = eqx.tree_at(
            lambda one: (*_learned(one), one.normalization), policy, (*learned, normalization)
        )
        returns, total = _ended(learner.returns, moments)
        sums = sum_over(
            among,
            {
                "return": total,
                "episodes": jnp.sum(moments.done),
                "terminated": jnp.sum(moments.terminated),
                "dropped": jnp.sum(dropped),
                "lost": jnp.sum(moments.lost),
            },
        )
        told = sums | {
            "return": sums["return"] / sums["episodes"].astype(dtype),
            "reward": mean_over(among, jnp.mean(moments.reward)),
            "value": mean_over(among, jnp.mean(values)),
            "error": error,
            "gradient": length,
            "deviation": jnp.mean(jnp.exp(policy.log_deviation)),
        }
        memories = actor_memory, critic_memory
        epochs = learner.epoch + 1
        return Learner(policy, critic, target, *memories, episodes, returns, key, epochs), told

    # The actor.

    def _loss(self, learned, probe, task: Task, learner: Learner, noise):
        """Returns minus the sum of the returns, and the observations and outcomes of the steps."""
        policy = eqx.tree_at(_learned, learner.policy, learned)

        def act(episodes, noise):
            observed = as_row(episodes.observation, 2)
            episodes, moment = advanced(
                task, episodes, policy.explored(observed, noise), probe, self.steepest
            )
            return episodes, (observed, moment)

        episodes, (observed, moments) = lax.scan(act, learner.episodes, noise)
        values = self._values(learner.target, policy.normalization, moments.reached)
        last = jnp.broadcast_to((jnp.arange(self.horizon) == self.horizon - 1)[:, None], moments.lost.shape)
        # If an episode continues beyond these steps, the critic gives the value of the rest; a terminated episode has no
        # further value.
        beyond = (moments.done | last) & ~moments.terminated
        gained = moments.reward + jnp.where(beyond, self.discount * values, 0)
        weight = weights(moments.done, self.discount, values.dtype)
        return -jnp.sum(weight * gained), (episodes, observed, moments, values)

    # The critic.

    def _values(self, critic: Network, normalization: Normalization, observed) -> Float[Array, "..."]:
        """Returns the values of observations. The output of the critic itself has the magnitude of a reward."""
        return critic(normalization(observed))[..., 0] / (1 - self.discount)

    def _fitted(
        self, learner: Learner, observed, targets, key, among
    ) -> tuple[Network, Any, Float[Array, ""]]:
        """Returns the critic after fitting it to the targets in the mean square."""
        rows, size = targets.size, targets.size // self.critic_batches
        observed = learner.policy.normalization(observed.reshape(rows, -1))
        targets = (1 - self.discount) * targets.reshape(rows)

        def error(critic, batch):
            return jnp.mean((critic(observed[batch])[:, 0] - targets[batch]) ** 2)

        def step(carry, batch):
            critic, memory = carry
            value, gradient = jax.value_and_grad(error)(critic, batch)
            value, gradient = mean_over(among, (value, gradient))
            critic, memory, _ = _descended(self._critic_optimizer, memory, critic, gradient)
            return (critic, memory), value

        keys = jax.random.split(key, self.critic_passes)
        order = jax.vmap(lambda key: jax.random.permutation(key, rows))(keys)
        batches = order[:, : size * self.critic_batches].reshape(-1, size)
        (critic, memory), errors = lax.scan(step, (learner.critic, learner.critic_memory), batches)
        return critic, memory, jnp.mean(errors[-self.critic_batches :])

    # The optimizers.

    @property
    def _actor_optimizer(self):
        return self._optimizer(self.actor_rate, self.epochs)

    @property
    def _critic_optimizer(self):
        return self._optimizer(self.critic_rate, self.epochs * self.critic_passes * self.critic_batches)

    def _optimizer(self, rate: float, steps: int):
        optax = _optax()
        falling = optax.linear_schedule(rate, self.last_rate * rate, steps)
        return optax.chain(
            optax.clip_by_global_norm(self.longest_gradient), optax.adam(falling, b1=0.7, b2=0.95)
        )


def weights(done: Bool[Array, "steps n"], discount: float, dtype: Any) -> Float[Array, "steps n"]:
    """Returns the weight of each step in the return of its episode: `discountᵏ`, k steps after its first step here."""

    def following(weight, over):
        return jnp.where(over, 1, discount * weight), weight

    return lax.scan(following, jnp.ones(done.shape[1:], dtype), done)[1]


def returns_td(
    reward: Float[Array, "steps n"],
    values: Float[Array, "steps n"],
    terminated: Bool[Array, "steps n"],
    done: Bool[Array, "steps n"],
    discount: float,
    trace: float,
) -> Float[Array, "steps n"]:
    """Returns the TD(λ) returns: weighted means of observed rewards and estimated values.

        G_t = r_t + γ ((1 - λ) V_{t+1} + λ G_{t+1}),

    with only `V_{t+1}` at the last step and where an episode was truncated, and zero where it has terminated.

    Args:
      reward: The reward of each step.
      values: The value of the state after each step.
      terminated: True if the episode terminated with the step.
      done: True if the episode ended with the step.
      discount: γ.
      trace: λ.
    """

    def earlier(following, step):
        reward, value, terminated, done = step
        later = jnp.where(done, value, (1 - trace) * value + trace * following)
        now = reward + discount * jnp.where(terminated, 0, later)
        return now, now

    return lax.scan(earlier, values[-1], (reward, values, terminated, done), reverse=True)[1]


def _ended(returns: Float[Array, "n"], moments: Moment) -> tuple[Float[Array, "n"], Float[Array, ""]]:
    """Returns the returns of the episodes that continue, and the sum of the returns of those that have ended."""

    def add(carry, moment):
        total = carry + moment.reward
        return jnp.where(moment.done, 0, total), jnp.where(moment.done, total, 0)

    returns, ended = lax.scan(add, returns, moments)
    return returns, jnp.sum(ended)


def _learned(policy: Policy) -> tuple[Any, Any]:
    """Returns the trainable parts of a policy: its network and the deviation of its actions."""
    return policy.network, policy.log_deviation


def _descended(optimizer: Any, memory: Any, numbers: Any, gradient: Any) -> tuple[Any, Any, Float[Array, ""]]:
    """Returns the parameters and the optimizer state after one step, and the length of the gradient."""
    optax = _optax()
    with jax.numpy_dtype_promotion("standard"):  # optax relies on it
        updates, memory = optimizer.update(gradient, memory, numbers)
    return optax.apply_updates(numbers, updates), memory, length_of(gradient)


def _optax() -> Any:
    try:
        import optax
    except ImportError:
        raise ImportError(
            "learn.train descends by optax, which is not installed: pip install 'rbd_jax[learn]'"
        ) from None
    return optax
