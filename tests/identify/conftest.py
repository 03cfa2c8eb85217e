"""Batches without kernels, for tests with few samples."""

import pytest

from rbd_jax.compiler import policy


@pytest.fixture(scope="module")
def without_kernels():
    """Disables kernels: their compilation takes longer than all computations here. `tests/parallel` tests the kernels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy, "is_compiled_here", lambda: False)
        yield
