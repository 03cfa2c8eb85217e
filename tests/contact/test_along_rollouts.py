"""In each simulation step the contact solver starts from the acceleration of the previous step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd
from rbd_jax import contact


STEPS = 400


def counted(law, counts):
    """Returns a contact model that records the iterations of each solve, with and without the initial guess."""

    class Counted(law):
        def reaction(self, motion, free, prepared, step=None, guess=None, within=None, phase=None):
            warm, cold = (
                super(Counted, self).reaction(motion, free, prepared, step, start, within, phase)
                for start in (guess, None)
            )
            jax.debug.callback(lambda *steps: counts.append(steps), warm.steps, cold.steps, ordered=True)
            return warm

    return Counted


@pytest.mark.slow
@pytest.mark.parametrize(
    ("law", "cone", "share"),
    [(contact.Soft, "pyramidal", 0.85), (contact.Soft, "elliptic", 0.9), (contact.Rigid, "elliptic", 0.75)],
)
def test_a_guess_saves_steps(law, cone, share):
    """A quadruped falls and comes to rest.

    A solve takes at least one iteration. The guess saves half of the further iterations of `Soft`.
    """
    counts: list = []
    model = rbd.attach(rbd.detach(rbd.load("quadruped"), "contact law"), counted(law, counts)(cone))
    q = model.reference.at[2].add(0.05)
    v = 0.1 * np.random.default_rng(0).normal(size=model.nv)
    path = rbd.rollout(model, rbd.State(q, jnp.asarray(v)), dt=0.002, steps=STEPS, save_every=STEPS)
    jax.block_until_ready(path)
    jax.effects_barrier()
    assert path.code == 0 and len(counts) == STEPS
    warm, cold = np.sum(np.asarray(counts), axis=0)
    assert warm <= share * cold, (warm, cold)
    if law is contact.Soft and cone == "pyramidal":
        assert warm - STEPS <= 0.5 * (cold - STEPS), (warm, cold)
