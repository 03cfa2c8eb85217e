"""Rollouts reject invalid arguments by name, with a remedy, before JAX sees them."""

import re
import traceback
from pathlib import Path

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from simulated import moving, pendulum

import rbd_jax as rbd


MODEL = pendulum()
STATE = moving(MODEL)
ZEROS = np.zeros((4, 2))


def ball():
    builder = rbd.ModelBuilder()
    builder.add_body("ball", joint=rbd.joints.Spherical(), inertia=rbd.Inertia.sphere(1.0, 0.1))
    return builder.build()


BALL = ball()


def rollout(state=STATE, controls=ZEROS, **options):
    return rbd.rollout(MODEL, state, controls, **({"dt": 0.01} | options))


def state(nq, nv):
    return rbd.State(np.zeros(nq), np.zeros(nv))


REFUSED = {
    "controls of another width": (
        lambda: rollout(controls=np.zeros((4, 3))),
        "controls has shape (4, 3)",
        "nv = 2",
    ),
    "controls of one step": (
        lambda: rollout(controls=np.zeros(2)),
        "controls has shape (2,)",
        "(steps, nv)",
    ),
    "controls of no steps": (
        lambda: rollout(controls=np.zeros((0, 2))),
        "controls has shape (0, 2)",
        "(steps, nv)",
    ),
    "a batch of controls": (
        lambda: rollout(controls=np.zeros((3, 4, 2))),
        "controls has shape (3, 4, 2)",
        "nv = 2",
    ),
    "fewer controls than steps": (lambda: rollout(steps=5), "controls has shape (4, 2)", "(5, nv)"),
    "no number of steps": (lambda: rollout(controls=None), "steps is missing", "controls is not an array"),
    "no number for a policy": (
        lambda: rollout(controls=lambda t, s: s.v),
        "steps is missing",
        "not an array",
    ),
    "no steps": (lambda: rollout(controls=None, steps=0), "steps is 0", "positive integer"),
    "negative steps": (lambda: rollout(controls=None, steps=-3), "steps is -3", "positive integer"),
    "half a step": (lambda: rollout(controls=None, steps=2.5), "steps is 2.5", "positive integer"),
    "save_every not dividing": (
        lambda: rollout(save_every=3),
        "save_every is 3",
        "divide the number of steps, 4",
    ),
    "save_every of zero": (lambda: rollout(save_every=0), "save_every is 0", "divide"),
    "checkpoint of zero": (lambda: rollout(checkpoint=0), "checkpoint is 0", "positive number"),
    "negative checkpoint": (lambda: rollout(checkpoint=-2), "checkpoint is -2", "positive number"),
    "checkpoint by name": (lambda: rollout(checkpoint="auto"), "checkpoint is 'auto'", "None, True or"),
    "q of another length": (lambda: rollout(state(3, 2)), "q has shape (3,)", "nq = 2"),
    "v of another length": (lambda: rollout(state(2, 1)), "v has shape (1,)", "nv = 2"),
    "a batch of states": (
        lambda: rollout(jax.tree.map(lambda x: np.stack([x] * 3), STATE)),
        "q has shape (3, 2)",
        "vmap",
    ),
    "a policy's answer": (
        lambda: rollout(controls=lambda t, s: np.zeros(3), steps=4),
        "result of controls has shape (3,)",
        "nv = 2",
    ),
    "a policy's silence": (
        lambda: rollout(controls=lambda t, s: None, steps=4),
        "result of controls is None",
        "nv = 2",
    ),
    "a force's answer": (
        lambda: rollout(forces=(lambda m, state, t: np.zeros(3),)),
        "result of forces[0] has shape (3,)",
        "nv = 2",
    ),
    "dt for each step": (lambda: rollout(dt=np.full(4, 0.1)), "dt has shape (4,)", "one number"),
    "dt zero": (lambda: rollout(dt=0.0), "dt must be positive", "got 0"),
    "dt infinite": (lambda: rollout(dt=np.inf), "dt is inf", "not finite"),
    "dt zero, while tracing": (lambda: jax.jit(lambda: rollout(dt=0.0).q)(), "dt must be positive", "got 0"),
    "t0 not a number, while tracing": (
        lambda: jax.jit(lambda: rollout(t0=np.nan).q)(),
        "t0 is nan",
        "not finite",
    ),
    "t0 not a number": (lambda: rollout(t0=np.nan), "t0 is nan", "not finite"),
    "a tolerance that is none": (
        lambda: rollout(constraint_tolerance=np.nan),
        "constraint_tolerance must be zero or more",
        "got nan",
    ),
    "complex controls": (lambda: rollout(controls=np.zeros((4, 2), complex)), "controls is ", "real numbers"),
    "a force alone": (lambda: rollout(forces=lambda m, state, t: state.v), "got <function", "[force]"),
    "no force": (lambda: rollout(forces=(3,)), "forces[0] must be", "got 3"),
    "no state": (lambda: rollout(state=(np.zeros(2), np.zeros(2))), "state is a tuple", "a State"),
    "no model": (lambda: rbd.rollout("arm", STATE, dt=0.1, steps=2), "model is a str", "rbd.load"),
    "an event by name": (lambda: rollout(event="landing"), "got 'landing'", "(t, state) -> number"),
    "an event's numbers": (
        lambda: rollout(event=lambda t, s: s.q),
        "event returns an array of shape (2,)",
        "one real number",
    ),
    "a quaternion of zero": (
        lambda: rbd.rollout(BALL, rbd.State(np.zeros(4), np.zeros(3)), dt=0.1, steps=2),
        "quaternion of zero for joint 'ball'",
        "rbd.neutral(model)",
    ),
    "t0 for each step": (lambda: rollout(t0=np.zeros(4)), "t0 has shape (4,)", "one number"),
}


