"""Knob sweeps after accepted edits: what they turn, what they join, what they cost, and that a resumed run goes on with them."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from evaluator.outcome import Fault
from evaluator.plan.knobs import knobs_of
from evaluator.plan.parse import parse_plan
from evolve.api import RunResult, resume, run
from evolve.config import RunConfig
from evolve.parts import Parts, assemble
from evolve.state import State
from evolve.sweep import is_structural
from mutators.attempts import assignment_of
from population.candidate import Candidate, Language, Origin
from population.novelty import candidate_of
from results.events import Event, StepAsked, StepEvaluated, StepFolded, StepPosed
from results.reader import Reader
from results.store import Store
from results.terminal import candidate_lines, lineage_lines, status_screen
from tests.evolve.simulation import SEEDS, config, essence, shuffled, stored
from tests.evolve.sweeping import Editor, card_of, landscape, sweep_config


@pytest.fixture(autouse=True)
def edited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody answers who edits more than knobs."""
    monkeypatch.setattr(Parts, "answerer", lambda parts, ledger, note: Editor())


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    """A run with sweeps."""
    root = tmp_path_factory.mktemp("swept")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Parts, "answerer", lambda parts, ledger, note: Editor())
        return run(wanted := sweep_config(root), root=root, executor=landscape(wanted))


def sweeps_of(events: Sequence[Event]) -> list[StepAsked]:
    return [event for event in events if isinstance(event, StepAsked) and event.step.origin is Origin.SWEEP]


def knobs(candidate: Candidate, wanted: RunConfig) -> dict[str, int]:
    plan = parse_plan(candidate.source, candidate.language, card_of(wanted))
    assert not isinstance(plan, Fault)
    return dict(assignment_of(knobs_of(plan)))


def test_a_sweep_turns_one_knob_at_a_time_and_joins_what_paid_where_it_paid(swept: RunResult) -> None:
    events = stored(swept.folder)
    known = {event.candidate.id: event.candidate for event in events if isinstance(event, StepAsked) and event.candidate}
    steps = sweeps_of(events)
    root_id = steps[0].step.parent_id or ""
    first = [step for step in steps if step.step.parent_id == root_id]
    assert len(first) == 6
    wanted = sweep_config(swept.folder.parent)
    before = knobs(known[root_id], wanted)
    for step in first[:-1]:
        assert step.candidate is not None
        assert step.header is not None
        [(name, value)] = knobs(step.candidate, wanted).items() - before.items()
        assert step.header.hypothesis == f"{name} from {before[name]} to {value}"
        assert not is_structural(known[root_id], step.candidate)
    assert len({step.header.hypothesis.split()[0] for step in first[:3] if step.header}) == 3, "one knob after the other"
    joined = first[-1]
    assert joined.candidate is not None
    assert joined.header is not None
    assert joined.header.hypothesis == "WIDTH from 8 to 16 and BLOCK from 16 to 8 in small and BLOCK from 16 to 32"
    assert 'BLOCK  = { value = 32, when = [["n <= 8", 8]], choices' in joined.candidate.source
    outcomes = {event.outcome.candidate_id: event.outcome for event in events if isinstance(event, StepEvaluated)}
    ratios = [fit.geomean for step in first if step.candidate and (fit := outcomes[step.candidate.id].fitness)]
    assert ratios[-1] == max(ratios)


def test_a_sweep_pays_like_every_step_and_isn_t_counted_as_questions(swept: RunResult) -> None:
    events = stored(swept.folder)
    asked = [event for event in events if isinstance(event, StepAsked)]
    assert swept.candidates == 14 == sum(event.candidate is not None for event in asked)
    assert swept.questions_asked == sum(isinstance(event, StepPosed) for event in events) < len(asked) - 1
    wanted = sweep_config(swept.folder.parent)
    state = State(card_of(wanted), assemble(wanted).rules)
    for event in events:
        state.apply(event)
    assert sum(record.asked for record in state.records.layers.values()) == swept.questions_asked
    for event in sweeps_of(events):
        assert event.question is None
        assert event.answer is None


@pytest.mark.parametrize("lookahead", [1, 4])
def test_a_turned_knob_sees_the_results_up_to_its_lookahead_and_no_further(tmp_path: Path, lookahead: int) -> None:
    wanted, folded, swept = sweep_config(tmp_path, executor={"lookahead": lookahead}), -1, 0
    for event in stored(run(wanted, root=tmp_path, executor=landscape(wanted)).folder):
        if isinstance(event, StepFolded):
            folded = event.step_number
        if isinstance(event, StepPosed) or (isinstance(event, StepAsked) and event.step.origin is Origin.SWEEP):
            swept += isinstance(event, StepAsked)
            assert folded == max(event.step.number - lookahead, 0)
    assert swept > 6


def test_workers_and_order_of_completion_change_nothing(swept: RunResult, tmp_path: Path) -> None:
    whole = essence(stored(swept.folder))
    wanted = sweep_config(swept.folder.parent)
    assert essence(stored(run(wanted, root=tmp_path, executor=landscape(wanted, workers=8, seed=1)).folder)) == whole


