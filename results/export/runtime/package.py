"""Reads the files of an exported package and holds each against the manifest before anything of it is used."""

import hashlib
import json
from pathlib import Path
from typing import Any

from .errors import CannotRun

FOLDER = Path(__file__).parent
MANIFEST = "manifest.json"
_REINSTALL = "Install the package again from the place you trust; `manifest.json` is written by `askevolve export`."


def document(name: str, folder: Path = FOLDER) -> Any:
    """The JSON document of that name below the package. CannotRun where it is missing or no JSON."""
    try:
        return json.loads((folder / name).read_text(encoding="utf-8"))
    except OSError as error:
        raise CannotRun(f"{name} can't be read: {error.strerror}", str(folder / name), _REINSTALL) from None
    except ValueError as error:
        raise CannotRun(f"{name} isn't JSON: {error}", str(folder / name), _REINSTALL) from None


def check_manifest(folder: Path = FOLDER) -> None:
    """Nothing, where every file that the manifest names has the SHA-256 written there and no kernel lies beside them.

    CannotRun names the first file that differs. A manifest guards against damage and against edits of single files, not
    against somebody who rewrites files and manifest together.
    """
    listed = document(MANIFEST, folder)
    files = listed.get("files") if isinstance(listed, dict) else None
    if not isinstance(files, dict) or not files:
        raise CannotRun("the manifest names no files", str(folder / MANIFEST), _REINSTALL)
    for name, expected in files.items():
        path = folder / name
        try:
            found = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            raise CannotRun(
                f"{name} is named by the manifest and can't be read: {error.strerror}", str(path), _REINSTALL
            ) from None
        if found != expected:
            raise CannotRun(f"{name} isn't the file that was exported: its SHA-256 differs", str(path), _REINSTALL)
    there = {str(path.relative_to(folder)) for path in (folder / "kernels").rglob("*") if path.is_file()}
    if unknown := sorted(there - set(files)):
        raise CannotRun(f"{unknown[0]} isn't named by the manifest", str(folder / unknown[0]), _REINSTALL)
