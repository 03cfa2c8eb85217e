"""What is done alike with batches of transforms and of inertias, of space and of a plane."""

from __future__ import annotations

from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._core.array import gather, pick


R = TypeVar("R", bound="Rows")


class Rows(eqx.Module):
    """Arrays that have the batch as their leading axes."""

    def __getitem__(self: R, index) -> R:
        """Select from a batch."""
        return jax.tree.map(lambda x: pick(x, index), self)

    def gather(self: R, order: np.ndarray) -> R:
        """Those of a batch, in a known order; -1 is the last."""
        return jax.tree.map(lambda x: gather(x, order), self)

    def followed_by(self: R, *others: R) -> R:
        """This batch and others in one."""
        return jax.tree.map(lambda *rows: jnp.concatenate(rows), self, *others)
