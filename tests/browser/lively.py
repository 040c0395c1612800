"""A run that reads like a real one: scenarios, questions, failures and a slow climb, all from one seed of chance."""

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from evaluator.outcome import Check, Device, Effort, Fault, Fitness, Outcome, Stage, Timing, Verdict
from evaluator.task_card import Scenario, TaskCard, TensorSpec
from mutators.question import Answer, Claim, Header, Layer, Moment, Question, Rejected, Rejection, Usage
from population.candidate import Candidate, Language, Origin, Step, hash_text
from results.events import Event, FinalMeasured, RunNoted, RunStarted, StepAsked, StepEvaluated, StepFolded, TimeSpent
from results.store import Store

SHAPES = [(batch, length, causal) for batch, length in ((1, 16384), (4, 4096), (16, 1024), (32, 512)) for causal in (0, 1)]
SCENARIOS = tuple(
    Scenario(
        name=f"{'causal' if causal else 'full'}_b{batch}_s{length}",
        region="long" if length >= 4096 else "short",
        symbols={"batch": batch, "sq": length, "causal": causal, "dtype": "bf16"},
    )
    for batch, length, causal in SHAPES
)
CARD = TaskCard(
    name="attention_forward",
    summary="Attention forward for training and inference",
    contract="out = softmax(q k^T) v",
    symbols=("batch", "sq", "causal", "dtype"),
    tensors=(TensorSpec(name="q", role="input", dtype="dtype", shape=("batch", "sq"), axes=()),),
    scalars={},
    scenario_set="standard",
    scenarios=SCENARIOS,
    regions=("all", "long", "short"),
    baselines=("fa3", "cudnn"),
    hash="c0ffee",
)
DEVICE = Device(
    kind="cuda", name="NVIDIA H200", arch="sm_90a", cores=132, peak_tflops=989.0, peak_gbs=4800.0, versions={"cuda": "13.0"}
)

