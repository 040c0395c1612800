"""One evaluation outside a search: of a file, or of a run's candidate again."""

from pathlib import Path

from evaluator.outcome import Effort, Fault, Outcome
from evaluator.plan.parse import parse_plan
from evaluator.plan.resolve import supported
from evaluator.request import Request
from evaluator.settings import full_settings, quick_settings
from evaluator.task import Task
from evolve.api import stored_config
from evolve.config import ConfigError
from evolve.errors import EnvironmentUnfit
from evolve.parts import EvaluatorSpec, assemble, spare_cores
from evolve.state import State
from population.candidate import Candidate, Language
from results.events import FinalMeasured
from results.store import Store


def evaluate(candidate: Candidate, task_name: str, set_name: str, *, effort: Effort, quick: bool) -> Outcome:
    """The outcome of a C++ candidate in a scenario set on this machine. Raises TaskError, EnvironmentUnfit."""
    spec = EvaluatorSpec(
        task=task_name,
        scenarios=set_name,
        backend="cpu",
        seed=0,
        settings=quick_settings() if quick else full_settings(),
        threads=spare_cores(),
    )
    return _evaluated(spec, Request(candidate=candidate, effort=effort))


def _evaluated(spec: EvaluatorSpec, request: Request) -> Outcome:
    """The outcome by an evaluator of its own, which is closed again."""
    try:
        evaluator = spec()
    except (ValueError, OSError, RuntimeError) as error:
        raise EnvironmentUnfit(f"{error}; `askevolve doctor` says what this machine can do") from error
    try:
        return evaluator.evaluate(request)
    finally:
        evaluator.close()


def covering_set(candidate: Candidate, task: Task) -> str:
    """The smallest set of the language's backend that the candidate claims as a whole; where there is none, the smallest."""
    names = sets_for(task, candidate.language)
    for name in names:
        card = task.card(name)
        plan = parse_plan(candidate.source, candidate.language, card)
        claimed = plan if isinstance(plan, Fault) else supported(plan, card)
        if not isinstance(claimed, Fault) and len(claimed) == len(card.scenarios):
            return name
    return names[0]


def sets_for(task: Task, language: Language) -> tuple[str, ...]:
    """The task's sets that bear the language's backend in their name (``cpu...`` for C++, any other for CUDA), smallest first.

    Every set where none does.
    """
    named = [name for name in task.sets() if name.startswith("cpu") == (language is Language.CPP)]
    return tuple(sorted(named or task.sets(), key=lambda name: len(task.scenarios[name])))


def verify(folder: Path, candidate_id: str) -> Outcome:
    """A new final of a run's candidate with the run's right seeds as rivals, stored in the run.

    Raises ConfigError where the task has changed since, EnvironmentUnfit, and ``results.errors.RunError`` about the folder.
    """
    with Store.open(folder) as store:
        events = [recorded.event for recorded in store.events()]
        config, card = stored_config(events)
        parts = assemble(config)
        if parts.card.hash != card.hash:
            raise ConfigError(f"task {card.name} has changed since this run, so a final now would measure something else")
        state = State(card, parts.rules)
        for event in events:
            state.apply(event)
        request = Request(candidate=state.candidate(candidate_id), effort=Effort.FINAL, rivals=state.right_seeds)
        outcome = _evaluated(parts.spec, request)
        store.append(FinalMeasured(outcome=outcome))
    return outcome
