"""M⁻¹ as a matrix: of trees, by a product and by walks down the tree, and of joints that follow others."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import assert_close, coupled, floating, forest, mixed, pair
from support import quotient

import rbd_jax as rbd
from rbd_jax.dynamics import forward
from rbd_jax.dynamics.motion import Motion


FORMS = {"product": 64, "walks": 0}


@pytest.fixture(params=FORMS)
def form(request, monkeypatch):
    monkeypatch.setattr(forward, "MULTIPLIED", FORMS[request.param])


def inverse(model, q):
    return forward.inertia_solver(Motion(model, q)).matrix


def some_configuration(model):
    return rbd.random_configuration(model, jax.random.key(1))


@pytest.mark.parametrize("make", [pair, mixed, forest, floating, coupled])
def test_it_undoes_the_mass_matrix(make, form):
    """Also with joints of several degrees of freedom and of none, and with two roots."""
    model = make()
    q = some_configuration(model)
    found = jax.jit(functools.partial(inverse, model))(q)
    assert_close(found @ rbd.mass_matrix(model, q), np.eye(model.nv), 1e-9)
    assert_close(found, rbd.solve_mass_matrix(model, q, jnp.eye(model.nv)), 1e-11)


def test_its_derivative(form):
    model = pair()
    q = some_configuration(model)
    along = jnp.linspace(-1, 1, model.nv)
    moved = lambda step: inverse(model, rbd.integrate(model, q, step * along))
    rate = jax.jit(jax.jacfwd(moved))(0.0)
    assert_close(rate, quotient(jax.jit(moved)), 1e-7)
    weights = jnp.cos(jnp.arange(rate.size * 1.0)).reshape(rate.shape)
    backward = jax.jit(jax.grad(lambda step: jnp.sum(weights * moved(step))))(0.0)
    assert_close(backward, jnp.sum(weights * rate), 1e-11)


def test_of_more_columns_than_a_product_is_for():
    """Sixty-six hinges; one sample at a time and with samples as lanes."""
    model = _comb(22, 3)
    assert model.nv > forward.MULTIPLIED
    q = 0.3 * jnp.cos(jnp.arange(model.nv * 1.0))
    expected = np.linalg.inv(rbd.mass_matrix(model, q))
    q = jnp.stack([q, q])
    for lanes in (1, 2):
        found = rbd.batch_map(functools.partial(inverse, model), lanes=lanes)(q)
        assert_close(found[1], expected, 1e-8)


def _comb(teeth, length):
    """Chains of hinges, each attached to the first link of the one before."""
    builder = rbd.ModelBuilder(name="comb")
    link = rbd.Inertia.box(1.0, (0.1, 0.1, 0.3), (0.0, 0.0, 0.1))
    above = "world"
    for tooth in range(teeth):
        parent = above
        for i in range(length):
            axis = (0.0, 1.0, 0.0) if (tooth + i) % 2 else (1.0, 0.0, 0.0)
            name = f"{tooth}-{i}"
            builder.add_body(name, parent, rbd.joints.Revolute(axis), (0.05, 0.0, 0.1), link)
            parent = name
        above = f"{tooth}-0"
    return builder.build()


def test_of_a_model_that_cannot_move():
    model = rbd.load_urdf('<robot name="stone"><link name="stone"/></robot>')
    nothing = jnp.zeros(0)
    for x in rbd.forward_dynamics_derivatives(model, nothing, nothing, nothing):
        assert x.shape == (0, 0)
