"""Runs of every kind for the tests of the dashboard and its benchmark, and large ones that are written in seconds."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from evaluator.outcome import Verdict
from evaluator.task_card import Scenario
from mutators.question import Header, Rejection
from population.candidate import hash_text
from results.store import Store
from tests.results.dashboard.many import write_many
from tests.results.makers import asked, card, evaluated, fill, final, folded, outcome, started

HOSTILE = "<img src=x onerror=\"alert('x')\"></script><script>alert(1)</script>{{ 7 * 7 }} \u202e \ud800 \x07 &amp; =cmd()"
"""What a model or a compiler may say: markup, templates, formulas, half a character, a turned text, a control character."""


def empty(folder: Path) -> None:
    """A run that has only begun."""
    Store.create(folder, started()).close()


def one(folder: Path) -> None:
    """One seed, right and slow."""
    with Store.create(folder, started()) as store:
        store.append(asked(0, "seed a"), evaluated(0, "seed a", 0.7), folded(0, "seed a", status="best"))


def small(folder: Path) -> None:
    """A bit of everything, verified."""
    with Store.create(folder, started()) as store:
        fill(store)


def all_failed(folder: Path) -> None:
    """Nothing compiles, nothing is right."""
    with Store.create(folder, started()) as store:
        for number, verdict in enumerate((Verdict.COMPILE_ERROR, Verdict.WRONG, Verdict.CRASH, Verdict.TOO_FAST)):
            store.append(asked(number, f"seed {number}"), evaluated(number, f"seed {number}", verdict=verdict))
            store.append(folded(number, None))


def no_figures(folder: Path) -> None:
    """Errors that weren't finite, ratios without width, an evaluation that gave no fitness though it is right."""
    bare = replace(outcome("seed a", 1.0), fitness=None, timings=(), noise_floor_pct=None, facts={}, checks=())
    with Store.create(folder, started()) as store:
        store.append(asked(0, "seed a"), replace(evaluated(0, "seed a", 1.0), outcome=bare), folded(0, None))
        store.append(asked(1, "child", "seed a"), evaluated(1, "child", verdict=Verdict.NONFINITE), folded(1, None))
        store.append(asked(2, "tiny", "seed a"), evaluated(2, "tiny", 1e-6), folded(2, "tiny", status="best"))


def one_island(folder: Path) -> None:
    """All steps on one island."""
    with Store.create(folder, started()) as store:
        for number in range(4):
            step = asked(2 * number, f"step {number}", f"step {number - 1}" if number else None)
            store.append(step, evaluated(2 * number, f"step {number}", 1.0 + number / 10))
            store.append(folded(2 * number, f"step {number}", accepted=True, status="best"))


def missing_parent(folder: Path) -> None:
    """Steps that name a parent which this run doesn't hold, the best among them."""
    with Store.create(folder, started()) as store:
        store.append(asked(0, "seed a"), evaluated(0, "seed a", 1.0), folded(0, "seed a", status="best"))
        store.append(asked(1, "orphan", "gone"), evaluated(1, "orphan", 1.4), folded(1, "orphan", accepted=True, status="best"))
        store.append(asked(2, "heir", "orphan"), evaluated(2, "heir", 1.5), folded(2, "heir", accepted=True, status="best"))


def hostile(folder: Path) -> None:
    """Texts of a model and a compiler that try to act in the page."""
    names = tuple(Scenario(name=f"{HOSTILE} {number}", symbols={"sq": 1}) for number in range(2))
    with Store.create(folder, started(card=replace(card(), summary=HOSTILE, contract=HOSTILE, scenarios=names))) as store:
        store.append(asked(0, "seed a"), evaluated(0, "seed a", 1.0), folded(0, "seed a", status="best"))
        for number, verdict in ((1, Verdict.OK), (2, Verdict.COMPILE_ERROR)):
            text = f"{HOSTILE} {number}"
            step = asked(number, text, "seed a", entry=HOSTILE)
            assert step.question is not None
            assert step.answer is not None
            step = replace(
                step,
                question=replace(step.question, text=HOSTILE, settle=HOSTILE, facts={HOSTILE: HOSTILE}),
                answer=replace(step.answer, text=HOSTILE, answerer=HOSTILE, model=HOSTILE),
                header=Header(hypothesis=HOSTILE, prediction={HOSTILE: 1.5}),
            )
            found = outcome(text, 1.2 if verdict is Verdict.OK else None, verdict=verdict)
            fault = found.fault and replace(found.fault, message=HOSTILE, detail=HOSTILE)
            timings = tuple(replace(one, scenario=names[0].name, opponent=HOSTILE) for one in found.timings)
            found = replace(found, message=HOSTILE, fault=fault, timings=timings, facts={HOSTILE: HOSTILE}, notes=(HOSTILE,))
            store.append(step, replace(evaluated(number, text), outcome=found))
            store.append(folded(number, f"{HOSTILE} 1", accepted=verdict is Verdict.OK, status="added"))
        store.append(asked(3, None, "seed a", entry=HOSTILE, rejected=Rejection.NO_CODE))


def refuted(folder: Path) -> None:
    """The best was refuted by its final."""
    with Store.create(folder, started()) as store:
        fill(store)
        store.append(final("child", verdict=Verdict.WRONG))


def thousand(folder: Path) -> None:
    """A thousand steps of a search."""
    write_many(folder, 1000)


KINDS: Mapping[str, Callable[[Path], None]] = {
    kind.__name__: kind
    for kind in (empty, one, small, all_failed, no_figures, one_island, missing_parent, hostile, refuted, thousand)
}
"""A function for each kind of run, by its name; each writes one into a folder."""


def grow(store: Store, number: int, parent: str, geomean: float) -> str:
    """Append one whole step to an open run, a child of ``parent``'s source; its source."""
    text = f"grown {number}"
    store.append(asked(number, text, parent), evaluated(number, text, geomean))
    store.append(folded(number, text, accepted=True, status="best"))
    return text


def identity(text: str) -> str:
    """The id of the candidate with this source."""
    return hash_text(text)
