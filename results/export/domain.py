"""The domain in which an exported kernel may be used, as data: what its final tested."""

from collections.abc import Mapping, Sequence
from typing import Any

from results.export.spec import ExportSpec, Tested


def domain_document(spec: ExportSpec) -> dict[str, Any]:
    """``domain.json``: the tested combinations of the exact symbols with their scalars, the tested range of every size.

    A size's range is that of all points together: a final tests each combination at few lengths, and hidden ones beside them.
    Scalars of a task follow from its exact symbols, so those of a combination's first point stand for it.
    """
    cases: dict[tuple[int | str, ...], Tested] = {}
    for point in spec.tested:
        cases.setdefault(tuple(point.symbols[name] for name in spec.exact), point)
    return {
        "device_type": spec.final.device.kind,
        "arch": spec.final.device.arch,
        "exact": list(spec.exact),
        "between": spec.between,
        "alignment_bytes": 64,
        "cases": [
            {"exact": dict(zip(spec.exact, key, strict=True)), "scalars": dict(point.scalars)} for key, point in cases.items()
        ],
        "ranges": {name: _range(spec.tested, name) for name in spec.card.symbols if name not in spec.exact},
        "points": [{"name": point.name, "symbols": dict(point.symbols), "scalars": dict(point.scalars)} for point in spec.tested],
    }


def _range(points: Sequence[Tested], name: str) -> Mapping[str, object]:
    values = sorted({int(point.symbols[name]) for point in points})
    return {"low": values[0], "high": values[-1], "values": values}
