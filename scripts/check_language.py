"""Checks the words of docstrings, comments, messages and Markdown pages.

    python scripts/check_language.py [PATH ...]          # default: the whole project

Prints file, line and the rule of each finding, and exits with 1 if there is one. `CONTRIBUTING.md` has the rules.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


ROOT = Path(__file__).resolve().parents[1]
SUFFIXES = {".py", ".md"}
SKIPPED = {".git", ".venv", "build", "dist", "node_modules", "__pycache__", ".ci", "shared"}

#: Sentence openings that hide the subject.
OPENINGS = {
    r"What (?!is\b[^.]*\?|does\b[^.]*\?|to\b)": "start with the subject, not with a relative clause",
    r"Whether (?!to\b)": "write 'Returns whether …', 'Checks whether …' or 'If True, …'",
    r"Of (?!course\b)": "start with the subject, not with a genitive",
    r"So many\b": "name the number",
    r"Where (?!applicable)[a-z]+ (?:is|are|it)\b": "start with the main clause",
    r"That (?:is|was|it|of|which)\b": "name the noun",
    r"Those (?:of|that|which)\b": "name the noun",
    r"The one\b": "name the noun",
    r"It is one\b": "name the noun",
}

#: Words and phrases, and what to write instead.
WORDS = {
    r"so (?:many|much|manieth)\b(?! (?:faster|slower|that))": "name the number",
    r"rubs|rubbing|rubbed": "dry friction",
    r"is told|are told|was told|been told|tells? (?:of|how|what|which|where|whether)": "reports, documents",
    r"\bsays? (?:how|what|which|where|whether|why|so|of)\b": "reports, returns",
    r"\bsaid\b": "reported, documented, required",
    r"looked at|looks at|look at": "inspects, checks, reads",
    r"asked for|asks for|is asked|are asked|was asked|nobody asked": "requested, requires",
    r"goes on|go on|went on|gone on|going on": "continues",
    r"remembers?|remembered": "caches, stores",
    r"gives? way|giving way|gave way": "is compliant, compliance",
    r"those of the others?": "name the noun",
    r"the one that|the ones that": "name the noun",
    r"it is one\b|they are ones?\b": "name the noun",
    r"what it is like|what they are like": "name the property",
    r"fly off|flies off|flew off": "diverge",
    r"whole or absent": "written atomically",
    r"nobody|somebody|anybody|everybody": "name who acts",
    r"worked out|works? out|working out": "compute",
    r"taken apart|takes? apart|taking apart": "flatten, split, decompose",
    r"put together|puts together": "assemble",
    r"there is none|there are none|there are no others|is none\b|are none\b": "say what is absent",
    r"comes? after another|one after the other": "sequentially, in order",
    r"let go(?: of)?|lets go": "release",
    r"at its word": "trust",
    r"in their turn|in turns?\b(?! by)": "sequentially, alternately",
    r"may be had|can be had|to be had": "is available",
    r"by itself|by themselves|of themselves|of itself": "alone, separately, independently",
    r"as it (?:is|was|stands)|as they (?:are|were|stand)\b": "unchanged",
    r"led\b(?! to)": "prescribed, kinematically driven",
    r"doubts?\b": "warning",
    r"stretches\b": "segments",
    r"belongs? into": "must be passed as",
    r"a shot\b|the shot\b|shots\b": "framing, view",
    r"rounds? of (?:a|the|loops?)": "iteration",
    r"is seen|are seen|be seen|can be seen": "observable, visible",
    r"is kept|are kept|was kept|be kept|been kept": "cached, stored, preserved",
    r"is lost|are lost|gets? lost": "discarded, diverged",
    r"makes? nothing": "name the effect",
    r"sample by sample": "per sample",
    r"own state|states? of (?:its|their) own|states? (?:that .{0,20})?themselves": "internal state",
}

#: Files that quote the words above, and lines that use them as terms: (path, text of the line, reason).
ALLOWED_FILES = {"scripts/check_language.py"}
ALLOWED: list[tuple[str, str, str]] = [
    ("CHANGELOG.md", "a code that says which step", "the text of a released version"),
]

_OPENING = {
    re.compile(rf"(?:^|(?<=[.!?:] )|(?<=^- )|(?<=^\* )){pattern}"): advice
    for pattern, advice in OPENINGS.items()
}
_WORD = {re.compile(rf"\b(?:{pattern})", re.IGNORECASE): advice for pattern, advice in WORDS.items()}
_LONGEST = 40


class Finding(NamedTuple):
    path: Path
    line: int
    text: str
    advice: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: '{self.text}': {self.advice}"


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yields line numbers and the prose of each line."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        yield from _of_python(text, strings="tests" not in path.parts)
    else:
        yield from _of_markdown(text)


def _of_python(text: str, strings: bool) -> Iterator[tuple[int, str]]:
    """Yields comments, docstrings and other strings. The strings of tests are data."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith(
            ("#!", "# noqa", "# pyright", "# fmt")
        ):
            yield token.start[0], token.string.lstrip("#: ")
    documented = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            documented.add(id(node.value))
            if isinstance(node.value.value, str):  # a docstring, or the documentation of an attribute
                yield from _without_examples(node.lineno, node.value.value)
        elif not strings or id(node) in documented:
            continue
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if " " in node.value.strip():
                yield node.lineno, node.value


def _without_examples(first: int, text: str) -> Iterator[tuple[int, str]]:
    in_example = False
    for number, line in enumerate(text.split("\n"), first):
        stripped = line.strip()
        in_example = stripped.startswith(">>>") or (in_example and bool(stripped))
        if not in_example:
            yield number, stripped


def _of_markdown(text: str) -> Iterator[tuple[int, str]]:
    in_code = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code and not line.startswith("    "):
            yield number, line.strip()


def check(path: Path) -> Iterator[Finding]:
    """Yields the findings in a file."""
    name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)
    if name in ALLOWED_FILES:
        return
    seen = set()
    for number, line in lines_of(path):
        prose = re.sub(r"``[^`]*``|`[^`]*`|\]\([^)]*\)|https?://\S+", "`x`", line)
        if any(name == where and text in line for where, text, _ in ALLOWED):
            continue
        for pattern, advice in (*_OPENING.items(), *_WORD.items()):
            for match in pattern.finditer(prose):
                key = number, match.group(), advice
                if key not in seen:
                    seen.add(key)
                    yield Finding(Path(name), number, match.group(), advice)


def files(paths: list[str]) -> list[Path]:
    found = []
    for path in [Path(x).resolve() for x in paths] or [ROOT]:
        inside = path.rglob("*") if path.is_dir() else [path]
        found += [x for x in inside if x.suffix in SUFFIXES and not SKIPPED & set(x.relative_to(path).parts)]
    return sorted(found)


def main() -> int:
    count = 0
    for path in files(sys.argv[1:]):
        for finding in check(path):
            print(finding)
            count += 1
    print(f"{count} findings", file=sys.stderr)
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())
