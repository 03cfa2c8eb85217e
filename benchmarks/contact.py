"""Contact simulation of robots on the floor, compared with MuJoCo in C and MJX.

    python benchmarks/contact.py [--robots quadruped,humanoid] [--batch 1024] [--steps 100] [--cores 1] [--rounds 7]
                                 [--gradient] [--mjx]

Reports steps per second, penetration depth, drift and energy. Each robot either stands on its feet, held by its servos,
or falls from a height of 0.3 m. A robot is a name that `rbd.load` accepts or the path of a file. All libraries simulate
the same model, written as MJCF, with the same step, states and contacts, in float64, on the same cores. The scheme is
also the same: that of the file, if it names one. `--gradient` adds the gradient of the last state with respect to the
first one, for the standing robots. Needs: pip install mujoco rich, and mujoco-mjx for --mjx.
"""

import argparse
import os
import sys
import time
import warnings

import numpy as np


STEP = 0.005
#: Maximum number of simultaneously active contacts.
MOST = 16


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--robots", default="quadruped,humanoid")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--gradient", action="store_true", help="the gradient through all steps, too")
    parser.add_argument(
        "--mjx", action="store_true", help="MJX, too: it takes minutes to compile and to run on a CPU"
    )
    return parser.parse_args()


def starts(robot, batch, height, rng):
    """Returns configurations near the reference, raised by `height`, and velocities."""
    import jax
    import jax.numpy as jnp

    import rbd_jax as rbd

    away = 0.02 * rng.normal(size=(batch, robot.nv))
    away[:, :6] = 0
    free = robot.joint_names[0]
    q = jax.vmap(lambda step: rbd.integrate(robot, robot.reference, step))(jnp.asarray(away))
    q = q.at[:, robot.q_slice(free)].add(jnp.array([0, 0, height, 0, 0, 0, 0.0]))
    return q, jnp.asarray(0.1 * rng.normal(size=(batch, robot.nv)))


def ours(robot, q, v, steps):
    """Returns the compile time in seconds, the simulation function, and a function that reads its last states."""
    import jax

    import rbd_jax as rbd

    def end(q, v):
        path = rbd.rollout(robot, rbd.State(q, v), dt=STEP, steps=steps, save_every=steps)
        return path.q[-1], path.v[-1], path.code

    start = time.perf_counter()
    compiled = jax.jit(rbd.batch_map(end)).lower(q, v).compile()
    compiling = time.perf_counter() - start

    def states(last):
        if (np.asarray(last[2]) > 0).any():
            print(f"codes other than 0: {np.unique(np.asarray(last[2]))}", file=sys.stderr)
        return last[:2]

    return compiling, lambda: jax.block_until_ready(compiled(q, v)), states


def gradients(robot, q, v, steps):
    """Returns the same as `ours`, for a gradient with respect to the first state."""
    import jax
    import jax.numpy as jnp

    import rbd_jax as rbd

    def total(q, v):
        path = rbd.rollout(robot, rbd.State(q, v), dt=STEP, steps=steps, save_every=steps)
        return jnp.sum(path.q[-1]) + jnp.sum(path.v[-1])

    start = time.perf_counter()
    compiled = jax.jit(rbd.batch_map(jax.grad(total, (0, 1)))).lower(q, v).compile()
    return time.perf_counter() - start, lambda: jax.block_until_ready(compiled(q, v)), None


def in_turns(runs, rounds):
    """Times all runs alternately, so that disturbances of the machine affect all of them.

    Args:
      runs: Functions without arguments.
      rounds: Number of calls of each function.

    Returns:
      The seconds per function and round, and the last result of each function.
    """
    times, results = [[] for _ in runs], [None] * len(runs)
    for _ in range(rounds):
        for k, run in enumerate(runs):
            start = time.perf_counter()
            results[k] = run()
            times[k].append(time.perf_counter() - start)
    return np.array(times), results


def mujocos(robot, mj_model, q, v, steps, cores):
    """Returns the same as `ours`, for MuJoCo with its thread pool."""
    import jax
    import mujoco
    from mujoco import rollout

    from rbd_jax.interop import MujocoMap

    there = MujocoMap(robot, mj_model)
    datas = [mujoco.MjData(mj_model) for _ in range(cores)]
    qpos, qvel = (
        np.asarray(x) for x in jax.vmap(lambda q, v: (there.configuration(q), there.velocity(q, v)))(q, v)
    )
    full = mujoco.mjtState.mjSTATE_FULLPHYSICS
    first = np.zeros((len(qpos), mujoco.mj_stateSize(mj_model, full)))
    for row, one, rate in zip(first, qpos, qvel):
        datas[0].qpos[:], datas[0].qvel[:] = one, rate
        mujoco.mj_getState(mj_model, datas[0], row, full)
    held = np.zeros((len(qpos), steps, mj_model.nu))
    pool = rollout.Rollout(nthread=cores)

    def states(result):
        # The first column is the time.
        last = result[0][:, -1, 1:]
        ends = last[:, : mj_model.nq], last[:, mj_model.nq : mj_model.nq + mj_model.nv]
        return jax.vmap(lambda q, v: (c := there.configuration_from(q), there.velocity_from(c, v)))(*ends)

    return None, lambda: pool.rollout(mj_model, datas, first, held, nstep=steps), states


