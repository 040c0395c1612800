"""The kernels that candidates race against, best first. Also loaded by itself, in a process of its own."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from evaluator.baseline import Baseline, Bound


def _version() -> str:
    import torch

    return f"torch {torch.__version__} rms_norm"


def _bind(symbols: Mapping[str, Any], inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Bound:
    """``call`` is timed, ``store`` isn't. On "cpu" inputs and outputs are numpy arrays that are overwritten between calls."""
    import torch

    x, weight, y = (torch.from_numpy(array) for array in (inputs["x"], inputs["weight"], outputs["y"]))
    latest: list[torch.Tensor] = []

    def call() -> None:
        latest[:] = [torch.nn.functional.rms_norm(x, (symbols["width"],), weight, 1e-6)]

    def store() -> None:
        y.copy_(latest[0])

    return Bound(call=call, store=store)


BASELINES = (
    Baseline(
        name="torch_cpu",
        backend="cpu",
        available=lambda: None if find_spec("torch") else "torch isn't installed",
        version=_version,
        supports=lambda symbols: True,
        bind=_bind,
    ),
)
