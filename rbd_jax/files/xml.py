"""XML parsing of robot descriptions, with line numbers.

Uses Python's own parser and refuses entities and includes, so a file can neither expand without bound nor refer to other
files. Errors name the element, its line and a remedy.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

import numpy as np

from .._core.arguments import instance
from .._core.errors import ModelError
from .limits import Limits, read_file


#: Expat's error code for a byte that is not valid at its position.
INVALID_TOKEN = expat.errors.codes[expat.errors.XML_ERROR_INVALID_TOKEN]


def read(function: str, kind: str, path_or_xml, limits: Limits) -> tuple[str, str | bytes]:
    """Returns the name of the source for messages, and its content. `kind` is the format: "URDF"."""
    a = "a" if kind == "URDF" else "an"
    instance(function, "limits", limits, Limits, "an rbd.files.Limits")
    if not isinstance(path_or_xml, str | Path):
        raise ModelError(f"{function}: got a {type(path_or_xml).__name__}; give a path or the XML text")
    if isinstance(path_or_xml, str):
        text = path_or_xml.lstrip("\ufeff \t\r\n")
        if text.startswith("<"):
            try:
                limits.check_size(len(text))
            except ModelError as error:
                raise ModelError(f"{kind} text: {error}") from None
            return f"{kind} text", text
    path = Path(path_or_xml)
    try:
        return str(path), read_file(path, limits)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None
    except FileNotFoundError:
        raise ModelError(
            f"{path}: there is no such file; give the path of {a} {kind} file or the XML text"
        ) from None
    except IsADirectoryError:
        raise ModelError(f"{path}: it is a directory; give the path of {a} {kind} file in it") from None
    except (OSError, ValueError) as error:  # names too long, null characters, no permission
        shown = str(path) if len(str(path)) < 80 else f"{str(path)[:80]}..."
        reason = type(error).__name__
        raise ModelError(f"{shown!r}: cannot be read ({reason}); give a path or XML text") from None


@dataclass(slots=True)
class Element:
    """An XML element with its line and its parent."""

    tag: str
    attributes: dict[str, str]
    line: int
    parent: Element | None
    children: list[Element] = field(default_factory=list)
    content: str = ""

    def __str__(self) -> str:
        """`joint 'elbow' (line 7)`, or `<axis> in line 9, of joint 'elbow'`."""
        if "name" in self.attributes:
            return f"{self.tag} {self.attributes['name']!r} (line {self.line})"
        owner = self.parent
        while owner is not None and owner.tag not in ("link", "joint"):
            owner = owner.parent
        of = f", of {owner.tag} {owner.attributes['name']!r}" if owner and "name" in owner.attributes else ""
        return f"<{self.tag}> in line {self.line}{of}"

    def all(self, tag: str) -> list[Element]:
        return [child for child in self.children if child.tag == tag]

    def child(self, tag: str) -> Element | None:
        """Returns the only child with that tag, or None."""
        found = None
        for child in self.children:
            if child.tag == tag:
                if found is not None:
                    raise ModelError(f"{self} has {len(self.all(tag))} <{tag}>; keep one")
                found = child
        return found

    def needed(self, tag: str, example: str) -> Element:
        child = self.child(tag)
        if child is None:
            raise ModelError(f"{self} has no <{tag}>; add {example}")
        return child

    def text(self, key: str) -> str:
        """Returns a required attribute."""
        value = self.attributes.get(key, "")
        if not value.strip():
            raise ModelError(f'{self} has no {key}; write <{self.tag} {key}="...">')
        if "${" in value or "$(" in value:
            raise ModelError(
                f"{self}: {key}={value!r} is xacro; expand the file first: xacro robot.xacro > robot.urdf"
            )
        return value

    def numbers(
        self, key: str, count: int, default: Sequence[float] | None = None, finite: bool = True
    ) -> np.ndarray:
        """Returns an attribute of `count` numbers."""
        if key not in self.attributes and default is not None:
            return np.array(default, float)
        return np.array(self._said(key, count, finite))

    def number(self, key: str, default: float | None = None, finite: bool = True) -> float:
        if key not in self.attributes and default is not None:
            return default
        return self._said(key, 1, finite)[0]

    def _said(self, key: str, count: int, finite: bool) -> list[float]:
        return _numbers(lambda: f"{self}: {key}", self.text(key), count, finite)

    def said(self, example: str) -> str:
        """Returns the text content, which is required."""
        value = self.content.strip()
        if not value:
            raise ModelError(f"{self} is empty; write {example}")
        return value

    def inside(self, tag: str, count: int, default: Sequence[float], finite: bool = True) -> np.ndarray:
        """Returns the `count` numbers inside the only child with that tag, or the default without such a child."""
        child = self.child(tag)
        if child is None:
            return np.array(default, float)
        text = child.said(f"<{tag}>{' '.join(['0'] * count)}</{tag}>")
        return np.array(_numbers(lambda: str(child), text, count, finite))

    def inside_one(self, tag: str, default: float, finite: bool = True) -> float:
        return float(self.inside(tag, 1, [default], finite)[0])

    def is_true(self, tag: str, default: bool = False) -> bool:
        """Returns the truth value inside the only child with that tag."""
        child = self.child(tag)
        if child is None:
            return default
        word = child.content.strip().lower()
        if word not in ("true", "1", "false", "0"):
            raise ModelError(f"{child} must be true or false, got {child.content.strip()!r}")
        return word in ("true", "1")


@contextlib.contextmanager
def telling(source: str) -> Iterator[None]:
    """Prefixes errors within the block with the name of the file.

    Numbers may overflow within the block; non-finite results are refused where they are used.
    """
    with np.errstate(all="ignore"):
        try:
            yield
        except ValueError as error:
            kind = type(error) if isinstance(error, ModelError) else ModelError
            raise kind(f"{source}: {error}") from None


def _numbers(what: Callable[[], str], text: str, count: int, finite: bool) -> list[float]:
    """Returns the `count` numbers in a text; `what()` names the text in messages."""
    words = text.split()
    if len(words) != count:
        raise ModelError(f"{what()}={text!r} has {len(words)} numbers; it takes {count}, separated by spaces")
    try:
        if "_" in text or not text.isascii():  # only Python reads such a number
            raise ValueError
        values = list(map(float, words))
    except ValueError:
        raise ModelError(f"{what()}={text!r} is not {'a number' if count == 1 else 'numbers'}") from None
    if any(map(math.isnan, values)) or (finite and not all(map(math.isfinite, values))):
        raise ModelError(f"{what()}={text!r} is not finite")
    return values


def malformed(content: str | bytes) -> str | None:
    """Returns why a text is not well-formed XML, or None."""
    try:
        expat.ParserCreate().Parse(content, True)
    except expat.ExpatError as error:
        return _malformed(error, content)
    return None


def _malformed(error: expat.ExpatError, content: str | bytes) -> str:
    place = f"line {error.lineno}, column {error.offset + 1}"
    if isinstance(content, bytes) and error.code == INVALID_TOKEN:
        try:
            content.decode()
        except UnicodeDecodeError as fault:
            line = content.count(b"\n", 0, fault.start) + 1
            byte = f"byte 0x{content[fault.start]:02x} in line {line}"
            return f"it is not UTF-8 ({byte}) and declares no other encoding; save it as UTF-8"
    return f"it is not well-formed XML: {expat.ErrorString(error.code)} in {place}"


def outermost(content: str | bytes) -> str | None:
    """Returns the tag of the outermost element of an XML text, or None if the text cannot be parsed."""

    class Found(Exception):
        pass

    def stop(tag, attributes):
        raise Found(tag)

    parser = expat.ParserCreate()
    parser.StartElementHandler = stop
    try:
        parser.Parse(content, True)
    except Found as found:
        return found.args[0]
    except (expat.ExpatError, LookupError, ValueError):
        pass
    return None


def parse(content: str | bytes, limits: Limits) -> Element:
    """Returns the root element of an XML text."""
    parser = expat.ParserCreate()
    parser.buffer_text = True
    top = Element("", {}, 0, None)
    open_elements, texts, count = [top], [[]], 0

    def start(tag, attributes):
        nonlocal count
        element = Element(tag, attributes, parser.CurrentLineNumber, open_elements[-1])
        if tag.startswith("xacro:"):
            raise ModelError(f"{element} is xacro; expand the file first: xacro robot.xacro > robot.urdf")
        if tag.startswith("xi:"):
            raise ModelError(f"{element} is XInclude, which is not supported; insert the content of the file")
        count += 1
        limits.check_elements(count)
        limits.check_depth(len(open_elements))
        open_elements[-1].children.append(element)
        open_elements.append(element)
        texts.append([])

    def end(tag):
        open_elements.pop().content = "".join(texts.pop())

    def characters(text):
        texts[-1].append(text)

    def doctype(name, system, public, has_internal):
        if system or public:
            raise ModelError(
                f"line {parser.CurrentLineNumber}: the DOCTYPE refers to {system or public!r}; remove it"
            )

    def entity(name, *_):
        raise ModelError(
            f"line {parser.CurrentLineNumber}: the DOCTYPE declares the entity {name!r}, which is not supported; "
            "replace it by its content"
        )

    def defaults(element, attribute, *_):
        raise ModelError(
            f"line {parser.CurrentLineNumber}: the DOCTYPE gives <{element}> a default {attribute!r}, which is not "
            "supported; write it in each element"
        )

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = characters
    parser.StartDoctypeDeclHandler = doctype
    parser.EntityDeclHandler = entity
    parser.AttlistDeclHandler = defaults
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        raise ModelError(_malformed(error, content)) from None
    except (LookupError, ValueError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"it is not readable XML: {error}; save it as UTF-8") from None
    return top.children[0]
