"""Public functions compile themselves, and recompile only when the structure of their arguments changes.

Called with numbers, a function runs as `jax.jit` would compile it. Everything in its arguments that is not an array (names,
counts, schemes, functions, the topology of a model) is part of the structure. Within a function that is being compiled, it is
a plain function and leaves no trace in the program. Under `jax.grad` or `jax.vmap` without an enclosing `jit` it is compiled
as well, with its derivative or for the batch.
"""

from __future__ import annotations

import functools
import math
import threading
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import numpy as np
from jax.core import Tracer

from .array import pick
from .devices import compiled_for
from .versions import NOTHING_TRACED, DynamicJaxprTracer, get_opaque_trace_state


F = TypeVar("F", bound=Callable)

#: Maximum number of compiled functions in the cache; the least recently used are discarded first.
KEPT = 512

_known: OrderedDict[Hashable, Callable] = OrderedDict()
_lock = threading.Lock()

#: Number of functions prepared for compilation so far, for tests.
compilations = 0


def compiled(function: F) -> F:
    """Returns the function, compiled when it is called outside of a compiled function."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        if _is_staged(args):
            return function(*args, **kwargs)
        key, run, numbers = _taken_apart(function, args, kwargs)
        program = _ready(key, lambda: jax.jit(_latest(run.__name__)))
        before, _call.run = getattr(_call, "run", None), run
        try:
            return program(numbers)
        finally:
            _call.run = before

    return wrapper  # pyright: ignore[reportReturnType]


#: The current call in each thread.
_call = threading.local()


def _latest(name: str) -> Callable:
    """Returns the function that is compiled for all equivalent calls.

    It traces the functions of the current call, since the globals of an earlier call's functions may have changed.
    """

    def run(numbers):
        return _call.run(numbers)

    run.__name__ = run.__qualname__ = name
    return run


def prepared(function: Callable, *args, **kwargs) -> Callable:
    """Returns the function of `compiled`, already compiled for arguments like these: only their numbers may differ."""
    key, run, numbers = _taken_apart(function, args, kwargs)
    shapes = tuple((x.shape, x.dtype) for x in numbers)
    key = key and ("prepared", *key, shapes, compiled_for())
    program = _ready(key, lambda: jax.jit(run).lower(numbers).compile())
    return lambda *args, **kwargs: program(_taken_apart(function, args, kwargs)[2])


def _taken_apart(function: Callable, args, kwargs) -> tuple[tuple | None, Callable, list]:
    """Returns the compilation key of a call (None if it may change), the function of its numbers alone, and the numbers."""
    names, count = tuple(kwargs), len(args)
    parts = [_parts(value) for value in (*args, *kwargs.values())]

    def run(numbers):
        numbers = iter(numbers)
        given = [part.put_together(numbers) for part in parts]
        return function(*given[:count], **dict(zip(names, given[count:])))

    run.__name__ = run.__qualname__ = function.__name__
    numbers = [number for part in parts for number in part.numbers]
    if any(part.key is None for part in parts):
        return None, run, numbers
    return (function, names, *(part.key for part in parts)), run, numbers


class _Parts:
    """A flattened argument: its numbers, the rest, and the key for lookup, None if that may change.

    Immutable arguments are packed: their many small arrays are passed as one. A model has about sixty arrays, and passing each
    one takes longer than running a compiled function.
    """

    def __init__(self, value):
        leaves, self.structure = jax.tree.flatten(value)
        self.are_numbers = tuple(is_number(leaf) for leaf in leaves)
        self.numbers = [_plain(leaf) for leaf, is_one in zip(leaves, self.are_numbers) if is_one]
        self.packing: _Packing | None = None
        self.rest = [None if is_one else leaf for leaf, is_one in zip(leaves, self.are_numbers)]
        try:
            self.key = self.structure, self.are_numbers, tuple(identity(other) for other in self.rest)
        except Changeable:
            self.key = None
        self.settled = self.key is not None and all(isinstance(leaf, jax.Array) for leaf in leaves)

    def pack(self) -> None:
        """Packs the small arrays among the numbers into one array, if all are on the default CPU device."""
        packing = _Packing.of(self.numbers)
        if packing is not None and self.key is not None:
            self.packing, self.key = packing, (*self.key, packing.shapes)
            self.numbers = packing.packed(self.numbers)

    def put_together(self, numbers):
        """Returns the argument with other numbers, which it takes from an iterator."""
        if self.packing is not None:
            numbers = iter(self.packing.unpacked(numbers))
        leaves = [next(numbers) if is_one else other for is_one, other in zip(self.are_numbers, self.rest)]
        return jax.tree.unflatten(self.structure, leaves)


class _Number:
    """An argument that is a single array, the most common case."""

    key = ("an array",)

    def __init__(self, value: jax.Array):
        self.numbers = [_plain(value)]

    def put_together(self, numbers):
        return next(numbers)


#: The minimum number of arrays for packing, and the maximum size of a packed array.
MANY, SMALL_ARRAY = 16, 1024


class _Packing(NamedTuple):
    """The layout of packed arrays: the small ones of each type concatenated in one array, the others unchanged."""

    shapes: tuple[tuple[tuple[int, ...], np.dtype], ...]
    groups: tuple[tuple[int, ...], ...]
    """The indices of the arrays that are packed together, by type."""

    @staticmethod
    def of(arrays: list) -> _Packing | None:
        """Returns None if little is gained, or if arrays are traced or not on the default CPU device."""
        if len(arrays) < MANY or not all(map(_is_at_home, arrays)):
            return None
        groups: dict[np.dtype, list[int]] = {}
        for place, x in enumerate(arrays):
            if x.size <= SMALL_ARRAY and isinstance(x.dtype, np.dtype):
                groups.setdefault(x.dtype, []).append(place)
        return _Packing(tuple((x.shape, x.dtype) for x in arrays), tuple(map(tuple, groups.values())))

    @property
    def others(self) -> list[int]:
        together = {place for places in self.groups for place in places}
        return [place for place in range(len(self.shapes)) if place not in together]

    def packed(self, arrays: list) -> list:
        rows = [np.concatenate([np.asarray(arrays[i]).reshape(-1) for i in places]) for places in self.groups]
        return [*map(jax.device_put, rows), *(arrays[i] for i in self.others)]

    def unpacked(self, numbers: Iterator) -> list:
        found = [None] * len(self.shapes)
        for places in self.groups:
            row, begin = next(numbers), 0
            for place in places:
                shape = self.shapes[place][0]
                end = begin + math.prod(shape)
                found[place], begin = row[begin:end].reshape(shape), end
        for place in self.others:
            found[place] = next(numbers)
        return found


def _is_at_home(x) -> bool:
    if isinstance(x, Tracer) or not isinstance(x, jax.Array) or x.committed:
        return False
    return (
        x.devices() == {jax.local_devices()[0]}
        and jax.default_backend() == "cpu"
        and getattr(jax.config, "jax_default_device", None) is None
    )


#: The flattened form of modules that still exist, by their id.
_apart: dict[int, tuple[weakref.ref, _Parts]] = {}


def _parts(value) -> _Parts | _Number:
    """Returns a flattened argument. Immutable modules are flattened once, since a model may carry hundreds of attachments."""
    if isinstance(value, jax.Array):
        return _Number(value)
    if not isinstance(value, eqx.Module):
        return _Parts(value)
    known = _apart.get(id(value))
    if known is not None and known[0]() is value:
        return known[1]
    parts, place = _Parts(value), id(value)
    if parts.settled:
        parts.pack()
        _apart[place] = weakref.ref(value, lambda gone: _let_go(place, gone)), parts
    return parts


def _let_go(place: int, gone: weakref.ref) -> None:
    known = _apart.get(place)
    if known is not None and known[0] is gone:  # no other module has the same id meanwhile
        del _apart[place]


def _ready(key: Hashable, make: Callable[[], Callable]) -> Callable:
    """Returns the function compiled under a key, or creates it."""
    global compilations
    with _lock:
        found = None if key is None else _known.get(key)
        if found is not None:
            _known.move_to_end(key)
            return found
        compilations += 1
    made = make()
    if key is None:
        return made
    with _lock:
        found = _known.setdefault(key, made)
        while len(_known) > KEPT:
            _known.popitem(last=False)
        return found


def forget() -> None:
    """Clears the caches of compiled functions, with all references."""
    with _lock:
        _known.clear()
        _apart.clear()


def _is_staged(args: tuple) -> bool:
    """Returns whether a call with these arguments becomes part of a program, and is not executed immediately."""
    if get_opaque_trace_state() == NOTHING_TRACED:
        return False
    if any(isinstance(x, DynamicJaxprTracer) for x in args):
        return True
    # Differentiation and batching execute operations that do not depend on them; tracing a program records everything.
    return isinstance(jax.numpy.zeros(()), Tracer)


def is_number(leaf) -> bool:
    """Returns whether a leaf is data, not structure."""
    return isinstance(leaf, jax.Array | np.ndarray | np.inexact | float | complex)


def _strongly(leaf, _):
    return jax.lax.convert_element_type(leaf, leaf.dtype)


def _plain(leaf):
    """Returns a leaf without a weak type, which would change the key of the same numbers."""
    if isinstance(leaf, jax.Array):
        return pick(leaf, (), _strongly) if getattr(leaf, "weak_type", False) else leaf
    return np.asarray(leaf, jax.dtypes.canonicalize_dtype(np.result_type(leaf)))


# Identity of arguments.


class Changeable(Exception):
    """Raised for an object whose contents may change unnoticed, so that a program compiled with it cannot be reused."""


class _Held:
    """A value compared by identity. The reference keeps the value alive, so that its id stays unique."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other) -> bool:
        return isinstance(other, _Held) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


