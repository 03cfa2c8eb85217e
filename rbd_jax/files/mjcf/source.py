"""An MJCF file or text, compiled by MuJoCo."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ..._errors import ModelError


def compiled_from(mujoco, path_or_xml) -> tuple[str, Any]:
    """What to call the source in errors, and the compiled model."""
    if not isinstance(path_or_xml, str | Path):
        raise ModelError(f"load_mjcf: got a {type(path_or_xml).__name__}; give a path or the XML text")
    text = path_or_xml.lstrip("\ufeff \t\r\n") if isinstance(path_or_xml, str) else ""
    if text.startswith("<"):
        source, content = "MJCF text", text
    else:
        source = str(path_or_xml) if len(str(path_or_xml)) < 200 else f"{str(path_or_xml)[:80]}..."
        try:
            content = Path(path_or_xml).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            raise ModelError(
                f"{source}: there is no such file; give the path of an MJCF file or the XML text"
            ) from None
        except IsADirectoryError:
            raise ModelError(f"{source}: it is a directory; give the path of an MJCF file in it") from None
        except (OSError, ValueError) as error:
            raise ModelError(
                f"{source}: it cannot be read ({type(error).__name__}); give a path or XML text"
            ) from None
    _check_root(source, content)
    try:
        if text.startswith("<"):
            return source, mujoco.MjModel.from_xml_string(text)
        return source, mujoco.MjModel.from_xml_path(str(path_or_xml))
    except ValueError as error:
        raise ModelError(f"{source}: MuJoCo does not accept it: {error}") from None


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
