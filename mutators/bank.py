"""The question bank: ``bank.toml`` and a task's own questions, read into frozen entries."""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from mutators.question import Layer, Moment

BACKENDS = ("cpu", "cuda")

_REQUIRED = frozenset({"id", "layer", "moments", "text", "settle"})
_KEYS = _REQUIRED | {"when", "backends", "command"}
_SLOT = re.compile(r"\{([^{}]*)\}")


class BankError(ValueError):
    """A bank file that can't be read: which file, which entry, what to write instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One question as it stands in the bank, its slots open.

    ``when`` is a precondition over facts ("" = always), ``settle`` what the harness would look at, ``backends`` where it makes
    sense, ``command`` the same matter as an order, for the arm that gives orders ("" = the entry has none), ``source`` the file
    it came from.
    """

    id: str
    layer: Layer
    moments: tuple[Moment, ...]
    text: str
    settle: str
    when: str = ""
    command: str = ""
    backends: tuple[str, ...] = BACKENDS
    source: str = "bank.toml"

    @property
    def slots(self) -> tuple[str, ...]:
        """Names of the facts that the text needs, in the order of the text."""
        return tuple(_SLOT.findall(self.text))

    @property
    def command_slots(self) -> tuple[str, ...]:
        """Names of the facts that the command needs, in the order of its text."""
        return tuple(_SLOT.findall(self.command))

    def fill(self, shown: Mapping[str, str]) -> str:
        """The text with its slots replaced; KeyError for a fact that isn't there."""
        return _SLOT.sub(lambda slot: shown[slot[1]], self.text)

    def fill_command(self, shown: Mapping[str, str]) -> str:
        """The command with its slots replaced; KeyError for a fact that isn't there."""
        return _SLOT.sub(lambda slot: shown[slot[1]], self.command)


def load_bank(extra: Sequence[Path] = ()) -> tuple[Entry, ...]:
    """All entries of the shipped bank, then those of further files, in order. BankError says what can't be read."""
    shipped = files("mutators").joinpath("bank.toml").read_text(encoding="utf-8")
    entries = list(read_bank(shipped, "bank.toml"))
    for path in extra:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BankError(f"{path}: can't be read ({getattr(error, 'strerror', None) or error})") from error
        entries += read_bank(text, str(path))
    return tuple(entries)


def read_bank(text: str, source: str) -> tuple[Entry, ...]:
    """The entries of one bank file's text."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BankError(f"{source}: no TOML ({error})") from error
    items = table.pop("question", [])
    if table or not isinstance(items, list):
        raise BankError(f"{source}: holds {', '.join(sorted(table)) or 'no list'}; a bank is a list of [[question]] tables")
    return tuple(_entry(item, index, source) for index, item in enumerate(items, start=1))


def toml_of(fields: Mapping[str, object]) -> str:
    """One entry as it stands in a bank file: strings and lists of strings, in the order given."""
    lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in fields.items()]
    return "\n".join(["[[question]]", *lines]) + "\n"


def _entry(item: object, index: int, source: str) -> Entry:
    if not isinstance(item, dict):
        raise BankError(f"{source}: question {index} is no table; write [[question]] above its keys")
    name = f"{source}: question {index} ({item.get('id', 'without id')})"
    if unknown := sorted(item.keys() - _KEYS):
        raise BankError(f"{name}: unknown keys {', '.join(unknown)}; known are {', '.join(sorted(_KEYS))}")
    if missing := sorted(_REQUIRED - item.keys()):
        raise BankError(f"{name}: missing {', '.join(missing)}")
    for key in ("id", "layer", "text", "settle", "when", "command"):
        if not isinstance(item.get(key, ""), str):
            raise BankError(f"{name}: {key} is no text")
    layer = _listed(name, "layer", [item["layer"]], [layer.value for layer in Layer])[0]
    moments = _listed(name, "moments", item["moments"], [moment.value for moment in Moment])
    backends = _listed(name, "backends", item.get("backends", list(BACKENDS)), list(BACKENDS))
    return Entry(
        id=item["id"],
        layer=Layer(layer),
        moments=tuple(Moment(moment) for moment in moments),
        text=" ".join(item["text"].split()),
        settle=" ".join(item["settle"].split()),
        when=item.get("when", ""),
        command=" ".join(item.get("command", "").split()),
        backends=backends,
        source=source,
    )


def _listed(name: str, key: str, values: object, allowed: Sequence[str]) -> tuple[str, ...]:
    if not isinstance(values, list) or not values or any(value not in allowed for value in values):
        raise BankError(f"{name}: {key} = {values!r}; allowed are {', '.join(allowed)}")
    return tuple(values)
