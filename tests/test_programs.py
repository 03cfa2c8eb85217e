"""The programs of examples/ are short, are in the gallery, and run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_short_and_in_the_gallery(name):
    text = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
    assert text.count("\n") <= 30 and text.startswith('"""')
    gallery = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    picture = ROOT / "docs" / "images" / "examples" / f"{name}.png"
    assert f"({name}.py)" in gallery and f"(../docs/images/examples/{name}.png)" in gallery
    assert picture.stat().st_size < 150_000


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_runs(name, tmp_path):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    program = [sys.executable, str(ROOT / "examples" / f"{name}.py"), "--short"]
    run = subprocess.run(program, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr[-2000:]
    assert (tmp_path / f"{name}.gif").read_bytes()[:6] == b"GIF89a"
