"""Times of the dynamics of this library and its peers, side by side in one process.

    python benchmarks/run.py                          # the table of benchmarks/README.md
    python benchmarks/run.py --libraries rbd_jax,pin --robots "arm 9" --batches 4096 --operations fd,id
    python benchmarks/run.py --steps --batches 1,16,256,4096,65536 --cores 2     # steps a second of rollouts
    JAX_ENABLE_X64=0 python benchmarks/run.py --precision float32
    JAX_ENABLE_X64=0 python benchmarks/run.py --precision float32 --libraries rbd_jax,vmap --batches 65536     # on a GPU

Every figure is the median over rounds; all libraries run in each round, so that a busy period of the machine
affects all of them. Prints Markdown, and plots throughput against batch size and cost against degrees of
freedom.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]
os.environ.setdefault("JAX_ENABLE_X64", "1")
warnings.simplefilter("ignore")

import rbd_jax  # noqa: I001  (before JAX is used: it sets a compiler option)
import jax
import numpy as np
from peers import LIBRARIES
from rich.console import Console
from rich.progress import Progress
from robots import ROBOTS, balanced, chain


#: Reuse the memory of large results, as for repeated calls of the same function.
rbd_jax.parallel.keep_memory()

#: The operations: a label, and how many of the sample's arrays they take. A library without the operation
#: differentiates `fd`.
OPERATIONS = {
    "fd": ("forward dynamics", 3),
    "id": ("inverse dynamics", 3),
    "mass": ("mass matrix", 1),
    "dfd": ("derivatives of forward dynamics", 3),
    "did": ("derivatives of inverse dynamics", 3),
    "vjp": ("gradient of forward dynamics by q, v, tau", 3),
    "vjp_model": ("the same, and by every number of the model", 3),
    "rollout": ("1000 steps", 3),
    "rollout gradient": ("gradient through 1000 steps", 3),
}
STEPS, FEW = 1000, 100  # of a rollout; of a large batch
ROUNDS, LONGEST = 7, 8.0  # rounds, and the seconds after which no more rounds run
WARM = 6  # warm-up calls, until the memory of large results is reused
CALLS = 20  # calls per round on a GPU, which queues the next call while it runs one


class NotOffered(Exception):
    """The library has no such operation: its cell in the table stays empty."""


class Timed:
    """One operation of one library on one robot and batch: compiled, then run in rounds."""

    def __init__(self, library, robot, operation, size, dtype, steps=STEPS):
        rule = getattr(library, operation, None)
        takes = OPERATIONS[operation][1]
        samples = library.samples(robot, size, dtype)[:takes]
        if not hasattr(library, "batched"):
            if rule is None:
                raise NotOffered
            samples = [np.asarray(x) for x in samples]
            extra = (steps,) if operation == "rollout" else ()
            self.run = lambda: rule(*samples, *extra)
            self.compile_s = self.memory = None
            self.calls = 1
            return
        function = _function(library, operation, steps)
        start = time.perf_counter()
        compiled = jax.jit(library.batched(function)).lower(*samples).compile()
        self.compile_s = time.perf_counter() - start
        self.memory = compiled.memory_analysis().temp_size_in_bytes
        self.calls = 1 if jax.default_backend() == "cpu" else CALLS
        self.run = lambda: jax.block_until_ready([compiled(*samples) for _ in range(self.calls)])

    def seconds(self) -> float:
        start = time.perf_counter()
        self.run()
        return (time.perf_counter() - start) / self.calls


def _function(library, operation, steps):
    """Returns an operation as a function of one sample, differentiated automatically if the library has no derivative."""
    if hasattr(library, operation):
        own = getattr(library, operation)
        return (lambda *x: own(*x, steps)) if operation == "rollout" else own
    if operation == "rollout gradient" and hasattr(library, "rollout"):
        return jax.grad(lambda q, v, tau: library.rollout(q, v, tau, steps).sum(), argnums=(0, 1, 2))
    base = {"dfd": "fd", "vjp": "fd", "did": "id"}.get(operation)
    if base is None or not hasattr(library, base):
        raise NotOffered
    rule = getattr(library, base)
    if operation == "vjp":
        return jax.grad(lambda *x: rule(*x).sum(), argnums=(0, 1, 2))
    return jax.jacfwd(rule, argnums=(0, 1, 2))


def measure(robot, operation, size, names, dtype, failures):
    """Returns `{library: (µs a sample, compile s, temporary bytes a sample)}`."""
    timed = {}
    for name in names:
        try:
            timed[name] = Timed(LIBRARIES[name](robot, dtype), robot, operation, size, dtype)
            for _ in range(WARM):
                timed[name].seconds()
        except NotOffered:
            timed.pop(name, None)
        except Exception as error:  # a peer that does not support this robot is reported and skipped
            timed.pop(name, None)
            line = str(error).strip().splitlines()
            failures[name, robot.name, operation] = f"{type(error).__name__}: {line[0][:120] if line else ''}"
    times = {name: [] for name in timed}
    for _ in range(ROUNDS):
        for name, one in timed.items():
            if sum(times[name]) < LONGEST:
                times[name].append(one.seconds())
    return {
        name: (
            1e6 * float(np.median(times[name])) / size,
            one.compile_s,
            None if one.memory is None else one.memory / size,
        )
        for name, one in timed.items()
    }


def table(rows, names) -> str:
    """Returns Markdown: µs per sample of each library, and its ratio to the first library."""
    lines = ["| operation | robot | batch | " + " | ".join(names) + " | compile | memory |"]
    lines.append("|---|---|--:|" + "--:|" * (len(names) + 2))
    for (operation, robot, size), found in rows.items():
        own = found.get(names[0])
        cells = []
        for name in names:
            if name not in found:
                cells.append("–")
            elif name == names[0] or own is None:
                cells.append(f"**{found[name][0]:.3g}**")
            else:
                cells.append(f"{found[name][0]:.3g} ({own[0] / found[name][0]:.2f}x)")
        extra = [f"{own[1]:.1f} s", f"{own[2] / 1024:.1f} KiB"] if own and own[1] else ["–", "–"]
        label = OPERATIONS[operation][0]
        lines.append(f"| {label} | {robot} | {size} | " + " | ".join(cells + extra) + " |")
    return "\n".join(lines)


def steps_a_second(robots, sizes, names, dtype) -> str:
    """Returns Markdown: millions of steps per second of rollouts, over all samples of a batch.

    Libraries that loop over samples have the same speed for any batch size.
    """
    lines = ["| robot | " + " | ".join(f"{size:,}" for size in sizes) + " | compile |"]
    lines.append("|---|" + "--:|" * (len(sizes) + 1))
    for robot in robots:
        rates, compiled = {}, []
        for size in sizes:
            steps = FEW if size > 1 else STEPS
            for name in names:
                library = LIBRARIES[name](ROBOTS[robot], dtype)
                if not hasattr(library, "batched") and size > 1:
                    continue
                timed = Timed(library, ROBOTS[robot], "rollout", size, dtype, steps)
                compiled += [timed.compile_s] if timed.compile_s else []
                timed.seconds()
                seconds = []
                while len(seconds) < ROUNDS and sum(seconds) < LONGEST:
                    seconds.append(timed.seconds())
                rates[name, size] = size * steps / np.median(seconds) / 1e6
        for name in names:
            cells = " | ".join(f"{rates[name, size]:.3g}" if (name, size) in rates else "" for size in sizes)
            of_own = f"{min(compiled):.1f} to {max(compiled):.1f} s" if name == names[0] else ""
            lines.append(f"| {robot}{'' if name == names[0] else f', {name}'} | {cells} | {of_own} |")
    return "\n".join(lines)


def linear_cost(dtype) -> str:
    """Returns a table of forward dynamics time per degree of freedom, for 20 to 200 degrees of freedom."""
    lines = ["| tree | 20 dof | 50 dof | 100 dof | 200 dof | 200 against 20 | compile 20, 200 dof |"]
    lines.append("|---|--:|--:|--:|--:|--:|--:|")
    for make in (chain, balanced):
        each, compiled = [], []
        timed = {
            n: Timed(LIBRARIES["rbd_jax"](make(n), dtype), make(n), "fd", 512, dtype)
            for n in (20, 50, 100, 200)
        }
        rounds = [[one.seconds() for one in timed.values()] for _ in range(ROUNDS)]
        for n, seconds in zip(timed, np.median(rounds, axis=0)):
            each.append(1e6 * seconds / 512 / n)
            compiled.append(timed[n].compile_s)
        cells = " | ".join(f"{x:.3f}" for x in each)
        lines.append(
            f"| {make(2).name[:-2]} | {cells} | {each[-1] / each[0]:.2f} | {compiled[0]:.1f} s, {compiled[-1]:.1f} s |"
        )
    return "Microseconds for each degree of freedom:\n\n" + "\n".join(lines)


def draw(rows, names, path: Path) -> None:
    """Plots the throughput of forward dynamics against the batch size, and its cost against degrees of freedom."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    robots = list(dict.fromkeys(robot for _, robot, _ in rows))
    shown = "quadruped 18" if "quadruped 18" in robots else robots[0]
    for name in names:
        points = [
            (size, 1e6 / found[name][0])
            for (op, robot, size), found in rows.items()
            if op == "fd" and robot == shown and name in found
        ]
        if points:
            left.loglog(*zip(*sorted(points)), "o-", label=name)
        largest = max((size for op, _, size in rows if op == "fd"), default=0)
        costs = [
            (ROBOTS[robot].nv, found[name][0])
            for (op, robot, size), found in rows.items()
            if op == "fd" and size == largest and name in found
        ]
        if costs:
            right.loglog(*zip(*sorted(costs)), "o-", label=name)
    left.set(title=f"Forward dynamics, {shown} dof", xlabel="batch", ylabel="samples a second")
    right.set(
        title=f"Forward dynamics, batch of {largest}",
        xlabel="degrees of freedom",
        ylabel="µs a sample",
    )
    left.legend()
    for axes in (left, right):
        axes.grid(alpha=0.3, which="both")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def machine(names) -> str:
    device = jax.devices()[0]
    packages = {"pin": "pin", "mjx": "mujoco-mjx", "adam": "adam-robotics"}

    def number(name):
        try:
            return version(packages.get(name, name))
        except PackageNotFoundError:
            return "this checkout"

    model = "a CPU"
    if Path("/proc/cpuinfo").exists():
        lines = [x for x in Path("/proc/cpuinfo").read_text().splitlines() if x.startswith("model name")]
        model = lines[0].split(": ")[1] if lines else model
    where = model if device.platform == "cpu" else f"{device.device_kind}, beside {model}"
    versions = ", ".join(f"{name} {number(name)}" for name in names)
    return f"{where}, {os.cpu_count()} cores, Python {platform.python_version()}, jax {version('jax')}; {versions}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--libraries", default=",".join(name for name in LIBRARIES if name != "vmap"))
    parser.add_argument("--robots", default=",".join(ROBOTS))
    parser.add_argument("--operations", default=",".join(OPERATIONS))
    parser.add_argument("--batches", default="1,256,4096", help="of the batched operations")
    parser.add_argument("--precision", default="float64", choices=("float32", "float64"))
    parser.add_argument(
        "--linear", action="store_true", help="also the cost against degrees of freedom, alone"
    )
    parser.add_argument(
        "--steps", action="store_true", help="steps a second of rollouts instead, against the batch"
    )
    parser.add_argument("--cores", type=int, default=1, help="cores that all of them may use")
    parser.add_argument("--out", type=Path, help="write the table and the picture there too")
    options = parser.parse_args()
    names, dtype = options.libraries.split(","), np.dtype(options.precision)
    if unknown := set(names) - set(LIBRARIES):
        parser.error(f"no library {', '.join(sorted(unknown))}; there are {', '.join(LIBRARIES)}")
    if dtype == np.float64 and not jax.config.jax_enable_x64:
        parser.error("float64 needs JAX_ENABLE_X64=1")
    if hasattr(os, "sched_setaffinity"):  # before JAX creates its threads
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])
    if options.steps:
        sizes = [int(size) for size in options.batches.split(",")]
        print(
            f"{options.precision}, million steps a second, on {options.cores} of the cores. {machine(names)}\n\n"
            + steps_a_second(options.robots.split(","), sizes, names, dtype)
        )
        return
    rows, failures = {}, {}
    jobs = []
    for operation in options.operations.split(","):
        for robot in options.robots.split(","):
            sizes = [1] if "rollout" in operation else [int(size) for size in options.batches.split(",")]
            if operation in ("dfd", "did", "vjp", "vjp_model"):
                sizes = [size for size in sizes if 1 < size <= 4096] or sizes[:1]
            jobs += [(operation, robot, size) for size in sizes]
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=len(jobs))
        for operation, robot, size in jobs:
            progress.update(task, description=f"{operation}, {robot}, {size}")
            found = measure(ROBOTS[robot], operation, size, names, dtype, failures)
            if found:
                rows[operation, robot, size] = found
            progress.advance(task)
            jax.clear_caches()
    report = [
        f"{options.precision}, microseconds a sample (a rollout is one sample). {machine(names)}",
        table(rows, names),
    ]
    if options.linear:
        report.append(linear_cost(dtype))
    if failures:
        seen = {}
        for (name, robot, operation), why in failures.items():
            seen.setdefault((name, why), []).append(f"{operation} of {robot}")
        report.append("\n".join(f"- {name}: {why} ({len(what)} rows)" for (name, why), what in seen.items()))
    text = "\n\n".join(report) + "\n"
    print(text)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "table.md").write_text(text)
        draw(rows, names, options.out / "throughput.png")


if __name__ == "__main__":
    main()
