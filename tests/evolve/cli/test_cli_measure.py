import dataclasses
import shutil
from pathlib import Path

import pytest

from evaluator.outcome import Effort, Fault, Outcome, Stage, Verdict
from evaluator.task import load_task
from evolve import measure
from evolve.measure import EnvironmentUnfit
from population.candidate import Language
from population.novelty import candidate_of
from results.events import FinalMeasured
from tests.evolve.simulation import SEEDS, TINY_TASK, stored
from tests.results.makers import outcome

ROOT = Path(__file__).parents[3]
SEED = ROOT / "evaluator" / "tasks" / "attention_forward" / "seeds" / "cpu_plain.cpp"
CUDA = """/* plan
[[launch]]
kernel = "zero"
grid = ["1", "1", "1"]
block = ["32", "1", "1"]
args = ["out", "lse"]
*/
extern "C" __global__ void zero(__nv_bfloat16* out, float* lse) { lse[threadIdx.x] = 0.0f; }
"""


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[Outcome]:
    """What the next evaluation gives, instead of a measurement."""
    found = [outcome("x", 1.2)]
    monkeypatch.setattr(measure, "evaluate", lambda candidates, *arguments, **more: (found[0] for _ in candidates))
    return found


def test_a_right_kernel_gives_0_and_its_figures(ask, judged: list[Outcome]) -> None:
    ran = ask("evaluate", SEED)
    assert ran.code == 0
    assert "1.200x [1.198, 1.202] over torch" in ran.out
    assert "in 4 scenarios of cpu_quick" in ran.err
    assert ask("evaluate", SEED, "--json").document["outcome"]["fitness"]["geomean"] == 1.2
    assert "registers" in ask("evaluate", SEED, "--explain").out


@pytest.mark.parametrize(("verdict", "code"), [(Verdict.WRONG, 9), (Verdict.SLOWER, 9), (Verdict.HARNESS_FAULT, 1)])
def test_another_verdict_has_its_own_exit_code(ask, judged: list[Outcome], verdict: Verdict, code: int) -> None:
    judged[0] = outcome("x", verdict=verdict)
    ran = ask("evaluate", SEED)
    assert ran.code == code
    assert str(verdict) in ran.out


def test_a_machine_that_lacks_something_gives_4(ask, monkeypatch: pytest.MonkeyPatch) -> None:
    def unfit(*arguments: object, **more: object) -> None:
        raise EnvironmentUnfit("no baseline for the cpu backend")

    monkeypatch.setattr(measure, "evaluate", unfit)
    ran = ask("evaluate", SEED)
    assert (ran.code, ran.out) == (4, "")
    assert "no baseline for the cpu backend" in ran.err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nosuch.cpp"], 2, "can't be read"),
        (["sim.toml"], 2, "a candidate is a .cpp or .cu file"),
        (["runs.cpp", "--task", "nosuch"], 3, "no task 'nosuch'"),
        (["runs.cpp", "--scenarios", "nosuch"], 3, "no scenario set 'nosuch'"),
        (["runs.cu", "--arch", "sm_12"], 2, "known architectures are sm_80"),
    ],
)
def test_what_cannot_be_evaluated_is_said_before_anything_is_done(
    ask, tmp_path: Path, arguments: list[str], code: int, words: str
) -> None:
    for name in ("runs.cpp", "runs.cu"):
        (tmp_path / name).write_text(CUDA)
    ran = ask("evaluate", *arguments)
    assert (ran.code, ran.out) == (code, "")
    assert words in ran.err


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"int x;\n", b"/* plan\n[knobs]\n*/\n"])
def test_a_file_that_is_no_candidate_gets_a_verdict_by_the_real_harness(ask, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "odd.cpp").write_bytes(content)
    ran = ask("evaluate", "odd.cpp", "--quick")
    assert ran.code == 9
    assert ran.out.startswith("PLAN_ERROR at screen: ")
    assert "Traceback" not in ran.err


