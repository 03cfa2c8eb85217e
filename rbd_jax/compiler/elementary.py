"""Elementary functions of vectors: trigonometric and hyperbolic functions, their inverses, exponentials, logarithms, powers.

All lanes take the same path. Only sines of large arguments have a slow path, which is skipped if no lane needs it. Each function
is within 1.5 units in the last place of the true value in both precisions (tests/parallel/test_elementary.py). Results for zeros,
infinities and NaN follow IEEE 754.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from .instructions import Instructions
from .numbers import Double, Number, exact_product, exact_sum, ordered_sum, root
from .precision import PI, PRECISIONS, Precision, split


def _precision(x: Number) -> Precision:
    return PRECISIONS[x.dtype]


def _polynomial(name: str, z: Number) -> Number:
    *others, last = _precision(z).polynomials[name]
    found = z.constant(last)
    for coefficient in reversed(others):
        found = found.fma(z, coefficient)
    return found


def _power_of_two(whole: Number) -> Number:
    """Returns 2 to the power of an integer in the range of normal exponents."""
    at = _precision(whole)
    return ((whole + (at.to_whole + at.bias)).bits() << at.digits).from_bits()


def _scaled(x: Number, whole: Number) -> Number:
    """Returns x times 2 to the power of an integer, in two steps, because the power alone may overflow or be subnormal."""
    at = _precision(x)
    half = (whole * 0.5 + at.to_whole) - at.to_whole
    return x * _power_of_two(half) * _power_of_two(whole - half)


def _clamped(x: Number, low: float, high: float) -> Number:
    """Returns x clamped to bounds; NaN stays NaN."""
    x = (x > high).select(high, x)
    return (x < low).select(low, x)


# Sines.


def _quarters(size: Number) -> tuple[Double, Number]:
    """Splits a non-negative number into the remainder and the number of quarter turns, which is in the lowest bits."""
    at = _precision(size)
    counted = size.fma(float(2 / PI), at.to_whole)
    count = counted - at.to_whole
    first, second, third = (size.constant(x) for x in at.half_pi)
    left = (-count).fma(first, size)  # exact
    product = exact_product(count, second)
    less = exact_sum(left, -product.high)
    low = (-count).fma(third, less.low - product.low)
    return ordered_sum(less.high, low), counted.bits()


def _sine(x: Number) -> tuple[Double, Double, Number]:
    """Returns sine and cosine of the remainder of |x| beyond quarter turns, and the number of quarter turns."""
    known = x.code.known
    key = ("sine", x.name)
    if key not in known:
        size, at = abs(x), _precision(x)
        rest, quarters = _quarters(size)
        slow = size > at.large_angle
        values = (rest.high, rest.low, quarters)
        names = x.code.unless_none(
            slow.name,
            [(value.name, value.dtype) for value in values],
            lambda: [value.name for value in _of_large(slow, size, rest, quarters)],
        )
        high, low, quarters = (
            Number(x.code, name, value.dtype) for name, value in zip(names, values, strict=True)
        )
        z = high * high
        # sin(h + l) = h + l + h^3 S(h^2)
        sine = ordered_sum(high, (high * z).fma(_polynomial("sin", z), low))
        # cos(h + l) = 1 - h^2 / 2 + h^4 C(h^2) - h l
        half = z * 0.5
        near = 1.0 - half
        below = (1.0 - near) - half
        cosine = ordered_sum(near, (z * z).fma(_polynomial("cos", z), (-high).fma(low, below)))
        known[key] = sine, cosine, quarters
    return known[key]


def _turned(quarters: Number, even: Number, odd: Number) -> Number:
    """Selects `even` or `odd` by the parity of the quarter turns, and negates it if the number of half turns is odd."""
    picked = (quarters & 1).equals(0).select(even, odd)
    size = 8 * quarters.dtype.itemsize
    return (picked.bits() ^ ((quarters & 2) << (size - 2))).from_bits()


def sin(x: Number) -> Number:
    sine, cosine, quarters = _sine(x)
    found = _turned(quarters, sine.rounded(), cosine.rounded())
    sign = x.bits() & _sign_bit(x)
    return (found.bits() ^ sign).from_bits()


def cos(x: Number) -> Number:
    sine, cosine, quarters = _sine(x)
    return _turned(quarters + 1, sine.rounded(), cosine.rounded())


def tan(x: Number) -> Number:
    sine, cosine, quarters = _sine(x)
    even = (quarters & 1).equals(0)
    choose = lambda yes, no: Double(even.select(yes.high, no.high), even.select(yes.low, no.low))
    found = (choose(sine, -cosine) / choose(cosine, sine)).rounded()
    return (found.bits() ^ (x.bits() & _sign_bit(x))).from_bits()


def _sign_bit(x: Number) -> int:
    return -(2 ** (8 * x.dtype.itemsize - 1))


def _of_large(slow: Number, size: Number, rest: Double, quarters: Number) -> list[Number]:
    """Computes quarter turns of large numbers lane by lane; lanes with small numbers keep their values."""
    code, single = size.code, size.dtype == np.float32
    code.declared.update(_PAYNE_AND_HANEK)

    def turns(x: str) -> list[str]:
        if single:
            x = code.new(f"fpext float {x} to double")
        found = code.new(f"call {_TURNS} @rbd_jax_quarter_turns(double {x})")
        high, low, count = (code.new(f"extractvalue {_TURNS} {found}, {i}") for i in range(3))
        if single:
            high, double = code.new(f"fptrunc double {high} to float"), high
            back = code.new(f"fpext float {high} to double")
            left = code.new(f"fsub double {double}, {back}")
            low = code.new(f"fptrunc double {left} to float")
            count = code.new(f"trunc i64 {count} to i32")
        return [high, low, count]

    given = slow.select(size, 2.0**40)  # lanes with small numbers run the slow path, too
    small = (rest.high, rest.low, quarters)
    names = code.each([(given.name, size.dtype)], turns, [x.dtype for x in small])
    large = [Number(code, name, x.dtype) for name, x in zip(names, small, strict=True)]
    high, low, count = (slow.select(x, y) for x, y in zip(large, small, strict=True))
    infinite = size.equals(math.inf)
    return [infinite.select(math.nan, high), infinite.select(math.nan, low), count]


_TURNS = "{ double, double, i64 }"


def _payne_and_hanek() -> str:
    """Returns the LLVM function for quarter turns of a large number x = m 2^e (Payne and Hanek).

    It multiplies m by the digits of 2 / pi that do not contribute multiples of four turns.
    """
    words = 22
    digits = math.floor(2 / PI * 2 ** (64 * (words - 1)))
    table = [(digits >> (64 * (words - 2 - i))) & (2**64 - 1) for i in range(words - 1)]
    entries = ", ".join(f"i64 {x if x < 2**63 else x - 2**64}" for x in [0, *table])
    high, low = (f"0x{np.float64(x).view(np.uint64):016X}" for x in split(PI / 2, np.dtype(np.float64), 2))
    return f"""
