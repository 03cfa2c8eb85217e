"""Checkpoints: what a long run has reached, in a file that is whole or absent, from which the same run goes on.

A file holds a *key*, which says what is run, and *values*: a tree of dictionaries, lists, plain values and arrays. It is written
under another name, brought to the disk and renamed, so that the one before survives whatever happens meanwhile. A key is made
by `fingerprint` of all that decides on the numbers of a run; a run with another one is refused, and what differs is told. While a
run is under way, its file is locked; a process that has ended, however it did, holds no lock.

The file is a zip archive, which `numpy.load` opens. `head.json` has the format, the key, the values and the types of the arrays;
`array_0.npy`, `array_1.npy` and so on are the arrays. In the values, `{"array at": 2}` stands for `array_2.npy`. Arrays of a type
that NumPy lacks, such as bfloat16, are stored as bytes. The comment of the archive holds eight hexadecimal digits: the CRC-32 of
the file with zeros in place of these digits.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
import hashlib
import io
import json
import os
import re
import sys
import time
import types
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from ._core.arguments import number
from ._core.files import whole_file


FORMAT = 2
#: The comment of the archive before the CRC-32 is known.
NO_SUM = b"00000000"
#: Arrays of so many numbers are in a key as they are, and others by a digest.
SMALL = 6
#: So many differences are told.
TOLD = 8
#: Saving takes no more than this share of the time, if it is by time.
SHARE = 0.05
#: What stands for an array in the head.
ARRAY = "array at"


class CheckpointError(ValueError):
    """A checkpoint that cannot be gone on from; the message names the file and says the remedy.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "run.checkpoint")
    ...     _ = file.write_text("something else")
    ...     try:
    ...         with rbd.Checkpoint(file).run("a run", {}) as run:
    ...             pass
    ...     except rbd.CheckpointError as error:
    ...         print("refused:", "run.checkpoint" in str(error))
    refused: True
    """


class CheckpointWarning(UserWarning):
    """A checkpoint that could not be written. The run goes on, and the one before is still there.

    >>> print(issubclass(rbd.CheckpointWarning, UserWarning))
    True
    """


class Saved(NamedTuple):
    """What a file holds.

    - `key`: what was run, entry by entry.
    - `values`: what it had reached; arrays are NumPy's, and tuples have become lists.
    """

    key: dict[str, Any]
    values: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A file that a long run saves to as it goes, and from which the same run goes on after it was killed.

    Functions with an argument `checkpoint` take one of these, or a path. If there is no such file, they begin; if there is one
    of the same run they go on from there, and if the run was finished return what it found. One of another run is refused.

    - `path`: the file. Its folder is there already.
    - `every`: how long, in s, from one save to the next; 0 for each time there is something to save. Saving by time takes no
      more than a twentieth of it.

    `run` is for loops of your own:

    >>> import pathlib, tempfile
    >>> def total(checkpoint, upto):
    ...     with checkpoint.run("total", {"start": 0}) as run:
    ...         at, sum = run.found["at"] if run.found else 0, run.found["sum"] if run.found else np.zeros(2)
    ...         for at in range(at, upto):
    ...             sum = sum + at
    ...             run.offer(lambda: {"at": at + 1, "sum": sum})
    ...     return sum
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoint = rbd.Checkpoint(pathlib.Path(folder) / "total.ckpt", every=0)
    ...     print(total(checkpoint, 3), checkpoint.read().values["at"], total(checkpoint, 5))
    [3. 3.] 3 [10. 10.]
    """

    path: Path
    every: float = 30.0

    def __init__(self, path: str | os.PathLike, every: float | int = 30.0):
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"Checkpoint: path is {path!r}; it takes the name of a file")
        object.__setattr__(self, "path", Path(path))
        object.__setattr__(self, "every", float(number("Checkpoint", "every", every, least=0)))

    def read(self) -> Saved | None:
        """What the file holds; None if there is none."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return None
        return _decoded(self.path, content)

    @contextlib.contextmanager
    def run(self, owner: str, key: Mapping[str, Any]) -> Iterator[Run]:
        """A run under way, with what was found of it; the file is locked until the block ends.

        - `owner`: what is run, for messages.
        - `key`: what decides on its numbers; `fingerprint` makes one of models, logs, functions.
        """
        if self.path.is_dir() or not self.path.parent.is_dir():
            what = (
                "is a folder" if self.path.is_dir() else f"cannot be: there is no folder {self.path.parent}"
            )
            raise CheckpointError(f"{owner}: checkpoint {self.path} {what}; give the name of a file")
        key = {"run": owner} | _surroundings() | fingerprint(**key)
        with locked(owner, self.path):
            _remove_parts(self.path)
            saved = self.read()
            run = Run(owner, self, key, None if saved is None else saved.values)
            if saved is not None:
                run.refuse(differences(saved.key, key))
            yield run


class Run:
    """A run under way, which is saved from time to time.

    - `found`: the values that were saved of it; None if it begins.
    """

    def __init__(self, owner: str, checkpoint: Checkpoint | None, key: Mapping[str, Any], found: Any = None):
        self.owner, self.checkpoint, self.key, self.found = owner, checkpoint, dict(key), found
        self._last, self._wait = time.monotonic(), 0.0 if checkpoint is None else checkpoint.every

    def offer(self, values: Callable[[], Mapping[str, Any]]) -> None:
        """Save `values()` if it is time. They are such that the run can go on from them with the same result."""
        if self.checkpoint is not None and time.monotonic() - self._last >= self._wait:
            self.save(values())

    def save(self, values: Mapping[str, Any]) -> None:
        """Save now. If that is not possible, it is told by a `CheckpointWarning`, and the file is what it was."""
        if self.checkpoint is None:
            return
        path, began = self.checkpoint.path, time.monotonic()
        try:
            _write(path, self.key, values)
        except OSError as error:
            there = "the one before is still there" if path.exists() else "there is none yet"
            warnings.warn(
                f"{self.owner}: checkpoint {path} could not be written ({error.strerror or error}); {there}. The run "
                "goes on, and will try again",
                CheckpointWarning,
                stacklevel=3,
            )
        self._last = time.monotonic()
        if self.checkpoint.every:
            self._wait = max(self.checkpoint.every, (self._last - began) / SHARE)

    def refuse(self, said: list[str]) -> None:
        """Refuse to go on if something is said to differ from what was saved."""
        if not said or self.checkpoint is None:
            return
        more = [f"and {len(said) - TOLD} more"] if len(said) > TOLD else []
        lines = "".join(f"\n  {line}" for line in [*said[:TOLD], *more])
        raise CheckpointError(
            f"{self.owner}: checkpoint {self.checkpoint.path} is of another run:{lines}\nRun the same again, or give this one "
            "a file of its own; if the old one is of no use any more, remove it"
        )


@contextlib.contextmanager
def running(
    owner: str,
    checkpoint: Checkpoint | str | os.PathLike | None,
    key: Callable[[], Mapping[str, Any]],
) -> Iterator[Run]:
    """`Checkpoint.run`, of the argument `checkpoint` of a function; without one a run that is never saved."""
    if checkpoint is None:
        yield Run(owner, None, {})
        return
    if not isinstance(checkpoint, Checkpoint | str | os.PathLike):
        raise TypeError(
            f"{owner}: checkpoint is {checkpoint!r}; it takes the name of a file, or a Checkpoint"
        )
    with (checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)).run(
        owner, key()
    ) as run:
        yield run


# What is run.


def fingerprint(**things: Any) -> dict[str, Any]:
    """What decides on the numbers of a run, flat and plain: an entry for each part, by the names of fields.

    Of arrays, small ones are as they are, and others a digest. Dataclasses (models, kinds, schemes) are their fields; functions
    their names, a digest of what they do, and what they have taken from around them, but not the global names that they use.
    """
    found: dict[str, Any] = {}
    for name, thing in things.items():
        _describe(name, thing, found, ())
    return found


def _describe(path: str, thing: Any, found: dict[str, Any], around: tuple[int, ...]) -> None:
    if thing is None or isinstance(thing, bool | int | float | str) and not isinstance(thing, enum.Enum):
        found[path] = thing.item() if isinstance(thing, np.generic) else thing
        return
    if isinstance(thing, bytes):
        found[path] = f"bytes #{_digest(thing)}"
        return
    if isinstance(thing, np.ndarray | np.generic | jax.Array):
        found[path] = _of_array(thing)
        return
    if isinstance(thing, enum.Enum | np.dtype | os.PathLike):
        found[path] = str(thing)
        return
    if isinstance(thing, type | types.ModuleType):
        found[path] = _name_of(thing)
        return
    if id(thing) in around:
        found[path] = "itself"
        return
    inside = (*around, id(thing))
    parts: dict[str, Any] = {}
    if isinstance(thing, Mapping):
        parts = {f"[{name!r}]": value for name, value in thing.items()}
    elif isinstance(thing, tuple | list):
        if thing and all(isinstance(value, str) for value in thing):
            found[path] = list(thing)
            return
        fields = getattr(thing, "_fields", None)
        parts = {f".{fields[i]}" if fields else f"[{i}]": value for i, value in enumerate(thing)}
        found[path] = len(thing)
    elif dataclasses.is_dataclass(thing):
        found[path] = _name_of(type(thing))
        parts = {f".{one.name}": getattr(thing, one.name, None) for one in dataclasses.fields(thing)}
    elif isinstance(thing, functools.partial):
        parts = {"": thing.func, ".args": thing.args, ".keywords": thing.keywords}
    elif isinstance(thing, types.MethodType):
        parts = {"": thing.__func__, ".self": thing.__self__}
    elif isinstance(thing, types.FunctionType):
        # Without its module: a script is another one when it is imported.
        found[path] = f"{thing.__qualname__} #{_digest(_of_code(thing.__code__).encode())}"
        cells = zip(thing.__code__.co_freevars, thing.__closure__ or (), strict=True)
        parts = {f".{name}": _content(cell) for name, cell in cells}
        parts |= {f".defaults[{i}]": value for i, value in enumerate(thing.__defaults__ or ())}
        parts |= {f".{name}": value for name, value in (thing.__kwdefaults__ or {}).items()}
    elif hasattr(thing, "__wrapped__"):
        parts = {"": thing.__wrapped__}
    else:
        found[path] = _name_of(thing) if callable(thing) else _name_of(type(thing))
        parts = {f".{name}": value for name, value in getattr(thing, "__dict__", {}).items()}
    for name, value in parts.items():
        _describe(path + name, value, found, inside)


def _of_array(thing: Any) -> str:
    if isinstance(thing, jax.Array) and _is_key(thing):
        thing = jax.random.key_data(thing)
    array = np.asarray(thing)
    kind = f"{array.dtype.name}{list(array.shape)}"
    if array.size <= SMALL:
        return f"{kind} {array.tolist()}"
    return f"{kind} #{_digest(_bytes(array))}"


def _of_code(code: types.CodeType) -> str:
    """What a function does, whatever the process and the place of its source."""
    constants = []
    for one in code.co_consts:
        if isinstance(one, frozenset):
            one = sorted(map(repr, one))
        constants.append(_of_code(one) if isinstance(one, types.CodeType) else repr(one))
    return repr((code.co_code, code.co_names, code.co_varnames, constants))


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not set yet
        return None


def _name_of(thing: Any) -> str:
    module, name = getattr(thing, "__module__", ""), getattr(thing, "__qualname__", "")
    return f"{module}.{name}" if name else getattr(thing, "__name__", type(thing).__qualname__)


def _digest(content) -> str:
    return hashlib.sha256(content).hexdigest()[:24]


def _surroundings() -> dict[str, Any]:
    """What else numbers depend on to the last bit."""
    version = getattr(sys.modules[__name__.partition(".")[0]], "__version__", "")
    return {"rbd_jax": version, "jax": jax.__version__, "device": jax.default_backend()}


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """What differs between two fingerprints, a line each; of what differs as a whole, its parts are not told."""
    said: dict[str, str] = {}
    for name in dict.fromkeys([*here, *there]):
        if any(name.startswith((f"{whole}.", f"{whole}[")) for whole in said):
            continue
        if name not in there or name not in here:
            said[name] = "not there" if name not in there else "not here"
        elif json.dumps(there[name]) != json.dumps(here[name]):
            said[name] = _difference(there[name], here[name])
    return [f"{name}: {line}" for name, line in said.items()]


def _difference(there: Any, here: Any) -> str:
    if isinstance(there, list) and isinstance(here, list):
        new = [f"{name!r} is new" for name in here if name not in there]
        lost = [f"{name!r} is not here" for name in there if name not in here]
        counts = [f"{len(there)} there, {len(here)} here"] if len(there) != len(here) else []
        return "; ".join([*counts, *(new + lost)[:TOLD]]) or f"in another order: {there} there, {here} here"
    if isinstance(there, str) and isinstance(here, str) and "#" in there and "#" in here:
        # Digests say nothing to a reader.
        there, here = there.rpartition(" #")[0], here.rpartition(" #")[0]
        if there == here:
            return "others" if "[" in there else "does something else"
    return f"{there!r} there, {here!r} here"


# The file.


class _Summed:
    """A stream that computes the CRC-32 of all bytes written to it."""

    def __init__(self, file):
        self.file, self.crc = file, 0

    def write(self, piece) -> int:
        self.crc = zlib.crc32(piece, self.crc)
        return self.file.write(piece)

    def flush(self) -> None:
        self.file.flush()


def _write(path: Path, key: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    arrays: list[np.ndarray] = []
    head = {"format": FORMAT, "key": key, "values": _plain("values", values, arrays)}
    head["arrays"] = [array.dtype.name for array in arrays]
    text = json.dumps(head)
    with whole_file(path) as part, open(part, "wb") as file:
        stream = _Summed(file)
        # The stream cannot seek, so zipfile writes each byte once and in order.
        with zipfile.ZipFile(stream, "w") as archive:  # pyright: ignore[reportArgumentType, reportCallIssue]
            archive.writestr("head.json", text)
            for number, array in enumerate(arrays):
                with archive.open(f"array_{number}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array(
                        entry, np.ascontiguousarray(array).reshape(array.shape), allow_pickle=False
                    )
            archive.comment = NO_SUM
        file.seek(-len(NO_SUM), os.SEEK_END)
        file.write(f"{stream.crc:08x}".encode())


def _plain(name: str, value: Any, arrays: list[np.ndarray]) -> Any:
    """A value as JSON has it, its arrays by their numbers."""
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping) and ARRAY not in value and all(isinstance(one, str) for one in value):
        return {one: _plain(f"{name}[{one!r}]", part, arrays) for one, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(f"{name}[{i}]", part, arrays) for i, part in enumerate(value)]
    if isinstance(value, np.ndarray | jax.Array):
        array = np.asarray(value)
        if not array.dtype.hasobject and array.dtype.kind in "biufcV" and array.dtype.names is None:
            arrays.append(
                array if array.dtype.kind == "V" else array.astype(array.dtype.newbyteorder("<"), copy=False)
            )
            return {ARRAY: len(arrays) - 1}
    raise TypeError(
        f"Checkpoint: {name} is a {type(value).__name__}; numbers, words, arrays of numbers, and lists and dictionaries of those "
        "can be saved"
    )


def plain_leaves(tree: Any) -> list[np.ndarray]:
    """The arrays of a tree as they can be saved; of random keys their numbers."""
    return [np.asarray(jax.random.key_data(x) if _is_key(x) else x) for x in jax.tree.leaves(tree)]


def with_leaves(tree: Any, saved: list[np.ndarray]) -> Any:
    """A tree like this one of the arrays that `plain_leaves` had made of it."""
    leaves, structure = jax.tree.flatten(tree)
    wrapped = lambda leaf, x: (
        jax.random.wrap_key_data(x, impl=jax.random.key_impl(leaf)) if _is_key(leaf) else jax.device_put(x)
    )
    return jax.tree.unflatten(structure, [wrapped(*pair) for pair in zip(leaves, saved, strict=True)])


def _is_key(leaf: Any) -> bool:
    return jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _bytes(array: np.ndarray) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _decoded(path: Path, content: bytes) -> Saved:
    if content.startswith(b"rbd_jax checkpoint\n"):
        raise CheckpointError(
            f"{path} has the format 1, and this version of rbd_jax reads {FORMAT}; go on with the version that wrote it, or "
            "remove it to begin anew"
        )
    if not content.startswith(b"PK"):
        raise CheckpointError(
            f"{path} is no checkpoint of rbd_jax, or its beginning is lost; give another name, or remove it to begin anew"
        )
    size = len(NO_SUM)
    crc = zlib.crc32(NO_SUM, zlib.crc32(memoryview(content)[:-size]))
    if content[-size:] != f"{crc:08x}".encode():
        raise CheckpointError(
            f"{path} is damaged: its {len(content)} bytes are not those that were written. Perhaps it was copied in part; take "
            "another copy, or remove it to begin anew"
        )
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        head = json.loads(archive.read("head.json"))
        if head["format"] != FORMAT:
            raise CheckpointError(
                f"{path} has the format {head['format']}, and this version of rbd_jax reads {FORMAT}; go on with the version "
                "that wrote it, or remove it to begin anew"
            )
        arrays = []
        for number, name in enumerate(head["arrays"]):
            with archive.open(f"array_{number}.npy") as entry:
                arrays.append(np.lib.format.read_array(entry, allow_pickle=False).view(np.dtype(name)))
    return Saved(head["key"], _with_arrays(head["values"], arrays))


def _with_arrays(value: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(value, dict):
        if ARRAY in value:
            return arrays[value[ARRAY]]
        return {name: _with_arrays(part, arrays) for name, part in value.items()}
    return [_with_arrays(part, arrays) for part in value] if isinstance(value, list) else value


def _remove_parts(path: Path) -> None:
    """What processes that were killed while they wrote have left; the lock is ours."""
    part = re.compile(re.escape(f".{path.stem}.") + r"\d+" + re.escape(f".part{path.suffix}"))
    for file in path.parent.iterdir():
        if part.fullmatch(file.name):
            file.unlink(missing_ok=True)


@contextlib.contextmanager
def locked(owner: str, path: Path) -> Iterator[None]:
    """A lock beside the file, since that itself is another one after each save. It is gone in the end."""
    try:
        import fcntl
    except ImportError as error:
        raise CheckpointError(
            f"{owner}: checkpoints need a system with flock, such as Linux or macOS"
        ) from error

    name = path.with_name(f".{path.name}.lock")
    while True:
        try:
            lock = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise CheckpointError(
                f"{owner}: checkpoint {path}: nothing can be written there ({error.strerror}); give another place"
            ) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(lock, 100).decode(errors="replace").strip()
            os.close(lock)
            raise CheckpointError(
                f"{owner}: checkpoint {path} is that of a run under way{f' ({holder})' if holder else ''}; wait for its end, or "
                "give this one a file of its own"
            ) from None
        except OSError as error:
            os.close(lock)
            raise CheckpointError(
                f"{owner}: checkpoint {path}: its disk has no locks ({error.strerror}); give a place on another one"
            ) from error
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), os.stat(name)):
                break
        os.close(lock)  # its holder has just removed it
    try:
        os.truncate(lock, 0)
        os.write(lock, f"process {os.getpid()} on {os.uname().nodename}\n".encode())
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        os.close(lock)
