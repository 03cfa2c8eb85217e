"""Training: it learns, resumes after a kill with the same result, and reports faults."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from push import SMALL, Push, cart, push, trained

import rbd_jax as rbd


pytest.importorskip("optax")

LEARNING = dataclasses.replace(
    SMALL, epochs=60, environments=16, horizon=10, actor_rate=0.01, critic_rate=0.01
)


def same(a, b):
    leaves = lambda one: jax.tree.leaves((one.policy, one.curve))
    for x, y in zip(leaves(a), leaves(b), strict=True):
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y))


@pytest.fixture(scope="module")
def undisturbed():
    return trained()


@pytest.fixture(scope="module", params=["float32", pytest.param("float64", marks=pytest.mark.slow)])
def learned(request):
    task = Push(rbd.astype(cart(), jnp.dtype(request.param)), dt=0.1, episode_length=30)
    return task, trained(config=LEARNING, task=task)


def test_a_small_task_is_learned_in_seconds(learned):
    task, found = learned
    before = jax.jit(lambda key: rbd.learn.Policy.drawn(task, key, (8,)))(jax.random.key(0))
    first, last = (
        jax.device_get(rbd.learn.evaluate(task, one, jax.random.key(5), 32)) for one in (before, found.policy)
    )
    assert last.returns.mean() > 0.4 * first.returns.mean()  # both are negative
    assert last.terminated.sum() == 0 < first.terminated.sum()
    assert {x.dtype for x in jax.tree.leaves(found.policy)} == {task.model.dtype}
    assert found.curve["reward"][-5:].mean() > found.curve["reward"][:5].mean()
    assert not found.curve["dropped"].any() and not found.curve["lost"].any()


def test_observations_are_normalized_by_all_that_was_seen(learned):
    _, found = learned
    assert found.policy.normalization.count == 60 * 16 * 10
    assert (np.asarray(found.policy.normalization.variance) < 1).all()


def test_what_is_told(undisturbed):
    told = []
    again = trained(on_progress=lambda epochs, of: told.append((epochs, of)))
    same(again, undisturbed)
    assert [epochs for epochs, _ in told] == [1, 2, 3, 4, 5, 6]
    for name, rows in again.curve.items():
        np.testing.assert_array_equal(rows, [of[name] for _, of in told])
    assert trained(on_progress=lambda epochs, _: epochs == 2).epochs == 2


def test_another_key_is_another_training(undisturbed):
    assert not np.array_equal(trained(seed=1).curve["reward"], undisturbed.curve["reward"])


# Long runs.


@pytest.mark.slow
@pytest.mark.parametrize("save, moment", [(1, "before"), (3, "before"), (4, "after"), (6, "after")])
def test_a_killed_training_goes_on_to_the_same_end(tmp_path, undisturbed, save, moment):
    path = tmp_path / "run.ckpt"
    command = [sys.executable, Path(__file__).parent / "push.py", path, str(save), moment]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(root)}, capture_output=True, text=True)
    assert done.returncode == -9, done.stderr
    assert path.exists() == (save > 1)
    same(trained(path), undisturbed)
    written = path.stat().st_mtime_ns
    same(trained(path), undisturbed)
    assert path.stat().st_mtime_ns == written


def test_it_goes_on_after_an_end_that_was_asked_for(tmp_path, undisturbed):
    path = tmp_path / "run.ckpt"
    assert trained(path, on_progress=lambda epochs, _: epochs == 4).epochs == 4
    same(trained(path), undisturbed)


def test_another_training_is_refused(tmp_path):
    path = tmp_path / "run.ckpt"
    trained(path, on_progress=lambda epochs, _: True)
    for changes, said in (
        ({"seed": 1}, "key"),
        ({"config": dataclasses.replace(SMALL, horizon=6)}, "config.horizon: 5 there, 6 here"),
        ({"task": push(worth=2.0)}, "task.worth: 1.0 there, 2.0 here"),
    ):
        with pytest.raises(rbd.CheckpointError, match=said):
            trained(path, **changes)


# Faults.


@pytest.mark.slow
def test_rewards_that_are_no_numbers_are_told():
    class Broken(Push):
        def reward(self, before, action, now):
            return {"fine": now.q[0], "bad": jnp.log(-1.0 - now.q[0] ** 2)}

    with pytest.raises(
        FloatingPointError, match=r"30 of the 30 steps of epoch 1 .*the term 'bad' of the reward"
    ):
        trained(task=Broken(cart(), dt=0.1))


@pytest.mark.parametrize(
    "change, said",
    [
        ({"epochs": 0}, "epochs is 0"),
        ({"environments": 2.5}, "environments is 2.5"),
        ({"horizon": -1}, "horizon is -1"),
        ({"discount": 1.0}, "discount is 1.0"),
        ({"discount": -0.1}, "discount is -0.1"),
        ({"trace": 1.5}, "trace is 1.5"),
        ({"actor_rate": 0.0}, "actor_rate is 0.0"),
        ({"critic_rate": float("nan")}, "critic_rate"),
        ({"actor_widths": (8, 0)}, "actor_widths"),
        ({"critic_widths": 8}, "critic_widths"),
        ({"critic_batches": 31}, "critic_batches is 31"),
        ({"following": 0.0}, "following is 0.0"),
        ({"deviation": 0.0}, "deviation is 0.0"),
        ({"steepest": 0.0}, "steepest is 0.0"),
        ({"squashed": 1}, "squashed is 1"),
    ],
)
def test_options_that_cannot_be_are_refused(unchecked, change, said):
    with pytest.raises(ValueError, match=f"ShortHorizonActorCritic: {said}"):
        dataclasses.replace(SMALL, **change)


def test_other_arguments_that_cannot_be_are_refused(unchecked):
    with pytest.raises(ValueError, match="learn.train: task is a Model; it takes a rbd.Task"):
        rbd.learn.train(cart(), SMALL, key=jax.random.key(0))
    with pytest.raises(ValueError, match="learn.train: config is a dict"):
        rbd.learn.train(push(), {}, key=jax.random.key(0))
    with pytest.raises(ValueError, match="learn.train: key"):
        rbd.learn.train(push(), SMALL, key=3)
    with pytest.raises(ValueError, match="settings_for: name is 'cartpol'; it must be one of 'cartpole'"):
        rbd.learn.settings_for("cartpol")


def test_all_bundled_tasks_have_settings():
    for name in rbd.tasks.NAMES:
        config, threshold = rbd.learn.settings_for(name)
        assert isinstance(config, rbd.learn.ShortHorizonActorCritic)
        assert threshold is None or np.isfinite(threshold)
    for name in ("cartpole", "quadruped_stand", "quadruped_trot"):
        assert rbd.learn.settings_for(name).threshold > 0
