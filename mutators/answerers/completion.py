"""One call to the chat completions of an OpenAI-compatible server, read as it streams in."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from mutators.answerers.retry import Failure, Trouble, of_status
from mutators.answerers.usage import Price

if TYPE_CHECKING:
    from openai import OpenAI

CONNECT_S = 15.0
MOST_BYTES_PER_TOKEN_SENT = 64
"""An answer longer than this for each token that was allowed is cut there: the server doesn't keep to the limit."""

MOST_BODY_BYTES = 256 * 1024 * 1024
"""No reply is read beyond this."""

FIXED = frozenset({"model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "n"})
"""Parameters that we set ourselves."""

_TELLS = (
    "Lang",
    "Package-Version",
    "OS",
    "Arch",
    "Runtime",
    "Runtime-Version",
    "Async",
    "Retry-Count",
    "Read-Timeout",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A language model on a server.

    ``name`` is what this run calls it, ``served_as`` what its server does; ``base_url`` usually ends in /v1. ``key`` is sent as
    a bearer token and shown nowhere. ``parameters`` go into every request (temperature, reasoning effort...).
    """

    name: str
    served_as: str
    base_url: str
    key: str | None = field(default=None, repr=False)
    price: Price = field(default_factory=Price)
    parameters: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came back. ``failure`` None: ``text`` is an answer, complete or cut at the token limit.

    ``answer_bytes`` counts reasoning too, which is kept out of ``text``; ``reported`` are the server's prompt and answer tokens
    as it gave them; ``billed``: the server may have worked for this call.
    """

    text: str = ""
    answer_bytes: int = 0
    reported: tuple[object, object] = (None, None)
    billed: bool = True
    failure: Failure | None = None


class Completion:
    """Calls one model, from any number of threads; remembers the parameters that it doesn't take."""

    def __init__(self, model: Model, client: "OpenAI", max_answer_tokens: int, clock: Callable[[], float]) -> None:
        self._model = model
        self._client = client
        self._max_answer_tokens = max_answer_tokens
        self._clock = clock
        self._lock = threading.Lock()
        self._dropped: set[str] = set()

    def drop(self, parameter: str) -> bool:
        """Leave a parameter out from now on; False where another thread already said so."""
        with self._lock:
            new = parameter not in self._dropped
            self._dropped.add(parameter)
            return new

    def ask(self, prompt: str, *, stall_s: float, deadline_s: float) -> Reply:
        """The reply to a prompt; no more than ``stall_s`` pass without a byte, no more than ``deadline_s`` in all."""
        import openai

        optional = self._optional()
        began = self._clock()
        try:
            raw = self._client.chat.completions.with_raw_response.create(
                model=self._model.served_as,
                messages=[{"role": "user", "content": prompt}],
                stream=True,
                extra_body=optional,
                extra_headers=self._headers(),
                timeout=openai.Timeout(min(stall_s, deadline_s), connect=min(CONNECT_S, deadline_s)),
            )
        except openai.APIStatusError as error:
            headers = {name.lower(): value for name, value in error.response.headers.items()}
            failure = of_status(error.status_code, headers, error.body, list(optional), lambda: datetime.now(UTC))
            return Reply(failure=self._scrubbed(failure), billed=False)
        except openai.APITimeoutError:
            return Reply(failure=Failure(trouble=Trouble.STALLED, text=f"no reply within {min(stall_s, deadline_s):.0f} s"))
        except openai.APIError as error:
            return Reply(failure=self._scrubbed(Failure(trouble=Trouble.CONNECTION, text=_cause(error))), billed=False)
        response = raw.http_response
        try:
            return self._read(response.headers.get("content-type", ""), response.iter_bytes(), began + deadline_s)
        finally:
            response.close()

    def _optional(self) -> dict[str, object]:
        """The parameters that a server may not know."""
        with self._lock:
            dropped = set(self._dropped)
        limit = "max_completion_tokens" if "max_tokens" in dropped else "max_tokens"
        known = {**self._model.parameters, limit: self._max_answer_tokens}
        if "stream" in dropped:
            return {"stream": False} | {name: value for name, value in known.items() if name not in dropped}
        known |= {"stream": True, "stream_options": {"include_usage": True}}
        return {name: value for name, value in known.items() if name not in dropped}

    def _headers(self) -> Mapping[str, Any]:
        """What the client package would add by itself and nobody needs to know is left out."""
        from openai import Omit

        silent = ["OpenAI-Organization", "OpenAI-Project", *(f"X-Stainless-{name}" for name in _TELLS)]
        if self._model.key is None:
            silent.append("Authorization")
        return dict.fromkeys(silent, Omit())

    def _read(self, content_type: str, chunks: Iterator[bytes], deadline: float) -> Reply:
        streamed = "event-stream" in content_type
        gathered = _Gathered(streamed)
        failure = None
        try:
            for chunk in chunks:
                gathered.take(chunk)
                gathered.done = gathered.done or gathered.answer_bytes > MOST_BYTES_PER_TOKEN_SENT * self._max_answer_tokens
                if gathered.done:
                    break
                if gathered.size > MOST_BODY_BYTES:
                    failure = Failure(trouble=Trouble.MALFORMED, text=f"a reply over {MOST_BODY_BYTES} bytes")
                    break
                if self._clock() > deadline:
                    failure = Failure(trouble=Trouble.STALLED, text="the answer didn't end in time")
                    break
            gathered.end()
        except ValueError as error:
            failure = Failure(trouble=Trouble.MALFORMED, text=f"not JSON where JSON was expected ({error})")
        except Exception as error:
            failure = _broken(error)
        return gathered.reply(self._scrubbed(failure or gathered.failure))

    def _scrubbed(self, failure: Failure | None) -> Failure | None:
        """The failure without the key, which some servers repeat."""
        key = self._model.key
        if failure is None or not key or key not in failure.text:
            return failure
        text = failure.text.replace(key, "[key]")
        return Failure(trouble=failure.trouble, text=text, wait_s=failure.wait_s, parameter=failure.parameter)


class _Gathered:
    """What has come in of one reply: events of a stream, or one JSON document."""

    def __init__(self, streamed: bool) -> None:
        self._streamed = streamed
        self._rest = b""
        self._text: list[str] = []
        self._thoughts = 0
        self._finish: object = None
        self._usage: Mapping[str, object] = {}
        self._refusal = False
        self.size = 0
        self.answer_bytes = 0
        self.done = False
        self.failure: Failure | None = None

    def take(self, chunk: bytes) -> None:
        """One piece of the body, of any length."""
        self.size += len(chunk)
        self._rest += chunk
        if self._streamed:
            *lines, self._rest = self._rest.split(b"\n")
            for line in lines:
                self._line(line.rstrip(b"\r"))

    def end(self) -> None:
        """The body is over."""
        if self._streamed:
            self._line(self._rest.rstrip(b"\r"))
        else:
            self._document(json.loads(self._rest))
        if self.failure is not None:
            return
        if self._finish is None and not self.done:
            self.failure = Failure(trouble=Trouble.CONNECTION, text="the reply ends in the middle")
        elif self._finish == "content_filter" or self._refusal:
            self.failure = Failure(trouble=Trouble.FILTERED, text="the server withheld the answer")
        elif not "".join(self._text).strip():
            self.failure = Failure(trouble=Trouble.EMPTY, text="reasoning but no answer" if self._thoughts else "no text came")

    def reply(self, failure: Failure | None) -> Reply:
        """Everything together."""
        return Reply(
            text="".join(self._text),
            answer_bytes=self.answer_bytes,
            reported=(self._usage.get("prompt_tokens"), self._usage.get("completion_tokens")),
            failure=failure,
        )

    def _line(self, line: bytes) -> None:
        field_name, _, value = line.partition(b":")
        if field_name != b"data" or self.done:
            return
        if value.strip() == b"[DONE]":
            self.done = True
        else:
            self._document(json.loads(value))

    def _document(self, document: object) -> None:
        """A chunk, or the whole completion."""
        if not isinstance(document, Mapping):
            raise ValueError(f"a {type(document).__name__} instead of an object")
        if document.get("error"):
            error = document["error"]
            said = error.get("message") if isinstance(error, Mapping) else error
            self.failure = Failure(trouble=Trouble.SERVER, text=str(said)[:500])
        usage = document.get("usage")
        if isinstance(usage, Mapping):
            self._usage = usage
        choices = document.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, Mapping) and choice.get("index", 0) == 0:
                self._choice(choice)

    def _choice(self, choice: Mapping[str, object]) -> None:
        message = choice.get("delta") or choice.get("message")
        if isinstance(message, Mapping):
            text = _plain(message.get("content"))
            thought = _plain(message.get("reasoning_content")) or _plain(message.get("reasoning"))
            self._text.append(text)
            self._refusal = self._refusal or bool(message.get("refusal"))
            self._thoughts += len(thought)
            self.answer_bytes += len(f"{text}{thought}".encode("utf-8", "surrogatepass"))
        self._finish = choice.get("finish_reason") or self._finish


def _plain(content: object) -> str:
    """Text of a message, which some servers send as a list of parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "".join(part["text"] for part in content if isinstance(part, Mapping) and isinstance(part.get("text"), str))


def _broken(error: Exception) -> Failure:
    """The failure that an error while reading means. Raises the error where it isn't the transport's."""
    kinds = type(error).__mro__
    if not any(kind.__module__.split(".")[0] in {"httpx", "httpx2", "httpcore", "httpcore2"} for kind in kinds):
        raise error
    if any("Timeout" in kind.__name__ for kind in kinds):
        return Failure(trouble=Trouble.STALLED, text="the answer stopped coming")
    return Failure(trouble=Trouble.CONNECTION, text=_cause(error))


def _cause(error: BaseException) -> str:
    """The innermost reason, which says more than "connection error"; the system's own are said in its words."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__ or error
    return error.strerror if isinstance(error, OSError) and error.strerror else f"{type(error).__name__}: {error}"
