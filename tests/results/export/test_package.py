"""An exported package in use: right, traceable, inside its domain, and clear about everything else."""

import importlib
import shutil
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import library as registry
from torch.nn import functional

from evolve.exporting import gather
from results.export.writer import write_torch
from results.reader import Reader
from tests.evolve.exported import final_of, run_with, seed

NAME = "exported_for_tests"
Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an exported package."""
    place = tmp_path_factory.mktemp("export")
    run_with(place / "run", final_of(seed()))
    with Reader.open(place / "run") as reader:
        return write_torch(gather(reader, seed().id, NAME), place / "package")


@pytest.fixture(scope="module")
def package(written: Path) -> Iterator[ModuleType]:
    """The package, imported from its folder."""
    sys.path.insert(0, str(written))
    yield importlib.import_module(NAME)
    sys.path.remove(str(written))


@pytest.fixture(autouse=True)
def strict(package: ModuleType) -> None:
    """Nothing falls back unless a test says so."""
    package.on_outside("raise")


def qkv(sq: int = 256, sk: int = 256, *, b: int = 1, h: int = 8, hkv: int = 2, d: int = 64) -> Tensors:
    generator = torch.Generator().manual_seed(sq + sk + d)
    shapes = ((b, sq, h, d), (b, sk, hkv, d), (b, sk, hkv, d))
    q, k, v = (torch.randn(shape, generator=generator) for shape in shapes)
    return q, k, v


def right(package: ModuleType, tensors: Tensors, causal: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    exact = importlib.import_module(f"{NAME}.attention_torch").exact
    found: tuple[torch.Tensor, torch.Tensor] = exact(*tensors, tensors[0].shape[-1] ** -0.5, causal, 0)
    return found


def test_the_operator_is_right_for_odd_lengths_within_the_tested_ones(package: ModuleType) -> None:
    tensors = qkv(151, 389)
    out, lse = package.attention_forward(*tensors, 0.125, 1, 0)
    expected, expected_lse = right(package, tensors)
    assert (out - expected).abs().max() < 1e-5
    assert (lse - expected_lse).abs().max() < 1e-4


def test_torch_finds_no_fault_with_the_registration(package: ModuleType) -> None:
    operator = getattr(torch.ops, NAME).attention_forward.default
    found = registry.opcheck(operator, (*qkv(), 0.125, 1, 0))
    assert set(found.values()) == {"SUCCESS"}


def test_both_entry_points_compile_without_a_break(package: ModuleType) -> None:
    q, k, v = qkv()
    turned = [tensor.transpose(1, 2) for tensor in (q, k, v)]
    torch_form = torch.compile(
        lambda *three: package.scaled_dot_product_attention(*three, is_causal=True, enable_gqa=True),
        fullgraph=True,
        backend="aot_eager",
    )
    expected = functional.scaled_dot_product_attention(*turned, is_causal=True, enable_gqa=True)
    assert (torch_form(*turned) - expected).abs().max() < 1e-5
    flash_form = torch.compile(lambda *three: package.flash_attn_func(*three, causal=True), fullgraph=True, backend="aot_eager")
    assert (flash_form(q, k, v) - expected.transpose(1, 2)).abs().max() < 1e-5


def test_strided_and_shifted_inputs_give_the_same_bits(package: ModuleType) -> None:
    q, k, v = qkv()
    expected = package.attention_forward(q, k, v, 0.125, 1, 0)[0]
    strided = q.transpose(1, 2).contiguous().transpose(1, 2)
    shifted = torch.cat([torch.zeros(1), k.flatten()])[1:].view(k.shape)
    assert torch.equal(package.attention_forward(strided, shifted, v, 0.125, 1, 0)[0], expected)


def test_an_empty_batch_gives_empty_outputs(package: ModuleType) -> None:
    out, lse = package.attention_forward(*(tensor[:0] for tensor in qkv()), 0.125, 1, 0)
    assert (out.shape, lse.shape) == ((0, 256, 8, 64), (0, 8, 256))


def test_many_threads_get_their_own_answers(package: ModuleType) -> None:
    cases = [qkv(200 + number, 300) for number in range(6)]
    found: dict[int, torch.Tensor] = {}

    def work(number: int) -> None:
        found[number] = package.attention_forward(*cases[number], 0.125, 1, 0)[0]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((found[number] - right(package, cases[number])[0]).abs().max() < 1e-5 for number in range(6))


def test_a_gradient_is_refused(package: ModuleType) -> None:
    q, k, v = qkv()
    with pytest.raises(package.CannotRun, match="no backward"):
        package.attention_forward(q.requires_grad_(), k, v, 0.125, 1, 0)
    with torch.no_grad():
        package.attention_forward(q, k, v, 0.125, 1, 0)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"tensors": qkv(d=32)}, "d = 32"),
        ({"tensors": qkv(600, 600)}, "sq = 600"),
        ({"tensors": tuple(tensor.bfloat16() for tensor in qkv())}, "dtype = bf16"),
        ({"tensors": tuple(tensor.double() for tensor in qkv())}, "float64"),
        ({"tensors": qkv(), "scale": 0.5}, "scale = 0.5"),
        ({"tensors": qkv(), "window": 17}, "window = 17"),
        ({"tensors": tuple(tensor.to("meta") for tensor in qkv(d=48)[:1]) + qkv(d=64)[1:]}, "argument k"),
    ],
)
def test_what_was_not_tested_is_named(package: ModuleType, change: dict[str, object], says: str) -> None:
    tensors: Tensors = change["tensors"]  # type: ignore[assignment]
    with pytest.raises(package.CannotRun, match=says):
        package.attention_forward(*tensors, change.get("scale", 0.125), 1, change.get("window", 0))


def test_outside_the_domain_torch_answers_with_one_warning(package: ModuleType) -> None:
    package.on_outside("warn")
    tensors = qkv(48, 700, d=32)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        first = package.attention_forward(*tensors, 32**-0.5, 1, 0)
        package.attention_forward(*tensors, 32**-0.5, 1, 0)
    expected, expected_lse = right(package, tensors)
    assert len(caught) == 1
    assert "d = 32" in str(caught[0].message)
    assert (first[0] - expected).abs().max() < 1e-5
    assert (first[1] - expected_lse).abs().max() < 1e-4


def test_a_mask_a_dropout_and_a_top_left_mask_go_to_torch(package: ModuleType) -> None:
    q, k, v = (tensor.transpose(1, 2) for tensor in qkv(128, 300))
    package.on_outside("silent")
    mask = torch.rand(128, 300) > 0.5
    for options in ({"attn_mask": mask}, {"is_causal": True}):
        found = package.scaled_dot_product_attention(q, k, v, enable_gqa=True, **options)
        assert torch.equal(found, functional.scaled_dot_product_attention(q, k, v, enable_gqa=True, **options))
    package.on_outside("raise")
    with pytest.raises(package.CannotRun, match="dropout"):
        package.scaled_dot_product_attention(q, k, v, dropout_p=0.1, enable_gqa=True)


def test_autocast_casts_as_torchs_own_function_does(package: ModuleType) -> None:
    q, k, v = (tensor.transpose(1, 2) for tensor in qkv())
    package.on_outside("silent")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = package.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    assert found.dtype is torch.bfloat16


def test_another_cpu_builds_the_kernel_from_its_source(
    package: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    module = importlib.import_module(f"{NAME}.cpu_kernel")
    monkeypatch.setattr(module, "_cpu_has", lambda needed: False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kernel = module.CpuKernel(module.FOLDER / "kernels", package.OPERATOR.kernel)
    tensors = qkv()
    out, lse = torch.empty(1, 256, 8, 64), torch.empty(1, 8, 256)
    values = {"b": 1, "sq": 256, "sk": 256, "h": 8, "hkv": 2, "d": 64, "causal": 1, "window": 0, "dtype": "fp32", "scale": 0.125}
    kernel.launch(dict(zip(("q", "k", "v", "out", "lse"), (*tensors, out, lse), strict=True)), values)
    assert (out - right(package, tensors)[0]).abs().max() < 1e-5
    monkeypatch.setattr(module.shutil, "which", lambda name: None)
    with pytest.raises(package.CannotRun, match=r"g\+\+ isn't on the PATH"):
        module.CpuKernel(module.FOLDER / "kernels", package.OPERATOR.kernel).launch(
            dict(zip(("q", "k", "v", "out", "lse"), (*tensors, out, lse), strict=True)), values
        )


@pytest.mark.parametrize(
    ("name", "spoil", "says"),
    [
        ("kernels/build0.so", lambda path: path.write_bytes(path.read_bytes()[:-1]), "isn't the file that was exported"),
        ("kernels/kernel.cpp", lambda path: path.unlink(), "can't be read"),
        ("manifest.json", lambda path: path.write_text("{}"), "names no files"),
        ("manifest.json", lambda path: path.write_text("no JSON"), "isn't JSON"),
        ("kernels/more.so", lambda path: path.write_bytes(b"x"), "isn't named by the manifest"),
    ],
)
def test_a_damaged_package_is_refused_at_import(written: Path, tmp_path: Path, name: str, spoil: object, says: str) -> None:
    shutil.copytree(written / NAME, tmp_path / NAME)
    spoil(tmp_path / NAME / name)  # type: ignore[operator]
    check = importlib.import_module("results.export.runtime.package").check_manifest
    with pytest.raises(RuntimeError, match=says):
        check(tmp_path / NAME)


def test_a_forked_child_has_threads_of_its_own(written: Path) -> None:
    program = (
        f"import os, torch, {NAME}\n"
        "a = [torch.randn(1, 256, 4, 64) for _ in range(3)]\n"
        f"first = {NAME}.attention_forward(*a, 0.125, 0, 0)[0]\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        f"    os._exit(0 if torch.equal({NAME}.attention_forward(*a, 0.125, 0, 0)[0], first) else 1)\n"
        "raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=written, timeout=120, check=False).returncode == 0


@pytest.mark.slow
def test_a_small_llama_gives_the_same_logits(package: ModuleType) -> None:
    transformers = pytest.importorskip("transformers")
    transformers.AttentionInterface.register(NAME, package.transformers_attention)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=128, hidden_size=512, intermediate_size=256, num_hidden_layers=2, num_attention_heads=8, num_key_value_heads=2
    )
    model = transformers.LlamaForCausalLM(config).eval()
    words = torch.randint(0, 128, (1, 256))
    logits = {}
    with torch.no_grad():
        for name in ("sdpa", NAME):
            model.set_attn_implementation(name)
            logits[name] = model(words, use_cache=False).logits
    assert (logits["sdpa"] - logits[NAME]).abs().max() < 1e-4
