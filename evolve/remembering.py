"""How a run learns from the runs before it: a snapshot of their records when it begins, its own records when it stops.

The snapshot is an event of the run, so its choices depend on its own log alone, whatever other runs write meanwhile.
"""

from pathlib import Path

from evolve.config import RunConfig
from evolve.state import RECORDS_FACT, State
from mutators.record_file import FILE_NAME, Asked, RunRecords, plain_records, recall, remember
from mutators.records import PEOPLE, key_of, told_in
from results.events import RunNoted


def noted_earlier(root: Path, config: RunConfig) -> tuple[RunNoted, ...]:
    """The events that give a new run the records of earlier ones beside it; none where there are none.

    The simulated backend neither gives nor takes, since its gains are made up, nor do runs that put no questions.
    """
    if not _puts_questions(config):
        return ()
    found = recall(root / FILE_NAME)
    if found.problem is not None:
        return (RunNoted(text=f"no records of earlier questions: {found.problem}"),)
    records = found.records(config.task.backend)
    if not records.entries:
        return ()
    runs = sum(run.backend == config.task.backend for run in found.runs)
    asked = sum(record.asked for record in records.layers.values())
    return (
        RunNoted(
            text=f"records of {asked} questions in {runs} earlier runs count from here on",
            facts={RECORDS_FACT: plain_records(records)},
        ),
    )


def keep(root: Path, config: RunConfig, state: State) -> str | None:
    """Store what this run's questions gave so far beside the runs; None, or why that wasn't possible."""
    if not _puts_questions(config) or not state.records.entries:
        return None
    questions = [asked.question for asked in state.asked if asked.question]
    layers = {key: question.layer for question in questions for key in (key_of(question), *told_in(question))}
    texts = {key_of(question): question.text for question in questions if question.entry_id in PEOPLE}
    texts |= {key: text for question in questions for key, text in told_in(question).items()}
    asked = tuple(
        Asked(key=key, layer=layers[key], record=record, text=texts.get(key, "")) for key, record in state.records.entries.items()
    )
    run = RunRecords(name=config.run.name, task=state.card.name, backend=config.task.backend, asked=asked)
    return remember(root / FILE_NAME, run)


def _puts_questions(config: RunConfig) -> bool:
    """Whether what the run's questions gave says something about questions put to real kernels."""
    return config.task.backend != "simulated" and config.mutation.style == "question"
