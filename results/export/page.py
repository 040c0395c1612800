"""The README of an exported package."""

from population.candidate import short_id
from results.export.spec import ExportSpec
from results.outcome_text import device_text


def readme(spec: ExportSpec) -> str:
    """What the package is, how it was measured and where it may be used."""
    fitness = spec.final.fitness
    score = (
        f"{fitness.geomean:.3f} times {fitness.opponent} [{fitness.low:.3f}, {fitness.high:.3f}] "
        f"over {fitness.scenarios} scenarios; "
        f"worst {fitness.worst_scenario} at {fitness.worst_ratio:.3f}"
        if fitness
        else spec.final.message
    )
    return f"""# {spec.name}

Kernel {short_id(spec.candidate.id)} for the task `{spec.card.name}` ({spec.card.summary}), exported by AskEvolve.

Final: {score}. Device: {device_text(spec.final.device)}; harness {spec.final.harness}.

    pip install --no-deps .
    python -m {spec.module}.verify

Outside of what the final tested (`domain.json`) a call goes to torch's own operator where torch has one, with one warning;
`{spec.module}.on_outside("raise")` or ASKEVOLVE_ON_OUTSIDE=raise makes it an error. To undo: `pip uninstall {spec.name}`.
"""
