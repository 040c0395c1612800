"""What happens to a call outside the tested domain: torch's own operator with one warning, without one, or an error."""

import os
import threading
import warnings

from .errors import CannotRun

WAYS = ("warn", "raise", "silent")
VARIABLE = "ASKEVOLVE_ON_OUTSIDE"
_way = os.environ.get(VARIABLE, "warn")
_told = False
_lock = threading.Lock()


def on_outside(way: str) -> None:
    """Sets what a call outside the domain does from now on: "warn" (once a process), "raise" or "silent"."""
    global _way  # noqa: PLW0603  (one setting of the package, as its users see it)
    if way not in WAYS:
        raise ValueError(f"on_outside({way!r}): choose one of {', '.join(WAYS)}")
    _way = way


def tell(reason: str, what: str, fallback: str) -> None:
    """Warns at the first call outside, or raises CannotRun; ``fallback`` names what runs instead, empty where nothing can."""
    global _told
    if _way not in WAYS:
        raise CannotRun(f"{VARIABLE} is {_way!r}", "the environment", f"Set it to one of {', '.join(WAYS)}.")
    if _way == "raise" or not fallback:
        raise CannotRun(f"{what} isn't tested for this call: {reason}", "see `domain.json`", "Use torch's own operator here.")
    with _lock:
        first, _told = not _told, True
    if first and _way == "warn":
        warnings.warn(
            f"{what} isn't tested for this call ({reason}); {fallback} runs instead, here and from now on", stacklevel=3
        )
