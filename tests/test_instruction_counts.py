"""Instruction counts of the compiled core: they are reproducible, unlike times, and reveal regressions.

A count above its bound requires an explanation, or a new bound with the times before and after in
`benchmarks/README.md`. `scripts/profile.py` prints both.
"""

import jax
import jax.numpy as jnp
import pytest
from support import AS_USED

import rbd_jax as rbd


#: CPU instructions, including those inside loops and fusions, for a robot with joints of one type. The margin
#: of a quarter allows for other versions of the compiler.
BOUNDS = {
    "inverse dynamics": 1250,
    "forward dynamics": 1750,
    "mass matrix": 1000,
    "derivatives of inverse dynamics": 2900,
    "gradient of forward dynamics": 8100,
}


def functions(model):
    return {
        "inverse dynamics": lambda q, v, a: rbd.inverse_dynamics(model, q, v, a),
        "forward dynamics": lambda q, v, a: rbd.forward_dynamics(model, q, v, a),
        "mass matrix": lambda q, v, a: rbd.mass_matrix(model, q),
        "derivatives of inverse dynamics": lambda q, v, a: rbd.inverse_dynamics_derivatives(model, q, v, a),
        "gradient of forward dynamics": lambda q, v, a: jax.grad(
            lambda *x: jnp.sum(rbd.forward_dynamics(*x)), argnums=(0, 1, 2, 3)
        )(model, q, v, a),
    }


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="the counts are those of a CPU")
@pytest.mark.parametrize(
    "name",
    [pytest.param(x, marks=pytest.mark.slow if "derivative" in x or "gradient" in x else ()) for x in BOUNDS],
)
def test_instructions(name):
    model = rbd.load("quadruped")
    state = rbd.neutral(model), jnp.zeros(model.nv), jnp.zeros(model.nv)
    compiled = jax.jit(functions(model)[name]).lower(*state).compile(AS_USED)
    count = compiled.as_text().count(" = ")
    print(name, count)
    assert count < BOUNDS[name]


def test_instructions_do_not_grow_with_the_robot():
    """A traversal compiles to a loop, so its code is the same for any length."""

    def count(links):
        builder = rbd.ModelBuilder()
        for i in range(links):
            parent = f"link {i - 1}" if i else "world"
            inertia = rbd.Inertia.box(1.0, (0.1, 0.1, 0.5))
            builder.add_body(f"link {i}", parent, rbd.joints.Revolute((0.0, 1.0, 0.0)), inertia=inertia)
        model = builder.build()
        zero = jnp.zeros(links)
        lowered = jax.jit(lambda q, v, tau: rbd.forward_dynamics(model, q, v, tau)).lower(zero, zero, zero)
        return lowered.compile(AS_USED).as_text().count(" = ")

    assert count(60) < 1.1 * count(20)
