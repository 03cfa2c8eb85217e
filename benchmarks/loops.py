"""Cost of constrained dynamics against the number of loops, compared with Pinocchio. Prints Markdown.

    python benchmarks/loops.py            # the table of benchmarks/README.md

Four-bars in a row share their posts; carried four-bars stand on each other's couplers. A ball joint closes each
loop: three rows, one of them redundant because the mechanism moves in a plane. Times are medians over rounds in
which all alternate.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path


sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("JAX_ENABLE_X64", "1")

import rbd_jax as rbd  # noqa: I001  (before JAX is used: it sets a compiler option)
import jax
import jax.numpy as jnp
import numpy as np
import pinocchio as pin
from rich.console import Console
from rich.progress import track
from rbd_jax import constraints as rc, joints


COUNTS = (1, 2, 4, 8, 16, 32, 64, 128)
METHODS = ("elimination", "range_space")
LARGEST = {"range_space": 64}
TIP = rbd.Transform.from_xyz_rpy((1.0, 0.0, 0.0))
HERE = rbd.Transform.from_xyz_rpy()
ROD = rbd.Inertia.box(1.0, (1.0, 0.02, 0.02), (0.5, 0.0, 0.0))
ROUNDS = 9


def side_by_side(count):
    """Returns bodies as (name, parent, placement), loops as pairs of bodies whose tips meet, and angles."""
    at = lambda x: rbd.Transform.from_xyz_rpy((float(x), 0.0, 0.0))
    bodies = [(f"post {i}", "world", at(i)) for i in range(count + 1)]
    bodies += [(f"beam {i}", f"post {i}", TIP) for i in range(count)]
    angles = [1.1] * (count + 1) + [-1.1] * count
    return bodies, [(f"beam {i}", f"post {i + 1}") for i in range(count)], angles


def carried(count):
    bodies, loops, base = [], [], "world"
    for i in range(count):
        bodies += [
            (f"crank {i}", base, HERE),
            (f"coupler {i}", f"crank {i}", TIP),
            (f"follower {i}", base, TIP),
        ]
        base = f"coupler {i}"
        loops.append((base, f"follower {i}"))
    return bodies, loops, [0.7, -0.7, 0.7] * count


def ours(bodies, loops):
    builder = rbd.ModelBuilder(gravity=(0.0, -9.81, 0.0))
    for name, parent, place in bodies:
        builder.add_body(name, parent, joints.Revolute(), place, ROD)
    for a, b in loops:
        builder.add_constraint(rc.Connect(a, TIP.position, b, TIP.position))
    return builder.build()


def depth_first(bodies, base):
    """Yields bodies depth first; Pinocchio requires contiguous subtrees and otherwise returns wrong results."""
    for body in bodies:
        if body[1] == base:
            yield body
            yield from depth_first(bodies, body[0])


def theirs(bodies, loops):
    model, ids = pin.Model(), {"world": 0}
    model.gravity.linear = np.array([0.0, -9.81, 0.0])
    rod = pin.Inertia(1.0, np.array([0.5, 0.0, 0.0]), np.diag([0.02**2 / 6, 1.0004 / 12, 1.0004 / 12]))
    for name, parent, place in depth_first(bodies, "world"):
        at = pin.SE3(np.asarray(place.rotation), np.asarray(place.position))
        ids[name] = model.addJoint(ids[parent], pin.JointModelRZ(), at, name)
        model.appendBodyToJoint(ids[name], rod, pin.SE3.Identity())
    tip = pin.SE3(np.eye(3), np.array([1.0, 0.0, 0.0]))
    kind = pin.ContactType.CONTACT_3D
    ties = pin.StdVec_RigidConstraintModel()
    for a, b in loops:
        ties.append(pin.RigidConstraintModel(kind, model, ids[a], tip, ids[b], tip, pin.LOCAL))
    return model, ties, ids


class Ours:
    def __init__(self, parts, method):
        bodies, loops, angles = parts
        model = ours(bodies, loops)
        self.samples = max(8, 256 // len(loops))
        q = jnp.tile(jnp.array(angles), (self.samples, 1))

        def run(q, v):
            dynamics = lambda x: rbd.constrained_dynamics(model, *x, x[1], method=method).acceleration
            return jax.lax.map(dynamics, (q, v))

        start = time.perf_counter()
        self.arguments = q, jnp.zeros_like(q)
        self.run = jax.jit(run).lower(*self.arguments).compile()
        self.compile_s = time.perf_counter() - start
        self.result = np.asarray(self.run(*self.arguments)[0])

    def seconds(self):
        start = time.perf_counter()
        jax.block_until_ready(self.run(*self.arguments))
        return (time.perf_counter() - start) / self.samples


class Theirs:
    compile_s = None

    def __init__(self, parts, _):
        bodies, loops, angles = parts
        self.model, self.ties, ids = theirs(bodies, loops)
        self.data = self.model.createData()
        self.ties_data = pin.StdVec_RigidConstraintData()
        for tie in self.ties:
            self.ties_data.append(tie.createData())
        order = [self.model.joints[ids[name]].idx_v for name, _, _ in bodies]
        self.q = np.zeros(self.model.nq)
        self.q[order] = angles
        self.still = np.zeros(self.model.nv)
        self.settings = pin.ProximalSettings(1e-10, 1e-10, 20)
        pin.initConstraintDynamics(self.model, self.data, self.ties, self.ties_data)
        self.result = self.once()[order]

    def once(self):
        arguments = (
            self.model,
            self.data,
            self.q,
            self.still,
            self.still,
            self.ties,
            self.ties_data,
            self.settings,
        )
        return pin.constraintDynamics(*arguments)

    def seconds(self):
        start = time.perf_counter()
        for _ in range(8):
            self.once()
        return (time.perf_counter() - start) / 8


def main() -> None:
    runners = {**{method: Ours for method in METHODS}, "pinocchio": Theirs}
    print(
        "| mechanism | loops | degrees of freedom | "
        + " | ".join(runners)
        + " | elimination, a loop | compile |"
    )
    print("|---|--:|--:|" + "--:|" * (len(runners) + 2))
    jobs = [(make, count) for make in (side_by_side, carried) for count in COUNTS]
    for make, count in track(jobs, console=Console(stderr=True)):
        parts = make(count)
        racers = {
            name: kind(parts, name) for name, kind in runners.items() if count <= LARGEST.get(name, count)
        }
        results = [racer.result for racer in racers.values()]
        for result in results[1:]:
            np.testing.assert_allclose(result, results[0], rtol=1e-5, atol=1e-5)
        times = {name: [] for name in racers}
        for _ in range(ROUNDS):
            for name, racer in racers.items():
                times[name].append(racer.seconds())
        medians = {name: 1e6 * float(np.median(values)) for name, values in times.items()}
        cells = [f"{medians[name]:.1f}" if name in medians else "–" for name in runners]
        share = f"{medians['elimination'] / count:.1f}"
        compile_s = f"{racers['elimination'].compile_s:.1f} s"
        label = make.__name__.replace("_", " ")
        print(
            "| " + " | ".join([label, str(count), str(len(parts[0])), *cells, share, compile_s]) + " |",
            flush=True,
        )
        jax.clear_caches()


if __name__ == "__main__":
    main()
