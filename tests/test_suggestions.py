"""Messages about unknown names: text after a suggestion forms a sentence, separated by a single punctuation mark."""

import ast
import itertools
import re
from pathlib import Path

import pytest

import rbd_jax as rbd
from rbd_jax._core.errors import continued, suggest


PACKAGE = Path(rbd.__file__).parent

#: Adjacent punctuation marks.
DOUBLED = re.compile(r"[?!;:,.][?!;:,]|[?!;:,]\.")


def calls(node: ast.AST, names: set[str]) -> bool:
    """Returns whether an expression is a call of one of these functions."""
    return isinstance(node, ast.Call) and getattr(node.func, "id", None) in names and len(node.args) < 3


def followed(tree: ast.AST, names: set[str]) -> list[int]:
    """Returns the lines where an f-string or a sum of strings has text after the result of one of these functions."""
    found = []
    hints = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and calls(node.value, names)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    ends = lambda node: calls(node, names) or (isinstance(node, ast.Name) and node.id in hints)
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.FormattedValue) else part for part in node.values]
            found += [node.lineno for part in parts[:-1] if ends(part)]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            found += [node.lineno] if ends(node.left) else []
    return found


def returning(tree: ast.AST, names: set[str]) -> set[str]:
    """Returns the functions that return the result of one of these functions."""
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    returns = lambda node: (
        isinstance(node, ast.Return) and node.value is not None and calls(node.value, names)
    )
    return {function.name for function in functions if any(map(returns, ast.walk(function)))}


def test_nothing_follows_a_suggestion():
    """Only the arguments of `suggest` may add text, in all files and also in functions that return a suggestion."""
    for file in sorted(PACKAGE.rglob("*.py")):
        source = file.read_text(encoding="utf-8")
        if "suggest(" in source:
            tree = ast.parse(source)
            assert not followed(tree, {"suggest"} | returning(tree, {"suggest"})), file
        # Messages with their own question use the same rule.
        asks = "did you mean" in source and file.name != "errors.py"
        assert not asks or "continued(" in source, file


@pytest.mark.parametrize(
    "source",
    [
        'f"{suggest(name, known)}. More"',
        'suggest(name, known) + " more"',
        'hint = suggest(name, known)\nf"no {name}{hint} (more)"',
        'def hint(name):\n    return suggest(name, known)\nf"no {name}{hint(name)}; more"',
    ],
)
def test_the_scan_finds_what_follows(source):
    tree = ast.parse(source)
    assert followed(tree, {"suggest"} | returning(tree, {"suggest"}))


def test_one_mark_between_sentences():
    """This holds for a close name, a list of names and no names, with and without a following sentence."""
    names = [["elbow"], [f"joint {i}" for i in range(20)], [], ["elbow", "knee?"]]
    for known, name, more, listed in itertools.product(
        names, ("elbwo", "xyz"), ("", "More of it"), (True, False)
    ):
        text = f"there is no {name!r}{suggest(name, known, more, listed=listed)}"
        assert not DOUBLED.search(text.replace("'knee?'", "")), text
        assert text.endswith(more)
    assert continued("It is so", "More") == "It is so. More"
    assert continued("Is it so?", "More") == "Is it so? More"
    assert continued("It is so", "more", ";") == "It is so; more"


def urdf(inside="", **attributes):
    words = "".join(f' {name}="{value}"' for name, value in attributes.items())
    links = '<link name="base"/><link name="tip"/>'
    hinge = (
        f'<joint name="hinge" type="revolute"{words}><parent link="base"/><child link="tip"/>{inside}</joint>'
    )
    return f'<robot name="arm">{links}{hinge}</robot>'


def unknown_parent():
    builder = rbd.ModelBuilder()
    builder.add_body("base")
    builder.add_body("tip", parent="bas")
    return builder.build()


#: Some of the functions that add text to the suggestion.
MESSAGES = {
    "robot": lambda: rbd.load("quadrupd"),
    "file": lambda: rbd.load("robots/quadrupd"),
    "parent": unknown_parent,
    "mimic": lambda: rbd.load_urdf(urdf('<mimic joint="hing"/>')),
    "words": lambda: rbd.load_urdf(urdf('<dynamcs damping="1"/><limits lower="0"/>', nam="x"), strict=True),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages(name):
    with pytest.raises(ValueError) as told:
        MESSAGES[name]()
    message = str(told.value)
    assert "did you mean" in message
    assert not DOUBLED.search(message), message
