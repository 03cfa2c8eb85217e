"""Adaptive schemes: accuracy, derivatives, and failures."""

import re
import sys

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from schemes import result, scheme
from simulated import SPIN, heavy_top, moving, pendulum
from support import assert_each_close, differences
from test_schemes import TOP_AT, center

import rbd_jax as rbd


Result = result()


def test_the_heavy_top_after_two_seconds():
    """The center of mass after 1 s and 2 s and the angular velocity after 2 s match to nine digits, with a diffrax scheme."""
    model = heavy_top()
    rule = scheme("Adaptive", solver=diffrax.Dopri8(), rtol=1e-13, atol=1e-13, max_steps=5000)
    path = jax.jit(lambda s: rbd.rollout(model, s, dt=1.0, steps=2, scheme=rule))(SPIN)
    assert path.code == Result.SUCCESS
    q, v = np.asarray(path.q), np.asarray(path.v)
    for second, place in TOP_AT.items():
        np.testing.assert_allclose(center(model, q[second]), place, atol=1e-9)
    spin = np.asarray(rbd.body_velocities(model, *map(jnp.asarray, (q[-1], v[-1]))))[0, 1]
    np.testing.assert_allclose(spin, -106.1638041431, atol=1e-8)


def test_own_pair_is_that_of_diffrax():
    """The pair differs only in the error estimate, for which diffrax has another fourth-order scheme."""
    own, other = scheme("RKMK45").pair, scheme("Adaptive", solver=diffrax.Dopri5()).pair
    assert own.order == other.order == 5
    assert_each_close(
        (own.stages, own.end[0]), (other.stages, other.end[0][:6]), 1e-15
    )  # the seventh is zero
    assert abs(sum(own.error[0])) < 1e-16


def test_error_follows_the_tolerance():
    """A thousand times the tolerance gives between a hundred and ten thousand times the error."""
    model, state = pendulum(), moving(pendulum())

    @jax.jit
    def finals(state):
        rules = (scheme("RKMK45", rtol=10.0**-n, atol=10.0**-n) for n in (12, 4, 7))
        return [rbd.rollout(model, state, dt=0.5, steps=2, scheme=rule).final.v for rule in rules]

    exact, loose, tight = map(np.asarray, finals(state))
    ratio = np.abs(loose - exact).max() / np.abs(tight - exact).max()
    assert 1e2 < ratio < 1e4


def swing(x):
    """Returns a scalar of a pendulum's rollout as a function of initial state, gravity, a control and the time step."""
    model = pendulum(1, damping=0.1)
    model = eqx.tree_at(lambda m: m.gravity, model, jnp.stack([0 * x[0], 0 * x[0], x[0]]))
    path = rbd.rollout(
        model,
        rbd.State(x[1:2], x[2:3]),
        jnp.stack([x[3:4], -x[3:4]]),
        dt=x[4],
        scheme=scheme("RKMK45", rtol=1e-9, atol=1e-9),
    )
    return path.final.q[0] + path.final.v[0] ** 2


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, 2])
def test_derivatives(order):
    """Forward, reverse and forward-over-reverse mode under vmap match finite differences."""
    x = jnp.array([[-9.81, 0.5, 0.3, 0.2, 0.4], [-5.0, 2.0, -1.0, 0.1, 0.3]])
    reverse = jax.jit(jax.vmap(jax.grad(swing)))
    if order == 1:
        expected = differences(jax.jit(jax.vmap(swing)), x, 1e-3, order=4)
        np.testing.assert_allclose(reverse(x), expected, atol=1e-7)
        np.testing.assert_allclose(jax.jit(jax.vmap(jax.jacfwd(swing)))(x), expected, atol=1e-7)
    else:
        hessian = jax.jit(jax.vmap(jax.hessian(swing)))(x)
        np.testing.assert_allclose(hessian, differences(reverse, x, 1e-3, order=4), atol=1e-5)