#: Packages whose functions are compared by identity.
SETTLED = {
    "rbd_jax",
    "jax",
    "jaxlib",
    "numpy",
    "equinox",
    "optax",
    "diffrax",
    "lineax",
    "optimistix",
    "scipy",
}

#: Maximum size in bytes of an array that is compared by its numbers.
SMALL = 1 << 16


def identity(value: Any, seen: tuple = ()) -> Hashable:
    """Returns a key that is equal for values with the same behavior.

    A function is identified by its code, its defaults, its closure and the global names that it uses. So a function created
    again by the same line around the same values has the same key. The hash of an object whose class defines one is trusted:
    by Python's rules hashed values do not change.

    Raises:
      Changeable: The behavior cannot be determined, as for any other object.
    """
    deeper = (*seen, value)
    if value is None or isinstance(value, str | int | float | complex | bool | bytes | np.generic):
        return type(value), value
    if any(value is one for one in seen):  # a function that calls itself
        return "again"
    if isinstance(value, tuple | list):
        return type(value), tuple(identity(x, deeper) for x in value)
    if isinstance(value, dict):
        return dict, tuple((identity(k, deeper), identity(x, deeper)) for k, x in value.items())
    if isinstance(value, Tracer):
        raise Changeable
    if isinstance(value, np.ndarray) and value.nbytes <= SMALL:
        return np.ndarray, value.shape, value.dtype, value.tobytes()
    if isinstance(value, jax.Array | types.ModuleType | type | types.BuiltinFunctionType | np.ufunc):
        return _Held(value)
    if isinstance(value, functools.partial):
        return functools.partial, identity((value.func, value.args, value.keywords), deeper)
    if isinstance(value, types.MethodType):
        return types.MethodType, identity(value.__func__, deeper), identity(value.__self__, deeper)
    if (getattr(value, "__module__", None) or "").split(".")[0] in SETTLED and callable(value):
        return _Held(value)
    if isinstance(value, types.FunctionType):
        return _of_function(value, deeper)
    if isinstance(value, eqx.Module) or getattr(type(value), "__hash__", None) is not object.__hash__:
        try:
            hash(value)
        except TypeError:
            leaves, structure = jax.tree.flatten(value)
            if len(leaves) == 1 and leaves[0] is value:
                raise Changeable from None
            return structure, tuple(identity(leaf, deeper) for leaf in leaves)
        return type(value), value
    raise Changeable


def _of_function(function: types.FunctionType, seen: tuple) -> Hashable:
    cells = tuple(identity(_content(cell), seen) for cell in function.__closure__ or ())
    around = [
        function.__globals__[name] for name in _names(function.__code__) if name in function.__globals__
    ]
    defaults = function.__defaults__, function.__kwdefaults__
    return function.__code__, cells, tuple(identity(x, seen) for x in (*around, *defaults))


def _names(code: types.CodeType) -> list[str]:
    """Returns the names that a function uses, including its inner functions."""
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return [*code.co_names, *(name for one in inner for name in _names(one))]


def _content(cell):
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None
