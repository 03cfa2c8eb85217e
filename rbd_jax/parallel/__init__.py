"""Batches of samples on one device, on all devices of a host, or on many hosts; and process settings that speed them up.

- `use_cores`: run batches on all cores of this machine
- `keep_memory`: keep the memory of large results for reuse
- `start`: connect the processes of a program that runs on several hosts
- `use_devices`: set the devices of all functions that map over batches
- `share`: the rows of a batch that belong to this process
- `global_batch`: one global batch from the rows of each process
- `gather`: the rows of all processes, in the memory of each
- `simulate_to_disk`: simulate a batch into files, for more than fits into memory
- `open_trajectory`: open the files of `simulate_to_disk`
- `StoredTrajectory`: a batch of trajectories in files
- `random_states`: random states near the neutral state
- `energies_along`: kinetic and potential energy along a batch's trajectory
- `xla_note`: reports what was done about the compiler option
"""

__all__ = [
    "use_cores",
    "keep_memory",
    "start",
    "use_devices",
    "share",
    "global_batch",
    "gather",
    "simulate_to_disk",
    "open_trajectory",
    "StoredTrajectory",
    "random_states",
    "energies_along",
    "xla_note",
]


from .._core.deprecation import at_the_top
from .batch import use_devices as use_devices
from .cores import use_cores as use_cores
from .memory import keep_memory as keep_memory
from .processes import gather as gather, global_batch as global_batch, share as share, start as start
from .simulation import energies_along as energies_along, random_states as random_states
from .stored import (
    StoredTrajectory as StoredTrajectory,
    open_trajectory as open_trajectory,
    simulate_to_disk as simulate_to_disk,
)
from .xla import xla_note as xla_note


#: Names that moved to the top of the library, `rbd_jax`.
__getattr__ = at_the_top(
    __name__,
    {
        "batch_map": ".batch",
        "explain": ".explanation",
        "shard": ".batch",
        "simulate_batch": ".simulation",
        "specialize": ".specialization",
    },
)
