"""The configuration of a run: TOML file and ``--set`` overrides to one frozen, validated, hashed value.

Precedence: defaults < file < overrides. Unknown keys are errors that name the nearest valid key.
"""

import difflib
import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator
from pydantic_core import ErrorDetails

from evolve.config_chat import ChatTable, check_chat
from evolve.goal import GoalError, parse_goal
from population.candidate import hash_text
from results.folder import holds_run

Count = Annotated[int, Field(strict=True, ge=1)]
Seconds = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
Hours = Seconds
Name = Annotated[str, StringConstraints(strict=True, min_length=1)]

SAFE_ON_RESUME = ("budget", "executor", "command", "recorded", "chat", "mutation.answerer")
"""Tables and keys that may change when a run is resumed: they say how long, where, and who answers, never what is searched."""


class ConfigError(Exception):
    """The configuration can't be used; the text says what, where, and what to write instead."""


class BudgetRefused(ConfigError):  # noqa: N818  (says what is the matter)
    """The budget can't pay for what a run must do before it may ask its first question."""


class Table(BaseModel):
    """A TOML table: frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class RunTable(Table):
    """``[run]``: the run's name (also its folder's) and the seed of every random stream."""

    name: Annotated[str, StringConstraints(strict=True, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    seed: Annotated[int, Field(strict=True, ge=0)] = 0


class TaskTable(Table):
    """``[task]``: a task's name or folder, one of its scenario sets, and the backend that runs candidates."""

    name: Name = "attention_forward"
    scenarios: Name
    backend: Literal["cpu", "cuda", "simulated"] = "cpu"


class PopulationTable(Table):
    """``[population]``: seed kernels (names of the task's, or files), islands, members kept on each island, attempts without
    an improvement after which an island starts again (0: never), and the policy that chooses parents
    (``population.selection.POLICIES``).
    """

    seeds: Annotated[tuple[Name, ...], Field(min_length=1)]
    islands: Count = 2
    capacity: Count = 16
    reset_after: Annotated[int, Field(strict=True, ge=0)] = 0
    selection: Literal["rank", "best", "even", "tournament", "beam"] = "rank"


class MutationTable(Table):
    """``[mutation]``: who answers, how a step's matter is put, after how many attempts without an improvement an island is
    stalled, and after how many steps in a row without a new candidate the search is exhausted.
    """

    answerer: Literal["knobs", "mailbox", "command", "recorded", "chat"] = "knobs"
    style: Literal["question", "command", "tools"] = "question"
    stall_after: Count = 10
    exhausted_after: Count = 30


class SweepTable(Table):
    """``[sweep]``: evaluations that may turn a kernel's knobs after an accepted edit (docs/questions.md); 0: none."""

    evaluations: Annotated[int, Field(strict=True, ge=0)] = 6


class CommandTable(Table):
    """``[command]``: the program of ``answerer = "command"`` with its arguments, seconds it may take, how many at once, and the
    names of the variables of the driver's environment that it is given.
    """

    program: tuple[Name, ...] = ()
    time_limit_s: Seconds = 1800.0
    at_once: Count = 2
    environment: tuple[Name, ...] = ("PATH", "HOME", "LANG")


class RecordedTable(Table):
    """``[recorded]``: the run, or the folder of answers, that ``answerer = "recorded"`` replays."""

    source: Name | None = None


class EvaluationTable(Table):
    """``[evaluation]``: how thorough, where a race may end, threads of each side, and the least deadline of an execution.

    ``pace`` "full" gives numbers to publish, "quick" wider intervals in seconds a candidate. ``looks`` keeps the first of the
    four checkpoints (8, 16, 32, 64 blocks); where it is absent, the pace decides. ``threads`` 0: all cores but one.
    """

    pace: Literal["quick", "full"] = "full"
    looks: Annotated[int, Field(strict=True, ge=1, le=4)] | None = None
    threads: Annotated[int, Field(strict=True, ge=0)] = 0
    least_deadline_s: Seconds = 2.0


class ExecutorTable(Table):
    """``[executor]``: Ray, processes of this host or this process; how many evaluations at once; how many proposals may be open.

    On the cuda backend each of ``workers`` has a GPU to itself. ``lookahead`` decides what a proposal may see (proposal k:
    results up to k - lookahead); ``workers`` never does.
    """

    kind: Literal["ray", "processes", "inline"] = "ray"
    workers: Count = 1
    lookahead: Count = 2
    ray_address: Name | None = None


