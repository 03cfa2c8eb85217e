"""The motion between saved states, and stopping at events."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ellipe, ellipk
from simulated import moving, tumbler
from support import assert_each_close

import rbd_jax as rbd
from rbd_jax.simulate.bdf1 import BDF1


@pytest.mark.slow
def test_between_saved_states():
    """Interpolation reproduces saved states; between them errors are fourth order in q, third in v. Book eqs. 11.45, 11.46."""
    model = tumbler()
    state, times = moving(model), jnp.linspace(0.0, 0.24, 49)
    path = jax.jit(lambda s: rbd.rollout(model, s, dt=0.005, steps=48, scheme=rbd.RungeKutta4()))(state)

    def error(every):
        thin = rbd.Trajectory(path.t[::every], path.q[::every], path.v[::every], path.tau[::every])
        there = jax.jit(jax.vmap(lambda t: thin.at(model, t)))(times)
        off = jax.vmap(lambda a, b: rbd.difference(model, a, b))(path.q, there.q)
        return np.abs(off).max(), np.abs(there.v - path.v).max()

    exact = error(1)
    assert max(exact) < 1e-12
    coarse, fine = np.array(error(8)), np.array(error(4))
    np.testing.assert_allclose(np.log2(coarse / fine), [4, 3], atol=0.4)


def ball():
    builder = rbd.ModelBuilder(name="ball")
    builder.add_body("ball", joint=rbd.joints.Translational(), inertia=rbd.Inertia.sphere(1.0, 0.1))
    return builder.build()


def pendulum_of_unit_length():
    builder = rbd.ModelBuilder(name="pendulum")
    point = rbd.Inertia.from_mass_com(1.0, (0.0, 0.0, -1.0), np.zeros((3, 3)))
    builder.add_body("bob", joint=rbd.joints.Revolute((0, 1, 0)), inertia=point)
    return builder.build()


def falling(height, save_every=1, target=0.0):
    """A ball falls from a height until it hits the ground."""
    model = ball()
    state = rbd.State(jnp.stack([jnp.zeros_like(height), jnp.zeros_like(height), height]), jnp.zeros(3))
    return rbd.rollout(
        model,
        state,
        dt=0.05,
        steps=12,
        save_every=save_every,
        scheme=rbd.RungeKutta4(),
        event=lambda t, s: s.q[2] - target,
    )


HEIGHTS = np.array([1.0, 0.37, 100.0])


@functools.cache
def falls(save_every):
    """Returns the trajectories of balls that fall from `HEIGHTS`."""
    return jax.tree.map(np.asarray, jax.jit(jax.vmap(lambda h: falling(h, save_every)))(HEIGHTS))


@pytest.mark.parametrize("save_every", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_stops_at_the_event(save_every):
    """Free fall is a parabola, which the interpolation reproduces: `t = √(2 h/g)`, `v = -g t`."""
    path = falls(save_every)
    times = np.sqrt(2 * HEIGHTS[:2] / 9.81)
    np.testing.assert_allclose(path.event_time[:2], times, rtol=1e-13)
    assert path.event_step.tolist() == [int(t / 0.05) for t in times] + [-1]
    np.testing.assert_allclose(path.event_time[2], 0.6)
    later = np.asarray(path.t[:2]) > times[:, None]
    for row, time, after in zip(range(2), times, later):
        np.testing.assert_allclose(path.q[row, after, 2], 0, atol=1e-14)
        np.testing.assert_allclose(path.v[row, after, 2], -9.81 * time, rtol=1e-13)
        np.testing.assert_allclose(path.v[row, ~after, 2], -9.81 * path.t[row, ~after], rtol=1e-12)
    assert not path.code.any() and np.all(path.failed_step == -1)


def test_between_saved_states_and_an_event():
    """The motion until the event, then the event's state; NaN before the start and after the end."""
    path, model = jax.device_put(jax.tree.map(lambda x: np.asarray(x)[0], falls(3))), ball()
    hit = np.sqrt(2 / 9.81)
    times = np.array([0.0, 0.1, 0.44, hit - 1e-9, hit + 1e-9, 0.5, 0.6, 0.61])
    there = jax.jit(jax.vmap(lambda t: path.at(model, t)))(times)
    fall, q, v = np.minimum(times[:-1], hit), np.asarray(there.q), np.asarray(there.v)
    np.testing.assert_allclose(q[:-1, 2], 1 - 9.81 * fall**2 / 2, atol=1e-12)
    np.testing.assert_allclose(v[:-1, 2], -9.81 * fall, atol=1e-9)
    for time in (-0.01, 0.61):
        with pytest.raises(ValueError, match="outside the trajectory, from 0 to 0.6"):
            path.at(model, time)
    assert np.isnan(q[-1]).all()


