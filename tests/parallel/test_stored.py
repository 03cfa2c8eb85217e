"""Batches simulated in segments: same as rollouts, resumed after a kill, and stored on disk."""

import dataclasses
import os
import resource
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import assert_close

import rbd_jax as rbd
from rbd_jax.parallel import open_trajectory, simulate_to_disk


DT, STEPS, FRAMES = 0.01, 21, 5


class Stop(Exception):
    """Raised by a callback."""


def stopping(at):
    def told(done):
        if done >= at:
            raise Stop

    return told


def motor():
    """Returns a pendulum with a motor whose filtered effort is an internal state."""
    dynamics = rbd.actuators.Filter(0.05)
    driven = rbd.load("pendulum")
    return rbd.attach(
        driven, rbd.actuators.Motor("motor", driven.joint_names[0], dynamics=dynamics, gear=2.0)
    )


def reduced():
    return rbd.ReducedModel(rbd.load("double_pendulum"), lambda y: jnp.concatenate([y, 0.3 - 0.5 * y]), 1)


def loop():
    """Returns a four-bar linkage, one bar being the ground."""
    rod, hinge = rbd.Inertia.from_mass_com(1.0, (0.5, 0, 0), 0.1 * np.eye(3)), rbd.joints.Revolute()
    tip = rbd.Transform.from_position(jnp.array([1.0, 0, 0]))
    builder = rbd.ModelBuilder(gravity=(0, -9.81, 0), name="four-bar")
    builder.add_body("crank", "world", hinge, inertia=rod)
    builder.add_body("coupler", "crank", hinge, tip, rod)
    builder.add_body("follower", "world", hinge, tip, rod)
    builder.add_constraint(rbd.constraints.HingeLoop("coupler", tip, "follower", tip))
    return builder.build()


SYSTEMS = {"chain": lambda: rbd.load("double_pendulum"), "motor": motor, "reduced": reduced, "loop": loop}
SCHEMES = {
    "default": None,
    "explicit": rbd.RungeKutta4(),
    "remembers steps": rbd.BDF2(),
    "chooses steps": rbd.RKMK45(),
}
#: The combination that compiles fastest.
EVERYDAY = {("explicit", "reduced")}


def states_of(model, batch=3):
    if isinstance(model, rbd.ReducedModel):
        return rbd.State(*jax.device_put((np.linspace(0.1, 0.5, batch)[:, None], np.full((batch, 1), 0.2))))
    if model.constraints:
        turned = np.outer(np.linspace(0.4, 1.0, batch), [1.0, -1.0, 1.0])
        return rbd.State(*jax.device_put((turned, 0.5 * turned)))
    states = rbd.parallel.random_states(model, batch, jax.random.key(1), spread=0.2, speed=0.5)
    if model.nu:  # with internal state
        states = dataclasses.replace(states, own=jax.device_put(np.full((batch, 1), 0.7)))
    return states


@pytest.mark.parametrize(
    "scheme, system",
    [
        pytest.param(scheme, system, marks=() if (scheme, system) in EVERYDAY else pytest.mark.slow)
        for scheme in SCHEMES
        for system in SYSTEMS
    ],
)
def test_it_is_one_rollout(scheme, system):
    """Internal states of schemes and forces, and initial constraint errors, carry over between segments."""
    model = SYSTEMS[system]()
    states = states_of(model)
    options = {"dt": DT, "steps": STEPS, "scheme": SCHEMES[scheme]}
    path = jax.device_get(rbd.simulate_batch(model, states, frames=FRAMES, **options))
    rows = [0, 5, 10, 15, 20, 21]
    for sample in range(len(states.q)):
        one = jax.tree.map(lambda x, sample=sample: jax.device_put(np.asarray(x)[sample]), states)
        whole = jax.device_get(rbd.rollout(model, one, **options))
        for name in ("t", "q", "v", "own"):
            if getattr(whole, name) is not None:
                assert_close(getattr(path, name)[sample], getattr(whole, name)[rows], 1e-10, name)
        assert path.code[sample] == whole.code and path.failed_step[sample] == whole.failed_step
        if whole.opening is not None:
            assert_close(path.opening[sample], whole.opening, 1e-10)


@pytest.fixture(scope="module")
def batch():
    """A model and states, one of which diverges during the simulation."""
    model = rbd.load("double_pendulum")
    states = states_of(model, 4)
    v = np.array(states.v)
    v[2] = 1e5
    states = dataclasses.replace(states, v=jax.device_put(v))
    found = rbd.simulate_batch(model, states, dt=DT, steps=STEPS, frames=FRAMES)
    assert list(np.asarray(found.code) != 0) == [False, False, True, False]
    return model, states, found


def assert_same(path, found):
    for one, other in zip(jax.tree.leaves(path), jax.tree.leaves(found), strict=True):
        np.testing.assert_array_equal(one, other)


def test_one_that_was_stopped_goes_on_to_the_same_numbers(batch, tmp_path):
    model, states, found = batch
    options = {"dt": DT, "steps": STEPS, "frames": FRAMES, "checkpoint": rbd.Checkpoint(tmp_path / "run", 0)}
    with pytest.raises(Stop):
        rbd.simulate_batch(model, states, **options, on_progress=stopping(11))
    told = []
    assert_same(rbd.simulate_batch(model, states, **options, on_progress=told.append), found)
    assert told == [0, 15, 20, 21]
    told.clear()
    assert_same(rbd.simulate_batch(model, states, **options, on_progress=told.append), found)
    assert told == [0, 21]
    with pytest.raises(rbd.CheckpointError, match="is of another run:\n  steps: 21 there, 22 here"):
        rbd.simulate_batch(model, states, **options | {"steps": 22})


