"""How long parsing and applying an answer takes: `python benchmarks/answers.py`.

Prints one line per kind of answer, for the longest seed of attention_forward (about 40 KB): median and slowest of the runs.
"""

import difflib
import statistics
import time
from importlib.resources import files

from mutators.edits import apply

RUNS = 50
HEADER = '+++\nhypothesis = "fewer registers leave room for another block"\nclaim = "none"\n[prediction]\nall = 1.05\n+++\n'


def main() -> None:
    """Print the table."""
    source = files("evaluator").joinpath("tasks/attention_forward/seeds/hopper.cu").read_text(encoding="utf-8")
    print(f"{len(source.encode()):,} bytes of parent, {RUNS} runs each")
    print(f"{'answer':24} {'bytes':>8} {'median ms':>10} {'slowest ms':>11}  result")
    for name, answer in _answers(source).items():
        spent_ms = []
        for _ in range(RUNS):
            start = time.perf_counter()
            result = apply(source, answer)
            spent_ms.append(1000 * (time.perf_counter() - start))
        what = getattr(result, "reason", "applied")
        print(f"{name:24} {len(answer.encode()):8,} {statistics.median(spent_ms):10.2f} {max(spent_ms):11.2f}  {what}")


def _answers(source: str) -> dict[str, str]:
    lines = source.split("\n")
    child = "\n".join([*lines[:-2], "// one line more", *lines[-2:]])
    diff = "\n".join(difflib.unified_diff(lines, child.split("\n"), "a/k.cu", "b/k.cu", lineterm=""))
    unique = [line for line in lines if len(line) > 20 and lines.count(line) == 1]
    blocks = "".join(_block(line, f"{line}  //") for line in unique[:: max(1, len(unique) // 20)][:20])
    return {
        "one block": HEADER + _block(unique[-1], f"{unique[-1]}  //"),
        "20 blocks": HEADER + blocks,
        "diff": f"{HEADER}```diff\n{diff}\n```\n",
        "whole file": f"{HEADER}```cuda\n{child}```\n",
        "whole file, bare": HEADER + child,
        "behind 100 KB of thoughts": "<think>\n" + "so it seems\n" * 8_500 + f"</think>\n{HEADER}{_block(unique[0], '//')}",
        "block that isn't there": HEADER + _block(unique[-1].replace("(", "[") + " nowhere", "//"),
        "apology": "I can't do that, sorry.",
    }


def _block(search: str, replace: str) -> str:
    return f"<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n"


if __name__ == "__main__":
    main()
