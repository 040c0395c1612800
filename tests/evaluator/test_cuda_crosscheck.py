"""The second clock: CUPTI's records through a stand-in library, their grouping into executions, and what a final says of them."""

import ctypes
import json
import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("cuda.bindings.driver")

from evaluator.backend import Build, Program
from evaluator.cuda import crosscheck, cupti
from evaluator.cuda.crosscheck import KernelTimes, are_close, cheapest_notes, kernel_times, sentence
from evaluator.cuda.cupti import CuptiError, KernelRecorder, find_cupti
from evaluator.cuda.kernel_times import spans_us
from evaluator.cuda.replay import Replay
from evaluator.outcome import Timing
from tests.contracts import vector_scale
from tests.evaluator.tiny_harness import tiny


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cupti") / "libcupti.so"
    source = Path(__file__).parent / "fake_cupti.cpp"
    subprocess.run(["g++", "-shared", "-fPIC", "-O1", "-o", str(path), str(source)], check=True)
    return path


def test_kernels_are_read_from_the_records_in_the_order_of_their_starts(library: Path) -> None:
    assert KernelRecorder(library).times_ns() == [(1000, 4500), (5000, 7000), (2**40, 2**40 + 250)]


def test_a_refusal_says_what_was_refused(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupti, "CONCURRENT_KERNEL", 11)
    with pytest.raises(CuptiError, match="cuptiActivityEnable failed with CUptiResult 1"):
        KernelRecorder(library)


def test_a_library_that_is_no_cupti_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="none"):
        KernelRecorder(tmp_path / "none")


def test_the_record_is_as_wide_as_its_fields() -> None:
    assert cupti.HEAD.size == 4 + 1 + 1 + 2 + 4 + 4 + 2 * ctypes.sizeof(ctypes.c_uint64)


def test_launches_are_grouped_into_executions() -> None:
    times = [(0, 900), (1000, 3000), (3500, 4000), (10_000, 14_000), (10_500, 11_000), (20_000, 21_000)]
    assert spans_us(times[:4], 2, 1) == [10.5]
    assert spans_us(times, 3, 0) == [4.0, 11.0]
    assert spans_us([(0, 900), (1000, 3000)], 1, 1) == [2.0]
    for wrong in ([], times[:3]):
        with pytest.raises(CuptiError, match="whole executions of 2"):
            spans_us(wrong, 2, 0)


@pytest.mark.parametrize(
    ("events_us", "cupti_us", "close"),
    [
        (103.0, 100.0, True),
        (104.9, 100.0, True),
        (105.1, 100.0, False),
        (8.0, 5.1, True),
        (8.2, 5.1, False),
    ],
)
def test_clocks_agree_within_a_share_or_the_cost_of_two_events(events_us: float, cupti_us: float, close: bool) -> None:
    assert are_close(events_us, cupti_us) is close


def test_the_sentence_holds_every_figure() -> None:
    both = KernelTimes(events_us=101.0, cupti_us=100.0)
    assert sentence("s", both, 102.0) == (
        "events and CUPTI agree on s: 101.0 and 100.0 us in the same executions, 102.0 us by events in the race"
    )
    assert sentence("s", both, None).endswith("same executions")
    assert sentence("s", both, 90.0).startswith("events and CUPTI differ by more than 5 % on s")


def replay() -> Replay:
    return Replay(cubin=b"cubin", resolved=vector_scale.resolved(), inputs=vector_scale.inputs())


@pytest.mark.parametrize(
    ("status", "output", "words"),
    [
        (None, "", "not done after 60 s"),
        (1, "CUDA_ERROR_X\n", "status 1: CUDA_ERROR_X"),
        (0, "", "can't be read"),
        (0, '{"events_us": []}', "can't be read"),
    ],
)
def test_why_there_are_no_times(status: int | None, output: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crosscheck, "find_cupti", lambda: Path("libcupti.so"))
    monkeypatch.setattr(crosscheck, "run_alone", lambda command, limit_s: (status, output))
    found = kernel_times(replay())
    assert isinstance(found, str)
    assert words in found


def test_the_process_is_given_the_program_and_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def run(command: list[str], limit_s: float) -> tuple[int, str]:
        asked.append((command[1:3], Path(command[3]).read_bytes(), command[4]))
        return 0, "a warning\n" + json.dumps({"events_us": [3.0, 1.0, 2.0], "cupti_us": [1.0, 1.5, 9.0]})

    monkeypatch.setattr(crosscheck, "find_cupti", lambda: Path("libcupti.so"))
    monkeypatch.setattr(crosscheck, "run_alone", run)
    assert kernel_times(replay()) == KernelTimes(events_us=2.0, cupti_us=1.5)
    [(module, content, library)] = asked
    assert (module, library) == (["-m", "evaluator.cuda.kernel_times"], "libcupti.so")
    assert b"cubin" in content


def test_a_host_without_cupti_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cupti, "PACKAGES", ("no-such-package",))
    monkeypatch.setattr(cupti, "SYSTEM", (tmp_path,))
    assert find_cupti() is None
    (tmp_path / "libcupti.so.13").touch()
    assert find_cupti() == tmp_path / "libcupti.so.13"
    monkeypatch.setattr(crosscheck, "find_cupti", lambda: None)
    assert "isn't installed" in str(kernel_times(replay()))


def test_a_final_checks_its_cheapest_program_against_the_race(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "artefact").write_bytes(b"cubin")
    task = tiny()
    session = SimpleNamespace(
        task=task,
        everyday="normal",
        primary=SimpleNamespace(name="peer"),
        work_flop=lambda scenario: task.work(scenario.symbols).flop,
    )
    scenarios = task.card("three").scenarios
    build = Build(key="k", path=tmp_path / "artefact")
    programs = [Program(candidate_id="c", scenario=one, build=build, resolved=vector_scale.resolved()) for one in scenarios]
    timings = [
        Timing(
            scenario="n4", opponent=name, ratio=1, low=1, high=1, candidate_us=us, opponent_us=9, blocks=8, floor_us=1, bound=""
        )
        for name, us in (("other", 50.0), ("peer", 10.5))
    ]  # fmt: skip
    monkeypatch.setattr(crosscheck, "kernel_times", lambda replay: KernelTimes(events_us=10.2, cupti_us=10.0))
    [note] = cheapest_notes(session, programs, timings, np.random.default_rng(0))  # type: ignore[arg-type]
    assert note.startswith("events and CUPTI agree on n4: 10.2 and 10.0 us")
    assert "10.5 us by events in the race" in note
    monkeypatch.setattr(crosscheck, "kernel_times", lambda replay: "no reason")
    [note] = cheapest_notes(session, programs, timings, np.random.default_rng(0))  # type: ignore[arg-type]
    assert note == "times not cross-checked by CUPTI on n4: no reason"
