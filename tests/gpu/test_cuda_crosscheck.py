"""The second clock on a real GPU: CUPTI's records and the harness's events tell the same time of the same executions."""

from pathlib import Path

import pytest

pytest.importorskip("cuda.bindings.driver")

from evaluator.cache import BuildCache
from evaluator.cuda.crosscheck import are_close, kernel_times
from evaluator.cuda.nvrtc import compile_cuda
from evaluator.cuda.replay import Replay
from evaluator.task import load_task
from evaluator.task_card import Scenario
from population.candidate import Language
from tests.gpu.cuda_session import inputs_for, program_for, resolved_for

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(200)]

SYMBOLS = {"b": 4, "sq": 2048, "sk": 2048, "h": 8, "hkv": 8, "d": 128, "causal": 1, "window": 0, "dtype": "bf16"}


def test_events_and_cupti_agree_on_a_seed(tmp_path: Path) -> None:
    from evaluator.cuda.device import find_gpu

    task, arch = load_task("attention_forward"), str(find_gpu(0).arch)
    source = task.seeds(Language.CUDA)["portable"].read_text()
    scenario = Scenario(name="one", symbols=SYMBOLS, region=task.region(SYMBOLS))
    resolved = resolved_for(source, task, scenario, arch)
    program = program_for(source, resolved, scenario, compile_cuda(source, resolved, arch, BuildCache(tmp_path)))
    inputs = inputs_for(task, scenario)
    found = kernel_times(Replay(cubin=program.build.path.read_bytes(), resolved=resolved, inputs=inputs))
    if isinstance(found, str):
        pytest.skip(found)
    assert found.cupti_us > 20.0
    assert are_close(found.events_us, found.cupti_us), found