class BudgetTable(Table):
    """``[budget]``: evaluations paid for (seeds included), wall hours, what answers may cost in tokens and US dollars, and hours
    for which evaluations hold a GPU; each summed over all sessions.
    """

    candidates: Count
    hours: Hours | None = None
    tokens: Count | None = None
    usd: Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)] | None = None
    gpu_hours: Hours | None = None


class GoalTable(Table):
    """``[goal]``: a predicate that a verified final must meet; docs/goals.md has the grammar."""

    expression: Name | None = None


class RunConfig(Table):
    """The resolved configuration of a run."""

    run: RunTable
    task: TaskTable
    population: PopulationTable
    mutation: MutationTable = MutationTable()
    sweep: SweepTable = SweepTable()
    command: CommandTable = CommandTable()
    recorded: RecordedTable = RecordedTable()
    chat: ChatTable = ChatTable()
    evaluation: EvaluationTable = EvaluationTable()
    executor: ExecutorTable = ExecutorTable()
    budget: BudgetTable
    goal: GoalTable = GoalTable()

    @model_validator(mode="after")
    def _consistent(self) -> "RunConfig":
        if self.goal.expression is not None:
            try:
                parse_goal(self.goal.expression)
            except GoalError as error:
                raise ValueError(f"[goal] expression: {error}") from None
        if self.mutation.answerer == "command" and not self.command.program:
            raise ValueError('[mutation] answerer = "command" needs [command] program = ["./my_program", "--its-option"]')
        if self.mutation.answerer == "recorded" and self.recorded.source is None:
            raise ValueError('[mutation] answerer = "recorded" needs [recorded] source = "a run, or a folder of answers"')
        if self.mutation.answerer == "chat":
            check_chat(self.chat, self.budget.usd, self.budget.tokens)
        return self

    @property
    def warnings(self) -> Sequence[str]:
        """What a person should know before the run spends anything."""
        return check_chat(self.chat, self.budget.usd, self.budget.tokens) if self.mutation.answerer == "chat" else ()

    @property
    def hash(self) -> str:
        """SHA-256 of the resolved values, 64 hexadecimal digits; independent of layout and order of the file."""
        return hash_text(json.dumps(self.mapping(), sort_keys=True))

    def mapping(self) -> dict[str, dict[str, object]]:
        """The resolved values as nested mappings of JSON types, as the store keeps them."""
        dumped: dict[str, dict[str, object]] = self.model_dump(mode="json")
        return dumped


def load_config(path: Path, overrides: Sequence[str] = ()) -> RunConfig:
    """The configuration in a TOML file with ``table.key=value`` overrides. Raises ConfigError.

    Seeds and tasks written as paths are taken relative to the file's folder.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; `askevolve init` writes an example to start from") from None
    except IsADirectoryError:
        resume = f"; the run in it goes on by: askevolve resume {path}" if holds_run(path) else ""
        raise ConfigError(f"{path}: is a folder, where a run's TOML file is wanted{resume}") from None
    except OSError as error:
        raise ConfigError(f"{path}: can't be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is no UTF-8 text ({error.reason} at byte {error.start})") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None
    return anchored(validated(overridden(values, overrides), str(path)), path.parent)


def overridden(values: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """A copy of the nested values with ``table.key=value`` applied; a value that isn't TOML is taken as a string."""
    merged = {table: dict(keys) if isinstance(keys, Mapping) else keys for table, keys in values.items()}
    for override in overrides:
        target, equals, text = override.partition("=")
        table, dot, key = target.strip().partition(".")
        if not equals or not dot or not table or not key or "." in key:
            raise ConfigError(f"--set {override}: write it as table.key=value, such as budget.candidates=40")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            value = text.strip()
        keys = merged.setdefault(table, {})
        if not isinstance(keys, dict):
            raise ConfigError(f"--set {override}: '{table}' is a value in the file, not a table")
        keys[key] = value
    return merged


def validated(values: Mapping[str, Any], source: str) -> RunConfig:
    """The configuration held by nested values; ``source`` names them in messages.

    Raises ConfigError with one line for each fault, and BudgetRefused where the budget doesn't pay for the seeds.
    """
    try:
        config = RunConfig.model_validate(values)
    except ValidationError as error:
        found = error.errors()
        misspelt = [detail for detail in found if detail["type"] == "extra_forbidden"]  # what is missing follows from these
        raise ConfigError("\n".join(f"{source}: {_explained(detail)}" for detail in misspelt or found)) from None
    budget, seeds = config.budget.candidates, len(config.population.seeds)
    if budget < seeds:
        raise BudgetRefused(
            f"{source}: [budget] candidates = {budget} doesn't pay for the {seeds} seeds, each of which is evaluated once; "
            f"set it to {seeds} or more"
        )
    return config


