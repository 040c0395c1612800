"""Serving the dashboard on a port of this machine."""

import contextlib
import socket
from collections.abc import Callable
from functools import partial

import uvicorn
from starlette.applications import Starlette

STOP_S = 1
"""Seconds that open streams are given when the server stops; without a limit uvicorn waits for every open page."""


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0: one that is free. Raises OSError where it can't."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=128)


def address_of(listener: socket.socket, token: str | None) -> str:
    """The address to open, with the token that it needs."""
    host, port = listener.getsockname()[:2]
    name = socket.gethostname() if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/" + (f"?token={token}" if token else "")


def tunnel_to(listener: socket.socket) -> str:
    """The command that makes the page reachable on another machine, at the same address."""
    host, port = listener.getsockname()[:2]
    return f"ssh -N -L {port}:{'127.0.0.1' if host in ('0.0.0.0', '::') else host}:{port} {socket.gethostname()}"


def serve(app: Starlette, listener: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until ctrl-C or SIGTERM; ``ready`` is called when requests are answered."""
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, timeout_graceful_shutdown=STOP_S, server_header=False, date_header=False,
    )  # fmt: skip
    server = _Announcing(config, ready, partial(setattr, app.state, "closing", True))
    with contextlib.suppress(KeyboardInterrupt):  # raised again by uvicorn once all is closed
        server.run(sockets=[listener])


class _Announcing(uvicorn.Server):
    """A server that says when it answers, and when it is about to stop, so that open streams end by themselves."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None], closing: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready
        self._closing = closing

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._closing()
        await super().shutdown(sockets)
