"""`checked` raises an exception for non-finite results, and changes nothing else."""

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
    """The model's parameters are runtime values: the same compiled function raises only for the singular model."""
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
    models = jax.tree.map(lambda *leaves: np.stack(leaves), SOUND, SINGULAR)
    function = jax.vmap(rbd.checked(rbd.forward_dynamics), in_axes=(0, None, None, None))
    with pytest.raises(Exception, match=RAISED):
        jax.block_until_ready(function(models, *ARGUMENTS))


def test_diverged_rollout():
    """A step that is far too long for a stiff spring with explicit integration raises."""
    model = eqx.tree_at(lambda m: m.stiffness, SOUND, np.full(2, 1e6))
    state = rbd.State(*ARGUMENTS[:2])
    with pytest.raises(Exception, match="rollout: .*diverged"):
        jax.block_until_ready(
            rbd.checked(rbd.rollout)(model, state, dt=0.1, steps=400, scheme=rbd.RungeKutta4())
        )


def test_finite_results_pass_whole():
    """Trees, keyword arguments and results without floats pass unchanged."""
    frames = rbd.checked(rbd.forward_kinematics)(SOUND, q=ARGUMENTS[0])
    assert isinstance(frames, rbd.Transform)
    assert rbd.checked(lambda: (3, "word"))() == (3, "word")
    assert rbd.checked(rbd.mass_matrix).__name__ == "mass_matrix"


def test_differentiable():
    """Forward and reverse mode give the derivatives of the function itself."""
    q, v, tau = ARGUMENTS

    def value(function):
        return lambda tau: jnp.sum(function(SOUND, q, v, tau) ** 2)

    plain, safe = value(rbd.forward_dynamics), value(rbd.checked(rbd.forward_dynamics))
    expected = jax.jit(jax.grad(plain))(tau)
    np.testing.assert_allclose(jax.jit(jax.grad(safe))(tau), expected, rtol=1e-12)
    np.testing.assert_allclose(jax.jit(jax.jacfwd(safe))(tau), expected, rtol=1e-12)


SUDDEN = jnp.array([0.0, 1e200])


@pytest.mark.parametrize("compile", [pytest.param(lambda f: f, marks=pytest.mark.slow), jax.jit])
def test_rollout_raises_if_it_is_told_to(compile):
    """The exception has the message of the failure code; a successful motion is unchanged by `throw=True`."""
    model = rbd.load("double_pendulum")

    @compile
    def final(v):
        return rbd.rollout(model, rbd.State(jnp.zeros(2), v), dt=0.1, steps=5, throw=True).final.q

    where = "rollout: diverged in step 0" if compile is not jax.jit else "rollout: diverged"
    with pytest.raises(RuntimeError, match=f"{where}: a speed exceeds the speed of light"):
        jax.block_until_ready(final(SUDDEN))
    expected = rbd.rollout(model, rbd.State(jnp.zeros(2), jnp.ones(2)), dt=0.1, steps=5).final.q
    np.testing.assert_allclose(final(jnp.ones(2)), expected, rtol=1e-12)


@pytest.mark.parametrize("over", [pytest.param(jax.vmap, marks=pytest.mark.slow), rbd.batch_map])
def test_a_batch_of_rollouts_raises_for_one_of_them(over):
    model = rbd.load("double_pendulum")
    one = lambda v: rbd.rollout(model, rbd.State(jnp.zeros(2), v), dt=0.1, steps=5, throw=True).final.q
    with pytest.raises(RuntimeError, match="a speed exceeds the speed of light"):
        jax.block_until_ready(over(one)(jnp.stack([jnp.ones(2), SUDDEN])))


@pytest.mark.slow
def test_a_rollout_that_raises_has_the_gradient_of_one_that_does_not():
    model = rbd.load("double_pendulum")

    def loss(v, throw):
        return jnp.sum(rbd.rollout(model, rbd.State(jnp.zeros(2), v), dt=0.01, steps=5, throw=throw).q)

    slope = jax.jit(jax.grad(loss), static_argnums=1)
    np.testing.assert_allclose(slope(jnp.ones(2), True), slope(jnp.ones(2), False), rtol=1e-12)
