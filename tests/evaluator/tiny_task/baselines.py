"""Baselines that only the fake backend of the tests can run."""

from evaluator.baseline import Baseline


def _baseline(name, missing, leaves_out):
    return Baseline(
        name=name,
        backend="cpu",
        available=lambda: missing,
        version=lambda: f"{name} 1.0",
        supports=lambda symbols: True,
        bind=lambda symbols, inputs, outputs: None,
        leaves_out=leaves_out,
    )


BASELINES = (
    _baseline("peer", None, ("total",)),
    _baseline("other", None, ()),
    _baseline("absent", "it isn't installed", ()),
)