class Died(BaseException):
    """The driver is gone."""


def test_a_driver_that_dies_around_every_few_commits_makes_the_same_run(
    swept: RunResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, left, deaths = Store.append, 0, 0

    def deadly(store: Store, *events: Event, prompts: Sequence[str] = ()) -> int:
        nonlocal left
        left -= 1
        if left == 0 and deaths % 2:
            raise Died
        seq = append(store, *events, prompts=prompts)
        if left == 0:
            raise Died
        return seq

    wanted = sweep_config(swept.folder.parent)
    while True:
        try:
            left = 2 + deaths % 3
            monkeypatch.setattr(Store, "append", deadly)
            if deaths == 0:
                run(wanted, root=tmp_path, executor=landscape(wanted))
            resume(tmp_path / "sim", executor=landscape(wanted, seed=deaths))
            break
        except Died:
            deaths += 1
    assert deaths > 15
    assert essence(stored(tmp_path / "sim")) == essence(stored(swept.folder))


def test_none_is_swept_where_none_is_wanted_nor_after_edits_of_knobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = sweep_config(tmp_path, sweep={"evaluations": 0}, budget={"candidates": 4})
    assert not sweeps_of(stored(run(wanted, root=tmp_path, executor=landscape(wanted)).folder))
    monkeypatch.undo()
    turned = stored(run(config(), root=tmp_path / "knobs", executor=shuffled()).folder)
    assert any(event.accepted for event in turned if isinstance(event, StepFolded) and event.step_number >= len(SEEDS))
    assert not sweeps_of(turned)


def test_one_evaluation_turns_one_knob(tmp_path: Path) -> None:
    wanted = sweep_config(tmp_path, sweep={"evaluations": 1}, budget={"candidates": 8})
    steps = sweeps_of(stored(run(wanted, root=tmp_path, executor=landscape(wanted)).folder))
    parents = [step.step.parent_id for step in steps]
    assert len(steps) > 1
    assert len(set(parents)) == len(parents)


def test_plans_that_can_t_be_and_values_that_change_nothing_cost_no_evaluation(tmp_path: Path) -> None:
    source = Path(SEEDS[0]).read_text()
    source = source.replace('"ceil_div(n, BLOCK)"', '"ceil_div(n, BLOCK) if BLOCK in [16, 32] else 0"')  # a grid of 0 is an error
    source = source.replace("value = 8, choices", 'value = 8, when = [["n > 0", 8]], choices')  # so the plain value never counts
    (tmp_path / "seed.cpp").write_text(source)
    wanted = sweep_config(tmp_path, population={"seeds": (str(tmp_path / "seed.cpp"),)}, sweep={"evaluations": 40})
    events = stored(run(wanted, root=tmp_path, executor=landscape(wanted)).folder)
    root_id = sweeps_of(events)[0].step.parent_id
    turned = [one.header.hypothesis for one in sweeps_of(events) if one.header and one.step.parent_id == root_id]
    assert {text.split(" from")[0] for text in turned[:-1]} == {"BLOCK", "WIDTH when n > 0", "UNROLL", "STAGES"}
    assert [text for text in turned if text.startswith("BLOCK")] == ["BLOCK from 16 to 32"]
    assert not [event for event in events if isinstance(event, StepEvaluated) and event.outcome.fault]


def test_what_was_turned_is_said_wherever_a_candidate_is_shown(swept: RunResult) -> None:
    with Reader.open(swept.folder) as reader:
        steps = {step.candidate_id: step for step in reader.steps()}
        row = next(row for row in reader.candidates() if row.origin is Origin.SWEEP)
        shown = "\n".join(candidate_lines(row, reader.made_by(row.id), None, None))
        lineage = "\n".join(lineage_lines([(row, steps[row.id])], {}))
        status = "\n".join(status_screen(reader))
    assert f"step {row.step_number} (sweep)" in shown
    assert "turned BLOCK from 16 to 8" in shown
    assert "turned BLOCK from 16 to 8" in lineage
    assert "steps of these turned knobs after an accepted edit" in status


def test_prompts_tell_what_turning_knobs_gave(swept: RunResult) -> None:
    with Reader.open(swept.folder) as reader:
        texts = [reader.prompt(step.number) for step in reader.steps() if step.origin is Origin.QUESTION]
    assert any("asked: nothing: a knob was turned\n  said: BLOCK from 16 to 8" in text for text in texts)


def test_an_edit_is_structural_if_more_than_values_and_comments_changed() -> None:
    source = Path(SEEDS[0]).read_text()
    parent = candidate_of(source, Language.CPP)
    for old, new, structural in (
        ("value = 16", "value = 8", False),
        ("value = 16,", 'value = 8, when = [["n > 4", 16]],', False),
        ("/* by rows */", "/* row by row */", False),
        ("choices = [4, 8, 16]", "choices = [4, 8, 16, 32]", True),
        ("/* by rows */", "step();", True),
    ):
        assert is_structural(parent, candidate_of(source.replace(old, new, 1), Language.CPP)) is structural
