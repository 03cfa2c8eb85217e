import pytest
from docstring_examples import check_example, examples_of


pytestmark = pytest.mark.slow


@pytest.mark.parametrize("path", examples_of("rbd_jax.interop", "rbd_jax.interop.pinocchio"))
def test_example(path):
    check_example(path)
