"""`separated` returns nearby configurations without overlaps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import rbd_jax as rbd
from rbd_jax import contact


def balls():
    """Returns two balls above a floor, one of them on a slide and with three times the mass."""
    builder = rbd.ModelBuilder(name="balls")
    builder.add_body("one", "world", rbd.joints.Translational(), None, rbd.Inertia.sphere(1.0, 0.1))
    builder.add_body(
        "other", "world", rbd.joints.Prismatic((1, 0, 0)), (0.0, 0.0, 0.5), rbd.Inertia.sphere(3.0, 0.1)
    )
    floor = rbd.Shape("floor", "world", rbd.shapes.Plane())
    builder.attach(*(rbd.Shape(name, name, rbd.shapes.Sphere(0.1)) for name in ("one", "other")), floor)
    return builder.build()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_what_overlaps_is_moved_apart_the_least_way(dtype):
    model = rbd.astype(balls(), jnp.dtype(dtype))
    starts = jnp.array([[0, 0, 1, 0.5], [0.02, 0, 0.5, 0], [0, 0, 0.03, 1], [0.1, 0, 0.5, -0.02]], dtype)
    found = jax.jit(jax.vmap(lambda q: contact.separated(model, q)))(starts)
    assert found.dtype == dtype
    tolerance = {"float64": 1e-6, "float32": 1e-3}[dtype]
    distances = jax.vmap(lambda q: rbd.contacts(model, q).distance)(found)
    assert distances.min() > -tolerance
    assert_allclose(found[0], starts[0], atol=1e-6)  # already without overlap
    assert_allclose(
        found[1, jnp.array([0, 3])], [0.02 + 0.75 * 0.18, -0.25 * 0.18], atol=tolerance
    )  # split by mass
    assert_allclose(found[2], [0, 0, 0.1, 1], atol=tolerance)
    assert np.isfinite(found).all()


def test_random_states_of_a_model_with_contact_do_not_overlap():
    model = rbd.attach(balls(), contact.Soft())
    states = rbd.parallel.random_states(model, 16, jax.random.key(0), 0.3, 0.1)
    distances = jax.jit(jax.vmap(lambda q: rbd.contacts(model, q).distance))(states.q)
    assert np.min(distances) > -1e-4
