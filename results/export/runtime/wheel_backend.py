"""Builds the wheel of an exported package from its folder: a PEP 517 backend of the standard library, so nothing is fetched."""

import base64
import hashlib
import tomllib
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
EPOCH = (1980, 1, 1, 0, 0, 0)


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """Nothing is needed to build."""
    return []


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    """The name of the wheel, written into ``wheel_directory``; the same bytes from the same files."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module = project["name"].replace("-", "_")
    stem = f"{module}-{project['version']}"
    information = f"{stem}.dist-info"
    requires = "".join(f"Requires-Dist: {text}\n" for text in project["dependencies"])
    metadata = (
        f"Metadata-Version: 2.4\nName: {project['name']}\nVersion: {project['version']}\nSummary: {project['description']}\n"
        f"Requires-Python: {project['requires-python']}\nLicense-Expression: {project['license']}\n"
        f"License-File: LICENSE\n{requires}"
    )
    files = {str(path.relative_to(ROOT)): path.read_bytes() for path in sorted((ROOT / module).rglob("*")) if _travels(path)}
    files[f"{information}/licenses/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    files[f"{information}/METADATA"] = metadata.encode()
    files[f"{information}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: askevolve\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = f"{information}/RECORD"
    lines = [f"{name},sha256={_digest(content)},{len(content)}" for name, content in files.items()]
    files[record] = "\n".join([*lines, f"{record},,", ""]).encode()
    name = f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, content in files.items():
            entry = zipfile.ZipInfo(path, EPOCH)
            entry.external_attr = 0o644 << 16
            wheel.writestr(entry, content)
    return name


def _travels(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
