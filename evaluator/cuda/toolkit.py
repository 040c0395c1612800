"""The CUDA compiler and headers that are installed as Python packages."""

import functools
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path, PurePath

PACKAGES = ("nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "nvidia-cuda-cccl")
INSTALL = f"pip install {' '.join(PACKAGES)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolkit:
    """NVRTC's library, the folders of headers, NVRTC's version, and a digest of every file the three packages installed."""

    nvrtc: Path
    includes: tuple[Path, ...]
    version: str
    digest: str


@functools.cache
def find_toolkit() -> Toolkit | None:
    """The installed toolkit, or None if one of the packages is missing. ``INSTALL`` says how to get it."""
    try:
        packages = [metadata.distribution(name) for name in PACKAGES]
    except metadata.PackageNotFoundError:
        return None
    nvrtc, runtime, cccl = packages
    library = _find(nvrtc, lambda path: path.name.startswith("libnvrtc.so"))
    headers = _find(runtime, lambda path: path.name == "cuda_fp16.h")
    templates = _find(cccl, lambda path: path.parts[-3:] == ("cuda", "std", "cstdint"))
    if library is None or headers is None or templates is None:
        return None
    records = "".join(package.read_text("RECORD") or package.version for package in packages)
    return Toolkit(
        nvrtc=library,
        includes=(headers.parent, templates.parent.parent.parent),
        version=nvrtc.version,
        digest=hashlib.sha256(records.encode()).hexdigest(),
    )


def _find(package: metadata.Distribution, wanted: Callable[[PurePath], bool]) -> Path | None:
    """The installed file of a package that is ``wanted``, with symbolic links resolved, since the sandbox goes by real paths."""
    found = next((path for path in package.files or () if wanted(path)), None)
    return None if found is None else Path(str(package.locate_file(found))).resolve()
