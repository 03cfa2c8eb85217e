"""M⁻¹ as a matrix: by products and by traversals of the tree, also with mimic joints."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import assert_close, coupled, floating, forest, mixed, pair, some_states
from support import quotient

import rbd_jax as rbd
from rbd_jax.dynamics import forward
from rbd_jax.dynamics.motion import Motion


FORMS = {"product": 64, "walks": 0}


SLOW = pytest.mark.slow


def _choose(form, monkeypatch):
    monkeypatch.setattr(forward, "MULTIPLIED", FORMS[form])


def inverse(model, q):
    return forward.inertia_solver(Motion(model, q)).matrix


#: The default run tests each form and each of the smaller models.
EVERY_DAY = {("product", pair), ("walks", forest), ("walks", floating), ("walks", coupled)}


@pytest.mark.parametrize(
    "form, make",
    [
        pytest.param(
            form, make, id=f"{form}-{make.__name__}", marks=() if (form, make) in EVERY_DAY else SLOW
        )
        for make in (pair, mixed, forest, floating, coupled)
        for form in FORMS
    ],
)
def test_it_undoes_the_mass_matrix(form, make, monkeypatch):
    """Also with joints of zero and several degrees of freedom, and with two roots."""
    _choose(form, monkeypatch)
    model = make()

    @jax.jit
    def run(q):
        solved = rbd.solve_mass_matrix(model, q, jnp.eye(model.nv))
        return inverse(model, q), rbd.mass_matrix(model, q), solved

    found, mass, solved = jax.device_get(run(some_states(model).q[0]))
    assert_close(found @ mass, np.eye(model.nv), 1e-9)
    assert_close(found, solved, 1e-11)


@pytest.mark.parametrize("form", ["product", pytest.param("walks", marks=SLOW)])
def test_its_derivative(form, monkeypatch):
    _choose(form, monkeypatch)
    model = pair()
    q = some_states(model).q[0]
    along = np.linspace(-1, 1, model.nv)
    weights = np.cos(np.arange(model.nv**2)).reshape(model.nv, model.nv)
    moved = lambda step: inverse(model, rbd.integrate(model, q, step * along))

    @jax.jit
    def run(step):
        backward = jax.grad(lambda step: jnp.sum(weights * moved(step)))(step)
        return moved(step), jax.jacfwd(moved)(step), backward

    _, rate, backward = jax.device_get(run(0.0))
    assert_close(rate, quotient(lambda step: np.asarray(run(step)[0])), 1e-7)
    assert_close(backward, np.sum(weights * rate), 1e-11)


def test_of_more_columns_than_a_product_is_for():
    """Sixty-six hinges, per sample and with samples as lanes."""
    model = _comb(22, 3)
    assert model.nv > forward.MULTIPLIED
    q = 0.3 * np.cos(np.arange(model.nv))
    expected = np.linalg.inv(rbd.mass_matrix(model, q))
    q = jax.device_put(np.stack([q, q]))
    for lanes in (1, 2):
        found = rbd.batch_map(functools.partial(inverse, model), lanes=lanes)(q)
        assert_close(np.asarray(found)[1], expected, 1e-8)


def _comb(teeth, length):
    """Returns chains of hinges, each attached to the first link of the previous chain."""
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
    nothing = np.zeros(0)
    for x in rbd.forward_dynamics_derivatives(model, nothing, nothing, nothing):
        assert x.shape == (0, 0)
