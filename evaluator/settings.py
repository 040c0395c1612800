"""The numbers by which the harness judges, and the short id that an outcome carries for them."""

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from typing import Any

HARNESS_VERSION = 2
"""Raised whenever a change of the code can change a verdict or a number."""
MOST_RESTARTS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class HarnessSettings:
    """Everything that decides a number or a verdict.

    Shares and half-widths are fractions (0.005 is half a per cent). ``looks`` are the block counts at which a race is looked
    at; ``alpha`` is split evenly between them, so the first look must be long enough for an interval to exist.
    """

    looks: tuple[int, ...] = (8, 16, 32, 64)
    alpha: float = 0.05
    narrow_half_width: float = 0.005  # a race ends at the first look whose interval is this narrow
    ambiguous_half_width: float = 0.02  # wider than this at the last look: AMBIGUOUS
    hopeless_share: float = 0.7  # quick races below this share of the incumbent's lower bound end as SLOWER
    quick_scenarios: int = 3
    batch_us: float = 2000.0  # a timed window lasts at least this long, by more executions, up to max_slots
    max_slots: int = 16
    spare_slots: int | None = None  # slots of a side beyond those that its windows can need (None: always max_slots)
    side_bytes: int = 1 << 30  # buffers of one side, which bounds its slots; less on a device without room (evaluator/session.py)
    warm_runs: int = 6  # at most so many untimed executions until two in a row agree within warm_agreement
    warm_agreement: float = 0.1
    restarts: int = 4  # fresh pairs of processes among which a final splits the blocks of each race; 1: a single one
    between_starts_us: float = 0.0  # standard deviation of a race's difference from start to start, in time of one execution
    race_cap_s: float = 60.0  # no further look is started in a race beyond this
    max_dropped_share: float = 0.5  # blocks dropped as disturbed, as a share of those kept
    disturbed_share: float = 0.02  # CPU time that others were kept waiting for, as a share of a block
    physics_factor: float = 0.95  # a time under this share of the floor is TOO_FAST
    slowed_by: float = 0.03  # the sensitivity control slows a copy of the baseline by this
    compared_per_window: int | None = None  # timed executions of a window compared in a search, drawn in secret (None: all)
    pool_members: int = 3  # input sets of the everyday distribution; others have one
    pool_bytes: int = 1 << 30  # likewise
    search_distributions: int = 3  # distributions per scenario in a search; finals take all ...
    full_check_flop: float | None = (
        None  # ... but as many as a search, and one input set each, where a scenario needs more arithmetic (None: never)
    )
    repeats: int = 3  # executions of the same inputs that must agree bit by bit
    hidden_scenarios: int = 6
    deadline_floors: float = 5000.0  # an execution may take this many times its physical floor ...
    least_deadline_s: float = 2.0  # ... and at least this long, before it is killed
    lock_wait_s: float = 600.0

    def __post_init__(self) -> None:
        """Raise ValueError where the numbers contradict one another."""
        if not self.looks or list(self.looks) != sorted(set(self.looks)):
            raise ValueError(f"looks must be block counts in rising order, not {self.looks}")
        if 2.0 ** (1 - self.looks[0]) > self.alpha / len(self.looks):
            raise ValueError(
                f"the first look ({self.looks[0]} blocks) is too early for an interval at alpha {self.alpha} over "
                f"{len(self.looks)} looks: start later or take fewer looks"
            )
        if self.narrow_half_width > self.ambiguous_half_width:
            raise ValueError("narrow_half_width must not exceed ambiguous_half_width")
        if not 1 <= self.restarts <= MOST_RESTARTS:
            raise ValueError(f"restarts must lie between 1 and {MOST_RESTARTS}, not {self.restarts}")


def full_settings(timing_looks: int = 4) -> HarnessSettings:
    """The settings for numbers that are published; ``timing_looks`` (1 to 4) keeps only the first looks."""
    return _with_looks(HarnessSettings(), timing_looks)


def quick_settings(timing_looks: int = 3) -> HarnessSettings:
    """Settings for short runs on a small machine: seconds a candidate, wider intervals, fewer distributions."""
    quick = HarnessSettings(
        narrow_half_width=0.02,
        ambiguous_half_width=0.08,
        batch_us=3000.0,
        race_cap_s=3.0,
        pool_members=2,
        pool_bytes=1 << 29,
        search_distributions=2,
        repeats=2,
        hidden_scenarios=4,
    )
    return _with_looks(quick, timing_looks)


def cuda_settings(pace: str = "full", timing_looks: int | None = None) -> HarnessSettings:
    """Settings for a GPU at the pace "full" (published numbers) or "quick" (seconds a candidate); ValueError for another.

    Buffers and answers live in the GPU's memory, and events on the device time kernels to a fraction of a per cent: windows and
    races are short, and of a window's executions a search compares one, which the candidate can't know while it runs. A final of
    long scenarios would spend hours on float64 answers; ``full_check_flop`` (about 1k tokens in the sets of attention) bounds
    that. ``between_starts_us`` was measured on an H200 by 108 races of FA3 against itself: 0.17 to 0.28 us from 100 to 700 us
    (benchmarks/noise.py, docs/measurements.md).
    """
    if pace not in ("full", "quick"):
        raise ValueError(f"the pace is full or quick, not {pace!r}")
    looks = _with_looks(HarnessSettings(), timing_looks or (4 if pace == "full" else 3)).looks
    quick: dict[str, Any] = {
        "narrow_half_width": 0.01,
        "ambiguous_half_width": 0.04,
        "race_cap_s": 1.0,
        "pool_members": 2,
        "search_distributions": 2,
        "repeats": 2,
        "hidden_scenarios": 4,
    }
    full = HarnessSettings(
        looks=looks,
        restarts=1,
        between_starts_us=0.25,
        batch_us=1000.0,
        max_slots=8,
        spare_slots=2,
        side_bytes=8 << 30,
        race_cap_s=6.0,
        compared_per_window=1,
        pool_bytes=48 << 30,
        full_check_flop=3e11,
    )
    return dataclasses.replace(full, **quick) if pace == "quick" else full


def evaluation_deadline_s(settings: HarnessSettings, scenarios: int, workers: int) -> float:
    """Seconds after which an evaluation can only have hung inside code of ours; its worker is then killed and replaced.

    Generous on purpose, some tens of times what a slow evaluation takes: one full wait for the host's lock, and for each scenario
    of a final (hidden ones too) several races to their cap and fifty executions to their deadline, while ``workers`` take turns.
    """
    each_s = 4 * settings.race_cap_s + 50 * settings.least_deadline_s
    return settings.lock_wait_s + workers * (scenarios + settings.hidden_scenarios) * each_s


def _with_looks(settings: HarnessSettings, timing_looks: int) -> HarnessSettings:
    every = HarnessSettings().looks
    if not 1 <= timing_looks <= len(every):
        raise ValueError(f"timing_looks must lie between 1 and {len(every)}, not {timing_looks}")
    return dataclasses.replace(settings, looks=every[:timing_looks])


def harness_id(settings: HarnessSettings) -> str:
    """Version and settings as a short text, such as ``1-3fa9c2d0e1``: numbers with different ids aren't compared."""
    text = json.dumps(dataclasses.asdict(settings), sort_keys=True)
    return f"{HARNESS_VERSION}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"
