"""What Ctrl-C does to the command line: one line on stderr, the exit code 130, and no half of a file.

Python's own answer, an exception in the main thread, will not do for a process that compiles. It comes late, once the compiler
is back in Python; it is lost where C++ has called Python; and the process then ends in the ordinary way while JAX's threads are
at work, often in a segmentation fault. So a thread that does nothing else hears of the signal, clears up, and ends the process on
the spot. Programs that use the library keep Python's answer.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator


#: What is to be cleared up, the latest last; what it returns, if words, is said.
_left: list[Callable[[], object]] = []

_watching = False


def watch_command_line() -> None:
    """`watch`, if this process is the command line: `python -m rbd_jax`, or the program `rbd-jax`.

    Asked when the package is imported, since most of the time before the command begins is spent on that.
    """
    program = os.path.splitext(os.path.basename(sys.argv[0]))[0] if sys.argv else ""
    # While Python looks for the module that -m names, the program's name is "-m".
    if program == "rbd-jax" or (program == "-m" and "rbd_jax" in sys.orig_argv):
        watch()


def watch() -> None:
    """From now on SIGINT ends this process as said above. Nothing changes where it is ignored, or where others handle it."""
    global _watching
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return
    import socket

    ear, mouth = socket.socketpair()
    mouth.setblocking(False)

    def stand_still(number, frame) -> None:
        """What the main thread does as soon as it is back in Python: nothing more."""
        with contextlib.suppress(BlockingIOError):
            mouth.send(bytes([number]))
        threading.Event().wait()

    threading.Thread(target=_end_when_told, args=(ear,), name="rbd-jax interrupts", daemon=True).start()
    signal.signal(signal.SIGINT, stand_still)
    signal.set_wakeup_fd(mouth.fileno(), warn_on_full_buffer=False)  # tells the thread at once
    _watching = True


def over() -> None:
    """The command has ended: there is nothing left to interrupt, and its exit code stands."""
    if _watching:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextlib.contextmanager
def clearing_up(clear: Callable[[], object]) -> Iterator[None]:
    """Within the block an interrupt also calls `clear`, which must not wait for a lock: the main thread may have it.

    If `clear` returns words, they are said in the line that says that the command was interrupted.
    """
    _left.append(clear)
    try:
        yield
    finally:
        _left.remove(clear)


def _end_when_told(ear) -> None:
    """Wait for the signal's number, clear up, and end the process."""
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
