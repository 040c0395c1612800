"""Fuzzed sources through screen, compiler and gate of both backends: one verdict each, nothing escapes, nothing is left."""

import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pytest

from evaluator.cache import BuildCache
from evaluator.cpu.build import build_candidate
from evaluator.cpu.gate import gate as gate_cpu
from evaluator.cuda.offline import examine
from evaluator.outcome import Fault, Stage, Verdict
from evaluator.sandbox import landlock_abi
from evaluator.screen import screen
from evaluator.task import load_task
from population.candidate import Language
from tests.cheats.cuda_cases import FOLDER, GOOD, GOOD_ATTENTION, SET, light_task, small_attention
from tests.evaluator.fuzzing import canary_file, check_fault, nothing_left
from tests.evaluator.plan_mistakes import PLAN_MISTAKES, spoilt
from tests.evaluator.source_mistakes import SOURCE_MISTAKES

SEED = 1_000
ALLOWED = {
    Stage.SCREEN: {Verdict.PLAN_ERROR, Verdict.UNSUPPORTED},
    Stage.BUILD: {Verdict.COMPILE_ERROR, Verdict.COMPILE_LIMIT, Verdict.SANDBOX},
    Stage.GATE: {Verdict.GATE_VIOLATION},
}
CPU_SEED = load_task("attention_forward").seeds(Language.CPP)["cpu_plain"]
CPU_FACTS = {"sm_count": 2, "shared_limit": 0}
Judge = Callable[[str], Fault | None]

pytestmark = pytest.mark.skipif(landlock_abi() == 0, reason="this kernel has no Landlock, so foreign files can be included")


def cuda_judges(cache: BuildCache) -> Sequence[tuple[str, Judge]]:
    """Sources with how they are judged for an H200, as far as a machine without one can."""

    def judge_with(task, set_name) -> Judge:  # type: ignore[no-untyped-def]
        def judge(source: str) -> Fault | None:
            found = examine(source, task, set_name, "sm_90a", cache)
            return found if isinstance(found, Fault) else None

        return judge

    light, attention = judge_with(light_task(), SET), judge_with(small_attention(), SET)
    honest = FOLDER / "honest"
    names = ("two_launches", "persistent_counter", "cluster_pair", "tensor_map_store")
    return [(GOOD.read_text(), light), (GOOD_ATTENTION.read_text(), attention)] + [
        ((honest / f"{name}.cu").read_text(), light) for name in names
    ]


def cpu_judges(cache: BuildCache) -> Sequence[tuple[str, Judge]]:
    """The plain CPU seed, for its first scenario."""
    task = load_task("attention_forward")
    card = task.card("cpu_quick")

    def judge(source: str) -> Fault | None:
        screened = screen(source, Language.CPP, card, CPU_FACTS, lambda scenario: task.scalars(scenario.symbols))
        if isinstance(screened, Fault):
            return screened
        build = build_candidate(source, screened.resolved[0], cache)
        return build if isinstance(build, Fault) else gate_cpu(build, screened.resolved[0])

    return [(CPU_SEED.read_text(), judge)]


def fuzz(judges: Sequence[tuple[str, Judge]], rng: Random, count: int, canary: Path) -> Counter[str]:
    """How often each verdict came; every fault was held against what a fault must be, and all that fell out is shown together."""
    verdicts, fell_out = Counter[str](), []
    for _ in range(count):
        source, judge = rng.choice(judges)
        source = spoilt(rng, source, SOURCE_MISTAKES, most=2)
        if rng.random() < 0.1:
            source = spoilt(rng, source, PLAN_MISTAKES, most=1)
        try:
            fault = judge(source.replace("{canary}", str(canary)))
            verdicts[fault.verdict if fault else "gated"] += 1
            if fault is not None:
                assert fault.verdict in ALLOWED[fault.stage], fault
                check_fault(fault)
        except Exception:
            fell_out.append(f"{source}\n{traceback.format_exc()}")
    assert not fell_out, "\n".join(fell_out[:5])
    return verdicts


JUDGES = pytest.mark.parametrize("judges", [cuda_judges, cpu_judges], ids=["cuda", "cpu"])


@JUDGES
def test_a_few_sources(
    judges: Callable[[BuildCache], Sequence[tuple[str, Judge]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = judges(BuildCache(tmp_path / "cache"))
    source, judge = found[0]
    assert judge(source) is None
    with nothing_left(tmp_path, monkeypatch):
        verdicts = fuzz(found[:1], Random(SEED + 1), 6, canary_file(tmp_path))
    assert verdicts["COMPILE_ERROR"]


@pytest.mark.slow
@pytest.mark.timeout(3600)
@JUDGES
def test_a_thousand_sources(
    judges: Callable[[BuildCache], Sequence[tuple[str, Judge]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = judges(BuildCache(tmp_path / "cache"))
    count = 700 if judges is cuda_judges else 300
    for source, judge in found:
        assert judge(source) is None
    with nothing_left(tmp_path, monkeypatch):
        verdicts = fuzz(found, Random(SEED), count, canary_file(tmp_path))
    print(dict(verdicts))
    assert verdicts.total() == count
    assert all(verdicts[verdict] for verdict in ("COMPILE_ERROR", "GATE_VIOLATION", "gated"))
