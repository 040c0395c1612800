"""The harness as a whole: its own faults, its session, its lock."""

import json
import multiprocessing
import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evaluator.disturbance import cpu_pressure_us, settle
from evaluator.harness import Harness
from evaluator.locks import LockTimeoutError, compile_lock, lock_path, timing_lock
from evaluator.outcome import Stage, Verdict
from evaluator.request import Request
from evaluator.settings import harness_id
from tests.evaluator.fake_backend import Behaviour, FakeBackend, candidate, fault, noisy
from tests.evaluator.tiny_harness import QUICK, harness, quiet, seeded, tiny

ONE = candidate("one")


def test_an_error_of_ours_never_blames_the_candidate(tmp_path: Path) -> None:
    def explode(scenario: object, execution: int) -> float:
        raise RuntimeError("a bug of ours")

    backend = FakeBackend(behaviours={ONE.id: Behaviour(time_us=explode)})
    found = harness(backend, tmp_path).evaluate(Request(candidate=ONE))
    assert found.verdict is Verdict.HARNESS_FAULT
    assert found.fault is not None
    assert "a bug of ours" in found.message
    assert "Traceback" in found.fault.detail
    assert found.candidate_id == ONE.id


def test_a_baseline_that_does_not_start_is_our_fault(tmp_path: Path) -> None:
    backend = FakeBackend(behaviours={"peer": Behaviour(start_fault=fault(Verdict.CRASH, Stage.CHECK))})
    found = harness(backend, tmp_path).evaluate(Request(candidate=ONE))
    assert found.verdict is Verdict.HARNESS_FAULT
    assert "peer" in found.message


def test_after_a_fault_the_next_candidate_gets_the_same_score(tmp_path: Path) -> None:
    bad = candidate("bad")
    backend = FakeBackend(behaviours={bad.id: Behaviour(faults={1: fault(Verdict.CRASH)})})
    judge = harness(backend, tmp_path)
    first = judge.evaluate(Request(candidate=ONE))
    assert judge.evaluate(Request(candidate=bad)).verdict is Verdict.CRASH
    again = judge.evaluate(Request(candidate=ONE))
    assert first.fitness == again.fitness


