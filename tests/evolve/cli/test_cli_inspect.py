import dataclasses
import io
import subprocess
import sys
from pathlib import Path

import pytest

from evolve.cli import output
from evolve.cli.output import visible
from population.candidate import hash_text
from results.store import Store
from tests.results.makers import asked, card, evaluated, fill, final, folded, started

HOSTILE = "\x1b[2J\x1b]0;owned\x07\u202efdp.exe\r<script>\U000e0041\ud800\tend"


@pytest.fixture
def hostile(ask, tmp_path: Path) -> Path:
    """A run whose only child wants to steer the terminal: in its source, its hypothesis and its compiler's log."""
    folder = tmp_path / "runs" / "first"
    folder.mkdir(parents=True)
    with Store.create(folder, started()) as store:
        store.append(asked(0, "seed a"), evaluated(0, "seed a", 1.0), folded(0, "seed a", status="best"))
        step = asked(1, f"int x; // {HOSTILE}", "seed a")
        assert step.question is not None
        assert step.header is not None
        step = dataclasses.replace(
            step,
            question=dataclasses.replace(step.question, text=HOSTILE),
            header=dataclasses.replace(step.header, hypothesis=HOSTILE),
        )
        found = evaluated(1, f"int x; // {HOSTILE}", 1.5)
        outcome = dataclasses.replace(found.outcome, message=HOSTILE, notes=(HOSTILE,), facts={HOSTILE: HOSTILE})
        store.append(step, dataclasses.replace(found, outcome=outcome), folded(1, f"int x; // {HOSTILE}", status="best"))
    return folder


@pytest.mark.parametrize(
    "command",
    [
        ["list"],
        ["status", "sim"],
        ["show", "sim"],
        ["show", "sim", "--questions"],
        ["diff", "sim", "best"],
        ["lineage", "sim"],
    ],
)
def test_every_view_has_text_and_one_json_document(ask, finished: Path, command: list[str]) -> None:
    text = ask(*command)
    assert text.code == 0
    assert text.out.strip()
    ran = ask(*command, "--json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.document["schema_version"] == 1


def test_views_change_nothing(ask, finished: Path) -> None:
    before = (finished / "run.db").read_bytes()
    for command in ("list", "status sim", "show sim", "lineage sim", "diff sim best"):
        ask(*command.split())
    assert (finished / "run.db").read_bytes() == before


def test_status_fits_80_columns_and_names_the_verified_best(ask, finished: Path) -> None:
    out = ask("status", "sim").out
    assert max(map(len, out.splitlines())) <= 80
    assert "final: OK" in out
    assert "peer" in out
    assert "Where steps ended:" in out


def test_the_best_to_show_is_the_one_that_a_final_verified(ask, tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "first"
    folder.mkdir(parents=True)
    with Store.create(folder, started()) as store:
        fill(store)
        store.append(final("seed a", 1.01))
        store.append(final("seed b", 0.9))
    assert ask("status", "first", "--json").document["best"]["id"] == hash_text("child")
    with Store.open(folder) as store:
        refuted = final("child", 1.45).outcome
        store.append(
            dataclasses.replace(
                final("child", 1.0), outcome=dataclasses.replace(refuted, verdict="WRONG", fitness=None, timings=())
            )
        )
    assert ask("status", "first", "--json").document["best"]["id"] == hash_text("seed a")
    assert ask("list", "--json").document["runs"][0]["best_id"] == hash_text("seed a")


def test_show_names_the_question_the_prediction_and_both_measurements(ask, finished: Path) -> None:
    out = ask("show", "sim").out
    for expected in ("candidate ", "question ", "hypothesis: ", "predicted over the parent", "== search ==", "== final ==",
                     "noise floor", "device: simulated", "ratio over"):  # fmt: skip
        assert expected in out
    assert len(ask("show", "sim", "--explain").out) > len(out)


def test_show_gives_the_source_byte_for_byte_to_a_file_and_escaped_to_a_terminal(
    ask, hostile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv[0] = 'askevolve'; from evolve.cli.app import main; main()",
         "show", str(hostile), "--source"],
        cwd=Path(__file__).parents[3], capture_output=True, check=True,
    )  # fmt: skip
    assert done.stdout.startswith(b"int x; // \x1b[2J")
    assert not done.stdout.endswith(b"\n")
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda self: True)
    shown = ask("show", "first", "--source")
    assert "\\x1b[2J" in shown.out
    assert "\x1b" not in shown.out


