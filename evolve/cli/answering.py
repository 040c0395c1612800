"""Commands for those who answer and ask: next, answer, ask."""

import getpass
import shlex
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from evolve.cli.inspecting import Json, Run, plain
from evolve.cli.output import CommandError, Exit, print_json, say, write, write_source
from mutators.question import Layer

MOST_OF_A_NAME = 100
As = Annotated[str, typer.Option("--as", metavar="NAME", help="Who you are; your user's name if not given.", show_default=False)]


def next_prompt(
    run: Run,
    step: Annotated[
        int | None, typer.Argument(metavar="STEP", help="Show this open prompt, and take none.", show_default=False)
    ] = None,
    name: As = "",
    as_json: Json = False,
) -> None:
    """Take an open prompt: print it whole.

    For an hour it is yours and nobody else gets it; called again, the same one is shown. Answer it with `askevolve answer`.
    """
    from dataclasses import asdict

    from evolve.answering import show_prompt, take_prompt, why_none
    from results.folder import find_run

    folder = find_run(run)
    prompt = take_prompt(folder, _named(name)) if step is None else show_prompt(folder, step)
    if prompt is None:
        why = why_none(folder)
        if as_json:
            print_json({"step": None, "why": why})
        else:
            say(why)
        raise SystemExit(Exit.WAITING)
    if as_json:
        print_json(
            {
                "step": prompt.step, "question": plain(prompt.question), "parent_id": prompt.parent_id, "prompt": prompt.text,
                "lease": asdict(prompt.lease) if prompt.lease else None,
            }
        )  # fmt: skip
        return
    write_source(prompt.text)
    if prompt.lease:
        until = time.strftime("%H:%M", time.localtime(prompt.lease.until))
        say(f"step {prompt.step} is with {prompt.lease.holder} until {until}")
    say(f"answer it: askevolve answer {shlex.quote(run)} {prompt.step} FILE")


def answer(
    run: Run,
    step: Annotated[int, typer.Argument(metavar="STEP", help="The number of the open prompt.", show_default=False)],
    file: Annotated[str, typer.Argument(metavar="FILE", help="The answer's text, or - for standard input.")] = "-",
    name: As = "",
    force: Annotated[bool, typer.Option("--force", help="Hand it in though it makes no new candidate; that is final.")] = False,
    as_json: Json = False,
) -> None:
    """Hand in the answer to an open prompt.

    It is read at once: what is wrong with it is said and nothing is kept, so that you can mend it. A prompt has one answer.
    """
    from evolve.answering import AnswerRefused, hand_in, why_over
    from mutators.question import Answer
    from results.folder import find_run

    text, folder = _text(file), find_run(run)
    try:
        handed_in = hand_in(folder, step, Answer(text=text, answerer=_named(name)), insist=force)
    except AnswerRefused as error:
        reason = error.rejected.reason.value if error.rejected else None
        if as_json:
            print_json({"step": step, "kept": False, "rejection": reason, "message": str(error), "candidate_id": None})
        mend = " Mend it and hand it in again, or insist with --force." if error.mendable else ""
        raise CommandError(f"not kept: {str(error).rstrip('.')}.{mend}", Exit.REFUTED) from error
    header, rejected = handed_in.header, handed_in.rejected
    if as_json:
        print_json(
            {
                "step": step, "kept": True, "rejection": rejected.reason.value if rejected else None,
                "message": rejected.message if rejected else "", "candidate_id": handed_in.candidate_id,
            }
        )  # fmt: skip
        return
    said = [header.hypothesis] if header else []
    if rejected is not None:
        said.append(f"it makes no candidate ({rejected.reason.value}: {rejected.message})")
    write([f"step {step} is answered" + (f": {'; '.join(said)}" if said else "")])
    if over := why_over(folder):
        say(f"{over}; the answer is kept for then")


def ask(
    run: Run,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The question, in quotes.", show_default=False)],
    parent: Annotated[
        str | None,
        typer.Option("--parent", metavar="ID", help="Ask it of this kernel, by its first digits.", show_default=False),
    ] = None,
    layer: Annotated[
        str, typer.Option("--layer", metavar="LAYER", help="The layer whose record it counts for.")
    ] = Layer.ALGORITHM.value,
    message: Annotated[
        bool, typer.Option("--message", help="It only informs and asks nothing: told along with the next question.")
    ] = False,
    name: As = "",
    as_json: Json = False,
) -> None:
    """Have your own question put to the next step.

    With --message you only tell the answerer something, along with whatever question comes next.
    A good one names a hypothesis that the author of the kernel may not hold, and can be settled by measuring.
    """
    from evolve.answering import ask_run
    from results.folder import find_run

    if layer not in set(Layer):
        raise CommandError(f"--layer {layer}: one of {', '.join(Layer)}", Exit.USAGE)
    asked = ask_run(find_run(run), text, person=_named(name), layer=Layer(layer), message=message, parent=parent)
    if as_json:
        print_json({"asked": plain(asked)})
    else:
        write(["told along with the next question that is put" if message else "asked; the next step that is put has it"])


def _named(name: str) -> str:
    """The name given, or the user's. Raises CommandError for one that can't stand in a line."""
    if not name.isprintable() or len(name) > MOST_OF_A_NAME:
        raise CommandError(f"--as: a name is at most {MOST_OF_A_NAME} printable characters in one line", Exit.USAGE)
    if name.strip():
        return name.strip()
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user that the system doesn't know
        return "somebody"


def _text(file: str) -> str:
    """The text of an answer from a file or standard input."""
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return data.decode("utf-8")
    except OSError as error:
        raise CommandError(f"{file}: can't be read ({error.strerror or error})", Exit.USAGE) from None
    except UnicodeDecodeError as error:
        raise CommandError(
            f"{file}: is no UTF-8 text ({error.reason} at byte {error.start}); save it as UTF-8", Exit.USAGE
        ) from None
