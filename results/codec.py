"""Exact JSON of the frozen values that events are made of.

Every finite value comes back equal and of the same type, arbitrary Unicode and lone surrogates included. Sequences inside
untyped values (a configuration, the facts of a note) come back as lists, since JSON knows no other, and two surrogates that
form a pair come back as the character they mean (sources don't pass through here in the store, so they are exact even then).
"""

import dataclasses
import json
import math
import types
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import Any, TypeVar, get_args, get_origin

T = TypeVar("T")
Decoder = Callable[[Any, str], Any]
SCALARS = (str, int, float, bool)


class CodecError(ValueError):
    """A value that can't be stored, or a stored text that isn't such a value. The text names the field."""


def encode(value: object) -> str:
    """ASCII JSON text of a frozen dataclass. Raises CodecError naming a field that isn't finite or has no JSON form."""
    return json.dumps(plain(value), separators=(",", ":"))


def decode(kind: type[T], text: str) -> T:
    """The value of type ``kind`` that ``encode`` wrote. Raises CodecError naming the field that doesn't fit."""
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise CodecError(f"{kind.__name__}: not JSON ({error})") from None
    return rebuild(kind, raw)


def rebuild(kind: type[T], raw: object) -> T:
    """The value of type ``kind`` from its plain form (dictionaries, lists, scalars)."""
    value: T = _decoder(typing.cast(Any, kind))(raw, kind.__name__)
    return value


def plain(value: object, path: str = "") -> Any:
    """Dictionaries, lists and scalars that say the same; ``path`` is how messages name the value."""
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise CodecError(f"{path or 'value'} is {value}; only finite numbers are stored, use None where nothing was measured")
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        prefix = path or type(value).__name__
        return {field.name: plain(getattr(value, field.name), f"{prefix}.{field.name}") for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {_key(key, path): plain(item, f"{path}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, f"{path}[{index}]") for index, item in enumerate(value)]
    raise CodecError(
        f"{path or 'value'} is a {type(value).__name__}, which has no stored form; convert it to a plain number or text"
    )


def _key(key: object, path: str) -> str:
    if isinstance(key, str):
        return key
    raise CodecError(f"{path} has the key {key!r}; only texts are keys")


@cache
def _decoder(hint: Any) -> Decoder:
    """The function that turns a plain value into one of type ``hint``."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in (object, Any):
        return lambda raw, path: raw
    if dataclasses.is_dataclass(hint):
        return _dataclass_decoder(hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return lambda raw, path: _member(hint, raw, path)
    if hint is float:
        return lambda raw, path: float(_checked(raw, (int, float), path))
    if hint in SCALARS:
        return lambda raw, path: _checked(raw, (hint,), path)
    if origin in (typing.Union, types.UnionType):
        return _union_decoder(arguments)
    if origin is tuple:
        return _tuple_decoder(arguments)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        item = _decoder(arguments[1])
        return lambda raw, path: {
            key: item(value, f"{path}.{key}") for key, value in typing.cast(Any, _checked(raw, (dict,), path)).items()
        }
    raise TypeError(f"events can't hold fields of type {hint}")


def _checked(raw: object, kinds: tuple[type, ...], path: str) -> Any:
    if isinstance(raw, kinds) and (bool in kinds or not isinstance(raw, bool)):
        return raw
    raise CodecError(f"{path}: expected {' or '.join(kind.__name__ for kind in kinds)}, found {type(raw).__name__}")


def _member(hint: type[Enum], raw: object, path: str) -> Enum:
    try:
        return hint(raw)
    except ValueError:
        raise CodecError(f"{path}: {raw!r} is not one of {', '.join(str(member.value) for member in hint)}") from None


def _dataclass_decoder(hint: Any) -> Decoder:
    hints = typing.get_type_hints(hint)
    decoders = {field.name: _decoder(hints[field.name]) for field in dataclasses.fields(hint)}
    required = {
        field.name
        for field in dataclasses.fields(hint)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }

    def run(raw: Any, path: str) -> Any:
        fields = _checked(raw, (dict,), path)
        if unknown := fields.keys() - decoders.keys():
            raise CodecError(f"{path}: unknown field {sorted(unknown)[0]!r}")
        if missing := required - fields.keys():
            raise CodecError(f"{path}: field {sorted(missing)[0]!r} is missing")
        return hint(**{name: decoders[name](item, f"{path}.{name}") for name, item in fields.items()})

    return run


def _union_decoder(arguments: tuple[Any, ...]) -> Decoder:
    optional = type(None) in arguments
    kinds = tuple(kind for kind in arguments if kind is not type(None))
    if all(kind in SCALARS for kind in kinds) and len(kinds) > 1:
        inner: Decoder = lambda raw, path: _checked(raw, kinds, path)  # noqa: E731  (one expression, two branches)
    elif len(kinds) == 1:
        inner = _decoder(kinds[0])
    else:
        raise TypeError(f"events can't hold a choice between {kinds}")
    return lambda raw, path: None if optional and raw is None else inner(raw, path)


def _tuple_decoder(arguments: tuple[Any, ...]) -> Decoder:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        item = _decoder(arguments[0])
        return lambda raw, path: tuple(
            item(value, f"{path}[{index}]") for index, value in enumerate(_checked(raw, (list,), path))
        )
    items = [_decoder(argument) for argument in arguments]

    def run(raw: Any, path: str) -> Any:
        values = _checked(raw, (list,), path)
        if len(values) != len(items):
            raise CodecError(f"{path}: expected {len(items)} values, found {len(values)}")
        return tuple(decode_one(value, path) for decode_one, value in zip(items, values, strict=True))

    return run
