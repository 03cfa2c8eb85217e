"""Coordinates with singularities: after each step a rollout changes to coordinates far from them, for every scheme."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd
from rbd_jax import joints


SECONDS = 1.0
START = np.array([1.0, 2.0, 8.0])  # more than a full turn


def top(joint):
    builder = rbd.ModelBuilder(name="top")
    inertia = rbd.Inertia.from_mass_com(1.3, (0.1, 0.0, 0.2), np.diag([0.2, 0.3, 0.4]) + 0.02)
    builder.add_body("top", joint=joint, inertia=inertia)
    return builder.build()


def within():
    """Returns the same coordinates as part of a joint."""
    return joints.Composite([joints.Fixed(), joints.SphericalExponential()])


@pytest.fixture(scope="module")
def exact():
    """The final orientation of the top, computed with quaternions."""
    model = top(joints.Spherical())
    start = rbd.State(rbd.neutral(model), START)

    @jax.jit
    def run(start):
        path = rbd.rollout(model, start, dt=SECONDS, steps=1, scheme=rbd.RKMK45(1e-11, 1e-11))
        return rbd.forward_kinematics(model, path.final.q).rotation[0]

    return np.asarray(run(start))


@pytest.mark.parametrize(
    "name, order, joint",
    [
        ("RungeKutta4", 4, joints.SphericalExponential),
        pytest.param("GeneralizedAlpha", 2, within, marks=pytest.mark.slow),
        pytest.param("BDF2", 2, joints.SphericalExponential, marks=pytest.mark.slow),
        pytest.param("Rattle", 2, joints.SphericalExponential, marks=pytest.mark.slow),
        pytest.param("VariationalMidpoint", 2, joints.SphericalExponential, marks=pytest.mark.slow),
        pytest.param("EnergyMomentum", 2, joints.SphericalExponential, marks=pytest.mark.slow),
        pytest.param("SemiImplicitEuler", 1, joints.SphericalExponential, marks=pytest.mark.slow),
    ],
)
def test_turns_without_end(name, order, joint, exact):
    """A rotation vector that would reach its singularity at a full turn keeps the order of the scheme."""
    model, scheme = top(joint()), getattr(rbd, name)()

    @jax.jit
    def run(v, steps):
        start = rbd.State(jnp.zeros(3), v)
        path = rbd.rollout(model, start, dt=SECONDS / steps, steps=200, scheme=scheme)
        turned = jax.vmap(lambda q: rbd.forward_kinematics(model, q).rotation[0])(path.q)
        return path.code, path.q, turned

    errors = []
    # With long steps the motion continues beyond the end time, so that one compilation suffices.
    for n in (100, 200):
        code, q, turned = map(np.asarray, run(START, float(n)))
        q, turned = q[: n + 1], turned[: n + 1]
        assert code == rbd.Result.SUCCESS and np.linalg.norm(q, axis=1).max() < np.pi + 1e-6
        assert np.abs(np.diff(q, axis=0)).max() > 3  # the coordinates changed
        errors.append(np.abs(turned[-1] - exact).max())
    assert errors[1] < 1e-9 or np.log2(errors[0] / errors[1]) > order - 0.3, errors


@pytest.mark.slow
def test_between_two_charts():
    """Interpolation between rows in different coordinates follows the body, and derivatives match differences."""
    model = top(joints.SphericalExponential())

    def run(v):
        return rbd.rollout(model, rbd.State(jnp.zeros(3), v), dt=0.01, steps=60, scheme=rbd.RungeKutta4())

    path = jax.jit(run)(START)
    jump = int(np.argmax(np.abs(np.diff(path.q, axis=0)).max(axis=1)))
    assert np.abs(path.q[jump + 1] - path.q[jump]).max() > 3
    place = jax.jit(lambda q: rbd.forward_kinematics(model, q).rotation[0])
    middle = jax.jit(lambda path, t: path.at(model, t))(path, 0.5 * (path.t[jump] + path.t[jump + 1]))
    turn = rbd.lie.SO3.log(place(path.q[jump]).T @ place(path.q[jump + 1]))
    half = place(path.q[jump]) @ rbd.lie.SO3.exp(0.5 * turn)
    np.testing.assert_allclose(place(middle.q), half, atol=5e-4)

    end = lambda share: jnp.sum(place(run((1 + share) * START).final.q) * jnp.arange(9.0).reshape(3, 3))
    at = jax.jit(lambda share: jax.jvp(end, (share,), (1.0,)))
    np.testing.assert_allclose(at(0.0)[1], (at(1e-5)[0] - at(-1e-5)[0]) / 2e-5, rtol=1e-6)
