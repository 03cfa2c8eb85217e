"""Checks the links of a built site: `python scripts/check_links.py SITE`.

Links, pictures and frames must point to a file of the site, and fragments to an element of that name on the
page. Resources that a page loads (scripts, styles, pictures, frames) must be part of the site, so that it can
be read without a network.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


#: Attributes that load a resource, for these elements; in other elements they are links that users follow.
LOADED = {
    ("link", "href"),
    ("script", "src"),
    ("img", "src"),
    ("iframe", "src"),
    ("source", "src"),
    ("video", "src"),
}

#: Relations of <link> that load nothing.
NOT_LOADED = {"canonical", "next", "prev", "edit", "alternate"}


class Page(HTMLParser):
    """The links of a page, each with whether it is loaded, and the names on it."""

    def __init__(self, text: str):
        super().__init__()
        self.links: list[tuple[str, bool]] = []
        self.names: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.names |= {given[key] for key in ("id", "name") if given.get(key)}
        for key in ("href", "src"):
            if given.get(key) is not None:
                loaded = (tag, key) in LOADED and given.get("rel") not in NOT_LOADED
                self.links.append((given[key], loaded))


def faults(site: Path) -> list[str]:
    """Returns one line for each broken link, and for each resource loaded from elsewhere."""
    pages = {file.resolve(): Page(file.read_text(encoding="utf-8")) for file in sorted(site.rglob("*.html"))}
    found = []
    for file, page in pages.items():
        if file.name == "404.html":  # its links are relative to the root of a server
            continue
        where = file.relative_to(site.resolve())
        for link, loaded in page.links:
            parts = urlsplit(link)
            if parts.scheme == "data" or parts.scheme in ("http", "https", "mailto") and not loaded:
                continue
            if parts.scheme or parts.netloc:
                found.append(f"{where}: loads {link}, which is not of the site")
                continue
            to = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            to = to / "index.html" if to.is_dir() else to
            if not to.is_file():
                found.append(f"{where}: {link} is not there")
            elif parts.fragment and to in pages and unquote(parts.fragment) not in pages[to].names:
                found.append(f"{where}: nothing on the page has the name of {link}")
    return found


def main(site: Path) -> int:
    count = len(list(site.rglob("*.html")))
    if not count:
        print(f"{site} has no pages", file=sys.stderr)
        return 1
    found = faults(site)
    for line in found:
        print(line, file=sys.stderr)
    print(f"{count} pages, {len(found)} faults")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
