"""Compiles an MJCF file or text with MuJoCo, in a separate process if the file is untrusted."""

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


#: Messages of MuJoCo failures in this process. After a failure MuJoCo may block forever on the next file, so later files are
#: compiled in separate processes.
_stuck: list[str] = []


def compiled_from(mujoco, path_or_xml, limits: Limits, untrusted: bool) -> tuple[str, Any]:
    """Returns the name of the source for messages, and the compiled model."""
    source, content = read("load_mjcf", "MJCF", path_or_xml, limits)
    try:
        _check_root(outermost(content))
        _check_sizes(content, limits)
        if untrusted or _stuck:
            compiled = _compiled_apart(mujoco, path_or_xml, content, limits)
        else:
            compiled = _compiled_here(mujoco, path_or_xml, content)
        compiled.names.decode()  # MuJoCo does not check the encoding of names
        return source, compiled
    except ModelError as error:
        raise ModelError(f"{source}: {error}") from None
    except ValueError as error:
        fault = malformed(content) or f"MuJoCo does not accept it: {error}"
        raise ModelError(f"{source}: {fault}") from None


def _check_root(tag: str | None) -> None:
    """Refuses other file formats by their outermost element. (MuJoCo also reads URDF, by its own rules.)"""
    if tag == "robot":
        raise ModelError("the outermost element is <robot>: it is URDF; read it with load_urdf")
    if tag == "sdf":
        raise ModelError("the outermost element is <sdf>: it is SDF; read it with load_sdf")
    if tag not in ("mujoco", "mujocoinclude", None):
        raise ModelError(f"the outermost element is <{tag}>: an MJCF file's is <mujoco>")


def _check_sizes(content: str | bytes, limits: Limits) -> None:
    """Refuses files that are too large to compile, by the XML alone. MuJoCo itself refuses text that is not XML."""
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
    """Returns the integers of an attribute, or an empty list if it has other words."""
    try:
        return [int(word) for word in text.split()]
    except ValueError:
        return []


def _compiled_here(mujoco, path_or_xml, content: str | bytes):
    # Without a handler, MuJoCo writes its warnings to a file in the current folder.
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        if isinstance(content, str):
            return mujoco.MjModel.from_xml_string(content)
        return mujoco.MjModel.from_xml_path(str(path_or_xml))
    except RuntimeError as error:
        _stuck.append(str(error))
        raise ModelError(f"MuJoCo cannot compile it: {error}") from None
    finally:
        mujoco.set_mju_user_warning(before)


#: The program of the separate process. It writes faults to stderr, and exits with 3 if MuJoCo rejects the file.
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
    """Returns the model compiled in a separate process with limited time and memory, which may crash safely."""
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
                f"MuJoCo did not finish within {limits.seconds:g} s. To allow more time, load it with "
                "limits=rbd.files.Limits(seconds=...)"
            ) from None
        if said.returncode == 3:
            raise ValueError(said.stderr.decode(errors="replace"))
        if said.returncode or not into.exists():
            raise ModelError(
                f"MuJoCo failed (exit status {said.returncode}): it crashed or exceeded the limit of "
                f"{limits.memory / 2**30:.3g} GB of memory. To allow more memory, load it with "
                "limits=rbd.files.Limits(memory=...)"
            )
        return mujoco.MjModel.from_binary_path(str(into))
