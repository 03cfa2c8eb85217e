"""The command `convert`: writes a model in another format."""

from __future__ import annotations

from pathlib import Path

import jax

from .. import ModelError, save_mjcf, save_urdf
from .model import Refused, load, spelled, told
from .report import plain_console


#: The writer of each file suffix.
WRITERS = {".urdf": save_urdf, ".xml": save_mjcf, ".mjcf": save_mjcf}


def convert(arguments) -> None:
    """Reads a model, writes it in double precision, and prints the properties that the format cannot express."""
    with jax.enable_x64(True):
        _convert(arguments)


def _convert(arguments) -> None:
    console, path = plain_console(), Path(arguments.file)
    write = WRITERS.get(path.suffix.lower())
    if write is None:
        raise Refused(f"{path}: the name of the file must end in .urdf, .xml or .mjcf (MJCF)")
    if path.exists() and Path(arguments.robot).exists() and path.samefile(arguments.robot):
        raise Refused(f"{path}: it is the input file; choose another name")
    model = load(arguments, console)
    with told(console):
        try:
            write(model, path, strict=arguments.strict)
        except ModelError as error:
            raise Refused(f"{path}: {spelled(str(error))}") from error
        except OSError as error:
            raise Refused(f"cannot write to {path}: {error.strerror or error}") from error
    console.print(
        f"{path}: {model.name}, {model.nb} bodies, nq = {model.nq}, nv = {model.nv}",
        highlight=False, markup=False, soft_wrap=True,
    )  # fmt: skip
