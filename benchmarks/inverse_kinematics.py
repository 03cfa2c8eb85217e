"""Success rate and time of inverse kinematics for a Panda-like arm, compared with Pinocchio and Pink. Prints Markdown.

    python benchmarks/inverse_kinematics.py                            # a thousand poses; needs: pip install pin
    python benchmarks/inverse_kinematics.py --poses 100 --pink PYTHON  # a Python with pin-pink and quadprog

Every pose is that of a random configuration within the limits. It counts as reached if position and rotation
are within 1e-6, in m and rad, and all joints are within their limits. The peers solve for velocities and have
no restarts. They get the same number of starts with the same maximum number of steps, in sequence, in C++
called from Python.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np


#: Number of starts, steps of each start, and tolerance of a reached pose.
STARTS, STEPS, TOLERANCE = 32, 50, 1e-6

#: Panda parameters: a, alpha and d of each frame (Craig), and joint limits; the flange is 0.107 m further.
JOINTS = (
    (0.0, 0.0, 0.333, -2.8973, 2.8973),
    (0.0, -np.pi / 2, 0.0, -1.7628, 1.7628),
    (0.0, np.pi / 2, 0.316, -2.8973, 2.8973),
    (0.0825, np.pi / 2, 0.0, -3.0718, -0.0698),
    (-0.0825, -np.pi / 2, 0.384, -2.8973, 2.8973),
    (0.0, np.pi / 2, 0.0, -0.0175, 3.7525),
    (0.088, np.pi / 2, 0.107, -2.8973, 2.8973),
)


def urdf() -> str:
    """Returns the arm, with its flange as the last link."""
    inertia = '<inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/>'
    links = "".join(
        f'<link name="link{k}"><inertial><mass value="1"/>{inertia}</inertial></link>' for k in range(8)
    )
    joints = ""
    for k, (a, alpha, d, lower, upper) in enumerate(JOINTS):
        y, z = -np.sin(alpha) * d, np.cos(alpha) * d
        joints += (
            f'<joint name="joint{k + 1}" type="revolute"><parent link="link{k}"/><child link="link{k + 1}"/>'
            f'<origin xyz="{a} {y} {z}" rpy="{alpha} 0 0"/><axis xyz="0 0 1"/>'
            f'<limit lower="{lower}" upper="{upper}" velocity="1000" effort="87"/></joint>'
        )
    return f'<robot name="panda">{links}{joints}</robot>'


def ours(path: str, configurations: np.ndarray) -> dict[str, dict]:
    """Solves with this library, one pose at a time, compiled as a loop over the poses."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    os.environ.setdefault("JAX_ENABLE_X64", "1")
    import rbd_jax as rbd  # noqa: I001  (before JAX is used: it sets a compiler option)
    import jax
    import jax.numpy as jnp

    model = rbd.load(path)
    last = model.body_index("link7")
    targets = rbd.batch_map(lambda q: rbd.forward_kinematics(model, q)[last])(jnp.asarray(configurations))

    def reach(target):
        pose = rbd.control.Pose("link7", target)
        return rbd.control.inverse_kinematics(model, [pose], starts=STARTS, max_steps=STEPS)

    batched = rbd.batch_map(reach)
    start = time.perf_counter()
    jax.block_until_ready(batched(targets))
    first = time.perf_counter() - start
    start = time.perf_counter()
    found = jax.block_until_ready(batched(targets))
    taken = time.perf_counter() - start
    one = jax.jit(reach)
    poses = [jax.tree.map(lambda x, k=k: x[k], targets) for k in range(min(100, len(configurations)))]
    jax.block_until_ready(one(poses[0]))
    start = time.perf_counter()
    for pose in poses:
        jax.block_until_ready(one(pose))
    single = (time.perf_counter() - start) / len(poses)
    print(
        f"rbd_jax: {first - taken:.1f} s to compile; a single pose {1e6 * single:.0f} µs",
        file=sys.stderr,
    )
    return {
        "rbd_jax": {
            "q": np.asarray(found.q).tolist(),
            "seconds": taken,
            "steps": float(found.iterations.mean()),
        }
    }


