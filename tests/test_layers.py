"""The packages of the library are layered, and imports point down: lower layers can be read without higher ones.

A name with an underscore is used only in its own package, so that the inside of a package can change
independently.
"""

import ast
import graphlib
import re
from pathlib import Path

import pytest


# From low to high. A package imports itself and packages of lower rows, not its neighbors in the same row.
ORDER = (
    ("_core",),
    ("compiler", "optimize"),
    ("checkpoints", "spatial"),
    ("lie",),
    ("joints", "shapes"),
    ("loops",),
    ("model",),
    ("dynamics",),
    ("constraints", "forces", "body"),
    ("contact",),
    ("sensors",),
    ("files",),
    ("robots",),
    ("simulate",),
    ("parallel",),
    ("identify", "control", "tasks"),
    ("learn",),
    ("view", "interop"),
    ("plot",),
    ("__init__",),
    ("cli",),
    ("__main__",),
)

HEIGHT = {room: height for height, row in enumerate(ORDER) for room in row}

PACKAGE = Path(__file__).resolve().parent.parent / "rbd_jax"


def private_imports(package: Path) -> list[str]:
    """Returns one line for each import of a name with an underscore from another package. `_core` is exempt."""
    found = []
    for file in sorted(package.rglob("*.py")):
        path = file.relative_to(package).with_suffix("").parts
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not (
                node.level or (node.module or "").startswith(package.name)
            ):
                continue
            parts = node.module.split(".") if node.module else []
            parts = [*path[: len(path) - node.level], *parts] if node.level else parts[1:]
            own = len(path) > 1 and parts[:1] == [path[0]]
            inside = parts[1:] if parts[:1] == ["_core"] else parts
            names = [*inside, *(alias.name for alias in node.names if parts)]
            if not own and any(name.startswith("_") and not name.endswith("__") for name in names):
                where = file.relative_to(package.parent)
                found.append(
                    f"{where}:{node.lineno}: takes {'.'.join([*parts, node.names[0].name])} from another room"
                )
    return found


def imports_of(source: str, path: tuple[str, ...], package: Path):
    """Yields the packages that a file imports, each with its line number.

    Every import statement counts, including those inside functions or under TYPE_CHECKING, which can hide
    cycles.

    Args:
      source: The text of the file.
      path: The file's path under the package as module names, the last being its own ("__init__" included).
      package: The folder of the package.
    """

    def room(parts: list[str]) -> str:
        """Returns the package of rbd_jax.parts; a name that is no module belongs to the package's `__init__`."""
        if not parts:
            return "__init__"
        name = parts[0]
        there = (package / name).is_dir() or (package / f"{name}.py").is_file()
        return name if there or name in HEIGHT else "__init__"

    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top, *parts = alias.name.split(".")
                if top == package.name:
                    yield room(parts), node.lineno
        elif isinstance(node, ast.ImportFrom):
            parts = node.module.split(".") if node.module else []
            if node.level:  # one dot is the folder of the file, each further dot is one folder up
                depth = len(path) - node.level
                assert depth >= 0, f"line {node.lineno}: relative import beyond the package"
                parts = [*path[:depth], *parts]
            elif parts[0] == package.name:
                parts = parts[1:]
            else:
                continue
            for alias in node.names:
                yield room(parts or [alias.name]), node.lineno


def violations(package: Path) -> list[str]:
    """Returns one line for each import that does not point down and each file outside the known packages."""
    found = []
    for file in sorted(package.rglob("*.py")):
        path = file.relative_to(package).with_suffix("").parts
        own = path[0]
        where = file.relative_to(package.parent)
        if own not in HEIGHT:
            found.append(f"{where}: the room '{own}' has no place in ORDER")
            continue
        for other, line in imports_of(file.read_text(encoding="utf-8"), path, package):
            if other not in HEIGHT:
                found.append(f"{where}:{line}: imports the room '{other}', which has no place in ORDER")
            elif other != own and HEIGHT[other] >= HEIGHT[own]:
                found.append(f"{where}:{line}: '{own}' imports '{other}', which is not below it")
    return found


def test_imports_point_down():
    assert any(PACKAGE.rglob("*.py"))
    found = violations(PACKAGE)
    assert not found, "\n" + "\n".join(found)


