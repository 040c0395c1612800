"""The parent's half of the health probe, with children that behave as a GPU might."""

from evaluator.cuda.health import BLOCK, PTX, WORDS, Health, probe

STAND_IN = "tests.evaluator.sick_gpu"
HEALTHY, HUNG, BROKEN, FULL = range(4)


def test_a_healthy_gpu_tells_what_it_can_do() -> None:
    assert probe(HEALTHY, module=STAND_IN) == Health(problem=None, abilities={"virtual_memory": True})


def test_a_hung_gpu_is_given_up_on() -> None:
    found = probe(HUNG, timeout_s=0.5, module=STAND_IN)
    assert found.problem == "a small copy and kernel were not done after 0.5 s"
    assert not found.full


def test_a_broken_gpu_says_how() -> None:
    found = probe(BROKEN, module=STAND_IN)
    assert found.problem is not None
    assert "CUDA_ERROR_ECC_UNCORRECTABLE" in found.problem
    assert not found.full


def test_a_gpu_whose_memory_others_hold_is_full_and_not_sick() -> None:
    assert probe(FULL, module=STAND_IN).full


def test_the_kernel_covers_whole_blocks_and_needs_no_recent_driver() -> None:
    assert WORDS % BLOCK == 0
    assert PTX.isascii()
    assert b".version 6.3\n.target sm_75\n" in PTX