def mjxs(mj_model, robot, q, v, steps):
    """Returns the same as `ours`, for MJX."""
    import jax
    from mujoco import mjx

    from rbd_jax.interop import MujocoMap

    there, model = MujocoMap(robot, mj_model), mjx.put_model(mj_model)

    def end(q, v):
        data = mjx.make_data(model).replace(qpos=there.configuration(q), qvel=there.velocity(q, v))
        data = jax.lax.fori_loop(0, steps, lambda _, at: mjx.step(model, at), data)
        return data.qpos, data.qvel

    start = time.perf_counter()
    compiled = jax.jit(jax.vmap(end)).lower(q, v).compile()
    compiling = time.perf_counter() - start
    back = jax.vmap(lambda q, v: (c := there.configuration_from(q), there.velocity_from(c, v)))
    return compiling, lambda: jax.block_until_ready(compiled(q, v)), lambda last: back(*last)


def told(robot, q, v, before):
    """Returns the deepest overlap, the sideways drift of the bases, and the mechanical energy relative to `before`."""
    import jax
    import jax.numpy as jnp

    import rbd_jax as rbd

    def one(q, v, at):
        base = robot.q_slice(robot.joint_names[0])
        found = rbd.contacts(robot, q)
        drift = jnp.linalg.norm(q[base][:2] - at[base][:2])
        return jnp.min(found.distance, initial=0), drift, rbd.mechanical_energy(robot, q, v)

    deepest, drift, energy = jax.jit(rbd.batch_map(one))(q, v, before[0])
    first = jax.jit(rbd.batch_map(one))(*before, before[0])[2]
    return (
        f"{-1e3 * jnp.min(deepest):.2f}",
        f"{1e3 * jnp.median(drift):.2f}",
        f"{jnp.mean(energy - first):.3f}",
    )


def main():
    given = arguments()
    warnings.simplefilter("ignore")
    if hasattr(os, "sched_setaffinity"):  # before JAX and MuJoCo count the cores
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: given.cores])
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_num_cpu_devices", given.cores)
    import mujoco
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

    import rbd_jax as rbd

    table = Table(
        "robot", "", "by", "steps a second", "ratio", "compiles, s", "deepest, mm", "drift, mm", "energy, J"
    )
    jobs = [(name, scene) for name in given.robots.split(",") for scene in ("stands", "falls")]
    with Progress(console=Console(stderr=True)) as progress:
        bar = progress.add_task("simulating", total=2 * len(jobs))
        for name, scene in jobs:
            robot = rbd.detach(rbd.load(name), "contact law")
            robot = rbd.attach(robot, rbd.contact.Soft(most=MOST))
            text = rbd.to_mjcf(robot)
            mj_model = mujoco.MjModel.from_xml_string(text)
            mj_model.opt.timestep = STEP
            if robot.settings.integrator is None:  # if the file names a scheme, both libraries use it
                mj_model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
            q, v = starts(robot, given.batch, 0.3 * (scene == "falls"), np.random.default_rng(0))
            who = {"MuJoCo, C": mujocos(robot, mj_model, q, v, given.steps, given.cores)}
            who["rbd_jax"] = ours(robot, q, v, given.steps)
            if given.gradient and scene == "stands":
                who["rbd_jax, gradient"] = gradients(robot, q, v, given.steps)
            if given.mjx:
                who["MJX"] = mjxs(mj_model, robot, q, v, given.steps)
            progress.advance(bar)
            times, results = in_turns([run for _, run, _ in who.values()], given.rounds)
            progress.advance(bar)
            for (name_of, (compiling, _, states)), took, result in zip(who.items(), times, results):
                speed = f"{given.batch * given.steps / np.median(took):,.0f}"
                ratio = f"{np.median(times[0] / took):.2f}"
                compiled = "" if compiling is None else f"{compiling:.1f}"
                became = ("", "", "") if states is None else told(robot, *states(result), (q, v))
                table.add_row(os.path.basename(name), scene, name_of, speed, ratio, compiled, *became)
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
