"""How batches are computed where little is."""

import pytest

from rbd_jax.compiler import policy


@pytest.fixture(scope="module")
def without_kernels():
    """Sample by sample: a kernel takes longer to make than all that it computes here. `tests/parallel` has the kernels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy, "is_compiled_here", lambda: False)
        yield