def test_the_compiler_is_used_by_what_it_exports():
    """Other packages use only the compiler's exports, so that its inside can change.

    The compiler does not depend on rigid-body code.
    """
    inside = [
        f"{file.relative_to(PACKAGE)}:{node.lineno}"
        for file in PACKAGE.rglob("*.py")
        if file.relative_to(PACKAGE).parts[0] != "compiler"
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("compiler.")
    ]
    assert not inside


def test_modules_of_the_compiler_import_in_no_circle():
    folder = PACKAGE / "compiler"
    imports = {}
    for file in folder.rglob("*.py"):
        own = file.relative_to(folder).with_suffix("").parts
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not node.level or node.level > len(own):
                continue
            base = [*own[: len(own) - node.level], *(node.module.split(".") if node.module else [])]
            for parts in [base] if node.module else [[*base, alias.name] for alias in node.names]:
                imports.setdefault(".".join(own), set()).add(".".join(parts))
    assert "kernel" in imports["primitive"]
    graphlib.TopologicalSorter(imports).prepare()  # raises an error for a cycle


def test_the_root_has_no_private_modules():
    assert {file.name for file in PACKAGE.glob("*.py")} == {"__init__.py", "__main__.py", "checkpoints.py"}


@pytest.mark.parametrize("room", ["simulate", "dynamics"])
def test_nothing_is_remembered_out_of_sight(room):
    """Objects do not cache in their own attributes or by trace state: data is returned and passed."""
    hidden = r"\bvars\(self\)|__getattribute__|__dict__|opaque_trace_state|\bdeque\b"
    found = [
        f"{file.name}: {line.strip()}"
        for file in (PACKAGE / room).rglob("*.py")
        for line in file.read_text(encoding="utf-8").splitlines()
        if re.search(hidden, line)
    ]
    assert not found, found


#: Files with classes of more than 250 lines, with the reason.
LONG_CLASSES = {
    "view/viewer.py": "the panel and the one thread that serves all its requests",
    "control/interior_point.py": "one iteration's equations, which share what they are for",
    "control/ddp.py": "the same",
    "compiler/expressions.py": "an operation each",
    "compiler/scalarize.py": "an operation of JAX each",
    "compiler/fusing.py": "an operation of JAX each",
    "compiler/cpu/routine.py": "an instruction each",
    "files/sdf.py": "an element of the format each",
    "model/tree.py": "what combines along a tree, and its tables",
    "control/receding_horizon.py": "arguments, checks, and one policy",
}


def test_code_is_short():
    """Functions have at most 80 lines without docstring; longer classes than 250 lines are listed with a reason."""
    functions, classes = [], set()
    for file in PACKAGE.rglob("*.py"):
        where = str(file.relative_to(PACKAGE))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.end_lineno is None:
                continue
            first = node.body[0]
            is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            start = first.end_lineno if is_docstring else node.lineno
            if isinstance(node, ast.FunctionDef) and node.end_lineno - start > 80:
                functions.append(f"{where}: {node.name}")
            if isinstance(node, ast.ClassDef) and _lines_of_code(node) >= 250:
                classes.add(where)
    assert not functions
    assert classes == set(LONG_CLASSES)


def _lines_of_code(node: ast.ClassDef) -> int:
    docstrings = [
        x
        for x in ast.walk(node)
        if isinstance(x, ast.Expr) and isinstance(x.value, ast.Constant) and isinstance(x.value.value, str)
    ]
    return node.end_lineno - node.lineno - sum(x.end_lineno - x.lineno + 1 for x in docstrings)


def test_what_is_private_is_used_in_its_own_room():
    found = private_imports(PACKAGE)
    assert not found, "\n" + "\n".join(found)


PRIVATE = {
    "a module": ("model/edit.py", "from ..lie._group import Group"),
    "a name": ("model/edit.py", "from ..lie.so3 import _half"),
    "a module of a room": ("model/edit.py", "from ..lie import _group"),
    "a name of the core": ("model/edit.py", "from .._core.array import _rows"),
    "absolute": ("model/edit.py", "from rbd_jax.lie._group import Group"),
    "in a function": ("model/edit.py", "def f():\n    from ..lie._group import Group\n    return Group"),
    "from the root": ("__init__.py", "from .lie._group import Group"),
}

