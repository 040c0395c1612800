"""compute-sanitizer on a real GPU: seeds and honest kernels are clean on a small case, planted errors are found."""

from pathlib import Path

import pytest

pytest.importorskip("cuda.bindings.driver")

from evaluator.cache import BuildCache
from evaluator.cuda.nvrtc import compile_cuda
from evaluator.cuda.sanitizer import Result, inspect_program
from evaluator.task import Task, load_task
from evaluator.task_card import Scenario
from population.candidate import Language
from tests.cheats.cuda_cases import GOOD, SET, bad_source, light_task
from tests.gpu.cuda_session import inputs_for, program_for, resolved_for

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(400)]

SMALL = {"b": 1, "sq": 192, "sk": 192, "h": 2, "hkv": 1, "d": 64, "causal": 1, "window": 0, "dtype": "bf16"}
MANY_TILES = SMALL | {"b": 4, "h": 64, "hkv": 8, "d": 128}
"""More tiles than a persistent block has buffers, on each of the multiprocessors."""
SEEDS = ("portable", "hopper_plain", "hopper")
RACE = """/* plan
domain = "dtype == 'fp32'"

[[launch]]
kernel = "scaled"
grid = ["n"]
block = [128]
args = ["x", "w", "y", "total", "m"]
*/
extern "C" __global__ void scaled(const float* x, const float* w, float* y, float* total, int m) {
    __shared__ float row[1024];
    for (int j = threadIdx.x; j < m; j += 128) row[j] = x[blockIdx.x * m + j] * w[j];
    float sum = 0.f;
    for (int j = 0; j < m; ++j) sum += row[j];
    for (int j = threadIdx.x; j < m; j += 128) y[blockIdx.x * m + j] = row[j];
    total[blockIdx.x] = sum;
}
"""


@pytest.fixture(scope="module")
def arch() -> str:
    from evaluator.cuda.device import find_gpu

    return str(find_gpu(0).arch)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> BuildCache:
    return BuildCache(tmp_path_factory.mktemp("sanitizer"))


def inspected(source: str, task: Task, scenario: Scenario, arch: str, tool: str, cache: BuildCache) -> tuple[Result, str]:
    """The tool's result and detail; the test is skipped where the tool can't work."""
    resolved = resolved_for(source, task, scenario, arch)
    program = program_for(source, resolved, scenario, compile_cuda(source, resolved, arch, cache))
    found = inspect_program(program, inputs_for(task, scenario), tool)
    if found.result is Result.UNAVAILABLE:
        pytest.skip(f"{tool}: {found.detail}")
    return found.result, found.detail


@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
@pytest.mark.parametrize("name", SEEDS)
@pytest.mark.parametrize("symbols", [SMALL, MANY_TILES], ids=["small", "many_tiles"])
def test_a_seed_is_clean(symbols: dict[str, int | str], name: str, tool: str, arch: str, cache: BuildCache) -> None:
    if name.startswith("hopper") and arch != "sm_90a":
        pytest.skip(f"{name} is for sm_90a, this is {arch}")
    task = load_task("attention_forward")
    source = task.seeds(Language.CUDA)[name].read_text()
    scenario = Scenario(name="small", symbols=symbols, region=task.region(symbols))
    assert inspected(source, task, scenario, arch, tool, cache) == (Result.CLEAN, "")


@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
@pytest.mark.parametrize("name", [GOOD.stem, "two_launches", "cluster_pair", "persistent_counter"])
def test_an_honest_kernel_is_clean(name: str, tool: str, arch: str, cache: BuildCache) -> None:
    source = (Path(GOOD.parent) / f"{name}.cu").read_text()
    scenario = light_task().scenarios[SET][0]
    assert inspected(source, light_task(), scenario, arch, tool, cache) == (Result.CLEAN, "")


@pytest.mark.parametrize(
    ("source", "tool", "words"),
    [
        (bad_source("write_past_end"), "memcheck", "Invalid __global__ write"),
        (bad_source("reads_slack"), "memcheck", "Invalid __global__ read"),
        (bad_source("misaligned_vector"), "memcheck", "of size 16 bytes, misaligned"),
        (RACE, "racecheck", "Race reported"),
    ],
    ids=["write_past_end", "reads_slack", "misaligned_vector", "race"],
)
def test_planted_errors_are_found(source: str, tool: str, words: str, arch: str, cache: BuildCache) -> None:
    result, detail = inspected(source, light_task(), light_task().scenarios[SET][0], arch, tool, cache)
    assert result is Result.FINDINGS
    assert words in detail
