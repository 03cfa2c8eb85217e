"""A task that is learned in seconds: `python push.py FILE SAVE MOMENT` trains it and kills itself by SIGKILL.

The kill comes at a save, "before" or "after" the new file is renamed.
"""

import os
import signal
import sys

import jax
import jax.numpy as jnp

import rbd_jax as rbd


class Push(rbd.Task):
    """A force moves a cart on a rail to the middle."""

    worth: float = 1.0

    def begin(self, model, key):
        x, speed = 0.5 * jax.random.normal(key, (2, 1), model.dtype)
        return rbd.State(x, speed)

    def observe(self, now):
        return {"place": now.q, "speed": now.v}

    def reward(self, before, action, now):
        return {"place": -self.worth * now.q[0] ** 2, "effort": -0.01 * jnp.sum(action**2)}

    def terminated(self, now):
        return jnp.abs(now.q[0]) > 2


def cart():
    """Returns a cart of one kilogram, pushed by up to 5 N."""
    builder = rbd.ModelBuilder(name="cart")
    builder.add_body("cart", "world", rbd.joints.Prismatic((1, 0, 0)), None, rbd.Inertia.sphere(1.0, 0.1))
    builder.attach(rbd.actuators.Motor("motor", "cart", control_range=(-5.0, 5.0)))
    return builder.build()


def push(**options):
    return Push(cart(), **{"dt": 0.1, "episode_length": 30} | options)


SMALL = rbd.learn.ShortHorizonActorCritic(
    epochs=6,
    environments=6,
    horizon=5,
    actor_widths=(8,),
    critic_widths=(8,),
    critic_passes=2,
    critic_batches=2,
)


def trained(checkpoint=None, config=SMALL, task=None, seed=0, **options):
    key = jax.random.key(seed)
    return rbd.learn.train(task or push(), config, key=key, checkpoint=checkpoint, **options)


def killed_at(save: int, moment: str) -> None:
    """Makes this process kill itself at save number `save`."""
    rename, left = os.replace, [save]

    def replace(*names):
        left[0] -= 1
        if not left[0] and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        rename(*names)
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)

    os.replace = replace


if __name__ == "__main__":
    file, save, moment = sys.argv[1:]
    jax.config.update("jax_enable_x64", True)
    killed_at(int(save), moment)
    # Use the task class of the imported module, as importers of this file do.
    import push as module

    module.trained(rbd.Checkpoint(file, every=0))
