"""The portable attention seed: its builds for five architectures, its knobs, and its arithmetic, run warp by warp on the CPU."""

import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from evaluator.cache import BuildCache
from evaluator.cuda.gate import gate_cuda
from evaluator.cuda.nvrtc import compile_cuda
from evaluator.cuda.offline import DEVICE_FACTS, Gated, examine
from evaluator.dtypes import decode
from evaluator.outcome import Fault
from evaluator.plan.parse import parse_plan
from evaluator.plan.resolve import resolve
from evaluator.plan.resolved import Resolved
from evaluator.screen import Screened, screen
from evaluator.task import load_task
from evaluator.task_card import Scenario, SymbolValue
from evaluator.tasks.attention_forward import task as attention
from population.candidate import Language

TASK = load_task("attention_forward")
CARD = TASK.card("hopper_182")
SOURCE = TASK.seeds(Language.CUDA)["portable"].read_text()
EMULATOR = Path(__file__).parent / "data" / "warp_emulator.cpp"
OWN_INSTRUCTIONS = re.compile(r"namespace ptx \{.*?\}  // namespace ptx", re.DOTALL)

Symbols = dict[str, SymbolValue]
Emulate = Callable[..., tuple[np.ndarray, np.ndarray]]


def turned(knobs: Mapping[str, int]) -> str:
    """The source with these knobs at these values in every scenario."""
    source = SOURCE
    for name, value in knobs.items():
        pattern = rf"(?m)^{name}( *)= {{ value = \d+,( when = \[\[.*?\]\],)?"
        source, found = re.subn(pattern, rf"{name}\1= {{ value = {value},", source)
        assert found == 1, name
    return source


def screened(source: str, arch: str) -> Screened:
    found = screen(source, Language.CUDA, CARD, DEVICE_FACTS[arch], lambda scenario: TASK.scalars(scenario.symbols))
    assert isinstance(found, Screened), found
    return found


def distinct(screened: Screened) -> list[Resolved]:
    """One plan for each build."""
    return list({tuple(sorted(resolved.defines.items())): resolved for resolved in screened.resolved}.values())


@pytest.fixture(scope="module")
def cache(cuda_cache: BuildCache) -> BuildCache:
    return cuda_cache


@pytest.mark.parametrize(
    ("arch", "set_name", "scenarios", "builds"),
    [
        ("sm_90a", "hopper_182", 182, 6),  # d64 and d128 in two types, d96, d256
        *((arch, "quick3", 3, 1) for arch in DEVICE_FACTS if arch != "sm_90a"),
        *(pytest.param(arch, "hopper_182", 182, 6, marks=pytest.mark.slow) for arch in DEVICE_FACTS if arch != "sm_90a"),
    ],
)
def test_it_is_built_for_every_scenario_without_spilling(
    arch: str, set_name: str, scenarios: int, builds: int, cache: BuildCache
) -> None:
    found = examine(SOURCE, TASK, set_name, arch, cache)
    assert isinstance(found, Gated), found
    assert (len(found.scenarios), len(found.facts)) == (scenarios, builds)
    for facts in found.facts:
        assert (facts["spill_bytes"], facts["stack_bytes"]) == (0, 0), facts


@pytest.mark.parametrize("arch", DEVICE_FACTS)
def test_every_choice_of_every_knob_is_a_valid_plan(arch: str) -> None:
    for knob in screened(SOURCE, arch).knobs:
        for choice in knob.choices:
            assert screened(turned({knob.name: choice}), arch).scenarios == screened(SOURCE, arch).scenarios


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_89", "sm_90a"])
@pytest.mark.parametrize("block_m", [64, 128])
@pytest.mark.parametrize("warps", [4, 8])
def test_every_combination_of_tile_sizes_is_built(arch: str, block_m: int, warps: int, cache: BuildCache) -> None:
    for block_n in (32, 64, 96, 128):
        source = turned({"BLOCK_M": block_m, "WARPS": warps, "BLOCK_N": block_n, "STAGES": 3, "HOLD_Q": 0})
        for resolved in distinct(screened(source, arch)):
            build = compile_cuda(source, resolved, arch, cache)
            assert not isinstance(build, Fault), (resolved.defines, build)
            assert gate_cuda(build, resolved) is None, resolved.defines


