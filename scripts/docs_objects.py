"""An extension of griffe, which reads the sources for the reference: what docstrings mean where Markdown reads them otherwise.

Examples (`>>>`) become blocks of code, and names in backticks that are public become links. Classes that take their fields as
arguments, as Equinox modules do, show them in their signature.
"""

import functools
import importlib
import inspect
import re
import sys
from pathlib import Path

import griffe


sys.path[:0] = [str(Path(__file__).resolve().parent.parent), str(Path(__file__).resolve().parent)]

import public_names


@functools.cache
def entries() -> dict[str, public_names.Name]:
    return public_names.entries()


@functools.cache
def homes() -> dict[str, str]:
    """Of each path under which something public can be named what its entry is called."""
    found = {}
    for module in public_names.packages().values():
        for group in public_names.contents(module)[1]:
            for name in group.names:
                if not inspect.ismodule(name.thing):
                    found[name.path] = called(entries()[public_names.home(name, entries())])
    return found


def called(name: public_names.Name) -> str:
    """What an entry is called: by its path, but for what has the name of its module, which griffe would take for that."""
    module = getattr(name.thing, "__module__", None) or ""
    same = module.startswith("rbd_jax.") and module.rpartition(".")[2] == name.name
    return f"{module}.{name.name}" if same else name.path


def linked(path: str, text: str) -> str:
    """`text` as a link to the entry of `path`, if there is one."""
    to = homes().get(path)
    return f"[{text}][{to}]" if to else text


def as_markdown(text: str, own: str = "") -> str:
    """The text of a docstring as Markdown. `own`: the name of what it belongs to, which is not linked."""
    paths = homes()
    by_name = {}
    for path, home in paths.items():
        by_name.setdefault(path.rpartition(".")[2], home)

    def link(match):
        name = match[1]
        path = name.replace("rbd.", "rbd_jax.", 1) if name.startswith("rbd.") else name
        home = paths.get(path) or by_name.get(path)
        return f"[`{name}`][{home}]" if home and name.rpartition(".")[2] != own else match[0]

    lines, example, in_code = [], False, False
    for line in text.split("\n"):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        if not in_code and not example and line.lstrip().startswith(">>>"):
            example = True
            lines += [""] * bool(lines and lines[-1].strip()) + ["```pycon"]
        elif example and not line.strip():
            example = False
            lines.append("```")
        verbatim = example or in_code or line.startswith("    ")
        lines.append(line if verbatim else re.sub(r"(?<![\[`])`([A-Za-z_][\w.]*)`(?![\]`])", link, line))
    return "\n".join(lines + ["```"] * example)


class Docstrings(griffe.Extension):
    """Changes what griffe has read of our sources."""

    def on_object(self, *, obj, **kwargs):
        if obj.docstring and not obj.is_module:
            obj.docstring.value = as_markdown(inspect.cleandoc(obj.docstring.value), own=obj.name)

    def on_class_members(self, *, cls, **kwargs):
        if "__init__" in cls.members or not cls.path.startswith("rbd_jax."):
            return
        try:
            thing = getattr(importlib.import_module(cls.module.path), cls.name)
            signature = inspect.signature(thing)
        except (AttributeError, TypeError, ValueError):
            return
        if not any("__dataclass_fields__" in vars(base) for base in thing.__mro__):
            return
        parameters = [griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)]
        for parameter in signature.parameters.values():
            kind = griffe.ParameterKind[parameter.kind.name.lower()]
            default = None if parameter.default is parameter.empty else shown(parameter.default)
            parameters.append(
                griffe.Parameter(
                    parameter.name,
                    annotation=annotation_of(thing, parameter.name),
                    kind=kind,
                    default=default,
                )
            )
        made = griffe.Function("__init__", parameters=griffe.Parameters(*parameters), parent=cls)
        cls.set_member("__init__", made)


def annotation_of(thing: type, field: str) -> str | None:
    """How the annotation of a field is written, in the class that has it."""
    for base in thing.__mro__:
        annotation = vars(base).get("__annotations__", {}).get(field)
        if annotation is not None:
            return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return None


def shown(default: object) -> str:
    text = repr(default)
    return text if len(text) < 40 and "<" not in text else "..."
