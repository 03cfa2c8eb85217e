"""Several processes, on one host or many: connecting them, splitting batches among them, and collecting results.

JAX runs the same program in every process. A batch is local (the same in each process), shared (each process has some
of the rows), or global (one array whose rows are on the devices of all processes). `share`, `global_batch` and `gather`
convert between these.
"""

from __future__ import annotations

import os
import socket
import time
import zlib
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding, PartitionSpec

from .batch import all_devices, is_global, is_key, numbers_of, told_by_all, warn_if_not_connected
from .xla import backend_in_use


T = TypeVar("T")

OWNER = "parallel.start"


def start(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    *,
    initialization_timeout: int = 300,
    cluster_detection_method: str | None = None,
    **options: Any,
) -> None:
    """Connects the processes of a program: `jax.distributed.initialize`, with more informative errors.

    Call it before anything else of JAX. Under Slurm, Open MPI, Kubernetes (with the package `kubernetes`) and on TPUs JAX
    detects all settings. Otherwise pass the same address and number to all processes, and a different `process_id` to each.
    Afterwards `jax.devices()` are those of all processes, `jax.local_devices()` those of this process, and `rbd.shard` uses
    all.

    A second call has no effect. Neither has a call with `num_processes=1`, so a script that takes the number from its command
    line also runs alone.

    Args:
      coordinator_address: `"host:port"` of process 0, as the others reach it, with any free port; or set
      `JAX_COORDINATOR_ADDRESS`.
      num_processes: The number of processes.
      process_id: The index of this process, from 0.
      initialization_timeout: The time to wait for the others, in s.
      cluster_detection_method: `"mpi4py"` for other types of MPI; `"deactivate"` for no detection.
      options: Other options of `jax.distributed.initialize`, such as `local_device_ids`.

    Raises:
      ValueError: The processes to connect are not known.
      RuntimeError: JAX was used before.
      ConnectionError: Process 0 cannot be reached. If other processes do not connect, JAX ends process 0 itself, with
        `DEADLINE_EXCEEDED`.

    >>> rbd.parallel.start(num_processes=1)
    >>> jax.process_count()
    1
    """
    if num_processes == 1 and process_id in (None, 0):
        return
    if jax.distributed.is_initialized():
        _refuse_another(num_processes, process_id)
        return
    if backend_in_use():
        raise RuntimeError(
            f"{OWNER}: JAX is in use already, and finds its devices only once; call this right after the imports, before an "
            "array or a model is made, or devices are queried"
        )
    address = coordinator_address or os.environ.get("JAX_COORDINATOR_ADDRESS")
    found = _detected(address, num_processes, process_id, cluster_detection_method, initialization_timeout)
    address, count, place = _complete(*found)
    host, port = _address(address)
    if place == 0:
        _refuse_taken(port, options.get("coordinator_bind_address"))
    else:
        _wait_for(host, port, f"process {place} of {count}", initialization_timeout)
    if not jax.config.jax_cpu_collectives_implementation:  # pyright: ignore[reportAttributeAccessIssue]
        # CPUs of several processes communicate through it; GPUs and TPUs have their own way.
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(
        address,
        count,
        place,
        cluster_detection_method=cluster_detection_method,
        initialization_timeout=initialization_timeout,
        **options,
    )


def _refuse_another(num_processes, process_id) -> None:
    """Raises an error for a second start with other arguments."""
    are = {"num_processes": jax.process_count(), "process_id": jax.process_index()}
    for name, given in (("num_processes", num_processes), ("process_id", process_id)):
        if given is not None and given != are[name]:
            raise ValueError(
                f"{OWNER}: {name} is {given}, and processes are connected already, with {name} {are[name]}; start once"
            )


def _detected(address, count, place, method: str | None, timeout: int):
    """Returns address, number and index of processes, with JAX's cluster detection for missing values.

    JAX itself detects them when it connects, and ends the process on failure. It has no public function to detect them before.
    """
    if method == "deactivate" or None not in (address, count, place):
        return address, count, place
    try:
        from jax._src.clusters import ClusterEnv
    except ImportError:
        return address, count, place
    found = ClusterEnv.auto_detect_unset_distributed_params(address, count, place, None, method, timeout)
    return found[:3]


