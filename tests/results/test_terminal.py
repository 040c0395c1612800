"""What a person reads about a run and its candidates."""

import dataclasses
from pathlib import Path

import pytest

from evaluator.outcome import Check, Outcome, Timing, Verdict
from results.outcome_markdown import outcome_markdown
from results.outcome_text import check_rows, hardest_ratio, outcome_lines, timing_rows, typical_us
from results.reader import Reader
from results.store import Store
from results.terminal import (
    STOPPED,
    candidate_lines,
    diff_lines,
    lineage_lines,
    percent,
    question_rows,
    run_rows,
    state,
    status_lines,
)
from results.text import count, duration, microseconds, one_line, ratio, table
from tests.results.makers import candidate, fill, outcome, started


@pytest.fixture
def reader(folder: Path) -> Reader:
    folder.mkdir(parents=True)
    with Store.create(folder, started()) as store:
        fill(store)
    return Reader.open(folder)


def timing(scenario: str, opponent: str, ratio_: float, **changes: object) -> Timing:
    values = {
        "scenario": scenario, "opponent": opponent, "ratio": ratio_, "low": ratio_ * 0.99, "high": ratio_ * 1.01,
        "candidate_us": 100.0, "opponent_us": 100.0 * ratio_, "blocks": 16, "floor_us": 25.0, "bound": "bytes",
    }  # fmt: skip
    return Timing(**{**values, **changes})  # type: ignore[arg-type]


def test_a_table_aligns_numbers_right_and_text_left() -> None:
    lines = table(("name", "ratio", "", "n"), [("a", "1.5x", "", 7), ("longer", "12.25x", "", None)])
    assert lines == ["name     ratio  n", "a         1.5x  7", "longer  12.25x  -"]


def test_a_table_without_rows_is_its_titles() -> None:
    assert table(("a", "b"), []) == ["a  b"]


def test_a_cell_is_one_line_without_control_characters() -> None:
    assert table(("x",), [("a\nb\x1b[0m\u202e",)])[1] == "a b [0m"


@pytest.mark.parametrize(
    ("text", "expected"), [("short", "short"), ("x" * 11, "x" * 7 + "..."), ("x" * 10, "x" * 10), ("\r\n", "  ")]
)
def test_one_line_cuts_and_cleans(text: str, expected: str) -> None:
    assert one_line(text, 10) == expected


def test_a_huge_text_is_cut_before_it_is_cleaned() -> None:
    assert len(one_line("\x00" * 10_000_000)) == 160


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59.4, "59 s"), (59.6, "1 min 0 s"), (185, "3 min 5 s"), (7800, "2 h 10 min")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.1234, "0.1234"), (9.8765, "9.877"), (246.71, "246.7"), (1226.3, "1226"), (123456.0, "123456")],
)
def test_microseconds_keep_four_figures(value: float, text: str) -> None:
    assert microseconds(value) == text


def test_small_words() -> None:
    assert (count(1, "step"), count(2, "step")) == ("1 step", "2 steps")
    assert ratio(1.2345, 1.2, 1.25) == "1.234x [1.200, 1.250]"
    assert (percent(0.0), percent(0.0953)) == ("+0.0%", "+10.0%")


def test_status_of_a_run(reader: Reader) -> None:
    best = reader.headline()
    assert best is not None
    lines = status_lines(reader.info(), best, reader.final(best.id), reader.funnel(), reader.layers())
    text = "\n".join(lines)
    assert "7 steps asked, 4 evaluated" in text
    assert "in the search: 1.500x [1.497, 1.503] over torch" in text
    assert "final: OK" in text
    assert "torch   1.450x  [1.447, 1.453]  1.305x  s1" in text
    assert max(map(len, lines)) <= 80