def hit(q, dt):
    """Returns time and speed at which a pendulum from rest passes its lowest point, with an adaptive scheme."""
    model, state = pendulum_of_unit_length(), rbd.State(q[None], jnp.zeros(1))
    options = {"scheme": rbd.RKMK45(1e-12, 1e-12), "event": lambda t, s: s.q[0]}
    path = rbd.rollout(model, state, dt=dt, steps=round(1 / dt), **options)
    return path.event_time, path.final.v[0]


@pytest.mark.slow
@pytest.mark.parametrize("dt", [0.1, 0.5])
def test_an_adaptive_scheme_finds_events_to_its_tolerance(dt):
    """The time is exact for any distance between rows: a quarter of a period."""
    time, speed = jax.jit(lambda q: hit(q, dt))(2.0)
    quarter = ellipk(np.sin(1.0) ** 2) / np.sqrt(9.81)
    np.testing.assert_allclose(time, quarter, rtol=1e-10)
    np.testing.assert_allclose(speed, -np.sqrt(2 * 9.81 * (1 - np.cos(2.0))), rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("dt", [0.1, 0.5])
def test_derivative_of_an_event_by_an_adaptive_scheme(dt):
    slope = jax.jit(jax.grad(lambda q: hit(q, dt)[0]))(2.0)
    m = np.sin(1.0) ** 2
    by_m = (ellipe(m) - (1 - m) * ellipk(m)) / (2 * m * (1 - m))
    np.testing.assert_allclose(slope, by_m * np.sin(1.0) * np.cos(1.0) / np.sqrt(9.81), rtol=1e-8)


@pytest.mark.parametrize("dt", [0.05, pytest.param(0.125, marks=pytest.mark.slow)])
def test_zero_at_the_start_is_no_event(dt):
    """A body thrown up from the ground returns; the event may coincide with a row."""
    state = rbd.State(np.zeros(3), np.array([0.0, 0.0, 9.81 / 4]))

    @jax.jit
    @jax.vmap
    def thrown(above):
        event = lambda t, s: s.q[2] + above
        return rbd.rollout(ball(), state, dt=dt, steps=20, scheme=rbd.RungeKutta4(), event=event)

    path = thrown(np.array([1e-15, 0.0]))
    np.testing.assert_allclose(path.event_time, [0.5, 0.5], rtol=1e-12)
    np.testing.assert_allclose(np.asarray(path.v)[0, -1, 2], -9.81 / 4, rtol=1e-12)


@pytest.mark.slow
def test_derivatives_do_not_see_what_comes_after_the_event():
    """The force is NaN after the event."""

    def hit(height):
        state = rbd.State(jnp.stack([jnp.zeros_like(height), jnp.zeros_like(height), height]), jnp.zeros(3))
        return rbd.rollout(
            ball(),
            state,
            dt=0.05,
            steps=20,
            forces=(lambda model, state, t: jnp.stack([0 * t, 0 * t, 0.1 * jnp.sqrt(state.q[2])]),),
            event=lambda t, s: s.q[2],
        ).event_time

    slope = jax.jit(jax.grad(hit))(1.0)
    ends = jax.jit(jax.vmap(hit))(jnp.array([1 + 1e-5, 1 - 1e-5]))
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / 2e-5, rtol=1e-7)


@pytest.mark.slow
def test_derivatives_of_the_event():
    """The time has `dt/dh = 1/(g t)`; the state at the event has the corresponding derivative."""
    time = np.sqrt(2 / 9.81)
    slope = 1 / (9.81 * time)
    for derivative in (jax.jacfwd, jax.jacrev):
        found = jax.jit(derivative(lambda h: (falling(h).event_time, falling(h).final.v[2])))(
            jnp.asarray(1.0)
        )
        np.testing.assert_allclose(found, (slope, -9.81 * slope), rtol=1e-12)


@pytest.mark.slow
def test_what_fails_after_the_event_does_not_count():
    """A mass under the force v² diverges after one second; the event comes before, or after."""
    model = ball()

    def run(target):
        return rbd.rollout(
            model,
            rbd.State(np.zeros(3), np.array([1.0, 0.0, 0.0])),
            dt=0.05,
            steps=30,
            scheme=BDF1(),
            forces=(lambda model, state, t: model.inertias.mass * state.v**2,),
            event=lambda t, s: s.q[0] - target,
        )

    path = jax.tree.map(np.asarray, jax.jit(jax.vmap(run))(np.array([0.5, 100.0])))
    assert path.code[0] == 0 and path.event_step[0] > 0 and np.isfinite(path.q[0]).all()
    np.testing.assert_allclose(path.final.q[0, 0], 0.5, rtol=1e-12)
    assert path.code[1] != 0 and path.event_step[1] == -1 and np.isnan(path.final.q[1]).all()


def test_without_an_event_nothing_is_said_of_one():
    start = rbd.State(np.zeros(3), np.ones(3))
    path = rbd.rollout(ball(), start, dt=0.01, steps=4, scheme=rbd.RungeKutta4())
    assert path.event_time is None and path.event_step is None
    assert_each_close(path.failed_step, -1)
