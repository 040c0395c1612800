"""The facts of a run that are the same for every visitor, by name."""

from collections.abc import Callable, Mapping

from results.dashboard.archive import archive_facts
from results.dashboard.arms import arm_facts
from results.dashboard.failures import failure_facts
from results.dashboard.overview import run_facts
from results.dashboard.progress import progress_facts
from results.dashboard.questions import question_facts
from results.dashboard.replay import replay_facts
from results.dashboard.scenarios import scenario_facts
from results.dashboard.view import Facts, RunView, Sight

FACTS: Mapping[str, Callable[[Sight], Facts]] = {
    "run": run_facts,
    "progress": progress_facts,
    "questions": question_facts,
    "scenarios": scenario_facts,
    "archive": archive_facts,
    "failures": failure_facts,
    "replay": replay_facts,
    "arms": arm_facts,
}


def facts_of(view: RunView, name: str) -> Facts:
    """The facts of this name. Raises KeyError where there are none of that name, RunError."""
    return view.facts(name, FACTS[name])
