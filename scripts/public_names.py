"""Lists the public packages, the names that each exports, and the package that documents each object.

The names are those of the `__all__` of `rbd_jax`, of its packages, and of the modules that these list, such as
`rbd_jax.lie.quaternion`. If several packages list an object (for example `rbd_jax.Weld` of loops and of
constraints), its entry is in the first of them, in the order of `packages`. The documentation site uses this
list, and tests/examples.py requires an example of each object.
"""

import ast
import importlib
import importlib.util
import inspect
import itertools
import re
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import rbd_jax


#: The packages in reading order; other packages follow in alphabetical order.
ORDER = (
    "joints constraints loops forces forces.actuators shapes sensors contact contact.solvers model files robots dynamics "
    "simulate parallel identify control control.problems tasks learn view plot spatial spatial.planar lie lie.quaternion "
    "body interop interop.mujoco interop.pinocchio cli"
).split()

#: A line of a table of contents, or the heading above such lines.
LINE = re.compile(r"^- `(\w+)`: (.*)$")
HEADING = re.compile(r"^(\S.*):$")


class Name(NamedTuple):
    """A name that a package lists."""

    package: str
    name: str
    #: Its description in the package's table of contents.
    summary: str
    thing: object

    @property
    def path(self) -> str:
        return f"{self.package}.{self.name}"


class Group(NamedTuple):
    """Names under one heading of a table of contents; the heading may be empty."""

    title: str
    names: list[Name]


def listed(module: ModuleType) -> list[str]:
    """Returns the `__all__` of a package, or the names that a public module defines, in its order."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    own = lambda thing: getattr(thing, "__module__", None) == module.__name__
    return [name for name, thing in vars(module).items() if not name.startswith("_") and own(thing)]


def packages() -> dict[str, ModuleType]:
    """Returns the public packages and modules by name, `rbd_jax` first."""
    root = Path(rbd_jax.__file__).parent
    found = {rbd_jax.__name__: rbd_jax}

    def add(name: str) -> None:
        module = importlib.import_module(name)
        if module.__name__ in found:
            return
        found[module.__name__] = module
        for child in listed(module):
            if inspect.ismodule(getattr(module, child)):
                add(getattr(module, child).__name__)

    for name in rbd_jax.__all__:
        if inspect.ismodule(getattr(rbd_jax, name)):
            add(getattr(rbd_jax, name).__name__)
    for file in sorted(root.glob("*/__init__.py")):
        add(f"{rbd_jax.__name__}.{file.parent.name}")

    def place(name: str) -> tuple[int, str]:
        short = name.removeprefix(f"{rbd_jax.__name__}.")
        return (
            -1 if name == rbd_jax.__name__ else ORDER.index(short) if short in ORDER else len(ORDER),
            short,
        )

    return {name: found[name] for name in sorted(found, key=place)}


def contents(module: ModuleType) -> tuple[str, list[Group]]:
    """Returns the text of a package's docstring before its table of contents, and the names of the table by heading."""
    names = listed(module)
    before, groups, last, told = [], [], "", set()
    for line in (inspect.getdoc(module) or "").splitlines():
        entry = LINE.match(line)
        if entry and entry[1] in names:
            heading = HEADING.match(last)
            if not groups and heading:
                del before[max(n for n, text in enumerate(before) if text == last) :]
            if not groups or heading:
                groups.append(Group(heading[1] if heading else "", []))
            told.add(entry[1])
            groups[-1].names.append(Name(module.__name__, entry[1], entry[2], getattr(module, entry[1])))
        elif not groups:
            before.append(line)
        last = line or last
    rest = [
        Name(module.__name__, name, summary_of(getattr(module, name)), getattr(module, name))
        for name in names
        if name not in told
    ]
    return "\n".join(before).strip(), [*groups, *([Group("", rest)] if rest else [])]


def docstring_of(package: str, name: str) -> str:
    """Returns the docstring of an object itself, excluding inherited ones, or the text below its assignment."""
    thing = getattr(importlib.import_module(package), name)
    of_ours = getattr(thing, "__module__", None) or ""
    if of_ours.startswith("rbd_jax") and getattr(thing, "__name__", None) == name:
        return inspect.cleandoc(thing.__doc__ or "")
    module = importlib.import_module(package)
    for node, after in itertools.pairwise(
        statements(ast.parse(Path(module.__file__).read_text(encoding="utf-8")).body)
    ):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if alias.name != "*" and (alias.asname or alias.name) == name:
                    where = importlib.util.resolve_name(
                        "." * node.level + (node.module or ""), module.__package__
                    )
                    return docstring_of(where, alias.name)
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and after.value.value
            return inspect.cleandoc(text) if isinstance(text, str) else ""
    return ""


def statements(body: list[ast.stmt]) -> list[ast.stmt | None]:
    """Returns the statements of a module, including those in `if`s, with None at the end of each block.

    In an `if`, the branch that runs comes before the branch for type checkers.
    """
    found = []
    for node in body:
        found += [*statements(node.orelse), *statements(node.body)] if isinstance(node, ast.If) else [node]
    return [*found, None]


def summary_of(thing: object) -> str:
    """Returns the first sentence of a docstring."""
    text = inspect.getdoc(thing) or ""
    return re.split(r"(?<=[.:])\s", text.split("\n\n")[0].replace("\n", " "))[0].rstrip(".:")


def entries() -> dict[str, Name]:
    """Returns the entry of each public object by its path, each object once. Packages are excluded.

    Constants that are the same object, such as small tuples, have separate entries.
    """
    found, seen = {}, {}
    for module in packages().values():
        for group in contents(module)[1]:
            for name in group.names:
                thing = name.thing
                if inspect.ismodule(thing):
                    continue
                key = id(thing) if callable(thing) else name.path
                if key not in seen:
                    seen[key] = name.path
                    found[name.path] = name
    return found


def home(name: Name, among: dict[str, Name]) -> str:
    """Returns the path of the entry that documents an object."""
    if name.path in among:
        return name.path
    return next(path for path, other in among.items() if other.thing is name.thing)