def test_status_says_where_a_final_refuted_the_best(reader: Reader) -> None:
    best = reader.headline()
    assert best is not None
    refuted = dataclasses.replace(outcome("child", verdict=Verdict.WRONG), message="row 7 is wrong")
    text = "\n".join(status_lines(reader.info(), best, refuted, (), ()))
    assert "refuted by its final: WRONG at check: row 7 is wrong" in text
    assert "No candidate is right" in "\n".join(status_lines(reader.info(), None, None, (), ()))
    assert "not verified by a final yet" in "\n".join(status_lines(reader.info(), best, None, (), ()))


def test_the_state_is_told_in_words(reader: Reader) -> None:
    info = reader.info()
    assert state(info) == "interrupted"
    assert state(dataclasses.replace(info, live=True)) == "running"
    for reason, words in STOPPED.items():
        assert state(dataclasses.replace(info, stopped_by=reason)) == words
    assert state(dataclasses.replace(info, stopped_by="a reason of tomorrow")) == "a reason of tomorrow"


def test_every_reason_to_stop_has_its_words() -> None:
    from evolve.stopping import StopReason

    assert STOPPED.keys() == {reason.value for reason in StopReason}


def test_a_list_of_runs_has_its_best(reader: Reader) -> None:
    lines = run_rows([reader.info(), reader.info()], [reader.headline(), None])
    assert "1.500x" in lines[1]
    place = lines[0].index("best")
    assert lines[2][place] == "-"


def test_questions_have_their_gain_in_per_cent(reader: Reader) -> None:
    lines = question_rows(reader.questions(), "question")
    assert lines[0].split() == ["question", "asked", "new", "right", "accepted", "gain", "seconds"]
    assert lines[1].split()[:1] == ["tile_size"]
    assert "+50.0%" in lines[1]


def test_a_candidate_and_its_line(reader: Reader) -> None:
    best = reader.headline()
    assert best is not None
    lines = candidate_lines(best, reader.step(best.step_number), reader.outcome(best.id), reader.final(best.id))
    text = "\n".join(lines)
    for expected in (
        "1 step from its seed",
        "question tile_size (schedule, routine)",
        "hypothesis: tiles",
        "all 1.100x",
        "== final ==",
    ):
        assert expected in text
    steps = {step.number: step for step in reader.steps()}
    path = [(row, steps.get(row.step_number)) for row in [*reversed(reader.ancestors(best.id)), best]]
    line = lineage_lines(path, {})
    assert line[0].endswith("1.000x [0.998, 1.002] over torch")
    assert line[1].endswith("+50.0% over its parent")
    waiting = reader.candidates()[-1]
    assert lineage_lines([(waiting, None)], {})[0].endswith("waiting")


def test_races_are_shown_against_the_first_opponent_and_the_others_as_plain_ratios() -> None:
    rival = "candidate:" + "ab" * 32
    races = [timing("s0", "torch", 1.1), timing("s1", "torch", 0.9, ambiguous=True), timing("s0", rival, 1.3)]
    lines = timing_rows(races, explain=False)
    assert lines[0].split() == ["scenario", "us", "torch", "us", "ratio", "interval", "of", "bound"]
    assert lines[1].split() == ["s0", "100.0", "110.0", "1.100x", "[1.089,", "1.111]", "25.0%", "bytes"]
    assert lines[2].endswith("ambiguous")
    assert lines[-3:] == ["ratio over  ababababab", "s0              1.300x", "s1                   -"]
    explained = timing_rows(races, explain=True)
    assert len(explained) == 4
    assert explained[3].split()[:3] == ["s0", "ababababab", "100.0"]


def test_the_ratio_to_the_fastest_baseline_is_shown_where_several_raced() -> None:
    rival = "candidate:" + "ab" * 32
    races = [timing("s0", "fa3", 1.1), timing("s0", "cudnn", 0.8), timing("s0", rival, 0.2), timing("s1", "fa3", 0.9)]
    assert (hardest_ratio(races, "s0"), hardest_ratio(races, "s1")) == (0.8, 0.9)
    lines = timing_rows(races, explain=False)
    assert "best peer" in lines[0]
    assert lines[1].split()[6] == "0.800x"
    assert lines[2].split()[6] == "0.900x"
    assert "best peer" not in timing_rows(races, explain=True)[0]


