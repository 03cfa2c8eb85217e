"""Computations of `test_shard.py` on eight devices, in a process that has them: prints a report.

python over_devices.py [slow]
"""

import json
import sys
from typing import Any

import jax


jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

import jax.numpy as jnp
import numpy as np
from compiled_text import communication
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jax.tree_util import Partial

import rbd_jax as rbd  # before the first array: it sets what XLA reads once


MODEL = rbd.load("double_pendulum")
ALL = Mesh(np.array(jax.devices()), ("batch",))
ALONE = Mesh(np.array(jax.devices()[:1]), ("one",))
REPORT: dict[str, Any] = {"devices": len(jax.devices())}


def rows(size, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=(size, 2)))


def apart(found, expected):
    """Returns the largest difference between two trees of equal structure."""
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    return max(float(np.max(np.abs(np.asarray(x) - np.asarray(y)), initial=0)) for x, y in pairs)


def spread(x):
    return [len(x.sharding.device_set), x.sharding.is_fully_replicated]


# The same numbers as on one device, for sizes that are and are not multiples of eight.


def torque(q, gain):
    return {"force": rbd.gravity_force(MODEL, q) * gain, "energy": rbd.potential_energy(MODEL, q)}


gain = jnp.array(2.0)
REPORT["sizes"], REPORT["spread"] = {}, {}
for size in (1, 3, 16, 300):  # with 300 samples, a device's 38 are batched as on a single device
    found = rbd.shard(torque, (0, None))(rows(size), gain)
    REPORT["sizes"][size] = apart(found, rbd.shard(torque, (0, None), mesh=ALONE)(rows(size), gain))
    REPORT["spread"][size] = spread(found["force"])
keys = jax.random.split(jax.random.key(1), 5)
draw = lambda key: jax.random.normal(key, (2,))
REPORT["keys"] = apart(rbd.shard(draw)(keys), jax.vmap(draw)(keys))

# A rollout, and the communication of its compiled program.


def end(model, state):
    path = rbd.rollout(model, state, dt=0.01, steps=20)
    return path.q, path.code


states = rbd.State(rows(16), rows(16, seed=1))
sharded = jax.jit(rbd.shard(end, (None, 0)))
program = sharded.lower(MODEL, states).compile()
REPORT["rollout"] = apart(program(MODEL, states), rbd.shard(end, (None, 0), mesh=ALONE)(MODEL, states))
REPORT["rollout talks"] = communication(program.as_text())
few = jax.tree.map(lambda x: np.asarray(x)[:11], states)
REPORT["uneven talks"] = communication(sharded.lower(MODEL, few).compile().as_text())


pendulum, swings = rbd.load("pendulum"), jax.tree.map(lambda x: np.asarray(x)[:, :1], states)
numbers = lambda tree: [x for x in jax.tree.leaves(tree) if x.dtype == jnp.float64]


def falling(model, state):
    """Returns the position after a few Euler steps."""

    def step(state, _):
        v = state.v + 0.1 * rbd.forward_dynamics(model, state.q, state.v, jnp.zeros(1))
        return rbd.State(state.q + 0.1 * v, v), None

    return lax.scan(step, state, length=3)[0].q


def gradient(of_each):
    """Compares the gradient of a batch mean with respect to a model with that on one device; also returns its communication."""

    def slopes(**where):
        loss = lambda model: jnp.mean(rbd.shard(of_each, (None, 0), **where)(model, swings) ** 2)
        return jax.jit(jax.grad(loss, allow_int=True))

    program = slopes().lower(pendulum).compile()
    off = apart(numbers(program(pendulum)), numbers(slopes(mesh=ALONE)(pendulum)))
    return off, communication(program.as_text())


REPORT["gradient"], REPORT["gradient talks"] = gradient(falling)


def talking(x):
    """A program that communicates at every step."""
    part = lambda x: lax.scan(lambda c, _: (lax.psum(c, "batch"), None), x, length=3)[0]
    split = PartitionSpec("batch")
    return jax.shard_map(part, mesh=ALL, in_specs=split, out_specs=split, check_vma=False)(x)


REPORT["planted"] = communication(jax.jit(talking).lower(jnp.arange(8.0)).compile().as_text())

# Inside other programs and other transformations.

double = lambda x: 2 * x


def within_others(mapped):
    x = jnp.arange(8.0)
    inner = lambda x: jnp.sum(mapped(lambda y: x * y)(jnp.arange(4.0)))
    two = lambda x: mapped(double)(x[:3]).sum() + mapped(double)(x[:5]).sum()
    slope = jax.grad(lambda p: jnp.sum(mapped(lambda x: p * x)(x)))
    return {
        "itself": apart(jax.jit(mapped(inner))(x), 6 * x),
        "two sizes in one program": apart(jax.jit(two)(x), jnp.array(26.0)),
        "two sizes one after the other": apart(two(x), jnp.array(26.0)),
        "what is on one device": apart(mapped(double)(jax.device_put(x, jax.devices()[3])), 2 * x),
        "slope by what is closed over": apart(slope(jnp.array(2.0)), jnp.array(28.0)),
        "under vmap": apart(jax.vmap(mapped(double))(x.reshape(2, 4)), 2 * x.reshape(2, 4)),
        "forward": apart(jax.jvp(mapped(jnp.sin), (x,), (x,))[1], jnp.cos(x) * x),
    }


