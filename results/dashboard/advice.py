"""What a person who looks at a run should know before believing it, and what to do next."""

from collections.abc import Mapping
from typing import Any

from evaluator.outcome import Verdict
from results.dashboard.codes import NAMES, Flag
from results.dashboard.columns import Columns
from results.text import count

NEAR_BOUND = 0.95
"""From this share of the device's bound on a measurement is doubted before it is believed."""
LEAP = 1.5
"""From this ratio to its parent on a single step is doubted before it is believed."""
NOISY_PCT = 2.0


def warnings(facts: Mapping[str, Any], columns: Columns) -> list[str]:
    """Sentences about what is doubtful: the best not verified, too good, a noisy session, faults of the harness, lost parents."""
    found = []
    if facts["best"] and facts["verified"] == "not yet":
        found.append(
            "Not verified: no final has examined the best. The search picks the luckiest of many measurements, "
            "so expect a little less."
        )
    if facts["best"] and facts["verified"] == "undecided":
        found.append("Not verified: the final of the best could not decide. Run it again.")
    if facts["bound"] and facts["bound"]["most"] >= NEAR_BOUND:
        found.append(
            f"Too good, look again: {100 * facts['bound']['most']:.0f} % of what the device could do at most "
            f"in {facts['bound']['most_scenario']}."
        )
    if leap := _leap(columns):
        found.append(f"Too good, look again: step {leap[0]} on the way to the best was {leap[1]:.2f} times its parent at once.")
    if (noise := facts["noise_floor_pct"]) is not None and noise >= NOISY_PCT:
        found.append(f"A noisy session: the baseline against itself differs by {noise:.1f} %. Smaller gains than that are noise.")
    faults = int((columns["verdict"] == NAMES["verdicts"].index(Verdict.HARNESS_FAULT)).sum())
    if faults:
        found.append(f"{count(faults, 'evaluation')} ended in a fault of the harness, not of the candidate.")
    lost = int(((columns["parent"] < 0) & ((columns["flags"] & int(Flag.SEED)) == 0)).sum())
    if lost:
        found.append(f"{count(lost, 'step')} name a parent that this run doesn't hold; their lines begin in the middle.")
    return found


def _leap(columns: Columns) -> tuple[int, float] | None:
    """The step of the best path with the largest leap over its parent, where it is one to doubt."""
    leaps = []
    for row in columns.ancestry(columns.best) if columns.best is not None else []:
        parent = int(columns["parent"][row])
        if parent >= 0 and columns["geomean"][parent] > 0 and columns["geomean"][row] > 0:
            leaps.append((float(columns["geomean"][row] / columns["geomean"][parent]), int(columns["number"][row])))
    ratio, number = max(leaps, default=(0.0, 0))
    return (number, ratio) if ratio >= LEAP else None


def advice(facts: Mapping[str, Any]) -> list[dict[str, str]]:
    """What to do next, most useful first: a sentence and the command that does it ("" where there is none)."""
    name, found = facts["name"], []
    free = facts["open_steps"] - facts["answered"]
    if free:
        found.append((f"{count(free, 'prompt')} wait for an answer.", f"askevolve next {name}"))
    if not facts["live"] and (facts["answered"] or not facts["stopped_by"]):
        found.append(("No driver runs; what is stored is safe. Go on:", f"askevolve resume {name}"))
    if facts["best"] and facts["verified"] in ("not yet", "undecided") and not facts["live"]:
        found.append(("Have the best verified: fresh processes, hidden shapes, every baseline.", f"askevolve final {name}"))
    if facts["verified"] == "verified":
        found.append(("The best is verified. Its source:", f"askevolve show {name} best --source"))
    if facts["evaluated"] and not facts["best"]:
        found.append(("No candidate is right in every scenario yet. The failures view groups why.", ""))
    if not facts["evaluated"]:
        found.append(("Nothing is evaluated yet; the first figures come with the seeds.", ""))
    return [{"text": text, "command": command} for text, command in found]
