"""A final that is stopped goes on where it was; what another final measured never counts."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from evaluator import final as finals
from evaluator.harness import Harness
from evaluator.outcome import Effort, Outcome, Verdict
from evaluator.request import Request
from evaluator.settings import HarnessSettings
from evaluator.sittings import Part, Sittings
from evaluator.task_card import Scenario
from tests.evaluator.fake_backend import Behaviour, FakeBackend, Outputs, candidate, fault
from tests.evaluator.tiny_harness import QUICK, quiet, seeded, tiny

ONE = candidate("one")
Time = Callable[[Scenario, int], float]


class Stopped(BaseException):
    """Stands for whatever ends the harness's process."""


@pytest.fixture(autouse=True)
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU."""
    monkeypatch.setattr(finals, "_one_by_one", lambda session: True)


def final(
    folder: Path, backend: FakeBackend, settings: HarnessSettings = QUICK, said: list[str] | None = None, set_name: str = "three"
) -> Outcome:
    judge = Harness(
        tiny(),
        set_name,
        backend,
        settings,
        backend.clock,
        seeded(7),
        pressure=quiet,
        lock=folder / "lock",
        sittings=folder / "sittings",
        progress=(said if said is not None else []).append,
    )
    return judge.evaluate(Request(candidate=ONE, effort=Effort.FINAL))


def stops_at(name: str) -> Time:
    def time_us(scenario: Scenario, execution: int) -> float:
        if scenario.name == name:
            raise Stopped
        return 50.0

    return time_us


def files(folder: Path) -> list[Path]:
    return sorted((folder / "sittings").glob("*"))


def stopped(folder: Path, name: str = "n16") -> None:
    with pytest.raises(Stopped):
        final(folder, FakeBackend(behaviours={ONE.id: Behaviour(time_us=stops_at(name))}))


def fast() -> FakeBackend:
    return FakeBackend(behaviours={ONE.id: Behaviour(time_us=lambda scenario, execution: 50.0)})


def test_a_final_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    whole = final(tmp_path, fast())
    assert files(tmp_path) == []
    stopped(tmp_path)
    [kept] = files(tmp_path)
    assert [json.loads(line)["scenario"] for line in kept.read_text().splitlines()] == ["n4", "n8"]
    backend, said = fast(), list[str]()
    found = final(tmp_path, backend, said=said)
    assert said == ["0 of 3 scenarios", "1 of 3 scenarios", "2 of 3 scenarios"]
    own = {side.scenario.name for side in backend.sides if side.behaviour is backend.behaviours[ONE.id]}
    assert {name for name in own if not name.startswith("hidden")} == {"n16"}
    assert (found.verdict, found.fitness, found.versus) == (whole.verdict, whole.fitness, whole.versus)
    assert {(check.scenario, check.distribution) for check in found.checks if not check.scenario.startswith("hidden")} == {
        (check.scenario, check.distribution) for check in whole.checks if not check.scenario.startswith("hidden")
    }
    assert sorted(timing.scenario for timing in found.timings) == sorted(timing.scenario for timing in whole.timings)
    [note] = [note for note in found.notes if "earlier sitting" in note]
    assert note.startswith("2 of 3 scenarios were checked and raced in an earlier sitting")
    assert set(whole.notes) <= set(found.notes)
    assert found.controls
    assert files(tmp_path) == []


@pytest.mark.parametrize("changed", ["settings", "set", "device"])
def test_what_was_measured_otherwise_does_not_count(tmp_path: Path, changed: str) -> None:
    stopped(tmp_path)
    backend = fast()
    settings = replace(QUICK, looks=(8,)) if changed == "settings" else QUICK
    if changed == "device":
        backend.device = replace(backend.device, versions={"driver": "2"})
    found = final(tmp_path, backend, settings, set_name="five" if changed == "set" else "three")
    assert found.verdict is Verdict.OK
    assert not any("earlier sitting" in note for note in found.notes)
    assert len(files(tmp_path)) == 1


def test_a_refused_final_begins_anew(tmp_path: Path) -> None:
    stopped(tmp_path)

    def spoil(execution: int, right: Outputs, before: Outputs) -> Outputs:
        if right["y"].shape[0] == 16:
            right["y"][0, 0] += 1e3
        return right

    assert final(tmp_path, FakeBackend(behaviours={ONE.id: Behaviour(spoil=spoil)})).verdict is Verdict.WRONG
    assert files(tmp_path) == []


def test_a_fault_of_ours_keeps_what_was_measured(tmp_path: Path) -> None:
    stopped(tmp_path)
    sick = FakeBackend(behaviours={ONE.id: Behaviour(start_fault=fault(Verdict.HARNESS_FAULT))})
    assert final(tmp_path, sick).verdict is Verdict.HARNESS_FAULT
    [kept] = files(tmp_path)
    assert len(kept.read_text().splitlines()) == 2


PART = Part(scenario="a", checks=(), timings=(), slower={"peer": 1.5}, broken=("other",), notes=("said",), at="2026-11-30 20:00")


def test_a_torn_end_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "sittings" / "one.jsonl"
    first = Sittings(path)
    first.add(PART)
    first.close(finished=False)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:-20])
    second = Sittings(path)
    assert second.parts == {"a": PART}
    second.close(finished=False)
    assert path.read_bytes() == whole


def test_two_finals_of_one_kernel_do_not_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    first, second = Sittings(path), Sittings(path)
    second.add(PART)
    second.close(finished=True)
    assert path.read_bytes() == b""
    first.close(finished=True)
    assert not path.exists()


def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    kept = Sittings(tmp_path / "file" / "one.jsonl")
    kept.add(PART)
    kept.close(finished=True)
    assert kept.parts == {"a": PART}


def test_a_full_disk_ends_the_keeping_and_not_the_final(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("evaluator.sittings.os.write", full)
    assert final(tmp_path, fast()).verdict is Verdict.OK
    assert [path.stat().st_size for path in files(tmp_path)] == [0]
