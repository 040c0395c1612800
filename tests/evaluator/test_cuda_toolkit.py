"""Compiler and headers are found in every layout that hosts have, and a host without headers still builds what includes none."""

from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest

from evaluator.backend import Build
from evaluator.cache import BuildCache
from evaluator.cuda import nvrtc
from evaluator.cuda.nvrtc import build_key, compile_cuda
from evaluator.cuda.toolkit import CCCL, NVRTC, RUNTIME, Toolkit, choose_toolkit, find_toolkit
from evaluator.outcome import Fault, Verdict
from evaluator.sandbox import landlock_abi
from tests.evaluator.cuda_cases import launch, plan

PLAN = plan(launch("k", "x:p"))
BARE = 'extern "C" __global__ void k(float* x) { x[0] = 1.f; }\n'
HALF = "#include <cuda_fp16.h>\n" + BARE
LIBRARY, FP16, TARGET, CSTDINT = "lib/libnvrtc.so.13", "include/cuda_fp16.h", "nv/target", "cuda/std/cstdint"


def package(root: Path, name: str, version: str, *files: str) -> metadata.Distribution:
    """An installed package with those (empty) files."""
    info = root / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text("")
    return metadata.Distribution.at(info)


@pytest.mark.parametrize(
    ("runtime_files", "cccl_files", "folders", "missing"),
    [
        (
            (f"nvidia/cu13/{FP16}",),
            (f"nvidia/cu13/include/cccl/{TARGET}", f"nvidia/cu13/include/cccl/{CSTDINT}"),
            ("nvidia/cu13/include", "nvidia/cu13/include/cccl"),
            (),
        ),
        (
            (f"nvidia/cuda_runtime/{FP16}",),
            (f"nvidia/cuda_cccl/include/{TARGET}", f"nvidia/cuda_cccl/include/{CSTDINT}"),
            ("nvidia/cuda_runtime/include", "nvidia/cuda_cccl/include"),
            (),
        ),
        ((f"nvidia/cu13/{FP16}",), (), ("nvidia/cu13/include",), (CCCL,)),
        ((), (), (), (RUNTIME, CCCL)),
    ],
)
def test_every_layout_of_packages(
    tmp_path: Path,
    runtime_files: tuple[str, ...],
    cccl_files: tuple[str, ...],
    folders: tuple[str, ...],
    missing: tuple[str, ...],
) -> None:
    packages = {NVRTC: package(tmp_path, NVRTC, "13.0.88", f"nvidia/cu13/{LIBRARY}")}
    if runtime_files:
        packages[RUNTIME] = package(tmp_path, RUNTIME, "13.0.96", *runtime_files)
    if cccl_files:
        packages[CCCL] = package(tmp_path, CCCL, "13.0.85", *cccl_files)
    found = choose_toolkit(packages, [])
    assert found is not None
    assert found.nvrtc == tmp_path / "nvidia/cu13" / LIBRARY
    assert found.includes == tuple(tmp_path / folder for folder in folders)
    assert (found.version, found.missing) == ("13.0.88", missing)


def test_what_packages_lack_comes_from_the_systems_toolkit(tmp_path: Path) -> None:
    system = tmp_path / "cuda-13.0"
    for file in (FP16, f"include/cccl/{TARGET}", f"include/cccl/{CSTDINT}", "lib64/libnvrtc.so.13.0.88"):
        (system / file).parent.mkdir(parents=True, exist_ok=True)
        (system / file).write_text("")
    alone = choose_toolkit({}, [system])
    assert alone is not None
    assert (alone.nvrtc.name, alone.version, alone.missing) == ("libnvrtc.so.13.0.88", "libnvrtc.so.13.0.88", ())
    packages = {
        NVRTC: package(tmp_path / "site", NVRTC, "13.0.88", LIBRARY),
        RUNTIME: package(tmp_path / "site", RUNTIME, "13.0.96", FP16),
    }
    mixed = choose_toolkit(packages, [system])
    assert mixed is not None
    assert mixed.includes == (tmp_path / "site/include", system / "include/cccl")
    assert mixed.missing == ()


def test_without_nvrtc_there_is_no_toolkit(tmp_path: Path) -> None:
    assert choose_toolkit({RUNTIME: package(tmp_path, RUNTIME, "13.0.96", FP16)}, [tmp_path]) is None


def headless(missing: tuple[str, ...], includes: tuple[Path, ...]) -> Toolkit:
    toolkit = find_toolkit()
    assert toolkit is not None
    return replace(toolkit, includes=includes, missing=missing, digest="headless")


def test_a_host_without_headers_builds_what_includes_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toolkit = headless((RUNTIME, CCCL), ())
    monkeypatch.setattr(nvrtc, "find_toolkit", lambda: toolkit)
    assert isinstance(compile_cuda(BARE, PLAN, "sm_90a", BuildCache(tmp_path)), Build)
    fault = compile_cuda(HALF, PLAN, "sm_90a", BuildCache(tmp_path))
    assert isinstance(fault, Fault)
    assert fault.verdict is Verdict.COMPILE_ERROR
    assert 'cannot open source file "cuda_fp16.h"' in fault.message
    assert f"pip install {RUNTIME} {CCCL}" in fault.message
    outside = compile_cuda('#include "/etc/passwd"\n' + BARE, PLAN, "sm_90a", BuildCache(tmp_path))
    assert isinstance(outside, Fault)
    assert outside.verdict is (Verdict.SANDBOX if landlock_abi() else Verdict.COMPILE_ERROR)


def test_the_key_of_a_build_holds_compiler_headers_and_disassembler(monkeypatch: pytest.MonkeyPatch) -> None:
    toolkit = find_toolkit()
    assert toolkit is not None
    keys = [build_key(BARE, [], item) for item in (toolkit, replace(toolkit, version="13.0.88"), replace(toolkit, digest="x"))]
    monkeypatch.setattr(nvrtc, "find_disassembler", lambda: None)
    assert len({*keys, build_key(BARE, [], replace(toolkit, version="1"))}) == 4
