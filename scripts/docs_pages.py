"""A hook of MkDocs: generates the pages of the documentation site that are not files in docs/.

- the reference: a page for each public package (for `rbd_jax` a page for each heading of its table of
  contents), with an entry for each public name;
- the notebooks, with their stored outputs;
- `benchmarks/README.md`, `CHANGELOG.md`, `CONTRIBUTING.md`;
- the sources that pages cite.

Links in all of them are written for readers of the checkout, from file to file. This hook turns them into links
from page to page, and names like `rbd.rollout` into links to the entries.
"""

import base64
import html
import inspect
import json
import logging
import posixpath
import re
import sys
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.structure.files import File


ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

import public_names
from docs_objects import as_markdown, called, entries, linked


#: Files of the checkout outside docs/ that are pages.
PAGES = {
    "benchmarks/README.md": "benchmarks.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "examples/README.md": "gallery.md",
    "README.md": "index.md",
    "SECURITY.md": "security.md",
}

#: Languages of the sources that pages cite, by file extension.
LANGUAGES = {".py": "python", ".sh": "bash", ".toml": "toml", ".xml": "xml", ".urdf": "xml", ".yml": "yaml"}

FENCE = re.compile(r"^ *(`{3,}|~{3,})")
LINK = re.compile(r"(!?\[[^\]]*\]\()([^)\s]+)(\))")
NAME = re.compile(r"(?<!\[)`rbd\.([\w.]*\w)(\([^`]*\))?`(?!\])")

log = logging.getLogger("mkdocs.plugins.docs_pages")

#: Source of each page, as a path in the checkout.
origins: dict[str, str] = {}


def on_config(config):
    """Adds the generated pages to the navigation under separate headings."""
    notebooks = [{title_of(path): page_of(path)} for path in notebook_files()]
    decisions = [f"decisions/{path.name}" for path in sorted((ROOT / "docs/decisions").glob("0*.md"))]
    made = {"reference": reference_navigation(), "notebooks": notebooks, "decisions": decisions}

    def filled(item):
        if isinstance(item, dict):
            return {title: filled(value) for title, value in item.items()}
        if isinstance(item, list):
            return [
                part for value in item for part in (made[value[1:-1]] if is_made(value) else [filled(value)])
            ]
        return item

    config.nav = filled(config.nav)
    return config


def is_made(item) -> bool:
    """Returns whether an entry of the navigation, such as `<reference>`, stands for generated pages."""
    return isinstance(item, str) and item.startswith("<")


def on_files(files, config):
    origins.clear()
    for file in files:
        origins[file.src_uri] = f"docs/{file.src_uri}"

    def add(page, origin, content):
        origins[page] = origin
        files.append(File.generated(config, page, content=content))

    for page, content in reference_pages().items():
        add(page, f"docs/{page}", content)
    for path in notebook_files():
        content, pictures = notebook_page(ROOT / path)
        add(page_of(path), path, content)
        for name, picture in pictures.items():
            add(f"notebooks/{name}", f"notebooks/{name}", picture)
    for path, page in PAGES.items():
        if page not in origins:
            add(page, path, (ROOT / path).read_text(encoding="utf-8"))
    for picture in sorted((ROOT / "benchmarks").glob("*.png")):
        add(picture.name, f"benchmarks/{picture.name}", picture.read_bytes())

    cited = set()
    for file in files.documentation_pages():
        for _, target, _ in links_of(file.content_string):
            path = in_checkout(origins[file.src_uri], target)
            if path and path not in places() and Path(path).suffix in LANGUAGES and (ROOT / path).is_file():
                cited.add(path)
    for path in sorted(cited):
        add(f"source/{path}.md", path, source_page(path))
    return files


def on_page_markdown(markdown, page, config, files):
    uri = page.file.src_uri
    if uri.startswith(
        ("source/", "decisions/", "changelog", "notebooks/")
    ):  # leave these pages unchanged: names may have changed since they were written
        return outside_code(markdown, lambda text: with_links(text, uri))
    return outside_code(markdown, lambda text: with_names(with_links(text, uri), uri))


# Links


def places() -> dict[str, str]:
    """Returns the page of each file of the checkout that has one."""
    return {origin: page for page, origin in origins.items()} | PAGES