def test_codes():
    """Too few steps allowed; a tolerance that no step meets; a motion that diverges in finite time."""
    model = pendulum(1)

    def run(state, **options):
        rule = scheme("RKMK45", **options)
        blow_up = (lambda model, state, t: 3 * state.v**3,) if options.get("rtol") == 1e-3 else ()
        path = rbd.rollout(model, state, dt=0.2, steps=4, scheme=rule, forces=blow_up)
        return jax.tree.map(np.asarray, path)

    state = moving(model)
    short = run(state, rtol=1e-12, atol=1e-12, max_steps=5)
    assert (short.code, short.failed_step) == (Result.TOO_MANY_STEPS, 0)
    assert np.all(np.isfinite(short.q[0])) and np.all(np.isnan(short.q[1:])) and np.all(np.isnan(short.v[1:]))
    gone = run(rbd.State(state.q, np.ones(1)), rtol=1e-3, atol=1e-6)
    assert gone.code == Result.STEP_TOO_SMALL and np.isnan(gone.final.v)
    assert np.isfinite(gone.v[gone.failed_step]) and np.isnan(gone.v[gone.failed_step + 1])


def test_what_is_no_explicit_scheme_is_refused(monkeypatch):
    with pytest.raises(ValueError, match="Adaptive: solver must be an explicit .* got 'dopri8'"):
        scheme("Adaptive", solver="dopri8")
    with pytest.raises(ValueError, match="Kvaerno5"):
        scheme("Adaptive", solver=diffrax.Kvaerno5())
    monkeypatch.setitem(sys.modules, "diffrax", None)
    with pytest.raises(ImportError, match=r"pip install 'rbd_jax\[adaptive\]'"):
        scheme("Adaptive", solver=None)


WRONG = {
    "negative": (
        {"rtol": -1e-6, "atol": 0},
        "rtol of an adaptive scheme is -1e-06; it must be a finite number",
    ),
    "infinite": ({"atol": float("inf")}, "atol of an adaptive scheme is inf"),
    "no number": ({"rtol": float("nan")}, "rtol of an adaptive scheme is nan"),
    "several": ({"rtol": np.ones(2)}, "rtol of an adaptive scheme is array"),
    "none": ({"atol": None}, "atol of an adaptive scheme is None"),
    "both zero": ({"rtol": 0, "atol": 0.0}, ": rtol and atol are both zero"),
    "no steps": ({"max_steps": 0}, ": max_steps is 0; it must be a positive integer"),
    "half steps": ({"max_steps": 2.5}, ": max_steps is 2.5; it must be a positive integer"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_tolerances_are_refused(case, monkeypatch):
    """The constructor raises the error."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    options, message = WRONG[case]
    for name, solver in (("RKMK45", {}), ("Adaptive", {"solver": diffrax.Dopri5()})):
        with pytest.raises(ValueError, match=re.escape(name + message if message[0] == ":" else message)):
            scheme(name, **solver, **options)


def test_traced_tolerances_are_refused():
    """Concrete tolerances of any type become plain numbers."""
    with pytest.raises(ValueError, match="rtol of an adaptive scheme is traced"):
        jax.jit(lambda r: (scheme("RKMK45", rtol=r), r)[1])(1e-6)
    assert scheme("RKMK45", rtol=jnp.asarray(np.array(0.5))) == scheme("RKMK45", rtol=0.5)


def test_a_model_without_degrees_of_freedom():
    """A single fixed body is simulated without an error."""
    builder = rbd.ModelBuilder()
    builder.add_body("base", "world", rbd.joints.Fixed(), inertia=rbd.Inertia.sphere(1.0, 0.1))
    model = builder.build()
    for rule in (scheme("RKMK45"), scheme("Adaptive", solver=diffrax.Dopri5())):
        path = rbd.rollout(model, rbd.State(np.zeros(0), np.zeros(0)), dt=0.1, steps=2, scheme=rule)
        assert path.code == Result.SUCCESS and path.q.shape == (3, 0)