def peers(path: str, configurations: np.ndarray) -> dict[str, dict]:
    """Solves with the damped least squares of Pinocchio's documentation, clipped to limits, and with Pink if available."""
    import pinocchio as pin

    model = pin.buildModelFromUrdf(path)
    data = model.createData()
    frame = model.getFrameId("link7")
    draw = np.random.default_rng(1)
    middle = (model.lowerPositionLimit + model.upperPositionLimit) / 2

    def pose_of(q):
        pin.framesForwardKinematics(model, data, q)
        return data.oMf[frame].copy()

    def damped(goal, q):
        """Returns the error before one step, and the configuration after it."""
        off = pose_of(q).actInv(goal)
        error = pin.log6(off).vector
        J = -pin.Jlog6(off.inverse()) @ pin.computeFrameJacobian(model, data, q, frame, pin.LOCAL)
        step = -J.T @ np.linalg.solve(J @ J.T + 1e-6 * np.eye(6), error)
        return np.abs(error).max(), np.clip(q + step, model.lowerPositionLimit, model.upperPositionLimit)

    steppers = {"Pinocchio, damped least squares": damped}
    try:
        import pink
        from pink.limits import ConfigurationLimit
        from pink.tasks import FrameTask

        task = FrameTask("link7", position_cost=1.0, orientation_cost=1.0, lm_damping=1e-3)
        limits = [ConfigurationLimit(model, config_limit_gain=0.95)]

        def by_pink(goal, q):
            at = pink.Configuration(model, data, q)
            task.set_target(goal)
            error = np.abs(task.compute_error(at)).max()
            if error < TOLERANCE / 10:
                return error, q
            v = pink.solve_ik(at, [task], 1.0, solver="quadprog", limits=limits, safety_break=False)
            return error, np.clip(
                pin.integrate(model, q, v), model.lowerPositionLimit, model.upperPositionLimit
            )

        steppers["Pink, quadprog"] = by_pink
    except ImportError:
        pass
    results = {}
    for name, stepper in steppers.items():
        goals, found, steps = [pose_of(q) for q in configurations], [], 0
        start = time.perf_counter()
        for goal in goals:
            q, best = middle.copy(), (np.inf, middle)
            for turn in range(STARTS):
                q = (
                    middle.copy()
                    if turn == 0
                    else draw.uniform(model.lowerPositionLimit, model.upperPositionLimit)
                )
                for _ in range(STEPS):
                    error, following = stepper(goal, q)
                    steps += 1
                    if error < best[0]:
                        best = error, q
                    if error < TOLERANCE / 10:
                        break
                    q = following
                if best[0] < TOLERANCE / 10:
                    break
            found.append(best[1])
        taken = time.perf_counter() - start
        results[name] = {"q": np.array(found).tolist(), "seconds": taken, "steps": steps / len(goals)}
    return results


def missed(path: str, configurations: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Returns the error of each pose as Pinocchio computes it; infinite for configurations beyond the limits."""
    import pinocchio as pin

    model = pin.buildModelFromUrdf(path)
    data = model.createData()
    frame = model.getFrameId("link7")

    def pose_of(q):
        pin.framesForwardKinematics(model, data, q)
        return data.oMf[frame].copy()

    off = [
        np.abs(pin.log6(pose_of(q).actInv(pose_of(p))).vector).max()
        for p, q in zip(configurations, found, strict=True)
    ]
    within = (found >= model.lowerPositionLimit - 1e-9) & (found <= model.upperPositionLimit + 1e-9)
    return np.where(within.all(axis=1), off, np.inf)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--poses", type=int, default=1000)
    parser.add_argument("--pink", metavar="PYTHON", help="an interpreter that has Pink; by default this one")
    parser.add_argument("--peers", metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    lower, upper = (np.array([joint[k] for joint in JOINTS]) for k in (3, 4))
    configurations = np.random.default_rng(0).uniform(lower, upper, (options.poses, 7))
    if options.peers:
        print(json.dumps(peers(options.peers, configurations)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "panda.urdf"))
        Path(path).write_text(urdf(), encoding="utf-8")
        results = ours(path, configurations)
        python = options.pink or sys.executable
        command = [python, __file__, "--poses", str(options.poses), "--peers", path]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        said = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
        results |= json.loads(said.splitlines()[-1])
        print(f"{options.poses} poses, {STARTS} starts of {STEPS} steps at most, float64, one core\n")
        print("| | reached to 1e-6 | ms a pose | steps a pose | worst of those reached |")
        print("|---|--:|--:|--:|--:|")
        for name, one in results.items():
            off = missed(path, configurations, np.array(one["q"]))
            reached = off < TOLERANCE
            worst = off[reached].max(initial=0)
            each = 1e3 * one["seconds"] / options.poses
            print(
                f"| {name} | {100 * reached.mean():.1f} % | {each:.3g} | {one['steps']:.1f} | {worst:.1e} |"
            )


if __name__ == "__main__":
    main()