REPORT |= {"batch_map": within_others(rbd.batch_map), "shard": within_others(rbd.shard)}

# On the devices of a mesh, passed or set, of both types.

REPORT["meshes"] = {}
for kind in (AxisType.Auto, AxisType.Explicit):
    mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=(kind, kind))
    half = Mesh(np.array(jax.devices()[2:6]), ("half",), axis_types=(kind,))
    for size in (3, 8):
        x = jnp.arange(float(size))
        found = rbd.shard(double, mesh=half)(x)
        assert found.sharding.device_set == set(jax.devices()[2:6])
        worst = [apart(found, 2 * x)]
        with jax.set_mesh(mesh):
            for one in (rbd.batch_map(double), rbd.shard(double), jax.jit(rbd.shard(double))):
                worst.append(apart(one(x), 2 * np.arange(float(size))))
            by = lambda p, x: jnp.sum(rbd.shard(lambda p, x: p * x, (None, 0))(p, x))
            worst.append(apart(jax.grad(by)(jnp.array(1.0), x), np.sum(np.arange(float(size)))))
        REPORT["meshes"][f"{kind.name} {size}"] = max(worst)
split = rbd.parallel.global_batch(
    {"q": np.asarray(rows(16)), "keys": jax.random.split(jax.random.key(0), 16)}
)
REPORT["global"] = [spread(split["q"]), apart(rbd.parallel.gather(split["q"]), rows(16))]
try:
    rbd.parallel.global_batch(np.asarray(rows(5)))
except ValueError as error:
    REPORT["uneven rows"] = str(error)


def simulated(rows):
    some = jax.tree.map(lambda x: x[rows], swings)
    return rbd.simulate_batch(pendulum, some, dt=0.01, steps=4, frames=2).q


there, x = jax.device_put(jnp.zeros(2), NamedSharding(ALL, PartitionSpec())), jnp.arange(8.0)
around = lambda there, x: rbd.shard(lambda x: x + jnp.zeros_like(there))(x)
given = lambda there, x: rbd.shard(lambda there, x: x + jnp.zeros_like(there), (None, 0))(there, x)
carried = lambda there, x: rbd.shard(Partial(lambda there, x: x + jnp.zeros_like(there), there))(x)
expected = np.arange(8.0)[:, None] + np.zeros(2)
REPORT["from around"] = [apart(around(there, x), expected), apart(jax.jit(carried)(there, x), expected)]
with jax.set_mesh(ALL):
    REPORT["from around"].append(apart(jax.jit(carried)(there, x), expected))
    REPORT["from around"].append(apart(jax.jit(given)(there, x), expected))
    try:
        jax.jit(around)(there, x)
    except ValueError as error:
        REPORT["refused"] = str(error)

# Functions that map over batches use the devices, by default or as specified.

alone = simulated(slice(4, 5))[0]
REPORT["simulate_batch"] = apart(simulated(slice(5))[4], alone)
with rbd.parallel.use_devices(half):
    REPORT["told"] = apart(simulated(slice(5))[4], alone)
    found = rbd.batch_map(double)(jnp.arange(8.0))
    assert found.sharding.device_set == set(half.devices.flat)


def identified():
    """Runs identification from parameters that are on all devices."""
    t = np.arange(24) / 50
    swing = rbd.rollout(pendulum, rbd.State(jnp.array([1.0]), jnp.zeros(1)), dt=0.02, steps=23)
    log = rbd.identify.Log(t, np.asarray(swing.q), tau=np.zeros((24, 1)))
    compare = rbd.identify.OutputError(window=0.12)
    problem = rbd.identify.Problem(pendulum, log, rbd.identify.damping(), compare)
    start = problem.start()
    step = jax.jit(lambda x: x - 0.1 * jax.grad(lambda x: problem.loss(start._replace(x=x)))(x))
    first = step(start.x)
    assert len(first.sharding.device_set) == 8
    found = problem.errors(start._replace(x=step(first)))[0]
    with rbd.parallel.use_devices(ALONE):
        x = step(np.asarray(first))
        return apart(found, problem.errors(start._replace(x=np.asarray(x)))[0])


if "slow" in sys.argv:
    REPORT["identified"] = identified()
    REPORT["rollout gradient"] = gradient(lambda model, state: end(model, state)[0][-1])
print(json.dumps(REPORT))
