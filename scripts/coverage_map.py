"""Writes docs/coverage.md: implemented and tested parts of the source documents, as cited by docstrings.

    python scripts/coverage_map.py            # write it
    python scripts/coverage_map.py --check    # only print faults; no output if there are no faults

`docs/coverage.toml` lists the contents of the documents, row by row. A docstring in `rbd_jax` or in `tests`
covers a row when it cites one of its numbers in prose: "the mass matrix (book table 6.2)", "eqs. 1.28 and
1.29", "§9.7", "algorithms 5 and 6", and "(8.46)" for an equation. A citation refers to the document named last
before it in the docstring. If no document precedes it, it refers to the first document named by the enclosing
docstring of the class or module. Sections are covered only if a row consists of one section; chapters are never
covered.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


ROOT = Path(__file__).resolve().parent.parent

NUMBER = r"(?:\d+|A)(?:\.\d+){0,2}[a-d]?\b"
BETWEEN = r"(?:,? (?:and|to) |, |-|–)"
#: Kinds of numbers, and the marks in front of them.
MARKS = {
    "eq.": r"\b[Ee]qs?\. ",
    "table": r"\b[Tt]ables? ",
    "algorithm": r"\b[Aa]lg(?:orithms?|s?\.) ",
    "example": r"\b[Ee]x(?:amples?|s?\.) ",
    "figure": r"\b[Ff]ig(?:ures?|s?\.) ",
    "§": r"§",
    "ch.": r"\b[Cc]h(?:apters?|s?\.) ",
    "app.": r"\b[Aa]pp(?:endix|\.) ",
}
#: Each equation may be in parentheses.
ONE = {kind: rf"(?:\({NUMBER}\)|{NUMBER})" if kind == "eq." else NUMBER for kind in MARKS}
NEXT = {kind: rf"{BETWEEN}{'§?' if kind == '§' else ''}{one}" for kind, one in ONE.items()}
MARKED = "|".join(
    rf"(?P<k{place}>{mark})(?P<n{place}>{ONE[kind]}(?:{NEXT[kind]})*)"
    for place, (kind, mark) in enumerate(MARKS.items())
)
BARE = r"(?<!\w)\((?P<bare>(?:[1-9]\d?|A)\.\d+)(?=[),])"
Item = tuple[str, str]


@dataclass(frozen=True)
class Place:
    """A docstring: of a module (empty name), a class or a function."""

    path: Path  # relative to the root of the checkout
    name: str

    @property
    def link(self):
        return f"[`{self.name or '/'.join(self.path.parts[1:])}`](../{self.path.as_posix()})"

    @property
    def is_test(self):
        """True for a test or a file of tests."""
        names = (self.path.name, self.name.rpartition(".")[2] or "test_")
        return all(name.startswith(("test_", "Test")) for name in names)

    def __str__(self):
        return f"{self.path}::{self.name}" if self.name else str(self.path)


@dataclass
class Row:
    chapter: Chapter
    at: str
    what: str
    reason: str = ""
    items: list[Item] = field(default_factory=list)
    functions: list[Place] = field(default_factory=list)
    tests: list[Place] = field(default_factory=list)

    def __str__(self):
        return f"{self.chapter.document.cited} {self.at}"


@dataclass
class Chapter:
    document: Document
    title: str
    sections: int
    numbered: list[Item]
    rows: list[Row] = field(default_factory=list)

    @property
    def number(self):
        return self.title.split()[0].rstrip(".")


@dataclass
class Document:
    cited: str
    title: str
    named: str
    chapters: list[Chapter] = field(default_factory=list)


def expand(kind: str, numbers: str) -> Iterator[Item]:
    """Yields one item for each number of a list such as `2.93 to 2.97 and 2.99`."""
    last = ""
    for separator, number in re.findall(rf"({BETWEEN}|^)[§(]?({NUMBER})\)?", numbers):
        if separator.strip(" ,") in ("to", "-", "–"):
            prefix, dot, start = last.rpartition(".")
            other, _, end = number.rpartition(".")
            if other != prefix or not (start.isdecimal() and end.isdecimal()):
                raise ValueError(f"'{last} to {number}' is no range")
            yield from ((kind, f"{prefix}{dot}{n}") for n in range(int(start) + 1, int(end) + 1))
        else:
            yield kind, number
        last = number


def cited(text: str, names: re.Pattern[str]) -> Iterator[tuple[str | None, Item]]:
    """Yields each number that a text cites with its kind and the document named last before it."""
    document = None
    for match in re.finditer(rf"{names.pattern}|{MARKED}|{BARE}", text):
        if match["bare"]:
            yield document, ("eq.", match["bare"])
            continue
        for place, kind in enumerate(MARKS):
            if match[f"k{place}"]:
                yield from ((document, item) for item in expand(kind, match[f"n{place}"]))
                break
        else:
            document = match.lastgroup


def prose(docstring: str) -> str:
    """Returns a docstring on one line, without its examples."""
    kept, example = [], False
    for line in docstring.splitlines():
        example = line.strip().startswith(">>>") or (example and bool(line.strip()))
        kept += [] if example else [line]
    return " ".join(" ".join(kept).split())


def docstrings(root: Path, path: Path) -> Iterator[tuple[Place, list[str]]]:
    """Yields each docstring of a file with its enclosing docstrings, innermost first."""

    def inside(node, name, around):
        own = ast.get_docstring(node)
        texts = [prose(own), *around] if own else around
        if own:
            yield Place(path.relative_to(root), name), texts
        for child in node.body:
            yield from below(child, name, texts)

    def below(node, name, texts):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield from inside(node, f"{name}.{node.name}".lstrip("."), texts)
        else:
            for child in ast.iter_child_nodes(node):
                yield from below(child, name, texts)

    yield from inside(ast.parse(path.read_text(encoding="utf-8")), "", [])


class Map:
    """The rows of the documents with the docstrings that cover them, and faults of either in `faults`."""

    def __init__(self, root: Path):
        self.faults: list[str] = []
        tables = tomllib.loads((root / "docs" / "coverage.toml").read_text(encoding="utf-8"))
        self.documents = [self._document(cited_as, table) for cited_as, table in tables.items()]
        self.names = re.compile("|".join(f"(?P<d{i}>{d.named})" for i, d in enumerate(self.documents)))
        self.places = {f"d{i}": document for i, document in enumerate(self.documents)}
        self.rows = {}
        for document in self.documents:
            self._index(document)
        for folder in ("rbd_jax", "tests"):
            for path in sorted((root / folder).rglob("*.py")):
                for place, texts in docstrings(root, path):
                    self._read(place, texts, is_test=folder == "tests")
        for row in self.all_rows():
            self._judge(row)

    def all_rows(self):
        return [row for document in self.documents for chapter in document.chapters for row in chapter.rows]

    def _document(self, cited_as, table):
        document = Document(cited_as, table["title"], table["named"])
        for title, chapter in table["chapters"].items():
            numbered = list(items_of(chapter["numbered"]))
            made = Chapter(document, title, chapter["sections"], numbered)
            for row in chapter["rows"]:
                made.rows.append(Row(made, **row, items=list(items_of(row["at"]))))
            document.chapters.append(made)
        return document

    def _index(self, document):
        """Checks that every number of the document is in exactly one row, and that rows contain no other numbers."""
        numbered = {item for chapter in document.chapters for item in chapter.numbered}
        for chapter in document.chapters:
            for row in chapter.rows:
                for item in row.items:
                    key = (document.cited, *item)
                    if key in self.rows:
                        self.faults.append(f"{row}: {' '.join(item)} is in the row '{self.rows[key].at}' too")
                    if item not in numbered and item[0] not in ("§", "app.", "figure"):
                        self.faults.append(f"{row}: {document.cited} has no {' '.join(item)}")
                    self.rows[key] = row
        for kind, number in sorted(numbered):
            if (document.cited, kind, number) not in self.rows:
                self.faults.append(f"{document.cited} {kind} {number} is in no row")

    def _read(self, place, texts, is_test):
        around = next(
            (self.places.get(m.lastgroup or "") for t in texts[1:] if (m := self.names.search(t))), None
        )
        try:
            citations = list(cited(texts[0], self.names))
        except ValueError as error:
            self.faults.append(f"{place}: {error}")
            return
        for name, (kind, number) in citations:
            document = around if name is None else self.places[name]
            if document is None:
                self.faults.append(f"{place}: {kind} {number} of which document?")
                continue
            row = self.rows.get((document.cited, kind, number)) or self.rows.get(
                (document.cited, kind, number.rstrip("abcd"))
            )
            if row is not None:
                places = row.tests if is_test else row.functions
                if place not in places and (not is_test or place.is_test):
                    places.append(place)
            elif not self._exists(document, kind, number):
                self.faults.append(f"{place}: {document.cited} has no {kind} {number} in docs/coverage.toml")

    @staticmethod
    def _exists(document, kind, number):
        """Returns whether a citation exists; sections and chapters may be cited even if no row consists of them."""
        if kind in ("ch.", "app."):
            return any(chapter.number == number for chapter in document.chapters)
        chapter, _, section = number.partition(".")
        if kind != "§" or (section and not section.partition(".")[0].isdecimal()):
            return False
        sections = [c.sections for c in document.chapters if c.number == chapter]
        return bool(sections) and (not section or int(section.partition(".")[0]) <= sections[0])

    def _judge(self, row):
        missing = [what for what, found in (("function", row.functions), ("test", row.tests)) if not found]
        if missing and not row.reason:
            self.faults.append(
                f"{row} ({row.what}): no {' and no '.join(missing)} cites it, and no reason is given"
            )
        if not missing and row.reason:
            self.faults.append(f"{row} ({row.what}): has function and test, and still a reason: {row.reason}")

    def page(self):
        """Returns the text of docs/coverage.md."""
        lines = [HEAD]
        for document in self.documents:
            rows = [row for chapter in document.chapters for row in chapter.rows]
            missing = sum(bool(row.reason) for row in rows)
            lines += [f"## {document.title}", ""]
            lines += [
                f"{len(rows)} rows: {len(rows) - missing} implemented and tested, {missing} with a remark.",
                "",
            ]
            for chapter in document.chapters:
                lines += [
                    f"### {chapter.title}",
                    "",
                    "| item | subject | implementation | tests |",
                    "|---|---|---|---|",
                ]
                for row in chapter.rows:
                    functions = shown(row.functions) + ([f"*{row.reason}*"] if row.reason else [])
                    cells = (row.at, row.what, ", ".join(functions), ", ".join(shown(row.tests)))
                    lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
                lines.append("")
        return "\n".join(lines)


def items_of(text: str) -> list[Item]:
    """Returns the numbers in a field of docs/coverage.toml.

    Raises:
      ValueError: The field has other text.
    """
    nothing = re.compile(r"(?!)")
    rest = re.sub(MARKED, "", text).strip(" ,;")
    if rest:
        raise ValueError(f"docs/coverage.toml: '{rest}' of '{text}' is no number of anything")
    return [item for _, item in cited(text, nothing)]


def shown(places: list[Place]) -> list[str]:
    """Returns links to functions and classes, and to files in which no function or class has a citation."""
    named = {place.path for place in places if place.name}
    return list(dict.fromkeys(place.link for place in places if place.name or place.path not in named))


HEAD = """# Coverage map

This page lists where the library implements the algorithms, tables and equations of the four source documents, and which tests
check them. It names the functions, classes and tests that cite an item, or a file if the complete file cites it.
`scripts/coverage_map.py` generates this page from `docs/coverage.toml` and from the docstrings. `tests/test_coverage.py` fails if
the page is out of date.
"""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description="Lists the implemented and tested parts of the source documents."
    )
    parser.add_argument("--check", action="store_true", help="write nothing, and fail if there are faults")
    check = parser.parse_args(arguments).check
    found = Map(ROOT)
    target = ROOT / "docs" / "coverage.md"
    faults = list(found.faults)
    if check and (not target.exists() or target.read_text(encoding="utf-8") != found.page()):
        faults.append("docs/coverage.md is out of date: run python scripts/coverage_map.py")
    elif not check:
        target.write_text(found.page(), encoding="utf-8")
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
