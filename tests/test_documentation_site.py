"""Parts of the documentation site: tables of contents of packages, docstrings as Markdown, and the link check."""

import importlib.util
import types
from pathlib import Path

import pytest


SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"


def script(name):
    where = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert where and where.loader
    module = importlib.util.module_from_spec(where)
    where.loader.exec_module(module)
    return module


def test_a_table_of_contents_has_its_headings():
    package = types.ModuleType("package")
    package.__doc__ = "\n\n".join(
        [
            "What it is.",
            "More of it.",
            "Made:",
            "- `one`: the first\n- `two`: the second",
            "Changed:",
            "- `three`: it",
        ]
    )
    names = ["one", "two", "three", "four"]
    vars(package).update(dict.fromkeys(names, print), __all__=names)
    before, groups = script("public_names").contents(package)
    assert before == "What it is.\n\nMore of it."
    told = [(group.title, [name.name for name in group.names]) for group in groups]
    assert told == [("Made", ["one", "two"]), ("Changed", ["three"]), ("", ["four"])]
    assert groups[0].names[1].summary == "the second"


def test_a_thing_is_told_of_once():
    entries = script("public_names").entries()
    assert "rbd_jax.forward_dynamics" in entries and "rbd_jax.dynamics.forward_dynamics" not in entries
    assert "rbd_jax.constraints.Weld" in entries and "rbd_jax.loops.Weld" not in entries
    assert "rbd_jax.lie.quaternion.exp" in entries


def test_docstrings_are_markdown():
    pytest.importorskip("griffe")
    text = "See `rollout`, and `x`.\n\n>>> def f(x):\n...     return x\n>>> f(\"`rollout`\")\n'`rollout`'\n\nMore."
    lines = script("docs_objects").as_markdown(text, own="step").split("\n")
    assert lines[0] == "See [`rollout`][rbd_jax.rollout], and `x`."
    assert lines[2:8] == [
        "```pycon",
        ">>> def f(x):",
        "...     return x",
        '>>> f("`rollout`")',
        "'`rollout`'",
        "```",
    ]


PAGE = '<html><body id="top"><a href="other.html#there">o</a><img src="p.png"><a href="https://x.org">x</a>{}</body></html>'

FAULTS = {
    "a page": ('<a href="nowhere.html">n</a>', "nowhere.html is not there"),
    "a name on a page": ('<a href="other.html#here">n</a>', "nothing on the page"),
    "a name on the page itself": ('<a href="#here">n</a>', "nothing on the page"),
    "a picture": ('<img src="q.png">', "q.png is not there"),
    "a script of others": ('<script src="https://x.org/x.js"></script>', "not of the site"),
    "a font of others": ('<link rel="stylesheet" href="//fonts.x.org/f.css">', "not of the site"),
}


def site(folder, more=""):
    (folder / "index.html").write_text(PAGE.format(more))
    (folder / "other.html").write_text(
        '<html><body><h1 id="there">Other</h1><a href="index.html#top">t</a></body></html>'
    )
    (folder / "p.png").touch()
    return folder


def test_links_that_lead_somewhere_pass(tmp_path, capsys):
    check = script("check_links")
    assert check.faults(site(tmp_path)) == []
    assert check.main(tmp_path) == 0 and "2 pages, 0 faults" in capsys.readouterr().out


@pytest.mark.parametrize("more, said", FAULTS.values(), ids=FAULTS)
def test_a_planted_fault_is_found(tmp_path, more, said):
    found = script("check_links").faults(site(tmp_path, more))
    assert len(found) == 1 and found[0].startswith("index.html: ") and said in found[0]


def test_no_pages_are_no_site(tmp_path):
    assert script("check_links").main(tmp_path) == 1


def test_sections_of_docstrings_are_lists():
    pytest.importorskip("griffe")
    text = "Returns a sum.\n\nArgs:\n  a, b: Numbers,\n    of any size.\n  *more: Others.\n\n"
    text += "Returns:\n  The sum: exact.\nNot inside."
    assert script("docs_objects").with_lists(text).split("\n") == [
        "Returns a sum.",
        "",
        "**Arguments**",
        "",
        "- `a`, `b`: Numbers,",
        "  of any size.",
        "- `*more`: Others.",
        "",
        "**Returns**",
        "",
        "The sum: exact.",
        "",
        "Not inside.",
    ]
