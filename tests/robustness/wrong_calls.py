"""Public functions called with a wrong argument: each raises a clear error, or the argument is acceptable."""

from __future__ import annotations

import inspect
import itertools
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import rbd_jax as rbd


MODEL = rbd.load("double_pendulum")
Q, V = jax.device_put((np.array([0.1, 0.2]), np.array([0.3, 0.4])))

#: Valid arguments by name.
RIGHT: dict[str, Any] = {
    "model": MODEL,
    **dict.fromkeys(("q", "q0", "q1"), Q),
    **dict.fromkeys(("v", "a", "tau", "dv", "control", "x"), V),
    "rhs": jax.device_put(np.eye(2)),
    "body": "lower",
    "state": rbd.State(Q, V),
    "states": rbd.State(*jax.device_put((np.stack([Q, Q]), np.stack([V, V])))),
    "dt": 0.01,
    "steps": 4,
    "count": 3,
    **dict.fromkeys(("time", "t"), 0.0),
    "key": jax.random.key(0),
    "controls": jax.device_put(np.zeros((4, 2))),
    "point": jax.device_put(np.zeros(3)),
    "frame": "world",
    "function": lambda model, q: rbd.mass_matrix(model, q),
    "dtype": jnp.float32,
    "traversal": "levels",
}

#: Values that replace them, some of which are valid by chance.
WRONG: tuple[Any, ...] = (
    None, "x", "", "lower", b"x", 3, -3, -1.5, 2**70, 10**400, True, float("nan"), float("inf"), object(), type,
    np.zeros(3), np.zeros((2, 2)), *jax.device_put((np.zeros(0), np.zeros(2, np.int32), np.zeros((2, 3, 2)))), np.float16([1, 2]),
    np.array([1 + 2j, 2]), np.array(["a", "b"]), np.array([np.nan, 1.0]), np.array([np.inf, 1.0]),
    [1, "a"], [1.0, 2.0], [[1, 2], [3]], (), {}, rbd.load("pendulum"), rbd.State(*jax.device_put((np.zeros(1), np.zeros(1)))),
    rbd.State, lambda: 1,
)  # fmt: skip

#: Public functions that take a function or a model and return another; other tests cover them.
OTHERS = "checked", "view", "plot", "shard", "batch_map", "specialize"

#: Error types with a message about the argument.
TELLING = ValueError, TypeError, IndexError, KeyError, ImportError, OSError


class Call(NamedTuple):
    """A function, an argument, and the index of its wrong value."""

    name: str
    argument: str
    wrong: int

    def __str__(self) -> str:
        return f"rbd.{self.name}({self.argument}={str(WRONG[self.wrong])[:30]!r})"


def functions() -> Iterator[tuple[str, Callable, list[str]]]:
    """Yields the public functions with known arguments, and the names of their required arguments."""
    for name in sorted(rbd.__all__):
        function = getattr(rbd, name)
        if (
            inspect.isclass(function)
            or inspect.ismodule(function)
            or not callable(function)
            or name in OTHERS
        ):
            continue
        parameters = [
            one
            for one in inspect.signature(function).parameters.values()
            if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
        ]
        needed = [one.name for one in parameters if one.default is one.empty]
        if all(one in RIGHT for one in needed):
            yield name, function, [one.name for one in parameters]


def calls() -> list[Call]:
    """Returns all calls."""
    return [
        Call(name, argument, wrong)
        for (name, _, arguments) in functions()
        for argument, wrong in itertools.product(arguments, range(len(WRONG)))
    ]


def fault_of(*calls: Call) -> str | None:
    """Returns the fault of the answer to a call with all wrong arguments, or None.

    An empty message or an error from another library is a fault.
    """
    function = getattr(rbd, calls[0].name)
    needed = [
        name
        for name, one in inspect.signature(function).parameters.items()
        if one.default is one.empty and one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
    ]
    given = {name: RIGHT[name] for name in needed} | {call.argument: WRONG[call.wrong] for call in calls}
    arrays, rest = eqx.partition(given, lambda x: isinstance(x, jax.Array))

    def called(arrays):
        found = function(**eqx.combine(arrays, rest))
        return eqx.filter(found, eqx.is_array)

    try:
        # Promotion as for users, less strict than in other tests.
        usual = jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow")
        with warnings.catch_warnings(), usual[0], usual[1]:
            warnings.simplefilter("ignore")
            jax.eval_shape(called, arrays)  # arrays are traced, nothing is computed
    except TELLING as error:
        if not str(error):
            return f"a {type(error).__name__} without a word"
        where = traceback.extract_tb(error.__traceback__)[-1].filename
        if any(call.argument == "function" and WRONG[call.wrong] is rbd.State for call in calls):
            return None  # the called function was the wrong argument itself
        if "rbd_jax" not in where and not isinstance(error, ImportError):
            return f"{type(error).__name__} of {where.rpartition('site-packages/')[2]}: {str(error)[:120]}"
    except Exception as error:  # any other type is a fault
        return f"{type(error).__name__}: {str(error)[:120]}"
    return None
