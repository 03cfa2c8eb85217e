"""Elementary functions of kernels: accuracy, and IEEE 754 results for special values."""

import itertools
import math

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import rbd_jax as rbd


pytest.importorskip("llvmlite")
mpmath = pytest.importorskip("mpmath")

#: Allowed error in units in the last place.
ALLOWED = 1.5
#: Each function by its name in NumPy.
FUNCTIONS = {
    "sin": lax.sin, "cos": lax.cos, "tan": lax.tan, "exp": lax.exp, "expm1": lax.expm1, "log": lax.log, "log1p": lax.log1p,
    "tanh": lax.tanh, "sinh": lax.sinh, "cosh": lax.cosh, "arcsin": lax.asin, "arccos": lax.acos, "arctan": lax.atan,
    "arcsinh": lax.asinh, "arccosh": lax.acosh, "arctanh": lax.atanh, "cbrt": lax.cbrt, "arctan2": lax.atan2, "power": lax.pow,
}  # fmt: skip
PRECISIONS = pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
NAMES = pytest.mark.parametrize("name", FUNCTIONS)


def drawn(name, dtype, count):
    """Returns arguments from the whole range of a function, and near difficult points."""
    draw, info = np.random.default_rng(7), np.finfo(dtype)
    least, largest, most = (
        math.log2(float(info.tiny)),
        math.log2(float(info.max)),
        math.log(float(info.max)),
    )
    third = count // 3
    signs = lambda size: draw.choice([-1.0, 1.0], size)
    sizes = lambda low, high: np.exp2(draw.uniform(low, high, third))
    both = lambda low, high: sizes(low, high) * signs(third)
    within = lambda low, high: draw.uniform(low, high, third)
    digits = info.nmant
    if name in ("sin", "cos", "tan"):
        parts = within(-8, 8), both(least, largest), np.round(both(0, 40)) * np.pi / 2
    elif name in ("exp", "expm1", "sinh", "cosh"):
        parts = within(-most, most), within(-1.2, 1.2), both(least, 3)
    elif name == "log":
        parts = sizes(least, largest), within(0.5, 2), 1 + both(-digits, -1)
    elif name in ("arcsin", "arccos", "arctanh"):
        parts = within(-1, 1), both(least, 0), (1 - sizes(-digits, -1)) * signs(third)
    elif name == "arccosh":
        parts = 1 + sizes(-digits, 3), sizes(0, largest), within(1, 2)
    elif name == "log1p":
        parts = sizes(least, largest), within(-1, 1), sizes(-digits, -1) - 1
    elif name == "arctan2":
        y = np.concatenate([both(least, largest), both(-3, 3), both(-3, 3)])
        x = np.concatenate([both(least, largest), both(-3, 3), y[-third:] * (1 + both(-digits, -1))])
        return y.astype(dtype), x.astype(dtype)
    elif name == "power":
        x = np.concatenate([sizes(least, largest), 1 + both(-digits, -1), within(0.3, 3)]).astype(dtype)
        logs = np.log(x.astype(np.float64))
        y = draw.uniform(-most, most, x.size) / np.where(logs == 0, 1, logs)
        return x, y.clip(-info.max, info.max).astype(dtype)
    else:
        parts = both(least, largest), within(-2, 2), both(-4, 4)
    return (np.concatenate(parts).clip(-info.max, info.max).astype(dtype),)


def errors(found, true, info):
    """Returns errors in units in the last place, for results that are normal numbers."""
    size = np.abs(true)
    unit = np.ldexp(np.ones((), true.dtype), np.frexp(size)[1] - 1 - info.nmant)
    normal = (size >= info.tiny) & (size <= info.max)
    return np.where(normal, np.abs(found.astype(true.dtype) - true) / np.where(normal, unit, 1), 0)


