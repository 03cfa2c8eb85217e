"""Muscle curves against the conditions and coefficients in Sueda's notes (eqs. 1.41 to 1.46)."""

import jax
import numpy as np
import pytest

from rbd_jax.forces import ACTIVE_LENGTH, FORCE_VELOCITY, PASSIVE_LENGTH, Muscle


# a, b, c, d of each cubic, as printed.
PASSIVE = [
    (2.55305620081729, -7.02386028610914, 6.38855196976641, -1.91774788447456),
    (-2.76122280853939, 14.6587935048229, -23.0429533092186, 11.3749950550874),
]
ACTIVE = [
    (-39.881247949014, 68.3443204612586, -35.5324573534802, 5.83029153632759),
    (-0.322674853252855, -1.71744046959073, 4.40290549894003, -1.36279017609645),
    (4.85118460831817, -20.9908796589089, 28.3080866793169, -11.2356843095252),
]
VELOCITY = [
    (0.915253473864379, 2.74576042159314, 2.74576042159314, 0.915253473864378),
    (-453.333333333333, -8.78048780487805, 5.0, 1.0),
    (0.266648649866, -0.799945949598001, 0.799945949598001, 1.133351350134),
]
CURVES = [(PASSIVE_LENGTH, PASSIVE), (ACTIVE_LENGTH, ACTIVE), (FORCE_VELOCITY, VELOCITY)]


def value_slope_bend(curve, piece, x):
    """Returns value, first and second derivative of one of the cubics, from its coefficients.

    Piece 0 is the first cubic; x may be outside its interval.
    """
    row, t = curve.coefficients[piece + 1], x - curve.origins[piece + 1]
    polynomial = np.polynomial.Polynomial(row)
    return polynomial(t), polynomial.deriv()(t), polynomial.deriv(2)(t)


@pytest.mark.parametrize("curve, printed", CURVES)
def test_printed_coefficients(curve, printed):
    """The printed coefficients in powers of x, with 15 digits of numbers up to 453."""
    for piece, row in enumerate(printed):
        shifted = np.polynomial.Polynomial(curve.coefficients[piece + 1])
        powers = shifted(np.polynomial.Polynomial([-curve.origins[piece + 1], 1.0])).coef[::-1]
        np.testing.assert_allclose(powers, row, rtol=2e-12, atol=2e-12)


CONDITIONS = [
    # curve, piece, x, order of the derivative, value; eq. (1.41) with row 3 at 1.7, (1.43), (1.45)
    (PASSIVE_LENGTH, 0, 1.0, 0, 0.0),
    (PASSIVE_LENGTH, 0, 1.3, 0, 0.126110265892917),
    (PASSIVE_LENGTH, 1, 1.7, 0, 1.0),
    (PASSIVE_LENGTH, 0, 1.0, 1, 0.0),
    (PASSIVE_LENGTH, 0, 1.3, 1, 1.07051016402631),
    (PASSIVE_LENGTH, 1, 1.7, 1, 2.85714285714286),
    (ACTIVE_LENGTH, 0, 0.4, 0, 0.0),
    (ACTIVE_LENGTH, 0, 0.4, 1, 0.0),
    (ACTIVE_LENGTH, 1, 1.0, 0, 1.0),
    (ACTIVE_LENGTH, 1, 1.0, 1, 0.0),
    (ACTIVE_LENGTH, 2, 1.81, 0, 0.0),
    (ACTIVE_LENGTH, 2, 1.81, 1, 0.0),
    (ACTIVE_LENGTH, 0, 0.7, 0, 0.767020368396388),
    (ACTIVE_LENGTH, 1, 1.2, 0, 0.89),
    (FORCE_VELOCITY, 0, -1.0, 0, 0.0),
    (FORCE_VELOCITY, 0, -1.0, 1, 0.0),
    (FORCE_VELOCITY, 0, -1.0, 2, 0.0),
    (FORCE_VELOCITY, 2, 1.0, 0, 1.4),
    (FORCE_VELOCITY, 2, 1.0, 1, 0.0),
    (FORCE_VELOCITY, 2, 1.0, 2, 0.0),
    (FORCE_VELOCITY, 1, 0.0, 0, 1.0),
    (FORCE_VELOCITY, 1, 0.0, 1, 5.0),
]


def test_printed_conditions():
    for curve, piece, x, order, value in CONDITIONS:
        np.testing.assert_allclose(
            value_slope_bend(curve, piece, x)[order], value, atol=1e-13 * (1 + 9 * order)
        )


@pytest.mark.parametrize("curve, printed", CURVES)
def test_value_and_slope_are_continuous(curve, printed):
    """At the knots the cubics and the linear ends have equal values and slopes."""
    for piece, knot in enumerate(curve.knots, start=-1):
        left, right = value_slope_bend(curve, piece, knot), value_slope_bend(curve, piece + 1, knot)
        np.testing.assert_allclose(left[:2], right[:2], atol=1e-13)


@pytest.mark.parametrize("curve, printed", CURVES)
def test_evaluation(curve, printed):
    """The function equals its pieces, between the knots and beyond them, and the derivative of its integral."""
    inside = np.linspace(curve.knots[0], curve.knots[-1], 50)
    x = np.concatenate([inside, [curve.knots[0] - 0.5, curve.knots[-1] + 0.5]])
    piece = np.clip(np.searchsorted(curve.knots, x) - 1, -1, len(printed))
    expected = [value_slope_bend(curve, k, float(t)) for k, t in zip(piece, x)]
    steps = np.linspace(curve.knots[0] - 0.5, curve.knots[-1] + 0.5, 4001)

    @jax.jit
    @jax.vmap
    def ask(x):
        return jax.value_and_grad(curve)(x), jax.value_and_grad(curve.integral)(x)

    (values, slopes), (integral, integrand) = jax.tree.map(np.asarray, ask(np.concatenate([x, steps])))
    area = np.trapezoid(values[len(x) :], steps)
    np.testing.assert_allclose(integral[-1] - integral[len(x)], area, atol=1e-6)
    values, slopes, integrand = values[: len(x)], slopes[: len(x)], integrand[: len(x)]
    np.testing.assert_allclose(values, [row[0] for row in expected], atol=1e-13)
    np.testing.assert_allclose(slopes, [row[1] for row in expected], atol=1e-11)
    np.testing.assert_allclose(integrand, values, atol=1e-13)


def test_muscle_pulls_hardest_at_its_optimal_length():
    muscle = Muscle(("a", "b"), np.zeros((2, 3)), 100.0, 0.5, 0.2, 10.0, 1.0)
    tension = jax.jit(jax.value_and_grad(muscle.tension_at))
    most, slope = tension(0.7, 0.0)
    np.testing.assert_allclose(most, 100.0, rtol=1e-12)
    np.testing.assert_allclose(slope, 0.0, atol=1e-9)
    # Shortening at v_max = 10 x 0.5 m/s it has zero tension; beyond all knots only the passive fibers pull.
    np.testing.assert_allclose(tension(0.6, -5.0)[0], 0.0, atol=1e-12)
    passive = 100 * (1 + 0.3 * 2.85714285714286)
    np.testing.assert_allclose(tension(0.2 + 0.5 * 2.0, 0.0)[0], passive, rtol=1e-12)
