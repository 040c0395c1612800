"""The CUDA compiler and headers that are installed: as Python packages, or what those lack from a CUDA toolkit of the system.

Candidates that include nothing need NVRTC alone. ``cuda_fp16.h`` and ``cuda_bf16.h`` come with the runtime and include headers of
CCCL; a host that lacks one of the two still compiles, and ``missing`` says what a source then can't include.
"""

import functools
import hashlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path, PurePath

NVRTC, RUNTIME, CCCL = PACKAGES = ("nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "nvidia-cuda-cccl")
INSTALL = f"pip install {' '.join(PACKAGES)}"
SYSTEM = "/usr/local/cuda"
RUNTIME_HEADER = "cuda_fp16.h"
CCCL_HEADERS = ("nv/target", "cuda/std/cstdint")


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolkit:
    """NVRTC's library, the folders of headers, NVRTC's version, and a digest of what the headers' packages installed.

    ``missing`` names the packages whose headers aren't there.
    """

    nvrtc: Path
    includes: tuple[Path, ...]
    version: str
    digest: str
    missing: tuple[str, ...] = ()


@functools.cache
def find_toolkit() -> Toolkit | None:
    """The installed toolkit, or None without NVRTC. ``INSTALL`` says how to get it."""
    return choose_toolkit({name: package for name in PACKAGES if (package := _package(name))}, _system_folders())


def choose_toolkit(packages: dict[str, metadata.Distribution], systems: Iterable[Path]) -> Toolkit | None:
    """The toolkit from installed packages by name, and from CUDA toolkits' folders for what those lack; None without NVRTC."""
    systems = tuple(systems)
    library = _nvrtc(packages.get(NVRTC), systems)
    if library is None:
        return None
    runtime = _header_folder(packages.get(RUNTIME), RUNTIME_HEADER, [folder / "include" for folder in systems])
    beside = [runtime] if runtime else []
    places = [*beside, *(folder / "cccl" for folder in beside)]
    places += [folder / "include" / part for folder in systems for part in ("cccl", "")]
    found = {header: _header_folder(packages.get(CCCL), header, places) for header in CCCL_HEADERS}
    includes = tuple(dict.fromkeys(folder for folder in (runtime, *found.values()) if folder is not None))
    absent = {RUNTIME: runtime is None, CCCL: None in found.values()}
    return Toolkit(
        nvrtc=library,
        includes=includes,
        version=packages[NVRTC].version if NVRTC in packages else library.name,
        digest=_digest(packages.values(), includes),
        missing=tuple(name for name, missing in absent.items() if missing),
    )


def _package(name: str) -> metadata.Distribution | None:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None


def _system_folders() -> tuple[Path, ...]:
    """CUDA toolkits of the system, first come first, with symbolic links resolved, since the sandbox goes by real paths."""
    named = (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), SYSTEM)
    return tuple(dict.fromkeys(Path(name).resolve() for name in named if name and Path(name).is_dir()))


def _nvrtc(package: metadata.Distribution | None, systems: Iterable[Path]) -> Path | None:
    """NVRTC's shared library."""
    found = _find(package, lambda path: path.name.startswith("libnvrtc.so")) if package else None
    if found is not None:
        return found
    libraries = (path for folder in systems for path in sorted((folder / "lib64").glob("libnvrtc.so.*")))
    return next((path.resolve() for path in libraries), None)


def _header_folder(package: metadata.Distribution | None, header: str, places: Iterable[Path]) -> Path | None:
    """The folder that ``#include <header>`` starts from: of the package, else the first of ``places`` that holds the header."""
    parts = PurePath(header).parts
    found = _find(package, lambda path: path.parts[-len(parts) :] == parts) if package else None
    if found is not None:
        return found.parents[len(parts) - 1]
    return next((folder.resolve() for folder in places if (folder / header).is_file()), None)


def _find(package: metadata.Distribution, wanted: Callable[[PurePath], bool]) -> Path | None:
    """The first of a package's files that is ``wanted`` and there."""
    paths = (Path(str(package.locate_file(path))) for path in package.files or () if wanted(path))
    return next((path.resolve() for path in paths if path.is_file()), None)


def _digest(packages: Iterable[metadata.Distribution], includes: Iterable[Path]) -> str:
    """SHA-256 over the packages' own lists of files (with hashes), and over name and size of the headers atop each folder."""
    digest = hashlib.sha256()
    for package in packages:
        digest.update((package.read_text("RECORD") or package.version).encode())
    for folder in includes:
        for path in sorted(folder.glob("*.h*")):
            digest.update(f"{path.name} {path.stat().st_size}\n".encode())
    return digest.hexdigest()
