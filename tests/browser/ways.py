"""Ways to a server from elsewhere: a tunnel that carries bytes, as ``ssh -L`` does, and a proxy that answers below a prefix."""

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


@contextmanager
def tunnel(address: str) -> Iterator[str]:
    """The same pages at another port of ``localhost``: the server sees that port in Host and Origin."""
    to = urlsplit(address)
    with socket.create_server(("127.0.0.1", 0)) as door:
        threading.Thread(target=_carry_all, args=(door, (to.hostname, to.port)), daemon=True).start()
        yield f"http://localhost:{door.getsockname()[1]}{to.path}"


@contextmanager
def proxy(address: str, prefix: str) -> Iterator[str]:
    """The same pages below ``prefix``, which the server never sees."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"  # a connection for each request, so that an answer may be a stream
        upstream = urlsplit(address)

        def do_GET(self) -> None:
            assert self.path.startswith(prefix)
            there = http.client.HTTPConnection(str(self.upstream.hostname), self.upstream.port)
            body = self.rfile.read(int(self.headers.get("content-length", 0))) or None
            there.request(self.command, self.path.removeprefix(prefix), body, dict(self.headers))
            answer = there.getresponse()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "connection", "date", "server"):
                    self.send_header(name, value)
            self.end_headers()
            try:
                while part := answer.read1(65536):
                    self.wfile.write(part)
                    self.wfile.flush()
            except OSError:  # the browser has left the page
                there.close()

        do_POST = do_GET  # noqa: N815  (the name that http.server calls)

        def log_request(self, *_: object) -> None:
            """Nothing: pytest shows failures."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://localhost:{server.server_port}{prefix}/"
    finally:
        server.shutdown()
        server.server_close()


def _carry_all(door: socket.socket, to: tuple[str | None, int | None]) -> None:
    while True:
        try:
            near, _ = door.accept()
        except OSError:  # the tunnel is closed
            return
        far = socket.create_connection((str(to[0]), int(to[1] or 80)))
        for source, target in ((near, far), (far, near)):
            threading.Thread(target=_carry, args=(source, target), daemon=True).start()


def _carry(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        target.close()
