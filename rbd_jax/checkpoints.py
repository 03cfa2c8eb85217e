"""Checkpoints: the progress of a long run in a file that is written atomically, from which the run resumes.

A file holds a *key* that identifies the run, and *values*: a tree of dictionaries, lists, plain values and arrays. The file is
written under a temporary name, synced to disk and renamed, so the previous file survives any failure in between. `fingerprint`
makes the key from everything that determines the results of a run. A run with a different key is refused, and the message
lists the differences. The file is locked during a run; the lock ends with the process.

The file is a zip archive, which `numpy.load` opens. `head.json` has the format, the key, the values and the types of the
arrays; `array_0.npy`, `array_1.npy` and so on are the arrays. In the values, `{"array at": 2}` stands for `array_2.npy`.
Arrays of a type that NumPy lacks, such as bfloat16, are stored as bytes. The comment of the archive holds eight hexadecimal
digits: the CRC-32 of the file with zeros in place of these digits.
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
#: Keys contain arrays with at most this number of entries in full, and larger arrays as a digest.
SMALL = 6
#: Maximum number of differences listed in a message.
TOLD = 8
#: Saving by time takes at most this share of the run time.
SHARE = 0.05
#: The dictionary key that marks an array in the head.
ARRAY = "array at"


class CheckpointError(ValueError):
    """A checkpoint that cannot be resumed; the message names the file and the remedy.

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
    """A checkpoint that could not be written. The run continues, and the previous file is unchanged.

    >>> print(issubclass(rbd.CheckpointWarning, UserWarning))
    True
    """


class Saved(NamedTuple):
    """The content of a checkpoint file.

    - `key`: identifies the run, entry by entry.
    - `values`: the saved progress; arrays are NumPy arrays, and tuples have become lists.
    """

    key: dict[str, Any]
    values: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A file to which a long run saves its progress, and from which the same run resumes after an interruption.

    Functions with an argument `checkpoint` take a `Checkpoint` or a path. Without a file, the run starts. With a file of the
    same run, the run resumes, or returns the saved result if it was finished. A file of another run is refused.

    - `path`: The file. Its folder must exist.
    - `every`: The time between saves, in s; 0 saves at every opportunity. Saving by time takes at most a twentieth of the run
      time.

    Use `run` for your own loops:
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
        """Returns the content of the file, or None without a file."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return None
        return _decoded(self.path, content)

    @contextlib.contextmanager
    def run(self, owner: str, key: Mapping[str, Any]) -> Iterator[Run]:
        """Returns a context manager for a run; the file is locked until the block ends.

        Args:
          owner: Name of the run, for messages.
          key: Everything that determines the results of the run. It is passed through `fingerprint`.

        Returns:
          A context manager that gives a `Run`, with the saved values if the file exists.

        Raises:
          CheckpointError: The file belongs to another run, is damaged, is locked, or cannot be written.
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
    """A run in progress, which saves its state from time to time.

    - `found`: The saved values of the run; None for a new run.
    """

    def __init__(self, owner: str, checkpoint: Checkpoint | None, key: Mapping[str, Any], found: Any = None):
        self.owner, self.checkpoint, self.key, self.found = owner, checkpoint, dict(key), found
        self._last, self._wait = time.monotonic(), 0.0 if checkpoint is None else checkpoint.every

    def offer(self, values: Callable[[], Mapping[str, Any]]) -> None:
        """Saves `values()` if a save is due. The run must be able to resume from them with the same result."""
        if self.checkpoint is not None and time.monotonic() - self._last >= self._wait:
            self.save(values())

    def save(self, values: Mapping[str, Any]) -> None:
        """Saves now. On failure it emits a `CheckpointWarning` and leaves the file unchanged."""
        if self.checkpoint is None:
            return
        path, began = self.checkpoint.path, time.monotonic()
        try:
            _write(path, self.key, values)
        except OSError as error:
            there = "the one before is still there" if path.exists() else "no checkpoint exists yet"
            warnings.warn(
                f"{self.owner}: checkpoint {path} could not be written ({error.strerror or error}); {there}. The run "
                "continues, and will try again",
                CheckpointWarning,
                stacklevel=3,
            )
        self._last = time.monotonic()
        if self.checkpoint.every:
            self._wait = max(self.checkpoint.every, (self._last - began) / SHARE)

    def refuse(self, said: list[str]) -> None:
        """Raises a `CheckpointError` if there are differences from the saved run."""
        if not said or self.checkpoint is None:
            return
        more = [f"and {len(said) - TOLD} more"] if len(said) > TOLD else []
        lines = "".join(f"\n  {line}" for line in [*said[:TOLD], *more])
        raise CheckpointError(
            f"{self.owner}: checkpoint {self.checkpoint.path} is of another run:{lines}\nRun the same again, or give this one "
            "another file; if the old file is no longer needed, remove it"
        )


