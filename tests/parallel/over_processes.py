"""Computations of `test_processes.py` in connected processes, and in a single one: prints a report.

python over_processes.py PROCESS COUNT PORT [results] [identify]
"""

import json
import sys

import jax


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_numpy_dtype_promotion", "strict")
    jax.config.update("jax_numpy_rank_promotion", "raise")

import jax.numpy as jnp
import numpy as np

import rbd_jax as rbd


def rows(size, seed=0):
    return np.random.default_rng(seed).normal(size=(size, 2))


def end(model, state):
    return rbd.rollout(model, state, dt=0.01, steps=20).q


def results():
    """Returns results by name that do not depend on the number of processes."""
    model, keys = rbd.load("double_pendulum"), jax.random.split(jax.random.key(0), 8)
    states, found = rbd.State(jnp.asarray(rows(8)), jnp.asarray(rows(8, seed=1))), {}
    share, gather = rbd.parallel.share, rbd.parallel.gather

    draw = lambda key: jax.random.normal(key, (2,))
    found["noise"] = gather(rbd.shard(draw)(keys))
    found["noise of shares"] = gather(rbd.batch_map(draw)(share(keys)))
    found["keys"] = jax.random.key_data(gather(rbd.parallel.global_batch(share(keys))))
    found["share of what is global"] = gather(share(rbd.parallel.global_batch(share(states.q))))
    found["precision"] = gather(share(rows(5).astype(np.float32)))

    mapped = rbd.shard(end, (None, 0))
    paths = mapped(model, states)
    found["rollouts"] = gather(paths)
    found["of what is global"] = gather(rbd.shard(jnp.sin)(paths))
    found["of five"] = np.asarray(rbd.shard(jnp.sin)(states.q[:5]))
    found["of shares"] = gather(mapped(model, rbd.parallel.global_batch(share(states))))

    @jax.jit
    def step(model, states):
        loss = lambda model: jnp.mean(mapped(model, states)[:, -1] ** 2)
        value, slope = jax.value_and_grad(loss, allow_int=True)(model)
        return value, slope.gravity, slope.inertias.mass

    found["gradient"] = np.concatenate([np.ravel(np.asarray(x)) for x in step(model, states)])
    return {name: np.asarray(value).tolist() for name, value in found.items()}


def refused():
    """Returns errors for differing processes, raised in all of them so that none waits for the others."""
    index, said = jax.process_index(), {}
    double = rbd.shard(lambda x: 2 * x)
    calls = {
        "sizes": lambda: double(rows(4 + index)),
        "shapes": lambda: double(rows(4) if index else rows(4)[:, :1]),
        "numbers": lambda: double(rows(4, seed=index)),
        "shared": lambda: rbd.shard(lambda x, y: x * y, (0, None))(rows(4), np.array(float(index))),
        "rows": lambda: rbd.parallel.global_batch(rows(4 + index)),
        "kinds": lambda: rbd.parallel.gather(rows(4).astype(np.float32 if index else np.float64)),
        "states": lambda: rbd.simulate_batch(
            rbd.load("pendulum"), rbd.State(*2 * [double(rows(4))]), dt=0.1, steps=1
        ),
        "again": lambda: rbd.parallel.start(num_processes=5),
    }
    for name, call in calls.items():
        try:
            call()
        except ValueError as error:
            said[name] = str(error)
    return said


def identified():
    """Returns simulation and identification results on the devices of all processes, which have the same logs."""
    with rbd.parallel.use_devices():
        model, t = rbd.load("pendulum"), np.arange(100) / 100
        states = rbd.State(jnp.asarray(rows(8)[:, :1]), jnp.asarray(rows(8, seed=1)[:, :1]))
        path = rbd.simulate_batch(model, states, dt=0.01, steps=10, frames=2)
        free = rbd.identify.damping()
        truth = rbd.identify.Parameters(model, free).with_values(jnp.array([0.3]))
        swing = rbd.rollout(truth, rbd.State(jnp.array([1.0]), jnp.zeros(1)), dt=0.01, steps=99)
        log = rbd.identify.Log(t, np.asarray(swing.q), tau=np.zeros((100, 1)))
        problem = rbd.identify.Problem(model, log, free, rbd.identify.OutputError(window=0.25))
        solved = rbd.identify.solve(problem, starts=2).values
        linear = rbd.identify.least_squares(model, log, free).values
    return {"simulated": np.asarray(path.q).tolist(), "solved": solved.tolist(), "linear": linear.tolist()}


if __name__ == "__main__":
    process, count, port = map(int, sys.argv[1:4])
    rbd.parallel.start(f"localhost:{port}", count, process, initialization_timeout=120)
    rbd.parallel.start()  # no effect the second time
    places = {"process": jax.process_index(), "devices": len(jax.devices())}
    report = {"refused": refused()}
    if "results" in sys.argv:
        report |= {"results": results()}
    if "identify" in sys.argv:
        report = identified()
    print(json.dumps(places | report))
