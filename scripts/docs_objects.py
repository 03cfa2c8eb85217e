"""An extension of griffe, which reads the sources for the reference: converts docstrings to Markdown.

Examples (`>>>`) become code blocks, and public names in backticks become links. Sections such as `Args:` become lists.
Classes that take their fields as arguments, such as Equinox modules, have them in their signature.
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
    """Returns the name of the entry for each path of a public name."""
    found = {}
    for module in public_names.packages().values():
        for group in public_names.contents(module)[1]:
            for name in group.names:
                if not inspect.ismodule(name.thing):
                    found[name.path] = called(entries()[public_names.home(name, entries())])
    return found


def called(name: public_names.Name) -> str:
    """Returns the name of an entry: its path, except for objects named like their module, which griffe would confuse."""
    module = getattr(name.thing, "__module__", None) or ""
    same = module.startswith("rbd_jax.") and module.rpartition(".")[2] == name.name
    return f"{module}.{name.name}" if same else name.path


def linked(path: str, text: str) -> str:
    """Returns `text` as a link to the entry of `path`, if it exists."""
    to = homes().get(path)
    return f"[{text}][{to}]" if to else text


def as_markdown(text: str, own: str = "") -> str:
    """Returns the text of a docstring as Markdown.

    Args:
      text: The docstring.
      own: Name of the documented object, which is not linked.
    """
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
    for line in with_lists(text).split("\n"):
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


#: Sections of docstrings, and their headings.
SECTIONS = {"Args:": "Arguments", "Returns:": "Returns", "Raises:": "Raises"}


def with_lists(text: str) -> str:
    """Returns a docstring with its sections as bold headings and lists of Markdown."""
    lines, title, inner = [], None, ""
    for line in text.split("\n"):
        if line in SECTIONS:
            title, inner = SECTIONS[line], ""
            lines += [*[""] * bool(lines and lines[-1]), f"**{title}**", ""]
            continue
        if title and line.strip() and not line.startswith("  "):
            title = None
            lines += [""] * bool(lines and lines[-1])
        if not title or not line.strip():
            lines.append(line)
            continue
        entry = None if line.startswith("   ") else re.match(r"  ([\w.*, ]+?): (.*)", line)
        if entry and title != "Returns":
            names = ", ".join(f"`{name.strip()}`" for name in entry[1].split(","))
            lines.append(f"- {names}: {entry[2]}")
            inner = "  "
        else:
            lines.append(inner + line.strip())
    return "\n".join(lines)


class Docstrings(griffe.Extension):
    """Modifies the objects that griffe has read from the sources."""

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
    """Returns the annotation of a field as written in the class that defines it, or None."""
    for base in thing.__mro__:
        annotation = vars(base).get("__annotations__", {}).get(field)
        if annotation is not None:
            return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return None


def shown(default: object) -> str:
    text = repr(default)
    return text if len(text) < 40 and "<" not in text else "..."
