"""Deprecated forms work, and warn at the user's line."""

import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd


MODEL = rbd.add_constraints(
    rbd.load("double_pendulum"),
    rbd.constraints.PointOnPlane("world", (0, 0, 0), (1, 0, 0), "lower", (0, 0, -1)),
)
Q, V = jnp.array([0.5, -1.1]), jnp.array([1.0, 0.0])


def project():
    return rbd.project(MODEL, Q, V)


def function_of_q_and_v():
    state = rbd.State(jnp.zeros(1), jnp.zeros(1))
    return rbd.rollout(rbd.load("pendulum"), state, dt=0.01, steps=1, forces=(lambda model, q, v: -v,))


def order_of_to_maximal():
    model = rbd.load("pendulum")
    return rbd.to_maximal(model, jnp.zeros(1), jnp.zeros(1), rbd.maximal_coordinates(model))


def measured_lanes():
    return rbd.batch_map(lambda x: x, lanes="measured")


@pytest.mark.parametrize("form", [project, function_of_q_and_v, order_of_to_maximal, measured_lanes])
def test_it_warns_once_at_the_users_line(form, unchecked):
    with pytest.warns(
        DeprecationWarning, match=r"is deprecated and will be removed in version \d+\.\d+\. Use .* instead\.$"
    ) as seen:
        form()
    (warning,) = [w for w in seen if issubclass(w.category, DeprecationWarning)]
    assert warning.filename == __file__


def test_old_and_new_forms_agree():
    with pytest.warns(DeprecationWarning):
        q, v = project()
    state = rbd.project(MODEL, rbd.State(Q, V))
    np.testing.assert_array_equal(state.q, q)
    np.testing.assert_array_equal(state.v, v)
    with pytest.raises(TypeError, match=r"project: state must be a State, got .*Pass rbd.State\(q, v\)"):
        rbd.project(MODEL, Q)
