"""What the book says of its examples with loops: mobility, redundancy and its cure, and that the ways to solve agree."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mechanisms import four_bar, slider_closure, slider_loop

from rbd_jax import constraints as rc


METHODS = "range_space", "null_space", "kkt"


@pytest.mark.slow
def test_the_mechanism_of_figure_8_3_by_every_method():
    """n = 4, five rows of rank two, mobility two (8.52); G and g in closed form (8.57); all methods give one motion, as (8.46)."""
    model, y, rate = slider_loop(), jnp.array([0.6, 0.2]), jnp.array([0.9, -0.4])
    tau = jnp.array([0.4, -0.3, 1.2, 0.5])

    @jax.jit
    def run():
        closed = rc.close(model, slider_closure, y, rate)
        motions = [
            rc.constrained_dynamics(model, closed.q, closed.v, tau, None, method) for method in METHODS
        ]
        reduced = rc.closure_dynamics(model, slider_closure, y, rate, tau)
        dofs = rc.mobility(model, closed.q)
        return closed, motions, reduced, dofs, rc.constraint_jacobian(model, closed.q)

    closed, motions, reduced, dofs, jacobian = run()
    u = [closed.jacobian[1, 0], closed.jacobian[2, 0], closed.bias[1], closed.bias[2]]
    np.testing.assert_allclose(u, [1.3851004219, 0.6240732742, -1.0868354496, 0.3557292905], atol=1e-10)
    assert (model.nv, jacobian.shape[0], dofs) == (4, 5, 2)
    assert np.linalg.matrix_rank(jacobian) == 2
    np.testing.assert_allclose(jacobian @ closed.jacobian, 0, atol=1e-14)
    first = motions[0]
    np.testing.assert_allclose(first.acceleration, closed.jacobian @ reduced + closed.bias, atol=1e-10)
    for motion in motions:
        assert motion.rank == 2
        np.testing.assert_allclose(motion.acceleration, first.acceleration, atol=1e-10)
        np.testing.assert_allclose(motion.multipliers, first.multipliers, atol=1e-10)


@pytest.mark.slow
def test_the_planar_loop_and_its_cure():
    """§8.10: a hinge that closes a planar four-bar has three rows too many. A ball in a cylinder has two, and the same motion."""
    hinged = four_bar("revolute")
    lengthwise = rc.PointOnLine("coupler", (1.0, 0.0, 0.0), (0.0, 0.0, 1.0), "follower", (1.0, 0.0, 0.0))
    cured = rc.add_constraints(rc.without_constraints(hinged), lengthwise)
    q, v = 0.8 * jnp.array([1.0, -1.0, 1.0]), 1.3 * jnp.array([1.0, -1.0, 1.0])
    tau = jnp.array([0.5, -0.7, 0.2])

    @jax.jit
    def run():
        return [
            (rc.constrained_dynamics(model, q, v, tau), rc.mobility(model, q)) for model in (hinged, cured)
        ]

    (five, dofs), (two, others) = run()
    np.testing.assert_allclose(five.acceleration, two.acceleration, atol=1e-10)
    assert (five.multipliers.size, five.rank, dofs) == (5, 2, 1)
    assert (two.multipliers.size, two.rank, others) == (2, 2, 1)