def in_checkout(origin: str, target: str) -> str | None:
    """Returns the target of a link in the file `origin`, relative to the root of the checkout; None for external links."""
    target = target.partition("#")[0]
    if not target or re.match(r"[a-z]+:|/", target):
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))


def with_links(text: str, page: str) -> str:
    """Replaces links between files of the checkout by links between pages."""
    there = places()

    def link(match):
        path = in_checkout(origins[page], match[2])
        if path is None:
            return match[0]
        to = there.get(path) or there.get(f"{path}/index.md")
        if to is None:
            return match[0]
        anchor = "".join(match[2].partition("#")[1:])
        return match[1] + posixpath.relpath(to, posixpath.dirname(page) or ".") + anchor + match[3]

    return LINK.sub(link, text)


def links_of(text: str) -> list[tuple[str, str, str]]:
    found = []
    outside_code(text, lambda part: found.extend(LINK.findall(part)) or part)
    return found


def outside_code(text: str, change) -> str:
    """Applies `change` to each line outside code fences."""
    lines, fence = [], None
    for line in text.split("\n"):
        opening = FENCE.match(line)
        if fence is None and opening:
            fence = opening[1]
        elif fence is None:
            line = (
                line
                if line.startswith("    ") and not line.lstrip().startswith(("-", "*", "1"))
                else change(line)
            )
        elif opening and line.strip() == fence:
            fence = None
        lines.append(line)
    return "\n".join(lines)


def with_names(text: str, page: str) -> str:
    """Turns names such as `rbd.rollout` into links to their entries. Logs a warning for unknown names."""

    def link(match):
        thing = public_names.rbd_jax
        for part in match[1].split("."):
            thing = getattr(thing, part, None)
            if thing is None:
                log.warning(f"{page}: {match[0]} does not exist")
                return match[0]
        return linked(f"rbd_jax.{match[1]}", match[0])

    return text if text.startswith("#") else NAME.sub(link, text)


# The reference


def slug(title: str) -> str:
    return re.sub(r"\W+", "_", title.lower()).strip("_")


def short(package: str) -> str:
    return package.removeprefix("rbd_jax.")


def package_page(package: str) -> str:
    return "reference/index.md" if package == "rbd_jax" else f"reference/{short(package)}.md"


def reference_navigation() -> list:
    _, groups = public_names.contents(public_names.packages()["rbd_jax"])
    own = [
        {group.title: f"reference/rbd/{slug(group.title)}.md"}
        for group in groups
        if not is_of_packages(group)
    ]
    rest = [
        {f"rbd.{short(package)}": package_page(package)}
        for package in public_names.packages()
        if package != "rbd_jax"
    ]
    return ["reference/index.md", {"Names by subject": "reference/names.md"}, {"rbd": own}, *rest]


def is_of_packages(group) -> bool:
    return all(inspect.ismodule(name.thing) for name in group.names)


def reference_pages() -> dict[str, str]:
    """Returns the pages of the reference."""
    pages = {}
    for package, module in public_names.packages().items():
        before, groups = public_names.contents(module)
        if package == "rbd_jax":
            pages[package_page(package)] = index_page(before, groups)
            for group in groups:
                if not is_of_packages(group):
                    text = [f"# {group.title}", "", *table(group), ""]
                    pages[f"reference/rbd/{slug(group.title)}.md"] = "\n".join(text + entries_of(group, 2))
            continue
        text = [f"# rbd.{short(package)}", "", as_markdown(before), ""]
        for group in groups:
            level = 3 if group.title else 2
            text += [f"## {as_markdown(group.title)}", ""] if group.title else []
            text += [*table(group), "", *entries_of(group, level)]
        pages[package_page(package)] = "\n".join(text)
    return pages


def index_page(before: str, groups) -> str:
    text = ["# Reference", "", as_markdown(before), ""]
    for group in groups:
        text += [f"## {group.title}", "", *table(group), ""]
    listed = {name.name for group in groups for name in group.names if inspect.ismodule(name.thing)}
    others = [
        package
        for package in public_names.packages()
        if package != "rbd_jax" and short(package) not in listed
    ]
    text += ["## Further packages", "", "| | |", "|---|---|"]
    for package in others:
        summary = public_names.summary_of(public_names.packages()[package])
        text.append(
            f"| [`rbd_jax.{short(package)}`]({posixpath.basename(package_page(package))}) | {cell(summary)} |"
        )
    return "\n".join(text) + "\n"