@rbd_jax_two_over_pi = internal constant [{words} x i64] [{entries}]
define internal {_TURNS} @rbd_jax_quarter_turns(double %x) noinline {{
  %bits = bitcast double %x to i64
  %field = lshr i64 %bits, 52
  %fraction = and i64 %bits, {2**52 - 1}
  %m = or i64 %fraction, {2**52}
  %skip = sub i64 %field, {1075 - 62}
  %word = lshr i64 %skip, 6
  %shift = and i64 %skip, 63
  %at = getelementptr i64, ptr @rbd_jax_two_over_pi, i64 %word
  %at1 = getelementptr i64, ptr %at, i64 1
  %at2 = getelementptr i64, ptr %at, i64 2
  %at3 = getelementptr i64, ptr %at, i64 3
  %w0 = load i64, ptr %at
  %w1 = load i64, ptr %at1
  %w2 = load i64, ptr %at2
  %w3 = load i64, ptr %at3
  %d0 = call i64 @llvm.fshl.i64(i64 %w0, i64 %w1, i64 %shift)
  %d1 = call i64 @llvm.fshl.i64(i64 %w1, i64 %w2, i64 %shift)
  %d2 = call i64 @llvm.fshl.i64(i64 %w2, i64 %w3, i64 %shift)
  %wide = zext i64 %m to i128
  %e1 = zext i64 %d1 to i128
  %e2 = zext i64 %d2 to i128
  %p2 = mul i128 %wide, %e2
  %c2 = lshr i128 %p2, 64
  %p1 = mul i128 %wide, %e1
  %s1 = add i128 %p1, %c2
  %p0 = mul i64 %m, %d0
  %p0w = zext i64 %p0 to i128
  %p0s = shl i128 %p0w, 64
  %turns = add i128 %s1, %p0s
  %nearest = add i128 %turns, {2**125}
  %quarters128 = lshr i128 %nearest, 126
  %quarters = trunc i128 %quarters128 to i64
  %rest = shl i128 %turns, 2
  %negative = icmp slt i128 %rest, 0
  %minus = sub i128 0, %rest
  %size = select i1 %negative, i128 %minus, i128 %rest
  %zeros = call i128 @llvm.ctlz.i128(i128 %size, i1 false)
  %full = call i128 @llvm.fshl.i128(i128 %size, i128 0, i128 %zeros)
  %first128 = lshr i128 %full, 75
  %first = trunc i128 %first128 to i64
  %second128 = lshr i128 %full, 22
  %second64 = trunc i128 %second128 to i64
  %second = and i64 %second64, {2**53 - 1}
  %a0 = sitofp i64 %first to double
  %b0 = sitofp i64 %second to double
  %zeros64 = trunc i128 %zeros to i64
  %exponent = sub i64 {1023 - 53}, %zeros64
  %power_bits = shl i64 %exponent, 52
  %power = bitcast i64 %power_bits to double
  %a = fmul double %a0, %power
  %b1 = fmul double %b0, %power
  %b = fmul double %b1, 0x{np.float64(2.0**-53).view(np.uint64):016X}
  %high = fmul double %a, {high}
  %negated = fneg double %high
  %error = call double @llvm.fma.f64(double %a, double {high}, double %negated)
  %with_b = call double @llvm.fma.f64(double %b, double {high}, double %error)
  %low = call double @llvm.fma.f64(double %a, double {low}, double %with_b)
  %minus_high = fneg double %high
  %minus_low = fneg double %low
  %high_signed = select i1 %negative, double %minus_high, double %high
  %low_signed = select i1 %negative, double %minus_low, double %low
  %r0 = insertvalue {_TURNS} poison, double %high_signed, 0
  %r1 = insertvalue {_TURNS} %r0, double %low_signed, 1
  %r2 = insertvalue {_TURNS} %r1, i64 %quarters, 2
  ret {_TURNS} %r2
}}"""


_PAYNE_AND_HANEK = [
    _payne_and_hanek(),
    "declare i64 @llvm.fshl.i64(i64, i64, i64)",
    "declare i128 @llvm.fshl.i128(i128, i128, i128)",
    "declare i128 @llvm.ctlz.i128(i128, i1)",
    "declare double @llvm.fma.f64(double, double, double)",
]


# Exponentials.


def _exponent(x: Number, low: Number | None = None) -> tuple[Double, Number]:
    """Returns p and n, as a floating-point number, with exp(x + low) = 2^n (1 + p)."""
    at = _precision(x)
    whole = x.fma(1 / math.log(2), at.to_whole) - at.to_whole
    high_part, low_part = at.log_2
    far = (-whole).fma(high_part, x)  # exact
    rest = (-whole).fma(low_part, far)
    below = (-whole).fma(low_part, far - rest)
    if low is not None:
        rest, below = ordered_sum(rest, low + below)
    return ordered_sum(rest, (rest * rest).fma(_polynomial("exp", rest), below)), whole


def _bounded(x: Number) -> Number:
    """Clamps x without a change of its exponential, which is 0 or infinite beyond the bounds."""
    at = _precision(x)
    return _clamped(x, at.least_exponent, at.largest_exponent)


def exp(x: Number) -> Number:
    part, whole = _exponent(_bounded(x))
    return _scaled((1.0 + part.high) + part.low, whole)


def _expm1(x: Number) -> Double:
    """Returns exp(x) - 1 for bounded x."""
    part, whole = _exponent(x)
    half = _power_of_two(whole - 1.0)
    total = ordered_sum(half - 0.5, half * part.high)
    low = part.low.fma(half, total.low)
    small = whole.equals(0.0)
    return Double(small.select(part.high, total.high * 2.0), small.select(part.low, low * 2.0))


def expm1(x: Number) -> Number:
    at = _precision(x)
    found = _expm1(_clamped(x, -2.0 * at.digits, at.largest_exponent)).rounded()
    return found.copysign(x)


def tanh(x: Number) -> Number:
    size = abs(x)
    size = (size > 22.0).select(22.0, size)
    above = _expm1(size + size)
    sum_ = exact_sum(above.high, x.constant(2.0))
    return (above / Double(sum_.high, sum_.low + above.low)).rounded().copysign(x)


def _half_exponentials(x: Number) -> tuple[Double, Number]:
    """Returns exp(x) / 2 and exp(-x) / 2 for x >= 0."""
    part, whole = _exponent(_clamped(x, 0.0, _precision(x).largest_exponent + 2.0))
    total = ordered_sum(x.constant(1.0), part.high)
    low = total.low + part.low
    grown = Double(_scaled(total.high, whole - 1.0), _scaled(low, whole - 1.0))
    return grown, 0.25 / grown.high


def sinh(x: Number) -> Number:
    size = abs(x)
    z = size * size
    near = (size * z).fma(_polynomial("sinh", z), size)
    grown, fallen = _half_exponentials(size)
    total = ordered_sum(grown.high, -fallen)
    far = total.high + (total.low + grown.low)
    far = grown.high.equals(math.inf).select(math.inf, far)
    return (size < 1.0).select(near, far).copysign(x)


def cosh(x: Number) -> Number:
    grown, fallen = _half_exponentials(abs(x))
    total = ordered_sum(grown.high, fallen)
    return grown.high.equals(math.inf).select(math.inf, total.high + (total.low + grown.low))


# Logarithms.


def _mantissa(x: Number) -> tuple[Number, Number, Number]:
    """Returns m, k and the biased bits of k, with x = m 2^k and sqrt(1/2) <= m < sqrt(2), for a positive normal x."""
    at = _precision(x)
    root_half = int(at.dtype.type(math.sqrt(0.5)).view(x.whole))
    one = at.bias << at.digits
    moved = x.bits() + (one - root_half)
    biased = moved >> at.digits
    m = ((moved & ((1 << at.digits) - 1)) + root_half).from_bits()
    far = 2.0**at.digits
    counted = biased | int(at.dtype.type(far).view(x.whole))
    return m, counted.from_bits() - (far + at.bias), biased


def _normal(x: Number) -> tuple[Number, Number]:
    """Returns x, scaled up if it is subnormal, and the exponent that compensates for this."""
    at = _precision(x)
    places = at.digits + 2
    tiny = x < at.least_normal
    return tiny.select(x * 2.0**places, x), tiny.select(x.constant(-places), 0.0)


def _ends_of_logarithm(x: Number, found: Number) -> Number:
    """Corrects a logarithm for x that is 0, negative, infinite or NaN."""
    found = x.equals(math.inf).select(x, found)
    found = x.equals(0.0).select(-math.inf, found)
    return (x >= 0.0).select(found, math.nan)


def log(x: Number) -> Number:
    at = _precision(x)
    normal, less = _normal(x)
    m, k, _ = _mantissa(normal)
    k = k + less
    f = m - 1.0
    s = f / (f + 2.0)
    half = f * f * 0.5
    z = s * s
    tail = s * (half + z * _polynomial("log", z))
    high, low = at.log_2_exact
    return _ends_of_logarithm(x, k.fma(high, f - (half - k.fma(low, tail))))


def _log(x: Double, doublings: Number | None = None) -> Double:
    """Returns the logarithm of x 2^doublings with twice the digits, for positive x."""
    at = _precision(x.high)
    normal, less = _normal(x.high)
    m, k, biased = _mantissa(normal)
    twice_inverse = (
        (2 * at.bias + 1 - biased) << at.digits
    ).from_bits()  # 2^(1 - k), since 2^-k may be subnormal
    k = k + less
    if doublings is not None:
        k = k + doublings
    f = m - 1.0
    below = x.low * 0.5 * twice_inverse
    sum_ = exact_sum(f, f.constant(2.0))
    s = Double(f, below) / Double(sum_.high, sum_.low + below)
    square = exact_product(s.high, s.high)
    z = Double(square.high, (s.high + s.high).fma(s.low, square.low))
    two_thirds = split(Fraction(2, 3), at.dtype, 2)
    c = ordered_sum(f.constant(two_thirds[0]), z.high * _polynomial("log, third term", z.high))
    c = Double(c.high, c.low + two_thirds[1])
    w = _product(z, c)
    w = _product(s, w)
    total = ordered_sum(s.high + s.high, w.high)
    low = total.low + (w.low + (s.low + s.low))
    high_part, low_part = at.log_2_exact
    whole = ordered_sum(k * high_part, total.high)
    return ordered_sum(whole.high, k.fma(low_part, whole.low + low))


def _product(x: Double, y: Double) -> Double:
    found = exact_product(x.high, y.high)
    return Double(found.high, x.high.fma(y.low, x.low.fma(y.high, found.low)))


def log1p(x: Number) -> Number:
    at = _precision(x)
    found = _log(exact_sum(x, x.constant(1.0))).rounded()
    found = _ends_of_logarithm(x + 1.0, found)
    return (abs(x) < 0.25 * 2.0**-at.digits).select(x, found)


def pow(x: Number, y: Number) -> Number:
    size = abs(x)
    logarithm = _log(Double(size, size.constant(0.0)))
    high = _ends_of_logarithm(size, logarithm.high)
    product = y * high
    bounded = _bounded(product)
    low = y.fma(high, -product) + y * logarithm.low
    low = product.equals(bounded).select(low, 0.0)
    part, whole = _exponent(bounded, low)
    found = _scaled((1.0 + part.high) + part.low, whole)
    # The sign for negative x.
    half = y * 0.5
    is_whole = y.floor().equals(y)
    odd = is_whole & half.floor().differs(half)
    sign = odd.select(x.bits() & _sign_bit(x), 0)
    found = (found.bits() ^ sign).from_bits()
    undefined = (x < 0.0) & (x > -math.inf) & ~is_whole
    found = undefined.select(math.nan, found)
    found = (y.equals(y) & x.equals(x)).select(found, x + y)
    one = x.equals(1.0) | y.equals(0.0) | (x.equals(-1.0) & abs(y).equals(math.inf))
    return one.select(1.0, found)


def asinh(x: Number) -> Number:
    at = _precision(x)
    size = abs(x)
    z = size * size
    near = (size * z).fma(_polynomial("asinh", z), size)
    large = size > at.large
    squared = exact_product(size, size)
    sum_ = exact_sum(squared.high, size.constant(1.0))
    r = root(Double(sum_.high, sum_.low + squared.low))
    total = exact_sum(size, r.high)
    low = total.low + r.low
    found = _log(
        Double(large.select(size, total.high), large.select(0.0, low)), large.select(size.constant(1.0), 0.0)
    ).rounded()
    found = size.equals(math.inf).select(math.inf, found)
    return (size < 0.5).select(near, found).copysign(x)


def acosh(x: Number) -> Number:
    at = _precision(x)
    large = x > at.large
    t = x - 1.0
    above = exact_sum(x, x.constant(1.0))
    product = exact_product(t, above.high)
    r = root(Double(product.high, t.fma(above.low, product.low)))
    total = exact_sum(x, r.high)
    low = total.low + r.low
    found = _log(
        Double(large.select(x, total.high), large.select(0.0, low)), large.select(x.constant(1.0), 0.0)
    ).rounded()
    found = x.equals(math.inf).select(x, found)
    return (x >= 1.0).select(found, math.nan)


def atanh(x: Number) -> Number:
    size = abs(x)
    z = size * size
    near = (size * z).fma(_polynomial("log", z) * 0.5, size)
    one = size.constant(1.0)
    above, below = exact_sum(one, size), exact_sum(one, -size)
    far = _log(above / below).rounded() * 0.5
    found = (size < 0.171).select(near, far)
    found = size.equals(1.0).select(math.inf, found)
    return (size <= 1.0).select(found, math.nan).copysign(x)


# Inverse sines and tangents.


def _angle(y: Number, x: Number, beyond: Number) -> Number:
    """Returns the angle of the vector (x, y) from the first axis, or that of (-x, y) where `beyond`.

    Both components must be non-negative and finite. The result is between 0 and pi.
    """
    at = _precision(y)
    swapped = y > x
    short, long_ = swapped.select(x, y), swapped.select(y, x)
    far = short > long_ * math.tan(math.pi / 8)
    less, more = exact_sum(short, -long_), exact_sum(long_, short)
    zero = y.constant(0.0)
    above = Double(far.select(less.high, short), far.select(less.low, zero))
    below = Double(far.select(more.high, long_), far.select(more.low, zero))
    q = above / below
    z = q.high * q.high
    low = (q.high * z).fma(_polynomial("atan", z), q.low)
    # The angle is `eighths` times pi / 4, plus or minus the arc tangent of q.
    eighths = far.select(y.constant(1.0), 0.0)
    eighths = swapped.select(2.0 - eighths, eighths)
    eighths = beyond.select(4.0 - eighths, eighths)
    minus = swapped ^ beyond
    high, low = minus.select(-q.high, q.high), minus.select(-low, low)
    first, second = at.quarter_pi
    base = eighths * first
    base_low = eighths.fma(second, eighths.fma(first, -base))
    total = ordered_sum(base, high)
    return total.high + (total.low + (low + base_low))


def atan2(y: Number, x: Number) -> Number:
    single = y.dtype == np.float32
    below, above = abs(x), abs(y)
    # Infinite components count as equally large. If both are zero, the angle is zero.
    infinite_x, infinite_y = below.equals(math.inf), above.equals(math.inf)
    infinite = infinite_x | infinite_y
    one_or_none = lambda it, size: infinite.select(it.select(size.constant(1.0), 0.0), size)
    below, above = one_or_none(infinite_x, below), one_or_none(infinite_y, above)
    below = (below.equals(0.0) & above.equals(0.0)).select(1.0, below)
    # Scaled so that sums do not overflow, and rounding errors of products do not underflow.
    longest = (above > below).select(above, below)
    large, small = (2.0**100, 2.0**-60) if single else (2.0**1000, 2.0**-800)
    scale = (longest > large).select(
        y.constant(small), (longest < small).select(y.constant(1 / small), y.constant(1.0))
    )
    behind = (x.bits() & _sign_bit(x)).differs(0)
    found = _angle(above * scale, below * scale, behind)
    found = (x.equals(x) & y.equals(y)).select(found, x + y)
    return found.copysign(y)


def atan(x: Number) -> Number:
    size = abs(x)
    largest = float(np.finfo(x.dtype).max) / 4
    size = (size > largest).select(largest, size)
    one = x.constant(1.0)
    return x.equals(x).select(_angle(size, one, one < 0.0), x).copysign(x)


def _arc_sine(x: Number) -> tuple[Number, Double]:
    """Returns if |x| > 1/2, and the arc sine of sqrt((1 - |x|) / 2) in this case, otherwise of |x|."""
    size = abs(x)
    far = size > 0.5
    z = far.select((1.0 - size) * 0.5, size * size)
    s = root(Double(z, z.constant(0.0)))
    s = Double(far.select(s.high, size), far.select(s.low, 0.0))
    return far, Double(s.high, (s.high * z).fma(_polynomial("asin", z), s.low))


def asin(x: Number) -> Number:
    high, low = _precision(x).half_pi[:2]
    far, angle = _arc_sine(x)
    total = ordered_sum(x.constant(high), angle.high * -2.0)
    beyond = total.high + (total.low + (low - angle.low * 2.0))
    return far.select(beyond, angle.rounded()).copysign(x)


def acos(x: Number) -> Number:
    at = _precision(x)
    far, angle = _arc_sine(x)
    negative = x < 0.0
    # pi / 2 - asin x near zero; 2 asin sqrt((1 - |x|) / 2) near 1; pi minus this near -1.
    near_size = negative.select(-angle.high, angle.high)
    near_low = negative.select(-angle.low, angle.low)
    near = ordered_sum(x.constant(at.half_pi[0]), -near_size)
    near = near.high + (near.low + (at.half_pi[1] - near_low))
    twice = Double(angle.high * 2.0, angle.low * 2.0)
    back = ordered_sum(x.constant(at.pi[0]), -twice.high)
    back = back.high + (back.low + (at.pi[1] - twice.low))
    return far.select(negative.select(back, twice.rounded()), near)


def cbrt(x: Number) -> Number:
    at = _precision(x)
    size = abs(x)
    normal, less = _normal(size)
    m, k, _ = _mantissa(normal)
    k = k + less
    third = (k * (1 / 3) + at.to_whole) - at.to_whole
    m = m * _power_of_two(k - third * 3.0)  # between 0.35 and 2.83
    found = m.fma(m.fma(-0.0956, 0.5944), 0.4889)
    for _ in range(2 if at.dtype == np.float32 else 3):
        cube = found * found * found
        found = found * ((cube + (m + m)) / ((cube + cube) + m))
    square = exact_product(found, found)
    cube = _product(square, Double(found, found.constant(0.0)))
    left = (cube.high - m) + cube.low
    found = found - left / (square.high * 3.0)
    found = found * _power_of_two(third)
    same = size.equals(0.0) | size.equals(math.inf)
    return x.equals(x).select(same.select(size, found), x).copysign(x)


FUNCTIONS: dict[str, Callable[..., Number]] = {
    f.__name__: f
    for f in (sin, cos, tan, exp, expm1, log, log1p, pow, tanh, sinh, cosh, asin, acos, atan, atan2, asinh, acosh, atanh, cbrt)
}  # fmt: skip


def write(name: str, code: Instructions, operands: Sequence[str], dtype) -> str:
    """Emits a function of registers of one data type, and returns the name of the result."""
    return FUNCTIONS[name](*(Number(code, x, dtype) for x in operands)).name