@pytest.mark.parametrize(
    "command", ["show first", "show first --explain", "diff first best", "lineage first", "trace first", "status first", "list"]
)
def test_hostile_text_never_reaches_the_terminal(ask, hostile: Path, command: str) -> None:
    ran = ask(*command.split())
    assert ran.code == 0
    assert all(c.isprintable() or c in "\n\t" for c in ran.out + ran.err)


def test_hostile_text_is_exact_in_json(ask, hostile: Path) -> None:
    ran = ask("show", "first", "--json")
    assert ran.out.isascii()
    assert ran.document["source"].endswith("\tend")
    assert ran.document["header"]["hypothesis"] == HOSTILE


def test_visible_keeps_ordinary_text() -> None:
    assert visible("naïve 你好 \t x") == "naïve 你好 \t x"
    assert visible("a\nb\x00\x7f\x9b") == "a\\nb\\x00\\x7f\\x9b"


def test_an_ascii_terminal_gets_question_marks_instead_of_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    output.write(["naïve"])
    assert raw.getvalue() == b"na?ve\n"


def test_ids_may_be_short_but_not_ambiguous_or_unknown(ask, finished: Path) -> None:
    ids = [row["candidate"]["id"] for row in ask("lineage", "sim", "--json").document["path"]]
    assert ask("show", "sim", ids[0][:8], "--json").document["candidate"]["id"] == ids[0]
    ambiguous = ask("show", "sim", "")
    assert (ambiguous.code, ambiguous.out) == (2, "")
    assert "12 candidates begin with" in ambiguous.err
    assert ids[0][:16] in ambiguous.err or ", ..." in ambiguous.err
    unknown = ask("diff", "sim", "zzz")
    assert (unknown.code, unknown.out) == (2, "")
    assert "No candidate's id begins with 'zzz'" in unknown.err


def test_diff_compares_with_the_parent_or_another(ask, finished: Path) -> None:
    path = ask("lineage", "sim", "--json").document["path"]
    parent, child = path[-2]["candidate"]["id"], path[-1]["candidate"]["id"]
    against_parent = ask("diff", "sim", "best").out
    assert against_parent == ask("diff", "sim", child, parent).out
    assert any(line.startswith("+") and not line.startswith("+++") for line in against_parent.splitlines())
    seed = ask("diff", "sim", path[0]["candidate"]["id"])
    assert seed.code == 2
    assert "has no parent" in seed.err


@pytest.mark.parametrize("command", ["status", "show", "lineage", "trace", "resume", "final", "stop"])
def test_a_missing_run_gives_6_and_names_those_that_are_there(ask, finished: Path, command: str) -> None:
    ran = ask(command, "nosuch")
    assert (ran.code, ran.out) == (6, "")
    assert "Runs here: sim" in ran.err


def test_a_run_without_a_best_says_where_to_look(ask, tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "first"
    folder.mkdir(parents=True)
    with Store.create(folder, started()) as store:
        store.append(asked(0, "seed a"))
    ran = ask("show", "first")
    assert ran.code == 5
    assert "askevolve status" in ran.err
    assert "Nothing is evaluated yet" in ask("status", "first").out
    assert ask("status", "first", "--json").document["best"] is None
    assert ask("list").out.splitlines()[1].endswith("interrupted")


def test_list_leaves_out_what_it_cannot_read_and_says_so(ask, finished: Path, tmp_path: Path) -> None:
    bad = tmp_path / "runs" / "bad"
    bad.mkdir()
    (bad / "run.db").write_bytes(b"no database at all" * 100)
    ran = ask("list")
    assert ran.code == 0
    assert "left out runs/bad" in ran.err
    assert ran.out.splitlines()[1].startswith("sim")
    assert ask("list", "elsewhere").err.startswith("No runs in elsewhere")


def test_the_cards_scenarios_are_counted(ask, finished: Path) -> None:
    assert f"{len(card().scenarios)} scenarios" not in ask("status", "sim").out
    assert "5 scenarios of five" in ask("status", "sim").out
