"""Gradients of losses over batches: differentiated after batching, and before."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from schemes import ORDERS, scheme
from simulated import floating_pair, moving, pendulum
from support import assert_close

import rbd_jax as rbd
from rbd_jax._core.derivatives import custom_jvp


A = np.array([[2.0, 0.5], [0.5, 1.0]])
#: Functions whose batch axis ends up last, first, and along a loop.
LAYOUTS = {
    "last": lambda v: A @ v,
    "first": lambda v: v @ A,
    "loop": lambda v: lax.while_loop(lambda c: c[1] < 1, lambda c: (A @ v, c[1] + 1), (0 * v, 0))[0],
}


#: Schemes that take seconds to trace.
SLOW = (
    "BDF2",
    "EnergyMomentum",
    "GeneralizedAlpha",
    "ImplicitMidpoint",
    "Rattle",
    "VariationalMidpoint",
    "EventDriven",
    "BDF1",
    "RKMK45",
    "LinearlyImplicitEuler",
)


#: Each layout once, for the rule and for the function.
EVERY_DAY = [("last", "loop"), ("first", "last"), ("loop", "first")]


@pytest.mark.parametrize(
    "rule, own",
    [
        pytest.param(rule, own, marks=() if (rule, own) in EVERY_DAY else pytest.mark.slow)
        for rule in LAYOUTS
        for own in LAYOUTS
    ],
)
def test_functions_and_rules_of_other_layouts(own, rule):
    """Compiled, batched and differentiated in reverse, in every order."""
    function = custom_jvp(LAYOUTS[own])
    function.defjvp(lambda at, by: (LAYOUTS[rule](*at), by[0] @ A))
    value = jax.jit(lambda v: jnp.sum(v * function(v)))
    v = np.arange(8.0).reshape(4, 2)
    expected = v @ (A + A.T)
    assert_close(jax.vmap(jax.grad(value))(v), expected, 1e-12)
    assert_close(jax.grad(lambda v: jax.vmap(value)(v).sum())(v), expected, 1e-12)
    assert_close(jax.jit(jax.grad(lambda v: jax.vmap(value)(v).sum()))(v), expected, 1e-12)


@pytest.mark.parametrize(
    ("floating", "name"),
    [
        pytest.param(floating, name, marks=pytest.mark.slow if floating or name in SLOW else ())
        for floating in (False, True)
        for name in [*ORDERS, "RKMK45"]
    ],
)
def test_every_scheme_traces_in_any_order(floating, name):
    """Errors occur during tracing, so nothing needs to be compiled."""
    spherical = rbd.joints.Spherical()
    model = floating_pair((0.3, -0.2, -9.81), spherical) if floating else pendulum(1, damping=0.1)
    states = jax.tree.map(lambda *x: np.stack(x), moving(model, 0), moving(model, 1))

    def value(state, controls):
        end = rbd.rollout(model, state, controls, dt=0.02, scheme=scheme(name)).final
        return jnp.sum(end.q) + jnp.sum(end.v)

    controls = np.zeros((2, 3, model.nv))
    batch = lambda states, controls: jnp.sum(jax.vmap(value)(states, controls))
    found = jax.eval_shape(jax.grad(batch, argnums=(0, 1)), states, controls)
    assert jax.tree.map(jnp.shape, found) == jax.tree.map(jnp.shape, (states, controls))


@pytest.fixture(scope="module")
def sliding():
    builder = rbd.ModelBuilder(name="slider")
    slide = rbd.joints.Prismatic((1, 0, 0))
    builder.add_body("block", "world", slide, None, rbd.Inertia.sphere(1.0, 0.1), damping=0.2, friction=0.3)
    return builder.build()


@pytest.mark.slow
def test_dry_friction_has_the_same_gradient_either_way(sliding):
    """Friction includes sticking, whose search is a loop."""
    v = jnp.array([[0.5], [1.0], [2.0]])
    end = lambda v: rbd.rollout(sliding, rbd.State(jnp.zeros(1), v), dt=0.05, steps=4).final.v[0] ** 2
    after = jax.grad(lambda v: jax.vmap(end)(v).sum())(v)
    assert_close(after, jax.vmap(jax.grad(end))(v), 1e-12)
    assert np.abs(np.asarray(after)).min() > 0.1
