"""What the views say, held against runs whose figures are known."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from population.candidate import hash_text
from results.dashboard.candidate import candidate_facts
from results.dashboard.diffs import delta, diff_lines, patched
from results.dashboard.facts import facts_of
from results.dashboard.failures import alike
from results.dashboard.sources import kernels
from results.dashboard.view import RunView

Made = Callable[[str], Path]


def facts(folder: Path, name: str) -> Any:
    view = RunView(folder)
    try:
        return facts_of(view, name)
    finally:
        view.close()


def test_questions_with_what_they_promised_and_found(made: Made) -> None:
    found = {row["key"]: row for row in facts(made("small"), "questions")["questions"]}
    tile = found["tile_size"]
    assert (tile["asked"], tile["right"], tile["accepted"], tile["held"]) == (3, 1, 1, 1)
    assert tile["promised"] == pytest.approx(1.1)
    assert tile["found"] == pytest.approx(1.5)
    assert tile["text"] == "What does tile_size cost?"
    assert found["spills"]["held"] == 0
    assert facts(made("small"), "questions")["moments"] == [
        {"layer": "schedule", "moment": "routine", "asked": 5, "right": 1, "accepted": 1, "gain": pytest.approx(math.log(1.5))}
    ]


def test_who_answered(made: Made) -> None:
    (arm,) = facts(made("small"), "arms")["arms"]
    assert (arm["answerer"], arm["asked"], arm["new"], arm["right"], arm["accepted"]) == ("test", 5, 3, 1, 1)
    assert (arm["held"], arm["direction"]) == (1, 1.0)
    assert arm["off_by"] == pytest.approx(1.5 / 1.1)


def test_islands_and_cells(made: Made) -> None:
    found = facts(made("small"), "archive")
    first, second = found["islands"]
    assert (first["steps"], first["right"], first["entered"], first["best_id"]) == (4, 2, 2, hash_text("child")[:16])
    assert [entrant["number"] for entrant in first["entrants"]] == [2, 0]
    assert (second["steps"], second["best_geomean"]) == (3, 0.5)
    assert {(cell["island"], cell["layer"], cell["steps"]) for cell in found["cells"]} == {
        (0, "seed", 1), (0, "schedule", 3), (1, "seed", 1), (1, "schedule", 2),
    }  # fmt: skip


def test_failures_with_the_same_evidence_are_one_group(made: Made) -> None:
    found = facts(made("thousand"), "failures")
    first = found["groups"][0]
    assert first["evidence"] == 'kernel.cu(#): error: identifier "tile_#" is undefined'
    assert first["steps"] > 3
    assert found["steps"] == sum(group["steps"] for group in found["groups"])
    assert alike("line 3: 0x1f is 2.5e-3\nmore") == "line #: # is #"


def test_the_way_to_the_best(made: Made) -> None:
    found = facts(made("small"), "replay")["steps"]
    assert [step["number"] for step in found] == [0, 2]
    assert found[1]["ratio"] == pytest.approx(1.5)
    assert [line["text"] for line in found[1]["diff"] if line["kind"] == "new"] == ["child"]
    orphan = facts(made("missing_parent"), "replay")["steps"]
    assert [step["number"] for step in orphan] == [1, 2]


def test_when_the_best_changed(made: Made) -> None:
    found = facts(made("thousand"), "progress")
    lows = [record["low"] for record in found["records"]]
    assert lows == sorted(lows)
    assert len(found["top"]) == 50
    assert found["total"] > 50


def test_ratios_of_scenarios(made: Made) -> None:
    found = facts(made("small"), "scenarios")
    assert [one["number"] for one in found["candidates"]] == [2, 0, 1]
    assert found["cells"]["torch"]["ratio"] == [[None, 1.5, None], [None, 1.0, None], [None, 0.5, None]]
    assert (found["shown"], found["total"], found["floors_us"]) == (3, 3, [None, 1.0, None])


def test_a_kernel_with_prediction_and_kin(made: Made) -> None:
    view = RunView(made("small"))
    with view.sight() as sight:
        found = candidate_facts(sight, hash_text("child")[:12])
        seed = candidate_facts(sight, hash_text("seed a"))
    view.close()
    assert found["predictions"] == [{"region": "all", "predicted": 1.1, "measured": pytest.approx(1.5)}]
    assert found["question"]["text"] == "What does tile_size cost?"
    assert [one["number"] for one in found["children"]] == [3, 4, 6]
    assert found["children"][1]["verdict"] == "no_code"
    assert found["final"]["versus"][0]["geomean"] == 1.45
    assert (seed["predictions"], seed["parents"], seed["ancestors"]) == ([], [], [])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a\nb\nc", "a\nB\nc"),
        ("", "x"),
        ("x", ""),
        ("a\nb", "a\nb"),
        ("a\na\na", "a\na"),
        ("x\ny\nx", "y"),
        ("1\n2\n3\n", "0\n1\n3\n4"),
    ],
)
def test_a_delta_makes_the_new_source_from_the_old(old: str, new: str) -> None:
    assert patched(old, delta(old, new)) == new
    shown = [line for line in diff_lines(old, new) if line["kind"] != "gap"]
    assert [line["text"] for line in shown if line["kind"] == "new"] == [] or old != new


def test_every_source_of_a_report_comes_back(made: Made) -> None:
    view = RunView(made("thousand"))
    with view.sight() as sight:
        found = kernels(sight)
        sources: dict[str, str] = {}
        for key, kernel in found.items():
            sources[key] = kernel["source"] if "source" in kernel else patched(sources[kernel["parent"]], kernel["delta"])
            assert sources[key] == sight.reader.candidate(key).source
    view.close()
    assert sum("source" in kernel for kernel in found.values()) == 2
