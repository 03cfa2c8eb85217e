"""`checked` turns what is not finite into an exception, and changes nothing else."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd


def chain(armature):
    """Two hinges, the last link without mass."""
    builder = rbd.ModelBuilder(name="chain")
    builder.add_body(
        "link", "world", rbd.joints.Revolute(), inertia=rbd.Inertia.sphere(1.0, 0.1, (0.3, 0.0, 0.0))
    )
    builder.add_body("end", "link", rbd.joints.Revolute(), armature=armature)
    return builder.build()


ARGUMENTS = (jnp.array([0.1, 0.2]), jnp.array([0.3, 0.4]), jnp.array([0.5, 0.6]))
SINGULAR, SOUND = chain(0.0), chain(0.1)
RAISED = "forward_dynamics: the result has a number that is not finite"


def test_unchecked_is_not_finite():
    assert not np.isfinite(rbd.forward_dynamics(SINGULAR, *ARGUMENTS)).all()


def test_raises():
    with pytest.raises(Exception, match=RAISED):
        jax.block_until_ready(rbd.checked(rbd.forward_dynamics)(SINGULAR, *ARGUMENTS))


@pytest.mark.parametrize("compile", [jax.jit, eqx.filter_jit])
def test_raises_in_compiled_code(compile):
    """The model's numbers are only known when it runs: the same compiled function raises for one model alone."""
    function = compile(rbd.checked(rbd.forward_dynamics))
    with pytest.raises(Exception, match=RAISED):
        jax.block_until_ready(function(SINGULAR, *ARGUMENTS))
    np.testing.assert_allclose(
        function(SOUND, *ARGUMENTS), rbd.forward_dynamics(SOUND, *ARGUMENTS), rtol=1e-12
    )


def test_raises_around_compiled_code():
    with pytest.raises(Exception, match=RAISED):
        jax.block_until_ready(rbd.checked(jax.jit(rbd.forward_dynamics))(SINGULAR, *ARGUMENTS))


def test_raises_for_one_sample_of_a_batch():
    models = jax.tree.map(lambda *leaves: jnp.stack(leaves), SOUND, SINGULAR)
    function = jax.vmap(rbd.checked(rbd.forward_dynamics), in_axes=(0, None, None, None))
    with pytest.raises(Exception, match=RAISED):
        jax.block_until_ready(function(models, *ARGUMENTS))


def test_diverged_rollout():
    """A step far too long for a stiff spring that is taken explicitly."""
    model = eqx.tree_at(lambda m: m.stiffness, SOUND, jnp.full(2, 1e6))
    state = rbd.State(*ARGUMENTS[:2])
    with pytest.raises(Exception, match="rollout: .*diverged"):
        jax.block_until_ready(
            rbd.checked(rbd.rollout)(model, state, dt=0.1, steps=400, scheme=rbd.RungeKutta4())
        )


def test_finite_results_pass_whole():
    """Trees, arguments by name, and results without a float in them."""
    frames = rbd.checked(rbd.forward_kinematics)(SOUND, q=ARGUMENTS[0])
    assert isinstance(frames, rbd.Transform)
    assert rbd.checked(lambda: (3, "word"))() == (3, "word")
    assert rbd.checked(rbd.mass_matrix).__name__ == "mass_matrix"


def test_differentiable():
    """By reverse and forward mode, and as the function itself."""
    q, v, tau = ARGUMENTS

    def value(function):
        return lambda tau: jnp.sum(function(SOUND, q, v, tau) ** 2)

    plain, safe = value(rbd.forward_dynamics), value(rbd.checked(rbd.forward_dynamics))
    expected = jax.jit(jax.grad(plain))(tau)
    np.testing.assert_allclose(jax.jit(jax.grad(safe))(tau), expected, rtol=1e-12)
    np.testing.assert_allclose(jax.jit(jax.jacfwd(safe))(tau), expected, rtol=1e-12)
