"""What can go wrong with a call to a model's server, and what follows from it."""

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum

MAX_TEXT_CHARS = 500
LONGEST_WAIT_S = 300.0
"""A server that asks for a longer wait pauses the run instead."""

FIRST_WAIT_S, MOST_WAIT_S = 1.0, 60.0
"""The wait before the second try, doubled for each further one, up to the latter."""


class Trouble(StrEnum):
    """Why a call gave no usable text."""

    RATE_LIMITED = "rate limited"
    SERVER = "server error"
    STALLED = "stalled"
    CONNECTION = "connection lost"
    MALFORMED = "malformed reply"
    EMPTY = "empty answer"
    FILTERED = "content filtered"
    PARAMETER = "unsupported parameter"
    REFUSED = "refused"


ANSWERED = frozenset({Trouble.EMPTY, Trouble.FILTERED})
"""The server works and said nothing: tried once more, then kept as an empty answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One failed call.

    ``text`` says what came back. ``wait_s`` is how long the server asks to wait (None: it doesn't say); ``parameter`` names the
    one to leave out, for PARAMETER.
    """

    trouble: Trouble
    text: str
    wait_s: float | None = None
    parameter: str | None = None

    def __str__(self) -> str:
        return f"{self.trouble}: {self.text}" if self.text else str(self.trouble)


def of_status(
    status: int, headers: Mapping[str, str], body: object, sent: Collection[str], now: Callable[[], datetime]
) -> Failure:
    """The failure that an HTTP status above 399 means.

    ``body`` is the decoded JSON or the text; ``sent`` names the optional parameters of the request; ``now`` is the wall clock.
    """
    text = _shortened(body)
    if status == 429:
        if "insufficient_quota" in text:
            return Failure(trouble=Trouble.REFUSED, text=f"HTTP 429, and waiting won't help: {text}")
        return Failure(trouble=Trouble.RATE_LIMITED, text=f"HTTP 429 {text}".rstrip(), wait_s=asked_wait_s(headers, now))
    if status >= 500 or status in {408, 409, 425}:
        return Failure(trouble=Trouble.SERVER, text=f"HTTP {status} {text}".rstrip(), wait_s=asked_wait_s(headers, now))
    if status in {400, 422} and (parameter := unsupported(body, sent)) is not None:
        return Failure(trouble=Trouble.PARAMETER, text=text, parameter=parameter)
    return Failure(trouble=Trouble.REFUSED, text=f"HTTP {status} {text}".rstrip())


_COMPLAINT = re.compile(
    r"unsupported|not support|unrecogni[sz]ed|unknown|unexpected|not permitted|not allowed|extra_forbidden|\binvalid\b|"
    r"deprecated",
    re.IGNORECASE,
)
_TOO_LONG = re.compile(r"context.{0,12}(length|window|size)|too many tokens", re.IGNORECASE)


def unsupported(body: object, sent: Collection[str]) -> str | None:
    """The optional parameter that an error complains about, None where it is about something else."""
    error = body.get("error", body) if isinstance(body, Mapping) else body
    named = error.get("param") if isinstance(error, Mapping) else None
    text = body if isinstance(body, str) else json.dumps(body, default=str)
    if _TOO_LONG.search(text):
        return None
    if isinstance(named, str) and named.split(".")[0] in sent:
        return named.split(".")[0]
    if not _COMPLAINT.search(text):
        return None
    found = [(match.start(), name) for name in sent if (match := re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text))]
    return min(found)[1] if found else None


def asked_wait_s(headers: Mapping[str, str], now: Callable[[], datetime]) -> float | None:
    """Seconds that ``retry-after-ms`` or ``retry-after`` (seconds, or a date) ask to wait (RFC 9110, 10.2.3); None without."""
    for name, scale in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        text = headers.get(name, "").strip()
        if re.fullmatch(r"\d+(\.\d+)?", text):
            return float(text) * scale
        if text and name == "retry-after":
            try:
                date = parsedate_to_datetime(text)
            except ValueError:
                return None
            return max(0.0, ((date if date.tzinfo else date.replace(tzinfo=UTC)) - now()).total_seconds())
    return None


def wait_s(failure: Failure, tries: int, jitter: float) -> float:
    """Seconds to wait after the ``tries``-th failed try: what the server asks for, or a doubling wait. ``jitter`` is 0 to 1."""
    if failure.wait_s is not None:
        return failure.wait_s + FIRST_WAIT_S * jitter
    return min(MOST_WAIT_S, FIRST_WAIT_S * 2.0 ** (tries - 1)) * (0.5 + 0.5 * jitter)


def _shortened(body: object) -> str:
    error = body.get("error", body) if isinstance(body, Mapping) else body
    message = error.get("message") if isinstance(error, Mapping) else None
    kind = error.get("code") or error.get("type") if isinstance(error, Mapping) else None
    if isinstance(message, str):
        text = f"{message} ({kind})" if isinstance(kind, str) and kind not in message else message
    else:
        text = error if isinstance(error, str) else json.dumps(error, default=str) if error else ""
    text = " ".join(text.split())
    return text if len(text) <= MAX_TEXT_CHARS else f"{text[: MAX_TEXT_CHARS - 3]}..."
