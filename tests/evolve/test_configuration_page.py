"""The page on configuration names every key, and no other, with its default."""

import re
from pathlib import Path

from pydantic import BaseModel

from evolve.config import RunConfig

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_every_key_is_on_the_page() -> None:
    rows = dict(re.findall(r"^\| `([a-z_]+\.[a-z_]+)` \| `?([^|`]+?)`? \|", PAGE.read_text(), re.MULTILINE))
    keys: dict[str, str] = {}
    for table, field in RunConfig.model_fields.items():
        assert isinstance(field.annotation, type)
        assert issubclass(field.annotation, BaseModel)
        for key, inner in field.annotation.model_fields.items():
            default = "required" if inner.is_required() else "none" if inner.default is None else str(inner.default)
            keys[f"{table}.{key}"] = "by pace" if key == "looks" else default
    assert rows == keys