def true_value(name, *numbers):
    of = {
        "power": mpmath.power,
        "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
        "arctan2": mpmath.atan2,
    }
    function = of.get(name) or getattr(mpmath, name.replace("arc", "a"))
    with mpmath.workprec(2200 if name == "log1p" else 200):  # 1 + x must represent x exactly
        return function(*(mpmath.mpf(float(x)) for x in numbers))


def worst(name, dtype, count):
    """Returns the largest error: in extended precision for all arguments, then exactly for the apparently worst ones."""
    given = drawn(name, dtype, count)
    found = np.asarray(rbd.batch_map(FUNCTIONS[name], fused=True)(*given))
    wide = np.longdouble if dtype == np.float64 else np.float64
    if np.finfo(wide).nmant < np.finfo(dtype).nmant + 8:
        pytest.skip("long double has no more digits than double on this machine")
    with np.errstate(over="ignore", under="ignore"):
        true = getattr(np, name)(*(x.astype(wide) for x in given))
        seems = errors(found, true, np.finfo(dtype))
    assert np.all(np.isfinite(seems))
    largest = 0.0
    for i in np.argsort(seems)[-20:]:
        exact = true_value(name, *(x[i] for x in given))
        unit = mpmath.mpf(2) ** (int(np.frexp(np.abs(true[i]))[1]) - 1 - np.finfo(dtype).nmant)
        largest = max(largest, float(abs(mpmath.mpf(float(found[i])) - exact) / unit))
    return largest


@PRECISIONS
@NAMES
def test_near_the_true_value(name, dtype):
    assert worst(name, dtype, 30_000) < ALLOWED


@pytest.mark.slow
@PRECISIONS
@NAMES
def test_near_the_true_value_of_a_million(name, dtype):
    assert worst(name, dtype, 1_000_000) < ALLOWED


#: Excludes subnormal numbers, which XLA's threads flush to zero.
ENDS = [0.0, 0.5, 1.0, 2.0, 2.5, 3.0, 800.0, math.inf, "largest", "least", "unit", "above 1", "below 1"]


@PRECISIONS
@NAMES
def test_ends(name, dtype):
    """Zeros of both signs, infinities, NaN, and overflowing or undefined results."""
    info = np.finfo(dtype)
    named = {
        "largest": info.max,
        "least": info.tiny,
        "unit": info.eps,
        "above 1": 1 + info.eps,
        "below 1": 1 - info.epsneg,
    }
    positive = [named.get(x, x) for x in ENDS]
    values = np.array([*positive, *(-x for x in positive), math.nan], dtype)
    given = (
        tuple(np.array(list(itertools.product(values, values))).T)
        if name in ("arctan2", "power")
        else (values,)
    )
    found = np.asarray(rbd.batch_map(FUNCTIONS[name], fused=True)(*given))
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(*given)
    seen = ~((np.abs(expected) < info.tiny) & (expected != 0))
    np.testing.assert_allclose(found[seen], expected[seen], rtol=2 * info.eps, atol=0)
    known = seen & ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(expected[known]))


def test_one_reduction_for_both():
    """Sine and cosine of the same number share their argument reduction."""
    x = np.linspace(-40.0, 40.0, 333)
    for found, expected in zip(
        rbd.batch_map(lambda x: (jnp.sin(x), jnp.cos(x)), fused=True)(x), (np.sin(x), np.cos(x)), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-15)


def test_large_angles_in_some_lanes():
    """The slow path does not affect the other lanes. `nearest` is the double closest to a multiple of a quarter turn."""
    nearest = 6381956970095103.0 * 2.0**797
    x = np.array([0.1, 1e22, -0.3, -1e300, 5e9, math.inf, math.nan, 2.0, nearest, 3.0, 0.2])
    cosine = np.asarray(rbd.batch_map(jnp.cos, fused=True)(x))[8]
    assert abs(cosine / true_value("cos", x[8]) - 1) < 3e-16
    found = np.asarray(rbd.batch_map(jnp.sin, fused=True)(x))
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(found, np.sin(x), rtol=4e-16)
