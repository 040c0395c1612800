"""What may stand around an answer without being part of it: encodings, quotation as JSON or HTML, reasoning, channel marks."""

import json
import re

from mutators.question import Rejected, Rejection

_TAGS = "think|thinking|thought|reasoning|reflection|scratchpad|analysis"
_OPEN = re.compile(rf"^[ \t]*([<\[])({_TAGS})[>\]]", re.IGNORECASE | re.MULTILINE)
_STRAY_CLOSE = re.compile(rf"^[ \t]*[<\[]/(?:{_TAGS})[>\]]|[<\[]/(?:{_TAGS})[>\]][ \t]*$", re.IGNORECASE | re.MULTILINE)
_CHANNEL = re.compile(r"<\|channel\|>[ \t]*(\w+)[^<\n]*<\|message\|>")
_TOKEN = re.compile(r"<\|[a-z_]{2,30}\|>")
_TWO_RULES = re.compile(r"^[ \t]*\+{3,}[ \t]*$.*^[ \t]*\+{3,}[ \t]*$", re.MULTILINE | re.DOTALL)
_JSON_FENCE = re.compile(r"```(?:json)?\s*\n(.*)\n\s*```", re.IGNORECASE | re.DOTALL)
_ENTITIES = (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&#34;", '"'), ("&#39;", "'"), ("&#x27;", "'"), ("&amp;", "&"))


def unwrapped(text: str) -> str | Rejected:
    r"""The answer with line ends ``\n`` and nothing around it; TRUNCATED where reasoning never ended."""
    plain = _from_html(_from_json(_lines(text)))
    channels = list(_CHANNEL.finditer(plain))
    if channels and channels[-1][1] != "final":
        return _unended(f"the channel {channels[-1][1]!r}")
    if channels:
        plain = plain[channels[-1].end() :]
    return _without_thoughts(_TOKEN.sub("", plain))


def _lines(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _from_json(text: str) -> str:
    """The one string in a JSON document that holds a header, where the whole text is such a document."""
    stripped = text.strip()
    if fence := _JSON_FENCE.fullmatch(stripped):
        stripped = fence[1].strip()
    if stripped[:1] not in {"{", "[", '"'}:
        return text
    try:
        left = [json.loads(stripped)]
    except (ValueError, RecursionError):
        return text
    found = []
    while left:
        value = left.pop()
        if isinstance(value, str) and _TWO_RULES.search(_lines(value)):
            found.append(_lines(value))
        left += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return found[0] if len(found) == 1 else text


def _from_html(text: str) -> str:
    """The text unescaped once, where every angle bracket in it is an entity."""
    if "&lt;" not in text or "<" in text:
        return text
    for entity, letter in _ENTITIES:
        text = text.replace(entity, letter)
    return text


def _without_thoughts(text: str) -> str | Rejected:
    """The text without reasoning blocks that open a line, and without all that stands before a lone end of one."""
    kept: list[str] = []
    at = 0
    while opened := _OPEN.search(text, at):
        brackets = "<>" if opened[1] == "<" else "[]"
        name = f"{brackets[0]}/{opened[2]}{brackets[1]}"
        close = re.compile(re.escape(name), re.IGNORECASE).search(text, opened.end())
        if close is None:
            return _unended(opened[0].strip())
        kept.append(text[at : opened.start()])
        at = close.end()
    kept.append(text[at:])
    rest = "".join(kept)
    return _STRAY_CLOSE.split(rest)[-1] if "</" in rest or "[/" in rest else rest


def _unended(where: str) -> Rejected:
    message = f"the answer ends inside {where}: nothing after the reasoning arrived. Send the header and the edit."
    return Rejected(reason=Rejection.TRUNCATED, message=message)
