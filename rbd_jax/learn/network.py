"""Small networks: what policies and critics are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray


class Network(eqx.Module):
    """A perceptron: `x -> y`, both vectors. Each hidden layer is linear, then an exponential linear unit, then normalized.

    - `weights`, `biases`: of its linear layers, from the first to the last.

    >>> network = rbd.learn.Network.drawn(jax.random.key(0), 3, (16,), 2, last=0.01, dtype=jnp.float64)
    >>> print(network(jnp.ones(3)).shape)
    (2,)
    """

    weights: tuple[Float[Array, "_ _"], ...]
    biases: tuple[Float[Array, "_"], ...]

    @staticmethod
    def drawn(
        key: PRNGKeyArray, inputs: int, widths: Sequence[int], outputs: int, last: float, dtype: Any
    ) -> Network:
        """One with orthogonal weights, of the length √2, and `last` in the last layer; biases are zero."""
        sizes = (inputs, *widths, outputs)
        lengths = (*(2.0**0.5 for _ in widths), last)
        keys = jax.random.split(key, len(lengths))
        weights = tuple(
            jax.nn.initializers.orthogonal(length)(key, (after, before), dtype)
            for key, before, after, length in zip(keys, sizes, sizes[1:], lengths)
        )
        return Network(weights, tuple(jnp.zeros(size, dtype) for size in sizes[1:]))

    def __call__(self, x: Float[Array, "... in"]) -> Float[Array, "... out"]:
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases)):
            if layer:
                x = jax.nn.elu(x)
                x = x - jnp.mean(x, axis=-1, keepdims=True)
                x = x * lax.rsqrt(jnp.mean(x**2, axis=-1, keepdims=True) + 1e-5)
            # All rows at once, as one product.
            x = jnp.matmul(x, weight.T) + jnp.broadcast_to(bias, (*x.shape[:-1], bias.size))
        return x


class Normalization(eqx.Module):
    """Mean and variance of all that was observed so far; called, it makes an observation one of mean zero and variance one.

    >>> seen = rbd.learn.Normalization.of_size(2, jnp.float64).with_more(jnp.array([[1.0, 10.0], [3.0, 30.0]]))
    >>> print(seen.mean, seen(jnp.array([2.0, 20.0])))
    [ 2. 20.] [0. 0.]
    """

    count: Float[Array, ""]
    mean: Float[Array, "n"]
    variance: Float[Array, "n"]

    @staticmethod
    def of_size(size: int, dtype: Any) -> Normalization:
        """Of nothing yet, which leaves observations as they are."""
        return Normalization(jnp.zeros((), dtype), jnp.zeros(size, dtype), jnp.ones(size, dtype))

    def __call__(self, x: Float[Array, "... n"]) -> Float[Array, "... n"]:
        spread = lambda y: jnp.broadcast_to(y, x.shape)
        return (x - spread(self.mean)) * spread(lax.rsqrt(self.variance + 1e-5))

    def with_more(self, x: Float[Array, "rows n"], among: str | None = None) -> Normalization:
        """After more rows were observed.

        - `among`: the axis of devices, if each of them has rows of its own.
        """
        rows = sum_over(among, jnp.asarray(len(x), x.dtype))
        mean = mean_over(among, jnp.mean(x, axis=0))
        variance = mean_over(among, jnp.mean((x - jnp.broadcast_to(mean, x.shape)) ** 2, axis=0))
        # Chan, Golub and LeVeque: the moments of two sets together.
        count = self.count + rows
        share, apart = rows / count, mean - self.mean
        return Normalization(
            count,
            self.mean + share * apart,
            self.variance + share * (variance - self.variance) + share * (1 - share) * apart**2,
        )


def mean_over(among: str | None, x: Any) -> Any:
    """The mean of what each of the devices along an axis has; itself, if there is no such axis."""
    return lax.pmean(x, among) if among else x


def sum_over(among: str | None, x: Any) -> Any:
    """The sum of it."""
    return lax.psum(x, among) if among else x
