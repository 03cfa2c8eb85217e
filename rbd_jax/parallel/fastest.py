"""The form in which a function of one sample is mapped over a batch: kernel, lanes, sequential, or `jax.vmap`."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import jax
from jax import lax


try:
    from .. import compiler
except ImportError:  # the library also works without this part, but slower
    compiler = None  # pyright: ignore[reportAssignmentType]


#: The minimum number of samples for side-by-side processing, and for a kernel, which compiles faster.
ENOUGH, ENOUGH_FOR_A_KERNEL = 256, 8


def in_fastest_form(
    owner: str,
    function: Callable,
    batched: Any,
    lanes: int | None,
    fused: bool | str | None,
    size: int,
    platform: str,
) -> Any:
    """Returns `jax.vmap(function)(batched)` in the form that `batch_map` documents.

    `size` is the size of the complete batch, of which this may be one device's share. The program, and so the last bit of each
    result, does not depend on the number of devices.
    """
    if compiler is None:
        _tell_missing(owner, asked=bool(fused))
        return jax.vmap(function)(batched)
    on_cpu, asked = platform == "cpu", bool(fused)
    without = fused is False or lanes is not None or (on_cpu and size < ENOUGH_FOR_A_KERNEL)
    if without and not asked:
        return _in_turn(function, batched, lanes, size) if on_cpu else jax.vmap(function)(batched)
    otherwise = functools.partial(_one_by_one, size=size) if on_cpu else compiler.Mapped.by_vmap
    return compiler.mapped(owner, function, batched, fused, otherwise)


def _one_by_one(mapped: Any, shared: list, samples: list, size: int) -> list:
    return _in_turn(lambda rows: mapped.of_one(*shared, *rows), samples, None, size)


def _in_turn(function: Callable, batched: Any, lanes: int | None, size: int) -> Any:
    """Returns `jax.lax.map(function, batched)`, with samples side by side for large batches.

    `size` is as for `in_fastest_form`.
    """
    if lanes == 1 or (lanes is None and size < ENOUGH):
        return lax.map(function, batched)
    assert compiler is not None
    return compiler.in_lanes(function, batched, lanes, size)


def why_no_kernels(platform: str) -> str | None:
    """Returns why there are no kernels for a platform, or None."""
    return (
        "this installation has no rbd_jax.compiler" if compiler is None else compiler.why_no_kernels(platform)
    )


@functools.cache
def _tell_missing(owner: str, asked: bool) -> None:
    message = f"{owner}: this installation has no rbd_jax.compiler, and so no fused kernels"
    if asked:
        raise ValueError(f"{message}; leave fused out, or install rbd_jax again")
    warnings.warn(
        f"{message}: batches are mapped by jax.vmap, which takes longer", RuntimeWarning, stacklevel=2
    )
