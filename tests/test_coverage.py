"""The coverage map of the source documents is complete and up to date, and its checks detect faults."""

import importlib.util
import sys
from pathlib import Path

import pytest


SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "coverage_map.py"


@pytest.fixture(scope="module")
def coverage():
    specification = importlib.util.spec_from_file_location("coverage_map", SCRIPT)
    module = importlib.util.module_from_spec(specification)
    sys.modules["coverage_map"] = module  # its dataclasses look up their annotations there
    specification.loader.exec_module(module)
    yield module
    del sys.modules["coverage_map"]


def test_every_row_has_function_and_test_or_a_reason(coverage, capsys):
    """Also, every citation in a docstring leads to a row. `python scripts/coverage_map.py` rewrites the page."""
    assert coverage.main(["--check"]) == 0, capsys.readouterr().err


ROWS = """
[book]
title = "A book"
named = '[Bb]ook'

[book.chapters."7 Seven"]
sections = 2
numbered = "eqs. 7.1 to 7.4, table 7.1"
rows = [
    { at = "eqs. 7.1, 7.2", what = "First" },
    { at = "table 7.1, eqs. 7.3, 7.4", what = "Second", reason = "Not in the library." },
]

["A & B"]
title = "A paper"
named = 'A & B'

["A & B".chapters."1 One"]
sections = 0
numbered = "eqs. 1 to 3"
rows = [{ at = "eqs. 1 to 3", what = "Third" }]
"""
LIBRARY = '''
"""What is cited (A & B 2020)."""

class Thing:
    """By eq. 2."""

    def first(self):
        """As in the book (7.1), here in §7.2.

        >>> first(0)
        (9.9)
        """
'''
TEST = '''
def test_it():
    """Book eqs. 7.1 and 7.2; A & B eqs. (1)-(3)."""
'''


def planted(coverage, folder, rows=ROWS, library=LIBRARY, test=TEST):
    """Returns the map of a small checkout."""
    for name, text in {
        "docs/coverage.toml": rows,
        "rbd_jax/thing.py": library,
        "tests/test_thing.py": test,
    }.items():
        (folder / name).parent.mkdir()
        (folder / name).write_text(text)
    return coverage.Map(folder)


def test_what_is_cited_is_linked(coverage, tmp_path):
    found = planted(coverage, tmp_path)
    assert found.faults == []
    thing, test = "../rbd_jax/thing.py", "[`test_it`](../tests/test_thing.py)"
    for line in (
        f"| eqs. 7.1, 7.2 | First | [`Thing.first`]({thing}) | {test} |",
        "| table 7.1, eqs. 7.3, 7.4 | Second | *Not in the library.* |  |",
        f"| eqs. 1 to 3 | Third | [`Thing`]({thing}) | {test} |",
    ):
        assert line in found.page().splitlines()


FAULTS = {
    "no such number": ("library", "(7.1)", "(7.9)", "thing.py::Thing.first: book has no eq. 7.9"),
    "no such section": ("library", "§7.2", "§7.3", "thing.py::Thing.first: book has no § 7.3"),
    "of nothing": ("library", " (A & B 2020)", "", "thing.py::Thing: eq. 2 of which document?"),
    "no function": ("library", "(7.1)", "7.1", "book eqs. 7.1, 7.2 (First): no function cites it"),
    "no test": ("test", "7.1 and 7.2", "7.3", "book eqs. 7.1, 7.2 (First): no test cites it"),
    "a helper": ("test", "test_it", "it", "book eqs. 7.1, 7.2 (First): no test cites it"),
    "a reason too many": (
        "rows",
        '"First"',
        '"First", reason = "x"',
        "function and test, and still a reason",
    ),
    "in no row": ("rows", "eqs. 7.1 to 7.4", "eqs. 7.1 to 7.5", "book eq. 7.5 is in no row"),
    "in two rows": ("rows", "table 7.1, eqs. 7.3", "table 7.1, eqs. 7.2, 7.3", "eq. 7.2 is in the row"),
    "in a row alone": ("rows", "to 7.4, t", "to 7.3, t", "book has no eq. 7.4"),
    "no range": ("library", "(7.1)", "eqs. 7.1 to 8.2", "'7.1 to 8.2' is no range"),
}


@pytest.mark.parametrize("where, old, new, message", FAULTS.values(), ids=FAULTS)
def test_a_planted_fault_is_found(coverage, tmp_path, where, old, new, message):
    texts = {"rows": ROWS, "library": LIBRARY, "test": TEST}
    assert old in texts[where]
    texts[where] = texts[where].replace(old, new)
    found = planted(coverage, tmp_path, **texts)
    assert any(message in fault for fault in found.faults), found.faults


def test_an_old_page_is_found(coverage, tmp_path, monkeypatch, capsys):
    planted(coverage, tmp_path)
    monkeypatch.setattr(coverage, "ROOT", tmp_path)
    assert coverage.main(["--check"]) == 1 and "out of date" in capsys.readouterr().err
    assert coverage.main([]) == 0 and coverage.main(["--check"]) == 0
