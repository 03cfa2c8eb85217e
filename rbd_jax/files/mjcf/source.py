"""An MJCF file or text, compiled by MuJoCo: here, or, where the file is not trusted, in a process of its own."""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from xml.parsers import expat

from ..._core.errors import ModelError
from ..limits import Limits
from ..xml import malformed, outermost, read


#: What MuJoCo said when it failed on a file in this process, after which it may wait there forever when it is asked to read the
#: next: others are then compiled in processes of their own.
_stuck: list[str] = []


def compiled_from(mujoco, path_or_xml, limits: Limits, untrusted: bool) -> tuple[str, Any]:
    """What to call the source in errors, and the compiled model."""
    source, content = read("load_mjcf", "MJCF", path_or_xml, limits)
    try:
        _check_root(outermost(content))
        _check_sizes(content, limits)
        if untrusted or _stuck:
            compiled = _compiled_apart(mujoco, path_or_xml, content, limits)
        else:
            compiled = _compiled_here(mujoco, path_or_xml, content)
        compiled.names.decode()  # MuJoCo takes them as they are
        return source, compiled
    except ModelError as error:
        raise ModelError(f"{source}: {error}") from None
    except ValueError as error:
        fault = malformed(content) or f"MuJoCo does not accept it: {error}"
        raise ModelError(f"{source}: {fault}") from None


def _check_root(tag: str | None) -> None:
    """Refuse another kind of file by its outermost element. (MuJoCo reads URDF too, by rules of its own.)"""
    if tag == "robot":
        raise ModelError("the outermost element is <robot>: it is URDF; read it with load_urdf")
    if tag == "sdf":
        raise ModelError("the outermost element is <sdf>: it is SDF; read it with load_sdf")
    if tag not in ("mujoco", "mujocoinclude", None):
        raise ModelError(f"the outermost element is <{tag}>: an MJCF file's is <mujoco>")


def _check_sizes(content: str | bytes, limits: Limits) -> None:
    """Refuse what would be too much to compile, by the file itself; what is no XML, MuJoCo refuses."""
    copies, count, pixels = [1], 0, 0

    def start(tag, attributes):
        nonlocal count, pixels
        made = copies[-1]
        if tag in ("replicate", "composite", "flexcomp"):
            made *= math.prod(max(1, number) for number in _whole(attributes.get("count", "")))
        copies.append(made)
        count += made
        if tag == "texture":
            sides = [_whole(attributes.get(side, "")) for side in ("width", "height")]
            pixels += math.prod(number for side in sides for number in side) if all(sides) else 0
        limits.check_elements(count)
        limits.check_depth(len(copies) - 1)
        limits.check_pixels(pixels)

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.EndElementHandler = lambda tag: copies.pop()
    try:
        parser.Parse(content, True)
    except (expat.ExpatError, LookupError):
        pass


def _whole(text: str) -> list[int]:
    """The whole numbers of an attribute; none where it has others."""
    try:
        return [int(word) for word in text.split()]
    except ValueError:
        return []


def _compiled_here(mujoco, path_or_xml, content: str | bytes):
    # MuJoCo writes its warnings to a file in the current folder, if nobody else takes them.
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        if isinstance(content, str):
            return mujoco.MjModel.from_xml_string(content)
        return mujoco.MjModel.from_xml_path(str(path_or_xml))
    except RuntimeError as error:
        _stuck.append(str(error))
        raise ModelError(f"MuJoCo fails on it: {error}") from None
    finally:
        mujoco.set_mju_user_warning(before)


#: What the process of its own does. It says what is wrong on stderr, and exits with 3 if that is MuJoCo's opinion of the file.
_CHILD = """
import sys
path, into, memory = sys.argv[1], sys.argv[2], int(sys.argv[3])
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
except ImportError:  # there are no such limits here
    pass
import mujoco
try:
    if path == "-":
        model = mujoco.MjModel.from_xml_string(sys.stdin.buffer.read().decode())
    else:
        model = mujoco.MjModel.from_xml_path(path)
except (ValueError, UnicodeDecodeError) as error:
    sys.stderr.write(str(error))
    sys.exit(3)
except MemoryError:
    sys.exit(4)
mujoco.mj_saveModel(model, into, None)
"""


def _compiled_apart(mujoco, path_or_xml, content: str | bytes, limits: Limits):
    """Compiled in a process that may take so much time and memory, and may crash."""
    path = "-" if isinstance(content, str) else str(Path(path_or_xml).absolute())
    given = content.encode() if isinstance(content, str) else b""
    with tempfile.TemporaryDirectory() as folder:
        into = Path(folder, "model.mjb")
        command = [sys.executable, "-c", _CHILD, path, str(into), str(int(limits.memory))]
        try:
            said = subprocess.run(
                command, input=given, cwd=folder, capture_output=True, timeout=limits.seconds, check=False
            )
        except subprocess.TimeoutExpired:
            raise ModelError(
                f"MuJoCo was not done with it after {limits.seconds:g} s; if it is meant to take longer, read it with "
                "limits=rbd.files.Limits(seconds=...)"
            ) from None
        if said.returncode == 3:
            raise ValueError(said.stderr.decode(errors="replace"))
        if said.returncode or not into.exists():
            raise ModelError(
                f"MuJoCo failed on it (exit status {said.returncode}), by a crash or for want of memory: it may take "
                f"{limits.memory / 2**30:.3g} GB, and if it is meant to take more, read it with "
                "limits=rbd.files.Limits(memory=...)"
            )
        return mujoco.MjModel.from_binary_path(str(into))
