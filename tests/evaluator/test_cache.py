"""The build cache: hits, damage, concurrency, collection."""

import os
import threading
import time
from pathlib import Path

import pytest

from evaluator.backend import Build
from evaluator.cache import ENTRY, BuildCache, Made, cache_key, default_folder
from evaluator.outcome import Fault, Stage, Verdict

MADE = Made(artefact=b"\x7fELF and more", log="ptxas info", ptx=".version 9.0", facts={"registers": 32, "fast": True})
PARTS = {"source": "int x;", "defines": {"A": "1"}, "flags": ["-O3"], "compiler": "13.5", "arch": "sm_90a", "headers": "ab"}


class Maker:
    """Makes the same thing each time and counts how often."""

    def __init__(self, made: Made | Fault = MADE) -> None:
        self.made = made
        self.calls = 0

    def __call__(self) -> Made | Fault:
        self.calls += 1
        return self.made


def test_second_build_is_a_hit_with_the_same_value(tmp_path: Path) -> None:
    make = Maker()
    cache = BuildCache(tmp_path / "cache")
    first = cache.build("ab" * 32, make)
    again = BuildCache(tmp_path / "cache").build("ab" * 32, make)
    assert first == again
    assert isinstance(first, Build)
    assert (first.path.read_bytes(), first.facts, make.calls) == (MADE.artefact, MADE.facts, 1)


@pytest.mark.parametrize("part", sorted(PARTS))
def test_every_part_changes_the_key(part: str) -> None:
    assert cache_key(PARTS) != cache_key(PARTS | {part: "other"})
    assert cache_key(PARTS) == cache_key(dict(reversed(PARTS.items())))


@pytest.mark.parametrize("damage", ["artefact", "entry", "truncate", "missing", "swap_log"])
def test_a_damaged_entry_is_built_again(damage: str, tmp_path: Path) -> None:
    make = Maker()
    cache = BuildCache(tmp_path)
    build = cache.build("cd" * 32, make)
    assert isinstance(build, Build)
    entry = build.path.with_name(ENTRY)
    if damage == "artefact":
        build.path.write_bytes(b"\x7fELF and evil")
    elif damage == "entry":
        entry.write_text("{")
    elif damage == "truncate":
        build.path.write_bytes(b"")
    elif damage == "missing":
        build.path.unlink()
    else:
        entry.write_text(entry.read_text().replace("ptxas info", "speedup 100x"))
    assert cache.build("cd" * 32, make) == build
    assert make.calls == 2
    assert build.path.read_bytes() == MADE.artefact


def test_faults_are_not_kept(tmp_path: Path) -> None:
    fault = Fault(verdict=Verdict.COMPILE_ERROR, stage=Stage.BUILD, message="no")
    make = Maker(fault)
    cache = BuildCache(tmp_path)
    assert [cache.build("ef" * 32, make), cache.build("ef" * 32, make)] == [fault, fault]
    assert make.calls == 2


def test_one_build_per_key_among_threads(tmp_path: Path) -> None:
    gate = threading.Event()
    calls = []

    def slow() -> Made:
        calls.append(1)
        gate.wait(5)
        return MADE

    results: list[Build | Fault] = []
    threads = [threading.Thread(target=lambda: results.append(BuildCache(tmp_path).build("01" * 32, slow))) for _ in range(4)]
    for thread in threads:
        thread.start()
    gate.set()
    for thread in threads:
        thread.join()
    assert len(calls) == 1
    assert all(result == results[0] for result in results)


def test_gc_removes_the_least_recently_used(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    keys = [f"{number:02x}" * 32 for number in range(4)]
    now_s = time.time()
    for age, key in enumerate(keys):
        build = cache.build(key, Maker(Made(artefact=b"x" * 1000)))
        assert isinstance(build, Build)
        used_s = now_s - 10_000 * (len(keys) - age)
        os.utime(build.path.with_name(ENTRY), (used_s, used_s))
    cache.build(keys[0], Maker())  # a hit makes it recent again
    collected = cache.gc(2500, now_s)
    assert (collected.removed, collected.kept) == (2, 2)
    assert collected.kept_bytes <= 2500
    make = Maker()
    for key in (keys[0], keys[3]):
        cache.build(key, make)
    assert make.calls == 0
    cache.build(keys[1], make)
    assert make.calls == 1


def test_gc_spares_what_was_just_used(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    cache.build("aa" * 32, Maker())
    assert cache.gc(0, time.time()).removed == 0
    assert cache.gc(0, time.time() + 3600).removed == 1
    assert cache.gc(0, time.time() + 3600).kept == 0


def test_gc_of_nothing(tmp_path: Path) -> None:
    assert BuildCache(tmp_path / "none").gc(0, 0.0).removed == 0


def test_default_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "askevolve" / "builds"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert default_folder() == tmp_path / "home" / ".cache" / "askevolve" / "builds"
