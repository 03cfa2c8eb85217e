import pytest
from docstring_examples import check_example, examples_of


@pytest.mark.parametrize("path", examples_of("rbd_jax.compiler"))
def test_example(path):
    check_example(path)
