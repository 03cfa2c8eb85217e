"""The viser server that shows a model in a browser, on a free port and without console output."""

from __future__ import annotations

import atexit
import contextlib
import errno
import io
import socket
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    import viser


#: The first port to try, and the number of ports.
FIRST, TRIED = 8080, 100


def serve(owner: str, host: str, port: int | None, label: str) -> viser.ViserServer:
    """Returns a server on a host and a port, by default the first free port from 8080.

    It raises an OSError if the port is in use.
    """
    try:
        import viser
    except ImportError:
        raise ImportError(f"{owner} needs viser: pip install 'rbd_jax[view]'") from None
    chosen = _port(owner, host, port)
    with _quiet():
        # With IPv6, "localhost" has two addresses, and viser would need the port on both.
        server = viser.ViserServer(
            "127.0.0.1" if host == "localhost" else host, chosen, label=label, verbose=False
        )
    if port is not None and server.get_port() != port:  # another process took it, so viser used the next one
        stop(server)
        raise _in_use(owner, host, port)
    atexit.unregister(server.stop)  # this handler prints; the owner stops the server
    # Prevents access from outside: viser would open a tunnel on request of a page.
    server.request_share_url = lambda verbose=True: None
    server.gui.configure_theme(show_share_button=False, show_logo=False, control_width="medium")
    return server


def stop(server: viser.ViserServer) -> None:
    """Stops a server without console output."""
    with _quiet():
        server.stop()


def address(host: str, port: int) -> str:
    """Returns the URL for a browser."""
    name = "localhost" if host in ("127.0.0.1", "0.0.0.0", "::", "::1") else host
    return f"http://{name}:{port}"


def _port(owner: str, host: str, port: int | None) -> int:
    if port is not None and (isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 2**16):
        raise ValueError(
            f"{owner}: port is {port!r}; it must be a whole number from 1 to 65535, or None for a free one"
        )
    trouble = _trouble(host, FIRST if port is None else port)
    if port is None:
        for tried in range(FIRST, FIRST + TRIED):
            if _trouble(host, tried) is None:
                return tried
        assert trouble is not None
        port = FIRST
    if trouble is None:
        return port
    if trouble.errno == errno.EADDRINUSE:
        raise _in_use(owner, host, port)
    why = trouble.strerror or str(trouble)
    raise _error(trouble.errno, f"{owner}: cannot serve on {host!r}, port {port}: {why}")


def _in_use(owner: str, host: str, port: int) -> OSError:
    free = next((tried for tried in range(port + 1, 2**16) if _trouble(host, tried) is None), None)
    offer = "" if free is None else f"; {free} is free: port={free}, or leave port out"
    return _error(errno.EADDRINUSE, f"{owner}: port {port} is in use{offer}")


def _error(number: int | None, message: str) -> OSError:
    error = OSError(message)
    error.errno = number
    return error


def _trouble(host: str, port: int) -> OSError | None:
    """Returns the reason why a port is not available at one of the addresses of the host; None if it is available."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        return error
    trouble, good = None, False
    for family, kind, protocol, _, where in dict.fromkeys(found):
        try:
            with socket.socket(family, kind, protocol) as one:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                one.bind(where)
                one.listen(1)
            good = True
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return error
            trouble = error  # such as no IPv6 on this machine
    return None if good else trouble


def _quiet():
    return contextlib.redirect_stdout(io.StringIO())
