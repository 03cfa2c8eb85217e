"""What is learned: a policy, which decides by what is observed."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .network import Network, Normalization


def as_row(observation: Any, dims: int = 1) -> Float[Array, "... n"]:
    """An observation, an array or a dict of arrays, as one row of numbers; `dims` is one more than the batch's."""
    leaves = jax.tree.leaves(observation)
    return jnp.concatenate([jnp.reshape(x, (*x.shape[: dims - 1], -1)) for x in leaves], axis=-1)


class Policy(eqx.Module):
    """Decides by what is observed: called with an observation, it says the action that it takes for the best.

    While it learns, actions are drawn around that one: before they are squashed they have a normal distribution of the same
    width everywhere.

    - `network`: from the normalized observation to the middle of the distribution.
    - `log_deviation`: the logarithm of its standard deviation, one number for each number of an action.
    - `normalization`: of observations.
    - `squashed`: whether actions are brought into [-1, 1] by the hyperbolic tangent; otherwise the task cuts off what is beyond.
    """

    network: Network
    log_deviation: Float[Array, "na"]
    normalization: Normalization
    squashed: bool = eqx.field(static=True)

    def __call__(self, observation: Any) -> Float[Array, "na"]:
        return self.drawn(as_row(observation), jnp.zeros_like(self.log_deviation))

    def drawn(self, observation: Float[Array, "*batch n"], noise: Float[Array, "*batch na"]):
        """The action for standard normal noise."""
        middle = self.network(self.normalization(observation))
        action = middle + jnp.broadcast_to(jnp.exp(self.log_deviation), noise.shape) * noise
        return jnp.tanh(action) if self.squashed else action
