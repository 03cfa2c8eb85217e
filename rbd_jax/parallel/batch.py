"""Many samples at once, in the form that is fastest where the program runs, split over devices: one process's, or all.

Both functions here split a batch the same way. Every device gets as many samples as the others, one after the other on a CPU and
vectorized elsewhere, and what all samples share whole. Devices do not talk while the samples run; a derivative by something
shared is summed over them once, at the end.
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


#: The name of the axis along which devices stand, where nobody else names it.
AXIS = "batch"


def batch_map(
    function: Callable,
    in_axes: int | None | tuple[int | None, ...] = 0,
    *,
    lanes: int | None = None,
    fused: bool | Literal["interpret"] | None = None,
) -> Callable:
    """`function` of one sample as a function of batches: `jax.vmap` in meaning, along axis 0.

    A function that can be is one kernel: on a CPU with a sample in each lane of the processor's vector registers, on a GPU of
    NVIDIA with one in each thread. What cannot goes through one compiled loop on a CPU, one sample after the other or some side
    by side, which for arrays as small as these beats `vmap`, and is `vmap` elsewhere. Either way it is shared out over the
    devices. A kernel on a CPU takes all cores; for what is none, `rbd.parallel.use_cores` makes devices of them. The form is
    chosen when it is compiled; results do not depend on it but for rounding. Derivatives of what is mapped are mapped in the
    same way, those by what is shared summed.

    The devices are those of this process, or those that `rbd.parallel.use_devices` or `jax.set_mesh` has set. `rbd.shard` is the
    same over the devices of all processes. Within a `function` that is mapped already the loop is on the one device where that
    runs.

    **Arguments**

    - `in_axes`: 0 for every argument that has a batch axis, None for one that is shared by all samples: one value for all
      positional arguments, or a tuple with one for each. Arguments given by name are batched, as with `vmap`: what is shared
      and goes by name belongs into `function`. PyTrees are allowed; what is no array in what is shared (names, counts) is part
      of the program. So is `function`, but for its arrays where it is a PyTree: an `equinox.Module`, a `jax.tree_util.Partial`.
    - `lanes`: so many samples side by side in arrays, on a CPU, and no kernel; 1 for one after the other. By default, where there
      is no kernel, 32 of large batches, if the function takes the same steps for each sample.
    - `fused`: whether it is a kernel, whose numbers stay on the chip as far as they fit. True for one, or an error that says
      why there is none; False for none. By default it is one where that is possible, is not too long (three million entries of
      arrays on a CPU, 450,000 on a GPU, rounds of loops once) and is work, without large matrices; on a CPU of 8 samples and
      more (True makes one of fewer, which pays where it is called again and again). It is for dynamics and rollouts, best of
      models that are known: no arguments, and not traced. Loops of more than 256 rounds, and shorter ones of much work, stay
      loops: their rows are those of an argument, known, or the same in each round. What is made of the rows that they return
      is made after the kernel. What is infinite or NaN in a sample makes the same results so as with `jax.vmap`; only what
      overflows, or is a division by zero, on the way from finite numbers may not, where it is multiplied by a known zero.
      Sorting, random keys and calls of matrix libraries have no kernel. Indices that depend on the sample have one if few entries
      are possible.
      `"interpret"` runs that of a GPU on a processor, to try it out.

    `function` is traced, and so it returns what it finds out and writes to nothing else: a policy that remembers takes its memory
    and returns it, as `rollout(memory=...)` does. Outside of `jax.jit` the mapped function compiles itself, as `jax.jit` would.

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
    """`function` of one sample as a function of batches, which all devices of all processes share out among them.

    It is `batch_map` over all devices: with one process the two do the same. With several, which `rbd.parallel.start` has
    connected, every process runs the same program and calls this at the same place, as for everything in JAX that runs on several
    hosts. Arrays then mean what they mean to `jax.jit`:

    - a local array (of numpy, or on devices of this process) is the whole batch, or the whole of what is shared, and the
      same in every process; where it is not, an error says so. Each process reads the samples that are its own.
    - a global array is what it is, wherever its parts are. `rbd.parallel.global_batch` makes one of the rows that each process
      has, by `jax.make_array_from_process_local_data`.

    **Arguments**

    - `function`, `in_axes`, `lanes`, `fused`: as for `batch_map`.
    - `mesh`: the devices, whatever its axes are. By default those that `rbd.parallel.use_devices` or `jax.set_mesh` has set, or
      all devices there are.

    **Returns** a function whose results are global arrays, split by samples over the devices: sharded by `P("batch")`, so that
    the next sharded function finds its samples where they are. If the devices do not divide the batch, copies of the last
    sample fill it up, what comes of them is dropped, and the result is whole on every device, which takes one exchange at the
    end. `rbd.parallel.gather` brings results into the memory of each process.

    Each sample goes through the same program as on one device, so results are the same, on a CPU to the last bit but where
    a device has a single sample. The program has no communication but one all-reduce of the gradients by what is shared:

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
    """Within it, all that maps over batches uses these devices, by default those of all processes.

    That is `rbd.batch_map`, `rbd.shard`, `rbd.simulate_batch` and `rbd.identify`. Every process then runs the same calls with
    the same arrays; what `simulate_batch` and `identify` return is whole in each of them.

    **Arguments**

    - `mesh`: the devices, whatever its axes are; `jax.make_mesh` or `jax.sharding.Mesh(devices, ("batch",))`.

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
    """The devices of a mesh, and no more of it: where arrays are laid out is not part of their types here."""
    if mesh is None:
        return None
    instance(owner, "mesh", mesh, Mesh, "a jax.sharding.Mesh, as jax.make_mesh gives one")
    return Mesh(mesh.devices, mesh.axis_names)


