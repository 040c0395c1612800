"""A resolved plan names every kernel of the file, those included that its scenario doesn't launch."""

from pathlib import Path

from evaluator.outcome import Fault
from evaluator.plan.parse import parse_plan
from evaluator.plan.resolve import resolve
from evaluator.task import load_task
from population.candidate import Language

SOURCE = """/* plan
domain = "dtype == 'fp32'"
[[launch]]
kernel = "short_rows"
when = "sq <= 64"
grid = ["1", "1", "1"]
args = ["q", "k", "v", "out", "lse"]
[[launch]]
kernel = "long_rows"
when = "sq > 64"
grid = ["1", "1", "1"]
args = ["q", "k", "v", "out", "lse"]
*/
"""


def test_all_kernels_of_the_plan_are_named(tmp_path: Path) -> None:
    task = load_task("attention_forward")
    card = task.card("cpu_quick")
    plan = parse_plan(SOURCE, Language.CPP, card)
    assert not isinstance(plan, Fault)
    scenario = card.scenarios[0]
    resolved = resolve(plan, card, scenario, {"sm_count": 1, "shared_limit": 0}, task.scalars(scenario.symbols))
    assert not isinstance(resolved, Fault)
    assert resolved.kernels == ("short_rows", "long_rows")
    assert [launch.kernel for launch in resolved.launches] == ["long_rows"]
