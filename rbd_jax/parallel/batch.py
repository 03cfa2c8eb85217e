"""Functions of one sample mapped over batches, in the fastest form, on the devices of one process or of all.

`batch_map` and `shard` split a batch the same way. Every device gets the same number of samples, which run sequentially on a
CPU and vectorized elsewhere, and a complete copy of the shared arguments. Devices do not communicate while the samples run. A
derivative by a shared argument is summed over them once, at the end.
"""

from __future__ import annotations

import functools
import os
import warnings
import zlib
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer
from jax.experimental import multihost_utils
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from .._core.arguments import instance
from .._core.deprecation import deprecated
from .._core.devices import in_use, set_devices
from .._core.jit import is_number
from .fastest import in_fastest_form, why_no_kernels


#: The default name of the axis of devices.
AXIS = "batch"


def batch_map(
    function: Callable,
    in_axes: int | None | tuple[int | None, ...] = 0,
    *,
    lanes: int | None = None,
    fused: bool | Literal["interpret"] | None = None,
) -> Callable:
    """Maps `function` of one sample over batches: `jax.vmap` in meaning, along axis 0.

    If possible, the function becomes one kernel: on a CPU with one sample per lane of the vector registers, on an NVIDIA GPU
    with one sample per thread. Other functions run in a compiled loop on a CPU, with one or several samples per iteration,
    which for small arrays is faster than `vmap`; on other devices they use `vmap`. In all forms the batch is split over the
    devices. A kernel on a CPU uses all cores; for other functions, `rbd.parallel.use_cores` turns the cores into devices. The
    form is chosen at compile time, and results do not depend on it except for rounding. Derivatives by batched arguments are
    mapped in the same way; derivatives by shared arguments are summed.

    The devices are those of this process, or those set by `rbd.parallel.use_devices` or `jax.set_mesh`. `rbd.shard` does the
    same over the devices of all processes. Inside an already mapped `function`, the loop runs on the device of that function.

    `function` is traced, so it must return its results and not write to anything else: a policy with memory takes its memory
    and returns it, as in `rollout(memory=...)`. Outside of `jax.jit` the mapped function compiles itself, as `jax.jit` would.

    Args:
      function: A function of one sample. It is part of the compiled program, except for its arrays if it is a PyTree: an
        `equinox.Module`, a `jax.tree_util.Partial`.
      in_axes: 0 for every argument with a batch axis, None for an argument that all samples share: one value for all
        positional arguments, or a tuple with one for each. Keyword arguments are batched, as with `vmap`; shared keyword
        arguments must be bound in `function`. Arguments may be PyTrees. In shared arguments, leaves that are not arrays
        (names, counts) are part of the program.
      lanes: The number of samples that a CPU processes side by side in arrays, without a kernel; 1 for sequential processing.
        The default without a kernel is 32 for large batches, if the function takes the same steps for each sample.
      fused: Selects a kernel, whose intermediate values stay on the chip as far as they fit. True requires a kernel and
        raises an error with the reason if it is impossible; False disables kernels. By default a kernel is used if it is
        possible, short enough and worthwhile, without large matrices. The limit is six million array entries on a CPU and
        450,000 on a GPU, counting loop bodies once. On a CPU the default requires at least 8 samples; True also accepts
        fewer, which pays off for repeated calls. Kernels are for dynamics and rollouts, preferably of known models: neither
        arguments nor traced. Loops of more than 256 iterations, and shorter ones with much work, stay loops. Their rows are
        those of an argument, known, or the same in each iteration. The processing of the rows that they return happens after
        the kernel. An infinite or NaN sample gives the same non-finite results as with `jax.vmap`. Only an overflow or a
        division by zero from finite numbers may differ, if it is multiplied by a known zero. Sorting, random keys and matrix
        library calls have no kernel. Indices that depend on the sample have one if there are few possible entries.
        `"interpret"` runs a GPU kernel on a CPU, for testing.

    Returns:
      A function of batches.

    >>> model = rbd.load("double_pendulum")
    >>> force = rbd.batch_map(lambda q: rbd.gravity_force(model, q))
    >>> print(force(jnp.array([[0.5, -1.0], [0.1, 0.2]])))
    [[ 4.703 -4.703]
     [ 4.858  2.899]]
    """
    here = lambda: Mesh(np.array(jax.local_devices()), (AXIS,))
    return _mapped("batch_map", function, in_axes, lanes, fused, None, here)


