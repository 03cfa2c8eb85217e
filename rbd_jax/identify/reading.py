"""Reads logs from files: tables with a column for each number, and archives of arrays.

Errors name the path, the line and the column. `Log.from_mapping` interprets the column names.
"""

from __future__ import annotations

import csv
import warnings
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._core.arguments import a_model
from ..model import Model
from .log import CHANNELS, TIMES, Log, LogError, LogWarning


def read_log(path: str | Path, model: Model) -> Log:
    """Reads a log from a file: `.npz` with named arrays, or `.csv` with column names in the first row.

    Names are those of `Log.from_mapping`; empty fields and `nan` are missing samples.

    Args:
      path: The file.
      model: The model.

    Raises:
      LogError: If the file is missing, invalid, or does not fit the model.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "run.csv"
    >>> _ = path.write_text("time,q_shoulder,q_elbow,effort_elbow\\n0.0,0.1,0.2,1.5\\n0.1,0.1,0.3,\\n")
    >>> rbd.identify.read_log(path, rbd.load("double_pendulum")).tau.values
    array([[nan, 1.5],
           [nan, nan]])
    """
    path = Path(path)
    a_model("identify.read_log", model)
    if not path.is_file():
        raise LogError(f"identify.read_log: there is no file {path}.")
    kinds = {".npz": _arrays, ".csv": _columns}
    if path.suffix.lower() not in kinds:
        raise LogError(
            f"identify.read_log: {path.name!r} is no .npz and no .csv file; make a Log of its arrays, or Log.from_mapping"
        )
    return Log.from_mapping(kinds[path.suffix.lower()](path), model, path.stem)


def _arrays(path: Path) -> dict[str, np.ndarray]:
    """Returns the arrays of an archive by name."""
    try:
        opened = np.load(path, allow_pickle=False)
        if isinstance(opened, np.ndarray):
            raise LogError(f"{path}: one array without a name; np.savez(path, t=..., q=...) adds names")
        with opened as file:
            found, objects = {}, []
            for name in file.files:
                try:
                    found[name] = file[name]
                except ValueError as error:
                    if "pickle" not in str(error).lower() and "object arrays" not in str(error).lower():
                        raise
                    objects.append(name)
    except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        if isinstance(error, LogError):
            raise
        raise LogError(
            f"{path}: it is no NumPy archive ({error}); np.savez(path, t=..., q=...) writes one"
        ) from None
    needed = [
        name
        for name in objects
        if name.lower() in (*TIMES, *(word for words in CHANNELS.values() for word in words))
    ]
    said = (
        f"{path}: {', '.join(map(repr, needed or objects))} holds Python objects, which are not read, because unpickling can "
        "run arbitrary code. Save arrays of numbers: np.asarray(x, float)."
    )
    if needed:
        raise LogError(said)
    if objects:
        warnings.warn(said, LogWarning, 3)
    return found


def _columns(path: Path) -> dict[str, Any]:
    """Returns the columns of a table by name: numbers, or text if a column is not numeric."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            names = _names(path, next((row for row in csv.reader(file) if any(row)), []))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # about missing rows, an error below
                try:
                    rows = np.loadtxt(file, delimiter=",", ndmin=2, comments=None, quotechar='"')
                except ValueError:  # missing samples, text, rows of other lengths
                    return _careful(path, names)
    except UnicodeDecodeError:
        raise LogError(f"{path}: it is no text in UTF-8; save it as UTF-8") from None
    if not rows.size or rows.shape[1] != len(names):
        return _careful(path, names)
    return dict(zip(names, rows.T, strict=True))


def _names(path: Path, first: Sequence[str]) -> list[str]:
    if not first:
        raise LogError(f"{path}: the file is empty")
    names = [name.strip() for name in first]
    names[0] = names[0].lstrip("#").strip()
    if len(names) == 1 and (others := [mark for mark in (";", "\t", "|") if mark in first[0]]):
        raise LogError(
            f"{path}: columns must be separated by commas, but the first row has {others[0]!r}. Use "
            f"Log.from_mapping(pandas.read_csv(path, sep={others[0]!r}), model)."
        )
    if all(_is_number(name) for name in names):
        raise LogError(
            f"{path}: the first row has numbers; it must have the column names, as in t,q_elbow,tau_elbow"
        )
    twice = list(dict.fromkeys(name for name in names if name and names.count(name) > 1))
    if twice:
        at = [i for i, name in enumerate(names) if name == twice[0]]
        raise LogError(
            f"{path}: columns {', '.join(map(str, at))} are all called {twice[0]!r}. Rename or remove all but one."
        )
    return names


def _careful(path: Path, names: list[str]) -> dict[str, Any]:
    """Returns the columns of a table with empty fields or text; rows of other lengths cause an error."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file)
        rows, header = [], True
        for row in reader:
            if not any(field.strip() for field in row):
                continue
            if header:
                header = False
                continue
            if len(row) != len(names):
                raise LogError(
                    f"{path}: line {reader.line_num} has {len(row)} fields, but the first row has {len(names)} names."
                )
            rows.append(row)
    if not rows:
        raise LogError(f"{path}: there are no rows below the column names")
    found: dict[str, Any] = {}
    for name, column in zip(names, zip(*rows, strict=True), strict=True):
        fields = [field.strip() or "nan" for field in column]
        try:
            found[name] = np.array(fields, float)
        except ValueError:
            found[name] = fields
    if "" in found and not isinstance(found[""], list) and np.isnan(found[""]).all():
        del found[""]  # a comma at the end of each line
    return found


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
