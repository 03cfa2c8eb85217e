"""Batches of samples, and the compiler option they profit from."""

from .batch import batch_map as batch_map
from .simulation import (
    energies_along as energies_along,
    random_states as random_states,
    simulate_batch as simulate_batch,
)
from .xla import xla_note as xla_note
