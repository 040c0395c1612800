"""Serving the dashboard on a port of this machine."""

import socket
from collections.abc import Callable

import uvicorn
from starlette.types import ASGIApp

STOP_S = 1
"""Seconds that open streams are given when the server stops; without a limit uvicorn waits for every open page."""


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0: one that is free. Raises OSError where it can't."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=128)


def serve(app: ASGIApp, listener: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until ctrl-C or SIGTERM; ``ready`` is called when requests are answered."""
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, timeout_graceful_shutdown=STOP_S, server_header=False, date_header=False,
    )  # fmt: skip
    server = _Announcing(config, ready)
    server.run(sockets=[listener])


class _Announcing(uvicorn.Server):
    """A server that says when it answers."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()
