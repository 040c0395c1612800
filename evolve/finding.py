"""One line of the doctor."""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How a finding stands: fit, usable with a limit, or needed and missing."""

    OK = "ok"
    LIMITED = "limited"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the doctor; ``next_step`` is empty where nothing needs doing."""

    name: str
    state: State
    detail: str
    next_step: str = ""
