import pytest

from evaluator.cache import BuildCache
from evaluator.cuda import offline
from evaluator.cuda.offline import DEVICE_FACTS, Gated, examine
from evaluator.outcome import Fault, Stage, Verdict
from evaluator.task import load_task

SOURCE = """/* plan
[knobs]
WARPS = { value = 4, choices = [1, 2, 4, 8] }

[constants]
HEAD_DIM = "d"

[[launch]]
kernel = "zero"
grid = ["sm_count", "1", "1"]
block = ["32 * WARPS", "1", "1"]
args = ["out", "lse"]
*/
extern "C" __global__ void zero(void* out, float* lse) { lse[threadIdx.x] = HEAD_DIM; }
"""


@pytest.fixture(scope="module")
def cache(cuda_cache: BuildCache) -> BuildCache:
    return cuda_cache


@pytest.mark.parametrize("arch", DEVICE_FACTS)
def test_a_kernel_is_built_and_gated_for_every_architecture_without_a_gpu(arch: str, cache: BuildCache) -> None:
    found = examine(SOURCE, load_task("attention_forward"), "quick3", arch, cache)
    assert isinstance(found, Gated), found
    assert found.arch == arch
    assert len(found.scenarios) == 3
    assert len(found.facts) == 1, "three scenarios with the same constants share one build"


def test_scenarios_with_other_constants_have_builds_of_their_own(cache: BuildCache) -> None:
    found = examine(SOURCE, load_task("attention_forward"), "fa3_36", "sm_90a", cache)
    assert isinstance(found, Gated), found
    assert len(found.scenarios) == 36
    assert len(found.facts) == 3, "d is 64, 128 and 256"


@pytest.mark.parametrize(
    ("old", "new", "verdict", "stage"),
    [
        ("[[launch]]", "[[lunch]]", Verdict.PLAN_ERROR, Stage.SCREEN),
        ('"32 * WARPS"', '"32 / (WARPS - 4)"', Verdict.PLAN_ERROR, Stage.SCREEN),
        ("threadIdx.x]", "threadIdx.q]", Verdict.COMPILE_ERROR, Stage.BUILD),
        ("zero(void* out, float* lse)", "zero(void* out, float* lse, int more)", Verdict.GATE_VIOLATION, Stage.GATE),
    ],
)
def test_the_first_fault_comes_back(old: str, new: str, verdict: Verdict, stage: Stage, cache: BuildCache) -> None:
    assert old in SOURCE
    found = examine(SOURCE.replace(old, new), load_task("attention_forward"), "quick3", "sm_90a", cache)
    assert isinstance(found, Fault), found
    assert (found.verdict, found.stage) == (verdict, stage), found.message
    assert found.message


def test_an_unknown_architecture_is_named_with_those_that_are_known(cache: BuildCache) -> None:
    with pytest.raises(ValueError, match=r"sm_12; known are sm_80, sm_89, sm_90a"):
        examine(SOURCE, load_task("attention_forward"), "quick3", "sm_12", cache)


def test_without_a_compiler_the_fault_is_the_harnesses(cache: BuildCache, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = Fault(verdict=Verdict.HARNESS_FAULT, stage=Stage.BUILD, message="none here")
    monkeypatch.setattr(offline, "compile_cuda", lambda *arguments: fault)
    assert examine(SOURCE, load_task("attention_forward"), "quick3", "sm_90a", cache) == fault
