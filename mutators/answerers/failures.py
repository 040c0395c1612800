"""Why an answerer gives no answer. Each keeps what was paid without one in ``usage``; nothing that is stored is lost."""

# ruff: noqa: N818  (the names say what is the matter, which reads better where they are caught)

from mutators.answerers.budget import Resource
from mutators.question import Usage


class Unanswered(Exception):
    """No answer; the text says what is the matter and what to do next."""

    def __init__(self, message: str, usage: Usage | None = None) -> None:
        super().__init__(message)
        self.usage = usage or Usage()


class AnswererPaused(Unanswered):
    """The models can't be reached for now. The run pauses, its budget of candidates untouched, and can be resumed."""


class AnswererRefused(Unanswered):
    """A server refuses for a reason that waiting doesn't mend: a wrong key, an unknown model, a prompt that is too long."""


class BudgetSpent(Unanswered):
    """What is left of a budget doesn't pay for another call. ``resource`` names it."""

    def __init__(self, message: str, resource: Resource, usage: Usage | None = None) -> None:
        super().__init__(message, usage)
        self.resource = resource
