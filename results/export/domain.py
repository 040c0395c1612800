"""The domain in which an exported kernel may be used, as data: what its final tested."""

from collections.abc import Mapping, Sequence
from typing import Any

from results.export.spec import ExportSpec, Tested


def domain_document(spec: ExportSpec) -> dict[str, Any]:
    """``domain.json``: for each tested combination of the exact symbols the tested range of every size, and the scalars.

    Where several points of one combination had different scalars those of the first count, since a scalar of a task follows
    from its exact symbols.
    """
    groups: dict[tuple[int | str, ...], list[Tested]] = {}
    for point in spec.tested:
        groups.setdefault(tuple(point.symbols[name] for name in spec.exact), []).append(point)
    sizes = [name for name in spec.card.symbols if name not in spec.exact]
    return {
        "device_type": spec.final.device.kind,
        "arch": spec.final.device.arch,
        "exact": list(spec.exact),
        "between": spec.between,
        "alignment_bytes": 64,
        "cases": [
            {
                "exact": dict(zip(spec.exact, key, strict=True)),
                "ranges": {name: _range(points, name) for name in sizes},
                "scalars": dict(points[0].scalars),
            }
            for key, points in groups.items()
        ],
    }


def _range(points: Sequence[Tested], name: str) -> Mapping[str, object]:
    values = sorted({int(point.symbols[name]) for point in points})
    return {"low": values[0], "high": values[-1], "values": values}