def changes(old: RunConfig, new: RunConfig) -> dict[str, tuple[object, object]]:
    """What differs, as ``table.key`` to (old, new)."""
    before, after = old.mapping(), new.mapping()
    return {
        f"{table}.{key}": (before[table][key], value)
        for table, keys in after.items()
        for key, value in keys.items()
        if before[table][key] != value
    }


def resumable(old: RunConfig, new: RunConfig) -> dict[str, tuple[object, object]]:
    """The changes between two configurations of one run. Raises ConfigError where one isn't safe on resume."""
    found = changes(old, new)
    unsafe = [key for key in found if key not in SAFE_ON_RESUME and key.split(".")[0] not in SAFE_ON_RESUME]
    if unsafe:
        lines = [f"  {key}: {found[key][0]!r} -> {found[key][1]!r}" for key in unsafe]
        raise ConfigError(
            "a resumed run may change only " + ", ".join(SAFE_ON_RESUME) + "; these differ:\n"
            + "\n".join(lines) + "\nstart a new run for them, under another name"
        )  # fmt: skip
    return found


def anchored(config: RunConfig, folder: Path) -> RunConfig:
    """The configuration with what it names by paths made absolute, relative ones from ``folder``: seeds, task, the program
    that answers, the answers to replay.
    """
    population = config.population.model_copy(
        update={"seeds": tuple(_anchored_path(seed, folder) for seed in config.population.seeds)}
    )
    task = config.task.model_copy(update={"name": _anchored_path(config.task.name, folder)})
    program = config.command.program
    command = config.command.model_copy(update={"program": (*(_anchored_path(one, folder) for one in program[:1]), *program[1:])})
    source = config.recorded.source
    recorded = config.recorded.model_copy(update={"source": source and _anchored_path(source, folder)})
    return config.model_copy(update={"population": population, "task": task, "command": command, "recorded": recorded})


def _anchored_path(text: str, folder: Path) -> str:
    """An absolute path where the text is a path (it holds a slash), the text itself where it is a name."""
    return str((folder / text).expanduser().resolve()) if "/" in text else text


def _explained(detail: ErrorDetails) -> str:
    """One sentence for one validation error: where, what, and what to write instead."""
    place = [str(part) for part in detail["loc"]]
    kind, value = detail["type"], detail["input"]
    secret = place[:1] == ["chat"] and not isinstance(value, int | float)  # a key may stand there by mistake
    where = f"[{place[0]}] {'.'.join(place[1:])}" if len(place) > 1 else f"[{place[0]}]" if place else ""
    if kind == "extra_forbidden":
        valid = _keys_of(place[:-1])
        near = difflib.get_close_matches(place[-1], valid, n=1, cutoff=0.5)
        table = ".".join(part for part in place[:-1] if not part.isdigit())
        what = f"unknown key '{place[-1]}' in [{table}]" if len(place) > 1 else f"unknown table or key '{place[0]}'"
        return f"{what}; " + (f"did you mean '{near[0]}'?" if near else f"it may hold: {', '.join(valid)}")
    if kind == "missing":
        return f"{where} is missing; " + (f"write {place[-1]} = ..." if len(place) > 1 else f"add a table [{place[0]}]")
    if kind == "value_error":
        return detail["msg"].removeprefix("Value error, ")
    if kind == "tuple_type" and isinstance(value, Mapping):
        return f"{where} must be tables, each under [[{'.'.join(place)}]]"
    if kind == "tuple_type":
        return f"{where} must be a list, such as [{json.dumps('name' if secret else str(value))}]"
    if kind in {"model_type", "model_attributes_type"}:
        return f"{where} must be a table" + ("" if secret else f", not {value!r}")
    if kind == "string_pattern_mismatch":
        return f"{where} = {value!r}: up to 64 letters, digits, '.', '_' and '-', beginning with a letter or digit"
    return f"{where}{'' if secret else f' = {value!r}'}: {detail['msg'][0].lower()}{detail['msg'][1:]}"


def _keys_of(place: Sequence[str]) -> list[str]:
    """Valid keys of the table at a place (the top level where empty)."""
    model: type[BaseModel] = RunConfig
    for part in place:
        if part.isdigit():  # an item of the list that the part before names
            continue
        annotation = model.model_fields[part].annotation
        for one in (annotation, *get_args(annotation)):
            if isinstance(one, type) and issubclass(one, BaseModel):
                model = one
    return list(model.model_fields)