def table(group) -> list[str]:
    rows = ["| | |", "|---|---|"]
    for name in group.names:
        if inspect.ismodule(name.thing):
            # A link from one page of the reference to another page in the same folder.
            first = f"[`{name.name}`]({posixpath.basename(package_page(name.thing.__name__))})"
        else:
            first = linked(name.path, f"`{name.name}`")
        rows.append(f"| {first} | {cell(name.summary)} |")
    return rows


def cell(text: str) -> str:
    return as_markdown(text).replace("|", "\\|")


def entries_of(group, level: int) -> list[str]:
    """Returns the entries for those names of a group that are documented on this page."""
    lines = []
    for name in group.names:
        if name.path in entries():
            lines += [f"::: {called(name)}", "    options:", f"      heading_level: {level}", ""]
    return lines


# Notebooks


def notebook_files() -> list[str]:
    """Returns the notebooks in the order of docs/notebooks/index.md, then the others."""
    page = (ROOT / "docs" / "notebooks" / "index.md").read_text(encoding="utf-8")
    found = sorted(f"notebooks/{path.name}" for path in (ROOT / "notebooks").glob("*.ipynb"))
    return sorted(found, key=lambda path: (page.find(path) % (1 << 62), path))


def page_of(notebook: str) -> str:
    return notebook.replace(".ipynb", ".md")


def title_of(notebook: str) -> str:
    cells = json.loads((ROOT / notebook).read_text(encoding="utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return re.search(r"^# (.*)$", text, re.MULTILINE)[1]


def notebook_page(path: Path) -> tuple[str, dict[str, bytes]]:
    """Returns a notebook as Markdown, and its pictures by name."""
    lines, pictures = [], {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            lines += [with_formulas(source), ""]
            continue
        if cell["cell_type"] == "code" and source.strip():
            lines += ["```python", source, "```", ""]
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if "image/png" in data:
                name = f"{path.stem}_{len(pictures)}.png"
                pictures[name] = base64.b64decode("".join(data["image/png"]))
                lines += [f"![A figure of this notebook]({name})", ""]
            elif "text/html" in data:
                moving = re.fullmatch(
                    r'\s*<img src="data:image/gif;base64,([^"]+)"[^>]*>\s*', "".join(data["text/html"])
                )
                if moving:
                    name = f"{path.stem}_{len(pictures)}.gif"
                    pictures[name] = base64.b64decode(moving[1])
                    lines += [f"![A film of this notebook]({name})", ""]
                else:
                    lines += ['<div class="output">', "".join(data["text/html"]), "</div>", ""]
            else:
                text = "".join(output.get("text") or data.get("text/plain") or output.get("traceback") or ())
                if output.get("name") != "stderr" and text.strip():
                    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
                    lines += [
                        '<pre class="output">' + html.escape(text.rstrip()).replace("\n", "&#10;") + "</pre>",
                        "",
                    ]
    return "\n".join(lines), pictures


def with_formulas(text: str) -> str:
    """Converts formulas between dollar signs to MathML."""
    text = re.sub(r"\$\$(.+?)\$\$", lambda found: convert(found[1], display="block"), text, flags=re.DOTALL)
    return re.sub(r"(?<![\\`$])\$([^$\n]+)\$", lambda found: convert(found[1]), text)


# Sources


def source_page(path: str) -> str:
    text = (ROOT / path).read_text(encoding="utf-8")
    longest = max([3, *(len(run) + 1 for run in re.findall(r"`{3,}", text))])
    fence = "`" * longest
    head = [
        "---",
        f"title: {path}",
        "search: {exclude: true}",
        "hide: [navigation, toc]",
        "---",
        "",
        f"# `{path}`",
        "",
    ]
    return "\n".join([*head, f"{fence}{LANGUAGES[Path(path).suffix]}", text.rstrip(), fence, ""])
