"""Limits on the number of tested shape pairs: the nearest ones by bounding spheres."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from support import quotient

import rbd_jax as rbd
from rbd_jax.contact import Rigid, Soft


#: Heights of four balls above a floor; the lowest two touch.
HEIGHTS = (0.098, 0.29, 0.8, 1.4)


def heap(law):
    builder = rbd.ModelBuilder(name="heap")
    for k, height in enumerate(HEIGHTS):
        at = jnp.array([0.01 * k, 0, height, 1.0, 0, 0, 0])
        builder.add_body(
            f"b{k}", "world", rbd.joints.Free(), None, rbd.Inertia.sphere(1.0, 0.1), reference=at
        )
        builder.attach(rbd.Shape(f"b{k}", f"b{k}", rbd.shapes.Sphere(0.1)))
    builder.attach(rbd.Shape("floor", "world", rbd.shapes.Plane()), law)
    return builder.build()


def accelerated(law):
    model = heap(law)

    def run(height):
        state = rbd.State(model.reference.at[9].add(height), jnp.zeros(24))
        return rbd.acceleration(model, state), rbd.contact_forces(model, state).lost

    return jax.jit(jax.vmap(run))


@pytest.mark.slow
@pytest.mark.parametrize("law", [lambda **given: Soft(**given), lambda **given: Rigid(**given)])
def test_the_nearest_pairs_are_enough(law):
    """One of six pairs of balls touches in the first sample, and no pair in the second."""
    heights = jnp.array([0.0, 0.2])
    every, lost = accelerated(law())(heights)
    assert lost is None
    nearest, lost = accelerated(law(pairs=2))(heights)
    assert_allclose(nearest, every, atol=1e-8)
    assert lost.tolist() == [0, 0]
    bounded, lost = accelerated(law(pairs=2, most=2))(heights)
    assert_allclose(bounded, every, atol=1e-8)
    assert lost.tolist() == [0, 0]


@pytest.mark.slow
def test_what_is_left_out_is_told():
    """The second ball touches the first and the third, but only one pair is tested."""
    model = heap(Soft(pairs=1))
    q = model.reference.at[16].set(0.48)
    assert rbd.contact_forces(model, rbd.State(q, jnp.zeros(24))).lost == 1
    path = rbd.rollout(model, rbd.State(q, jnp.zeros(24)), dt=1e-4, steps=1)
    assert path.code == rbd.simulate.Result.CONTACTS_LOST
    assert np.isfinite(path.q).all()
    with pytest.raises(ValueError, match="pairs"):
        Soft(pairs=0)


@pytest.mark.slow
def test_derivatives():
    model = heap(Soft(pairs=2))

    def force(height):
        state = rbd.State(model.reference.at[9].add(height), jnp.zeros(24))
        return rbd.acceleration(model, state)[11]

    both = jax.jit(jax.value_and_grad(force))
    assert_allclose(both(0.0)[1], quotient(lambda h: both(h)[0], 1e-7), rtol=1e-5)
