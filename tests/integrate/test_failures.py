"""Steps that fail: code, number of the step, and NaN from there on, for every sample of a batch by itself."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from schemes import result, scheme
from simulated import compiled, pendulum

import rbd_jax as rbd


Result = result()
DT = 0.1


def mass():
    builder = rbd.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_body("mass", joint=rbd.joints.Prismatic(), inertia=rbd.Inertia.sphere(1.0, 0.1))
    return builder.build()


def fleeing(strength, name, steps=20, save_every=1):
    """A mass that is pushed by `strength v²`, which takes it to infinity in the time `1/strength`."""
    return rbd.rollout(
        mass(),
        rbd.State(jnp.zeros(1), jnp.ones(1)),
        dt=DT,
        steps=steps,
        save_every=save_every,
        scheme=scheme(name),
        forces=(lambda model, q, v: strength * v**2,),
    )


def implicit_failure(strength, steps=20):
    """The step from which `v⁺ = v + h k v⁺²` has no root."""
    v = 1.0
    for number in range(steps):
        if 4 * DT * strength * v > 1:
            return number
        v = (1 - np.sqrt(1 - 4 * DT * strength * v)) / (2 * DT * strength) if strength else v
    return -1


@pytest.mark.parametrize("save_every", [1, 4])
def test_of_an_implicit_scheme(save_every):
    strengths = jnp.array([0.0, 0.6, 0.9, 3.0])
    path = compiled(jax.vmap(lambda k: fleeing(k, "BDF1", save_every=save_every)))(strengths)
    expected = [implicit_failure(float(k)) for k in strengths]
    assert path.failed_step.tolist() == expected
    assert expected[0] == -1 and expected[1] > expected[2] > expected[3] == 0
    assert path.code.tolist() == [Result.SUCCESS] + [Result.NOT_CONVERGED] * 3
    for row, failed in enumerate(expected):
        lost = np.arange(0, 21, save_every) > (20 if failed < 0 else failed)
        for numbers in (path.q[row], path.v[row]):
            assert np.all(np.isnan(numbers[lost])) and np.all(np.isfinite(numbers[~lost]))


def test_derivatives_of_a_failure_are_not_numbers():
    """And those of the samples beside it are."""
    value = lambda k: jnp.sum(fleeing(k, "BDF1", steps=5).final.v)
    gradients = compiled(jax.vmap(jax.grad(value)))(jnp.array([0.1, 3.0]))
    assert np.isfinite(gradients[0]) and np.isnan(gradients[1])


def test_of_an_explicit_scheme():
    """That its numbers grew beyond all bounds is seen in the saved states."""
    run = compiled(jax.vmap(lambda k: fleeing(k, "LieEuler", steps=40)))
    path = run(jnp.array([0.0, 1e3]))
    lost = int(np.argmin(np.isfinite(path.v[1, :, 0]))) - 1
    assert path.code.tolist() == [Result.SUCCESS, Result.NOT_FINITE] and path.failed_step.tolist() == [
        -1,
        lost,
    ]
    assert np.all(np.isfinite(path.v[0])) and 0 < lost < 20


def test_numbers_that_are_none_to_begin_with():
    path = rbd.rollout(pendulum(), rbd.State(jnp.full(2, jnp.nan), jnp.zeros(2)), dt=DT, steps=2)
    assert (path.code, path.failed_step) == (Result.NOT_FINITE, 0)


def test_a_failure_can_be_made_an_exception():
    with pytest.raises(eqx.EquinoxRuntimeError, match="not finite"):
        rbd.checked(fleeing)(3.0, "BDF1", steps=2)
