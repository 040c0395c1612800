"""On a GPU too, what the gate would have refused is caught by the next layer: state that outlives a launch changes an answer."""

from collections.abc import Iterator

import pytest

from evaluator.outcome import Verdict
from tests.cheats.cuda_cases import SET, bad_source, light_task
from tests.gpu.cuda_session import Bench, check_refusal, open_bench

pytestmark = pytest.mark.gpu

KEPT = {Verdict.STALE_OUTPUT, Verdict.NONDETERMINISTIC, Verdict.WRONG, Verdict.NONFINITE}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    opened = open_bench(tmp_path_factory.mktemp("second"), light_task(), SET)
    yield opened
    opened.harness.close()


@pytest.mark.parametrize("name", ["device_variable", "assembly_variable"])
def test_without_the_gate(bench: Bench, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("evaluator.cuda.backend.gate_cuda", lambda build, resolved: None)
    outcome = bench.evaluate(bad_source(name))
    assert outcome.verdict in KEPT, f"{outcome.verdict}: {outcome.message}"
    check_refusal(outcome)
