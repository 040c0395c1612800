"""Evaluations outside a search: of files, or of a run's candidate again."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from evaluator.outcome import Effort, Fault, Outcome
from evaluator.plan.parse import parse_plan
from evaluator.plan.resolve import supported
from evaluator.request import Evaluator, Request
from evaluator.task import Task, load_task
from evolve.api import stored_config
from evolve.builds import ahead_of
from evolve.config import ConfigError
from evolve.errors import EnvironmentUnfit
from evolve.evaluators import EvaluatorSpec, gpus_here, settings_of, spare_cores
from evolve.executors.ahead import AheadPool
from evolve.parts import assemble
from evolve.state import State
from population.candidate import Candidate, Language
from results.events import FinalMeasured
from results.store import Store


def evaluate(
    candidates: Sequence[Candidate],
    task_name: str,
    set_name: str,
    *,
    effort: Effort,
    quick: bool,
    baseline: str | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> Iterator[Outcome]:
    """The outcome of each candidate in turn, all in one session on this machine; while one runs the next are compiled.

    All are of one language. ``progress`` hears how far a final is. ``baseline`` names the one that fitness is measured against,
    None: the first that is available. Raises TaskError, EnvironmentUnfit.
    """
    backend = "cuda" if candidates[0].language is Language.CUDA else "cpu"
    spec = EvaluatorSpec(
        task=task_name,
        scenarios=set_name,
        backend=backend,
        seed=0,
        settings=settings_of(backend, "quick" if quick else "full"),
        threads=spare_cores(),
        baseline=baseline,
    )
    requests = [Request(candidate=candidate, effort=effort) for candidate in candidates]
    with closing(_opened(spec, progress)) as evaluator:
        if backend == "cpu":  # where compiling would disturb what is timed
            yield from map(evaluator.evaluate, requests)
            return
        task = load_task(task_name)
        with closing(AheadPool(ahead_of(task, task.card(set_name), gpus_here()[0], spare_cores()))) as pool:
            for request in requests:
                pool.prepare(request)
            yield from map(evaluator.evaluate, requests)


def _opened(spec: EvaluatorSpec, progress: Callable[[str], None]) -> Evaluator:
    try:
        return spec(progress)
    except (ValueError, OSError, RuntimeError, ImportError) as error:
        raise EnvironmentUnfit(f"{error}; `askevolve doctor` says what this machine can do") from error


def covering_set(candidates: Sequence[Candidate], task: Task) -> str:
    """The smallest set of the language's backend that every candidate claims as a whole; where there is none, the smallest."""
    names = sets_for(task, candidates[0].language)
    return next((name for name in names if all(_covers(candidate, task, name) for candidate in candidates)), names[0])


def _covers(candidate: Candidate, task: Task, set_name: str) -> bool:
    card = task.card(set_name)
    plan = parse_plan(candidate.source, candidate.language, card)
    claimed = plan if isinstance(plan, Fault) else supported(plan, card)
    return not isinstance(claimed, Fault) and len(claimed) == len(card.scenarios)


def sets_for(task: Task, language: Language) -> tuple[str, ...]:
    """The task's sets that bear the language's backend in their name (``cpu...`` for C++, any other for CUDA), smallest first.

    Every set where none does.
    """
    named = [name for name in task.sets() if name.startswith("cpu") == (language is Language.CPP)]
    return tuple(sorted(named or task.sets(), key=lambda name: len(task.scenarios[name])))


def verify(folder: Path, candidate_id: str, progress: Callable[[str], None] = lambda text: None) -> Outcome:
    """A new final of a run's candidate with the run's right seeds as rivals, stored in the run.

    Raises ConfigError where the task has changed since or the candidate came from elsewhere, EnvironmentUnfit, and
    ``results.errors.RunError`` about the folder.
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
        if state.known.get(candidate_id) is None:
            raise ConfigError(
                f"{candidate_id[:10]} came home from elsewhere, so this run can't make a final of it; "
                "`askevolve show RUN ID --source` gives its source, `askevolve evaluate FILE --final` judges it here"
            )
        request = Request(candidate=state.candidate(candidate_id), effort=Effort.FINAL, rivals=state.right_seeds)
        with closing(_opened(parts.spec, progress)) as evaluator:
            outcome = evaluator.evaluate(request)
        store.append(FinalMeasured(outcome=outcome))
    return outcome