def test_a_kernel_that_does_nothing_is_found_out_on_this_cpu(ask) -> None:
    ran = ask("evaluate", SEEDS[0], "--task", TINY_TASK, "--quick", "--json")
    found = ran.document["outcome"]
    assert (ran.code, found["verdict"], found["stage"]) == (9, "STALE_OUTPUT", "check")
    assert found["device"]["kind"] == "cpu"


def test_a_cuda_file_is_built_and_gated_and_its_limits_are_said(ask, tmp_path: Path) -> None:
    (tmp_path / "zero.cu").write_text(CUDA.replace("__nv_bfloat16*", "void*"))
    ran = ask("evaluate", "zero.cu", "--scenarios", "quick3")
    assert ran.code == 4
    assert "for 3 scenarios of quick3" in ran.out
    assert "neither checked nor timed" in ran.err
    document = ask("evaluate", "zero.cu", "--scenarios", "quick3", "--json").document
    assert document["arch"] == "sm_90a"
    assert len(document["scenarios"]) == 3
    (tmp_path / "bad.cu").write_text(CUDA.replace("__nv_bfloat16*", "nonsense*"))
    bad = ask("evaluate", "bad.cu", "--scenarios", "quick3")
    assert bad.code == 9
    assert bad.out.startswith("COMPILE_ERROR at build: ")
    assert ask("evaluate", "bad.cu", "--scenarios", "quick3", "--json").document["fault"]["verdict"] == "COMPILE_ERROR"


