"""The Python code in the README and in docs/ runs unchanged, in a process with JAX in single precision.

The blocks of a document share their names, in order. Blocks below a comment `<!-- not run: reason -->` are
skipped. Shell blocks of tutorials run as well, in order among the Python blocks, in a separate folder.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest


ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
DOCUMENTS = [
    ROOT / "README.md",
    *sorted(path for path in DOCS.rglob("*.md") if path.parent.name != "decisions"),
]

#: Documents that compile too much for the everyday tests.
TAKE_LONG = {"README.md"} | {
    f"docs/{name}.md"
    for name in (
        "accuracy",
        "conventions",
        "index",
        "how_to/contact",
        "how_to/control",
        "how_to/first_hour",
        "how_to/identify",
        "how_to/inertia",
        "how_to/inverse_kinematics",
        "how_to/learning",
        "how_to/long_runs",
        "how_to/planar",
        "how_to/scaling",
        "how_to/tasks",
        "how_to/view",
        "coming_from/brax",
        "coming_from/diffrax",
        "coming_from/mujoco",
        "coming_from/pinocchio",
        "tutorials/batches",
        "tutorials/closed_loops",
        "tutorials/contact",
        "tutorials/extending",
        "tutorials/first_steps",
        "tutorials/identify",
        "tutorials/integrators",
        "tutorials/models_from_files",
        "tutorials/optimize",
    )
}

FENCE = re.compile(r"^(?P<indent> *)```(?P<language>python|bash) *$")
NOT_RUN = re.compile(r"^<!-- *not run: *\S.*-->$")

#: Runs `(line, language, code)` from its input; errors report the line of the document.
RUNNER = """
import json, subprocess, sys
path, blocks = json.load(sys.stdin)
names = {"__name__": "__main__"}
for line, language, code in blocks:
    try:
        if language == "bash":
            subprocess.run(["bash", "-euo", "pipefail", "-c", code], check=True, stdin=subprocess.DEVNULL)
        else:
            exec(compile("\\n" * line + code, path, "exec"), names)
    except BaseException as error:
        print(f"{path}:{line}: the block that starts here fails", file=sys.stderr)
        raise
"""


def blocks_of(text, languages=("python",)):
    """Returns `(line, language, code)` of each block to run; `line` is the line of its fence, counted from one."""
    blocks, lines, last = [], text.splitlines(), ""
    number = 0
    while number < len(lines):
        start, fence = number, FENCE.match(lines[number])
        number += 1
        if fence is None:
            last = lines[start].strip() or last
            continue
        end = f"{fence['indent']}```"
        while number < len(lines) and lines[number].rstrip() != end:
            number += 1
        assert number < len(lines), f"the code block at line {start + 1} has no end"
        if fence["language"] in languages and not NOT_RUN.match(last):
            code = [line.removeprefix(fence["indent"]) for line in lines[start + 1 : number]]
            blocks.append((start + 1, fence["language"], "\n".join(code)))
        number, last = number + 1, ""
    return blocks


def run(path, blocks, folder=ROOT):
    """Runs the blocks in a fresh process with only the compiler settings and the compilation cache of these tests.

    In a folder other than the checkout, the commands of an environment with the library installed are
    available.
    """
    settings = ("JAX_ENABLE_X64", "JAX_NUMPY_DTYPE_PROMOTION", "JAX_NUMPY_RANK_PROMOTION")
    environment = {name: value for name, value in os.environ.items() if name not in settings}
    environment |= {"PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg"}
    if folder != ROOT:
        commands = folder / ".commands"
        commands.mkdir()
        for name, call in (("rbd-jax", "-m rbd_jax"), ("python", "")):
            command = commands / name
            command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {call} "$@"\n')
            command.chmod(0o755)
        environment["PATH"] = f"{commands}{os.pathsep}{environment['PATH']}"
    given = json.dumps((str(path), blocks))
    command = [sys.executable, "-c", RUNNER]
    return subprocess.run(command, input=given, env=environment, cwd=folder, capture_output=True, text=True)


def _case(path):
    name = str(path.relative_to(ROOT))
    return pytest.param(path, id=name, marks=[pytest.mark.slow] if name in TAKE_LONG else [])


@pytest.mark.parametrize("path", map(_case, DOCUMENTS))
def test_document(path, tmp_path):
    tutorial = path.parent.name == "tutorials"
    blocks = blocks_of(path.read_text(), ("python", "bash") if tutorial else ("python",))
    if blocks:
        done = run(path.relative_to(ROOT), blocks, tmp_path if tutorial else ROOT)
        assert done.returncode == 0, done.stderr


EXAMPLE = """
Text.

```python
x = 1
```

<!-- not run: needs a robot -->

```python
import no_such_package
```

```bash
exit 1
```

1. In a list:

   ```python
   assert x == 1
   x / 0
   ```
"""


def test_blocks_are_found():
    assert blocks_of(EXAMPLE) == [(4, "python", "x = 1"), (20, "python", "assert x == 1\nx / 0")]
    assert blocks_of(EXAMPLE, ("bash",)) == [(14, "bash", "exit 1")]


def test_the_line_of_what_fails_is_said():
    done = run(Path("example.md"), blocks_of(EXAMPLE))
    assert done.returncode != 0
    assert "example.md:20: the block" in done.stderr and 'example.md", line 22' in done.stderr
    assert "ZeroDivisionError" in done.stderr


def test_commands_run_where_the_page_is_tried(tmp_path):
    text = "```bash\necho 3 > number\n```\n\n```python\nassert int(open('number').read()) == 3\n```\n\n```bash\nfalse\n```\n"
    done = run(Path("example.md"), blocks_of(text, ("python", "bash")), tmp_path)
    assert "example.md:9: the block" in done.stderr and "example.md:5" not in done.stderr
