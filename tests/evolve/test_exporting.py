"""From a run to a package: what is gathered, what is refused, and a package that is installed and used."""

import json
import re
import subprocess
import sys
import venv
from dataclasses import replace
from pathlib import Path

import pytest

from evaluator.outcome import Verdict
from evaluator.task import load_task
from evolve.exporting import ExportRefused, exact_symbols, gather
from results.export.writer import write_torch
from results.reader import Reader
from tests.evolve.exported import SET, TASK, final_of, run_with, seed


def refused(folder: Path, **changes: object) -> str:
    """Why a kernel with such a final isn't exported."""
    run_with(folder, final_of(seed(), **changes))
    with Reader.open(folder) as reader, pytest.raises(ExportRefused) as caught:
        gather(reader, seed().id, None)
    return str(caught.value)


def test_without_a_final_the_command_that_makes_one_is_named(tmp_path: Path) -> None:
    folder = run_with(tmp_path / "run", None)
    with Reader.open(folder) as reader, pytest.raises(ExportRefused, match="no final") as caught:
        gather(reader, seed().id, None)
    assert f"askevolve final {folder} {seed().id[:10]}" in str(caught.value)


def test_a_stale_final_is_refused_and_the_text_says_what_changed(tmp_path: Path) -> None:
    final = final_of(seed())
    elsewhere = replace(final.device, name="another CPU")
    assert "harness version 1" in refused(tmp_path / "old", harness="1-0123456789")
    assert "has changed" in refused(tmp_path / "task", task_hash="c0ffee")
    assert "another CPU" in refused(tmp_path / "device", device=elsewhere)
    assert "AMBIGUOUS" in refused(tmp_path / "verdict", verdict=Verdict.AMBIGUOUS)


def test_only_the_head_dimension_mask_and_type_are_exact() -> None:
    assert exact_symbols(load_task(TASK).card(SET)) == ("d", "causal", "window", "dtype")


def test_what_no_check_covered_is_not_in_the_domain(tmp_path: Path) -> None:
    final = final_of(seed())
    kept = [check for check in final.checks if check.scenario == "d64_h4_256_full"]
    run_with(tmp_path / "run", replace(final, checks=tuple(kept)))
    with Reader.open(tmp_path / "run") as reader:
        spec = gather(reader, seed().id, None)
    assert [point.name for point in spec.tested] == ["d64_h4_256_full"]
    assert not spec.between


def test_the_verb_refuses_a_folder_that_is_there(tmp_path: Path) -> None:
    from evolve.cli.exporting import export
    from evolve.cli.output import CommandError

    with pytest.raises(CommandError, match="already there"):
        export("nowhere", tmp_path)
    with pytest.raises(CommandError, match="lower-case"):
        export("nowhere", tmp_path / "new", name="Ünfit")


def test_the_verb_writes_a_package_with_its_provenance(tmp_path: Path) -> None:
    from evolve.cli.exporting import export

    run_with(tmp_path / "run", final_of(seed()))
    export(str(tmp_path / "run"), tmp_path / "out", name="handed-over")
    package = tmp_path / "out" / "handed_over"
    provenance = json.loads((package / "provenance.json").read_text())
    assert provenance["candidate"] == seed().id
    assert provenance["lineage"] == [{"id": seed().id, "origin": "seed", "step": 0, "question": None}]
    assert provenance["score"]["geomean"] == 1.1
    kernel = json.loads((package / "kernels" / "kernel.json").read_text())
    assert kernel["archs"] == ["x86_64"]
    assert [build["defines"]["HEAD_DIM"] for build in kernel["builds"]] == ["64", "128"]
    texts = "".join(path.read_text() for path in package.rglob("*.py"))
    assert not re.search(r"^\s*(from|import) (evaluator|evolve|population|results|mutators)\b", texts, re.MULTILINE)


USE = """
import json, torch, handed_over
q = torch.randn(1, 256, 8, 64); k = torch.randn(1, 256, 2, 64); v = torch.randn(1, 256, 2, 64)
handed_over.on_outside("raise")
out, lse = handed_over.attention_forward(q, k, v, 0.125, 1, 0)
right, right_lse = handed_over.attention_torch.exact(q, k, v, 0.125, 1, 0)
print(json.dumps([handed_over.__file__, float((out - right).abs().max()), float((lse - right_lse).abs().max())]))
"""


@pytest.mark.slow
def test_the_package_installs_without_an_index_and_runs_in_a_fresh_environment(tmp_path: Path) -> None:
    run_with(tmp_path / "run", final_of(seed()))
    with Reader.open(tmp_path / "run") as reader:
        folder = write_torch(gather(reader, seed().id, "handed-over"), tmp_path / "package")
    home = tmp_path / "fresh"
    venv.create(home, with_pip=True, system_site_packages=False)
    python = str(home / "bin" / "python")
    # torch comes from the test's own environment, which a nested environment's system packages may not be
    (next((home / "lib").glob("python*")) / "site-packages" / "torch_of_the_test.pth").write_text(
        "\n".join(path for path in sys.path if path.endswith("site-packages"))
    )
    argv = [python, "-m", "pip", "install", "--no-deps", "--no-index", "--disable-pip-version-check", str(folder)]
    subprocess.run(argv, check=True, capture_output=True, cwd=tmp_path)
    done = subprocess.run([python, "-c", USE], check=True, capture_output=True, text=True, cwd=tmp_path)
    place, error, lse_error = json.loads(done.stdout)
    assert str(home) in place
    assert error < 1e-5
    assert lse_error < 1e-4
    verified = subprocess.run(
        [python, "-m", "handed_over.verify", "--json", "--blocks", "6"], check=True, capture_output=True, text=True, cwd=tmp_path
    )
    document = json.loads(verified.stdout)
    assert document["passed"]
    assert len(document["races"]) == 4
    assert len(document["checks"]) == 12