def shard(
    function: Callable,
    in_axes: int | None | tuple[int | None, ...] = 0,
    *,
    mesh: Mesh | None = None,
    lanes: int | None = None,
    fused: bool | Literal["interpret"] | None = None,
) -> Callable:
    """Maps `function` of one sample over batches that are split over all devices of all processes.

    It is `batch_map` over all devices: with one process both do the same. `rbd.parallel.start` connects several processes.
    Every process must then run the same program and make this call at the same place, as for everything in JAX that runs on
    several hosts. Arrays then have the same meaning as for `jax.jit`:

    - A local array (of NumPy, or on devices of this process) is the complete batch or a complete shared argument, and must be
      the same in every process; otherwise an error is raised. Each process reads its own samples.
    - A global array keeps its meaning and layout. `rbd.parallel.global_batch` makes one from the rows of each process,
      by `jax.make_array_from_process_local_data`.

    The results are global arrays, split by samples over the devices: sharded by `P("batch")`, so that
    the next sharded function finds its samples in place. If the number of devices does not divide the batch, copies of the
    last sample fill it up and their results are dropped. The result is then replicated on every device, which takes one
    exchange at the end. `rbd.parallel.gather` copies results into the memory of each process.

    Args:
      function: As for `batch_map`.
      in_axes: As for `batch_map`.
      mesh: The devices, with any axes. The default is those set by `rbd.parallel.use_devices` or `jax.set_mesh`, or
        else all devices.
      lanes: As for `batch_map`.
      fused: As for `batch_map`.

    Returns:
      A function of batches.

    Each sample runs through the same program as on one device, so results are the same. On a CPU they are the same to the
    last bit, unless a device has a single sample. The program has no communication except one all-reduce of the gradients by
    shared arguments:

    >>> model = rbd.load("double_pendulum")
    >>> q = jnp.array([[0.5, -1.0], [0.1, 0.2]])
    >>> def effort(model, q):
    ...     return jnp.sum(rbd.gravity_force(model, q) ** 2)
    >>> print(rbd.shard(effort, in_axes=(None, 0))(model, q))
    [44.24  32.003]
    >>> loss = lambda model: jnp.mean(rbd.shard(effort, in_axes=(None, 0))(model, q))
    >>> print(jax.grad(loss)(model).gravity)
    [25.332  0.    -7.772]
    """
    there = lambda: all_devices("shard")
    return _mapped("shard", function, in_axes, lanes, fused, _devices_of("shard", mesh), there)


@contextmanager
def use_devices(mesh: Mesh | None = None) -> Iterator[None]:
    """Returns a context manager that sets the devices of all functions that map over batches, by default all devices.

    It applies to `rbd.batch_map`, `rbd.shard`, `rbd.simulate_batch` and `rbd.identify`. Every process must then make the same
    calls with the same arrays. The results of `simulate_batch` and `identify` are complete in each process.

    Args:
      mesh: The devices, with any axes; `jax.make_mesh` or `jax.sharding.Mesh(devices, ("batch",))`.

    >>> model = rbd.load("double_pendulum")
    >>> states = rbd.State(q=jnp.array([[0.5, -1.0], [0.1, 0.2]]), v=jnp.zeros((2, 2)))
    >>> with rbd.parallel.use_devices():
    ...     path = rbd.simulate_batch(model, states, dt=0.01, steps=100, frames=10)
    >>> path.q.shape
    (2, 11, 2)
    """
    owner = "parallel.use_devices"
    with in_use(all_devices(owner) if mesh is None else _devices_of(owner, mesh)):
        yield


def _devices_of(owner: str, mesh: Mesh | None) -> Mesh | None:
    """Returns the devices of a mesh with automatic axis types, since layouts are not part of array types here."""
    if mesh is None:
        return None
    instance(owner, "mesh", mesh, Mesh, "a jax.sharding.Mesh, as jax.make_mesh gives one")
    return Mesh(mesh.devices, mesh.axis_names)