def test_a_batch_on_disk(batch, tmp_path):
    model, states, found = batch
    folder, options = tmp_path / "some" / "run", {"dt": DT, "steps": STEPS, "frames": FRAMES, "every": 0}
    with pytest.raises(FileNotFoundError, match="run is no trajectory; a folder that"):
        open_trajectory(folder)
    with pytest.raises(Stop):
        simulate_to_disk(folder, model, states, **options, on_progress=stopping(11))
    assert not folder.exists()
    with pytest.raises(FileNotFoundError, match="an unfinished one is beside it"):
        open_trajectory(folder)
    told = []
    stored = simulate_to_disk(folder, model, states, **options, on_progress=told.append)
    assert told == [0, 15, 20, 21] and [path.name for path in folder.parent.iterdir()] == ["run"]
    for again in (stored, open_trajectory(folder), simulate_to_disk(folder, model, states, **options)):
        assert_same(again[:], found)
    numbers = jax.device_get(found)
    assert_same(stored[1], jax.tree.map(lambda x: x[1], numbers))
    assert_same(stored[[3, 0]].q, numbers.q[[3, 0]])
    assert_same(stored[1:3, 1::2].v, numbers.v[1:3, 1::2])
    assert (
        stored[0].final.q.shape == (2,)
        and len(stored) == 4
        and "4 samples of 6 rows, 1 failed" in str(stored)
    )
    with pytest.raises(TypeError, match="rows are a slice"):
        stored[0, 3]
    with pytest.raises(rbd.CheckpointError, match="is of another run"):
        simulate_to_disk(folder, model, states, **options | {"dt": 0.02})
    # Files of others are not overwritten or deleted.
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(FileExistsError, match="other is there already, and is no trajectory"):
        simulate_to_disk(other, model, states, **options)
    beside = tmp_path / "mine.part"
    beside.mkdir()
    (beside / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match=r"mine.part has other files \(notes.txt\)"):
        simulate_to_disk(tmp_path / "mine", model, states, **options)
    (folder / "v.npy").write_bytes(b"something else")
    with pytest.raises(rbd.CheckpointError, match="v.npy cannot be read"):
        open_trajectory(folder)


@pytest.mark.slow
def test_what_forces_remember_and_constraints_leave_open_is_on_disk_too(tmp_path):
    for name in ("motor", "loop"):
        model = SYSTEMS[name]()
        states = states_of(model)
        stored = simulate_to_disk(tmp_path / name, model, states, dt=DT, steps=STEPS, frames=FRAMES)
        assert_same(stored[:], rbd.simulate_batch(model, states, dt=DT, steps=STEPS, frames=FRAMES))
        assert (stored.own is not None) == (name == "motor") and (stored.opening is not None) == (
            name == "loop"
        )


def test_a_full_disk_is_told_and_can_be_gone_on_from(batch, tmp_path):
    model, states, found = batch
    folder, options = tmp_path / "run", {"dt": DT, "steps": STEPS, "frames": FRAMES, "every": 0}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(done):
        if done == 10:
            resource.setrlimit(resource.RLIMIT_FSIZE, (200, limits[1]))

    try:
        with pytest.raises(OSError, match=r"File too large. The same call resumes .*run\.part"):
            simulate_to_disk(folder, model, states, **options, on_progress=fill)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not folder.exists()
    assert_same(simulate_to_disk(folder, model, states, **options)[:], found)


#: A simulation to disk that is killed at a save.
KILLED = """if True:
    import sys
    import jax
    jax.config.update("jax_enable_x64", True)
    import rbd_jax as rbd
    from tests.killed import killed_at

    folder, save, moment = sys.argv[1:]
    model = rbd.load("double_pendulum")
    states = rbd.parallel.random_states(model, 4, jax.random.key(1), spread=0.2, speed=0.5)
    killed_at(int(save), moment)
    rbd.parallel.simulate_to_disk(folder, model, states, dt=0.01, steps=21, frames=5, every=0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("save", [1, 3, 5])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_one_that_is_killed_while_it_saves_goes_on_to_the_same_bytes(tmp_path, save, moment):
    model = rbd.load("double_pendulum")
    states = rbd.parallel.random_states(model, 4, jax.random.key(1), spread=0.2, speed=0.5)
    root = Path(__file__).resolve().parents[2]
    env = os.environ | {"PYTHONPATH": str(root), "JAX_ENABLE_X64": "1"}
    run = tmp_path / "run"
    done = subprocess.run([sys.executable, "-c", KILLED, str(run), str(save), moment], env=env, check=False)
    assert done.returncode == -9 and not run.exists()
    options = {"dt": 0.01, "steps": 21, "frames": 5, "every": 0}
    simulate_to_disk(run, model, states, **options)
    simulate_to_disk(tmp_path / "whole", model, states, **options)
    for path in (tmp_path / "whole").iterdir():
        if path.suffix == ".npy":
            assert path.read_bytes() == (run / path.name).read_bytes(), path.name
