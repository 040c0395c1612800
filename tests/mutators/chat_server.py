"""An OpenAI-compatible server that does what a test tells it to, one instruction a request."""

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

Play = Callable[["Handler", Mapping[str, Any]], None]
USAGE = {"prompt_tokens": 40, "completion_tokens": 20, "total_tokens": 60}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request as it came."""

    body: Mapping[str, Any]
    headers: Mapping[str, str]


@dataclass
class Handled:
    """What the server has seen, and what it is to do next; the last instruction is repeated."""

    plays: list[Play]
    requests: list[Request] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    under_way: int = 0
    most_under_way: int = 0
    release: threading.Event = field(default_factory=threading.Event)


class Handler(BaseHTTPRequestHandler):
    """Answers POST /v1/chat/completions."""

    protocol_version = "HTTP/1.1"
    server: "_Server"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        handled = self.server.handled
        with handled.lock:
            handled.requests.append(Request(body=body, headers={name.lower(): value for name, value in self.headers.items()}))
            play = handled.plays.pop(0) if len(handled.plays) > 1 else handled.plays[0]
            handled.under_way += 1
            handled.most_under_way = max(handled.most_under_way, handled.under_way)
        try:
            play(self, body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        finally:
            with handled.lock:
                handled.under_way -= 1

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def reply(self, status: int, content: bytes, kind: str = "application/json", headers: Iterable[tuple[str, str]] = ()) -> None:
        self.send_response(status)
        for name, value in [("Content-Type", kind), ("Content-Length", str(len(content))), *headers]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def begin(self) -> None:
        """Start a stream that ends with the connection."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True

    def event(self, data: object) -> None:
        self.wfile.write(f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode())
        self.wfile.flush()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    handled: Handled


class ChatServer:
    """The server on a free port of this machine, as a context manager."""

    def __init__(self, *plays: Play) -> None:
        self.handled = Handled(plays=list(plays))
        self._server = _Server(("127.0.0.1", 0), Handler)
        self._server.handled = self.handled
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.handled.release.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def bodies(self) -> Sequence[Mapping[str, Any]]:
        return [request.body for request in self.handled.requests]


def chunk(finish: str | None = None, **delta: object) -> dict[str, object]:
    return {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def says(text: str, *, usage: object = USAGE, finish: str = "stop", **more: object) -> Play:
    """A good answer: streamed in three pieces, or whole where the request doesn't ask for a stream."""

    def play(handler: Handler, body: Mapping[str, Any]) -> None:
        if not body.get("stream"):
            message = {"role": "assistant", "content": text, **more}
            choice = {"index": 0, "message": message, "finish_reason": finish}
            handler.reply(200, json.dumps({"choices": [choice], "usage": usage}).encode())
            return
        handler.begin()
        third = max(1, len(text) // 3)
        handler.wfile.write(b": keep-alive\n\n")
        handler.event(chunk(role="assistant", **more))
        for start in range(0, len(text), third):
            handler.event(chunk(content=text[start : start + third]))
        handler.event(chunk(finish))
        if body.get("stream_options", {}).get("include_usage") and usage is not None:
            handler.event({"choices": [], "usage": usage})
        handler.event("[DONE]")

    return play


def fails(
    status: int, message: str = "no", *, param: str | None = None, headers: Iterable[tuple[str, str]] = (), code: str = ""
) -> Play:
    """An HTTP error in the form that OpenAI gives it."""
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code or None}
    return lambda handler, body: handler.reply(status, json.dumps({"error": error}).encode(), headers=headers)


def refuses_parameter(name: str, answer: str) -> Play:
    """An error as long as the request holds a parameter."""

    def play(handler: Handler, body: Mapping[str, Any]) -> None:
        if name in body and body[name] is not False:
            fails(400, f"Unsupported parameter: '{name}' is not supported with this model.", param=name)(handler, body)
        else:
            says(answer)(handler, body)

    return play


def validates(allowed: Sequence[str], answer: str) -> Play:
    """A strict server that answers 422 in pydantic's form."""

    def play(handler: Handler, body: Mapping[str, Any]) -> None:
        extra = [name for name in body if name not in allowed]
        if extra:
            detail = [{"type": "extra_forbidden", "loc": ["body", extra[0]], "msg": "Extra inputs are not permitted"}]
            handler.reply(422, json.dumps({"detail": detail}).encode())
        else:
            says(answer)(handler, body)

    return play


def stalls(before: str = "") -> Play:
    """A stream that says something and then nothing more."""

    def play(handler: Handler, body: Mapping[str, Any]) -> None:
        handler.begin()
        if before:
            handler.event(chunk(content=before))
        handler.server.handled.release.wait(30)

    return play


def silent(handler: Handler, body: Mapping[str, Any]) -> None:
    """Not even a status line."""
    handler.server.handled.release.wait(30)
    handler.close_connection = True


def trickles(handler: Handler, body: Mapping[str, Any]) -> None:
    """A stream of comments that never comes to an end."""
    handler.begin()
    while not handler.server.handled.release.is_set():
        handler.wfile.write(b": still here\n\n")
        handler.wfile.flush()
        time.sleep(0.02)


def slow(text: str, pause_s: float) -> Play:
    """A good answer, one character at a time."""

    def play(handler: Handler, body: Mapping[str, Any]) -> None:
        handler.begin()
        for letter in text:
            handler.event(chunk(content=letter))
            time.sleep(pause_s)
        handler.event(chunk("stop"))
        handler.event({"choices": [], "usage": USAGE})
        handler.event("[DONE]")

    return play


def endless(handler: Handler, body: Mapping[str, Any]) -> None:
    """A server that knows no limit on its answers."""
    handler.begin()
    while not handler.server.handled.release.is_set():
        handler.event(chunk(content="int a;" * 200))


def wordy(text: str) -> Play:
    """A good answer in events that are each much longer than what they say."""

    def play(handler: Handler, body: Mapping[str, Any]) -> None:
        handler.begin()
        for letter in text:
            handler.event(chunk(content=letter) | {"id": "x" * 900})
        handler.event(chunk("stop") | {"usage": USAGE})

    return play


def hangs_up(handler: Handler, body: Mapping[str, Any]) -> None:
    """The connection ends before a reply."""
    handler.close_connection = True
    handler.connection.close()


def cut(text: str) -> Play:
    """A stream that ends in the middle of an answer."""

    def play(handler: Handler, body: Mapping[str, Any]) -> None:
        handler.begin()
        handler.event(chunk(content=text))

    return play


def short_body(handler: Handler, body: Mapping[str, Any]) -> None:
    """A whole reply of which the second half is missing."""
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [{"index": 0, "mess')
    handler.close_connection = True


def broken_json(handler: Handler, body: Mapping[str, Any]) -> None:
    handler.begin()
    handler.event('{"choices": [{"index": 0, "delta": {"content": "int a')
    handler.event("[DONE]")


def error_in_stream(handler: Handler, body: Mapping[str, Any]) -> None:
    handler.begin()
    handler.event(chunk(content="int"))
    handler.event({"error": {"message": "the engine died", "code": 500}})


def page(handler: Handler, body: Mapping[str, Any]) -> None:
    """What a proxy sends instead of the server's reply."""
    handler.reply(200, b"<html>Welcome</html>", "text/html")
