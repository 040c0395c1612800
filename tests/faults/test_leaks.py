"""Nothing piles up in a long run: descriptors, threads, processes, shared memory, memory."""

import gc
import os
import threading
from contextlib import closing
from dataclasses import astuple, dataclass
from pathlib import Path

import psutil
import pytest

from evaluator.request import Request
from evolve import api
from evolve.executors.inline import InlineExecutor
from evolve.parts import assemble
from results.events import Event, StepFolded
from tests.evolve.simulation import SlowSimulation, config
from tests.faults.timed import timed_config


@dataclass(frozen=True)
class Held:
    """What this process holds; everything but ``rss_bytes`` must stay as it is."""

    descriptors: int
    threads: int
    children: int
    shared_bytes: int
    rss_bytes: int


def held() -> Held:
    gc.collect()
    me = psutil.Process()
    return Held(
        descriptors=me.num_fds(),
        threads=threading.active_count(),
        children=len(me.children(recursive=True)),
        shared_bytes=sum(entry.stat().st_size for entry in os.scandir("/dev/shm") if entry.name.startswith("askevolve")),
        rss_bytes=me.memory_info().rss,
    )


def grown(later: Held, earlier: Held) -> int:
    """Bytes of growth, after a check that nothing else grew."""
    assert astuple(later)[:-1] == astuple(earlier)[:-1]
    return later.rss_bytes - earlier.rss_bytes


@pytest.mark.slow
def test_two_hundred_simulated_candidates(tmp_path: Path) -> None:
    seen: list[Held] = []

    def look(event: Event) -> None:
        if isinstance(event, StepFolded) and event.step_number in (50, 190):
            seen.append(held())

    result = api.run(
        config(
            budget={"candidates": 200}, population={"capacity": 16}, executor={"lookahead": 1}, mutation={"exhausted_after": 99}
        ),
        root=tmp_path,
        executor=InlineExecutor(SlowSimulation(0.0)),
        observers=[look],
    )
    assert result.candidates == 200
    growth = grown(seen[1], seen[0])
    print(f"{growth / 140 / 1024:.0f} KiB a candidate")
    assert growth < 140 * 256 * 1024


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_thirty_evaluations_with_real_timings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("evaluator.harness.lock_path", lambda: tmp_path / "host.lock")
    parts = assemble(timed_config(tmp_path, executor={"kind": "inline"}))
    [seed] = parts.seeds()
    seen: list[Held] = []
    with closing(parts.executor()) as executor:
        for number in range(35):
            executor.submit(number, Request(candidate=seed))
            [_] = executor.collect(0)
            if number in (4, 34):
                seen.append(held())
    growth = grown(seen[1], seen[0])
    print(f"{growth / 30 / 1024:.0f} KiB an evaluation, {seen[1]}")
    assert growth < 30 * 1024 * 1024
    assert not psutil.Process().children()
