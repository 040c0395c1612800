import ast
from pathlib import Path

import pytest

from evolve.config import ConfigError, RunConfig, changes, load_config, resumable
from tests.evolve.simulation import config

ROOT = Path(__file__).parents[2]
GOOD = """
[run]
name = "first"
[task]
scenarios = "cpu_small"
[population]
seeds = ["cpu_plain", "./mine.cpp"]
[budget]
candidates = 40
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "run.toml"
    path.write_text(text)
    return path


def test_defaults_file_and_overrides_in_this_order(tmp_path: Path) -> None:
    found = load_config(written(tmp_path, GOOD), ["budget.candidates=12", "run.name=second", "goal.expression=worst(a) > 1"])
    assert (found.run.name, found.run.seed) == ("second", 0)
    assert found.budget.candidates == 12
    assert found.goal.expression == "worst(a) > 1"
    assert found.executor.kind == "ray"


def test_paths_are_taken_from_the_file_and_names_stay(tmp_path: Path) -> None:
    found = load_config(written(tmp_path, GOOD), ["task.name=./my_task"])
    assert found.population.seeds == ("cpu_plain", str(tmp_path / "mine.cpp"))
    assert found.task.name == str(tmp_path / "my_task")


@pytest.mark.parametrize(
    ("text", "overrides", "says"),
    [
        (GOOD.replace("seeds =", "seds ="), [], "unknown key 'seds' in [population]; did you mean 'seeds'?"),
        (GOOD, ["population.seeds=cpu_blokced"], '[population] seeds must be a list, such as ["cpu_blokced"]'),
        (GOOD + '\n[chat.models]\nname = "a"\n', [], "[chat] models must be tables, each under [[chat.models]]"),
        (GOOD.replace("[budget]", "[budgt]"), [], "unknown table or key 'budgt'; did you mean 'budget'?"),
        (GOOD.replace("[budget]", "[xyz]"), [], "it may hold: run, task, population, mutation"),
        (GOOD.replace('name = "first"', ""), [], "[run] name is missing; write name = ..."),
        (GOOD.split("[budget]", maxsplit=1)[0], [], "[budget] is missing; add a table [budget]"),
        (GOOD, ["budget.candidates='many'"], "[budget] candidates = 'many': input should be a valid integer"),
        (GOOD, ["executor.workers=true"], "[executor] workers = True: input should be a valid integer"),
        (GOOD, ["executor.workers=0"], "greater than or equal to 1"),
        (GOOD, ["budget.hours=nan"], "[budget] hours = nan"),
        (GOOD, ["task.backend=gpu"], "input should be 'cpu', 'cuda' or 'simulated'"),
        (GOOD, ["budget.candidates=1"], "doesn't pay for the 2 seeds"),
        (GOOD, ["run.name=../up"], "[run] name = '../up'"),
        (GOOD, ["goal.expression=geomaen(fa3) > 1"], "did you mean 'geomean'?"),
        (GOOD, ["islands=3"], "--set islands=3: write it as table.key=value"),
        (GOOD, ["population.islnds=3"], "did you mean 'islands'?"),
        ("run = 3\n" + GOOD.replace('[run]\nname = "first"', ""), [], "[run] must be a table, not 3"),
        ("[run", [], "not valid TOML"),
    ],
)
def test_errors_name_file_place_and_remedy(tmp_path: Path, text: str, overrides: list[str], says: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_config(path, overrides)
    assert says in str(caught.value)
    assert str(path) in str(caught.value) or "--set" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no such file.*askevolve init"):
        load_config(tmp_path / "none.toml")


def test_the_hash_is_that_of_the_values_not_of_the_text(tmp_path: Path) -> None:
    first = load_config(written(tmp_path, GOOD))
    same = load_config(written(tmp_path, "# a comment\n" + GOOD + "[run.x]\n".replace("[run.x]\n", "")))
    assert first.hash == same.hash
    assert first.hash != load_config(written(tmp_path, GOOD), ["run.seed=1"]).hash
    assert RunConfig.model_validate(first.mapping()) == first


def test_only_budget_and_executor_may_change_on_resume() -> None:
    old = config()
    assert resumable(old, config(budget={"candidates": 30}, executor={"workers": 2})) == {
        "budget.candidates": (24, 30),
        "executor.workers": (1, 2),
    }
    with pytest.raises(ConfigError, match=r"population\.islands: 2 -> 3"):
        resumable(old, config(population={"islands": 3}))
    assert changes(old, old) == {}


def test_every_key_is_read_somewhere() -> None:
    read: set[tuple[str, str]] = set()
    for path in (ROOT / "evolve").rglob("*.py"):
        if path.name == "config.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                value = node.value
                table = value.attr if isinstance(value, ast.Attribute) else value.id if isinstance(value, ast.Name) else ""
                read.add((table, node.attr))
    local = {"table": ("executor", "evaluation", "command", "chat")}  # names that parts.py and chat.py give to a table
    read |= {(table, key) for name, key in read if name in local for table in local[name]}
    fields = {
        (name, key)
        for name, field in RunConfig.model_fields.items()
        for key in field.annotation.model_fields  # type: ignore[union-attr]
    }
    assert fields - read == set()
