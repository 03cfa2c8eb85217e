"""Estimates the cost of compiled programs on an H100 without having one: XLA compiles for a described device.

    pip install --no-deps jax-cuda12-plugin jax-cuda12-pjrt nvidia-cuda-nvcc-cu12 nvidia-cuda-nvrtc-cu12 nvidia-cublas-cu12
    python benchmarks/gpu_program.py
    python benchmarks/gpu_program.py --robots humanoid --operations fd,id --batch 65536
    python benchmarks/gpu_program.py --fused
    python benchmarks/gpu_program.py --specialized --operations fd,id

The script counts kernels, with loops multiplied by their trip counts, and the bytes that each kernel reads and writes.
The time model is traffic divided by the memory bandwidth plus 2 µs per kernel. It ignores arithmetic and the savings of
caches. It shows the effect of a change on a program, and does not predict the run time on a device. `h100.txt` describes
the device. The packages must have the same version as jax.

With `--specialized`, `rbd.specialize` specializes the function for the robot before it is mapped. With `--fused`, the
program is a single kernel (`batch_map(fused=True)`). Register spills also count as traffic: the bytes that the kernel and
its assembler store and load per thread. They are assumed to occur in each iteration of a loop.
"""

from __future__ import annotations

import argparse
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


HERE = Path(__file__).resolve().parent
#: Target architecture of the assembler.
DEVICE = "sm_90"
sys.path[:0] = [str(HERE.parent)]

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax.experimental import topologies  # noqa: E402

import rbd_jax as rbd  # noqa: E402
from rbd_jax.compiler.primitive import mapped  # noqa: E402


BANDWIDTH, PER_KERNEL = 3.35e12, 2e-6  # bytes per second, s

SIZES = {"pred": 1, "s8": 1, "u8": 1, "s32": 4, "u32": 4, "f32": 4, "s64": 8, "u64": 8, "f64": 8}

#: Steps of a rollout.
STEPS = 100

#: Instructions that are not kernels.
IDLE = ("parameter", "constant", "get-tuple-element", "tuple", "bitcast")

LINE = re.compile(r"\s*(?:ROOT )?%?([\w.\-]+) = (\(.*?\)|\S+) ([\w\-]+)\((.*)")


def gradient(model, q, v, tau):
    by = lambda q, v, tau: jnp.sum(rbd.forward_dynamics(model, q, v, tau))
    return jax.grad(by, argnums=(0, 1, 2))(q, v, tau)


def rollout(model, q, v, tau):
    return rbd.rollout(model, rbd.State(q, v), tau, dt=1e-3)


OPERATIONS = {
    "fd": ("forward dynamics", rbd.forward_dynamics),
    "id": ("inverse dynamics", rbd.inverse_dynamics),
    "mass": ("mass matrix", lambda model, q, v, tau: rbd.mass_matrix(model, q)),
    "vjp": ("gradient of forward dynamics", gradient),
    "rollout": (f"rollout of {STEPS} steps", rollout),
}


class Program:
    """A compiled program: the number of kernels it starts, and the bytes that they read and write."""

    def __init__(self, text: str):
        blocks = re.finditer(r"^(ENTRY )?%?([\w.\-]+) \([^\n]*\{\n(.*?)^\}", text, re.S | re.M)
        self.blocks = {"ENTRY" if block[1] else block[2]: block[3] for block in blocks}
        self.kernels, self.traffic = self.cost("ENTRY")

    def cost(self, name: str) -> tuple[int, int]:
        kernels = traffic = 0
        sizes: dict[str, int] = {}
        for line in self.blocks[name].splitlines():
            found = LINE.match(line)
            if found is None:
                continue
            result, shape, operation, rest = found.groups()
            sizes[result] = size_of(shape)
            if operation in IDLE:
                continue
            if operation == "while":
                body = re.search(r"body=%?([\w.\-]+)", rest)
                trips = re.search(r'known_trip_count":\{"n":"(\d+)"', rest)
                assert body is not None
                count = int(trips[1]) if trips else 1
                own, moved = self.cost(body[1])
                kernels, traffic = kernels + count * (own + 1), traffic + count * moved
                continue
            kernels += 1
            read = [sizes.get(x, 0) for x in re.findall(r"%([\w.\-]+)", rest.split("), ")[0])]
            merged = re.search(r"calls=%?([\w.\-]+)", rest)
            inside = self.blocks.get(merged[1], "") if merged else ""
            if "dynamic-update-slice" in inside:  # the kernel touches only one row of its destination
                read.sort()
                traffic += 2 * sum(read[:-1])
            elif "dynamic-slice" in inside:
                traffic += 2 * sizes[result]
            else:
                traffic += sizes[result] + sum(read)
        return kernels, traffic


def size_of(shape: str) -> int:
    total = 0
    for kind, sides in re.findall(r"(\w+)\[([\d,]*)\]", shape):
        count = 1
        for side in filter(None, sides.split(",")):
            count *= int(side)
        total += count * SIZES.get(kind, 0)
    return total


