"""Small whole values for the mutators' tests."""

from collections.abc import Mapping
from typing import Any

from evaluator.outcome import Check, Device, Effort, Fault, Fitness, Outcome, Stage, Timing, Verdict
from evaluator.task_card import Scenario, TaskCard, TensorSpec
from mutators.attempts import Attempt, Change
from mutators.question import Claim, Header, Layer, Moment, Question
from population.candidate import Candidate, Knob, Language, hash_text

SOURCE = """/* plan
domain = "dtype == 'fp32'"

[knobs]
BLOCK_M = { value = 32, choices = [8, 16, 32, 64] }   # rows of a task
BLOCK_N = { value = 64, choices = [32, 64, 128] }
UNROLL  = { value = 4, choices = [1, 2, 4, 8] }

[[launch]]
kernel = "attention_forward"
grid = ["ceil_div(sq, BLOCK_M)", "h", "b"]
args = ["q", "k", "v", "out", "lse", "scale"]
*/
extern "C" void attention_forward(long task, void* const* args) {
    float sum = 0.0f;
    for (long j = 0; j < 64; ++j) {
        sum += 1.0f;
    }
    float other = 0.0f;
    for (long j = 0; j < 64; ++j) {
        other += 1.0f;
    }
}
"""

KNOBS = (
    Knob(name="BLOCK_M", value=32, choices=(8, 16, 32, 64)),
    Knob(name="BLOCK_N", value=64, choices=(32, 64, 128)),
    Knob(name="UNROLL", value=4, choices=(1, 2, 4, 8)),
)


def candidate(source: str = SOURCE) -> Candidate:
    return Candidate(id=hash_text(source), normal_id=hash_text(source), language=Language.CPP, source=source)


def scenario(name: str, **symbols: int | str) -> Scenario:
    plain: dict[str, int | str] = {"b": 2, "sq": 128, "sk": 128, "h": 4, "hkv": 2, "d": 64, "causal": 0, "window": 0}
    return Scenario(name=name, symbols=plain | {"dtype": "fp32"} | symbols)


def card() -> TaskCard:
    return TaskCard(
        name="attention_forward",
        summary="attention, forward pass",
        contract="out = softmax(scale q k^T + mask) v",
        symbols=("b", "sq", "sk", "h", "hkv", "d", "causal", "window", "dtype"),
        tensors=(
            TensorSpec(name="q", role="input", dtype="dtype", shape=("b", "sq", "h", "d"), axes=("b", "sq", "h", "d")),
            TensorSpec(name="out", role="output", dtype="dtype", shape=("b", "sq", "h", "d"), axes=("b", "sq", "h", "d")),
            TensorSpec(name="lse", role="output", dtype="float32", shape=("b", "h", "sq"), axes=("b", "h", "sq")),
        ),
        scalars={"scale": "d ** -0.5"},
        scenario_set="cpu_small",
        scenarios=(
            scenario("d64_s128"),
            scenario("d64_s128_causal", causal=1),
            scenario("d64_s1024", sq=1024, sk=1024),
            scenario("d128_s128", d=128),
        ),
        regions=("short", "long"),
        baselines=("torch_cpu",),
        hash="0" * 64,
    )


DEVICE = Device(kind="cpu", name="test machine", arch="avx2", cores=2, peak_tflops=0.1, peak_gbs=20.0)

TIMES = {"d64_s128": 200.0, "d64_s128_causal": 150.0, "d64_s1024": 9000.0, "d128_s128": 300.0}
FLOORS = {"d64_s128": 80.0, "d64_s128_causal": 40.0, "d64_s1024": 5120.0, "d128_s128": 160.0}


def timing(name: str, ratio: float) -> Timing:
    time_us = TIMES[name] / ratio
    return Timing(
        scenario=name,
        opponent="torch_cpu",
        ratio=ratio,
        low=ratio * 0.99,
        high=ratio * 1.01,
        candidate_us=time_us,
        opponent_us=time_us * ratio,
        blocks=16,
        floor_us=FLOORS[name],
        bound="flop",
    )


