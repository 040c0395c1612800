"""The rules of the house that a machine can hold: file and function size, light help, documented verdicts."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("evolve", "population", "mutators", "evaluator", "results")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
VOCABULARY = (
    "population.candidate",
    "mutators.question",
    "evaluator.outcome",
    "evaluator.task_card",
    "evaluator.expression",
)


@pytest.mark.parametrize("path", SOURCES + sorted((ROOT / "tests").rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_no_file_over_400_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 400


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_function_over_50_lines(path: Path) -> None:
    long = [
        f"{node.name}: {node.end_lineno - node.lineno + 1}"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > 50
    ]
    assert not long


@pytest.mark.parametrize("path", [p for p in SOURCES if p.name == "__init__.py"], ids=lambda p: str(p.relative_to(ROOT)))
def test_package_init_is_empty(path: Path) -> None:
    assert path.read_text().strip() == ""


@pytest.mark.parametrize("module", VOCABULARY)
def test_vocabulary_needs_only_the_standard_library(module: str) -> None:
    code = f"import sys, {module}; print([m for m in ('numpy', 'pydantic', 'torch', 'ray') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
