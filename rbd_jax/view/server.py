"""The server that a browser is shown a model by: viser's, on a port that is free, and quiet."""

from __future__ import annotations

import atexit
import contextlib
import errno
import io
import socket
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    import viser


#: Where ports are tried from, and how many.
FIRST, TRIED = 8080, 100


def serve(owner: str, host: str, port: int | None, label: str) -> viser.ViserServer:
    """A server on a host and a port, by default the first one that is free from 8080 on. One that is in use is refused."""
    try:
        import viser
    except ImportError:
        raise ImportError(f"{owner} needs viser: pip install 'rbd_jax[view]'") from None
    chosen = _port(owner, host, port)
    with _quiet():
        # Of "localhost", which is two addresses where there is IPv6, viser would have to get both.
        server = viser.ViserServer(
            "127.0.0.1" if host == "localhost" else host, chosen, label=label, verbose=False
        )
    if port is not None and server.get_port() != port:  # taken in between: viser goes on to the next
        stop(server)
        raise _in_use(owner, host, port)
    atexit.unregister(server.stop)  # which has words; who has asked for the server ends it
    # Nobody is let in from outside, by a click or by a page that asks: viser would open a tunnel.
    server.request_share_url = lambda verbose=True: None
    server.gui.configure_theme(show_share_button=False, show_logo=False, control_width="medium")
    return server


def stop(server: viser.ViserServer) -> None:
    """End a server, without its words."""
    with _quiet():
        server.stop()


def address(host: str, port: int) -> str:
    """What to type into a browser."""
    name = "localhost" if host in ("127.0.0.1", "0.0.0.0", "::", "::1") else host
    return f"http://{name}:{port}"


def _port(owner: str, host: str, port: int | None) -> int:
    if port is not None and (isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 2**16):
        raise ValueError(
            f"{owner}: port is {port!r}; it is a whole number from 1 to 65535, or None for one that is free"
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
    """Why a port cannot be listened on; at any of the addresses that a browser may find the host at."""
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
