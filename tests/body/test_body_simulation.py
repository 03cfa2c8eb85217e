"""Body simulations as functions: derivatives, single precision, failure codes and argument checks."""

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from body_cases import BODY, INERTIA, moment

import rbd_jax
from rbd_jax import body


SCHEMES = pytest.mark.parametrize(
    "scheme",
    [
        body.DirectorEnergyMomentum(),
        pytest.param(body.DirectorLagrangeDAlembert(), marks=pytest.mark.slow),
    ],
    ids=["energy-momentum", "Lagrange-d'Alembert"],
)


def end(parameters, scheme):
    """Returns a scalar of the final state after a loaded run, as a function of velocity, load, inertia and time step."""
    velocity, components, (a, b, c), dt = jnp.split(parameters, (2, 4, 7))
    inertia = jnp.asarray(INERTIA) + jnp.diag(jnp.stack([a, b, c]))
    velocity = jnp.concatenate([velocity, jnp.zeros(1)])
    out = body.simulate(
        body.RotatingBody(inertia), jnp.eye(3), velocity, moment(components), dt=dt[0], steps=8, scheme=scheme
    )
    return jnp.sum(out.state.frame[-1] * jnp.arange(9.0).reshape(3, 3)) + 0.1 * jnp.sum(out.state.momenta[-1])


PARAMETERS = np.array([6.0, -18, -24.7, -10.7, 0.1, -0.2, 0.3, 0.05])


@SCHEMES
def test_derivatives(scheme):
    """First derivatives in reverse and forward mode, and second derivatives, agree with central differences."""
    value = lambda p: end(p, scheme)
    direction = np.array([0.3, 1.0, -2.0, 1.5, 0.2, -0.4, 0.1, 0.01])

    @jax.jit
    def derivatives(p):
        (_, gradient), (slope, curvature) = jax.jvp(jax.value_and_grad(value), (p,), (direction,))
        return gradient, slope, curvature

    gradient, slope, curvature = map(np.asarray, derivatives(PARAMETERS))
    np.testing.assert_allclose(slope, gradient @ direction, rtol=1e-11)

    # The time step is small and acts eight times, so its difference step is smaller.
    steps, step = np.array([1e-5] * 7 + [1e-7]), 1e-4
    shifts = np.concatenate([np.diag(steps), step * direction[None]])
    points = PARAMETERS + np.concatenate([shifts, -shifts, 0 * shifts[:1]])
    values = np.asarray(jax.jit(jax.vmap(value))(points))
    np.testing.assert_allclose(gradient, (values[:8] - values[9:17]) / (2 * steps), rtol=1e-6, atol=1e-6)
    second = (values[8] - 2 * values[18] + values[17]) / step**2
    np.testing.assert_allclose(curvature @ direction, second, rtol=1e-4)


def test_single_precision():
    """A rounding error ε of the directors is ε/h in their rates and accumulates: √400 ε/h of 19 rad/s is 1e-5."""
    single = body.RotatingBody(INERTIA.astype(np.float32))
    frame, velocity = np.eye(3), np.array([6.0, -18, 0])

    @jax.jit
    def run(frame, velocity):
        out = body.simulate(single, frame, velocity, dt=0.005, steps=400)
        return out, jax.vmap(lambda r: body.director_energy(single, r))(out.state.rates)

    out, energy = jax.tree.map(np.asarray, run(*(x.astype(np.float32) for x in (frame, velocity))))
    assert {x.dtype for x in jax.tree.leaves((out.t, out.state))} == {np.dtype(np.float32)}
    assert not out.code.any() and out.iterations.max() <= 5
    angle = 2 * np.arctan(0.005 * np.sqrt(360) / 2) * 400 / np.sqrt(360)
    free = lambda *start: body.free_motion(BODY, body.non_twisting_state(BODY, *start), jnp.array(angle))
    exact = jax.jit(free)(frame, velocity).frame
    np.testing.assert_allclose(out.state.frame[-1], exact, atol=5e-4)
    np.testing.assert_allclose(energy, 5022 / 7, rtol=1e-4)


