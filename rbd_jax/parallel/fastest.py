"""How many samples are to be worked on side by side: found by measurement, once for each program and machine."""

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
from jax.extend.core import Jaxpr

from .._files import whole_file
from .lanes import Program, one_by_one, opened, side_by_side


#: From so many samples on, a measurement may pay.
ENOUGH = 1024

#: Programs of more numbers than these are not measured: they take long to compile twice, and so they do to run.
LARGEST = 500_000

#: What is tried, by the bytes of a number: 32 single ones, or 16 double ones, fill some registers.
TRIED = {4: (1, 32), 8: (1, 16, 32)}

#: A measurement: samples, runs of which the shortest counts, and by what several at once must be faster than one.
SAMPLES, RUNS, WORTH = 256, 7, 0.95

#: The file, in the folder of JAX's own compilation cache where there is one, in which what was found is kept.
KEPT = "rbd_jax_lanes.json"

_found: dict[str, int] = {}


def in_turn(function: Callable, batched: Any, lanes: int | None) -> Any:
    """`jax.lax.map(function, batched)`, so many samples at a time side by side, or as many as is fastest."""
    size = jax.tree.leaves(batched)[0].shape[0]
    if lanes is None and size < ENOUGH:
        lanes = 1
    if lanes == 1:
        return lax.map(function, batched)
    program = Program.of(function, batched)
    return program.mapped(fastest(program) if lanes is None else min(lanes, size))


def fastest(program: Program) -> int:
    """The number of lanes in which a program runs fastest, of few; 1 for those that are not measured."""
    given = [*program.consts, *program.samples]
    numbers = _numbers(program.jaxpr)
    if numbers is None or numbers > LARGEST or program.jaxpr.effects or not all(map(_plain, given)):
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
    widest = max(
        [x.dtype.itemsize for x in program.samples if jnp.issubdtype(x.dtype, jnp.floating)], default=4
    )
    for lanes in TRIED.get(widest, (1,)):
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
            best[lanes] = min(best[lanes], (time.perf_counter() - begin) * (1 if lanes > 1 else WORTH))
    return min(best, key=lambda lanes: best[lanes])


def _plain(x) -> bool:
    return not jnp.issubdtype(x.dtype, jax.dtypes.extended)


def _numbers(jaxpr: Jaxpr) -> int | None:
    """How many numbers a program computes; None if that depends on them."""
    total = 0
    for equation in jaxpr.eqns:
        params = equation.params
        if equation.primitive.name == "while":
            return None
        inner = [
            opened(x)[0]
            for x in jax.tree.leaves(list(params.values()), is_leaf=_is_program)
            if _is_program(x)
        ]
        times = params.get("length", 1) if equation.primitive.name == "scan" else 1
        for program in inner:
            numbers = _numbers(program)
            if numbers is None:
                return None
            total += times * numbers
        if not inner:
            total += sum(x.aval.size for x in equation.outvars)
    return total


def _is_program(x) -> bool:
    return hasattr(x, "eqns") or hasattr(x, "jaxpr")


def _file() -> Path | None:
    folder = jax.config.jax_compilation_cache_dir
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
