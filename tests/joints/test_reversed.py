"""Reversed joints and joints with an offset: every quantity follows from the placement, for every family."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from families import FAMILIES
from support import assert_close

import rbd_jax as rbd
from rbd_jax import joints


SLOW = pytest.mark.slow
EVERY_DAY = ("rack and pinion", "helical")


def seen(joint, q, v):
    """Returns the quantities that a joint computes, and the same by differentiation of its placement."""
    base = joints.Joint
    told = joint.motion_subspace(q), joint.subspace_rate(q, v), joint.velocity_product(q, v), joint.drift(q)
    follows = (
        base.motion_subspace(joint, q),
        base.subspace_rate(joint, q, v),
        base.velocity_product(joint, q, v),
    )
    return told, (*follows, base.drift(joint, q))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in EVERY_DAY else SLOW) for name in FAMILIES]
)
def test_what_they_say_follows_from_their_placements(name):
    """Book table 4.2, and the transform on the successor's side."""
    joint = FAMILIES[name]
    frame = rbd.Transform.from_xyz_rpy((0.3, -0.2, 0.5), (0.4, 1.0, -0.3))
    v = jnp.asarray(np.random.default_rng(0).normal(size=joint.nv))

    @jax.jit
    def looked_at(q):
        changed = [
            joints.Reversed(joint),
            joints.Offset(joint, frame),
            joints.Offset(joints.reverse(joint), frame),
        ]
        there = joints.reverse(joint).transform(q) @ joint.transform(q)
        return (
            [seen(one, q, v) for one in changed],
            there,
            joints.reverse(joints.Reversed(joint)).transform(q),
        )

    q = joint.random(jax.random.key(3)).astype(float)
    pairs, identity, _ = looked_at(q)
    for told, follows in pairs:
        for one, other in zip(told, follows, strict=True):
            assert_close(one, other, 1e-10)
    np.testing.assert_allclose(identity.matrix, np.eye(4), atol=1e-13)