def all_devices(owner: str) -> Mesh:
    """Returns the devices of all processes, ordered by process."""
    warn_if_not_connected(owner)
    there = sorted(jax.devices(), key=lambda device: (device.process_index, device.id))
    return Mesh(np.array(there), (AXIS,))


def whole(tree):
    """Returns results replicated on each of the set devices, so that every process can read them; otherwise unchanged."""
    over = set_devices()
    if over is None or over.size == 1 or _within():
        return tree
    each = NamedSharding(over, PartitionSpec())
    return (
        jax.sharding.reshard(tree, each) if _is_explicit(over) else lax.with_sharding_constraint(tree, each)
    )


def devices_in_use() -> int:
    """Returns the number of devices over which `batch_map` splits a batch here."""
    over = set_devices()
    return 1 if _within() else jax.local_device_count() if over is None else over.size


def _within() -> bool:
    """Returns whether this code runs on one of several devices."""
    return bool(jax.sharding.get_abstract_mesh().manual_axes)


def _mapped(
    owner: str,
    function: Callable,
    in_axes,
    lanes: int | str | None,
    fused: bool | str | None,
    mesh: Mesh | None,
    there: Callable[[], Mesh],
) -> Callable:
    """Returns `function` over batches, on the devices of a mesh, those that are set, or else those that `there` returns."""
    if not callable(function):
        raise TypeError(f"{owner}: function is a {type(function).__name__}; it is a function of one sample")
    if isinstance(lanes, str) and lanes == "measured":  # a deprecated option
        deprecated(f'{owner}: lanes="measured"', "lanes=None", removed_in="0.3")
        lanes = None
    counted = isinstance(lanes, int) and not isinstance(lanes, bool) and lanes >= 1
    if not (lanes is None or counted):
        raise ValueError(f"{owner}: lanes is {lanes!r}; it is a number of samples, 1 or more, or None")
    side_by_side = None if lanes is None else int(lanes)

    if not (fused is None or isinstance(fused, bool) or (isinstance(fused, str) and fused == "interpret")):
        raise ValueError(f'{owner}: fused is {fused!r}; it is True, False, "interpret" or None')
    if fused and lanes is not None:
        raise ValueError(
            f"{owner}: lanes is {lanes!r}, and a fused kernel has none; leave lanes or fused out"
        )

    @functools.partial(jax.jit, static_argnames=("rest", "axes", "size", "over"))
    def run(batched, numbers, rest, axes, size, over):
        def sample(rows, numbers):
            function, shared = rest.with_numbers(numbers)
            (rows, named), shared = rows, iter(shared)
            rows = iter(rows)
            found = function(*(next(rows) if axis == 0 else next(shared) for axis in axes), **named)
            _refuse_other_than_arrays(owner, found)
            return found

        def on_one(batched, numbers):
            one = lambda rows: sample(rows, numbers)
            return in_fastest_form(owner, one, batched, side_by_side, fused, size, _platform(over))

        if over is None:
            return on_one(batched, numbers)
        split, each = PartitionSpec(over.axis_names), PartitionSpec()
        on_all = jax.shard_map(
            on_one,
            mesh=over if isinstance(over, Mesh) else None,  # or the mesh that is set
            in_specs=(split, each),
            out_specs=split,
            check_vma=False,
        )
        padding = -size % over.size
        if padding:
            # Every device gets the same number of samples: copies of the last sample fill up, and their results are dropped.
            filled = lambda x: jnp.concatenate([x, jnp.repeat(x[-1:], padding, 0)])
            batched = jax.tree.map(filled, _laid_out(batched, each, over))
        with _told_of_closures(owner):
            found = on_all(_laid_out(batched, split, over), _laid_out(numbers, each, over))
        return jax.tree.map(lambda y: y[:size], _laid_out(found, each, over)) if padding else found

    @functools.wraps(function)
    def mapped(*args, **named):
        axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
        if len(axes) != len(args) or any(axis not in (0, None) for axis in axes):
            raise ValueError(
                f"{owner}: in_axes is {in_axes}; it has 0 or None for each of the {len(args)} positional arguments"
            )
        batched = tuple(arg for arg, axis in zip(args, axes, strict=True) if axis == 0), named
        shared = tuple(arg for arg, axis in zip(args, axes, strict=True) if axis is None)
        numbers, rest = _apart((function, shared))
        size = _batch_size(owner, batched)
        over = None if size == 1 or _within() else _first(mesh, set_devices, there)
        if fused is True:
            _check_fused(owner, _platform(over))
        if over is not None:
            batched, numbers = _placed(owner, batched, numbers, size, over)
        return run(batched, numbers, rest=rest, axes=axes, size=size, over=over)

    return mapped


