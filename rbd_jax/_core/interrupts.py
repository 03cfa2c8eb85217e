"""Handling of Ctrl-C on the command line: one line on stderr, the exit code 130, and no partial files.

Python's default, an exception in the main thread, is not suitable for a process that compiles. It comes late, once the
compiler returns to Python. It is discarded where C++ has called Python. The process then exits normally while JAX's threads
are running, which often causes a segmentation fault. So a dedicated thread receives the signal, cleans up, and ends the
process immediately. Programs that use the library keep Python's default.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator


#: Cleanup functions, the latest last; a returned string is added to the message.
_left: list[Callable[[], object]] = []

_watching = False


def watch_command_line() -> None:
    """Calls `watch` if this process is the command line: `python -m rbd_jax`, or the program `rbd-jax`.

    It is called when the package is imported, because imports take most of the time before the command starts.
    """
    program = os.path.splitext(os.path.basename(sys.argv[0]))[0] if sys.argv else ""
    # While Python resolves the module of -m, the program's name is "-m".
    if program == "rbd-jax" or (program == "-m" and "rbd_jax" in sys.orig_argv):
        watch()


def watch() -> None:
    """Installs the SIGINT handling described above. It changes nothing if SIGINT is ignored or handled by others."""
    global _watching
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return
    import socket

    ear, mouth = socket.socketpair()
    mouth.setblocking(False)

    def stand_still(number, frame) -> None:
        """Stops the main thread once it returns to Python."""
        with contextlib.suppress(BlockingIOError):
            mouth.send(bytes([number]))
        threading.Event().wait()

    threading.Thread(target=_end_when_told, args=(ear,), name="rbd-jax interrupts", daemon=True).start()
    signal.signal(signal.SIGINT, stand_still)
    signal.set_wakeup_fd(mouth.fileno(), warn_on_full_buffer=False)  # wakes the thread immediately
    _watching = True


def over() -> None:
    """Ignores SIGINT from now on: the command has ended, and its exit code must not change."""
    if _watching:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextlib.contextmanager
def clearing_up(clear: Callable[[], object]) -> Iterator[None]:
    """Returns a context manager within which an interrupt also calls `clear`.

    `clear` must not wait for a lock, since the main thread may hold it. A string that it returns is added to the message about
    the interrupt.
    """
    _left.append(clear)
    try:
        yield
    finally:
        _left.remove(clear)


def _end_when_told(ear) -> None:
    """Waits for the signal's number, cleans up, and ends the process."""
    while signal.SIGINT not in ear.recv(64):
        pass
    try:
        said = ["rbd-jax: interrupted"]
        for clear in reversed(_left.copy()):
            with contextlib.suppress(OSError):
                words = clear()
                said += [words] if isinstance(words, str) else []
        os.write(2, ("; ".join(said) + "\n").encode(errors="replace"))
    finally:
        os._exit(130)
