"""torch on the GPU, by two plain calls."""

from evaluator.baseline import Baseline, Bound


def _missing():
    try:
        import torch
    except ImportError:
        return "torch isn't installed"
    return None if torch.cuda.is_available() else "torch sees no CUDA device"


def _version():
    import torch

    return f"torch {torch.__version__}, CUDA {torch.version.cuda}"


def _bind(symbols, inputs, outputs):
    import torch

    x, w = (torch.from_dlpack(inputs[name]) for name in ("x", "w"))
    y, total = (torch.from_dlpack(outputs[name]) for name in ("y", "total"))
    latest = []

    def call():
        products = x.float() * w
        latest[:] = [products.to(x.dtype), products.sum(dim=1)]

    def store():
        y.copy_(latest[0])
        total.copy_(latest[1])

    return Bound(call=call, store=store)


BASELINES = (
    Baseline(name="torch", backend="cuda", available=_missing, version=_version, supports=lambda symbols: True, bind=_bind),
)
