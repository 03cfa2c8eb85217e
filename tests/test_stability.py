"""The tiers of public names: docs/stability.md lists all of them, and texts for newcomers use stable ones."""

import re
from pathlib import Path

import pytest

import rbd_jax as rbd


ROOT = Path(__file__).resolve().parent.parent
TIERS = ("Stable", "Provisional", "Experimental")


def names_of(tier):
    """Returns the names in backquotes of a section: of `rbd_jax`, and of its packages as `package.name`."""
    page = (ROOT / "docs" / "stability.md").read_text(encoding="utf-8")
    section = page.partition(f"## {tier}\n")[2].partition("\n## ")[0]
    lists = re.findall(r"^- (?!Options|Names)(.*(?:\n  .*)*)", section, re.MULTILINE)
    own = {name for text in lists for name in re.findall(r"`(\w+)`", text)}
    return own, set(re.findall(r"`([a-z_]+\.\w+)`", section))


OWN = {tier: names_of(tier)[0] for tier in TIERS}


def test_each_exported_name_has_one_tier():
    listed = [name for names in OWN.values() for name in names]
    assert sorted(listed) == sorted(rbd.__all__)
    assert len(OWN["Stable"]) < 120  # an upper bound that can be maintained


def test_nothing_else_is_exported():
    """All other attributes of the package are its private modules and packages."""
    others = {name for name in vars(rbd) if not name.startswith("_")} - set(rbd.__all__)
    assert {type(vars(rbd)[name]).__name__ for name in others} <= {"module", "CallablePackage"}


@pytest.mark.parametrize("tier", TIERS)
def test_names_of_packages_exist(tier):
    for name in names_of(tier)[1]:
        package, _, own = name.partition(".")
        assert hasattr(getattr(rbd, package, None), own) or hasattr(
            __import__(f"rbd_jax.{package}", fromlist=[own]), own
        ), name


@pytest.mark.parametrize("where", ["README.md", "examples", "docs/tutorials"])
def test_newcomers_read_stable_names(where):
    """Tutorials may introduce provisional names."""
    path = ROOT / where
    files = [path] if path.is_file() else sorted(p for p in path.iterdir() if p.suffix in (".md", ".py"))
    used = {}
    for file in files:
        text = file.read_text(encoding="utf-8")
        code = (
            text
            if file.suffix == ".py"
            else "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
        )
        for name in re.findall(r"\brbd\.([A-Za-z_]\w*)", code):
            used.setdefault(name, file.name)
    assert used
    allowed = OWN["Stable"] if where != "docs/tutorials" else OWN["Stable"] | OWN["Provisional"]
    assert {name: file for name, file in used.items() if name not in allowed} == {}