NOT_PRIVATE = {
    "the room's own": (
        "lie/groups.py",
        "from ._group import Group\nfrom . import _group\nfrom .so3 import _half",
    ),
    "the core": ("lie/groups.py", "from .._core.array import dot\nfrom .._core import array"),
    "a public module": ("model/edit.py", "from ..lie.so3 import SO3"),
    "of other packages": ("lie/groups.py", "from jax._src import core"),
}


@pytest.mark.parametrize("where, source", PRIVATE.values(), ids=PRIVATE)
def test_a_planted_private_import_is_found(tmp_path, where, source):
    found = private_imports(plant(tmp_path, where, source))
    assert len(found) == 1 and where in found[0], found


@pytest.mark.parametrize("where, source", NOT_PRIVATE.values(), ids=NOT_PRIVATE)
def test_a_planted_public_import_passes(tmp_path, where, source):
    assert private_imports(plant(tmp_path, where, source)) == []


def plant(folder: Path, where: str, source: str) -> Path:
    """Returns a small package of the same name: one file with the given source, and empty files around it."""
    package = folder / "rbd_jax"
    for name in (
        "__init__",
        "__main__",
        "_core/__init__",
        "spatial/__init__",
        "lie/__init__",
        "model/__init__",
    ):
        file = package / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    file = package / where
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(source)
    return package


UPWARD = {
    "relative": ("lie/groups.py", "from ..model import Model"),
    "relative, the room itself": ("lie/groups.py", "from .. import model"),
    "relative, two folders deep": ("lie/deep/groups.py", "from ...model.tree import parents"),
    "from a room's __init__": ("lie/__init__.py", "from ..model import Model"),
    "absolute": ("lie/groups.py", "import rbd_jax.model.tree as tree"),
    "absolute from": ("lie/groups.py", "from rbd_jax.model import Model"),
    "absolute, the room itself": ("lie/groups.py", "from rbd_jax import model"),
    "in a function": ("lie/groups.py", "def f():\n    from ..model import Model\n    return Model"),
    "for types only": ("lie/groups.py", "if TYPE_CHECKING:\n    from ..model import Model"),
    "among others": ("lie/groups.py", "from .. import spatial, model"),
    "of the package": ("lie/groups.py", "import rbd_jax"),
    "of a name of the package": ("lie/groups.py", "from .. import Transform"),
    "of everything": ("lie/groups.py", "from .. import *"),
    "from the lowest": ("_core/array.py", "from ..spatial import Transform"),
    "to a room not written yet": ("dynamics/crba.py", "from ..simulate import step"),
    "to a neighbour": ("forces/planes.py", "from ..constraints import loop"),
    "from a room that is one file": ("spatial.py", "from .lie import exp"),
    "to the command line": ("__init__.py", "from .__main__ import main"),
}

DOWNWARD = {
    "relative": ("lie/groups.py", "from ..spatial import Transform"),
    "relative, the room itself": ("lie/groups.py", "from .. import spatial"),
    "absolute": ("model/tree.py", "import rbd_jax.lie.groups, rbd_jax.spatial"),
    "the room's own": ("lie/groups.py", "from . import tables\nfrom .tables import x\nfrom ..lie import y"),
    "the core": ("lie/groups.py", "from .._core.array import dot\nfrom .._core import array"),
    "within the core": ("_core/errors.py", "from .array import dot"),
    "of other packages": (
        "lie/groups.py",
        "import jax.numpy as jnp\nfrom model import Model\nimport rbd_jax_extra",
    ),
    "from the package": ("__init__.py", "from .lie import exp\nfrom . import model"),
    "from the command line": (
        "__main__.py",
        "from . import model\nfrom . import __version__\nimport rbd_jax",
    ),
}


@pytest.mark.parametrize("where, source", UPWARD.values(), ids=UPWARD)
def test_a_planted_upward_import_is_found(tmp_path, where, source):
    found = violations(plant(tmp_path, where, source))
    assert len(found) == 1 and where in found[0], found


@pytest.mark.parametrize("where, source", DOWNWARD.values(), ids=DOWNWARD)
def test_a_planted_downward_import_passes(tmp_path, where, source):
    assert violations(plant(tmp_path, where, source)) == []


@pytest.mark.parametrize("where", ["attic/old.py", "attic.py"])
def test_an_unknown_room_is_named(tmp_path, where):
    package = plant(tmp_path, where, "")
    (package / "__init__.py").write_text("from .attic import old")
    found = violations(package)
    assert len(found) == 2 and all("'attic'" in line for line in found), found
