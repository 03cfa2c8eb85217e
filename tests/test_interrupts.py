"""Ctrl-C during a command prints one line, exits with code 130, and leaves only complete files."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from rbd_jax._core.files import whole_file


ROOT = Path(__file__).resolve().parent.parent

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are sent differently on this platform")


@pytest.fixture
def start(monkeypatch):
    """Starts Python with these arguments as from a terminal: SIGINT is not ignored, and nothing is precompiled."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    processes = []

    def popen(*arguments):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        processes.append(subprocess.Popen([sys.executable, *map(str, arguments)], cwd=ROOT, **pipes))
        return processes[-1]

    yield popen
    signal.signal(signal.SIGINT, before)
    for process in processes:
        process.kill()
        process.communicate()


def interrupt(process):
    """Sends the signal; returns the exit code and the stderr output after it."""
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    return process.returncode, said


def test_while_compiling(start, tmp_path):
    process = start("-m", "rbd_jax", "simulate", "pendulum", "--seconds", "5000", "--out", tmp_path)
    process.stdout.readline()  # reports the compiler option: the last line before compiling
    time.sleep(1.0)
    assert interrupt(process) == (130, "rbd-jax: interrupted; no progress was saved\n")
    assert not list(tmp_path.iterdir())


def test_while_importing(start):
    process = start("-X", "importtime", "-m", "rbd_jax", "info", "pendulum")
    for line in process.stderr:  # one line per imported module, JAX's among the first
        if "jax._src.core" in line:
            break
    code, said = interrupt(process)
    *imported, last = said.splitlines()
    assert (code, last) == (130, "rbd-jax: interrupted")
    assert all(line.startswith("import time:") for line in imported) and "rbd_jax.cli" not in said


def test_while_writing(start, tmp_path):
    """Partial files are removed, and earlier files stay."""
    script = """if True:
        import sys, time
        from pathlib import Path
        from rbd_jax._core.interrupts import watch
        from rbd_jax._core.files import whole_file
        watch()
        with whole_file(Path(sys.argv[1])) as part:
            part.write_text("half")
            print("half", flush=True)
            time.sleep(60)
    """
    path = tmp_path / "states.txt"
    path.write_text("whole")
    process = start("-c", script, path)
    assert process.stdout.readline() == "half\n" and len(list(tmp_path.iterdir())) == 2
    assert interrupt(process) == (130, "rbd-jax: interrupted\n")
    assert list(tmp_path.iterdir()) == [path] and path.read_text() == "whole"


def test_a_file_that_cannot_be_written_leaves_the_one_before(tmp_path):
    path = tmp_path / "states.txt"
    with whole_file(path) as part:
        part.write_text("whole")
    with pytest.raises(OSError, match="full"), whole_file(path) as part:
        part.write_text("half")
        raise OSError("the disk is full")
    assert list(tmp_path.iterdir()) == [path] and path.read_text() == "whole"


def test_programs_that_use_the_library_keep_their_interrupts(start):
    """The package handles the signal only for the command line."""
    process = start("-c", "import rbd_jax, time; print('ready', flush=True); time.sleep(60)")
    process.stdout.readline()
    code, said = interrupt(process)
    assert code == -signal.SIGINT and said.rstrip().endswith("KeyboardInterrupt")


@pytest.mark.slow
@pytest.mark.parametrize("presses", [1, 2])
def test_at_any_moment(start, tmp_path, presses):
    """The interrupts come at random moments between the start of Python and the end of the process."""
    begin, draw, ended = time.perf_counter(), random.Random(presses), 0
    arguments = "-m", "rbd_jax", "simulate", "arm7", "--batch", "64", "--out"
    assert start(*arguments, tmp_path).wait() == 0
    total = time.perf_counter() - begin
    for attempt in range(20):
        folder = tmp_path / str(attempt)
        process = start(*arguments, folder)
        time.sleep(draw.uniform(0.3, total))
        for _ in range(presses - 1):
            process.send_signal(signal.SIGINT)
            time.sleep(draw.uniform(0, 0.003))
        result = interrupt(process)
        ended += result == (0, "")  # it ended before the signal
        place = folder.resolve() / "simulate.checkpoint"
        left = (
            f"; run the same command with --resume to continue from {place}",
            "; no progress was saved",
            "",
        )
        assert result in (*((130, f"rbd-jax: interrupted{what}\n") for what in left), (0, "")), attempt
        names = sorted(file.name for file in folder.iterdir()) if folder.exists() else []
        assert (place.name in names) == ("--resume" in result[1]), attempt
        names = [name for name in names if name != place.name]
        assert names in ([], ["trajectory.npz"], ["trajectory.npz", "trajectory.png"])
        if names:
            assert np.load(folder / "trajectory.npz")["q"].shape[0] == 64
    assert ended < 10
