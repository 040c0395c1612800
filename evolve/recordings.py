"""What the answerer ``recorded`` replays: the answers of an earlier run, or those in a folder."""

from pathlib import Path

from evolve.config import ConfigError
from mutators.answerers.recorded import RecordedAnswerer, Recording, recordings_in
from results.errors import RunError
from results.events import StepAsked, StepPosed
from results.folder import find_run, holds_run
from results.reader import Reader


def recorded_answers(source: str) -> RecordedAnswerer:
    """An answerer from a run (its name below runs/ or its folder) or a folder of files. Raises ConfigError."""
    folder = Path(source)
    try:
        plain = folder.is_dir() and not holds_run(folder)
        recordings = recordings_in(folder) if plain else _of_run(find_run(source))
    except (RunError, OSError) as error:
        raise ConfigError(f"[recorded] source = {source!r}: {error}") from None
    if not recordings:
        raise ConfigError(f"[recorded] source = {source!r} holds no answers; name a run, or files such as 17.md for step 17")
    return RecordedAnswerer(recordings, source)


def _of_run(folder: Path) -> tuple[Recording, ...]:
    hashes: dict[int, str] = {}
    found = []
    with Reader.open(folder) as reader:
        for recorded in reader.events():
            match recorded.event:
                case StepPosed(step=step, prompt_hash=prompt_hash):
                    hashes[step.number] = prompt_hash
                case StepAsked(step=step, answer=answer) if answer is not None:
                    found.append(Recording(answer=answer, step=step.number, prompt_hash=hashes.get(step.number)))
    return tuple(found)
