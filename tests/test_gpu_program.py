"""Counts of benchmarks/gpu_program.py, and upper bounds on the size of GPU programs."""

import importlib.util
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def counted():
    path = Path(__file__).resolve().parent.parent / "benchmarks" / "gpu_program.py"
    spec = importlib.util.spec_from_file_location("gpu_program", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    sys.modules[spec.name] = module  # where its dataclasses look up their annotations
    spec.loader.exec_module(module)
    sys.path[:] = before
    return module


PROGRAM = """
HloModule jit_f

%fused (a: f32[4,8]) -> f32[4,8] {
  %a = f32[4,8]{1,0} parameter(0)
  ROOT %b = f32[4,8]{1,0} add(%a, %a)
}

%row (x: f32[10,8], r: f32[8]) -> f32[10,8] {
  ROOT %u = f32[10,8]{1,0} dynamic-update-slice(%x, %r, %i)
}

%body (t: (f32[10,8], f32[8])) -> (f32[10,8], f32[8]) {
  %t = (f32[10,8]{1,0}, f32[8]{0}) parameter(0)
  %x = f32[10,8]{1,0} get-tuple-element(%t), index=0
  %r = f32[8]{0} get-tuple-element(%t), index=1
  %w = f32[10,8]{1,0} fusion(%x, %r), kind=kLoop, calls=%row
  ROOT %o = (f32[10,8]{1,0}, f32[8]{0}) tuple(%w, %r)
}

ENTRY %main (p: f32[4,8]) -> f32[4,8] {
  %p = f32[4,8]{1,0} parameter(0)
  %f = f32[4,8]{1,0} fusion(%p), kind=kLoop, calls=%fused
  %l = (f32[10,8]{1,0}, f32[8]{0}) while(%s), condition=%c, body=%body, backend_config={"known_trip_count":{"n":"10"}}
  ROOT %g = f32[4,8]{1,0} fusion(%f, %p), kind=kLoop, calls=%fused
}
"""


def test_what_is_counted(counted):
    """Ten iterations of a kernel and a loop step, and two kernels; a write to one row counts only this row."""
    program = counted.Program(PROGRAM)
    assert program.kernels == 10 * 2 + 2
    assert program.traffic == 10 * 2 * 8 * 4 + (2 + 3) * 4 * 8 * 4


@pytest.mark.slow
@pytest.mark.parametrize(
    "operation, robot, kernels, traffic",
    [
        ("fd", "arm7", 140, 39),
        ("fd", "humanoid", 385, 268),
        ("id", "humanoid", 90, 56),
        ("mass", "humanoid", 75, 40),
    ],
)
def test_programs_stay_small(counted, operation, robot, kernels, traffic):
    """JAX compiles for a GPU without having one. Single precision, 65,536 samples; KiB per sample."""
    pytest.importorskip("jax_cuda12_plugin")
    program, seconds = counted.compiled(operation, robot, 65536, counted.described_device())
    assert program.kernels <= kernels and program.traffic / 65536 / 1024 <= traffic and seconds < 90


@pytest.mark.slow
@pytest.mark.parametrize(
    "operation, robot, kernels, traffic",
    [
        ("fd", "arm7", 1, 0.4),
        ("id", "quadruped", 1, 3),
        ("fd", "humanoid", 2, 6.5),
        ("rollout", "arm7", 9, 80),
    ],
)
def test_fused_programs_stay_on_the_chip(counted, operation, robot, kernels, traffic):
    """One kernel, plus the evaluation of a rollout; KiB per sample, including register spills."""
    pytest.importorskip("jax_cuda12_plugin")
    found = counted.fused(operation, robot, 65536, counted.described_device())
    assert found.program.kernels <= kernels and found.program.traffic / 65536 / 1024 <= traffic
    assert found.seconds < 90
