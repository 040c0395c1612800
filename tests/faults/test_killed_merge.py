"""A merge that is killed leaves all of what came from a place, or nothing of it."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from evolve.api import resume, run
from mutators.question import Answer
from results.mailbox import Mailbox
from results.reader import Reader
from tests.evolve.answering import mailbox_config
from tests.evolve.merging import on
from tests.faults.mounts import needs_mounts

ROOT = Path(__file__).parents[2]


def two_copies(folder: Path) -> tuple[Path, Path]:
    """A run whose seeds wait at home and were evaluated elsewhere, where a prompt has an answer too."""
    home = run(mailbox_config(), root=folder, evaluate=False, until_idle=True).folder
    other = shutil.copytree(home, folder / "other")
    resume(other, executor=on(), until_idle=True)
    with Reader.open(other) as reader:
        first = reader.open_steps()[0].step.number
    Mailbox(other).put(first, Answer(text="from elsewhere", answerer="there"))
    return home, other


def test_all_of_a_merge_is_stored_or_nothing_whenever_it_is_killed(tmp_path: Path) -> None:
    home, other = two_copies(tmp_path)
    command = [sys.executable, "-m", "tests.faults.merging", str(home), str(other)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"killed": 6, "kept": 2}


@needs_mounts
def test_a_copy_on_a_read_only_disk_comes_home(tmp_path: Path) -> None:
    home, other = two_copies(tmp_path)
    (tmp_path / "merge.py").write_text(
        f"import sys\nfrom evolve.cli.app import main\nsys.argv = ['askevolve', 'merge', {str(home)!r}, {str(other)!r}]\nmain()\n"
    )
    script = (
        f"mount --bind {other} {other} && mount -o remount,ro,bind {other} && ! touch {other}/x 2>/dev/null && "
        f"PYTHONPATH={ROOT} {sys.executable} {tmp_path / 'merge.py'}"
    )
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "the run goes on with its events; 1 answers or questions from its mailbox" in done.stdout
