"""A callable package still behaves like a module."""

import importlib
import inspect
import pydoc
import sys
import types

import pytest

from rbd_jax._core.callable import CallablePackage, make_callable


SOURCE = '''"""Things that are drawn."""

__all__ = ["draw", "line"]

from rbd_jax._core.callable import make_callable


def draw(what: str, *, size: float = 1.0) -> str:
    """Draw it."""
    if size <= 0:
        raise ValueError("draw: size must be positive")
    return f"{what} {size}"


def line() -> str:
    """A line."""
    return "line"


make_callable(__name__, draw)
'''


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "drawn_things"
    folder.mkdir()
    (folder / "__init__.py").write_text(SOURCE)
    (folder / "part.py").write_text("number = 3\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("drawn_things")
    for name in [name for name in sys.modules if name.startswith("drawn_things")]:
        del sys.modules[name]


def test_it_is_called_as_its_function(package):
    assert package("cat", size=2.0) == "cat 2.0" == package.draw("cat", size=2.0)
    assert inspect.signature(package) == inspect.signature(package.draw)
    with pytest.raises(ValueError, match="size must be positive"):
        package("cat", size=0)
    with pytest.raises(TypeError, match=r"draw\(\) got an unexpected"):
        package("cat", colour=1)


def test_it_stays_a_module(package):
    assert isinstance(package, types.ModuleType) and inspect.ismodule(package)
    assert sys.modules["drawn_things"] is package
    assert importlib.import_module("drawn_things.part").number == package.part.number == 3
    assert package.line() == "line" and package.__doc__ == "Things that are drawn."
    assert {"draw", "line", "part"} <= set(dir(package))
    with pytest.raises(AttributeError):
        package.circle  # noqa: B018
    text = pydoc.plain(pydoc.render_doc(package))
    assert "Things that are drawn." in text and "draw(what: str, *, size: float = 1.0)" in text


def test_it_can_be_loaded_again(package):
    again = importlib.reload(package)
    assert again is package and package("cat") == "cat 1.0"


def test_type_checkers_are_told_of_one():
    def draw(what: str) -> str:
        return what

    told = CallablePackage(draw)
    assert told("cat") == "cat" and isinstance(told, types.ModuleType)


def test_a_package_that_is_not_there_is_refused():
    with pytest.raises(KeyError):
        make_callable("no_such_package", print)
