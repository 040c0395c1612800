"""Builds the chat answerer that a configuration names, and what it has spent in a run so far."""

import time
from collections.abc import Callable, Iterable, Mapping

from evolve.budget import gpu_s_of
from evolve.config import BudgetTable
from evolve.config_chat import ChatModelTable, ChatTable
from evolve.state import State
from mutators.answerers.budget import Amounts, Caps, Ledger
from mutators.answerers.chat import ChatAnswerer, ChatSettings
from mutators.answerers.completion import Model
from mutators.answerers.usage import Price
from mutators.question import Answer
from results.events import Event, FinalMeasured, StepEvaluated
from results.mailbox import Mailbox


class KeyMissing(Exception):  # noqa: N818  (says what is the matter)
    """A model's key isn't in the environment; the text names the variable."""


def chat_answerer(table: ChatTable, ledger: Ledger, environment: Mapping[str, str], note: Callable[[str], None]) -> ChatAnswerer:
    """The answerer. Keys are read from ``environment`` here and kept in memory alone. Raises KeyMissing."""
    settings = ChatSettings(
        models=tuple(_model(model, environment) for model in table.models),
        max_answer_tokens=table.max_answer_tokens,
        concurrency=table.at_once,
        tries=table.tries,
        stall_s=table.stall_s,
        deadline_s=table.time_limit_s,
    )
    return ChatAnswerer(settings, ledger, clock=time.monotonic, note=note)


def ledger_of(budget: BudgetTable, state: State, mailbox: Mailbox) -> Ledger:
    """The ledger of a driver: it goes on from what the run has spent, answers in its mailbox included."""
    caps = Caps(tokens=budget.tokens, usd=budget.usd, gpu_s=_seconds(budget.gpu_hours), wall_s=_seconds(budget.hours))
    ledger, spent = Ledger(caps, time.monotonic), state.spent
    kept = spent_on((mailbox.answer(number) for number in state.open), spent.wall_s, spent.gpu_s)
    ledger.restore(kept.plus(Amounts(tokens=spent.tokens, usd=spent.usd)))
    return ledger


def charging(ledger: Ledger) -> Callable[[Event], None]:
    """An observer that charges the time for which evaluations and finals held a GPU."""

    def observe(event: Event) -> None:
        if isinstance(event, StepEvaluated | FinalMeasured):
            ledger.charge(Amounts(gpu_s=gpu_s_of(event.outcome)))

    return observe


def spent_on(answers: Iterable[Answer | None], wall_s: float = 0.0, gpu_s: float = 0.0) -> Amounts:
    """What stored answers cost together, beside the time that a run took: what a ledger goes on from."""
    usages = [answer.usage for answer in answers if answer is not None]
    return Amounts(
        tokens=sum(usage.prompt_tokens + usage.answer_tokens for usage in usages),
        usd=sum(usage.cost_usd for usage in usages),
        gpu_s=gpu_s,
        wall_s=wall_s,
    )


def _seconds(hours: float | None) -> float | None:
    return None if hours is None else hours * 3600


def _model(table: ChatModelTable, environment: Mapping[str, str]) -> Model:
    key = None
    if table.key_env is not None:
        key = environment.get(table.key_env, "").strip()
        if not key:
            raise KeyMissing(
                f"[[chat.models]] {table.name}: the environment variable {table.key_env} isn't set; export it and start again"
            )
    return Model(
        name=table.name,
        served_as=table.served_as or table.name,
        base_url=table.base_url,
        key=key,
        price=Price(prompt=table.usd_per_million_prompt_tokens, answer=table.usd_per_million_answer_tokens),
        parameters=table.parameters,
    )