def _complete(address, count, place) -> tuple[str, int, int]:
    """Returns all three values after checking that they are given and valid."""
    told = {"coordinator_address": address, "num_processes": count, "process_id": place}
    missing = [name for name, value in told.items() if value is None]
    if missing:
        raise ValueError(
            f"{OWNER}: nothing says {' and '.join(missing)}, and no cluster was found (Slurm, Open MPI, TPU, or Kubernetes with "
            "the package `kubernetes`); give coordinator_address='host:port' of process 0, num_processes, and process_id, or "
            "num_processes=1 for a process alone"
        )
    if not (isinstance(count, int) and isinstance(place, int) and 0 <= place < count):
        raise ValueError(
            f"{OWNER}: process_id is {place!r}, and num_processes {count!r}; processes count from 0 to num_processes - 1, and "
            "each has its own"
        )
    return address, count, place


def _address(given: str) -> tuple[str, int]:
    host, colon, port = str(given).rpartition(":")
    if not (colon and host and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(
            f"{OWNER}: coordinator_address is {given!r}; it is the host of process 0 and a free port, as 'node1:1234'"
        )
    return host.strip("[]"), int(port)


def _refuse_taken(port: int, bind: str | None) -> None:
    """Raises an error for a port in use, because JAX would end the process."""
    host, port = ("", port) if bind is None else _address(bind)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ConnectionError(
                f"{OWNER}: process 0 cannot listen on port {port} of this host ({error.strerror}); choose another one for "
                "coordinator_address, the same for all processes"
            ) from None


def _wait_for(host: str, port: int, who: str, timeout: float) -> None:
    """Waits until process 0 listens, because JAX would end this process on a timeout."""
    end = time.monotonic() + timeout
    while True:
        try:
            with socket.create_connection((host, port), timeout=max(end - time.monotonic(), 0.1)):
                return
        except OSError as error:
            reason = error
        if time.monotonic() >= end:
            raise ConnectionError(
                f"{OWNER}: {who} does not reach process 0 at {host}:{port} within {timeout:g} s ({reason}); is process 0 "
                "running, is this its address as seen from here, and do firewalls let the port through?"
            )
        time.sleep(0.2)


def share(batch: T) -> T:
    """Returns this process's rows of a batch: a slice of local arrays, or the rows of global arrays on its devices.

    Shares have about the same length and are in the order of the processes; a single process has the complete batch. Random
    numbers do not depend on the number of processes if keys are split first and then shared:

    >>> keys = rbd.parallel.share(jax.random.split(jax.random.key(0), 6))
    >>> noise = rbd.batch_map(lambda key: jax.random.normal(key, (3,)))(keys)
    >>> noise.shape  # with two processes (3, 3) in each
    (6, 3)
    """
    warn_if_not_connected("parallel.share")
    count, index = jax.process_count(), jax.process_index()

    def one(x):
        size = _length("parallel.share", x)
        if is_global(x) and not x.is_fully_replicated:
            return _here(x)
        x = x.addressable_data(0) if is_global(x) else x
        return x[index * size // count : (index + 1) * size // count]

    return jax.tree.map(one, batch)


def _here(x: jax.Array):
    """Returns the rows of a global array that are on devices of this process."""
    if is_key(x):
        return jax.random.wrap_key_data(_here(jax.random.key_data(x)), impl=jax.random.key_impl(x))
    shards = {one.index[0].start or 0: one for one in x.addressable_shards}
    if any(one.data.shape[1:] != x.shape[1:] for one in shards.values()):
        raise ValueError(
            f"parallel.share: an array of shape {x.shape} is split by {x.sharding}, and not by its rows alone"
        )
    return jnp.asarray(np.concatenate([np.asarray(shards[start].data) for start in sorted(shards)]))


def global_batch(rows: T) -> T:
    """Returns one batch of global arrays from the rows of each process, in the order of the processes.

    The rows are on the devices of their process, and `rbd.shard` computes there. Every process must have the same number of
    rows, divisible by its number of devices. It is `jax.make_array_from_process_local_data` for the devices that `shard` uses.

    >>> q = rbd.parallel.global_batch(np.zeros((4, 2)))
    >>> q.shape  # with two processes (8, 2)
    (4, 2)
    """
    owner = "parallel.global_batch"
    mesh = all_devices(owner)
    split = NamedSharding(mesh, PartitionSpec(mesh.axis_names))
    told = _lengths_told(owner, jax.tree.leaves(rows))
    if (told != told[:1, :1]).any() or told[:, 0].sum() % mesh.size:
        raise ValueError(
            f"{owner}: {_in_words(told)} rows, for {mesh.size} devices; all arrays in all processes have as many, and as many "
            "for each device. A batch that does not go evenly can be given to rbd.shard, whole in every process"
        )
    return jax.tree.map(lambda x: jax.make_array_from_process_local_data(split, x), rows)


def gather(batch: T) -> T:
    """Returns the rows of all processes as NumPy arrays, from a global batch or from the rows of each process.

    Each process gets all rows. Local arrays may have different numbers of rows in different processes. All processes must call
    this together.

    >>> doubled = rbd.shard(lambda x: 2 * x)(jnp.arange(3.0))
    >>> print(rbd.parallel.gather(doubled))
    [0. 2. 4.]
    """
    leaves, structure = jax.tree.flatten(batch)
    told = iter(_lengths_told("parallel.gather", [x for x in leaves if not is_global(x)]).T)

    def one(x):
        if is_key(x):
            found = one_of_numbers(jax.random.key_data(x))
            return jax.random.wrap_key_data(jnp.asarray(found), impl=jax.random.key_impl(x))
        return one_of_numbers(x)

    def one_of_numbers(x):
        if is_global(x):
            return multihost_utils.process_allgather(x, tiled=True)
        return _joined(np.asarray(x), next(told))

    return jax.tree.unflatten(structure, [one(x) for x in leaves])


def _joined(rows: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Joins the rows of all processes, given their numbers. Rows are sent as bytes, since JAX may lack their precision."""
    if len(lengths) == 1:
        return rows
    row = rows.dtype.itemsize * int(np.prod(rows.shape[1:]))
    filled = np.zeros((int(lengths.max()), row), np.uint8)
    filled[: len(rows)] = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), row)
    found = np.asarray(multihost_utils.process_allgather(filled)).reshape(len(lengths), -1, row)
    found = np.concatenate([part[:length] for part, length in zip(found, lengths)])
    return np.ascontiguousarray(found).view(rows.dtype).reshape(-1, *rows.shape[1:])


def _length(owner: str, x) -> int:
    shape = jnp.shape(x)
    if not shape:
        raise ValueError(f"{owner}: a number has no rows; arrays have a leading axis of samples")
    return shape[0]


def _lengths_told(owner: str, arrays: list) -> np.ndarray:
    """Returns the number of rows of each array in each process, (processes, arrays), after comparing their shapes and types."""
    warn_if_not_connected(owner)
    lengths = [_length(owner, x) for x in arrays]
    if not arrays or jax.process_count() == 1:
        return np.array([lengths])
    plain = [numbers_of(x) for x in arrays]
    kind = zlib.crc32(repr([(x.shape[1:], x.dtype.str) for x in plain]).encode())
    found = told_by_all(kind, *lengths)
    if (found[:, 0] != kind).any():
        raise ValueError(f"{owner}: the rows are of other shapes or dtypes in some processes than in others")
    return found[:, 1:].astype(int)


def _in_words(told: np.ndarray) -> str:
    """Describes the numbers of rows of the processes in words."""
    rows = [str(row[0]) if (row == row[0]).all() else str(row.tolist()) for row in told]
    return (
        f"there are {rows[0]}" if len(rows) == 1 else f"processes 0 to {len(rows) - 1} have {', '.join(rows)}"
    )
