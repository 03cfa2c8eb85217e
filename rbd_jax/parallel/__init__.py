"""Batches of samples, and the compiler option they profit from.

- `batch_map`: a function of one sample as a function of batches, in the form that is fastest here
- `specialize`: a function of one model, without the arithmetic that its numbers spare
- `simulate_batch`: many samples for a long time, some of the rows kept
- `random_states`: states near the neutral one
- `energies_along`: kinetic and potential energy along a batch's trajectory
- `xla_note`: what was done about the compiler option
"""

__all__ = [
    "batch_map",
    "specialize",
    "simulate_batch",
    "random_states",
    "energies_along",
    "xla_note",
]

from .batch import batch_map as batch_map
from .simulation import (
    energies_along as energies_along,
    random_states as random_states,
    simulate_batch as simulate_batch,
)
from .specialization import specialize as specialize
from .xla import xla_note as xla_note
