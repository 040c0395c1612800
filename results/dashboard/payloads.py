"""Texts out of stored events by SQL. A text may hold half a character, which SQLite can only hand out as bytes."""


def sql_text(path: str, table: str = "e") -> str:
    """SQL for the bytes of the text at a JSON path of an event's payload; NULL where there is none."""
    return f"CAST(json_extract({table}.payload, '{path}') AS BLOB)"


def as_text(found: bytes | None) -> str:
    """The text behind those bytes, halves of characters kept; "" for None."""
    return "" if found is None else found.decode("utf-8", "surrogatepass")
