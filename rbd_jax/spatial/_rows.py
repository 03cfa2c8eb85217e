"""Operations that batches of transforms and of inertias share, spatial and planar."""

from __future__ import annotations

from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._core.array import gather, pick


R = TypeVar("R", bound="Rows")


class Rows(eqx.Module):
    """Arrays whose leading axes are the batch."""

    def __getitem__(self: R, index) -> R:
        """Selects from a batch."""
        return jax.tree.map(lambda x: pick(x, index), self)

    def gather(self: R, order: np.ndarray) -> R:
        """Returns the rows of a batch in a known order; -1 is the last row."""
        return jax.tree.map(lambda x: gather(x, order), self)

    def followed_by(self: R, *others: R) -> R:
        """Concatenates this batch and others."""
        return jax.tree.map(lambda *rows: jnp.concatenate(rows), self, *others)
