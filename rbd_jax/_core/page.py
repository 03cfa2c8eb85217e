"""A page of headings, sentences, tables and figures, as HTML in one file and as Markdown.

All text is data: its content, including names of joints, is shown literally and never becomes a tag. The HTML has no scripts
and makes no network requests, which its content security policy enforces.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple


class Heading(NamedTuple):
    text: str
    level: int = 2


class Text(NamedTuple):
    """A paragraph; `tone` selects plain text, the first sentence of the page, small print, or good or bad news."""

    text: str
    tone: Literal["plain", "lead", "small", "good", "bad"] = "plain"


class Items(NamedTuple):
    """A list of sentences."""

    items: Sequence[str]


class Table(NamedTuple):
    """Columns with their names; those in `numbers` are right-aligned. A table with `long` is collapsed in HTML."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Sequence[int] = ()
    long: str = ""


class Picture(NamedTuple):
    """An SVG image, drawn on demand, and its caption."""

    draw: Callable[[], bytes]
    caption: str


Block = Heading | Text | Items | Table | Picture

STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; color: #22262b;
  background: #fff; max-width: 64rem; margin: 2rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .8rem; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 2.4rem 0 .6rem; padding-top: .9rem; border-top: 1px solid #d9dde2; }
h3 { font-size: 1.05rem; margin: 1.4rem 0 .4rem; }
p { margin: .5rem 0; overflow-wrap: anywhere; }
.lead { font-size: 1.15rem; }
.small { font-size: .875rem; color: #5a5f66; }
.good, .bad { padding: .6rem .9rem; border-left: .3rem solid; border-radius: .2rem; font-weight: 600; }
.good { background: #eef6f0; border-color: #4a9a6a; }
.bad { background: #fbeeea; border-color: #c8553d; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; margin: .6rem 0; }
th { text-align: left; vertical-align: bottom; border-bottom: 2px solid #b7bdc5; }
th, td { padding: .25rem .8rem .25rem 0; }
td { border-bottom: 1px solid #eceef1; vertical-align: top; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
figure { margin: 1rem 0; }
figure img { max-width: 100%; height: auto; }
figcaption { font-size: .875rem; color: #5a5f66; }
summary { cursor: pointer; color: #3b6fb6; margin: .5rem 0; }
li { overflow-wrap: anywhere; }
@media print { h2 { break-after: avoid; } figure, tr { break-inside: avoid; } }
"""

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


class Page(NamedTuple):
    """The report of a command.

    - `summary`: The result, in one sentence.
    - `doubts`: The reasons not to rely on the result, one sentence each; empty for a good result.
    """

    title: str
    summary: str
    doubts: tuple[str, ...]
    blocks: tuple[Block, ...]

    @property
    def html(self) -> str:
        return as_html(self.title, self.blocks)

    @property
    def markdown(self) -> str:
        return as_markdown(self.title, self.blocks)


def as_html(title: str, blocks: Sequence[Block]) -> str:
    """Returns the page as one HTML file."""
    body = "\n".join(map(_html, blocks))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{html.escape(title)}</h1>\n{body}\n</body>\n</html>\n"
    )


def _html(block: Block) -> str:
    escape = html.escape
    if isinstance(block, Heading):
        return f"<h{block.level}>{escape(block.text)}</h{block.level}>"
    if isinstance(block, Text):
        kind = "" if block.tone == "plain" else f' class="{block.tone}"'
        return f"<p{kind}>{escape(block.text)}</p>"
    if isinstance(block, Items):
        return "<ul>\n" + "\n".join(f"<li>{escape(item)}</li>" for item in block.items) + "\n</ul>"
    if isinstance(block, Picture):
        image = base64.b64encode(block.draw()).decode("ascii")
        caption = escape(block.caption)
        return (
            f'<figure><img src="data:image/svg+xml;base64,{image}" alt="{caption}">'
            f"<figcaption>{caption}</figcaption></figure>"
        )
    kind = lambda i: ' class="number"' if i in block.numbers else ""
    cell = lambda tag, i, text: f"<{tag}{kind(i)}>{escape(text)}</{tag}>"
    row = lambda tag, texts: "<tr>" + "".join(cell(tag, i, text) for i, text in enumerate(texts)) + "</tr>"
    rows = "\n".join(row("td", texts) for texts in block.rows)
    table = (
        f'<div class="wide"><table>\n<thead>{row("th", block.header)}</thead>\n<tbody>\n{rows}\n</tbody>\n'
        "</table></div>"
    )
    return f"<details><summary>{escape(block.long)}</summary>\n{table}\n</details>" if block.long else table


def as_markdown(title: str, blocks: Sequence[Block]) -> str:
    """Returns the page as Markdown; the figures are only in the HTML."""
    parts = [f"# {_plain(title)}", *(text for text in map(_markdown, blocks) if text)]
    return "\n\n".join(parts) + "\n"


def _markdown(block: Block) -> str:
    if isinstance(block, Heading):
        return f"{'#' * block.level} {_plain(block.text)}"
    if isinstance(block, Text):
        strong = "**" if block.tone in ("good", "bad") else ""
        return f"{strong}{_beginning(_plain(block.text))}{strong}"
    if isinstance(block, Items):
        return "\n".join(f"- {_beginning(_plain(item))}" for item in block.items)
    if isinstance(block, Picture):
        return ""
    line = lambda texts: "| " + " | ".join(map(_plain, texts)) + " |"
    ruler = "|" + "|".join("---:" if i in block.numbers else "---" for i in range(len(block.header))) + "|"
    return "\n".join([line(block.header), ruler, *map(line, block.rows)])


def _plain(text: str) -> str:
    """Escapes text for Markdown. Underscores within words have no meaning there and are not escaped."""
    text = " ".join(text.split()).replace("\\", "\\\\")
    text = html.escape(text, quote=False)
    text = re.sub(r"([*`|~])", r"\\\1", text)
    text = re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", text)
    return text.replace("](", "]\\(").replace("![", "\\![")


def _beginning(text: str) -> str:
    """Escapes text at the start of a line, where some marks create headings and lists."""
    return re.sub(r"^(\d+(?=[.)]\s)|(?=[#+-]))", r"\1\\", text)
