"""Machine code distributes a batch over the threads of XLA, for any scheduling behavior."""

import ctypes
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import llvmlite.binding as llvm
import numpy as np
import pytest
from support import by_xla

import rbd_jax as rbd
from rbd_jax.compiler.cpu import routine, threads, xla_ffi as foreign


LANES, LEAST = 4, 10

TASK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
ANSWER = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


@pytest.fixture(scope="module")
def run():
    """Machine code that doubles numbers, and writes the range that processed each."""
    body = []
    for lane in range(LANES):
        body += [
            f"%s{lane} = add i64 %first, {lane}",
            f"%t{lane} = call i64 @llvm.smin.i64(i64 %s{lane}, i64 %end)",
            f"%from{lane} = getelementptr double, ptr %a0, i64 %t{lane}",
            f"%x{lane} = load double, ptr %from{lane}",
            f"%y{lane} = fadd double %x{lane}, %x{lane}",
            f"%to{lane} = getelementptr double, ptr %r0, i64 %t{lane}",
            f"store double %y{lane}, ptr %to{lane}",
            f"%n{lane} = getelementptr i64, ptr %r1, i64 %t{lane}",
            f"store i64 %number, ptr %n{lane}",
        ]
    text = foreign.function(1, 2, 0, LANES, 1, [], body, "chunk", 0, 8, LEAST)
    foreign._features()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), foreign.machine(1))
    engine.finalize_object()
    function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(engine.get_function_address("run"))
    yield function
    del engine


def test_an_engine_has_a_machine_of_its_own():
    """The engine frees its machine, so sharing one with a deleted engine would use freed memory."""
    assert foreign.machine(1) is not foreign.machine(1)


