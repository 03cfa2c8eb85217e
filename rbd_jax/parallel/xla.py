"""XLA compiler options that the library's speed on a CPU depends on.

XLA can emit a complete loop as a single native function, but does so only for loops that access less than a kilobyte. The
traversals over a kinematic tree access some tens of kilobytes, those of their gradients some hundreds: compiled this way they
run up to ten times faster. XLA reads the option when JAX first uses the CPU, so it is set when the library is imported, if the
CPU has not been used yet.

Before jaxlib 0.11.1, XLA has two ways to emit fused operations. The older one compiles in two thirds of the time and runs as
fast, so it is selected there.

- User options in `XLA_FLAGS` are not changed.
- Once JAX has read the options, `XLA_FLAGS` is restored, so processes that are started later do not inherit them.
- `RBD_JAX_XLA_FLAGS=0` in the environment disables all of this.
"""

import logging
import os
import re
import warnings
from importlib.metadata import version

import jax.monitoring


OPTION = "xla_cpu_small_while_loop_byte_threshold"
THRESHOLD = 4 * 1024 * 1024
OPT_OUT = "RBD_JAX_XLA_FLAGS"

#: The option that selects how fused operations are emitted, and the version of jaxlib from which on XLA has one way only. XLA
#: ends a process with an unknown option.
EMITTERS, GONE = "xla_cpu_use_fusion_emitters", (0, 11, 1)

_EXTRA = re.compile(r"--xla_backend_extra_options=(\S*)")
_notes: list[str] = []


def prepare() -> None:
    """Sets the options, unless they are set, disabled, or too late; in the last case it emits a warning."""
    if os.environ.get(OPT_OUT) == "0":
        return _note(f"{OPTION} left alone, as {OPT_OUT}=0 asks")
    before = os.environ.get("XLA_FLAGS")
    flags = before or ""
    if EMITTERS not in flags and has_emitters() and not backend_in_use():
        flags = f"{flags} --{EMITTERS}=false".strip()
        _set(flags, before)
    if OPTION in flags:
        return _note(f"{OPTION} left as XLA_FLAGS has it")
    if backend_in_use():
        _note(f"{OPTION} not set: JAX was in use before rbd_jax was imported")
        warnings.warn(
            "JAX was in use before rbd_jax was imported, too late to set the compiler option that makes rbd_jax fast on a "
            f"CPU. Import rbd_jax first, or set XLA_FLAGS=--xla_backend_extra_options={OPTION}={THRESHOLD}",
            RuntimeWarning,
            stacklevel=3,
        )
        return None
    setting = f"{OPTION}={THRESHOLD}"
    if _EXTRA.search(flags):
        flags = _EXTRA.sub(lambda match: f"{match.group(0)},{setting}", flags, count=1)
    else:
        flags = f"{flags} --xla_backend_extra_options={setting}".strip()
    _set(flags, before)
    return _note(f"set XLA_FLAGS to {flags!r} ({OPT_OUT}=0 to opt out)")


def _set(flags: str, before: str | None) -> None:
    """Sets the options until JAX has read them."""
    os.environ["XLA_FLAGS"] = flags

    def restore(event: str, duration_secs: float, **_: str | int) -> None:
        if os.environ.get("XLA_FLAGS") != flags or not backend_in_use():
            return
        if before is None:
            del os.environ["XLA_FLAGS"]
        else:
            os.environ["XLA_FLAGS"] = before

    jax.monitoring.register_event_duration_secs_listener(restore)


def has_emitters() -> bool:
    """Returns whether the installed XLA has the choice of how fused operations are emitted."""
    installed = re.findall(r"\d+", version("jaxlib"))[:3]
    return tuple(map(int, installed)) < GONE


def xla_note() -> str:
    """Reports what was done about the compiler option when the library was imported.

    >>> print(isinstance(rbd.parallel.xla_note(), str))
    True
    """
    return _notes[-1] if _notes else ""


def _note(text: str) -> None:
    _notes.append(text)
    logging.getLogger("rbd_jax").info(text)


def backend_in_use() -> bool:
    """Returns whether JAX has started a backend, and so has read the options. JAX has no public function for this."""
    try:
        from jax._src.xla_bridge import backends_are_initialized
    except ImportError:
        return False
    return backends_are_initialized()
