"""Writes a new task folder: a complete small task that works at once, every file commented, to be turned into one's own."""

import re
from pathlib import Path

from evaluator.task_file import TaskError

_TEMPLATE = Path(__file__).parent / "task_template"
_FILES = ("task.toml", "scenarios.toml", "contract.md", "task.py", "baselines.py", "seeds/rows.cpp")


def new_task(folder: Path) -> tuple[Path, ...]:
    """The files written. The task takes the folder's name ("-" becomes "_").

    TaskError where the folder holds something already or its name can't be a task's; nothing is written then.
    """
    name = folder.resolve().name.lower().replace("-", "_")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise TaskError(f"{folder}: a task's name is a letter, then letters, digits and '_'; choose another folder name")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise TaskError(f"{folder} isn't an empty folder; choose a new one, so that nothing is overwritten")
    written = []
    for file in _FILES:
        text = (_TEMPLATE / file).read_text(encoding="utf-8")
        if file == "task.toml":
            text = text.replace('name = "my_task"', f'name = "{name}"', 1)
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return tuple(written)