@contextlib.contextmanager
def running(
    owner: str,
    checkpoint: Checkpoint | str | os.PathLike | None,
    key: Callable[[], Mapping[str, Any]],
) -> Iterator[Run]:
    """Returns `Checkpoint.run` for the argument `checkpoint` of a function; for None a run that is never saved."""
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


# Fingerprints of runs.


def fingerprint(**things: Any) -> dict[str, Any]:
    """Returns everything that determines the results of a run as a flat dictionary, one entry per part.

    Small arrays appear in full, larger arrays as a digest. Dataclasses (models, parameter groups, schemes) appear by their
    fields. Functions appear by name, a digest of their code, and the values of their closures and defaults, but not of global
    names.
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
        # Without the module name: a script has another module name when it is imported.
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
    """Returns a description of a function's code that does not depend on the process or the path of the source."""
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
    """Returns the versions and the device, which also affect results to the last bit."""
    version = getattr(sys.modules[__name__.partition(".")[0]], "__version__", "")
    return {"rbd_jax": version, "jax": jax.__version__, "device": jax.default_backend()}


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """Returns the differences between two fingerprints, one line each; if a part differs, its own parts are not listed."""
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
        # Digests mean nothing to a reader.
        there, here = there.rpartition(" #")[0], here.rpartition(" #")[0]
        if there == here:
            return "others" if "[" in there else "does something else"
    return f"{there!r} there, {here!r} here"


# The file format.


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
    """Converts a value to JSON; arrays are appended to `arrays` and replaced by their index."""
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
        f"Checkpoint: {name} is a {type(value).__name__}; numbers, strings, arrays of numbers, and lists and dictionaries of "
        "those can be saved"
    )


def plain_leaves(tree: Any) -> list[np.ndarray]:
    """Returns the arrays of a tree in a form that can be saved; random keys as their data."""
    return [np.asarray(jax.random.key_data(x) if _is_key(x) else x) for x in jax.tree.leaves(tree)]


def with_leaves(tree: Any, saved: list[np.ndarray]) -> Any:
    """Returns a tree with the structure of `tree` and the arrays that `plain_leaves` returned for it."""
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
            f"{path} has the format 1, and this version of rbd_jax reads {FORMAT}; resume with the version that wrote it, or "
            "remove it to begin anew"
        )
    if not content.startswith(b"PK"):
        raise CheckpointError(
            f"{path} is no checkpoint of rbd_jax, or its start is missing; give another name, or remove it to begin anew"
        )
    size = len(NO_SUM)
    crc = zlib.crc32(NO_SUM, zlib.crc32(memoryview(content)[:-size]))
    if content[-size:] != f"{crc:08x}".encode():
        raise CheckpointError(
            f"{path} is damaged: the checksum of its {len(content)} bytes is wrong. Perhaps the copy is incomplete; use "
            "another copy, or remove it to begin anew"
        )
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        head = json.loads(archive.read("head.json"))
        if head["format"] != FORMAT:
            raise CheckpointError(
                f"{path} has the format {head['format']}, and this version of rbd_jax reads {FORMAT}; resume with the version "
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
    """Removes partial files that killed processes have left. The caller holds the lock."""
    part = re.compile(re.escape(f".{path.stem}.") + r"\d+" + re.escape(f".part{path.suffix}"))
    for file in path.parent.iterdir():
        if part.fullmatch(file.name):
            file.unlink(missing_ok=True)


@contextlib.contextmanager
def locked(owner: str, path: Path) -> Iterator[None]:
    """Holds a lock on a file beside `path`, since every save replaces `path`. The lock file is removed at the end."""
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
                f"{owner}: checkpoint {path}: the folder is not writable ({error.strerror}); give another path"
            ) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(lock, 100).decode(errors="replace").strip()
            os.close(lock)
            raise CheckpointError(
                f"{owner}: checkpoint {path} is that of a run under way{f' ({holder})' if holder else ''}; wait for its end, or "
                "give this run another file"
            ) from None
        except OSError as error:
            os.close(lock)
            raise CheckpointError(
                f"{owner}: checkpoint {path}: the file system has no locks ({error.strerror}); give a path on another one"
            ) from error
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), os.stat(name)):
                break
        os.close(lock)  # the previous holder has just removed it
    try:
        os.truncate(lock, 0)
        os.write(lock, f"process {os.getpid()} on {os.uname().nodename}\n".encode())
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        os.close(lock)
