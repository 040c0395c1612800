"""What a server's error means."""

from datetime import UTC, datetime

import pytest

from mutators.answerers.retry import Failure, Trouble, asked_wait_s, of_status, unsupported, wait_s

SENT = ("temperature", "max_tokens", "stream", "stream_options")


def now() -> datetime:
    return datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "12"}, 12.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Mon, 30 Nov 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Mon, 30 Nov 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert asked_wait_s(headers, now) == seconds


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (
            {"message": "Unsupported value: 'temperature' does not support 0.2 with this model.", "param": "temperature"},
            "temperature",
        ),
        ({"error": {"message": "Unrecognized request argument supplied: stream_options"}}, "stream_options"),
        ({"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options"]}]}, "stream_options"),
        ("unknown field `max_tokens`", "max_tokens"),
        ({"message": "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."}, "max_tokens"),
        ({"message": "unsupported parameter: top_k"}, None),
        ({"message": "messages must not be empty", "type": "invalid_request_error"}, None),
        ({"message": "the temperature of the GPU is too high"}, None),
        ({"message": "max_tokens is invalid: the context length is 512", "param": "max_tokens"}, None),
        (None, None),
    ],
)
def test_which_parameter_is_complained_about(body: object, name: str | None) -> None:
    assert unsupported(body, SENT) == name


@pytest.mark.parametrize(
    ("status", "trouble"),
    [(400, Trouble.REFUSED), (401, Trouble.REFUSED), (404, Trouble.REFUSED), (408, Trouble.SERVER), (429, Trouble.RATE_LIMITED),
     (500, Trouble.SERVER), (529, Trouble.SERVER)],
)  # fmt: skip
def test_status(status: int, trouble: Trouble) -> None:
    assert of_status(status, {}, {"message": "m" * 900}, SENT, now).trouble is trouble
    assert len(of_status(status, {}, {"message": "m" * 900}, SENT, now).text) < 600


def test_waits_double_to_a_limit() -> None:
    failure = Failure(trouble=Trouble.SERVER, text="")
    assert [wait_s(failure, tries, 1.0) for tries in (1, 2, 3, 20)] == [1.0, 2.0, 4.0, 60.0]
    assert wait_s(failure, 3, 0.0) == 2.0
