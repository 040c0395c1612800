"""What the arm with tools shows beside the facts: the machine code of the parent's innermost loops."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from evaluator.cache import BuildCache, default_folder
from evaluator.cpu.build import build_candidate
from evaluator.cpu.listing import listing_of
from evaluator.cuda.nvrtc import compile_cuda
from evaluator.cuda.offline import DEVICE_FACTS
from evaluator.cuda.sass import find_disassembler, listing
from evaluator.loops import loop_text, read_nvdisasm
from evaluator.outcome import Device, Fault, Outcome
from evaluator.plan.resolved import Resolved
from evaluator.screen import screen
from evaluator.task import Task
from evaluator.task_card import TaskCard
from population.candidate import Candidate, Language


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCode:
    """From a right kernel and its outcome to the text of its innermost loops, as built for the scenarios that most share.

    Empty where it can't be had here: no compiler or disassembler, another compiler that refuses the source. Nothing is run.
    """

    task: Task
    card: TaskCard
    known: dict[str, str] = field(default_factory=dict)

    def __call__(self, candidate: Candidate, outcome: Outcome) -> str:
        """The text, worked out once for each kernel."""
        if candidate.id not in self.known:
            self.known[candidate.id] = self._text(candidate, outcome.device)
        return self.known[candidate.id]

    def _text(self, candidate: Candidate, device: Device) -> str:
        screened = screen(
            candidate.source,
            candidate.language,
            self.card,
            _facts_of(candidate.language, device),
            lambda scenario: self.task.scalars(scenario.symbols),
        )
        if isinstance(screened, Fault):
            return ""
        counts = Counter(_defines(resolved) for resolved in screened.resolved)
        resolved = max(screened.resolved, key=lambda resolved: counts[_defines(resolved)])
        return _listed(candidate, resolved, device)


def _listed(candidate: Candidate, resolved: Resolved, device: Device) -> str:
    try:
        cache = BuildCache(default_folder())
        if candidate.language is Language.CPP:
            built = build_candidate(candidate.source, resolved, cache)
            return "" if isinstance(built, Fault) else listing_of(built.path)
        tool = find_disassembler()
        compiled = compile_cuda(candidate.source, resolved, device.arch, cache)
        if tool is None or isinstance(compiled, Fault):
            return ""
        return loop_text(read_nvdisasm(listing(compiled.path.read_bytes(), tool) or ""))
    except OSError:  # no g++, no folder for builds: the arm has one tool less, and the search goes on
        return ""


def _facts_of(language: Language, device: Device) -> Mapping[str, int]:
    """What a plan may ask of the device."""
    if language is Language.CPP:
        return {"sm_count": device.cores, "shared_limit": 0}
    known = DEVICE_FACTS.get(device.arch, {"shared_limit": 0})
    return {**known, "sm_count": device.cores}


def _defines(resolved: Resolved) -> tuple[tuple[str, object], ...]:
    return tuple(sorted(resolved.defines.items()))
