"""Logs in files: tables with a column for each number, and archives of arrays.

What a file cannot be is told with its path, the line and the column. What its columns mean, `Log.from_mapping` finds out.
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
    """The log in a file: `.npz` with arrays by name, or `.csv` with a column for each number and their names in the first row.

    Names are as `Log.from_mapping` takes them; empty fields and `nan` are missing samples.

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
        raise LogError(f"identify.read_log: there is no file {path}")
    kinds = {".npz": _arrays, ".csv": _columns}
    if path.suffix.lower() not in kinds:
        raise LogError(
            f"identify.read_log: {path.name!r} is no .npz and no .csv; make a Log of its arrays, or Log.from_mapping"
        )
    return Log.from_mapping(kinds[path.suffix.lower()](path), model, path.stem)


def _arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an archive by name."""
    try:
        opened = np.load(path, allow_pickle=False)
        if isinstance(opened, np.ndarray):
            raise LogError(f"{path}: it is one array without a name; np.savez(path, t=..., q=...) names them")
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
            f"{path}: it is no archive of NumPy ({error}); np.savez(path, t=..., q=...) writes one"
        ) from None
    needed = [
        name
        for name in objects
        if name.lower() in (*TIMES, *(word for words in CHANNELS.values() for word in words))
    ]
    said = (
        f"{path}: {', '.join(map(repr, needed or objects))} holds objects of Python, which are not read, since reading them "
        "runs what they say; save arrays of numbers, np.asarray(x, float)"
    )
    if needed:
        raise LogError(said)
    if objects:
        warnings.warn(said, LogWarning, 3)
    return found


def _columns(path: Path) -> dict[str, Any]:
    """The columns of a table by name: numbers, or text where not all of it are numbers."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            names = _names(path, next((row for row in csv.reader(file) if any(row)), []))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # that there are no rows, which is told below
                try:
                    rows = np.loadtxt(file, delimiter=",", ndmin=2, comments=None, quotechar='"')
                except ValueError:  # missing samples, text, rows of other lengths
                    return _careful(path, names)
    except UnicodeDecodeError:
        raise LogError(f"{path}: it is no text in UTF-8; save it as that") from None
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
            f"{path}: columns are separated by commas, and in the first row there are {others[0]!r}; "
            f"Log.from_mapping(pandas.read_csv(path, sep={others[0]!r}), model) takes it"
        )
    if all(_is_number(name) for name in names):
        raise LogError(
            f"{path}: the first row has numbers; it has the names of the columns, as in t,q_elbow,tau_elbow"
        )
    twice = list(dict.fromkeys(name for name in names if name and names.count(name) > 1))
    if twice:
        at = [i for i, name in enumerate(names) if name == twice[0]]
        raise LogError(
            f"{path}: columns {', '.join(map(str, at))} are all called {twice[0]!r}; which of them is meant? Rename the others"
        )
    return names


def _careful(path: Path, names: list[str]) -> dict[str, Any]:
    """The columns where fields may be empty, or text; rows of other lengths are refused."""
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
                    f"{path}: line {reader.line_num} has {len(row)} fields, and the first row has {len(names)} names"
                )
            rows.append(row)
    if not rows:
        raise LogError(f"{path}: there are no rows below the names of the columns")
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
