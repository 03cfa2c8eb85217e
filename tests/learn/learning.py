"""Learns a bundled task by the command, and plays episodes with the policy: `python learning.py TASK FOLDER`.

It runs in a separate process, as for users, with all cores and in single precision. FOLDER.npz contains the episodes and the
cost.
"""

import resource
import sys

import jax
import numpy as np

import rbd_jax as rbd
from rbd_jax.__main__ import main


EPISODES = 32


def episodes(name, folder):
    """Returns positions, velocities, ends and memories of episodes with new random keys, per step."""
    task = rbd.tasks.load(name)
    policy = rbd.learn.load(f"{folder}/policy.npz", task)
    play = rbd.batch_map(lambda key: rbd.learn.play(task, policy, key))
    states = play(jax.random.split(jax.random.key(1234), EPISODES)).states
    memory = states.memory if isinstance(states.memory, dict) else {}
    return {
        "q": states.state.q,
        "v": states.state.v,
        "reward": states.reward,
        "terminated": states.terminated,
        **{f"memory_{name}": x for name, x in memory.items()},
    }


if __name__ == "__main__":
    name, folder = sys.argv[1:]
    code = main(["train", name, "--quiet", "--out", folder])
    spent = resource.getrusage(resource.RUSAGE_SELF)
    found = episodes(name, folder)
    np.savez(
        f"{folder}.npz",
        seconds=spent.ru_utime + spent.ru_stime,
        **{k: np.asarray(x) for k, x in found.items()},
    )
    sys.exit(code)
