"""Controls of some of the joints, and policies with memory."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from simulated import moving, pendulum, tumbler
from support import assert_each_close

import rbd_jax as rbd


DT = 0.01


@pytest.mark.slow
def test_motors_in_some_of_the_joints():
    """Motors on a ball joint and a hinge in a custom order: a table, a policy, and explicit efforts agree."""
    model, state = tumbler(), moving(tumbler())
    actuation = rbd.Actuation(["wheel", "arm"])
    table = jnp.asarray(np.random.default_rng(0).normal(size=(3, 4)))
    by_hand = jnp.zeros((3, model.nv)).at[:, -1].set(table[:, 0]).at[:, 6:9].set(table[:, 1:])

    @jax.jit
    def run(table, whole):
        policy = lambda t, state: table[jnp.round(t / DT).astype(int)]
        return (
            rbd.rollout(model, state, table, dt=DT, actuation=actuation),
            rbd.rollout(model, state, policy, steps=3, dt=DT, actuation=actuation),
            rbd.rollout(model, state, whole, dt=DT),
        )

    some, asked, whole = run(table, by_hand)
    assert_each_close(some, whole, 1e-14)
    assert_each_close(asked, whole, 1e-14)


def test_efforts_are_cut_off_at_their_limits():
    model = dataclasses.replace(pendulum(), effort_limit=jnp.asarray(np.array([1.0, 2.0])))
    start, controls = rbd.State(np.full(2, 0.3), np.zeros(2)), jnp.asarray(np.array([[5.0, -5.0]]))
    path = rbd.rollout(model, start, controls, dt=DT, actuation=rbd.Actuation(limits=True))
    assert path.tau.tolist() == [[1.0, -2.0]]
    free = rbd.rollout(model, start, controls, dt=DT, actuation=rbd.Actuation())
    assert free.tau.tolist() == [[5.0, -5.0]]


@pytest.mark.slow
def test_a_policy_that_remembers():
    """An integral controller equals one with an explicit sum; and its gradient."""
    model, state, gain = pendulum(), moving(pendulum()), 3.0

    def policy(t, state, memory):
        total = memory["sum"] + DT * state.q
        return -gain * total - state.v, {"sum": total, "calls": memory["calls"] + 1}

    @jax.jit
    def run(start):
        memory = {"sum": start, "calls": 0}
        return rbd.rollout(model, state, policy, dt=DT, steps=6, memory=memory)

    path = run(jnp.array([0.1, 0.0]))
    totals = jnp.array([0.1, 0.0])[None] + DT * jnp.cumsum(path.q[:-1], axis=0)
    assert_each_close(path.tau, -gain * totals - path.v[:-1], 1e-14)
    assert_each_close(path.memory["sum"], totals[-1], 1e-14)
    assert path.memory["calls"] == 6
    value = lambda start: jnp.sum(run(start).final.q)
    step = jnp.array([1e-4, 0.0])
    difference = (value(jnp.array([0.1, 0.0]) + step) - value(jnp.array([0.1, 0.0]) - step)) / 2e-4
    np.testing.assert_allclose(jax.grad(value)(jnp.array([0.1, 0.0]))[0], difference, rtol=1e-7)


REFUSED = {
    "no joint": (
        lambda model, state: rbd.rollout(model, state, steps=1, dt=DT, actuation=rbd.Actuation("lnk 0")),
        "Actuation: joints: .*'lnk 0'",
    ),
    "too wide": (
        lambda model, state: rbd.rollout(
            model, state, np.zeros((1, 2)), dt=DT, actuation=rbd.Actuation(["link 0"])
        ),
        r"controls has shape \(1, 2\); .* \(steps, nu\) with nu = 1",
    ),
    "no actuation": (
        lambda model, state: rbd.rollout(model, state, steps=1, dt=DT, actuation=["link 0"]),
        "actuation is a list; it takes an Actuation",
    ),
    "memory of nothing": (
        lambda model, state: rbd.rollout(model, state, steps=1, dt=DT, memory=np.zeros(2)),
        "memory needs a policy",
    ),
    "no pair": (
        lambda model, state: rbd.rollout(
            model, state, lambda t, s, m: jnp.zeros(2), steps=1, dt=DT, memory=np.zeros(2)
        ),
        r"controls must return a pair \(tau, memory\)",
    ),
    "another memory": (
        lambda model, state: rbd.rollout(
            model, state, lambda t, s, m: (jnp.zeros(2), m[:1]), steps=1, dt=DT, memory=np.zeros(2)
        ),
        r"a memory of shape \(2,\) and returned \(1,\)",
    ),
    "word for yes": (
        lambda model, state: rbd.Actuation(limits="yes"),
        "limits must be True or False, got 'yes'",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case, unchecked):
    call, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        call(pendulum(), moving(pendulum()))
