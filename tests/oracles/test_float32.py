"""Accuracy of single precision: the articulated-body algorithm in float32 compared with float64, robot by robot.

`python tests/oracles/test_float32.py` prints the table in Markdown.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle_robots import compiled, load, random_states, urdf_files

import rbd_jax as rbd


FILES = urdf_files()
BOUND = 2e-5

#: The robot of the everyday test.
FAST = {"panda": False}

#: Robots whose median exceeds the bound, with their own bound and the reason.
EXCEPTIONS = {
    ("icub", False): (2e-3, "the condition of M is 1e6 and more"),
    ("icub", True): (2e-3, "the condition of M is 1e6 and more"),
    ("kinova", True): (1e-4, "a base of half a kilogram carries the arm"),
}

#: Robots that cannot be compared, with the reason.
NOTHING = {
    "ur3": "no robot is in the file",
    "romeo": "its fingers have no mass, M is singular",
    "romeo_laas_small": "its grippers have no mass, M is singular",
}


def float32_errors(name: str, floating: bool) -> tuple[rbd.Model, np.ndarray, float]:
    """Returns the model, the relative acceleration error in each of ten states, and the median condition number of M.

    The states are single-precision numbers, so both computations have the same inputs; the model's parameters are rounded.
    """
    if name in NOTHING:
        pytest.skip(NOTHING[name])
    model = load(FILES[name], floating_base=floating, mimic="free")
    if not model.nv:
        pytest.skip("nothing can move")

    def compute(q, v, tau):
        single = rbd.forward_dynamics(rbd.astype(model, jnp.float32), q, v, tau)
        double = (x.astype(jnp.float64) for x in (q, v, tau))
        q, v, tau = double
        return single, rbd.forward_dynamics(model, q, v, tau), rbd.mass_matrix(model, q)

    q, v, _, tau = (x.astype(np.float32) for x in random_states(model))
    single, double, mass = map(np.asarray, compiled(jax.vmap(compute), q, v, tau)(q, v, tau))
    assert single.dtype == np.float32 and double.dtype == np.float64
    errors = np.linalg.norm(single - double, axis=1) / np.linalg.norm(double, axis=1)
    return model, errors, float(np.median(np.linalg.cond(mass)))


def check(name, floating):
    _, errors, condition = float32_errors(name, floating)
    bound, _ = EXCEPTIONS.get((name, floating), (BOUND, ""))
    print(f"{name}: median {np.median(errors):.1e}, worst {errors.max():.1e}, condition of M {condition:.0e}")
    assert np.median(errors) < bound


@pytest.mark.parametrize("name, floating", FAST.items())
def test_robots(name, floating):
    if name not in FILES:
        pytest.skip("example-robot-data is not installed")
    check(name, floating)


@pytest.mark.slow
@pytest.mark.parametrize("floating", [False, True], ids=["fixed", "free"])
@pytest.mark.parametrize("name", FILES)
def test_all_robots(name, floating):
    check(name, floating)


def report(out=sys.stdout) -> None:
    """Prints the table for all robots."""
    print("| robot | base | nv | median | worst | condition of M |\n|---|---|--:|--:|--:|--:|", file=out)
    medians = []
    for name in FILES:
        for floating in (False, True):
            try:
                model, errors, condition = float32_errors(name, floating)
            except pytest.skip.Exception:
                continue
            medians.append(np.median(errors))
            base, numbers = (
                "free" if floating else "fixed",
                f"{medians[-1]:.1e} | {errors.max():.1e} | {condition:.0e}",
            )
            print(f"| {name} | {base} | {model.nv} | {numbers} |", file=out, flush=True)
            jax.clear_caches()
    print(f"\nMedian over robots of the medians over states: {np.nanmedian(medians):.1e}", file=out)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    report()
