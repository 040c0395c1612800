"""The secret pool: repeatable from its secret, bounded, and exact under its transforms."""

import numpy as np

from evaluator.pool import Pool, random_stream
from tests.evaluator.tiny_harness import scenario, seeded, tiny


def pool(secret: bytes = b"secret", most_bytes: int = 1 << 20) -> Pool:
    return Pool(tiny(), most_bytes, secret)


def test_the_secret_decides_the_members() -> None:
    one, same, other = (pool(secret).member(scenario(), "normal", 0) for secret in (b"a", b"a", b"b"))
    assert np.array_equal(one.inputs["x"], same.inputs["x"])
    assert not np.array_equal(one.inputs["x"], other.inputs["x"])


def test_members_differ_by_number_distribution_and_scenario() -> None:
    made = pool()
    contents = {
        made.member(scenario(index), distribution, number).inputs["x"].tobytes()
        for index in range(2)
        for distribution in ("normal", "large")
        for number in range(2)
    }
    assert len(contents) == 8


def test_expected_outputs_are_float64_of_the_untransformed_inputs() -> None:
    member = pool().member(scenario(), "normal", 0)
    assert member.expected["y"].dtype == np.float64
    assert np.array_equal(member.expected["y"], 2.0 * member.inputs["x"].astype(np.float64))
    assert set(member.tolerances) == {"y", "total"}


def test_draws_are_new_contents_whose_outputs_can_be_undone() -> None:
    made, rng = pool(), np.random.default_rng(0)
    draws = [made.draw(scenario(4), "normal", rng, 2) for _ in range(20)]
    assert len({draw.inputs["x"].tobytes() for draw in draws}) == 20
    assert {id(draw.member) for draw in draws} == {id(made.member(scenario(4), "normal", n)) for n in range(2)}
    for draw in draws:
        x = draw.inputs["x"]
        undone = draw.undo({"y": 2.0 * x, "total": x.sum(axis=1)})
        assert np.array_equal(undone["y"], draw.member.expected["y"])


def test_memory_is_bounded_and_a_dropped_member_comes_back_the_same() -> None:
    size = pool().member(scenario(), "normal", 0).size_bytes
    made = pool(most_bytes=3 * size)
    first = made.member(scenario(), "normal", 0)
    for number in range(1, 6):
        made.member(scenario(), "normal", number)
        assert made.held_bytes <= 3 * size
    again = made.member(scenario(), "normal", 0)
    assert again is not first
    assert np.array_equal(again.inputs["x"], first.inputs["x"])


def test_within_a_scenario_the_least_recently_used_member_goes_first() -> None:
    size = pool().member(scenario(), "normal", 0).size_bytes
    made = pool(most_bytes=2 * size)
    kept = made.member(scenario(), "normal", 0)
    made.member(scenario(), "normal", 1)
    assert made.member(scenario(), "normal", 0) is kept
    made.member(scenario(), "normal", 2)
    assert made.member(scenario(), "normal", 0) is kept


def test_members_of_the_scenario_at_hand_stay_however_often_others_were_used() -> None:
    size = pool().member(scenario(1), "normal", 0).size_bytes
    made = pool(most_bytes=2 * size)
    for _ in range(9):
        made.member(scenario(), "normal", 0)
    kept = made.member(scenario(1), "normal", 0)
    made.member(scenario(1), "normal", 1)
    assert made.member(scenario(1), "normal", 0) is kept


def test_what_a_set_too_large_is_asked_for_in_turn_is_kept_in_part() -> None:
    sizes = [pool().member(scenario(number), "normal", 0).size_bytes for number in range(5)]
    made = pool(most_bytes=sum(sizes) - 1)
    first = [made.member(scenario(number), "normal", 0) for number in range(5)]
    for _ in range(3):
        again = [made.member(scenario(number), "normal", 0) for number in range(5)]
    assert sum(one is other for one, other in zip(first, again, strict=True)) >= 2


def test_what_a_baseline_gave_counts_as_memory_and_goes_with_its_member() -> None:
    made = pool(most_bytes=1)
    member = made.member(scenario(), "normal", 0)
    outputs = {"y": np.zeros(1000)}
    assert made.peer(member, lambda: outputs) is outputs
    assert made.held_bytes == member.size_bytes + 8000
    other = made.member(scenario(1), "normal", 0)
    assert made.held_bytes == other.size_bytes
    assert made.peer(member, lambda: None) is None


def test_a_member_larger_than_the_bound_is_still_served() -> None:
    made = pool(most_bytes=1)
    assert made.member(scenario(), "normal", 0) is made.member(scenario(), "normal", 0)


def test_the_baseline_runs_once_per_member_kept() -> None:
    made, calls = pool(), []
    member = made.member(scenario(), "normal", 0)

    def make() -> None:
        calls.append(1)

    assert made.peer(member, make) is None
    assert made.peer(member, make) is None
    assert len(calls) == 1


def test_random_streams_differ_with_their_entropy() -> None:
    entropy = seeded(3)
    assert random_stream(entropy).integers(2**62) != random_stream(entropy).integers(2**62)
