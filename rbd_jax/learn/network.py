"""Small networks for policies and critics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray


class Network(eqx.Module):
    """A multilayer perceptron: `x -> y`, both vectors. Each hidden layer is linear, then ELU, then layer normalization.

    - `layers`: The linear layers, from the first to the last.

    >>> network = rbd.learn.Network.drawn(jax.random.key(0), 3, (16,), 2, last=0.01, dtype=jnp.float64)
    >>> print(network(jnp.ones(3)).shape)
    (2,)
    """

    layers: tuple[eqx.nn.Linear, ...]

    @staticmethod
    def drawn(
        key: PRNGKeyArray, inputs: int, widths: Sequence[int], outputs: int, last: float, dtype: Any
    ) -> Network:
        """Returns a network with orthogonal weights of gain √2, gain `last` in the last layer, and zero biases."""
        sizes = (inputs, *widths, outputs)
        lengths = (*(2.0**0.5 for _ in widths), last)
        keys = jax.random.split(key, len(lengths))

        weights = [
            jax.nn.initializers.orthogonal(length)(key, (after, before), dtype)
            for key, before, after, length in zip(keys, sizes, sizes[1:], lengths)
        ]
        return Network.of(weights, [jnp.zeros(size, dtype) for size in sizes[1:]])

    @staticmethod
    def of(weights: Sequence[Float[Array, "_ _"]], biases: Sequence[Float[Array, "_"]]) -> Network:
        """Returns a network with these parameters, from the first layer to the last."""

        def layer(weight, bias):
            empty = eqx.filter_eval_shape(eqx.nn.Linear, *weight.shape[::-1], key=jax.random.key(0))
            return eqx.tree_at(lambda one: (one.weight, one.bias), empty, (weight, bias))

        return Network(tuple(map(layer, weights, biases)))

    @property
    def weights(self) -> tuple[Float[Array, "_ _"], ...]:
        """The weight matrices, from the first layer to the last."""
        return tuple(layer.weight for layer in self.layers)

    @property
    def biases(self) -> tuple[Float[Array, "_"], ...]:
        """The bias vectors, from the first layer to the last."""
        return tuple(layer.bias for layer in self.layers if layer.bias is not None)

    def __call__(self, x: Float[Array, "... in"]) -> Float[Array, "... out"]:
        if x.ndim > 1:
            return jax.vmap(self)(x)
        first, *others = self.layers
        x = first(x)
        for layer in others:
            x = jax.nn.elu(x)
            x = layer(eqx.nn.LayerNorm(x.shape, use_weight=False, use_bias=False)(x))
        return x


class Normalization(eqx.Module):
    """Mean and variance of all observations so far; calling it normalizes an observation to mean zero and variance one.

    >>> seen = rbd.learn.Normalization.of_size(2, jnp.float64).with_more(jnp.array([[1.0, 10.0], [3.0, 30.0]]))
    >>> print(seen.mean, seen(jnp.array([2.0, 20.0])))
    [ 2. 20.] [0. 0.]
    """

    count: Float[Array, ""]
    mean: Float[Array, "n"]
    variance: Float[Array, "n"]

    @staticmethod
    def of_size(size: int, dtype: Any) -> Normalization:
        """Returns the normalization before any observation, which leaves observations unchanged."""
        return Normalization(jnp.zeros((), dtype), jnp.zeros(size, dtype), jnp.ones(size, dtype))

    def __call__(self, x: Float[Array, "... n"]) -> Float[Array, "... n"]:
        spread = lambda y: jnp.broadcast_to(y, x.shape)
        return (x - spread(self.mean)) * spread(lax.rsqrt(self.variance + 1e-5))

    def with_more(self, x: Float[Array, "rows n"], among: str | None = None) -> Normalization:
        """Returns the normalization after more observations.

        Args:
          x: The observations, one per row.
          among: The axis of devices, if each of them has rows of its own.
        """
        rows = sum_over(among, jnp.asarray(len(x), x.dtype))
        mean = mean_over(among, jnp.mean(x, axis=0))
        variance = mean_over(among, jnp.mean((x - jnp.broadcast_to(mean, x.shape)) ** 2, axis=0))
        # Chan, Golub and LeVeque: the combined moments of two sets.
        count = self.count + rows
        share, apart = rows / count, mean - self.mean
        return Normalization(
            count,
            self.mean + share * apart,
            self.variance + share * (variance - self.variance) + share * (1 - share) * apart**2,
        )


def mean_over(among: str | None, x: Any) -> Any:
    """Returns the mean of a value over the devices along an axis; the value itself without such an axis."""
    return lax.pmean(x, among) if among else x


def sum_over(among: str | None, x: Any) -> Any:
    """Returns the sum of a value over the devices along an axis; the value itself without such an axis."""
    return lax.psum(x, among) if among else x
