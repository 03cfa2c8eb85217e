"""What depends on the versions of JAX, XLA and llvmlite: layouts that are not public, and the versions that were tested."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


#: The lowest and the highest version of each package with which all tests of kernels passed.
TESTED = {"jax": ("0.9", "0.12"), "jaxlib": ("0.9", "0.12"), "llvmlite": ("0.45", "0.50")}

#: Where things lie in what XLA hands over (`xla/ffi/api/c_api.h`, version 0): of a call its interface, context, extension,
#: arguments and results, of a buffer its numbers and sides, of an extension its kind and the metadata, of these the version.
INTERFACE, CONTEXT, EXTENSION, ARGUMENTS, RESULTS = 16, 24, 8, 72, 112
DATA, SIDES, KIND, METADATA, MAJOR, MINOR = 24, 40, 8, 24, 24, 28

#: Of the interface: what destroys an error, what schedules a task, and what tells the number of threads.
DESTROY, SCHEDULE, THREADS = 64, 136, 144


def versions() -> dict[str, str]:
    """Those that are installed."""
    found = {}
    for name in TESTED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def untested(installed: dict[str, str]) -> list[str]:
    """What is installed in another version than was tested, in words."""
    return [
        f"{name} {installed[name]} (tested: {low} to {high})"
        for name, (low, high) in TESTED.items()
        if name in installed and not _numbers(low) <= _numbers(installed[name])[:2] <= _numbers(high)
    ]


def _numbers(text: str) -> tuple[int, int]:
    """Major and minor version."""
    major, minor, *_ = (*text.split("."), "0")
    digits = lambda part: int("".join(c for c in part if c.isdigit()) or 0)
    return digits(major), digits(minor)
