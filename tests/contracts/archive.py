"""What every Archive must do. Subclass ``ArchiveContract`` and give it ``make_archive``."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.outcome import Device, Effort, Fitness, Outcome, Stage, Timing, Verdict
from population.archive import AddStatus, Archive
from population.candidate import Origin, Step

SCENARIOS = ("short", "long")
DEVICE = Device(kind="cpu", name="test", arch="none", cores=2, peak_tflops=1.0, peak_gbs=10.0)


def outcome_of(
    candidate_id: str,
    geomean: float,
    *,
    width: float = 0.001,
    verdict: Verdict = Verdict.OK,
    tilt: float = 1.0,
    scenarios: int = 2,
    noise_floor_pct: float | None = None,
) -> Outcome:
    """An outcome of this geometric mean; ``tilt`` is how much better it is on the first scenario than on the second."""
    ratios = dict(zip(SCENARIOS, (geomean * math.sqrt(tilt), geomean / math.sqrt(tilt)), strict=True))
    timings = tuple(
        Timing(
            scenario=name,
            opponent="torch",
            ratio=ratio,
            low=ratio,
            high=ratio,
            candidate_us=1.0,
            opponent_us=ratio,
            blocks=8,
            floor_us=0.1,
            bound="flop",
        )
        for name, ratio in ratios.items()
    )
    fitness = Fitness(
        opponent="torch",
        geomean=geomean,
        low=geomean * (1 - width),
        high=geomean * (1 + width),
        scenarios=scenarios,
        worst_scenario="long",
        worst_ratio=ratios["long"],
    )
    return Outcome(
        candidate_id=candidate_id,
        effort=Effort.SEARCH,
        verdict=verdict,
        stage=Stage.SCORE,
        message="",
        device=DEVICE,
        task_hash="t",
        harness="1",
        wall_s=1.0,
        timings=timings,
        fitness=fitness,
        noise_floor_pct=noise_floor_pct,
    )


def seed_step(number: int, candidate_id: str) -> Step:
    return Step(number=number, origin=Origin.SEED, island=0, parent_id=None, candidate_id=candidate_id)


def child_step(number: int, candidate_id: str | None, island: int, parent_id: str = "seed") -> Step:
    return Step(number=number, origin=Origin.QUESTION, island=island, parent_id=parent_id, candidate_id=candidate_id)


def view(archive: Archive) -> object:
    """All that a caller can see of an archive."""
    islands = range(archive.islands)
    return (
        archive.best(),
        [archive.best(island) for island in islands],
        [tuple(archive.members(island)) for island in islands],
        [archive.stalled_for(island) for island in islands],
        [[archive.children(island, member.candidate_id) for member in archive.members(island)] for island in islands],
    )


RESULTS = st.one_of(
    st.none(),
    st.tuples(
        st.floats(0.1, 10.0),
        st.sampled_from([Verdict.OK, Verdict.OK, Verdict.OK, Verdict.WRONG, Verdict.SLOWER, Verdict.AMBIGUOUS]),
        st.floats(0.2, 5.0),
    ),
)


class ArchiveContract:
    """The behaviour that the loop and selection rely on."""

    @pytest.fixture
    def make_archive(self) -> Callable[[], Archive]:
        """A maker of new archives for two scenarios (``SCENARIOS``). Override it."""
        raise NotImplementedError

    def play(self, archive: Archive, results: list[tuple[float, Verdict, float] | None]) -> list[AddStatus]:
        """Fold a seed and then one step per result, island after island."""
        statuses = [archive.fold(seed_step(0, "seed"), outcome_of("seed", 1.0))]
        for number, result in enumerate(results, start=1):
            step = child_step(number, f"c{number}", number % archive.islands)
            outcome = None
            if result is not None:
                geomean, verdict, tilt = result
                outcome = outcome_of(f"c{number}", geomean, verdict=verdict, tilt=tilt)
            statuses.append(archive.fold(step, outcome))
        return statuses

    def test_a_new_archive_is_empty(self, make_archive: Callable[[], Archive]) -> None:
        archive = make_archive()
        assert archive.islands >= 1
        assert archive.best() is None
        assert all(not archive.members(island) and archive.best(island) is None for island in range(archive.islands))

    def test_a_right_candidate_becomes_best_of_an_empty_archive(self, make_archive: Callable[[], Archive]) -> None:
        archive = make_archive()
        status = archive.fold(seed_step(0, "seed"), outcome_of("seed", 0.5))
        best = archive.best()
        assert status
        assert best is not None
        assert (best.candidate_id, best.score, best.geomean) == ("seed", pytest.approx(0.4995), 0.5)

    @pytest.mark.parametrize("verdict", [verdict for verdict in Verdict if verdict is not Verdict.OK])
    def test_only_ok_enters(self, make_archive: Callable[[], Archive], verdict: Verdict) -> None:
        archive = make_archive()
        archive.fold(seed_step(0, "seed"), outcome_of("seed", 0.5))
        assert not archive.fold(child_step(1, "bad", 0), outcome_of("bad", 9.0, verdict=verdict))
        best = archive.best()
        assert best is not None
        assert best.candidate_id == "seed"

    @pytest.mark.parametrize("verdict", [verdict for verdict in Verdict if verdict is not Verdict.OK])
    def test_a_seed_may_be_ambiguous_but_nothing_else(self, make_archive: Callable[[], Archive], verdict: Verdict) -> None:
        archive = make_archive()
        assert bool(archive.fold(seed_step(0, "seed"), outcome_of("seed", 0.5, verdict=verdict))) is (
            verdict is Verdict.AMBIGUOUS
        )

    @pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan, 0.0, -1.0])
    def test_only_finite_positive_figures_enter(self, make_archive: Callable[[], Archive], number: float) -> None:
        archive = make_archive()
        archive.fold(seed_step(0, "seed"), outcome_of("seed", 1.0))
        assert not archive.fold(child_step(1, "odd", 0), outcome_of("odd", number, tilt=1.0) if number > 0 else _odd(number))
        assert archive.fold(child_step(2, "fine", 0), outcome_of("fine", 2.0))
        best = archive.best()
        assert best is not None
        assert best.candidate_id == "fine"

    def test_bounds_the_wrong_way_round_do_not_enter(self, make_archive: Callable[[], Archive]) -> None:
        archive = make_archive()
        archive.fold(seed_step(0, "seed"), outcome_of("seed", 1.0))
        assert not archive.fold(child_step(1, "odd", 0), _odd(7.0))

    def test_part_of_the_scenarios_is_not_enough(self, make_archive: Callable[[], Archive]) -> None:
        archive = make_archive()
        assert not archive.fold(seed_step(0, "part"), outcome_of("part", 3.0, scenarios=1))

    def test_steps_are_folded_once_and_in_order(self, make_archive: Callable[[], Archive]) -> None:
        archive = make_archive()
        archive.fold(seed_step(3, "seed"), outcome_of("seed", 1.0))
        for number in (3, 2):
            with pytest.raises(ValueError, match="order"):
                archive.fold(child_step(number, "c", 0), None)
        with pytest.raises(ValueError, match="island"):
            archive.fold(child_step(4, "c", archive.islands), None)

    @given(results=st.lists(RESULTS, max_size=60))
    def test_the_same_steps_give_the_same_archive(
        self, make_archive: Callable[[], Archive], results: list[tuple[float, Verdict, float] | None]
    ) -> None:
        one, two = make_archive(), make_archive()
        assert self.play(one, results) == self.play(two, results)
        assert view(one) == view(two)

    @given(results=st.lists(RESULTS, max_size=60))
    def test_members_are_ranked_unique_and_hold_the_best(
        self, make_archive: Callable[[], Archive], results: list[tuple[float, Verdict, float] | None]
    ) -> None:
        archive = make_archive()
        statuses = self.play(archive, results)
        homes = []
        for island in range(archive.islands):
            members = archive.members(island)
            ids = [member.candidate_id for member in members]
            assert len(ids) == len(set(ids))
            assert [(-member.score, member.number) for member in members] == sorted((-m.score, m.number) for m in members)
            assert archive.best(island) in members
            homes += [island for member in members if member == archive.best()]
        assert homes
        last_best = max(number for number, status in enumerate(statuses) if status is AddStatus.BEST)
        best = archive.best()
        assert best is not None
        assert best.number == last_best

    def test_turned_knobs_may_enter_and_are_no_attempts(self, make_archive: Callable[[], Archive]) -> None:
        archive = make_archive()
        archive.fold(seed_step(0, "seed"), outcome_of("seed", 1.0))
        for number, geomean in enumerate((0.9, 0.8, 2.0), start=1):
            step = replace(child_step(number, f"c{number}", 0), origin=Origin.SWEEP)
            status = archive.fold(step, outcome_of(f"c{number}", geomean))
        assert status is AddStatus.BEST
        assert archive.children(0, "seed") == 0
        assert archive.stalled_for(0) == 0

    @given(results=st.lists(RESULTS, max_size=60))
    def test_the_best_only_gets_better(
        self, make_archive: Callable[[], Archive], results: list[tuple[float, Verdict, float] | None]
    ) -> None:
        archive = make_archive()
        archive.fold(seed_step(0, "seed"), outcome_of("seed", 1.0))
        for number, result in enumerate(results, start=1):
            before = archive.best()
            outcome = None if result is None else outcome_of(f"c{number}", result[0], verdict=result[1], tilt=result[2])
            status = archive.fold(child_step(number, f"c{number}", number % archive.islands), outcome)
            after = archive.best()
            assert before is not None
            assert after is not None
            assert (after.score > before.geomean) if status is AddStatus.BEST else after == before


def _odd(number: float) -> Outcome:
    """An outcome of geometric mean 5 whose lower bound is this number."""
    good = outcome_of("odd", 5.0)
    assert good.fitness is not None
    fields = {name: getattr(good.fitness, name) for name in good.fitness.__slots__}
    values = {name: getattr(good, name) for name in good.__slots__}
    return Outcome(**{**values, "fitness": Fitness(**{**fields, "low": number})})
