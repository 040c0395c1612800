"""The second turn: an answer that was rejected may be sent back once, to whoever gave it, with the reason."""

from dataclasses import replace

import numpy as np

from mutators.answerers.base import Answerer, Prompt
from mutators.answerers.failures import Unanswered
from mutators.edits import apply
from mutators.prompt import QUESTION_HEADING, fenced
from mutators.question import Answer, FirstTurn, Rejected, Rejection

MAX_QUOTED_CHARS = 8_000
"""Of a longer answer the second turn quotes the beginning and the end."""

FINAL = frozenset({Rejection.CLAIM_ONLY, Rejection.EXHAUSTED})
"""Rejections of answers that say what they mean: there is nothing to mend."""


def second_turn(answerer: Answerer, prompt: Prompt, answer: Answer, rng: np.random.Generator) -> Answer:
    """The answer to keep: the given one, or, where it was rejected by mistake, what came when it was sent back.

    That holds the first text, and what both cost. Where nothing comes the given one stays, with what the second turn cost.
    """
    rejected = apply(prompt.parent.source, answer.text)
    if not isinstance(rejected, Rejected) or not repairable(rejected) or not answer.text.strip():
        return answer
    try:
        second = answerer.answer(repair_prompt(prompt, answer, rejected), rng)
    except Unanswered as error:
        return replace(answer, usage=answer.usage.plus(error.usage))
    except Exception:  # whatever it is, the next prompt meets it too, and nothing is lost by it here
        return answer
    usage = answer.usage.plus(second.usage)
    if not second.text.strip():
        return replace(answer, usage=usage)
    return replace(second, usage=usage, first=FirstTurn(text=answer.text, rejected=rejected))


def repairable(rejected: Rejected) -> bool:
    """Whether the answer may be sent back. Verdicts of the harness aren't: a failed build is the failure moment's question."""
    return rejected.reason not in FINAL


def repair_prompt(prompt: Prompt, answer: Answer, rejected: Rejected) -> Prompt:
    """The prompt of the second turn: the first one, what came back, what was wrong with it, and the same question last."""
    before, _, question = prompt.text.rpartition(QUESTION_HEADING)
    sections = [
        before.rstrip("\n"),
        f"## Your first answer\n\n{fenced(_quoted(answer.text), 'data')}",
        f"## Why it was rejected\n\n`{rejected.reason.value}`, nothing was built or run:\n{fenced(rejected.message, 'data')}\n\n"
        "Mend that and send the whole answer again, header and edit. The edit is to the parent above, which is unchanged. "
        "There is no third turn.",
    ]
    return replace(prompt, text="\n\n".join(sections) + QUESTION_HEADING + question, model=answer.model)


def _quoted(text: str) -> str:
    if len(text) <= MAX_QUOTED_CHARS:
        return text
    half = MAX_QUOTED_CHARS // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters are left out here]\n{text[-half:]}"