def all_devices(owner: str) -> Mesh:
    """The devices of all processes, process by process."""
    warn_if_not_connected(owner)
    there = sorted(jax.devices(), key=lambda device: (device.process_index, device.id))
    return Mesh(np.array(there), (AXIS,))


def whole(tree):
    """What was mapped over devices that were set, on each of them, so that every process can read it; else as it is."""
    over = set_devices()
    if over is None or over.size == 1 or _within():
        return tree
    each = NamedSharding(over, PartitionSpec())
    return (
        jax.sharding.reshard(tree, each) if _is_explicit(over) else lax.with_sharding_constraint(tree, each)
    )


def devices_in_use() -> int:
    """How many devices `batch_map` splits a batch over, here."""
    over = set_devices()
    return 1 if _within() else jax.local_device_count() if over is None else over.size


def _within() -> bool:
    """Whether this is what one of several devices does."""
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
    """`function` over batches, on the devices of a mesh, those that are set, or else those that are there."""
    if not callable(function):
        raise TypeError(f"{owner}: function is a {type(function).__name__}; it is a function of one sample")
    if isinstance(lanes, str) and lanes == "measured":  # as it could be asked for once
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
            mesh=over if isinstance(over, Mesh) else None,  # or the one that is set
            in_specs=(split, each),
            out_specs=split,
            check_vma=False,
        )
        padding = -size % over.size
        if padding:
            # Every device gets as many samples: copies of the last one fill up, and what is made of them is dropped.
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
    """What is left of a tree without its numbers, which a program is compiled for; known by what is in it."""

    def __init__(self, structure, are_numbers: tuple[bool, ...], others: tuple):
        self.structure, self.are_numbers, self.others = structure, are_numbers, others
        # What has no hash of its own is the same if it is the same thing.
        self.key = structure, are_numbers, tuple(x if isinstance(x, Hashable) else id(x) for x in others)

    def __eq__(self, other) -> bool:
        return isinstance(other, _Rest) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def with_numbers(self, numbers):
        """The tree with other numbers."""
        numbers, others = iter(numbers), iter(self.others)
        leaves = [next(numbers) if is_one else next(others) for is_one in self.are_numbers]
        return jax.tree.unflatten(self.structure, leaves)


def _apart(tree) -> tuple[list, _Rest]:
    """A tree as its numbers and the rest."""
    leaves, structure = jax.tree.flatten(tree)
    are_numbers = tuple(map(is_number, leaves))
    numbers = [x for x, is_one in zip(leaves, are_numbers) if is_one]
    others = tuple(x for x, is_one in zip(leaves, are_numbers) if not is_one)
    return numbers, _Rest(structure, are_numbers, others)


def _first(mesh: Mesh | None, *others: Callable[[], Any]):
    """The mesh, or the first of the others that there is; None if it is one device."""
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
    """What JAX says of arrays on all devices that are made use of where there is one, in other words."""
    try:
        yield
    except ValueError as error:
        if "context mesh" not in str(error).lower():
            raise
        raise ValueError(
            f"{owner}: function makes use of arrays from around it that are laid out on several devices, as all are within "
            "jax.set_mesh, and JAX cannot make others like them here; make them arguments, with in_axes=None, or function a "
            "jax.tree_util.Partial"
        ) from error


def _laid_out(tree, spec: PartitionSpec, over):
    """As `spec` says, where a mesh wants this said; elsewhere the compiler finds out."""
    return jax.sharding.reshard(tree, NamedSharding(over, spec)) if _is_explicit(over) else tree


def _is_explicit(over) -> bool:
    return AxisType.Explicit in over.axis_types


def _placed(owner: str, batched, shared, size: int, over):
    """Numbers on the devices that are to have them: samples split if they go evenly, and what is shared on each device."""
    if any(isinstance(x, Tracer) for x in jax.tree.leaves((batched, shared))):
        return batched, shared  # they become part of a program, which moves them
    mesh = over if isinstance(over, Mesh) else jax.sharding.get_mesh()
    if mesh.is_multi_process:
        _refuse_differences(owner, batched, shared, size)
    each = NamedSharding(mesh, PartitionSpec())
    split = NamedSharding(mesh, PartitionSpec(mesh.axis_names)) if size % mesh.size == 0 else each

    def place(tree, sharding):
        return jax.tree.map(lambda x: _on(x, sharding), tree)

    return place(batched, split), place(shared, each)


def _on(x, sharding: NamedSharding):
    """An array where it is to be; one that is on the devices already, or that is not of JAX, is placed by the program."""
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


#: The variables in which launchers tell how many processes they have started, and which this is.
LAUNCHERS = {
    "Slurm": ("SLURM_NTASKS", "SLURM_PROCID"),
    "Open MPI": ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
}


def warn_if_not_connected(owner: str) -> None:
    """Warn a process that a launcher has started with others, and that works alone."""
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
    """Whether it is an array with parts in other processes."""
    return isinstance(x, jax.Array) and not isinstance(x, Tracer) and not x.is_fully_addressable


def is_key(x) -> bool:
    """Whether it is an array of random keys."""
    return isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def numbers_of(x) -> np.ndarray:
    """A local array as numpy has it; of keys, what they are made of."""
    return np.asarray(jax.random.key_data(x) if is_key(x) else x)


def told_by_all(*numbers: int) -> np.ndarray:
    """What each process says, a row for each: (processes, numbers). All processes call this together."""
    return np.asarray(multihost_utils.process_allgather(np.array(numbers, np.uint32))).reshape(
        -1, len(numbers)
    )


def _refuse_differences(owner: str, batched, shared, size: int) -> None:
    """Refuse local arrays that are not the same in all processes, in all of them: none is left waiting for the others."""
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
