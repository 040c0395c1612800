"""What can be decided about the CUDA pack without a GPU: plan, compiler and gate refuse their groups with one helpful message,
and every other candidate gets as far as the GPU, on which ``tests/gpu/test_cuda_cheats.py`` runs it."""

from pathlib import Path

import pytest

from evaluator.cache import BuildCache
from evaluator.cuda import nvrtc
from evaluator.cuda.offline import Gated, examine
from evaluator.outcome import Fault
from evaluator.task import Task
from tests.cheats.cuda_cases import (
    ATTENTION,
    FOLDER,
    GOOD,
    GOOD_ATTENTION,
    OFFLINE,
    ON_DEVICE,
    SET,
    attention_source,
    bad_source,
    honest_sources,
    light_task,
    small_attention,
)

ARCH = "sm_90a"
MOST_CHARACTERS = 600


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> BuildCache:
    return BuildCache(tmp_path_factory.mktemp("pack"))


@pytest.fixture(autouse=True)
def _only_by_ptx(monkeypatch: pytest.MonkeyPatch) -> None:
    """nvdisasm would take longer than the compiler."""
    monkeypatch.setattr(nvrtc, "find_disassembler", lambda: None)


def passes(source: str, task: Task, cache: BuildCache) -> Gated:
    found = examine(source, task, SET, ARCH, cache)
    assert isinstance(found, Gated), found
    return found


@pytest.mark.parametrize("name", OFFLINE)
def test_refused_without_a_gpu(name: str, cache: BuildCache) -> None:
    verdict, words = OFFLINE[name]
    fault = examine(bad_source(name), light_task(), SET, ARCH, cache)
    assert isinstance(fault, Fault)
    assert fault.verdict is verdict, fault.message
    assert words in fault.message
    assert 20 < len(fault.message) <= MOST_CHARACTERS
    assert fault.message.isprintable()
    assert "root:" not in fault.message + fault.detail


@pytest.mark.parametrize("name", ON_DEVICE)
def test_reaches_the_gpu(name: str, cache: BuildCache) -> None:
    assert passes(bad_source(name), light_task(), cache).scenarios == ("fp32_37x244", "fp32_301x500")


@pytest.mark.parametrize("name", [*ATTENTION, GOOD_ATTENTION.stem])
def test_attention_reaches_the_gpu(name: str, cache: BuildCache) -> None:
    assert len(passes(attention_source(name), small_attention(), cache).scenarios) == 2


@pytest.mark.parametrize("path", honest_sources(), ids=lambda path: path.stem)
def test_unusual_kernels_pass(path: Path, cache: BuildCache) -> None:
    scenarios = passes(path.read_text(), light_task(), cache).scenarios
    assert scenarios == {
        "half_only": ("fp16_130x1000",),
        GOOD.stem: ("fp32_37x244", "fp32_301x500", "fp16_130x1000"),
    }.get(path.stem, ("fp32_37x244", "fp32_301x500"))


def test_every_candidate_is_tried() -> None:
    assert {path.stem for path in (FOLDER / "bad").glob("*.cu")} == set(OFFLINE) | set(ON_DEVICE)
    assert {path.stem for path in (FOLDER / "attention").glob("*.cu")} == set(ATTENTION) | {GOOD_ATTENTION.stem}
    assert not set(OFFLINE) & set(ON_DEVICE)
    assert len(honest_sources()) >= 8
