"""Many samples at once, in the form that is fastest where the program runs."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec


def batch_map(function: Callable, in_axes: int | None | tuple[int | None, ...] = 0) -> Callable:
    """`function` of one sample as a function of batches: `jax.vmap` in meaning, along axis 0.

    On a CPU the samples run one after the other through one compiled loop, shared out over the CPU devices (set
    `jax_num_cpu_devices` to have several): for arrays as small as these that beats vectorizing over the batch. On any
    other backend it is `vmap`, shared out over the devices. Results do not depend on the form but for rounding.

    **Arguments**

    - `in_axes`: 0 for every argument that has a batch axis, None for one that is shared by all samples: one value for all
      positional arguments, or a tuple with one for each. Arguments given by name are batched, as with `vmap`: what is shared
      and goes by name belongs into `function`. PyTrees are allowed.

    `function` is traced, and so it returns what it finds out and writes to nothing else: a policy that remembers takes its memory
    and returns it, as `rollout(memory=...)` does.

    >>> model = rbd.load("double_pendulum")
    >>> force = rbd.batch_map(lambda q: rbd.gravity_force(model, q))
    >>> print(force(jnp.array([[0.5, -1.0], [0.1, 0.2]])))
    [[ 4.703 -4.703]
     [ 4.858  2.899]]
    """

    @functools.wraps(function)
    def mapped(*args, **named):
        axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
        if len(axes) != len(args) or any(axis not in (0, None) for axis in axes):
            raise ValueError(
                f"batch_map: in_axes is {in_axes}; it has 0 or None for each of the {len(args)} positional arguments"
            )
        batched = tuple(arg for arg, axis in zip(args, axes, strict=True) if axis == 0), named
        size = _batch_size(batched)
        devices = jax.local_devices()
        count = min(len(devices), size)

        def sample(rows, shared):
            (rows, named), shared = rows, iter(shared)
            rows = iter(rows)
            return function(*(next(rows) if axis == 0 else next(shared) for axis in axes), **named)

        def run(batched, shared):
            if devices[0].platform == "cpu":
                return lax.map(lambda rows: sample(rows, shared), batched)
            return jax.vmap(lambda rows: sample(rows, shared))(batched)

        shared = tuple(arg for arg, axis in zip(args, axes, strict=True) if axis is None)
        if count < 2:
            return run(batched, shared)
        mesh = Mesh(np.array(devices[:count]), ("batch",))
        split, whole = PartitionSpec("batch"), PartitionSpec()
        run = jax.shard_map(run, mesh=mesh, in_specs=(split, whole), out_specs=split, check_vma=False)
        # Every device gets as many samples: the last one repeats the last sample, and what it makes of it is dropped.
        padding = -size % count
        padded = jax.tree.map(lambda x: jnp.concatenate([x, jnp.repeat(x[-1:], padding, 0)]), batched)
        return jax.tree.map(lambda y: y[:size], run(padded, shared))

    return mapped


def _batch_size(batched) -> int:
    leaves = jax.tree.leaves(batched)
    if not leaves:
        raise ValueError("batch_map: no argument has a batch axis")
    shapes = [jnp.shape(leaf) for leaf in leaves]
    sizes = {shape[0] if shape else 0 for shape in shapes}
    if len(sizes) > 1 or 0 in sizes:
        raise ValueError(
            f"batch_map: the arguments must share one leading axis of samples; their shapes are {shapes}"
        )
    return sizes.pop()
