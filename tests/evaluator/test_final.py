"""Finals: fresh secrets, all distributions, hidden scenarios, every opponent."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evaluator import peers
from evaluator.final import BEST_OF_ALL
from evaluator.outcome import Effort, Outcome, Stage, Verdict
from evaluator.request import Request
from evaluator.task import load_baselines
from population.candidate import Candidate, short_id
from tests.evaluator.fake_backend import Behaviour, FakeBackend, Outputs, candidate, fault
from tests.evaluator.tiny_harness import QUICK, harness, tiny

ONE, RIVAL = candidate("one"), candidate("rival")


def final(tmp_path: Path, backend: FakeBackend, *rivals: Candidate, one: Candidate = ONE) -> Outcome:
    return harness(backend, tmp_path).evaluate(Request(candidate=one, effort=Effort.FINAL, rivals=rivals))


def test_all_distributions_and_hidden_scenarios_are_checked(tmp_path: Path) -> None:
    found = final(tmp_path, FakeBackend())
    assert found.verdict is Verdict.OK
    assert found.effort is Effort.FINAL
    assert {check.distribution for check in found.checks} == {"normal", "large", "ones"}
    hidden = {check.scenario for check in found.checks} - {"n4", "n8", "n16"}
    assert len(hidden) == 3
    assert all(name.startswith("hidden") for name in hidden)
    assert "races not checked: no sanitizer on this backend" in found.notes
    assert found.supported == ("n4", "n8", "n16")


def test_a_kernel_that_knows_only_the_public_shapes_is_wrong(tmp_path: Path) -> None:
    def spoil(execution: int, right: Outputs, before: Outputs) -> Outputs:
        if right["y"].shape[1] != 8:
            right["y"][0, 0] += 1e3
        return right

    backend = FakeBackend(behaviours={ONE.id: Behaviour(spoil=spoil)})
    assert harness(backend, tmp_path).evaluate(Request(candidate=ONE)).verdict is Verdict.OK
    found = final(tmp_path, backend)
    assert found.verdict is Verdict.WRONG
    assert found.fault is not None
    assert found.fault.scenario is not None
    assert found.fault.scenario.startswith("hidden")
    assert found.fitness is None


def test_a_domain_without_hidden_scenarios_says_so(tmp_path: Path) -> None:
    found = final(tmp_path, FakeBackend(), one=candidate(extra='domain = "m == 8"'))
    assert found.verdict is Verdict.OK
    assert any("no hidden scenario" in note for note in found.notes)


def test_secrets_are_drawn_anew(tmp_path: Path) -> None:
    backend = FakeBackend()
    judge = harness(backend, tmp_path)
    contents = []
    for _ in range(2):
        backend.fills.clear()
        assert judge.evaluate(Request(candidate=ONE, effort=Effort.FINAL)).verdict is Verdict.OK
        contents.append({content for _, content, _ in backend.fills if len(set(content)) > 8})
    assert not contents[0] & contents[1]


def test_every_available_baseline_and_each_rival_is_raced(tmp_path: Path) -> None:
    times = {ONE.id: 50.0, "peer": 100.0, "other": 110.0, RIVAL.id: 75.0}
    backend = FakeBackend(
        behaviours={name: Behaviour(time_us=lambda s, e, us=us: us) for name, us in times.items()}  # type: ignore[misc]
    )
    found = final(tmp_path, backend, RIVAL, ONE)
    assert found.fitness is not None
    assert (found.fitness.opponent, found.fitness.geomean) == ("peer", pytest.approx(2.0))
    ratios = {item.opponent: item.geomean for item in found.versus}
    assert ratios == {"other": pytest.approx(2.2), BEST_OF_ALL: pytest.approx(2.0), f"candidate:{RIVAL.id}": pytest.approx(1.5)}
    assert len(found.timings) == 9


def test_an_outclassed_baseline_is_not_raced(tmp_path: Path) -> None:
    backend = FakeBackend(behaviours={"other": Behaviour(time_us=lambda s, e: 200.0 if s.name == "n8" else 90.0)})
    found = final(tmp_path, backend)
    assert [item.opponent for item in found.versus] == [BEST_OF_ALL]
    assert found.versus[0].geomean == pytest.approx(0.9 ** (2 / 3))
    assert [t.scenario for t in found.timings if t.opponent == "other"] == [s for s in found.supported if s != "n8"]
    assert any("other takes 2.00 to 2.00 times as long as peer in 1 of the 3 scenarios" in note for note in found.notes)


def test_a_rival_is_met_where_both_claim(tmp_path: Path) -> None:
    rival = candidate(extra='domain = "n <= 8"')
    found = final(tmp_path, FakeBackend(), rival)
    assert [item.scenarios for item in found.versus if item.opponent == f"candidate:{rival.id}"] == [2]


@pytest.mark.parametrize(
    "broken",
    [Behaviour(build_fault=fault(Verdict.COMPILE_ERROR, Stage.BUILD)), Behaviour(faults={0: fault(Verdict.CRASH)})],
    ids=["not built", "crashes"],
)
def test_a_broken_rival_costs_a_note_and_not_the_score(tmp_path: Path, broken: Behaviour) -> None:
    found = final(tmp_path, FakeBackend(behaviours={RIVAL.id: broken}), RIVAL)
    assert found.verdict is Verdict.OK
    assert [item.opponent for item in found.versus] == ["other", BEST_OF_ALL]
    assert any(RIVAL.id[:10] in note for note in found.notes)


def test_a_broken_second_baseline_costs_a_note_and_not_the_score(tmp_path: Path) -> None:
    found = final(tmp_path, FakeBackend(behaviours={"other": Behaviour(start_fault=fault(Verdict.CRASH))}))
    assert found.verdict is Verdict.OK
    assert found.versus == ()
    assert any("other" in note for note in found.notes)


def test_noise_keeps_a_final_from_publishing_a_score(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    noise = Behaviour(time_us=lambda s, e: 100.0 * float(np.exp(rng.standard_normal())))
    found = final(tmp_path, FakeBackend(behaviours={ONE.id: noise}))
    assert found.verdict is Verdict.AMBIGUOUS


def test_a_task_without_hidden_scenarios_is_noted(tmp_path: Path) -> None:
    backend = FakeBackend()
    found = harness(backend, tmp_path, settings=replace(QUICK, hidden_scenarios=0)).evaluate(
        Request(candidate=ONE, effort=Effort.FINAL)
    )
    assert any("no hidden scenarios" in note for note in found.notes)


def test_the_best_of_all_is_chosen_scenario_by_scenario(tmp_path: Path) -> None:
    other = Behaviour(time_us=lambda s, e: 50.0 if s.name == "n8" else 105.0)
    found = final(tmp_path, FakeBackend(behaviours={"other": other}))
    scores = {item.opponent: item for item in found.versus}
    assert scores[BEST_OF_ALL].worst_scenario == "n8"
    assert scores[BEST_OF_ALL].worst_ratio == pytest.approx(0.5)
    assert scores[BEST_OF_ALL].geomean == pytest.approx(0.5 ** (1 / 3))
    assert scores[BEST_OF_ALL].scenarios == 3


def test_a_peer_is_raced_where_it_computes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    peer, other, absent = load_baselines(tiny().folder)
    narrow = replace(other, supports=lambda symbols: symbols["n"] != 8)
    monkeypatch.setattr(peers, "load_baselines", lambda folder: (narrow, peer, absent))
    found = final(tmp_path, FakeBackend(behaviours={"other": Behaviour(time_us=lambda s, e: 50.0)}))
    scores = {item.opponent: item for item in found.versus}
    assert found.fitness is not None
    assert found.fitness.opponent == "peer"
    assert scores["other"].scenarios == 2
    assert scores[BEST_OF_ALL].scenarios == 3
    assert scores[BEST_OF_ALL].geomean == pytest.approx(0.5 ** (2 / 3))


def test_dear_scenarios_are_checked_under_some_distributions(tmp_path: Path) -> None:
    flop = sorted(tiny().work(one.symbols).flop for one in tiny().card("three").scenarios)
    settings = replace(QUICK, full_check_flop=flop[1], hidden_scenarios=0)
    found = harness(FakeBackend(), tmp_path, settings=settings).evaluate(Request(candidate=ONE, effort=Effort.FINAL))
    names = {name: {check.distribution for check in found.checks if check.scenario == name} for name in found.supported}
    assert names["n4"] == names["n8"] == {"normal", "large", "ones"}
    assert len(names["n16"]) == 2
    assert "normal" in names["n16"]
    assert any(note.startswith("1 of 3 scenarios need more than") for note in found.notes)


def test_one_lease_covers_the_final_and_everything_is_built_before_it(tmp_path: Path) -> None:
    backend = FakeBackend()
    found = final(tmp_path, backend, RIVAL)
    assert backend.leased == [f"final of {short_id(ONE.id)}"]
    assert {score.opponent for score in found.versus} >= {"other", f"candidate:{RIVAL.id}"}
    assert found.facts["lease_s"] == 1.5
