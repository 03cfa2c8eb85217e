"""Batches of samples, on one device, the devices of a host, or those of many; and the settings of a process they profit from.

- `batch_map`: a function of one sample as a function of batches, in the form that is fastest here
- `explain`: which form that is, and why
- `shard`: the same over all devices of all processes
- `use_cores`: let batches run on all cores of this machine
- `keep_memory`: keep the memory of large results, and use it again
- `start`: connect the processes of a program that runs on several hosts
- `use_devices`: let all that maps over batches use these devices, or all there are
- `share`: this process's rows of a batch
- `global_batch`: one batch of the rows that each process has
- `gather`: the rows of all processes, in the memory of each
- `specialize`: a function of one model, without the arithmetic that its numbers spare
- `simulate_batch`: many samples for a long time, some of the rows kept
- `simulate_to_disk`: the same into files, for more than fits into memory
- `open_trajectory`: what that has made
- `StoredTrajectory`: a batch of trajectories in files
- `random_states`: states near the neutral one
- `energies_along`: kinetic and potential energy along a batch's trajectory
- `xla_note`: what was done about the compiler option
"""

__all__ = [
    "batch_map",
    "explain",
    "shard",
    "use_cores",
    "keep_memory",
    "start",
    "use_devices",
    "share",
    "global_batch",
    "gather",
    "specialize",
    "simulate_batch",
    "simulate_to_disk",
    "open_trajectory",
    "StoredTrajectory",
    "random_states",
    "energies_along",
    "xla_note",
]

from .batch import batch_map as batch_map, shard as shard, use_devices as use_devices
from .cores import use_cores as use_cores
from .explanation import explain as explain
from .memory import keep_memory as keep_memory
from .processes import gather as gather, global_batch as global_batch, share as share, start as start
from .simulation import (
    energies_along as energies_along,
    random_states as random_states,
    simulate_batch as simulate_batch,
)
from .specialization import specialize as specialize
from .stored import (
    StoredTrajectory as StoredTrajectory,
    open_trajectory as open_trajectory,
    simulate_to_disk as simulate_to_disk,
)
from .xla import xla_note as xla_note
