"""What a comparison says in a terminal, to programs, in a table and in a picture."""

import csv
import io
import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from results.comparison import comparison_of
from results.comparison_figure import COLOURS, comparison_svg
from results.comparison_text import comparison_csv, comparison_lines, comparison_mapping
from results.comparison_trace import Gain, Point
from tests.results.traces import arms, curve, trace

GAINS = (Gain(key="memory", asked=4, accepted=2, gain=0.5),)
SVG = "{http://www.w3.org/2000/svg}"


def test_the_report_names_every_arm_run_and_reason_and_ends_with_what_may_be_said() -> None:
    traces = [replace(run, layers=GAINS) for run in arms([1.5, 1.4], [1.2, 1.1])]
    lines = comparison_lines(comparison_of(traces))
    text = "\n".join(lines)
    assert lines[0].startswith("one 2 runs, other 2 runs; task toy c0ffee; scenario set quick (3); baseline torch")
    for run in traces:
        assert run.name in text
    assert any(line.split() == ["no_match", "2", "2"] for line in lines)
    assert any(line.split() == ["memory", "4", "of", "8,", "50.0", "4", "of", "8,", "50.0"] for line in lines)
    assert "50.0%" in next(line for line in lines if line.startswith("one  "))
    assert any(line.startswith("one and other: one over other 1.261x, which 2 pairs can't tell from chance") for line in lines)


def test_cautions_come_last_and_one_arm_says_what_is_missing() -> None:
    lines = comparison_lines(comparison_of([trace("one", 1, 1.0, stopped_by=None, style="tools")]))
    assert lines[-1] == "caution: not finished: one-1"
    assert lines[-2].startswith("One arm: nothing to compare it with.")
    assert any("tells nobody the layer" in line for line in lines)


def test_the_document_is_plain_json_with_curves_as_columns() -> None:
    comparison = comparison_of(arms([1.5], [1.2]))
    document = json.loads(json.dumps(comparison_mapping(comparison), allow_nan=False))
    assert [arm["name"] for arm in document["arms"]] == ["one", "other"]
    run = document["arms"][0]["runs"][0]
    assert run["points"]["answers"] == [0, 1, 2, 3, 4]
    assert run["points"]["ratio"][0] == 0.5
    assert document["contests"][0]["says"] == "1 run an arm: no conclusion"
    assert document["arms"][0]["rejections"] == {"no_match": 1}


def test_the_table_holds_every_point() -> None:
    rows = list(csv.DictReader(io.StringIO(comparison_csv(comparison_of(arms([1.5], [1.2]))))))
    assert len(rows) == 10
    assert (rows[5]["arm"], rows[5]["run"], rows[5]["answers"], rows[5]["ratio"]) == ("other", "other-0", "0", "0.5")


@pytest.mark.parametrize("runs", [1, 2, 5])
def test_the_picture_is_well_formed_and_holds_every_arm_within_its_frame(runs: int) -> None:
    traces = arms([1.0 + 0.1 * place for place in range(runs)], [0.9] * runs)
    traces = [replace(run, arm=run.arm.replace("one", "<one> & more")) for run in traces]
    root = ET.fromstring(comparison_svg(comparison_of(traces)))
    texts = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
    assert any(text.startswith("<one> & more (") for text in texts)
    assert [text for text in texts if text in {"answers", "evaluations", "tokens", "wall time, s", "GPU time, s"}] == [
        "answers", "evaluations", "tokens", "wall time, s"
    ]  # fmt: skip
    assert texts.count("ratio to baseline") == 4
    paths = list(root.iter(f"{SVG}path"))
    bands = [path for path in paths if path.get("fill-opacity")]
    assert len(bands) == (8 if runs >= 3 else 0)
    assert {path.get("stroke") for path in paths} >= {COLOURS[0], COLOURS[1]}
    assert len(list(root.iter(f"{SVG}circle"))) == 4 * 2 * runs
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for path in paths:
        for place in path.attrib["d"].replace("Z", "").lstrip("M").split("L") if "L" in path.attrib["d"] else []:
            x, y = map(float, place.split())
            assert 0 <= x <= width
            assert 0 <= y <= height


def test_a_picture_of_runs_that_never_moved_has_axes_all_the_same() -> None:
    still = [trace(arm, 1, 1.0, points=curve([1.0, 1.0])) for arm in ("one", "other")]
    assert "<svg" in comparison_svg(comparison_of(still))
    unasked = replace(still[0], points=(Point(ratio=1.0, evaluations=1, wall_s=1.0),))
    assert "<svg" in comparison_svg(comparison_of([unasked]))