def test_failures_show():
    """Each sample reports the code of its first failed step and is NaN afterwards; states before the failure keep their
    gradient.
    """

    def run(speed, last, shock):
        load = lambda t, frame: jnp.where(t < last, 1.0, shock) * frame[:, 0]
        velocity = jnp.stack([speed, 0 * speed, 0 * speed])
        scheme = body.DirectorEnergyMomentum(max_steps=3)
        return body.simulate(BODY, jnp.eye(3), velocity, load, dt=0.01, steps=10, scheme=scheme)

    def total(speed, last, shock):
        out = run(speed, last, shock)
        return jnp.sum(jnp.where(jnp.isfinite(out.state.frame), out.state.frame, 0)), out

    samples = np.array([[1, 1, 150, 1], [1, 0.05, 1, 0.03], [1, 1e5, 1, np.nan]])
    slope, out = jax.tree.map(np.asarray, jax.jit(jax.vmap(jax.grad(total, has_aux=True)))(*samples))
    codes = rbd_jax.simulate.Code
    good, unfinished, unbounded = codes.CONVERGED, codes.NOT_CONVERGED, codes.NOT_FINITE
    expected = [good] * 10, [good] * 5 + [unfinished] * 5, [unfinished] * 10, [good] * 3 + [unbounded] * 7
    assert out.code.tolist() == list(expected)
    finite = np.isfinite(out.state.frame).all(axis=(2, 3)) & np.isfinite(out.state.momenta).all(axis=(2, 3))
    assert finite.sum(axis=1).tolist() == [11, 6, 1, 4] and finite[:, 0].all()
    assert np.isnan(out.state.frame[1, 6:]).all()
    # The last load is NaN, and so are its derivatives.
    assert np.isfinite(slope[:3]).all() and slope[0] != 0 and slope[1] != 0


@pytest.fixture
def unchecked():
    """Disables jaxtyping's checks, as for users, so that only the function checks shapes."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def test_unfit_arguments_are_refused(unchecked):
    frame, velocity = np.eye(3), np.array([1.0, 0, 0])
    given = {"body": BODY, "frame": frame, "velocity": velocity, "dt": 0.1, "steps": 2}
    for wrong, message in (
        ({"steps": 0}, "steps is 0"),
        ({"frame": frame[:2]}, r"frame has shape \(2, 3\)"),
        ({"frame": 2 * frame}, "frame is no rotation matrix"),
        ({"velocity": velocity[:2]}, r"velocity has shape \(2,\)"),
        ({"velocity": np.array([1.0, 0, 0.5])}, "about its third director at 0.5 rad/s"),
        ({"moment": lambda t, frame: t}, r"the result of moment has shape \(\)"),
        ({"scheme": body.DirectorEnergyMomentum(max_steps=0)}, "max_steps is 0"),
        ({"body": INERTIA}, "body is a ndarray; it takes a RotatingBody"),
        (
            {"constraints": body.NonTwisting},
            r"constraints is the class NonTwisting; it takes NonTwisting\(\) or",
        ),
        (
            {"scheme": body.DirectorEnergyMomentum},
            "scheme is the class DirectorEnergyMomentum; it takes a scheme",
        ),
        (
            {"scheme": rbd_jax.EnergyMomentum()},
            "scheme is a EnergyMomentum; it takes a scheme such as Director",
        ),
        ({"moment": np.ones(3)}, r"moment is .*; it is a function \(time, frame\)"),
        ({"dt": 0}, "dt is 0; a step of time is not zero"),
        ({"dt": np.nan}, "dt is nan, which is not finite"),
        ({"dt": "x"}, "dt is 'x'; it takes one number"),
        ({"dt": np.ones(2)}, r"dt has shape \(2,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            body.simulate(**given | wrong)
    for a, message in (
        ("x", "a is 'x'; it takes one number"),
        (np.nan, "a is nan"),
        (1.5, r"a is 1\.5; it cannot be more than 1"),
    ):
        with pytest.raises(ValueError, match=f"NonTwisting: {message}"):
            body.NonTwisting(a)
    for state in (body.split_state, body.non_twisting_state, body.director_state):
        for known, given in zip(*(jax.tree.leaves(state(BODY, frame, v)) for v in (velocity, [1.0, 0, 0]))):
            np.testing.assert_array_equal(given, known)
        with pytest.raises(ValueError, match=rf"{state.__name__}: velocity has shape \(2,\)"):
            state(BODY, frame, [1.0, 0])
        with pytest.raises(ValueError, match=f"{state.__name__}: frame is no rotation matrix"):
            state(BODY, 2 * frame, velocity)
    up = np.array([[0.0, 0, 1], [0.6, 0, 0.8]])
    for directors, initial, message in (
        (up[0], frame, r"directors has shape \(3,\)"),
        (2 * up, frame, r"directors\[0\] has length 2"),
        (up[::-1], frame, r"third column of initial is not directors\[0\]"),
        (np.stack([up[0], -up[0]]), frame, r"directors\[0\] and directors\[1\] are antipodes"),
        (
            up,
            np.diag(np.array([1.0, -1, 1])),
            "initial is a reflection: det R = -1; its columns must be right-handed",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            body.non_twisting_frames(directors, initial)
    with pytest.raises(ValueError, match=r"\[3, 5, 8\] samples"):
        body.quotient_of_precision(np.ones(3), np.ones(5), np.ones(8))
