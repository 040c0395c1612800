"""The second turn: an answer that was rejected may be sent back once, to whoever gave it, with the reason."""

from dataclasses import dataclass, replace

from mutators.answerers.base import Prompt
from mutators.prompt import QUESTION_HEADING, fenced
from mutators.question import Answer, Rejected, Rejection

MAX_QUOTED_CHARS = 8_000
"""Of a longer answer the second turn quotes the beginning and the end."""

FINAL = frozenset({Rejection.CLAIM_ONLY, Rejection.EXHAUSTED})
"""Rejections of answers that say what they mean: there is nothing to mend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstTurn:
    """An answer that was sent back, and why."""

    answer: Answer
    rejected: Rejected


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
    return replace(prompt, text="\n\n".join(sections) + QUESTION_HEADING + question)


def _quoted(text: str) -> str:
    if len(text) <= MAX_QUOTED_CHARS:
        return text
    half = MAX_QUOTED_CHARS // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters are left out here]\n{text[-half:]}"
