"""The harness on the real CPU backend and task: a right kernel, and three that aren't."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from evaluator.cpu.backend import CpuBackend
from evaluator.harness import Harness
from evaluator.outcome import Outcome, Verdict
from evaluator.request import Request
from evaluator.settings import quick_settings
from evaluator.task import load_task
from population.candidate import Candidate, Language, hash_text

SOURCE = """/* plan
domain = "d == 64 and h == 4 and not causal and not window"

[[launch]]
kernel = "rows"
grid = ["sq", "h", "b"]
args = ["q", "k", "v", "out", "lse", "scale", "sq", "sk", "h", "hkv"]
*/
extern "C" float expf(float);
extern "C" float logf(float);

extern "C" void rows(long task, void* const* args) {
    const float *q = (const float*)args[0], *k = (const float*)args[1], *v = (const float*)args[2];
    float *out = (float*)args[3], *lse = (float*)args[4];
    const float scale = *(const float*)args[5] * SCALE;
    const long sq = *(const int*)args[6], sk = *(const int*)args[7], h = *(const int*)args[8], hkv = *(const int*)args[9];
    const long row = task % sq, head = task / sq % h, batch = task / sq / h, group = head / (h / hkv);
    const float* query = q + ((batch * sq + row) * h + head) * 64;
    float sum[64] = {}, top = -__builtin_inff(), total = 0.0f;
    for (long key = 0; key < sk; ++key) {
        const long at = ((batch * sk + key) * hkv + group) * 64;
        float score = 0.0f;
        for (int i = 0; i < 64; ++i) score += query[i] * k[at + i];
        score *= scale;
        const float high = score > top ? score : top, keep = expf(top - high), weight = expf(score - high);
        total = total * keep + weight;
        for (int i = 0; i < 64; ++i) sum[i] = sum[i] * keep + weight * v[at + i];
        top = high;
    }
    for (int i = 0; i < 64; ++i) if (WRITES) out[((batch * sq + row) * h + head) * 64 + i] = sum[i] / total;
    lse[(batch * h + head) * sq + row] = top + logf(total);
}
"""


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    folder = tmp_path_factory.mktemp("harness")
    settings = replace(quick_settings(1), search_distributions=4)
    harness = Harness(load_task("attention_forward"), "cpu_quick", CpuBackend(folder), settings, lock=folder / "lock")
    yield harness
    harness.close()


def evaluated(judge: Harness, scale: str = "1.0f", writes: str = "true", end: str = "") -> Outcome:
    source = SOURCE.replace("SCALE", scale).replace("WRITES", writes) + end
    return judge.evaluate(Request(candidate=Candidate(id=hash_text(source), normal_id="", language=Language.CPP, source=source)))


def test_a_right_kernel_is_checked_and_timed(judge: Harness) -> None:
    found = evaluated(judge)
    assert found.verdict in {Verdict.OK, Verdict.AMBIGUOUS}, found.message  # AMBIGUOUS on a busy host
    assert found.supported == ("d64_h4_256_full",)
    assert len({check.distribution for check in found.checks}) == 4
    assert all(check.passed for check in found.checks)
    assert {check.tensor for check in found.checks if check.baseline_difference is not None} >= {"out"}
    assert found.timings[0].opponent == "torch_cpu"
    assert found.noise_floor_pct is not None


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({"scale": "1.01f"}, Verdict.WRONG),
        ({"writes": "i < 63"}, Verdict.STALE_OUTPUT),
        ({"end": "syntax error"}, Verdict.COMPILE_ERROR),
    ],
    ids=["scale", "unwritten", "syntax"],
)
def test_a_wrong_kernel_gets_its_verdict(judge: Harness, changes: dict[str, str], verdict: Verdict) -> None:
    found = evaluated(judge, **changes)
    assert found.verdict is verdict, found.message
    assert found.fitness is None
    assert found.timings == ()
