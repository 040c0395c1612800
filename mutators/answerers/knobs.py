"""The embedded answerer: answers a question by moving one or two of the numbers that the parent's plan declares as knobs."""

import json
import math
from collections.abc import Mapping, Sequence

import numpy as np

from mutators.answerers.base import Prompt, Relative
from mutators.attempts import assignment_of
from mutators.moves import Move, gains_of, moves_of
from mutators.plan_text import block_between, change
from mutators.question import Answer, Layer

PAIR_SHARE = 0.3
"""Share of answers that move two knobs at once while single moves are left."""

_LOOKS: Mapping[Layer, str] = {
    Layer.ALGORITHM: "if the amount of work that the tiling implies is what costs the time",
    Layer.SCHEDULE: "if the order in which the work is done leaves units idle",
    Layer.MEMORY: "if the time goes into bringing data to the cores",
    Layer.INSTRUCTION: "if the inner loop's instruction mix rules",
    Layer.NUMERICS: "if the arithmetic around the exponentials rules",
    Layer.LAUNCH: "if the grain of the tasks leaves cores idle",
    Layer.PLAN: "if what the plan divides or stores rules",
    Layer.MEASUREMENT: "if the measured figure is what the kernel really takes",
}


class KnobAnswerer:
    """Moves declared knobs, steered by the question's layer and by what earlier moves gave. No network, no state."""

    name = "knobs"

    def answer(self, prompt: Prompt, rng: np.random.Generator) -> Answer:
        """An answer that makes a plan nobody tried near this parent, or a ceiling claim where none is left."""
        moves = moves_of(prompt.knobs, prompt.question.layer, gains_of(prompt.knobs, prompt.children, prompt.lineage))
        tried = _tried(prompt)
        current = dict(assignment_of(prompt.knobs))
        singles = [(move,) for move in moves if _key(current, (move,)) not in tried]
        pairs = [
            (first, second)
            for index, first in enumerate(moves)
            for second in moves[index + 1 :]
            if first.key != second.key and _key(current, (first, second)) not in tried
        ]
        while singles or pairs:
            pool: list[tuple[Move, ...]] = [*(pairs if pairs and (not singles or rng.random() < PAIR_SHARE) else singles)]
            chosen = pool[_weighted([math.prod(move.weight for move in option) for option in pool], rng)]
            text = _text(prompt, chosen)
            if text is not None:
                return Answer(text=text, answerer=self.name)
            singles, pairs = [option for option in singles if option != chosen], [one for one in pairs if one != chosen]
        return Answer(text=_nothing_left(prompt), answerer=self.name)


def _tried(prompt: Prompt) -> set[tuple[tuple[str, int], ...]]:
    """Assignments that this parent's children and ancestors had, seen as numbers of this parent's plan."""
    current = assignment_of(prompt.knobs)
    relatives: Sequence[Relative] = [*prompt.children, *prompt.lineage]
    known = [{**current, **{key: value for key, value in one.knobs.items() if key in current}} for one in relatives if one.knobs]
    return {tuple(sorted(assignment.items())) for assignment in known} | {tuple(sorted(current.items()))}


def _key(current: Mapping[str, int], moves: Sequence[Move]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted({**current, **{move.key: move.new for move in moves}}.items()))


def _weighted(weights: Sequence[float], rng: np.random.Generator) -> int:
    shares = np.cumsum(weights)
    return min(int(np.searchsorted(shares, rng.random() * shares[-1], side="right")), len(weights) - 1)


def _text(prompt: Prompt, moves: Sequence[Move]) -> str | None:
    """The whole answer, None where the plan's text doesn't let one of these numbers be changed alone."""
    source, blocks = prompt.parent.source.replace("\r\n", "\n"), []
    for move in moves:
        changed = change(source, move.target, move.new)
        if changed is None:
            return None
        block = block_between(source, changed)
        blocks += ["<<<<<<< SEARCH", *block.search, "=======", *block.replace, ">>>>>>> REPLACE"]
        source = changed
    words = " and ".join(f"{move.key} from {move.old} to {move.new}" for move in moves)
    question = prompt.question
    sentence = f"Moving {words} changes the time {_LOOKS[question.layer]}, which is what {question.entry_id} asks about."
    expected = math.prod(move.expected for move in moves) ** (1 / len(moves))
    return "\n".join([*_header(sentence, "none", expected), "", *blocks, ""])


def _nothing_left(prompt: Prompt) -> str:
    names = ", ".join(knob.name for knob in prompt.knobs)
    what = f"Every single and double move of {names}" if names else "The plan declares no knobs, so every move of one"
    sentence = f"{what} near this parent was tried; what is left to answer {prompt.question.entry_id} is not a number."
    return "\n".join([*_header(sentence, "ceiling", None), ""])


def _header(sentence: str, claim: str, expected: float | None) -> list[str]:
    lines = ["+++", f"hypothesis = {json.dumps(sentence, ensure_ascii=False)}", f'claim = "{claim}"']
    lines += ["exhausted = true"] if expected is None else ["[prediction]", f"all = {expected:.4f}"]
    return [*lines, "+++"]