def described_device():
    """Returns a described H100; no device is needed."""
    os.environ.setdefault("JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "1")  # CUDA is not installed
    described = (HERE / "h100.txt").read_text()
    try:
        there = topologies.get_topology_desc(
            "h100", platform="cuda", target_config=described, topology="1x1x1"
        )
    except Exception as error:
        raise SystemExit(
            f"error: this jax cannot compile for a GPU ({error}); see the top of this file"
        ) from None
    return jax.sharding.SingleDeviceSharding(there.devices[0])


def of_one(operation: str, robot: str, specialized: bool) -> tuple[Callable, rbd.Model]:
    """Returns a function of one sample in single precision, level by level as on a GPU, and its model."""
    model = rbd.with_traversal(rbd.astype(rbd.load(robot), jnp.float32), "levels")
    function = OPERATIONS[operation][1]
    return rbd.specialize(function, model) if specialized else functools.partial(function, model), model


def compiled(
    operation: str, robot: str, batch: int, device, specialized: bool = False
) -> tuple[Program, float]:
    """Returns the program for a batch, and the seconds to trace and compile it."""
    function, model = of_one(operation, robot, specialized)
    start = time.perf_counter()
    mapped = jax.jit(jax.vmap(function), in_shardings=device, out_shardings=device)
    program = mapped.lower(*arguments(operation, model, batch)).compile()
    return Program(program.as_text()), time.perf_counter() - start


def arguments(operation: str, model, batch: int) -> list[jax.ShapeDtypeStruct]:
    steps = (STEPS,) if operation == "rollout" else ()
    shapes = (batch, model.nq), (batch, model.nv), (batch, *steps, model.nv)
    return [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]


@dataclass
class Fused:
    """A compiled program with a single kernel, and possibly operations after the kernel.

    - `registers`, `spilled`: registers per thread of the kernel, and the bytes that it stores and loads because
      of spills.
    - `seconds`: time to trace, simplify, compile and assemble.
    """

    program: Program
    registers: int
    spilled: int
    seconds: float


def fused(operation: str, robot: str, batch: int, device, specialized: bool = False) -> Fused:
    """Compiles a program into one kernel."""
    function, model = of_one(operation, robot, specialized)
    shapes = arguments(operation, model, batch)
    in_one_kernel = lambda *args: mapped("gpu_program", lambda args: function(*args), args, True, _refused)
    start = time.perf_counter()
    lowered = jax.jit(in_one_kernel, in_shardings=device, out_shardings=device).lower(*shapes)
    compiled = lowered.compile()
    seconds = time.perf_counter() - start
    registers, spilled, assembling = assembled(kernel_in(lowered.as_text()))
    program = Program(compiled.as_text())
    rounds = STEPS if operation == "rollout" else 1
    program.traffic += batch * rounds * spilled
    return Fused(program, registers, spilled, seconds + assembling)


def _refused(*_):
    raise AssertionError("the program must be a single kernel")


def kernel_in(program: str) -> str:
    """Returns the PTX source of the kernel in a program."""
    (found,) = re.findall(r'kernel_data = "((?:[^"\\]|\\.)*)"', program)
    return re.sub(r"\\([0-9A-F]{2})", lambda code: chr(int(code[1], 16)), found)


def assembled(kernel: str) -> tuple[int, int, float]:
    """Returns the registers per thread, the spilled bytes (stores and loads), and the assembly time in seconds."""
    places = [Path(folder) / "nvidia" / "cuda_nvcc" / "bin" for folder in sys.path]
    assembler = shutil.which("ptxas", path=os.pathsep.join(map(str, [*places, *os.get_exec_path()])))
    if assembler is None:
        raise SystemExit("error: there is no ptxas; see the top of this file")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernel.ptx")
        source.write_text(kernel)
        command = [assembler, "-v", "--gpu-name", DEVICE, "-o", f"{folder}/kernel.cubin", str(source)]
        start = time.perf_counter()
        told = subprocess.run(command, capture_output=True, text=True, check=True).stderr
        seconds = time.perf_counter() - start
    registers = re.search(r"Used (\d+) registers", told)
    assert registers is not None
    planned = re.findall(r"(?:ld|st)[.\w]*\.local\.[bfu](\d+)", kernel)
    left_over = map(int, re.findall(r"(\d+) bytes spill", told))
    return int(registers[1]), sum(int(bits) // 8 for bits in planned) + sum(left_over), seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robots", default="arm7,quadruped,humanoid")
    parser.add_argument("--operations", default="fd,id,mass,vjp")
    parser.add_argument("--batch", type=int, default=65536)
    parser.add_argument("--fused", action="store_true", help="in one kernel")
    parser.add_argument("--specialized", action="store_true", help="of a function made for the robot")
    told = parser.parse_args()
    device = described_device()
    columns = "| kernels | KiB a sample | compile | modelled, million a second |"
    print(f"| operation | robot {'| registers | spilled ' if told.fused else ''}{columns}", flush=True)
    print(f"|---|---|--:|--:|--:|--:|{'--:|--:|' if told.fused else ''}", flush=True)
    for operation in told.operations.split(","):
        for robot in told.robots.split(","):
            if told.fused:
                found = fused(operation, robot, told.batch, device, told.specialized)
                program, seconds, own = (
                    found.program,
                    found.seconds,
                    f"{found.registers} | {found.spilled} | ",
                )
            else:
                program, seconds = compiled(operation, robot, told.batch, device, told.specialized)
                own = ""
            took = program.traffic / BANDWIDTH + program.kernels * PER_KERNEL
            print(
                f"| {OPERATIONS[operation][0]} | {robot} | {own}{program.kernels} | {program.traffic / told.batch / 1024:.1f} | "
                f"{seconds:.1f} s | {told.batch / took / 1e6:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
