"""Every public package lists its exports in `__all__` and, with one line each, in its docstring."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

import rbd_jax as rbd


PACKAGE = Path(rbd.__file__).parent
PACKAGES = [
    "rbd_jax",
    *(f"rbd_jax.{file.parent.name}" for file in sorted(PACKAGE.glob("[a-z]*/__init__.py"))),
]

#: A line of a table of contents.
LINE = re.compile(r"^- `(\w+)`: \S", re.MULTILINE)


def statements(body: list[ast.stmt]) -> list[ast.stmt]:
    """Returns the statements of a module, including those under TYPE_CHECKING."""
    found = []
    for node in body:
        found += (
            node.body
            if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
            else [node]
        )
    return found


def exported(source: str) -> set[str]:
    """Returns the names that a package exports: imports `as` the same name, and its own names without a leading underscore.

    Type checkers use the same rule.
    """
    names = set()
    for node in statements(ast.parse(source).body):
        if isinstance(node, ast.ImportFrom):
            names |= {alias.name for alias in node.names if alias.asname == alias.name}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return {name for name in names if not name.startswith("_")}


def test_what_is_exported_is_found():
    source = "from .a import b as b, c as _c, d\nfrom . import e as e\nimport f\nG = _h = 1\ndef i(): ...\nclass J: ..."
    assert exported(source) == {"b", "e", "G", "i", "J"}


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_lists_what_it_exports(name):
    package = importlib.import_module(name)
    assert sorted(package.__all__) == sorted(exported(Path(package.__file__).read_text(encoding="utf-8")))
    missing = [public for public in package.__all__ if not hasattr(package, public)]
    assert not missing


@pytest.mark.parametrize("name", PACKAGES)
def test_the_docstring_is_a_table_of_contents(name):
    package = importlib.import_module(name)
    assert LINE.findall(package.__doc__) == package.__all__


def test_each_name_has_one_path():
    paths = {}
    for name in ["rbd_jax", *(name for name in PACKAGES if name.removeprefix("rbd_jax.") in rbd.__all__)]:
        package = importlib.import_module(name)
        for public in package.__all__:
            value = getattr(package, public)
            if isinstance(value, type) or inspect.isfunction(value):
                paths.setdefault(id(value), []).append(f"{name}.{public}")
    # Solver codes are exported next to the solvers.
    assert [both for both in paths.values() if len(both) > 1] == [
        ["rbd_jax.control.Code", "rbd_jax.simulate.Code"]
    ]


@pytest.mark.parametrize(
    "package, name, now",
    [
        ("simulate", "RungeKutta4", "rbd_jax.RungeKutta4"),
        ("simulate", "rollout", "rbd_jax.rollout"),
        ("constraints", "project", "rbd_jax.project"),
        ("robots", "load", "rbd_jax.load"),
        ("body", "Code", "rbd_jax.simulate.Code"),
    ],
)
def test_the_other_path_is_deprecated(package, name, now):
    package = importlib.import_module(f"rbd_jax.{package}")
    with pytest.warns(
        DeprecationWarning, match=f"{package.__name__}.{name} is deprecated .* Use {now} instead"
    ) as seen:
        value = getattr(package, name)
    assert seen[0].filename == __file__
    where, _, own = now.rpartition(".")
    assert value is getattr(importlib.import_module(where), own)
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'nothing'"):
        _ = package.nothing


def test_everything_public_can_be_imported():
    names = {}
    exec("from rbd_jax import *", names)
    del names["__builtins__"]
    assert sorted(names) == sorted(rbd.__all__)
    assert names["view"].plot_model


def test_public_packages_are_public():
    """All packages are available without a separate import, except the command and packages that `rbd_jax` re-exports."""
    packages = {name.removeprefix("rbd_jax.") for name in PACKAGES[1:]}
    assert packages - set(rbd.__all__) == {"cli", "compiler", "dynamics", "loops", "model", "optimize"}
