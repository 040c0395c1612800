"""Unusual but right kernels are never called wrong."""

import pytest

from evaluator.outcome import Effort
from tests.cheats.attention_session import RIGHT, SHAPES, Watched, honest_sources

KERNELS = honest_sources()


def claimed(name: str) -> set[str]:
    return {"full"} if name == "narrow_domain" else set(SHAPES)


@pytest.mark.parametrize("name", KERNELS)
def test_a_right_kernel_is_called_right(watched: Watched, name: str) -> None:
    outcome = watched.evaluate(KERNELS[name])
    assert outcome.verdict in RIGHT, outcome.message
    assert set(outcome.supported) == claimed(name)
    assert {check.scenario for check in outcome.checks} == claimed(name)
    assert all(check.passed for check in outcome.checks)


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_a_right_kernel_passes_a_final(watched: Watched, name: str) -> None:
    outcome = watched.evaluate(KERNELS[name], Effort.FINAL)
    assert outcome.verdict in RIGHT, outcome.message
