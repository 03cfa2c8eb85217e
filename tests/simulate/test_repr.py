"""The text representation of states, trajectories and assemblies."""

import jax
import jax.numpy as jnp
import numpy as np

import rbd_jax as rbd
from rbd_jax.constraints import Assembly


def trajectory(code=0, failed=-1, **more):
    t = np.linspace(0.0, 1.0, 5)
    numbers = t, np.stack([t, -t], axis=1), np.full((5, 2), 0.123456), np.zeros((4, 2))
    return rbd.Trajectory(*arrays(*numbers), count(code), count(failed), **more)


def count(number):
    return jnp.asarray(np.int32(number))


def arrays(*parts):
    return [jnp.asarray(np.asarray(part)) for part in parts]


def batch():
    paths = [trajectory(), trajectory(rbd.Result.DIVERGED, 3), trajectory(rbd.Result.DIVERGED, 2)]
    return jax.tree.map(lambda *x: jnp.asarray(np.stack(x)), *paths)


def test_a_state_shows_its_numbers():
    assert (
        repr(rbd.State(*arrays([0.5, -1e-9]), np.array([1 / 3, 2.0])))
        == "State(q=[0.5 -1e-09], v=[0.3333 2])"
    )
    assert repr(rbd.State(*arrays([1.0], [1.0], [0.25]))) == "State(q=[1], v=[1], own=[0.25])"
    assert "q=[0 1 2 ... 97 98 99]" in repr(rbd.State(*arrays(np.arange(100.0), [1.0])))
    assert (
        repr(rbd.State(*arrays(np.ones((8, 2)), np.ones((8, 2))))) == "State(q=float64[8,2], v=float64[8,2])"
    )


def test_a_trajectory_shows_how_it_went():
    expected = "Trajectory: 5 states from t = 0 to 1\n   SUCCESS\n   final State(q=[1 -1], v=[0.1235 0.1235])"
    assert repr(trajectory()) == expected
    assert "\n   SINGULAR in step 3\n" in repr(trajectory(rbd.Result.SINGULAR, 3))
    assert "\n   constraints open by 0.0012 at most\n" in repr(trajectory(opening=jnp.array(0.00123)))
    assert "\n   event at t = 0.4\n" in repr(trajectory(event_step=count(1), event_time=jnp.array(0.4)))
    assert "\n   event never\n" in repr(trajectory(event_step=count(-1), event_time=jnp.array(1.0)))
    assert "\n   code 99 in step 1\n" in repr(trajectory(99, 1))


def test_a_batch_of_trajectories_is_counted():
    lines = repr(batch()).splitlines()
    assert lines[0] == "Trajectory: 3 samples of 5 states from t = 0 to 1"
    assert lines[1:3] == ["   1 SUCCESS", "   2 DIVERGED, first in step 2"]
    assert lines[3] == "   final State(q=float64[3,2], v=float64[3,2])"


def test_an_assembly_shows_whether_it_is_closed():
    def one(residual, closed):
        return Assembly(*arrays([0.5, -1.0], residual, closed))

    assert repr(one(1.2e-16, True)) == "Assembly: closed, open by 1.2e-16 at most, q=[0.5 -1]"
    assert repr(one(0.3, False)) == "Assembly: not closed, open by 0.3 at most, q=[0.5 -1]"
    both = jax.tree.map(lambda *x: jnp.asarray(np.stack(x)), one(0.0, True), one(0.3, False))
    assert repr(both) == "Assembly: 1 of 2 closed, open by 0.3 at most, q=float64[2,2]"


def test_what_has_no_numbers_prints_too():
    """Inside transformations, as shapes, with other objects instead of arrays, and with deleted arrays."""
    printed = []
    note = lambda x: (printed.append(repr(x)), x)[1]
    assembly = Assembly(*arrays(np.ones((3, 2)), np.zeros(3), np.ones(3, bool)))
    for thing in (batch(), batch().final, assembly):
        jax.jit(note)(thing)
        jax.vmap(note)(thing)
        printed += [repr(jax.eval_shape(note, thing)), repr(jax.tree.map(lambda x: "a", thing))]
    assert len(printed) == 12 and all(text.startswith(("Traj", "State", "Assem")) for text in printed)
    state = batch().final
    state.q.delete()
    assert repr(state).startswith("State")
    assert repr(jax.tree.map(lambda x: jnp.asarray(np.asarray(x)[:0]), batch())).startswith(
        "Trajectory: 0 samples"
    )