def test_shared_memory_lets_two_blocks_share_a_hopper_multiprocessor() -> None:
    for resolved in distinct(screened(SOURCE, "sm_90a")):
        assert 2 * (resolved.launches[0].shared_bytes + 1024) <= 228 << 10, resolved.defines


@pytest.fixture(scope="module")
def emulate(tmp_path_factory: pytest.TempPathFactory) -> Emulate:
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    return partial(run_emulated, tmp_path_factory.mktemp("emulator"))


def run_emulated(
    folder: Path,
    symbols: Symbols,
    inputs: Mapping[str, np.ndarray],
    *,
    eager: bool,
    arch: str = "sm_90a",
    knobs: Mapping[str, int] | None = None,
    section: int | None = None,
    edit: tuple[str, str] = ("", ""),
) -> tuple[np.ndarray, np.ndarray]:
    """``out`` (decoded) and ``lse`` of the kernel, and no bank conflict on the way. Executables stay in ``folder``."""
    source = turned(knobs or {}).replace(*edit)
    plan = parse_plan(source, Language.CUDA, CARD)
    assert not isinstance(plan, Fault), plan
    resolved = resolve(plan, CARD, Scenario(name="tiny", symbols=symbols), DEVICE_FACTS[arch], TASK.scalars(symbols))
    assert not isinstance(resolved, Fault), resolved
    launch = resolved.launches[0]
    scalars = {argument.name: argument.value for argument in launch.args}
    program = folder / f"{sha256(repr((source, resolved.defines)).encode()).hexdigest()}.exe"
    if not program.exists():
        kernel = folder / "kernel.inc"
        kernel.write_text(OWN_INSTRUCTIONS.sub("", source))
        macros = [f"-D{name}={value}" for name, value in resolved.defines.items()]
        command = ["g++", "-std=c++20", "-O1", "-w", f'-DKERNEL="{kernel}"', *macros, str(EMULATOR), "-o", str(program)]
        subprocess.run(command, check=True)
    numbers: list[object] = [symbols[name] for name in ("b", "sq", "sk", "h", "hkv", "causal", "window")]
    numbers += [section or scalars["section"] or 1, int(eager), launch.shared_bytes, launch.grid[0]]
    data = b"".join(inputs[name].tobytes() for name in "qkv") + np.float32(scalars["scale"] or 0).tobytes()
    done = subprocess.run([program, *map(str, numbers)], input=data, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    out = np.frombuffer(done.stdout, inputs["q"].dtype, inputs["q"].size).reshape(inputs["q"].shape)
    lse = np.frombuffer(done.stdout, np.float32, offset=out.nbytes)
    return decode(out, str(symbols["dtype"])), lse.reshape(*(int(symbols[name]) for name in ("b", "h", "sq")))


def case(**changes: SymbolValue) -> Symbols:
    symbols: Symbols = {"b": 1, "sq": 150, "sk": 303, "h": 2, "hkv": 2, "d": 64, "causal": 1, "window": 0, "dtype": "bf16"}
    return symbols | changes


def check(emulate: Emulate, symbols: Symbols, distribution: str = "normal", **how: object) -> None:
    """The kernel errs at most twice as much as plain maths plus one unit in the last place, in both orders of execution."""
    dtype = str(symbols["dtype"])
    inputs = attention.inputs(symbols, distribution, np.random.default_rng(7))
    expected, plain = attention.reference(symbols, inputs), attention.plain(symbols, inputs, 0)
    seen = np.isfinite(expected["lse"])
    unit = np.abs(expected["out"]).max() * 2.0 ** (-7 if dtype == "bf16" else -10)
    allowed = 2 * np.abs(decode(plain["out"], dtype) - expected["out"]).max() + unit
    lse_allowed = 2 * np.abs(decode(plain["lse"], "float32")[seen] - expected["lse"][seen]).max(initial=0.0) + 1e-4
    for eager in (False, True):
        out, lse = emulate(symbols, inputs, eager=eager, **how)
        assert np.abs(out - expected["out"]).max() <= allowed
        assert np.all(lse[~seen] == -np.inf)
        assert np.all(out.transpose(0, 2, 1, 3)[~seen] == 0.0)
        assert np.abs(lse[seen] - expected["lse"][seen]).max(initial=0.0) <= lse_allowed


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"causal": 0},
        {"b": 2, "sq": 77, "sk": 77, "h": 4},
        {"sq": 130, "sk": 259, "h": 3, "hkv": 1, "causal": 0},
        {"sq": 300, "sk": 131},  # the first rows see no key, nor does the first block
        {"window": 70},
        {"sq": 300, "sk": 131, "window": 5, "causal": 0},
        {"sq": 1, "sk": 500},
        {"sq": 500, "sk": 1},
        {"sq": 128, "sk": 128},
    ],
)
def test_every_mask_and_length_comes_out_right(changes: Symbols, emulate: Emulate) -> None:
    check(emulate, case(**changes))