def outcome(ratios: Mapping[str, float] | None = None, **changes: Any) -> Outcome:
    ratios = dict.fromkeys(TIMES, 1.0) if ratios is None else ratios
    product = 1.0
    for ratio in ratios.values():
        product *= ratio
    geomean = product ** (1 / max(1, len(ratios)))
    fitness = Fitness(
        opponent="torch_cpu",
        geomean=geomean,
        low=geomean * 0.99,
        high=geomean * 1.01,
        scenarios=len(ratios),
        worst_scenario=min(ratios, key=lambda name: ratios[name]),
        worst_ratio=min(ratios.values()),
    )
    plain: dict[str, Any] = {
        "candidate_id": "c" * 64,
        "effort": Effort.SEARCH,
        "verdict": Verdict.OK,
        "stage": Stage.SCORE,
        "message": "right everywhere",
        "device": DEVICE,
        "task_hash": "0" * 64,
        "harness": "1",
        "wall_s": 2.0,
        "timings": tuple(timing(name, ratio) for name, ratio in ratios.items()),
        "fitness": fitness,
        "facts": {"code_bytes": 4096},
        "noise_floor_pct": 0.5,
    }
    return Outcome(**(plain | changes))


def wrong_outcome() -> Outcome:
    check = Check(
        scenario="d64_s1024",
        distribution="one outlier key",
        tensor="out",
        passed=False,
        max_error=0.5,
        max_allowed=0.001,
        rms_error=0.1,
        rms_allowed=0.001,
        message="out on outlier inputs: first wrong at b=1, sq=7, h=3, d=5: got 0.5, expected 1 (error allowed there 0.001);"
        " 128 of 512 elements are wrong, within b 0..1, sq 0..127, h 3..3, d 0..63. Look at the mask.",
    )
    fault = Fault(
        verdict=Verdict.WRONG,
        stage=Stage.CHECK,
        message="out is wrong in `d64_s1024`.\nLook there.",
        detail="a log",
        scenario="d64_s1024",
    )
    return Outcome(
        candidate_id="c" * 64,
        effort=Effort.SEARCH,
        verdict=Verdict.WRONG,
        stage=Stage.CHECK,
        message="wrong",
        device=DEVICE,
        task_hash="0" * 64,
        harness="1",
        wall_s=1.0,
        fault=fault,
        checks=(check,),
    )


def question(
    entry_id: str = "free-loads",
    layer: Layer = Layer.MEMORY,
    moment: Moment = Moment.ROUTINE,
    text: str = "Where does the time go?",
) -> Question:
    return Question(id=hash_text(entry_id + text), entry_id=entry_id, layer=layer, moment=moment, text=text, settle="time")


def change(ratio: float = 1.0, **changes: Any) -> Change:
    plain: dict[str, Any] = {
        "ratio": ratio,
        "low": ratio * 0.99,
        "best_scenario": "d64_s128",
        "best_ratio": ratio * 1.01,
        "worst_scenario": "d128_s128",
        "worst_ratio": ratio * 0.99,
        "rest_ratio": ratio,
        "scenarios": 4,
    }
    return Change(**(plain | changes))


def attempt(number: int, *, parent: str | None = "p", child: str | None = None, verdict: str = "OK", **changes: Any) -> Attempt:
    plain: dict[str, Any] = {
        "number": number,
        "island": 0,
        "parent_id": parent,
        "candidate_id": child or f"child{number}",
        "verdict": verdict,
        "accepted": False,
        "question": question(),
    }
    return Attempt(**(plain | changes))


def header(claim: Claim = Claim.NONE, **prediction: float) -> Header:
    return Header(hypothesis="the loads cost the time", prediction=prediction, claim=claim)
