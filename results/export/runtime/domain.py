"""Where a kernel may be used: what its own plan declares, and within that what its finals tested."""

import math
from collections.abc import Mapping
from typing import Any

from .plans import Plans

RELATIVE = 1e-6


class Domain:
    """``domain.json``: ``exact`` symbols must have a combination that was tested, the others lie within ``ranges``.

    A size between two tested ones is inside only where finals tested hidden sizes (``between``).
    """

    def __init__(self, document: Mapping[str, Any], plans: Plans) -> None:
        self._names: list[str] = document["exact"]
        self._between: bool = document["between"]
        self._device: str = document["device_type"]
        self._ranges = document["ranges"]
        self._plan = plans.plan
        self._tested = {tuple(case["exact"][name] for name in self._names): case for case in document["cases"]}

    def outside(self, symbols: Mapping[str, int | str], scalars: Mapping[str, float], device: str) -> str:
        """Why a call isn't inside, in a few words; empty where it is."""
        if device != self._device:
            return f"the tensors are on {device}, the kernel runs on {self._device}"
        case = self._tested.get(tuple(symbols[name] for name in self._names))
        if case is None:
            given = ", ".join(f"{name} = {symbols[name]}" for name in self._names)
            return f"{given} was never tested together"
        for name, tested in self._ranges.items():
            value = symbols[name]
            inside = tested["low"] <= int(value) <= tested["high"] if self._between else value in tested["values"]
            if not inside:
                known = f"{tested['low']} to {tested['high']}" if self._between else str(tested["values"])
                return f"{name} = {value}, tested were {known}"
        for name, scalar in scalars.items():
            if not math.isclose(scalar, case["scalars"][name], rel_tol=RELATIVE):
                return f"{name} = {scalar:g}, tested was {case['scalars'][name]:g}"
        if not self._plan.domain.at(symbols, "this call"):
            return f"the kernel's own domain `{self._plan.domain.expression.text}` doesn't hold"
        return ""
