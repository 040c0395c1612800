"""A run's story as a page: every step stands in it, and its sums are those of the steps."""

from pathlib import Path

from evolve.api import run
from evolve.trace_page import trace_page
from results.reader import Reader
from tests.evolve.simulation import config, shuffled


def rows(lines: list[str], title: str) -> list[list[str]]:
    """The cells of the table below a heading."""
    start = lines.index(f"## {title}") + 4
    table = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in line.strip("|").split("|")])
    return table


def test_every_step_stands_in_the_page_and_sums_agree(tmp_path: Path) -> None:
    folder = run(config(), root=tmp_path, executor=shuffled()).folder
    with Reader.open(folder) as reader:
        lines, steps, info = trace_page(reader), reader.steps(), reader.info()
        best = reader.headline()
    told = rows(lines, "Steps")
    assert [row[0] for row in told] == [str(step.number) for step in steps]
    assert [row[1] for row in told] == [step.entry_id or step.origin.value for step in steps]
    asked = [step for step in steps if step.question_id]
    for title, key in (("By layer", "layer"), ("By moment", "moment")):
        table = rows(lines, title)
        assert {row[0]: int(row[1]) for row in table} == {
            name: sum(getattr(step, key) == name for step in asked) for name in {getattr(step, key) for step in asked}
        }
        assert sum(int(row[3]) for row in table) == info.accepted
    assert best is not None
    assert any(line.startswith(f"Best: {best.id[:10]}") and "Its final: " in line for line in lines)
    assert sum(int(row[2]) for row in rows(lines, "Predictions") if row[1] == "all") == len(asked)
    assert lines[-1].endswith("in their lineage.")