def test_an_outcome_as_markdown_has_a_row_for_each_scenario() -> None:
    races = (timing("s|0", "fa3", 1.1), timing("s|0", "cudnn", 0.8), timing("s1", "fa3", 0.9))
    found = dataclasses.replace(outcome("x", 1.0), timings=races)
    lines = outcome_markdown("kernel.cu", found)
    assert lines[0] == "### kernel.cu"
    assert "* 1.000x [0.998, 1.002] over torch; worst 0.900x in s1" in lines
    head = lines.index("| scenario | us | fa3 us | ratio | interval | best peer | of bound | bound |")
    assert set(lines[head + 1]) <= set("|- ")
    assert lines[head + 2] == "| s\\|0 | 100.0 | 110.0 | 1.100x | [1.089, 1.111] | 0.800x | 25.0 % | bytes |"
    assert lines[head + 3].count("|") == lines[head].count("|")
    assert lines[-1].startswith("* ")
    refused = outcome_markdown("kernel.cu", outcome("x", verdict=Verdict.WRONG))
    assert any(line.startswith("WRONG at check") for line in refused)
    assert not any(line.startswith("|") for line in refused)


def test_typical_times_are_geometric_means_of_the_first_race() -> None:
    races = [
        timing("s0", "torch", 1.0),
        timing("s1", "torch", 4.0, candidate_us=400.0, opponent_us=100.0),
        timing("s0", "z", 9.0),
    ]
    typical = typical_us(races)
    assert typical is not None
    assert typical == pytest.approx((200.0, 100.0))
    assert typical_us([]) is None


def test_failed_checks_are_shown_with_their_figures_and_each_message_once() -> None:
    good = outcome("x", 1.0).checks[0]
    bad = Check(
        scenario="s2", distribution="large", tensor="out", passed=False, max_error=None, max_allowed=1e-6, rms_error=2.5,
        rms_allowed=1e-6, message="NaN in row 3",
    )  # fmt: skip
    lines = check_rows([good, bad, bad], explain=False)
    assert lines[0] == "correctness: 1 of 3 checks passed; largest error 50 % of what is allowed there"
    assert lines[2].split() == ["s2", "large", "out", "FAIL", "-", "1.00e-06", "2.50e+00", "1.00e-06", "-"]
    assert lines[-1] == "  NaN in row 3"
    assert len(lines) == 5
    assert len(check_rows([good], explain=True)) == 3


def outcome_with(**changes: object) -> Outcome:
    return dataclasses.replace(outcome("x", verdict=Verdict.COMPILE_ERROR), **changes)  # type: ignore[arg-type]


def test_a_faults_log_is_shown_up_to_a_limit_and_whole_when_asked() -> None:
    found = outcome_with()
    assert found.fault is not None
    found = dataclasses.replace(found, fault=dataclasses.replace(found.fault, detail="\n".join(map(str, range(50)))))
    short = outcome_lines(found)
    assert "  | ... and 30 more lines" in short
    assert "  | 49" not in short
    assert "  | 49" in outcome_lines(found, explain=True)


def test_many_notes_are_counted_and_whole_when_asked() -> None:
    found = outcome_with(notes=tuple(f"note {n}" for n in range(8)))
    assert "and 3 more notes" in outcome_lines(found)
    assert "note: note 7" in outcome_lines(found, explain=True)
    assert any(line.startswith("registers") for line in outcome_lines(found, explain=True))


def test_a_diff_names_both_by_their_short_ids() -> None:
    old, new = candidate("a\nb\n"), candidate("a\nc\n")
    assert diff_lines(old, new)[:2] == [f"--- {old.id[:10]}", f"+++ {new.id[:10]}"]
    assert diff_lines(old, new)[-2:] == ["-b", "+c"]
    assert diff_lines(old, old) == []