class _Rest:
    """A tree without its numbers, for which a program is compiled; compared by its content."""

    def __init__(self, structure, are_numbers: tuple[bool, ...], others: tuple):
        self.structure, self.are_numbers, self.others = structure, are_numbers, others
        # Unhashable objects compare by identity.
        self.key = structure, are_numbers, tuple(x if isinstance(x, Hashable) else id(x) for x in others)

    def __eq__(self, other) -> bool:
        return isinstance(other, _Rest) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def with_numbers(self, numbers):
        """Returns the tree with other numbers."""
        numbers, others = iter(numbers), iter(self.others)
        leaves = [next(numbers) if is_one else next(others) for is_one in self.are_numbers]
        return jax.tree.unflatten(self.structure, leaves)


def _apart(tree) -> tuple[list, _Rest]:
    """Splits a tree into its numbers and the rest."""
    leaves, structure = jax.tree.flatten(tree)
    are_numbers = tuple(map(is_number, leaves))
    numbers = [x for x, is_one in zip(leaves, are_numbers) if is_one]
    others = tuple(x for x, is_one in zip(leaves, are_numbers) if not is_one)
    return numbers, _Rest(structure, are_numbers, others)


def _first(mesh: Mesh | None, *others: Callable[[], Any]):
    """Returns the mesh, or the first available other one; None for a single device."""
    for other in others:
        mesh = other() if mesh is None else mesh
    return None if mesh is None or mesh.size == 1 else mesh


def _check_fused(owner: str, platform: str) -> None:
    if platform not in ("cpu", "gpu"):
        raise ValueError(
            f"{owner}: fused=True is for processors and GPUs, and this runs on a {platform}; leave fused out"
        )
    if (reason := why_no_kernels(platform)) is not None:
        raise ValueError(f"{owner}: there are no fused kernels: {reason}; leave fused out")


def _platform(over) -> str:
    return over.devices.flat[0].platform if isinstance(over, Mesh) else jax.default_backend()


@contextmanager
def _told_of_closures(owner: str) -> Iterator[None]:
    """Replaces JAX's error for arrays on all devices that are used on one device by a clearer message."""
    try:
        yield
    except ValueError as error:
        if "context mesh" not in str(error).lower():
            raise
        raise ValueError(
            f"{owner}: function uses arrays from its closure that are laid out on several devices, as all arrays are within "
            "jax.set_mesh, and JAX cannot use them here; make them arguments, with in_axes=None, or function a "
            "jax.tree_util.Partial"
        ) from error


def _laid_out(tree, spec: PartitionSpec, over):
    """Returns the tree laid out as `spec` for a mesh with explicit axes; otherwise the compiler decides."""
    return jax.sharding.reshard(tree, NamedSharding(over, spec)) if _is_explicit(over) else tree


def _is_explicit(over) -> bool:
    return AxisType.Explicit in over.axis_types


def _placed(owner: str, batched, shared, size: int, over):
    """Returns numbers on their devices: samples are split if they divide evenly, and shared numbers are on each device."""
    if any(isinstance(x, Tracer) for x in jax.tree.leaves((batched, shared))):
        return batched, shared  # the compiled program moves them
    mesh = over if isinstance(over, Mesh) else jax.sharding.get_mesh()
    if mesh.is_multi_process:
        _refuse_differences(owner, batched, shared, size)
    each = NamedSharding(mesh, PartitionSpec())
    split = NamedSharding(mesh, PartitionSpec(mesh.axis_names)) if size % mesh.size == 0 else each

    def place(tree, sharding):
        return jax.tree.map(lambda x: _on(x, sharding), tree)

    return place(batched, split), place(shared, each)


