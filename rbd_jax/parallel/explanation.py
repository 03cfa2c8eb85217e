"""Explains which form a function of one sample takes over a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import jax

from .batch import batch_map
from .fastest import ENOUGH, ENOUGH_FOR_A_KERNEL, compiler, why_no_kernels


def explain(
    function: Callable,
    *args,
    in_axes: int | None | tuple[int | None, ...] = 0,
    fused: bool | Literal["interpret"] | None = None,
) -> str:
    """Returns which form `batch_map(function, in_axes, fused=fused)(*args)` takes here, and why, as text.

    A function that is not a kernel takes several times as long. If an operation prevents a kernel, the text names it and the
    line of your code that it comes from.

    Args:
      function: The function of one sample.
      args: A batch; only shapes, types and the number of samples matter.
      in_axes: As for `batch_map`.
      fused: As for `batch_map`.

    >>> model = rbd.load("arm7")
    >>> q = jnp.zeros((1000, 7))
    >>> print(rbd.explain(lambda q: rbd.mass_matrix(model, q), q))  # doctest: +ELLIPSIS
    A kernel on cpu, since it pays: ... scalars, some 0.3 s to compile.
    >>> print(rbd.explain(lambda q: jnp.sort(rbd.gravity_force(model, q)), q))  # doctest: +ELLIPSIS
    No kernel on cpu: `sort` (...) depends on the sample, which no kernel can do. 32 samples side by side, where that is possible.
    """
    platform = jax.default_backend()
    sizes = {x.shape[0] for x in jax.tree.leaves(args) if getattr(x, "ndim", 0)}
    size = max(sizes, default=1)
    otherwise = "Mapped by jax.vmap."
    if platform == "cpu":
        otherwise = (
            "32 samples side by side, where that is possible."
            if size >= ENOUGH
            else "One sample after the other."
        )
    reason = why_no_kernels(platform)
    if compiler is None or reason is not None:
        return f"No kernel on {platform}: {reason}. {otherwise}"
    traced = jax.make_jaxpr(batch_map(function, in_axes, fused=fused))(*args)
    found = compiler.kernels_in(traced.jaxpr, "cuda" if platform == "gpu" else platform)
    if not found:
        few = (
            f"fewer than {ENOUGH_FOR_A_KERNEL} samples"
            if size < ENOUGH_FOR_A_KERNEL
            else "no kernel was requested"
        )
        return f"No kernel on {platform}: {few}. {otherwise}"
    lines = []
    for one in found:
        if one.is_kernel:
            told = f"{one.scalars:,} scalars, some {one.seconds:.1g} s to compile"
            lines.append(f"A kernel on {platform}, since {one.reason}: {told}.")
        else:
            lines.append(f"No kernel on {platform}: {one.reason}. {otherwise}")
    return "\n".join(lines)
