"""An arm that is heavier than its model follows a moving target under disturbances."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd
from rbd_jax._core import jit as compiling


pytestmark = pytest.mark.slow

DT, HORIZON, SECONDS, RADIUS = 0.02, 25, 4.0, 0.12
POSTURE = (0.0, 0.6, 0.0, 1.2, 0.0, 0.6, 0.0)


@pytest.fixture(scope="module")
def arm():
    return rbd.load("arm7")


def hands(model, q):
    return jax.vmap(lambda q: rbd.forward_kinematics(model, q).position[model.body_index("tool")])(q)


@pytest.fixture(scope="module")
def circle(arm):
    """Returns the target of the hand, from the start to the end of the last plan."""
    t = jnp.arange(int(SECONDS / DT) + HORIZON + 1.0) * DT
    center = hands(arm, jnp.array([POSTURE]))[0]
    radius, angle = RADIUS * jnp.minimum(t / 0.5, 1), 2 * jnp.pi * t / 2.5
    around = jnp.stack([0 * t, radius * jnp.sin(angle), radius * (jnp.cos(angle) - 1)], axis=1)
    return np.asarray(t), center[None] + around


@pytest.fixture(scope="module")
def problem(arm, circle):
    start = rbd.State(jnp.array(POSTURE), jnp.zeros(7))
    return rbd.control.Problem(
        arm,
        start,
        steps=HORIZON,
        dt=DT,
        running=[
            1e2 * rbd.control.Along(rbd.control.Position("tool", circle[1])),
            1e-5 * rbd.control.Effort(),
            1e-2 * rbd.control.Velocity(),
            1e-2 * rbd.control.Posture(jnp.array(POSTURE)),
        ],
        bounds=rbd.control.Bounds.of(arm, q=False, v=False),
    )


def heavier(arm):
    """Returns the arm with all inertias increased by a fifth."""
    return eqx.tree_at(lambda one: one.inertias, arm, jax.tree.map(lambda x: 1.2 * x, arm.inertias))


def distances(arm, circle, path):
    t, goal = circle
    there = np.stack([np.interp(path.t, t, goal[:, i]) for i in range(3)], axis=1)
    return np.linalg.norm(hands(arm, path.q) - there, axis=1)


@pytest.mark.parametrize(
    "options, iterations",
    [({}, 1), ({"delay": DT}, 2), ({"period": 5 * DT}, 5), ({"warm_start": "states"}, 2)],
    ids=["every step", "late", "rarely", "handed states"],
)
def test_the_hand_of_an_arm_goes_round(arm, circle, problem, options, iterations):
    """The hand stays within 12 mm of its target during a push of 30 Nm on two joints for a tenth of a second."""
    controller = rbd.control.RecedingHorizon(problem, rbd.control.DDP(max_iterations=iterations), **options)
    push = jnp.array([30.0, 30.0, 0, 0, 0, 0, 0])

    def disturbed(t, state, memory):
        tau, memory = controller(t, state, memory)
        return tau + jnp.where((t > 2.0) & (t < 2.1), push, 0), memory

    memory, start = controller.start(problem.state), problem.state
    path = rbd.rollout(heavier(arm), start, disturbed, memory=memory, dt=DT / 4, steps=int(4 * SECONDS / DT))
    error = distances(arm, circle, path)
    assert path.code == 0 and path.memory.failures == 0
    assert error.max() < 0.012
    assert error[200:400].max() < 0.005  # before the push
    assert error[600:].max() < 0.005  # after the push
    assert np.abs(path.tau).max() <= 150


def test_step_by_step_nothing_is_compiled_again(arm, circle, problem):
    """Controller steps as on a robot, with the heavier arm."""
    controller = rbd.control.RecedingHorizon(problem, rbd.control.DDP(max_iterations=1))
    plant, state = heavier(arm), problem.state
    memory = controller.start(state)
    controller.step(memory, 0.0, state)
    rbd.step(plant, state, jnp.zeros(7), DT)
    ready, rows = compiling.compilations, []
    for i in range(50):
        tau, memory = controller.step(memory, i * DT, state)
        state = rbd.step(plant, state, tau, DT)
        rows.append(state.q)
    assert compiling.compilations == ready
    t, goal = circle
    error = np.linalg.norm(hands(arm, jnp.stack(rows)) - goal[1:51], axis=1)
    assert error.max() < 0.012 and memory.failures == 0
