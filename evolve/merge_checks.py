"""Whether what lies elsewhere measures what a run measures: the same task, scenarios and harness, the very same sources."""

from evaluator.outcome import Effort, Outcome
from evaluator.settings import harness_id
from evaluator.task_card import TaskCard
from evolve.api import stored_config
from evolve.errors import MergeRefused
from evolve.merge_sources import Brought, start_of
from evolve.parts import settings_for
from population.candidate import hash_text, short_id
from population.novelty import candidate_of
from results.merge_history import History

SAME_TASK = "evaluate again with this run's task (the same version of askevolve, the same task folder)"
COPY_AGAIN = "copy it again from where it was measured"


def check(place: str, found: Brought, home: History) -> None:
    """Nothing, where what lies at ``place`` fits the run ``home``.

    Raises MergeRefused where task, scenarios, harness or a candidate's hash differ.
    """
    card = start_of(home).card
    if found.folder is not None:
        _check_card(place, start_of(found.history).card, card)
    _check_candidates(place, found)
    wanted = _harnesses(home)
    for where, outcome in found.outcomes:
        _check_outcome(f"{place}, {where}", outcome, card, wanted)


def _check_card(place: str, there: TaskCard, here: TaskCard) -> None:
    if (there.name, there.hash) != (here.name, here.hash):
        raise MergeRefused(
            f"{place}: its task is {there.name} {short_id(there.hash)}, this run's is {here.name} {short_id(here.hash)}, so they "
            f"measure different things; {SAME_TASK}"
        )
    if (there.scenario_set, there.scenarios) != (here.scenario_set, here.scenarios):
        raise MergeRefused(
            f"{place}: its scenarios are {there.scenario_set!r} ({len(there.scenarios)}), this run's {here.scenario_set!r} "
            f'({len(here.scenarios)}); evaluate there with [task] scenarios = "{here.scenario_set}"'
        )


def _check_candidates(place: str, found: Brought) -> None:
    for candidate in found.candidates.values():
        there = hash_text(candidate.source)
        if there != candidate.id:
            raise MergeRefused(
                f"{place}: the source of candidate {short_id(candidate.id)} hashes to {short_id(there)}, so it was changed after "
                f"it was measured; {COPY_AGAIN}"
            )
        if candidate_of(candidate.source, candidate.language).normal_id != candidate.normal_id:
            raise MergeRefused(
                f"{place}: the normal form of candidate {short_id(candidate.id)} isn't the one of this version; "
                "use the same version of askevolve on both machines"
            )
    for number, event in found.history.outcomes.items():
        asked = found.history.asked[number] if number < len(found.history.asked) else None
        if asked is None or asked.step.candidate_id != event.outcome.candidate_id:
            raise MergeRefused(
                f"{place}, step {number}: its outcome is about {short_id(event.outcome.candidate_id)}, which isn't the step's "
                f"candidate; {COPY_AGAIN}"
            )
    if lost := [outcome.candidate_id for _, outcome in found.outcomes if outcome.candidate_id not in found.candidates]:
        raise MergeRefused(f"{place}: it has an outcome of {short_id(lost[0])} and not its source; {COPY_AGAIN}")


def _check_outcome(where: str, outcome: Outcome, card: TaskCard, harnesses: frozenset[str]) -> None:
    if outcome.task_hash != card.hash:
        raise MergeRefused(
            f"{where}: measured with task {short_id(outcome.task_hash)}, this run's is {card.name} {short_id(card.hash)}; "
            f"{SAME_TASK}"
        )
    if outcome.harness not in harnesses:
        raise MergeRefused(
            f"{where}: measured by harness {outcome.harness}, this run's is {', '.join(sorted(harnesses))}, so the figures don't "
            "compare; evaluate again with the same version of askevolve and this run's [evaluation] (--quick is its pace quick)"
        )
    names = {scenario.name for scenario in card.scenarios}
    strange = sorted({*outcome.supported, *(timing.scenario for timing in outcome.timings)} - names)
    if strange and outcome.effort is Effort.SEARCH:  # a final has hidden scenarios too
        raise MergeRefused(
            f"{where}: measured in {strange[0]}, which isn't among this run's scenarios; evaluate with --scenarios "
            f"{card.scenario_set}"
        )


def _harnesses(home: History) -> frozenset[str]:
    """The harness that a run's outcomes come from; before it has any, the one that its configuration asks for."""
    measured = frozenset(event.outcome.harness for event in home.outcomes.values())
    if measured:
        return measured
    config, _ = stored_config([recorded.event for recorded in home.events])
    return frozenset({"simulated" if config.task.backend == "simulated" else harness_id(settings_for(config))})