@pytest.mark.parametrize(("free_bytes", "slots"), [(None, 8), (1 << 30, 8), (12 * 5 * 288, 5), (0, 2)])
def test_buffers_take_what_there_is_room_for_on_the_device(free_bytes: int | None, slots: int, tmp_path: Path) -> None:
    backend = FakeBackend(free_bytes=free_bytes)
    judge = harness(backend, tmp_path)
    assert judge.evaluate(Request(candidate=candidate())).verdict is Verdict.OK
    largest = max(side.slots for side in backend.sides if side.scenario.name == "n4")
    assert largest == slots
    pool = judge._session.pool
    assert pool._most_bytes == (QUICK.pool_bytes if free_bytes is None else min(QUICK.pool_bytes, free_bytes // 3))


def test_the_controls_run_once_a_session(tmp_path: Path) -> None:
    backend = FakeBackend()
    judge = harness(backend, tmp_path)
    judge.evaluate(Request(candidate=ONE))
    before = len(backend.sides)
    judge.evaluate(Request(candidate=ONE))
    first, second = before, len(backend.sides) - before
    assert first - second >= 4  # two races of the baseline against itself


def test_a_noisy_session_says_what_it_can_not_see(tmp_path: Path) -> None:
    backend = FakeBackend(behaviours={"peer": Behaviour(time_us=noisy(np.random.default_rng(0), 100.0, 0.1))})
    found = harness(backend, tmp_path).evaluate(Request(candidate=ONE))
    assert found.noise_floor_pct is not None
    assert found.noise_floor_pct > 1.0
    assert any("not told apart" in note for note in found.notes)


def test_a_quiet_session_tells_the_slowed_copy_apart(tmp_path: Path) -> None:
    found = harness(FakeBackend(), tmp_path).evaluate(Request(candidate=ONE))
    assert found.noise_floor_pct == pytest.approx(0.0)
    assert not any("told apart" in note or "favours" in note for note in found.notes)


def test_the_first_available_baseline_of_the_card_is_the_primary_one(tmp_path: Path) -> None:
    assert harness(FakeBackend(), tmp_path).baseline == "peer"
    named = Harness(tiny(), "three", FakeBackend(), QUICK, baseline="other", pressure=quiet, lock=tmp_path / "lock")
    assert named.baseline == "other"


@pytest.mark.parametrize("name", ["absent", "nobody"])
def test_a_baseline_that_is_not_there_is_named_with_the_reason(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}.*available: peer, other.*absent: it isn't installed"):
        Harness(tiny(), "three", FakeBackend(), QUICK, baseline=name, lock=tmp_path / "lock")


def test_an_outcome_carries_the_id_of_its_settings(tmp_path: Path) -> None:
    found = harness(FakeBackend(), tmp_path).evaluate(Request(candidate=ONE))
    assert found.harness == harness_id(QUICK)
    assert found.task_hash == tiny().hash


def test_nothing_in_an_outcome_is_infinite_or_nan(tmp_path: Path) -> None:
    found = harness(FakeBackend(), tmp_path).evaluate(Request(candidate=ONE))
    numbers = [[t.ratio, t.low, t.high, t.candidate_us, t.floor_us] for t in found.timings]
    json.dumps([numbers, found.wall_s, found.noise_floor_pct, dict(found.facts)], allow_nan=False)


def test_a_host_without_pressure_counters_is_noted(tmp_path: Path) -> None:
    backend = FakeBackend()
    judge = Harness(tiny(), "three", backend, QUICK, backend.clock, seeded(1), pressure=lambda: None, lock=tmp_path / "lock")
    assert any("not watched" in note for note in judge.evaluate(Request(candidate=ONE)).notes)


def test_close_closes_the_backend(tmp_path: Path) -> None:
    backend = FakeBackend()
    harness(backend, tmp_path).close()
    assert backend.closed


def test_pressure_is_read_from_the_kernels_counter(tmp_path: Path) -> None:
    path = tmp_path / "cpu"
    path.write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=123\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=4\n")
    assert cpu_pressure_us(path) == 123
    assert cpu_pressure_us(tmp_path / "absent") is None
    path.write_text("")
    assert cpu_pressure_us(path) is None


def test_settling_waits_until_our_own_threads_rest() -> None:
    used_s = iter([0.0, 0.005, 0.005, 0.009, 0.009, 0.009])
    naps: list[float] = []
    assert settle(lambda: next(used_s), naps.append)
    assert len(naps) == 3
    spinning = iter(range(1000))
    assert not settle(lambda: float(next(spinning)), naps.append)


def test_compilers_share_the_lock_and_a_timer_has_it_alone(tmp_path: Path) -> None:
    path = tmp_path / "host.lock"
    with (
        compile_lock(path, 0.0, "one"),
        compile_lock(path, 0.0, "two"),
        pytest.raises(LockTimeoutError, match=r"process [0-9]+, one"),
        timing_lock(path, 0.0, "timing"),
    ):
        pass
    with timing_lock(path, 0.0, "timing of x"):
        for other in (compile_lock, timing_lock):
            with pytest.raises(LockTimeoutError, match=r"timing of x.*Wait for that process"), other(path, 0.0, "late"):
                pass
    with timing_lock(path, 0.0, "again"):
        pass


def test_the_lock_notes_vanish_with_their_holders(tmp_path: Path) -> None:
    path = tmp_path / "host.lock"
    with timing_lock(path, 0.0, "x"):
        assert len(list(tmp_path.glob("host.*-*"))) == 1
    assert not list(tmp_path.glob("host.*-*"))


def _hold(path: Path, ready: "multiprocessing.synchronize.Event") -> None:
    with timing_lock(path, 1.0, "a process that will be killed"):
        ready.set()
        time.sleep(60.0)


def test_a_killed_holder_frees_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "host.lock"
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    holder = context.Process(target=_hold, args=(path, ready))
    holder.start()
    assert ready.wait(10.0)
    with pytest.raises(LockTimeoutError, match="a process that will be killed"), compile_lock(path, 0.0, "waiting"):
        pass
    holder.kill()
    holder.join()
    with timing_lock(path, 5.0, "after"):
        assert len(list(tmp_path.glob("host.*-*"))) == 1 + 1  # the dead holder's note stays until somebody is told of it
    with compile_lock(path, 0.0, "x"), pytest.raises(LockTimeoutError) as caught, timing_lock(path, 0.0, "y"):
        pass
    assert "a process that will be killed" not in str(caught.value)


def test_the_lock_is_one_per_user() -> None:
    assert str(os.getuid()) in lock_path().name


def test_a_dear_scenario_has_one_everyday_input_set(tmp_path: Path) -> None:
    settings = replace(QUICK, full_check_flop=100.0, pool_members=3)
    session = harness(FakeBackend(), tmp_path, settings=settings)._session
    rng = np.random.default_rng(0)
    members = {
        one.name: len({id(session.draw(one, session.everyday, rng).member) for _ in range(30)}) for one in session.card.scenarios
    }
    assert members == {"n4": 3, "n8": 1, "n16": 1}
