"""An MJCF file or text, compiled by MuJoCo."""

from __future__ import annotations

import re
from typing import Any

from ..._errors import ModelError
from ..xml import malformed, read


def compiled_from(mujoco, path_or_xml) -> tuple[str, Any]:
    """What to call the source in errors, and the compiled model."""
    source, content = read("load_mjcf", "MJCF", path_or_xml)
    _check_root(source, content if isinstance(content, str) else content.decode(errors="replace"))
    try:
        if isinstance(content, str):
            return source, mujoco.MjModel.from_xml_string(content)
        return source, mujoco.MjModel.from_xml_path(str(path_or_xml))
    except ValueError as error:
        fault = malformed(content) or f"MuJoCo does not accept it: {error}"
        raise ModelError(f"{source}: {fault}") from None


def _check_root(source: str, content: str) -> None:
    """Refuse another kind of file by its outermost element. (MuJoCo reads URDF too, by rules of its own.)"""
    root = re.search(r"<([A-Za-z_][\w.:-]*)", re.sub(r"<!--.*?-->|<\?.*?\?>", "", content, flags=re.DOTALL))
    tag = root.group(1) if root else None
    if tag == "robot":
        raise ModelError(f"{source}: the outermost element is <robot>: it is URDF; read it with load_urdf")
    if tag == "sdf":
        raise ModelError(f"{source}: the outermost element is <sdf>: it is SDF; read it with load_sdf")
    if tag not in ("mujoco", "mujocoinclude", None):
        raise ModelError(f"{source}: the outermost element is <{tag}>: an MJCF file's is <mujoco>")
