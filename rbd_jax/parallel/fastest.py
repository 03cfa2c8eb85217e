"""How many samples are worked on side by side: as many as fill some vector registers, or what a measurement finds to be best."""

from __future__ import annotations

import functools
import hashlib
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._core.files import whole_file
from ..compiler.lanes import Program, has_rules, one_by_one, side_by_side
from ..compiler.primitive import Program as OneOperation, mapped


#: So many numbers side by side: four registers of eight double ones, two of sixteen single ones. With fewer the compiler leaves
#: registers empty; with more, what is worked on no longer fits the nearest caches.
SIDE_BY_SIDE = 32

#: From so many samples on, they are worked on side by side; by a kernel, which takes less time to compile.
ENOUGH, ENOUGH_FOR_A_KERNEL = 256, 8

#: A measurement: what is tried, of how many samples, and runs of which the shortest counts.
TRIED, SAMPLES, RUNS = (1, 16, 32), 256, 7

#: What was measured is kept in a file, in the folder of JAX's own compilation cache where there is one.
FOLDER, KEPT = "jax_compilation_cache_dir", "rbd_jax_lanes.json"

_found: dict[str, int] = {}


def in_fastest_form(
    owner: str,
    function: Callable,
    batched: Any,
    lanes: int | str | None,
    fused: bool | str | None,
    size: int,
    platform: str,
) -> Any:
    """`jax.vmap(function)(batched)`, as `batch_map` says.

    - `size`: of the whole batch, of which this may be one device's share. The program, and so the last bit of each result, does
      not depend on how many devices there are.
    """
    on_cpu, asked = platform == "cpu", bool(fused)
    without = fused is False or lanes is not None or (on_cpu and size < ENOUGH_FOR_A_KERNEL)
    if without and not asked:
        return in_turn(function, batched, lanes, size) if on_cpu else jax.vmap(function)(batched)
    if on_cpu:
        return mapped(owner, function, batched, fused, functools.partial(_in_turn, lanes=None, size=size))
    return mapped(owner, function, batched, fused, _vectorized)


def _vectorized(program: OneOperation, shared: list, samples: list) -> list:
    return jax.vmap(lambda *rows: program.of_one(*shared, *rows))(*samples)


def _in_turn(program: OneOperation, shared: list, samples: list, lanes: int | str | None, size: int) -> list:
    return in_turn(lambda rows: program.of_one(*shared, *rows), samples, lanes, size)


def in_turn(function: Callable, batched: Any, lanes: int | str | None, size: int) -> Any:
    """`jax.lax.map(function, batched)`, so many samples at a time side by side.

    - `lanes`: None for `SIDE_BY_SIDE` of a large batch, if all that the function does has a rule and takes the same steps
      for each sample, and else 1; "measured" for what is fastest here.
    - `size`: as for `in_fastest_form`.
    """
    if lanes == 1 or (lanes is None and size < ENOUGH):
        return lax.map(function, batched)
    program = Program.of(function, batched)
    if lanes is None:
        known = has_rules(program.jaxpr, (True,) * len(program.samples))
        lanes = SIDE_BY_SIDE if known and all(map(_plain, program.samples)) else 1
    elif lanes == "measured":
        lanes = fastest(program)
    assert isinstance(lanes, int)
    return lax.map(function, batched) if lanes == 1 else program.mapped(min(lanes, size))


def fastest(program: Program) -> int:
    """The number of lanes in which a program runs fastest, of few: by a measurement, once for each program and machine."""
    given = [*program.consts, *program.samples]
    if program.jaxpr.effects or not all(map(_plain, given)):
        return 1
    shapes = [(x.shape, str(x.dtype)) for x in given]
    told = f"{program.jaxpr}{shapes}{jax.__version__}{platform.processor()}{platform.node()}"
    key = hashlib.sha256(told.encode()).hexdigest()
    if key not in _found:
        _found.update(_read())
    if key not in _found:
        _found[key] = _measured(program)
        _write()
    return _found[key]


def _measured(program: Program) -> int:
    random = np.random.default_rng(0)

    def like(shape, dtype):
        values = random.uniform(0.25, 0.75, shape)
        return values.astype(dtype) if jnp.issubdtype(dtype, jnp.floating) else np.zeros(shape, dtype)

    consts = [like(x.shape, x.dtype) for x in program.consts]
    samples = [like((SAMPLES, *x.shape[1:]), x.dtype) for x in program.samples]
    ran = {}
    for lanes in TRIED:
        mapped = one_by_one if lanes == 1 else functools.partial(side_by_side, lanes=lanes)
        run = jax.jit(
            lambda consts, samples, mapped=mapped: mapped(program.jaxpr, consts=consts, samples=samples)
        )
        ran[lanes] = run.lower(consts, samples).compile()
    best = dict.fromkeys(ran, np.inf)
    for _ in range(RUNS):  # in turns, so that what disturbs one disturbs all
        for lanes, run in ran.items():
            begin = time.perf_counter()
            jax.block_until_ready(run(consts, samples))
            best[lanes] = min(best[lanes], time.perf_counter() - begin)
    return min(best, key=lambda lanes: best[lanes])


def _plain(x) -> bool:
    return not jnp.issubdtype(x.dtype, jax.dtypes.extended)


def _file() -> Path | None:
    folder = getattr(jax.config, FOLDER, None)
    return Path(folder) / KEPT if folder and "://" not in folder else None


def _read() -> dict[str, int]:
    """What was found before; nothing where it cannot be read."""
    file = _file()
    try:
        return json.loads(file.read_text()) if file is not None and file.exists() else {}
    except (OSError, ValueError):
        return {}


def _write() -> None:
    file = _file()
    if file is None:
        return
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(file) as new:
            new.write_text(json.dumps(_read() | _found))
    except OSError:
        pass  # as JAX does with what it cannot keep: it is found again
