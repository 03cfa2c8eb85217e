"""If kernels cannot be compiled, functions are still mapped, and the library warns once."""

import re
import subprocess
import sys
import textwrap
import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from support import by_xla

import rbd_jax as rbd
from rbd_jax.compiler import compat, faults


X = np.random.default_rng(0).normal(size=(16, 4))


#: A random factor, so that no other test has compiled the functions of this file.
FACTOR = np.random.default_rng().uniform(1, 2)


def function(x):
    return jnp.sum(jnp.tile(jnp.sin(x), 9) * jnp.tile(x, 9)) * FACTOR


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch):
    """Resets the warnings and checks, as in a new process."""
    monkeypatch.setattr(faults, "_told", set())
    faults._checked.cache_clear()
    yield
    faults._checked.cache_clear()


def told(run):
    """Returns the result of a function and the warnings that it issued."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = run()
    return found, [str(one.message) for one in caught if one.category is RuntimeWarning]


def in_batches(**options):
    return np.asarray(rbd.batch_map(lambda x: function(x), **options)(X))


def test_a_small_kernel_is_right():
    pytest.importorskip("llvmlite")
    assert told(lambda: faults.why_no_kernels("cpu")) == (None, [])


def broken(monkeypatch):
    import llvmlite.binding as llvm

    def parse(text):
        raise RuntimeError("LLVM is out of order")

    monkeypatch.setattr(llvm, "parse_assembly", parse)


def another_version(monkeypatch):
    monkeypatch.setattr(compat, "versions", lambda: {"jax": "0.10.2", "llvmlite": "99.1.0"})


def wrong_numbers(monkeypatch):
    monkeypatch.setattr(np, "allclose", lambda *_, **__: False)


FAULTS = {
    # An earlier test may already have compiled the small kernel.
    "its compiler is broken": (
        broken,
        "(a small test kernel|a kernel) could not be compiled.*RuntimeError: LLVM is out of order",
    ),
    "another version": (another_version, r"not tested with llvmlite 99.1.0 \(tested: 0.45 to 0.50\)"),
    "wrong numbers": (wrong_numbers, "a small test kernel computes wrong numbers"),
}


@pytest.mark.parametrize("fault, message", FAULTS.values(), ids=FAULTS)
def test_it_is_told_once_and_mapped_without(fault, message, monkeypatch):
    pytest.importorskip("llvmlite")
    expected = by_xla(function)(X)
    fault(monkeypatch)
    (one, two), warned = told(lambda: (in_batches(), in_batches()))
    np.testing.assert_allclose(one, expected, rtol=1e-13)
    np.testing.assert_allclose(two, expected, rtol=1e-13)
    (said,) = warned
    assert re.search(message, said) and "report this" in said
    with pytest.raises((ValueError, RuntimeError, OSError)), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        in_batches(fused=True)


def test_versions_that_were_not_tested_can_be_insisted_on(monkeypatch):
    pytest.importorskip("llvmlite")
    another_version(monkeypatch)
    monkeypatch.setenv(faults.SWITCH, "1")
    assert told(lambda: faults.why_no_kernels("cpu")) == (None, [])


def test_they_can_be_switched_off(monkeypatch):
    monkeypatch.setenv(faults.SWITCH, "0")
    found, warned = told(in_batches)
    np.testing.assert_allclose(found, by_xla(function)(X), rtol=1e-13)
    assert not warned
    with pytest.raises(ValueError, match="fused kernels: RBD_JAX_KERNELS is 0; leave fused out"):
        in_batches(fused=True)


@pytest.mark.parametrize(
    "version, is_tested",
    {
        "0.44.9": False,
        "0.45.0": True,
        "0.50.0rc1": True,
        "0.51": False,
        "1.0.0": False,
        "0.46.dev0": True,
    }.items(),
)
def test_ranges_of_versions(version, is_tested):
    assert (not compat.untested({"llvmlite": version})) == is_tested


def test_without_the_compiler_the_library_is_right():
    """The compiler package is missing. The test uses a separate process, because imported modules stay imported."""
    program = """
        import sys, warnings
        sys.modules["rbd_jax.compiler"] = None
        import jax
        import numpy as np
        jax.config.update("jax_enable_x64", True)
        import rbd_jax as rbd

        model = rbd.load("double_pendulum")
        q, v, a = np.random.default_rng(0).normal(size=(3, 9, 2))
        force = lambda q, v, a: rbd.inverse_dynamics(model, q, v, a)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = [rbd.batch_map(force)(q, v, a) for _ in range(2)]
        assert [str(one.message)[:45] for one in caught] == ["batch_map: this installation has no rbd_jax.c"], caught
        expected = jax.jit(jax.vmap(force))(q, v, a)
        for one in (*found, jax.jit(jax.vmap(rbd.specialize(rbd.inverse_dynamics, model)))(q, v, a)):
            np.testing.assert_allclose(one, expected, rtol=1e-12)
        try:
            rbd.batch_map(force, fused=True)(q, v, a)
        except ValueError as error:
            assert "leave fused out" in str(error), error
        else:
            raise AssertionError("fused=True is not refused")
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)