@pytest.fixture(autouse=True)
def without_type_checks():
    """Users do not have the import hook of the tests, which would raise first."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    call, found, expected = REFUSED[case]
    with pytest.raises(ValueError, match=f"^rollout: .*{re.escape(found)}") as caught:
        call()
    assert expected in str(caught.value)


@pytest.mark.parametrize("case", [case for case in REFUSED if "'s " not in case and "tracing" not in case])
def test_refused_before_jax_sees_it(case):
    with pytest.raises(ValueError) as caught:
        REFUSED[case][0]()
    inside = [
        frame.filename for frame in traceback.extract_tb(caught.tb) if "jax" in Path(frame.filename).parts
    ]
    assert not inside


def test_every_code_has_a_message():
    assert all(result.message for result in rbd.Result)


@pytest.mark.parametrize("scheme", [rbd.RungeKutta4, "RungeKutta4"])
def test_a_scheme_is_one_that_is_made(scheme):
    with pytest.raises(
        TypeError, match=r"^rollout: scheme is .*RungeKutta4.*; it must be .*rbd.RungeKutta4\(\)"
    ):
        rollout(scheme=scheme)


def test_an_event_that_is_no_number_is_a_failure():
    path = rbd.rollout(MODEL, STATE, dt=0.01, steps=4, event=lambda t, s: jnp.where(t > 0.015, jnp.nan, 1.0))
    assert (path.code, path.failed_step) == (rbd.Result.NOT_FINITE, 1)
    q = np.asarray(path.q)
    assert np.isfinite(q[:2]).all() and np.isnan(q[2:]).all()


def _cast(state, dtype):
    return jax.tree.map(lambda x: np.asarray(x).astype(dtype), state)


@pytest.mark.parametrize("of_model, of_state", [("float32", "float64"), ("float64", "float32")])
def test_precisions_that_differ_go_on_in_the_finer(of_model, of_state):
    model, start = rbd.astype(MODEL, of_model), _cast(STATE, of_state)
    path = rbd.rollout(model, start, dt=0.01, steps=4)
    exact = rbd.rollout(rbd.astype(model, "float64"), _cast(start, "float64"), dt=0.01, steps=4)
    assert {path.q.dtype, path.v.dtype, path.t.dtype} == {jnp.dtype("float64")}
    np.testing.assert_array_equal(path.q, exact.q)


def test_whole_numbers_of_numpy_are_whole():
    assert len(rollout(steps=np.int64(4), save_every=np.int32(2)).q) == 3
