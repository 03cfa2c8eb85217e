"""Optimal control by DDP, compared with crocoddyl. Prints Markdown.

    python benchmarks/control.py                                  # the tables of benchmarks/README.md
    python benchmarks/control.py problems --crocoddyl PYTHON      # one of them: problems, alone, first, batch

- problems: the same problems in both libraries, alternating on one core: final cost, iterations and time.
- alone: the bundled problems that crocoddyl cannot express: final constraints and a free duration.
- first: time from the start of a new process with an empty cache to a first solution.
- batch: many problems at once on all cores, compared with the same problems in sequence on one core.

crocoddyl runs in a separate process and need not be installed in this environment: `--crocoddyl` names a Python
that has it (`pip install crocoddyl`), by default the current one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path


HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
os.environ.setdefault("JAX_ENABLE_X64", "1")
if "batch" in sys.argv[1:2]:
    os.environ.setdefault("JAX_NUM_CPU_DEVICES", str(os.cpu_count()))

import rbd_jax as rbd  # noqa: I001  (before JAX is used: it sets a compiler option)
import jax
import jax.numpy as jnp
import numpy as np
from rbd_jax.control import (
    DDP,
    Bounds,
    Code,
    Cost,
    Effort,
    Guess,
    Pose,
    Posture,
    Problem,
    Velocity,
    optimality,
    problems as bundled,
    solve,
)


ROUNDS, BATCH, PATIENCE = 5, 256, 1e-9
SOLVERS = {"DDP()": DDP(), 'DDP(hessian="gauss-newton")': DDP(hessian="gauss-newton")}


def bare(name: str) -> rbd.Model:
    """Returns a bundled robot without the parts that crocoddyl does not model: motors, damping and friction.

    Its hinges have finite limits, because Pinocchio represents hinges without limits as points on a circle.
    """
    model = rbd.detach(rbd.load(name), "actuator", "sensor", "shape", "site", "keyframe")
    none, far = jnp.zeros(model.nv), jnp.full(model.nq, 100.0)
    return replace(model, damping=none, friction=none, lower=-far, upper=far)


def reach(steps: int = 100) -> tuple[Problem, Guess]:
    """An arm moves its hand to the left, within its torque limits."""
    model = bare("arm7")
    there = rbd.forward_kinematics(model, jnp.array([0.9, 0.2, 0.0, -0.4, 0.0, 0.2, jnp.pi / 2]))
    goal = Pose("tool", jax.tree.map(lambda x: x[model.body_index("tool")], there))
    start = rbd.State(rbd.neutral(model), jnp.zeros(7))
    problem = Problem(
        model,
        start,
        steps=steps,
        dt=1.2 / steps,
        running=[1e-3 * Effort(), 1e-1 * Velocity()],
        terminal=[1e3 * goal, 1e1 * Velocity()],
        bounds=Bounds.of(model, q=False, v=False),
    )
    still = rbd.gravity_force(model, start.q)
    return problem, Guess(control=jnp.broadcast_to(still, (steps, 7)))


def swing_up(name: str, joint: str, start, goal, steps: int, dt: float) -> tuple[Problem, Guess]:
    """An underactuated pendulum, with one motor too few, swings up."""
    model = bare(name)
    most = jnp.full(1, 20.0)
    problem = Problem(
        model,
        rbd.State(jnp.array(start), jnp.zeros(2)),
        steps=steps,
        dt=dt,
        running=[1e-2 * Effort()],
        terminal=[1e3 * Posture(jnp.array(goal)), 1e2 * Velocity()],
        bounds=Bounds(control=(-most, most)),
        actuation=rbd.Actuation(joints=[joint]),
    )
    return problem, Guess(control=jnp.full((steps, 1), 1e-3))


CASES = {
    "arm, 7 joints, a pose; 100 steps": reach,
    "cartpole, swing-up; 100 steps": lambda: swing_up(
        "cartpole", "slide", [0, np.pi], [0.0, 0.0], 100, 0.025
    ),
    "acrobot, swing-up; 150 steps": lambda: swing_up("acrobot", "elbow", [0.0, 0], [np.pi, 0.0], 150, 0.02),
}


# The crocoddyl process.


class Peer:
    """A process that runs crocoddyl, or the reason why it is not available."""

    def __init__(self, python: str):
        self.process = subprocess.Popen(
            [python, str(HERE / "control_peer.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        )
        said = self._read()
        self.version = said.get("version")
        if self.version is None:
            print(
                f"crocoddyl is missing ({said['missing']} in {python}): pip install crocoddyl, or --crocoddyl PYTHON.\n"
            )

    def _read(self) -> dict:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process of crocoddyl ended with code {self.process.wait()}")
        return json.loads(line)

    def solved(self, given: dict) -> dict:
        assert self.process.stdin is not None
        print(json.dumps(given), file=self.process.stdin, flush=True)
        return self._read()


def in_words(problem: Problem, guess: Guess) -> dict:
    """Returns a problem in the peer's format.

    All joints are driven; joints without a motor have control bounds of zero.
    """
    model, nv = problem.model, problem.model.nv
    driven = np.array(
        [
            bool(x)
            for x in np.any(np.asarray(jax.vmap(lambda u: problem.told(u).tau)(jnp.eye(problem.nu))), axis=0)
        ]
    )
    spread = lambda rows: np.where(driven, np.asarray(rows) @ np.eye(nv)[driven], 0.0)
    lower, upper = (np.broadcast_to(side, problem.nu) for side in problem.bounds.control)

    def words(cost: Cost) -> tuple:
        residual, target = cost.residual, None
        if isinstance(residual, Pose):
            place = residual.target
            target = {
                "body": "tool",
                "rotation": place.rotation.tolist(),
                "position": place.position.tolist(),
            }
        elif isinstance(residual, Posture) and residual.target is not None:
            target = np.asarray(residual.target).tolist()
        return type(residual).__name__.lower(), target, float(cost.weight)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # URDF has no armature; it is passed separately
        urdf = rbd.to_urdf(model)
    return {
        "urdf": urdf,
        "armature": np.asarray(model.armature).tolist(),
        "gravity": np.asarray(model.gravity)[-3:].tolist(),
        "start": np.concatenate([problem.state.q, problem.state.v]).tolist(),
        "steps": problem.steps,
        "dt": float(problem.dt),
        "running": [words(cost) for cost in problem.running],
        "terminal": [words(cost) for cost in problem.terminal],
        "lower": spread(lower).tolist(),
        "upper": spread(upper).tolist(),
        "guess": spread(guess.control).tolist(),
        "bounded": True,
        "tolerance": PATIENCE,
        "iterations": 500,
    }


# The measurements.


def timed(function) -> tuple[float, object]:
    begin = time.perf_counter()
    found = jax.block_until_ready(function())
    return time.perf_counter() - begin, found


def compared(python: str) -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # the peer process inherits it
    peer = Peer(python)
    print(
        f"float64, one core, rbd_jax and crocoddyl {peer.version or '(missing)'} alternating, medians of {ROUNDS}.\n"
    )
    print(
        "| problem | solver | cost | iterations | ms an iteration | ms | to crocoddyl's: cost, an iteration, in all |"
    )
    print("|---|---|--:|--:|--:|--:|---|")
    for name, make in CASES.items():
        problem, guess = make()
        runs = {label: partial(solve, problem, solver, guess) for label, solver in SOLVERS.items()}
        took = {label: [] for label in runs} | {"crocoddyl": []}
        found = {label: run() for label, run in runs.items()}
        words = in_words(problem, guess)
        for _ in range(ROUNDS):
            for label, run in runs.items():
                took[label].append(timed(run)[0])
            if peer.version:
                theirs = peer.solved(words)
                took["crocoddyl"].append(theirs["seconds"])
        rows = [
            (label, float(one.cost), int(one.iterations), Code(int(one.code)) == Code.CONVERGED)
            for label, one in found.items()
        ]
        if peer.version:
            rows.append(("crocoddyl", theirs["cost"], theirs["iterations"], theirs["converged"]))
        for label, cost, iterations, converged in rows:
            whole = float(np.median(took[label])) * 1e3
            each, ratio = whole / max(iterations, 1), ""
            if peer.version and label != "crocoddyl":
                base = float(np.median(took["crocoddyl"])) * 1e3
                ratio = f"{cost / rows[-1][1]:.4f}, {each / (base / rows[-1][2]):.2f}, {whole / base:.2f}"
            mark = "" if converged else " (not converged)"
            print(
                f"| {name} | {label} | {cost:.5g} | {iterations}{mark} | {each:.3g} | {whole:.4g} | {ratio} |",
                flush=True,
            )


def alone() -> None:
    """Measures the bundled problems with constraints."""
    print("\n| bundled problem | solver | cost | violation | iterations | s | of second order |")
    print("|---|---|--:|--:|--:|--:|---|")
    for name in bundled.NAMES:
        problem, solver, guess = bundled.load(name)
        solve(problem, solver, guess)
        took, found = timed(partial(solve, problem, solver, guess))
        says = "a strict minimum" if optimality(problem, found).minimum else "no minimum"
        print(
            f"| {name} | {type(solver).__name__} | {float(found.cost):.6g} | {float(found.violation):.1e} | "
            f"{int(found.iterations)} | {took:.3g} | {Code(int(found.code)).name.lower()}, {says} |",
            flush=True,
        )


def first() -> None:
    """Measures the time from starting `python` to a solution, including compilation."""
    code = (
        "import control as c\np, g = c.reach()\ns = c.solve(p, c.DDP(), g)\nprint(int(s.code), float(s.cost))"
    )
    print("\n| from nothing to a solved reach of the arm, 100 steps | s | of this on CPUs |\n|---|--:|--:|")
    for label in ("empty cache", "the same again"):
        if label == "empty cache":
            folder = tempfile.TemporaryDirectory()
        env = os.environ | {"JAX_COMPILATION_CACHE_DIR": folder.name, "PYTHONPATH": str(HERE)}
        before = os.times()
        begin = time.perf_counter()
        said = subprocess.run(
            [sys.executable, "-c", code], env=env, check=True, capture_output=True, text=True
        )
        took, after = time.perf_counter() - begin, os.times()
        assert said.stdout.split()[0] == "0", said.stdout
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        print(f"| {label} | {took:.1f} | {cpu:.1f} |", flush=True)
    folder.cleanup()


def batch() -> None:
    """Measures reaches from many postures."""
    problem, guess = reach()
    postures = 0.1 * jax.random.normal(jax.random.key(0), (BATCH, 7))
    states = rbd.State(postures, jnp.zeros((BATCH, 7)))
    one = lambda state: solve(problem.starting(state), DDP(), guess)
    many = rbd.batch_map(one)
    alone = jax.jit(one)
    row = lambda i: jax.tree.map(lambda x: x[i], states)
    single = lambda: [alone(row(i)) for i in range(0, BATCH, 16)]
    jax.block_until_ready((many(states), single()))
    ratios, times = [], []
    for _ in range(ROUNDS):
        each, whole = timed(single)[0] / (BATCH // 16), timed(lambda: many(states))[0] / BATCH
        ratios.append(whole / each)
        times.append((each, whole))
    each, whole = np.median(times, axis=0) * 1e3
    found = many(states)
    print(f"\n| {BATCH} reaches of the arm, {len(jax.devices())} devices | ms a problem | to one at a time |")
    print("|---|--:|--:|")
    print(f"| one at a time | {each:.3g} | |")
    print(f"| `batch_map` | {whole:.3g} | {np.median(ratios):.2f} |")
    print(f"\n{int(np.sum(np.asarray(found.code) == 0))} of {BATCH} converged.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", default=["problems", "alone", "first", "batch"])
    parser.add_argument("--crocoddyl", default=sys.executable, metavar="PYTHON")
    given = parser.parse_args()
    if len(given.tables) > 1:  # each in a separate process, because they differ in devices and cores
        for table in given.tables:
            subprocess.run([sys.executable, __file__, table, "--crocoddyl", given.crocoddyl], check=True)
        return
    {"problems": lambda: compared(given.crocoddyl), "alone": alone, "first": first, "batch": batch}[
        given.tables[0]
    ]()


if __name__ == "__main__":
    main()
