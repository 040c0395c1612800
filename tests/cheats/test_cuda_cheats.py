"""What can be decided about the CUDA pack without a GPU: plan, compiler and gate refuse their groups with one helpful message,
and every other candidate gets as far as the GPU, on which ``tests/gpu/test_cuda_cheats.py`` runs it."""

from collections.abc import Callable, Iterator
from dataclasses import fields

import pytest

from evaluator.cache import BuildCache
from evaluator.cuda import nvrtc
from evaluator.cuda.offline import Gated, examine
from evaluator.outcome import Fault, Verdict
from evaluator.plan.model import LaunchSpec
from evaluator.task import Task
from tests.ahead import build_ahead
from tests.cheats.cuda_cases import (
    ATTENTION,
    EITHER,
    FOLDER,
    GOOD,
    GOOD_ATTENTION,
    OFFLINE,
    ON_DEVICE,
    SET,
    SHAPES,
    attention_source,
    bad_source,
    honest_attention,
    honest_sources,
    light_task,
    small_attention,
)
from tests.cheats.variants import BY_FINAL_ONLY, CUDA_ATTENTION, CUDA_LIGHT

ARCH = "sm_90a"
MOST_CHARACTERS = 600
LAUNCH_KEYS = {"kernel", "when", "grid", "block", "cluster", "cooperative", "shared", "args", "line"}
HOST_PAYLOADS = {
    "main": "int main() { return 7; }",
    "stream": "void hide(void* work) { cudaStream_t stream; cudaStreamCreate(&stream); }",
    "thread": "#include <thread>\nvoid hide() { std::thread([] {}).detach(); }",
    "system": 'int system(const char*);\nint hidden = system("id");',
    "constructor": "struct Hidden { Hidden(); };\nHidden::Hidden() { *(int*)0 = 7; }\nHidden hidden;",
    "event": "float cudaEventElapsedTime(float* ms, void*, void*) { *ms = 0.f; return 0.f; }",
    "python": "import torch\ntorch.cuda.Event.elapsed_time = lambda self, other: 0.0",
    "loader": "#include <dlfcn.h>\nvoid hide() { dlopen(0, 1); }",
}
"""Cheats of candidates that bring a host program: streams, threads, patched timers, code that runs when loaded."""


@pytest.fixture(scope="module")
def cache(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BuildCache]:
    """The pack's builds, examined by their PTX: nvdisasm would take longer than the compiler."""
    cache = BuildCache(tmp_path_factory.mktemp("pack"))

    def examined(source_of: Callable[[str], str], task: Task) -> Callable[[str], object]:
        return lambda name: examine(source_of(name), task, SET, ARCH, cache)

    light, attention = light_task(), small_attention()
    builds = {
        "test_refused_without_a_gpu": examined(bad_source, light),
        "test_reaches_the_gpu": examined(bad_source, light),
        "test_attention_reaches_the_gpu": examined(attention_source, attention),
        "test_unusual_kernels_pass": examined(honest_sources().__getitem__, light),
        "test_unusual_attention_passes": examined(honest_attention().__getitem__, attention),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nvrtc, "find_disassembler", lambda: None)
        build_ahead(request, builds)
        yield cache


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


@pytest.mark.parametrize("name", [*ON_DEVICE, *EITHER])
def test_reaches_the_gpu(name: str, cache: BuildCache) -> None:
    assert passes(bad_source(name), light_task(), cache).scenarios == ("fp32_37x244", "fp32_301x500")


@pytest.mark.parametrize("name", [*ATTENTION, GOOD_ATTENTION.stem])
def test_attention_reaches_the_gpu(name: str, cache: BuildCache) -> None:
    assert len(passes(attention_source(name), small_attention(), cache).scenarios) == 2


def test_a_kernel_that_knows_the_shapes_reaches_the_gpu(cache: BuildCache) -> None:
    assert len(passes(BY_FINAL_ONLY.source, small_attention(), cache).scenarios) == 2


@pytest.mark.parametrize("name", honest_sources())
def test_unusual_kernels_pass(name: str, cache: BuildCache) -> None:
    scenarios = passes(honest_sources()[name], light_task(), cache).scenarios
    assert scenarios == {
        "half_only": ("fp16_130x1000",),
        GOOD.stem: ("fp32_37x244", "fp32_301x500", "fp16_130x1000"),
    }.get(name, ("fp32_37x244", "fp32_301x500"))


@pytest.mark.parametrize("name", honest_attention())
def test_unusual_attention_passes(name: str, cache: BuildCache) -> None:
    scenarios = passes(honest_attention()[name], small_attention(), cache).scenarios
    assert scenarios == {"narrow_domain": ("grouped_causal",)}.get(name, tuple(SHAPES))


@pytest.mark.parametrize("payload", HOST_PAYLOADS)
def test_code_for_the_host_has_no_place(payload: str, cache: BuildCache) -> None:
    """It isn't compiled, or it is and nothing of it is in what runs: a cubin with the planned kernels alone."""
    source = GOOD.read_text().replace('extern "C"', HOST_PAYLOADS[payload] + '\nextern "C"', 1)
    found = examine(source, light_task(), SET, ARCH, cache)
    if isinstance(found, Fault):
        assert found.verdict in {Verdict.COMPILE_ERROR, Verdict.GATE_VIOLATION, Verdict.SANDBOX}
        return
    assert [entry["cubin_bytes"] for entry in found.facts] == [
        entry["cubin_bytes"] for entry in passes(GOOD.read_text(), light_task(), cache).facts
    ]


def test_a_plan_has_no_key_for_what_a_host_program_decides() -> None:
    assert {field.name for field in fields(LaunchSpec)} == LAUNCH_KEYS


def test_every_candidate_is_tried() -> None:
    assert {path.stem for path in (FOLDER / "bad").glob("*.cu")} | set(CUDA_LIGHT) == set(OFFLINE) | set(ON_DEVICE) | set(EITHER)
    attention = {path.stem for path in (FOLDER / "attention").glob("*.cu")} | set(CUDA_ATTENTION)
    assert attention == set(ATTENTION) | {GOOD_ATTENTION.stem}
    assert not set(OFFLINE) & set(ON_DEVICE)


def test_the_honest_pack_is_large_enough() -> None:
    assert len(honest_sources()) + len(honest_attention()) >= 20
