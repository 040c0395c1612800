"""An answerer that asks language models on OpenAI-compatible servers (docs/models.md)."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mutators.answerers.base import Prompt
from mutators.answerers.breaker import Breaker
from mutators.answerers.budget import Amounts, Ledger, Refusal, Reservation, Resource
from mutators.answerers.completion import Completion, Model, Reply
from mutators.answerers.failures import AnswererPaused, AnswererRefused, BudgetSpent
from mutators.answerers.models import choose_model
from mutators.answerers.retry import ANSWERED, LONGEST_WAIT_S, Trouble, wait_s
from mutators.answerers.usage import Cost, true_cost, worst_cost
from mutators.question import Answer

if TYPE_CHECKING:
    from openai import OpenAI

SILENCES = 2
"""So many empty or withheld answers to one question are kept as an empty answer."""

STOPPED = "the run stopped while it waited for a model; resume it to ask again"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatSettings:
    """Which models, and how patiently they are asked.

    ``concurrency``: calls at once. ``tries``: calls for one question to one model before that is left out; ``failures``: failed
    calls in a row, over all questions, before it is. ``stall_s``: seconds without a byte; ``deadline_s``: seconds for one call.
    """

    models: tuple[Model, ...]
    max_answer_tokens: int = 32_768
    concurrency: int = 4
    tries: int = 5
    failures: int = 8
    stall_s: float = 300.0
    deadline_s: float = 1800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Server:
    """A model with what is known of it in this process."""

    model: Model
    completion: Completion
    breaker: Breaker


class ChatAnswerer:
    """Asks one of several models, chosen by what their answers gave. Blocks until it has the answer; safe in many threads."""

    name = "chat"

    def __init__(
        self,
        settings: ChatSettings,
        ledger: Ledger,
        *,
        clock: Callable[[], float],
        note: Callable[[str], None],
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        """``clock``: monotonic seconds. ``note`` hears what a person should know, from any thread. ``sleep`` waits for so many
        seconds or until ``close``; the default does.
        """
        self._settings = settings
        self._ledger = ledger
        self._clock = clock
        self._note = note
        self._closing = threading.Event()
        self._sleep = sleep or self._closing.wait
        self._slots = threading.BoundedSemaphore(settings.concurrency)
        self._clients: dict[tuple[str, str | None], OpenAI] = {}
        self._servers = {model.name: self._server(model) for model in settings.models}

    def answer(self, prompt: Prompt, rng: np.random.Generator) -> Answer:
        """The answer of the model that the records of ``prompt.models`` and ``rng`` choose, or of ``prompt.model``.

        Where the budget ends after calls that were paid for and gave nothing, an empty answer carries what they cost.
        Raises AnswererPaused where no server can be reached, AnswererRefused for a fault that waiting doesn't mend, BudgetSpent.
        """
        with self._slots:
            try:
                return self._answer(prompt, rng)
            except BudgetSpent as spent:
                if not spent.usage.prompt_tokens:
                    raise
                return Answer(text="", answerer=self.name, usage=spent.usage)

    def close(self) -> None:
        """Begin no further call, and end every wait for one; calls under way are finished, since they are paid for."""
        self._closing.set()

    def _answer(self, prompt: Prompt, rng: np.random.Generator) -> Answer:
        began, cost = self._clock(), Cost()
        while names := [name for name, server in self._servers.items() if not server.breaker.why]:
            name = prompt.model if prompt.model in names else choose_model(prompt.models, names, rng)
            server = self._servers[name]
            text, cost = self._insist(server, prompt.text, rng, cost, began)
            if text is not None:
                return Answer(text=text, answerer=self.name, model=server.model.name, usage=cost.usage(self._clock() - began))
        why = "; ".join(f"{name} at {one.model.base_url}: {one.breaker.why}" for name, one in self._servers.items())
        raise AnswererPaused(f"no model answers ({why}). Bring a server back, then resume", cost.usage(self._clock() - began))

    def _insist(self, server: _Server, text: str, rng: np.random.Generator, cost: Cost, began: float) -> tuple[str | None, Cost]:
        """The text that a model gives in the end, None once its breaker is open; and the cost so far."""
        failed = silent = 0
        while not server.breaker.why:
            reply, paid = self._call(server, text, cost, began)
            cost = cost.plus(paid)
            failure = reply.failure
            if failure is None:
                server.breaker.succeeded()
                return reply.text, cost
            if failure.trouble is Trouble.PARAMETER and failure.parameter:
                self._drop(server, failure.parameter, failure.text)
                continue
            if failure.trouble in {Trouble.REFUSED, Trouble.PARAMETER}:
                raise AnswererRefused(_refused(server.model, failure.text), cost.usage(self._clock() - began))
            if failure.trouble in ANSWERED:
                server.breaker.succeeded()
                silent += 1
                if silent == SILENCES:
                    self._note(f"{server.model.name}: {failure} {silent} times; kept as an answer without code")
                    return reply.text if failure.trouble is Trouble.FILTERED else "", cost
                continue
            failed += 1
            too_long = (failure.wait_s or 0.0) > LONGEST_WAIT_S
            what = f"{failure} (it asks to wait {failure.wait_s:.0f} s)" if too_long else str(failure)
            server.breaker.failed(what, at_once=too_long or failed >= self._settings.tries)
            if not server.breaker.why:
                self._sleep(wait_s(failure, failed, float(rng.random())))
        return None, cost

    def _call(self, server: _Server, text: str, cost: Cost, began: float) -> tuple[Reply, Cost]:
        """One call and what it cost, reserved before and settled after."""
        prompt_bytes = len(text.encode("utf-8", "surrogatepass"))
        worst = worst_cost(server.model.price, prompt_bytes, self._settings.max_answer_tokens)
        reservation = self._reserve(worst, cost, began)
        paid = worst  # what is counted if something unforeseen is raised
        try:
            deadline_s = reservation.amounts.wall_s
            reply = server.completion.ask(text, stall_s=self._settings.stall_s, deadline_s=deadline_s)
            paid = Cost()
            if reply.billed:
                paid = true_cost(server.model.price, worst, reply.reported, prompt_bytes, reply.answer_bytes)
        finally:
            self._ledger.settle(reservation, paid.amounts)
        stalled = reply.failure is not None and reply.failure.trouble is Trouble.STALLED
        if stalled and deadline_s < self._settings.deadline_s and self._ledger.time_is_up:
            usage = cost.plus(paid).usage(self._clock() - began)
            raise BudgetSpent("the budget of time ran out in the middle of an answer", Resource.WALL_S, usage)
        return reply, paid

    def _reserve(self, worst: Cost, cost: Cost, began: float) -> Reservation:
        granted = self._ledger.reserve(worst.amounts.plus(Amounts(wall_s=self._settings.deadline_s)))  # may wait for other calls
        if isinstance(granted, Refusal):
            hint = "raise it to go on: askevolve resume RUN --set budget..."
            raise BudgetSpent(f"{granted}; {hint}", granted.resource, cost.usage(self._clock() - began))
        if self._closing.is_set():
            self._ledger.settle(granted, Amounts())
            raise AnswererPaused(STOPPED, cost.usage(self._clock() - began))
        return granted

    def _drop(self, server: _Server, parameter: str, text: str) -> None:
        """Leave a parameter out from now on. Raises AnswererRefused where a server takes no limit on its answers at all."""
        if parameter == "max_completion_tokens":
            raise AnswererRefused(
                f"{server.model.name} takes neither max_tokens nor max_completion_tokens, so nothing bounds its answers ({text})"
            )
        if server.completion.drop(parameter):
            self._note(f"{server.model.name} doesn't take the parameter {parameter}, which is left out from now on ({text})")

    def _server(self, model: Model) -> _Server:
        client = self._clients.get((model.base_url, model.key))
        if client is None:
            from openai import OpenAI

            client = OpenAI(base_url=model.base_url, api_key=model.key or "none", max_retries=0)
            self._clients[model.base_url, model.key] = client
        return _Server(
            model=model,
            completion=Completion(model, client, self._settings.max_answer_tokens, self._clock),
            breaker=Breaker(self._settings.failures),
        )


def _refused(model: Model, text: str) -> str:
    return (
        f"{model.name} at {model.base_url} refuses ({text}). Waiting won't mend this: check the model's name, key and address in "
        "[[chat.models]], and that prompt and answer fit its context"
    )