QUESTIONS = (
    (
        "wait_or_work",
        Layer.SCHEDULE,
        "Between the two waits of the main loop, which one costs more: the one for the next K tile, or the "
        "one for the softmax of the tile before? What would have to be true for neither to be there?",
    ),
    (
        "bytes_twice",
        Layer.MEMORY,
        "Which bytes does this kernel read from device memory more than once, and what would it take for the "
        "second reader to find them in L2?",
    ),
    (
        "rescale",
        Layer.NUMERICS,
        "How often does the running maximum really grow by enough to matter? What happens to the error if the"
        " accumulator is rescaled only then?",
    ),
    (
        "tail_wave",
        Layer.LAUNCH,
        "132 multiprocessors share {tiles} tiles. How long is the device partly idle at the end, and which "
        "order of tiles makes that shortest?",
    ),
    (
        "exp_throughput",
        Layer.INSTRUCTION,
        "The exponential unit gives 16 results a clock. At this tile shape, does it bound the loop? If so, "
        "which part of the exponential could the multiply-add units do?",
    ),
    (
        "registers",
        Layer.INSTRUCTION,
        "The compiler reports {registers} registers and no spill. What would you do with 24 more, and who could give them up?",
    ),
    (
        "tile_shape",
        Layer.ALGORITHM,
        "If the tile were 128 x 176 instead of 128 x 128, what would become smaller, and by how much?",
    ),
    ("barriers", Layer.SCHEDULE, "Name one barrier that protects nothing. How would you prove it?"),
)
HYPOTHESES = (
    "The softmax of tile i hides behind the product of tile i + 1 when two groups of warps alternate.",
    "Both heads of a pair read the same keys, so that neighbours in the order of tiles should share them.",
    "Rescaling only when the maximum grows by 8 leaves the error where it was and drops a third of the multiplications.",
    "A persistent launch with the longest tiles first fills the last wave.",
)
FAULTS = (
    (Verdict.COMPILE_ERROR, Stage.BUILD, 'error: identifier "{name}" is undefined in line {n}. Declare it before its first use.'),
    (
        Verdict.WRONG,
        Stage.CHECK,
        "out is wrong in causal_b4_s4096: largest error 3.1e-2 at row {n}, 2.0e-3 allowed. The mask is one tile short.",
    ),
    (
        Verdict.TIMEOUT,
        Stage.CHECK,
        "The kernel ran for more than 10 s in full_b1_s16384: it waits on a barrier that nobody arrives at.",
    ),
    (Verdict.GATE_VIOLATION, Stage.GATE, "clock64() in line {n}: a kernel may not read a clock. Remove it."),
    (Verdict.OUT_OF_BOUNDS, Stage.CHECK, "A write {n} bytes behind the end of out."),
    (Verdict.TOO_FAST, Stage.CHECK, "full_b32_s512 took less than the device's bound: work was left out."),
    (Verdict.NONFINITE, Stage.CHECK, "out holds NaN in row {n} of causal_b1_s16384."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kin:
    """A right candidate that may become a parent."""

    source: str
    log: float
    depth: int


def source_of(number: int, parent: str) -> str:
    """A kernel's text: the parent's with a few lines changed."""
    if not parent:
        loop = "\n".join(f"    mma<{k}>(acc, q_tile, k_tile[{k} % STAGES]);  // part {k}" for k in range(12))
        return (
            f'/* @plan block = 128, stages = 2 */\n#include "tile.cuh"\n\n// seed {number}\n'
            "__global__ void __launch_bounds__(384, 1) attention(const __nv_bfloat16* __restrict__ q, float scale) {\n"
            "    extern __shared__ char smem[];\n    float m = -INFINITY, l = 0.0f;\n"
            '    asm volatile("bar.sync 1, 128;" ::: "memory");\n'
            f"    for (int tile = 0; tile < n_tiles; ++tile) {{\n{loop}\n        m = fmaxf(m, row_max(acc));\n"
            "        l = l * exp2f(m_old - m) + row_sum(acc);\n    }\n    store(out, acc, 1.0f / l);\n}\n"
        )
    lines = parent.split("\n")
    at = 9 + number % 11
    return "\n".join(
        [*lines[:at], f"    fence_view<{number}>();  // step {number}", lines[at].replace("acc", "acc_s"), *lines[at + 1 :]]
    )


def lively(folder: Path, *, steps: int = 120, chance: int = 7, final: bool = True, hours: float = 4.0) -> None:
    """Make the run in ``folder``; ``chance`` is the seed of everything in it that varies."""
    ticks = itertools.count()
    begun = 1_760_000_000.0
    with Store.create(
        folder,
        RunStarted(name=folder.name, config={"seed": chance}, config_hash="beef", card=CARD, version="0.1.0"),
        clock=lambda: begun + next(ticks) * hours * 3600 / (steps * 3),
    ) as store:
        for events in story(steps, random.Random(chance), final=final):
            store.append(*events)
        store.append(TimeSpent(wall_s=hours * 3600), RunNoted(text="The device's clock was locked at 1830 MHz for all races."))


def story(steps: int, rng: random.Random, *, final: bool) -> Iterator[list[Event]]:
    """The events of each step."""
    kin = [Kin(source=source_of(n, ""), log=math.log(0.7 + 0.1 * n), depth=0) for n in range(2)]
    best = kin[0]
    for number in range(steps):
        if number < 2:
            one = kin[number]
            best = max(kin[: number + 1], key=lambda each: each.log)
            yield [asked(number, one.source, None, rng), evaluated(number, one, rng), folded(number, best, status="best")]
            continue
        parent = max(rng.sample(kin, min(len(kin), 3)), key=lambda each: each.log) if rng.random() < 0.75 else rng.choice(kin)
        text = source_of(number, parent.source)
        luck = rng.random()
        if luck < 0.07:
            yield [asked(number, None, parent.source, rng), folded(number, best)]
        elif luck < 0.42:
            yield [asked(number, text, parent.source, rng), failed(number, text, rng), folded(number, best)]
        else:
            room = math.log(1.34) - parent.log
            one = Kin(
                source=text,
                log=parent.log + rng.gauss(-0.01 + 0.03 * max(room, 0), 0.035 + 0.05 * max(room, 0)),
                depth=parent.depth + 1,
            )
            gained = one.log > parent.log + 0.004
            if gained:
                kin.append(one)
                best = max(best, one, key=lambda each: each.log)
            status = "best" if best is one else "improved" if gained else "not_added"
            yield [
                asked(number, text, parent.source, rng),
                evaluated(number, one, rng),
                folded(number, best, accepted=gained, status=status),
            ]
    if final:
        yield [FinalMeasured(outcome=measured(best, rng, effort=Effort.FINAL))]


def asked(number: int, text: str | None, parent: str | None, rng: random.Random) -> StepAsked:
    """The step with its question and the answer's promise; a rejected answer where there is no text."""
    entry, layer, words = rng.choice(QUESTIONS)
    facts = {"tiles": rng.randrange(100, 900), "registers": rng.randrange(120, 168)}
    seed = parent is None
    return StepAsked(
        step=Step(
            number=number,
            origin=Origin.SEED if seed else Origin.QUESTION,
            island=number % 3,
            parent_id=None if parent is None else hash_text(parent),
            candidate_id=None if text is None else hash_text(text),
        ),
        question=None
        if seed
        else Question(
            id=hash_text(entry + str(number)),
            entry_id=entry,
            layer=layer,
            moment=rng.choice(list(Moment)),
            text=words.format(**facts),
            settle="race it against its parent",
            facts=facts,
        ),
        answer=None
        if seed
        else Answer(
            text="+++\nhypothesis\n+++\ncode",
            answerer="server",
            model="a model",
            usage=Usage(prompt_tokens=9000, answer_tokens=2500, cost_usd=rng.uniform(0.02, 0.09), wall_s=rng.uniform(20, 90)),
        ),
        header=None
        if seed
        else Header(hypothesis=rng.choice(HYPOTHESES), prediction={"all": rng.uniform(1.0, 1.15)}, claim=Claim.NONE),
        rejected=None
        if text is not None
        else Rejected(reason=Rejection.NO_CODE, message="The answer holds no code. Write the whole file between fences."),
        candidate=None
        if text is None
        else Candidate(id=hash_text(text), normal_id=hash_text("n" + text), language=Language.CUDA, source=text),
    )


def measured(one: Kin, rng: random.Random, *, effort: Effort = Effort.SEARCH) -> Outcome:
    """An outcome with a race in every scenario against both baselines, and the checks before it."""
    races = []
    for opponent, edge in (("fa3", 0.0), ("cudnn", 0.06)):
        for at, scenario in enumerate(SCENARIOS):
            log = one.log + edge + 0.12 * math.sin(at * 1.7 + one.depth * 0.4) + rng.gauss(0, 0.01)
            bound_us = 20.0 + 90.0 * (at % 4)
            took_us = bound_us / (0.62 * math.exp(log) / 1.34)
            races.append(
                Timing(
                    scenario=scenario.name,
                    opponent=opponent,
                    ratio=math.exp(log),
                    low=math.exp(log - 0.012),
                    high=math.exp(log + 0.012),
                    candidate_us=took_us,
                    opponent_us=took_us * math.exp(log),
                    blocks=12,
                    floor_us=bound_us,
                    bound="flop" if at % 3 else "bytes",
                )
            )
    checks = tuple(
        Check(
            scenario=scenario.name,
            distribution="normal",
            tensor="out",
            passed=True,
            max_error=1.1e-3,
            max_allowed=2e-3,
            rms_error=8e-5,
            rms_allowed=2e-4,
        )
        for scenario in SCENARIOS
    )
    fits = tuple(
        Fitness(
            opponent=opponent,
            geomean=math.exp(one.log + edge),
            low=math.exp(one.log + edge - 0.006),
            high=math.exp(one.log + edge + 0.006),
            scenarios=len(SCENARIOS),
            worst_scenario=SCENARIOS[3].name,
            worst_ratio=math.exp(one.log + edge - 0.11),
        )
        for opponent, edge in (("fa3", 0.0), ("cudnn", 0.06))
    )
    return Outcome(
        candidate_id=hash_text(one.source),
        effort=effort,
        verdict=Verdict.OK,
        stage=Stage.SCORE,
        message="right in every scenario",
        device=DEVICE,
        task_hash="c0ffee",
        harness="1",
        wall_s=rng.uniform(6, 14),
        supported=tuple(s.name for s in SCENARIOS),
        checks=checks,
        timings=tuple(races),
        fitness=fits[0],
        versus=fits[1:],
        noise_floor_pct=0.31,
        facts={"registers": 168, "spill_bytes": 0, "shared_bytes": 196608, "occupancy_pct": 18.75},
    )


def evaluated(number: int, one: Kin, rng: random.Random) -> StepEvaluated:
    """The step's candidate was right and timed."""
    return StepEvaluated(step_number=number, outcome=measured(one, rng))


def failed(number: int, text: str, rng: random.Random) -> StepEvaluated:
    """The step's candidate failed in one of the usual ways."""
    verdict, stage, words = rng.choice(FAULTS)
    message = words.format(n=rng.randrange(20, 400), name=rng.choice(("k_tile", "bar_full", "tma_desc")))
    return StepEvaluated(
        step_number=number,
        outcome=Outcome(
            candidate_id=hash_text(text),
            effort=Effort.SEARCH,
            verdict=verdict,
            stage=stage,
            message=message,
            device=DEVICE,
            task_hash="c0ffee",
            harness="1",
            wall_s=rng.uniform(1, 5),
            fault=Fault(verdict=verdict, stage=stage, message=message, detail=message),
        ),
    )


def folded(number: int, best: Kin, *, accepted: bool = False, status: str = "not_added") -> StepFolded:
    """The search took the step in."""
    return StepFolded(step_number=number, status=status, accepted=accepted, best_id=hash_text(best.source))
