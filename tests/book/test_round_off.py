"""Claims of the book about round-off and sensitivity (§10.1, §10.2), checked with `scripts/round_off.py`."""

import sys
from pathlib import Path

import numpy as np
import pytest

import rbd_jax as rbd


SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


@pytest.fixture(scope="module")
def round_off():
    sys.path.insert(0, str(SCRIPTS))
    try:
        import round_off  # pyright: ignore[reportMissingImports]
    finally:
        sys.path.remove(str(SCRIPTS))
    return round_off


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_far_body(round_off, dtype):
    """Fig. 10.2: the error is constant within the radius of gyration, and grows with the square of the distance beyond."""
    epsilon = float(np.finfo(dtype).eps)
    near = [round_off.far_body_error(d, dtype) for d in (0.01, 0.1, 0.5)]
    assert max(near) < 3 * min(near) and max(near) < 3 * epsilon
    distances = np.array([10.0, 30, 100, 300])
    far = [round_off.far_body_error(d, dtype) for d in distances]
    growth = np.polyfit(np.log(distances), np.log(far), 1)[0]
    print(near, far, growth)
    assert 1.7 < growth < 2.3


def test_far_body_of_the_book(round_off):
    """At c = (100, 10) double precision has an error of "about one part in 10^12": four of sixteen digits."""
    error = round_off.far_body_error(100.5, np.float64)
    assert 1e-13 < error < 1e-11


@pytest.mark.slow
def test_an_arm_does_not_care_where_it_stands(round_off):
    """The common frame has its origin at the root of the tree, so that an arm one kilometer away has the same accuracy.

    In coordinates about the world's origin all digits cancel.
    """
    near, far = round_off.far_arm_errors(0.0, samples=4), round_off.far_arm_errors(1000.0, samples=4)
    print(near, far)
    for name in ("forward dynamics", "mass matrix"):
        assert far[name] < 2 * near[name] < 1e-6
    assert far["mass matrix about the origin"] > 1e4 * near["mass matrix about the origin"]


@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.slow)])
def test_articulated_bodies_are_more_accurate(round_off, dtype):
    """The articulated-body algorithm is more accurate than a factored mass matrix, and errors grow with the condition
    number.
    """
    epsilon = float(np.finfo(dtype).eps)
    errors = [round_off.chain_errors(n, dtype, samples=16) for n in (8, 32)]
    print(dtype.__name__, errors)
    for found in errors:
        bodies, matrix = (found[x] for x in ("articulated bodies", "mass matrix, factored"))
        assert 2 * bodies < matrix < found["condition number"] * epsilon
    growth = np.log(errors[1]["articulated bodies"] / errors[0]["articulated bodies"]) / np.log(32 / 8)
    assert 2 < growth < 4.5


def test_condition_numbers(round_off):
    """Printed: 725 for six links at ±75°, and about 4 n⁴ at worst, 5184 and 40000; the straight arm is within 10 %."""
    zigzag = np.deg2rad(75.0) * np.array([0, -1, 1, -1, 1, -1])
    assert round(round_off.condition_number(round_off.exact_mass_matrix(zigzag))) == 725
    for links, printed in ((6, 5184), (10, 40000)):
        straight = round_off.condition_number(round_off.exact_mass_matrix(np.zeros(links)))
        assert abs(straight / printed - 1) < 0.1
    q = np.linspace(0.1, 1, 6)
    model = round_off.chain(6, np.float64)
    np.testing.assert_allclose(
        rbd.mass_matrix(model, q), round_off.exact_mass_matrix(q).astype(float), rtol=1e-13
    )
