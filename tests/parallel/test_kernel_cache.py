"""Machine code of kernels in the folder of JAX's compilation cache."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd
from rbd_jax.compiler import why_no_kernels
from rbd_jax.compiler.cpu import cache, routine, xla_ffi


X = np.linspace(-1.0, 1.0, 40).reshape(10, 4).astype(np.float32)

pytestmark = pytest.mark.skipif("jax.default_backend() != 'cpu'")


@pytest.fixture
def folder(tmp_path):
    old = jax.config.jax_compilation_cache_dir
    why_no_kernels("cpu")  # compiles a small kernel, once per process
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    yield tmp_path
    jax.config.update("jax_compilation_cache_dir", old)


@pytest.fixture
def compile_again(monkeypatch):
    """Compiles a kernel; returns a function that recompiles it under another name and reports the text that LLVM read."""
    import llvmlite.binding as llvm

    texts, read = [], []
    compiled, parse = routine.compiled, llvm.parse_assembly
    monkeypatch.setattr(
        routine, "compiled", lambda *args, **more: texts.append(args) or compiled(*args, **more)
    )
    monkeypatch.setattr(llvm, "parse_assembly", lambda text: read.append(text) or parse(text))

    def start(factor):
        rbd.batch_map(lambda x: factor * jnp.sum(jnp.sin(x)), fused=True)(X)
        (_, text), *_ = texts

        def again(name):
            read.clear()
            xla_ffi.compiled(name, text, carefully=True)
            shape = jax.ShapeDtypeStruct((10, 1), np.float32)
            found = jax.jit(lambda x: jax.ffi.ffi_call(name, shape)(x))(X)
            np.testing.assert_allclose(found[:, 0], factor * np.sin(X).sum(1), rtol=1e-5)
            return read == [text]

        return again

    return start


def test_another_process_loads_what_was_compiled(folder, compile_again):
    again = compile_again(1.234)
    (file,) = folder.glob("rbd_jax-kernel-*")
    assert not again("loaded from the cache")
    # A damaged file is not loaded, but replaced.
    whole = file.read_bytes()
    file.write_bytes(whole[:-100] + bytes(100))
    assert again("damaged")
    assert len(file.read_bytes()) == len(whole)
    assert not again("loaded again")


def test_nothing_is_stored_without_a_folder(folder, compile_again):
    jax.config.update("jax_compilation_cache_dir", None)
    assert compile_again(1.235)("compiled twice")
    assert not [*folder.iterdir()]


def test_what_compiles_faster_than_jax_is_told_to_store_is_not_stored(folder):
    code = b"code"
    old = jax.config.jax_persistent_cache_min_compile_time_secs
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 1.0)
    try:
        cache.store("fast", code, 0.9)
        cache.store("slow", code, 1.1)
    finally:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", old)
    assert cache.load("fast") is None and cache.load("slow") == code


def test_a_folder_that_cannot_be_written_to_is_reported(folder):
    (folder / "file").write_text("")
    jax.config.update("jax_compilation_cache_dir", str(folder / "file"))
    with pytest.warns(RuntimeWarning, match="machine code of a kernel could not be stored"):
        cache.store("key", b"code", 100.0)