def test_without_a_cuda_compiler_the_environment_is_to_blame(ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = Fault(verdict=Verdict.HARNESS_FAULT, stage=Stage.BUILD, message="no CUDA compiler is installed here")
    monkeypatch.setattr("evaluator.cuda.offline.compile_cuda", lambda *arguments: fault)
    (tmp_path / "zero.cu").write_text(CUDA)
    ran = ask("evaluate", "zero.cu", "--scenarios", "quick3")
    assert ran.code == 4
    assert "no CUDA compiler" in ran.out


def test_several_files_are_judged_in_one_session_each_under_its_name(ask, judged: list[Outcome], tmp_path: Path) -> None:
    shutil.copy(SEED, tmp_path / "mine.cpp")
    ran = ask("evaluate", SEED, "mine.cpp")
    assert ran.code == 0
    assert f"{SEED}:\nOK at score" in ran.out
    assert "\nmine.cpp:\nOK at score" in ran.out
    rows = ask("evaluate", SEED, "mine.cpp", "--json").document["evaluations"]
    assert [(row["file"], row["outcome"]["verdict"]) for row in rows] == [(str(SEED), "OK"), ("mine.cpp", "OK")]
    page = ask("evaluate", SEED, "mine.cpp", "--format", "md").out
    assert page.startswith("### cpu_plain.cpp\n")
    assert "\n\n### mine.cpp\n" in page


def test_one_wrong_file_of_several_gives_9_and_a_fault_of_the_harness_comes_first(ask, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [outcome("a", 1.2), outcome("b", verdict=Verdict.WRONG)]
    monkeypatch.setattr(measure, "evaluate", lambda *arguments, **more: iter(found))
    assert ask("evaluate", SEED, SEED).code == 9
    found[0] = outcome("a", verdict=Verdict.HARNESS_FAULT)
    assert ask("evaluate", SEED, SEED).code == 1


def test_files_of_two_languages_are_refused(ask, tmp_path: Path) -> None:
    (tmp_path / "zero.cu").write_text(CUDA)
    ran = ask("evaluate", SEED, "zero.cu")
    assert (ran.code, ran.out) == (2, "")
    assert "two languages" in ran.err


def test_several_cuda_files_without_a_gpu_are_each_built(ask, tmp_path: Path) -> None:
    (tmp_path / "zero.cu").write_text(CUDA.replace("__nv_bfloat16*", "void*"))
    (tmp_path / "bad.cu").write_text(CUDA.replace("__nv_bfloat16*", "nonsense*"))
    ran = ask("evaluate", "zero.cu", "bad.cu", "--scenarios", "quick3")
    assert ran.code == 9
    assert ran.out.startswith("zero.cu:\nbuilt and gated for sm_90a: ")
    assert "\nbad.cu:\nCOMPILE_ERROR at build: " in ran.out
    rows = ask("evaluate", "zero.cu", "bad.cu", "--scenarios", "quick3", "--json").document["evaluations"]
    assert [row["file"] for row in rows] == ["zero.cu", "bad.cu"]
    assert rows[1]["fault"]["verdict"] == "COMPILE_ERROR"


def test_where_a_gpu_is_a_cuda_file_is_measured_there(ask, judged: list[Outcome], tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "zero.cu").write_text(CUDA)
    monkeypatch.setattr("evolve.evaluators.gpus_here", lambda: (("a GPU",), ""))
    ran = ask("evaluate", "zero.cu", "--scenarios", "quick3", "--baseline", "fa3")
    assert ran.code == 0
    assert "1.200x [1.198, 1.202] over torch" in ran.out


def test_an_evaluator_that_cannot_be_had_names_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = measure.evaluate([candidate_of(CUDA, Language.CUDA)], str(TINY_TASK), "three", effort=Effort.SEARCH, quick=True)

    def missing(self: object, progress: object) -> None:
        raise ImportError("No module named 'cupy'")

    monkeypatch.setattr("evolve.evaluators.EvaluatorSpec.__call__", missing)
    with pytest.raises(EnvironmentUnfit, match="No module named 'cupy'; `askevolve doctor`"):
        next(found)


def test_final_verifies_again_and_stores_what_it_found(ask, finished: Path) -> None:
    before = len(stored(finished))
    ran = ask("final", "sim")
    assert ran.code == 0
    assert ran.out.startswith("OK at score")
    added = stored(finished)[before:]
    assert len(added) == 1
    assert isinstance(added[0], FinalMeasured)
    assert added[0].outcome.effort is Effort.FINAL
    assert ask("final", "sim", "--json").document["outcome"]["verdict"] == "OK"


def test_a_final_that_refutes_gives_9(ask, finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from evaluator.simulated import SimulatedEvaluator

    whole = SimulatedEvaluator.evaluate

    def refuting(self: SimulatedEvaluator, request: object) -> Outcome:
        return dataclasses.replace(whole(self, request), verdict=Verdict.WRONG, message="not this time")  # type: ignore[arg-type]

    monkeypatch.setattr(SimulatedEvaluator, "evaluate", refuting)
    best = ask("status", "sim", "--json").document["best"]["id"]
    ran = ask("final", "sim")
    assert ran.code == 9
    assert "not this time" in ran.out
    assert ask("status", "sim", "--json").document["best"]["id"] != best


def test_the_covering_set_is_the_smallest_that_a_candidate_claims() -> None:
    task = load_task("attention_forward")
    assert measure.covering_set([candidate_of(SEED.read_text(), Language.CPP)], task) == "cpu_quick"
    assert measure.covering_set([candidate_of("no plan", Language.CPP)], task) == "cpu_quick"
    anywhere = SEED.read_text().replace("domain =", "# domain =")
    assert measure.covering_set([candidate_of(anywhere, Language.CPP)], task) == "cpu_quick"
    assert (
        measure.covering_set([candidate_of(SEED.read_text(), Language.CPP), candidate_of("no plan", Language.CPP)], task)
        == "cpu_quick"
    )
    assert measure.sets_for(task, Language.CUDA)[0] == "quick3"


@pytest.mark.slow
def test_a_seed_is_measured_on_this_cpu(ask) -> None:
    ran = ask("evaluate", SEED, "--quick", "--scenarios", "cpu_quick", "--json")
    assert ran.code == 0
    found = ran.document["outcome"]
    assert found["fitness"]["opponent"] == "torch_cpu"
    assert len(found["timings"]) == 4
