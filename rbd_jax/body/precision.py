"""Convergence of a scheme, from three runs with halved steps."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def quotient_of_precision(
    coarse: Float[Array, "n *shape"], medium: Float[Array, "m *shape"], fine: Float[Array, "k *shape"]
) -> Float[Array, "n-1"]:
    """Returns `‖q_h - q_{h/2}‖ / ‖q_{h/2} - q_{h/4}‖` at every time of the coarse run except the first.

    The quotient tends to `2^p` for a scheme of order p (the "second quotient of precision" of Gebhardt & Romero 2020,
    app. A). It is meaningless if two runs agree to rounding, and 0/0 is NaN.

    Args:
      coarse: Equidistant samples of a run with step h, shape (n + 1, ...).
      medium: Samples with step h/2 over the same time span, shape (2n + 1, ...).
      fine: Samples with step h/4 over the same time span, shape (4n + 1, ...).

    >>> euler = lambda steps: jnp.concatenate([jnp.ones((1, 1)), jnp.cumprod(jnp.full((steps, 1), 1 - 1.0 / steps), axis=0)])
    >>> print(rbd.body.quotient_of_precision(euler(16), euler(32), euler(64))[-1].round(2))  # near 2: first order
    2.04
    """
    steps = coarse.shape[0] - 1
    if steps < 1 or medium.shape[0] != 2 * steps + 1 or fine.shape[0] != 4 * steps + 1:
        lengths = [run.shape[0] for run in (coarse, medium, fine)]
        raise ValueError(
            f"quotient_of_precision: the runs have {lengths} samples; with halved steps they are "
            "n + 1, 2n + 1 and 4n + 1"
        )
    runs = [run[stride::stride] for run, stride in ((coarse, 1), (medium, 2), (fine, 4))]
    first, second = (
        jnp.sqrt(jnp.sum((a - b).reshape(steps, -1) ** 2, axis=1))
        for a, b in zip(runs, runs[1:], strict=False)
    )
    return first / second
