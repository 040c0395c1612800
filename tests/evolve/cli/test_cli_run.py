import math
from dataclasses import replace
from pathlib import Path

import pytest

from evaluator.outcome import Fault, Outcome, Stage, Verdict
from evaluator.request import Request
from evaluator.simulated import SimulatedEvaluator
from evolve import api
from evolve.errors import EnvironmentUnfit
from evolve.utilisation import Utilisation


def test_run_prints_the_result_on_stdout_and_progress_on_stderr(ask) -> None:
    ran = ask("run", "sim.toml")
    assert ran.code in (0, 5)
    for expected in (
        "run sim, finished: all candidates spent",
        "baseline peer",
        "seed rows.cpp",
        "seed columns.cpp",
        "best, in its final",
        "best over the better seed",
        "best over the baseline peer",
        "What each question gave:",
    ):
        assert expected in ran.out
    assert "12/12]" in ran.err
    assert "new best" in ran.err
    assert "final of" in ran.err
    assert "\x1b" not in ran.out + ran.err
    assert "\r" not in ran.err


def test_a_noise_floor_that_hides_gains_is_said(ask, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "noise floor was" not in ask("run", "sim.toml", "-q").out
    monkeypatch.setattr("evolve.cli.summary.NOISY_PCT", 0.0)
    assert "only a gain above it makes a new best" in ask("resume", "sim", "-q").out


def test_quiet_says_nothing_but_advice(ask) -> None:
    ran = ask("run", "sim.toml", "-q")
    assert "step" not in ran.err
    assert "run sim" in ran.out


def test_the_json_document_holds_what_scripts_need(ask) -> None:
    ran = ask("run", "sim.toml", "--json")
    document = ran.document
    best = document["best"]
    assert document["schema_version"] == 1
    assert document["candidates"] == 12
    assert document["questions_asked"] >= 10
    assert document["spent"].keys() == {"candidates", "hours", "tokens", "usd", "gpu_hours"}
    assert document["stopped_by"] == "candidates"
    assert best["verified"] is True
    assert len(best["id"]) == 64
    assert best["over_baseline"]["name"] == "peer"
    for versus in (best["over_baseline"], best["over_better_seed"]):
        assert 0 < versus["low"] <= versus["ratio"] <= versus["high"] < math.inf
    assert ran.code == (0 if best["over_baseline"]["low"] > 1 else 5)


def test_a_baseline_that_is_beaten_gives_0_and_one_that_is_not_gives_5(ask) -> None:
    codes = {}
    for seed in range(1, 6):
        ran = ask("run", "sim.toml", "-q", "--json", "--name", f"s{seed}", "--set", f"run.seed={seed}")
        codes[ran.document["best"]["over_baseline"]["low"] > 1] = ran.code
    assert codes == {True: 0, False: 5}


def test_no_right_candidate_gives_5_and_says_what_was_wrong(ask, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = Fault(verdict=Verdict.WRONG, stage=Stage.CHECK, message="all of it")
    monkeypatch.setattr(SimulatedEvaluator, "_failure", lambda self, point: fault)
    ran = ask("run", "sim.toml")
    assert ran.code == 5
    assert "No candidate is right in every scenario" in ran.out
    assert "all of it" in ran.err
    assert ask("run", "sim.toml", "--json", "-q").document["best"] is None


def test_a_dry_run_writes_nothing_and_says_what_it_would_cost(ask, tmp_path: Path) -> None:
    ran = ask("run", "sim.toml", "--dry-run", "--set", "budget.hours=0.25")
    assert (ran.code, ran.err) == (0, "")
    for expected in ("tiny", "5 of set five", "simulated", "peer, other, absent", "candidates at most", "0.250", "no model"):
        assert expected in ran.out
    document = ask("run", "sim.toml", "--dry-run", "--json").document
    assert document["dry_run"] is True
    assert document["candidates_at_most"] == 12
    assert not (tmp_path / "runs").exists()


def test_a_second_run_of_one_file_takes_a_free_name_and_says_so(ask, finished: Path) -> None:
    ran = ask("run", "sim.toml")
    assert "run sim-2" in ran.out
    assert "askevolve resume sim" in ran.err
    taken = ask("run", "sim.toml", "--name", "sim")
    assert (taken.code, taken.out) == (6, "")
    assert "already there" in taken.err


@pytest.mark.parametrize(
    ("override", "code", "words"),
    [
        ("budget.candidats=3", 3, "did you mean 'candidates'?"),
        ("budgt.candidates=3", 3, "did you mean 'budget'?"),
        ("budget=3", 3, "table.key=value"),
        ("budget.candidates=many", 3, "[budget] candidates"),
        ("budget.candidates=1", 7, "set it to 2 or more"),
        ("task.name=nosuch", 3, "built in are attention_forward"),
        ("task.name=./nosuch", 3, "nosuch"),
        ("task.scenarios=six", 3, "it has three, five"),
        ("task.backend=cuda", 3, "isn't a .cu file"),
        ('population.seeds=["nosuch"]', 3, "no seed 'nosuch'"),
        ('population.seeds=["./nosuch.cpp"]', 3, "can't be read"),
        ('population.seeds=["./sim.toml"]', 3, "isn't a"),
        ("goal.expression=geomean(", 3, "ends after character 8"),
        ("goal.expression=geomean(peer) >= fast", 3, "a number"),
        ("goal.expression=geomean(fa4) >= 1.0", 3, "no baseline 'fa4'"),
        ("goal.expression=gomean(peer) >= 1.0", 3, "did you mean 'geomean'?"),
        ("run.name=../up", 3, "[run] name"),
        ("executor.workers=4", 3, "set workers = 1"),
    ],
)
def test_a_wrong_configuration_is_refused_before_anything_is_written(
    ask, tmp_path: Path, override: str, code: int, words: str
) -> None:
    ran = ask("run", "sim.toml", "--set", override)
    assert (ran.code, ran.out) == (code, "")
    assert words in ran.err
    assert "Traceback" not in ran.err
    assert not (tmp_path / "runs").exists()


def test_a_missing_or_unreadable_file_is_a_configuration_error(ask, tmp_path: Path) -> None:
    missing = ask("run", "nosuch.toml")
    assert missing.code == 3
    assert "askevolve init" in missing.err
    (tmp_path / "bad.toml").write_text("[run\n")
    bad = ask("run", "bad.toml")
    assert bad.code == 3
    assert "not valid TOML" in bad.err


def test_an_unwritable_folder_is_the_environments_fault(ask, tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file where the folder should be")
    ran = ask("run", "sim.toml")
    assert ran.code == 4
    assert "runs/sim" in ran.err


def test_a_goal_that_is_met_ends_the_run(ask) -> None:
    ran = ask("run", "sim.toml", "--json", "-q", "--set", "goal.expression=geomean(peer) >= 0.5 and correct == all")
    assert ran.document["stopped_by"] == "goal"
    assert ran.document["candidates"] < 12


def test_faults_of_the_harness_end_a_run_with_4_and_the_command_that_goes_on(ask, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = Fault(verdict=Verdict.HARNESS_FAULT, stage=Stage.TIME, message="the baseline died")
    points: list[object] = []

    def failing(self: SimulatedEvaluator, point: object) -> Fault | None:
        points.append(point)
        return fault if len(points) > 3 else None

    monkeypatch.setattr(SimulatedEvaluator, "_failure", failing)
    ran = ask("run", "sim.toml")
    assert ran.code == 4
    assert "askevolve resume runs/sim" in ran.err
    assert "askevolve doctor" in ran.err.splitlines()[-1]


def test_a_gpu_that_is_quarantined_meanwhile_ends_a_run_with_4_and_its_reason(ask, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluate = SimulatedEvaluator.evaluate
    requests: list[object] = []

    def falling(self: SimulatedEvaluator, request: Request) -> Outcome:
        requests.append(request)
        if len(requests) > 3:
            raise EnvironmentUnfit("this GPU is quarantined: it hangs; `askevolve doctor` lifts it")
        return evaluate(self, request)

    monkeypatch.setattr(SimulatedEvaluator, "evaluate", falling)
    ran = ask("run", "sim.toml", "--set", "executor.kind=inline")
    assert ran.code == 4
    assert "askevolve resume runs/sim" in ran.err
    assert "this GPU is quarantined: it hangs; `askevolve doctor` lifts it" in ran.err.splitlines()[-1]
    assert "stopped because nothing is left that may evaluate" in ask("status", "sim").out


def test_an_error_nobody_foresaw_shows_its_traceback_and_gives_1(ask, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object, **more: object) -> None:
        raise RuntimeError("\x1b[31mred\x1b[0m")

    monkeypatch.setattr(api, "run", broken)
    ran = ask("run", "sim.toml")
    assert ran.code == 1
    assert "Traceback" in ran.err
    assert "fault of askevolve" in ran.err
    assert "\x1b" not in ran.err


def test_a_known_error_shows_its_traceback_only_when_asked(ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASKEVOLVE_DEBUG", "1")
    ran = ask("run", "nosuch.toml")
    assert ran.code == 3
    assert "Traceback" in ran.err


def test_a_ray_address_is_an_override(ask) -> None:
    shown = ask("run", "sim.toml", "--ray-address", "auto", "--dry-run", "--json")
    assert shown.code == 0
    assert "ray" in shown.document["executor"]


def test_a_summary_says_how_busy_the_gpu_was(ask, finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    busy = Utilisation(wall_s=205.0, lease_share=0.871, busy_share=0.42)
    monkeypatch.setattr("evolve.utilisation.utilisation", lambda events: busy)
    assert "GPU held 87 % of the 3 min 25 s of evaluations, kernels ran 42 %\n" in ask("resume", "sim").out
    assert ask("resume", "sim", "--json").document["gpu"] == {"wall_s": 205.0, "lease_share": 0.871, "busy_share": 0.42}


def test_a_verdict_that_settles_nothing_is_explained_wherever_it_is_met(ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a noisy host: a seed leads for want of a better one, and finals are repeated; a reader is told why."""
    told = SimulatedEvaluator.evaluate

    def noisy(self: SimulatedEvaluator, request: Request) -> Outcome:
        found = told(self, request)
        return replace(found, verdict=Verdict.AMBIGUOUS) if found.verdict is Verdict.OK else found

    monkeypatch.setattr(SimulatedEvaluator, "evaluate", noisy)
    ran = ask("run", "sim.toml")
    meaning = "right, but timed too loosely to be ranked"
    assert f"(seed): {meaning}" in ran.err
    assert "; a seed leads for want of one that can be ranked" in ran.err
    assert " begins again, since its last one settled nothing" in ran.err
    assert f"This final settles nothing (AMBIGUOUS: {meaning}" in ran.out
    status = ask("status", "sim").out
    assert status.count(meaning) == 2, "the best's own verdict and its final's"


def test_answers_that_make_nothing_end_a_run_which_says_where_to_look(ask) -> None:
    command = ("--set", "mutation.answerer=command", "--set", 'command.program=["/bin/echo", "no idea"]')
    ran = ask("run", "sim.toml", *command, "--set", "mutation.exhausted_after=2", "-q")
    assert "finished: no new candidate found any more" in ran.out
    assert "the last answers made no new candidate; why: askevolve status runs/sim" in ran.err
    assert "no_code" in ask("status", "sim").out
