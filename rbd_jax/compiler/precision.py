"""Constants of the elementary functions in both precisions: polynomials, parts of pi, thresholds.

The polynomials have the smallest relative error on the stated range, by Remez's algorithm.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np


#: Polynomial coefficients, the constant term first, for 64 bits and for 32 bits.
POLYNOMIALS = {
    # (sin x / x - 1) / z, z = x^2, |x| <= pi / 4
    "sin": (
        (-0.16666666666666632, 0.00833333333332242, -0.00019841269829812378, 2.755731369354652e-06, -2.5050758377945793e-08,
         1.5896811335168216e-10),
        (-0.16666655, 0.008332178, -0.00019517266),
    ),
    # (cos x - 1 + z / 2) / z^2, z = x^2, |x| <= pi / 4
    "cos": (
        (0.0416666666666666, -0.0013888888888874131, 2.4801587289487104e-05, -2.7557314353808646e-07, 2.087572348072376e-09,
         -1.1359658884870744e-11),
        (0.041666646, -0.0013887368, 2.4438426e-05),
    ),
    # (exp x - 1 - x) / x^2, |x| <= log(2) / 2
    "exp": (
        (0.5000000000000012, 0.166666666666667, 0.04166666666651542, 0.008333333333307148, 0.0013888888947016199,
         0.00019841269917509537, 2.480148994142492e-05, 2.7557216193028082e-06, 2.763128072396285e-07, 2.5117893222151122e-08),
        (0.5, 0.16666518, 0.041666202, 0.00836889, 0.001395059),
    ),
    # (2 atanh s - 2 s) / s^3, of z = s^2, |s| <= 3 - sqrt(8): log(1 + f) has s = f / (2 + f)
    "log": (
        (0.6666666666666734, 0.39999999999414404, 0.28571428742456556, 0.22222198565381013, 0.18183564767214752,
         0.15314038405233762, 0.14796079444205318),
        (0.66666776, 0.3997754, 0.29871827),
    ),
    # (2 atanh s - 2 s - 2 s^3 / 3) / s^5
    "log, third term": (
        (0.40000000000002256, 0.2857142857009943, 0.22222222519945847, 0.18181784365407938, 0.15386757397342507,
         0.132568164758389, 0.13196338326686835),
        (0.39999998, 0.28571874, 0.2218501, 0.19467933),
    ),
    # (atan x / x - 1) / z, z = x^2, |x| <= tan(pi / 8)
    "atan": (
        (-0.333333333333332, 0.19999999999954038, -0.1428571428024397, 0.11111110785903767, -0.09090897829507444,
         0.07692061509913486, -0.06663118896897963, 0.05847997810378537, -0.05039794244029394, 0.0380769888547199,
         -0.017920789795466307),
        (-0.33333316, 0.1999849, -0.14243838, 0.10595919, -0.06083231),
    ),
    # (asin x / x - 1) / z, z = x^2, |x| <= 1/2
    "asin": (
        (0.16666666666666763, 0.07499999999970264, 0.04464285717512015, 0.03038194268363769, 0.02237221565990691,
         0.017351600097087843, 0.013980961400287444, 0.011397776363663827, 0.010786526988517826, 0.003683050116985621,
         0.02176347764717837, -0.021077258433876724, 0.03267686608143648),
        (0.16666754, 0.07495242, 0.045477062, 0.02414779, 0.04221825),
    ),
    # (sinh x / x - 1) / z, z = x^2, |x| <= 1
    "sinh": (
        (0.16666666666666669, 0.008333333333333139, 0.00019841269841437684, 2.7557319155335837e-06, 2.5052123398745496e-08,
         1.6057240325212464e-10, 7.759312716045403e-13),
        (0.16666667, 0.0083333505, 0.00019836066, 2.8174384e-06),
    ),
    # (asinh x / x - 1) / z, z = x^2, |x| <= 1/2
    "asinh": (
        (-0.16666666666666663, 0.0749999999999897, -0.04464285714169976, 0.030381944378884806, -0.0223721568957969,
         0.017352717047610253, -0.013964149939797634, 0.011544693594566778, -0.009709879460210834, 0.008121828820989984,
         -0.006325933004725027, 0.003926467145203732, -0.0013656105214972982),
        (-0.16666666, 0.0749989, -0.044613443, 0.030014502, -0.019985642, 0.009175394),
    ),
}  # fmt: skip


def _arc_tangent_of_inverse(n: int) -> Fraction:
    """Returns atan(1 / n) with more than the 1400 binary digits that the reduction of the largest angle requires."""
    one = 2**1500
    return Fraction(sum((-1) ** k * (one // ((2 * k + 1) * n ** (2 * k + 1))) for k in range(700)), one)


PI = 16 * _arc_tangent_of_inverse(5) - 4 * _arc_tangent_of_inverse(239)
LOG_2 = sum((Fraction(2, (2 * k + 1) * 3 ** (2 * k + 1)) for k in range(100)), Fraction(0))


def split(value: Fraction, dtype: np.dtype, parts: int) -> list[float]:
    """Returns numbers of a precision whose sum is a value, the largest first."""
    found = []
    for _ in range(parts):
        found.append(float(dtype.type(float(value))))
        value -= Fraction(found[-1])
    return found


class Precision:
    """Constants of one precision."""

    def __init__(self, dtype):
        self.dtype = np.dtype(dtype)
        single = self.dtype == np.float32
        info = np.finfo(self.dtype)
        self.digits = int(info.nmant)
        self.bias = 127 if single else 1023
        self.polynomials = {name: both[single] for name, both in POLYNOMIALS.items()}
        self.to_whole = 1.5 * 2.0**self.digits
        """Adding this constant to a smaller number rounds it to an integer, which is then in the lowest bits."""
        self.large_angle = 2.0**15 if single else 2.0**30
        self.half_pi = split(PI / 2, self.dtype, 3)
        self.quarter_pi = split(PI / 4, self.dtype, 2)
        self.pi = split(PI, self.dtype, 2)
        self.log_2 = split(LOG_2, self.dtype, 2)
        # The product of the high part and an exponent is exact.
        digits = self.digits - (8 if single else 11)
        high = Fraction(math.floor(LOG_2 * 2**digits), 2**digits)
        self.log_2_exact = [float(high), split(LOG_2 - high, self.dtype, 1)[0]]
        self.largest_exponent, self.least_exponent = (89.0, -104.0) if single else (710.0, -746.0)
        self.least_normal = float(info.tiny)
        self.large = 2.0**13 if single else 2.0**28
        """For larger numbers, the square does not change if 1 is added."""


PRECISIONS = {np.dtype(x): Precision(x) for x in (np.float32, np.float64)}
