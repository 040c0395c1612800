"""FlashAttention-3 as one opponent: in each scenario the fastest of the variants that are there, measured once a process."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from evaluator.baseline import Baseline, Bound, Symbols
from evaluator.statistics import median

FLUSH_BYTES = 256 << 20
REPLAYS = 3
WARM_CALLS = 2

Measure = Callable[[Mapping[str, Bound]], str]
"""The name of the fastest of several bound baselines."""


def best_of(name: str, variants: Sequence[Baseline], measure: Measure) -> Baseline:
    """A baseline that is, scenario by scenario, the fastest of ``variants`` by ``measure``.

    It computes what any available variant computes. ``bind`` measures where several can, the first time in this process that it
    meets the symbols, on values of its own; the variant stands in ``Bound.chosen``.
    """

    @functools.cache
    def there() -> tuple[Baseline, ...]:
        return tuple(variant for variant in variants if variant.available() is None)

    def able(symbols: Symbols) -> dict[str, Baseline]:
        return {variant.name: variant for variant in there() if variant.supports(symbols)}

    def available() -> str | None:
        reasons = (f"{variant.name}: {variant.available()}" for variant in variants)
        return None if there() else "; ".join(reasons)

    choices: dict[tuple[tuple[str, Any], ...], str] = {}

    def bind(symbols: Symbols, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Bound:
        candidates = able(symbols)
        if not candidates:
            raise ValueError(f"no variant of {name} that is available computes {dict(symbols)}")
        key = tuple(sorted(symbols.items()))
        if key not in choices and len(candidates) > 1:
            own = normal_inputs(symbols, inputs)
            choices[key] = measure({each: variant.bind(symbols, own, outputs) for each, variant in candidates.items()})
        chosen = choices.setdefault(key, next(iter(candidates)))
        return replace(candidates[chosen].bind(symbols, inputs, outputs), chosen=chosen)

    return Baseline(
        name=name,
        backend=variants[0].backend,
        available=available,
        version=lambda: "fastest of " + "; ".join(f"{variant.name} ({variant.version()})" for variant in there()),
        supports=lambda symbols: bool(able(symbols)),
        bind=bind,
        best_of=tuple(variant.name for variant in variants),
    )


def normal_inputs(symbols: Symbols, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Tensors of the inputs' shapes on their device with normal values, since the buffers themselves may not be filled yet."""
    import torch

    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[str(symbols["dtype"])]
    twins = {}
    for name, array in inputs.items():
        tensor = torch.from_dlpack(array)
        twins[name] = torch.randn(tensor.shape, dtype=dtype, device=tensor.device)
    return twins


def fastest(bound: Mapping[str, Bound]) -> str:
    """The name with the least median time of a few CUDA graph replays, taken in turns, with the L2 cache flushed before each."""
    import torch

    graphs = {name: _captured(one.call) for name, one in bound.items()}
    flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    times_ms: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(REPLAYS):
        for name, graph in graphs.items():
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            flush.zero_()  # also keeps the device busy until the graph is queued, so that only its work lies between the events
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            times_ms[name].append(start.elapsed_time(end))
    return min(times_ms, key=lambda name: median(times_ms[name]))


def _captured(call: Callable[[], object]) -> Any:
    """The call as a CUDA graph, after a few ordinary calls, in which libraries set themselves up.

    ``torch.cuda.graph`` isn't used because it empties torch's cache before each capture.
    """
    import torch

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        for _ in range(WARM_CALLS):
            call()
        stream.synchronize()
        graph.capture_begin(capture_error_mode="relaxed")
        try:
            call()
        finally:
            graph.capture_end()
    return graph