def _on(x, sharding: NamedSharding):
    """Places an array; the program places arrays that are already on the devices, or that are not JAX arrays."""
    if not isinstance(x, jax.Array) or x.sharding.device_set == sharding.device_set:
        return x
    if sharding.is_fully_addressable or not x.is_fully_addressable:
        return jax.device_put(x, sharding)
    return jax.make_array_from_callback(x.shape, sharding, lambda index: x[index])


def _refuse_other_than_arrays(owner: str, found) -> None:
    kinds = jax.Array | np.ndarray | np.generic | bool | int | float | complex
    for path, leaf in jax.tree_util.tree_leaves_with_path(found):
        if not isinstance(leaf, kinds):
            where = jax.tree_util.keystr(path)
            raise TypeError(
                f"{owner}: function returns a {type(leaf).__name__}{f' at {where}' if where else ''}; it returns arrays, or a "
                "tree of them"
            )


def _batch_size(owner: str, batched) -> int:
    leaves = jax.tree.leaves(batched)
    if not leaves:
        raise ValueError(f"{owner}: no argument has a batch axis")
    shapes = [jnp.shape(leaf) for leaf in leaves]
    sizes = {shape[0] if shape else 0 for shape in shapes}
    if len(sizes) > 1 or 0 in sizes:
        raise ValueError(
            f"{owner}: the arguments must share one leading axis of samples; their shapes are {shapes}"
        )
    return sizes.pop()


# Several processes.


#: The environment variables in which launchers give the number of processes, and the index of this one.
LAUNCHERS = {
    "Slurm": ("SLURM_NTASKS", "SLURM_PROCID"),
    "Open MPI": ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
}


def warn_if_not_connected(owner: str) -> None:
    """Warns if a launcher has started this process together with others, and it is not connected."""
    if jax.distributed.is_initialized():
        return
    for name, (count, which) in LAUNCHERS.items():
        number = os.environ.get(count, "1")
        if which in os.environ and number.isdigit() and int(number) > 1:
            warnings.warn(
                f"{owner}: this is process {os.environ[which]} of the {number} that {name} has started, and it works alone; call "
                "rbd.parallel.start() right after the imports to connect them",
                RuntimeWarning,
                stacklevel=4,
            )


def is_global(x) -> bool:
    """Returns whether `x` is an array with parts in other processes."""
    return isinstance(x, jax.Array) and not isinstance(x, Tracer) and not x.is_fully_addressable


def is_key(x) -> bool:
    """Returns whether `x` is an array of random keys."""
    return isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def numbers_of(x) -> np.ndarray:
    """Returns a local array as a NumPy array; for random keys, their data."""
    return np.asarray(jax.random.key_data(x) if is_key(x) else x)


def told_by_all(*numbers: int) -> np.ndarray:
    """Returns the numbers of each process, one row each: (processes, numbers). All processes must call this together."""
    return np.asarray(multihost_utils.process_allgather(np.array(numbers, np.uint32))).reshape(
        -1, len(numbers)
    )


def _refuse_differences(owner: str, batched, shared, size: int) -> None:
    """Raises an error in all processes if local arrays differ between them, so that no process waits for the others."""
    local = [numbers_of(x) for x in jax.tree.leaves((batched, shared)) if not is_global(x)]
    if not local:
        return
    shapes = zlib.crc32(repr([(x.shape, x.dtype.str) for x in local]).encode())
    values = functools.reduce(lambda sum, x: zlib.crc32(np.ascontiguousarray(x).tobytes(), sum), local, 0)
    told = told_by_all(size, shapes, values)
    same = (told == told[:1]).all(axis=0)
    if same.all():
        return
    remedy = (
        "a local array is the same in every process, the whole batch or the whole of what is shared; rbd.parallel.global_batch "
        "makes one batch of the rows that each process has"
    )
    if not same[0]:
        raise ValueError(
            f"{owner}: the batch has {told[:, 0].tolist()} samples in processes 0 to {len(told) - 1}; {remedy}"
        )
    what = "numbers" if same[1] else "shapes or dtypes"
    raise ValueError(
        f"{owner}: arguments have other {what} in process {int(np.argmin((told == told[:1]).all(axis=1)))} than in process 0; "
        f"{remedy}"
    )
