"""Whether a test that a table or a page names is there."""

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).parents[1]


@functools.cache
def tests_of(file: str) -> frozenset[str]:
    """Names of the tests in a file, methods of classes among them; none where the file isn't there."""
    path = ROOT / file
    if not path.is_file():
        return frozenset()
    nodes = ast.walk(ast.parse(path.read_text()))
    return frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))


def exists(node: str) -> bool:
    """Whether ``tests/.../test_x.py::test_y`` names a test."""
    file, _, name = node.partition("::")
    return name in tests_of(file)