class Pool:
    """A pool of threads as passed by XLA, and a call of a function with it.

    - `size`: number of threads that it reports, or None if it cannot report it.
    - `schedule`: action on a task; a nonzero result is an error.
    """

    def __init__(self, size, schedule):
        self.size, self.schedule = size, schedule
        self.tasks, self.asked, self.destroyed = [], [], []
        self.calls = [ANSWER(x) for x in (self._told, self._asked, self._destroyed)]
        self.interface = (ctypes.c_void_p * 20)()
        for offset, call in zip(
            (threads.THREADS, threads.SCHEDULE, threads.DESTROY), self.calls, strict=True
        ):
            self.interface[offset // 8] = ctypes.cast(call, ctypes.c_void_p).value

    def _told(self, asked):
        size, extension, context, number = ctypes.cast(asked, ctypes.POINTER(ctypes.c_void_p))[:4]
        self.asked.append((size, extension, context))
        if self.size is None:
            return 77
        ctypes.cast(number, ctypes.POINTER(ctypes.c_int64))[0] = self.size
        return None

    def _asked(self, given):
        size, extension, context, task, data = ctypes.cast(given, ctypes.POINTER(ctypes.c_void_p))[:5]
        self.asked.append((size, extension, context))
        self.tasks.append(lambda: TASK(task)(data))
        return self.schedule(self.tasks[-1]) or None

    def _destroyed(self, given):
        size, extension, error = ctypes.cast(given, ctypes.POINTER(ctypes.c_void_p))[:3]
        self.asked.append((size, extension, None))
        self.destroyed.append(error)

    def __call__(self, run, x):
        """Returns the doubled numbers, and the range that processed each."""
        doubled, ranges = np.zeros(len(x)), np.full(len(x), -1)
        sides = (ctypes.c_int64 * 1)(len(x))
        buffers = [(ctypes.c_void_p * 6)() for _ in range(3)]
        for buffer, array in zip(buffers, (x, doubled, ranges), strict=True):
            buffer[foreign.DATA // 8] = array.ctypes.data
            buffer[foreign.SIDES // 8] = ctypes.addressof(sides)
        arguments, results = (
            (ctypes.c_void_p * len(x))(*map(ctypes.addressof, x)) for x in (buffers[:1], buffers[1:])
        )
        call = (ctypes.c_void_p * 24)()
        call[threads.INTERFACE // 8] = ctypes.addressof(self.interface)
        call[threads.CONTEXT // 8] = 5
        call[foreign.ARGUMENTS // 8] = ctypes.addressof(arguments)
        call[foreign.RESULTS // 8] = ctypes.addressof(results)
        assert run(ctypes.addressof(call)) is None
        return doubled, ranges


def at_once(task):
    """Runs the task on the caller's thread, as XLA may."""
    task()


def on_a_thread(task):
    threading.Thread(target=task).start()


def never(task):
    """Does not run the task, as if all threads were busy."""


def refused(task):
    return 88


@pytest.mark.parametrize("size", [0, 1, 9, 10, 79, 80, 1003])
@pytest.mark.parametrize(
    "there, schedule, errors",
    [
        (1, never, 0),
        (3, at_once, 0),
        (3, on_a_thread, 0),
        (4, never, 0),
        (4, refused, 3),
        (None, never, 1),
        (0, never, 0),
    ],
)
def test_shared_out(run, there, schedule, errors, size):
    x, pool = np.random.default_rng(0).normal(size=size), Pool(there, schedule)
    doubled, ranges = pool(run, x)
    np.testing.assert_array_equal(doubled, 2 * x)
    count = threads.count(size, LEAST)
    assert set(pool.asked) <= {
        (32, None, 5),
        (40, None, 5),
        (24, None, None),
    }  # bytes, no extension, the context
    assert len(pool.tasks) == max(min(there or 1, count) - 1, 0)
    if count == 1:
        assert not ranges.any()
        return
    # The ranges are contiguous, in order and of equal length.
    assert (np.diff(ranges) >= 0).all()
    assert set(ranges) == set(range(count))
    starts = np.flatnonzero(np.diff(ranges)) + 1
    assert not (starts % LANES).any()
    assert np.ptp(np.bincount(ranges)[:-1]) <= LANES
    if errors == 1:
        assert pool.destroyed == [77]
    elif errors:
        assert pool.destroyed == [88] * len(pool.tasks)
    if schedule is never:  # late tasks have nothing left to do
        for task in pool.tasks:
            task()
        np.testing.assert_array_equal(doubled, 2 * x)


def test_ranges():
    assert [threads.count(size, 10) for size in (0, 9, 19, 20, 199, 10**6)] == [1, 1, 1, 2, 19, threads.MOST]


@pytest.fixture(scope="module")
def cartpole():
    model = rbd.load("cartpole")
    q, v, tau = np.random.default_rng(0).normal(size=(3, 20_001, 2))
    mapped = jax.jit(rbd.batch_map(lambda q, v, tau: rbd.forward_dynamics(model, q, v, tau)))
    return model, (q, v, tau), mapped


def test_as_vmap_gives(cartpole):
    model, given, mapped = cartpole
    expected = by_xla(lambda q, v, tau: rbd.forward_dynamics(model, q, v, tau))(*given)
    np.testing.assert_allclose(mapped(*given), expected, rtol=1e-9, atol=1e-9)


def test_from_many_threads(cartpole):
    """Callers that wait for each other's threads all finish."""
    _, given, mapped = cartpole
    expected = np.asarray(mapped(*given))
    with ThreadPoolExecutor(8) as pool:
        for result in pool.map(lambda _: np.asarray(mapped(*given)), range(40)):
            np.testing.assert_array_equal(result, expected)


def test_sums_are_the_same_to_the_last_bit(cartpole):
    """The sums do not depend on the assignment of samples to threads."""
    model, given, _ = cartpole
    gradient = jax.jit(jax.grad(loss, 1), static_argnums=3)
    first = gradient(model, model.damping, given, rbd.batch_map)
    np.testing.assert_allclose(first, gradient(model, model.damping, given, jax.vmap), rtol=1e-9)
    for _ in range(5):
        np.testing.assert_array_equal(gradient(model, model.damping, given, rbd.batch_map), first)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="a process cannot be pinned to a core")
def test_sums_of_one_core_are_the_same_to_the_last_bit(cartpole):
    model, given, _ = cartpole
    many = jax.jit(jax.grad(loss, 1), static_argnums=3)(model, model.damping, given, rbd.batch_map)
    code = "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]); import test_threads; test_threads.alone()"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parent, capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == [x.hex() for x in many.tolist()]


def alone():
    """Prints the same gradient in a process with one core."""
    jax.config.update("jax_enable_x64", True)
    model = rbd.load("cartpole")
    given = tuple(np.random.default_rng(0).normal(size=(3, 20_001, 2)))
    print(
        *(
            x.hex()
            for x in jax.jit(jax.grad(loss, 1), static_argnums=3)(
                model, model.damping, given, rbd.batch_map
            ).tolist()
        )
    )


def loss(model, damping, given, mapping):
    known = eqx.tree_at(lambda model: model.damping, model, damping)
    a = mapping(lambda q, v, tau: rbd.forward_dynamics(known, q, v, tau))(*given)
    return jnp.sum(a * jnp.sin(a))


@pytest.mark.parametrize("size", [9, 30_000])
def test_without_memory(size, monkeypatch):
    """If a kernel cannot allocate memory, the call raises an error, with one and with several ranges."""
    none = "define internal ptr @malloc(i64 %bytes) {\n  ret ptr null\n}"
    replaced = lambda *given: foreign.function(*given).replace("declare ptr @malloc(i64)", none)
    monkeypatch.setattr(routine, "function", replaced)
    x = np.random.default_rng(0).normal(size=(size, 7))
    with pytest.raises(Exception, match="RESOURCE_EXHAUSTED.*no memory is left for what a kernel keeps"):
        jax.block_until_ready(rbd.batch_map(lambda x: jnp.outer(jnp.exp(x), x), fused=True)(x))
