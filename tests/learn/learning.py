"""A bundled task learned by the command, and episodes with what it has learned: `python learning.py TASK FOLDER`.

It is a process of its own, as users have it: JAX begins in it with all cores and in single precision. Into FOLDER.npz go the
episodes, and what it has cost.
"""

import resource
import sys

import jax
import numpy as np

import rbd_jax as rbd
from rbd_jax.__main__ import main


EPISODES = 32


def episodes(name, folder):
    """Positions, velocities and ends of episodes from keys of their own, and what they remember, step by step."""
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
