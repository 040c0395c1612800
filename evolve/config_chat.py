"""The ``[chat]`` table of a run's configuration: which language models answer, where they are, and what they cost."""

import re
from collections.abc import Sequence
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints, field_validator, model_validator

from mutators.answerers.completion import FIXED

Count = Annotated[int, Field(strict=True, ge=1)]
Seconds = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
Usd = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
Name = Annotated[str, StringConstraints(strict=True, min_length=1)]


class ChatModelTable(BaseModel):
    """``[[chat.models]]``: one language model. ``name`` is what this run calls it, ``served_as`` what its server does (by default
    the same). ``key_env`` names the environment variable that holds the key; absent: the server wants none. Prices are US dollars
    for a million tokens. ``parameters`` go into every request.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    served_as: Name | None = None
    base_url: Name
    key_env: Name | None = None
    usd_per_million_prompt_tokens: Usd | None = None
    usd_per_million_answer_tokens: Usd | None = None
    parameters: dict[str, JsonValue] = Field(default_factory=dict)

    @field_validator("base_url")
    @classmethod
    def _is_plain(cls, url: str) -> str:
        """An address without anything secret in it, since it is stored and shown."""
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("[[chat.models]] base_url must look like http://127.0.0.1:8080/v1")
        if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
            raise ValueError(
                "[[chat.models]] base_url is stored with the run, so it may hold no user, password or query; see key_env"
            )
        return url.rstrip("/")

    @field_validator("key_env")
    @classmethod
    def _is_a_variable(cls, name: str | None) -> str | None:
        """The name of a variable, not a key; the message doesn't repeat what may be one."""
        if name is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", name):
            raise ValueError(
                "[[chat.models]] key_env takes the name of an environment variable, such as MY_API_KEY, never the key"
            )
        return name

    @field_validator("parameters")
    @classmethod
    def _are_free(cls, parameters: dict[str, JsonValue]) -> dict[str, JsonValue]:
        taken = sorted(FIXED & parameters.keys())
        if taken:
            raise ValueError(f"[[chat.models]] parameters: {', '.join(taken)} is set by the search; see max_answer_tokens")
        return parameters

    @property
    def priced(self) -> bool:
        """Whether money can be counted."""
        return self.usd_per_million_prompt_tokens is not None and self.usd_per_million_answer_tokens is not None


class ChatTable(BaseModel):
    """``[chat]``: the models that ``answerer = "chat"`` asks, tokens an answer may have (reasoning included), calls at once,
    calls for one question to one model before that is left out, seconds without a byte, and seconds for one call.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    models: tuple[ChatModelTable, ...] = ()
    max_answer_tokens: Count = 32_768
    at_once: Count = 4
    tries: Count = 5
    stall_s: Seconds = 300.0
    time_limit_s: Seconds = 1800.0

    @model_validator(mode="after")
    def _names_differ(self) -> "ChatTable":
        names = [model.name for model in self.models]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"[[chat.models]] name: {', '.join(twice)} is there twice; results are counted by name")
        return self


def check_chat(chat: ChatTable, usd: float | None, tokens: int | None) -> Sequence[str]:
    """What a person should know before ``answerer = "chat"`` spends anything; ``usd`` and ``tokens`` are the run's limits.

    Raises ValueError where nobody could answer, or where a limit in money would bind nothing.
    """
    if not chat.models:
        raise ValueError('[mutation] answerer = "chat" needs a model: [[chat.models]] name = "...", base_url = "http://.../v1"')
    unpriced = [model.name for model in chat.models if not model.priced]
    if unpriced and usd is not None and tokens is None:
        raise ValueError(
            f"[budget] usd = {usd} can't bind {', '.join(unpriced)}, whose price isn't known: give usd_per_million_prompt_tokens "
            "and usd_per_million_answer_tokens (0 for a server of your own), or set [budget] tokens"
        )
    warnings = [f"the price of {name} isn't known, so its answers count in tokens alone" for name in unpriced]
    if usd is None and tokens is None:
        warnings.append(
            "neither [budget] tokens nor usd is set: only the number of candidates and the time limit what models cost"
        )
    return warnings