@pytest.mark.parametrize("distribution", TASK.distributions)
def test_every_distribution_comes_out_right(distribution: str, emulate: Emulate) -> None:
    check(emulate, case(), distribution)


@pytest.mark.parametrize("section", [1, 3, 6])
def test_sections_of_heads_cover_all_heads_once(section: int, emulate: Emulate) -> None:
    check(emulate, case(b=2, sq=140, sk=70, h=4), section=section)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_89", "sm_90a"])
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("d", [64, 96, 128, 256])
def test_every_head_dimension_comes_out_right(d: int, dtype: str, arch: str, emulate: Emulate) -> None:
    check(emulate, case(d=d, dtype=dtype, h=1, hkv=1), arch=arch)
    check(emulate, case(d=d, dtype=dtype, sq=77, sk=77, h=2, hkv=1), "rising", arch=arch)
    check(emulate, case(d=d, dtype=dtype, h=1, hkv=1, window=70), arch=arch)


@pytest.mark.slow
@pytest.mark.parametrize("d", [64, 96, 128, 256])
@pytest.mark.parametrize(
    "knobs",
    [{"STAGES": 1}, {"STAGES": 3}, {"BLOCK_N": 32}, {"BLOCK_N": 96}, {"WARPS": 8}, {"BLOCK_M": 64}, {"HOLD_Q": 0}, {"HOLD_Q": 1}],
    ids=str,
)
def test_every_knob_leaves_the_result_right(knobs: dict[str, int], d: int, emulate: Emulate) -> None:
    check(emulate, case(d=d, h=1, hkv=1, window=40), knobs=knobs)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        __syncthreads();\n        if (DEPTH == 1) {", "        if (DEPTH == 1) {"),  # a barrier less
        ("ptx::wait_copies<(DEPTH > 1 ? DEPTH - 2 : 0)>()", "ptx::wait_copies<1>()"),  # a copy not waited for
        ("span == 8 ? row & 7", "span == 8 ? 0"),  # no swizzle
        ("row < valid ? 16 : 0", "16"),  # a tail that is read
        ("lane % 8 + lane / 16 * 8, lane / 8 % 2", "lane % 16, lane / 16"),  # keys in the order of q
    ],
)
def test_the_emulator_sees_what_goes_wrong(old: str, new: str, emulate: Emulate) -> None:
    assert SOURCE.count(old) == 1
    with pytest.raises(AssertionError):
        check(emulate, case(sq=128, sk=301), edit=(old, new))
