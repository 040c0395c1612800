"""Times executions of one program twice at once, by the harness's events and by CUPTI's records, in a process of its own.

``python -m evaluator.cuda.kernel_times FILE LIBRARY``: the file is a pickled ``evaluator.cuda.replay.Replay`` of our own parent,
the library CUPTI's. Prints JSON: ``events_us`` and ``cupti_us``, one value an execution. Exit status 1 with the reason on
standard error where the driver or CUPTI refuses.
"""

import json
import pickle
import sys
from collections.abc import Sequence
from pathlib import Path

from evaluator.cuda.cupti import CuptiError, KernelRecorder
from evaluator.cuda.driver import CudaError, call
from evaluator.cuda.replay import Replay, load
from evaluator.cuda.stopwatch import Stopwatch

WARM = 3
EXECUTIONS = 15


def measure(replay: Replay, library: Path) -> dict[str, list[float]]:
    """Both times of each execution after the first few. From the start of the first kernel to the end of the last by CUPTI.

    Workspaces are cleared before the first event here. Raises CudaError, CuptiError, OSError.
    """
    recorder = KernelRecorder(library)
    loaded = load(replay)
    watch = Stopwatch(1, replay.ordinal)
    events_us = []
    for _ in range(WARM + EXECUTIONS):
        loaded.clear()
        watch.start(0, 0, capturing=False)
        for launch in loaded.launches:
            launch()
        watch.stop(0, 0, capturing=False)
        call("cuCtxSynchronize")
        events_us.append(watch.elapsed_us(0))
    return {"events_us": events_us[WARM:], "cupti_us": spans_us(recorder.times_ns(), len(loaded.launches), WARM)}


def spans_us(times_ns: Sequence[tuple[int, int]], launches: int, skipped: int) -> list[float]:
    """For each execution of ``launches`` kernels the time from first start to last end, the first ``skipped`` left out.

    Raises CuptiError where the records aren't whole executions.
    """
    if not times_ns or len(times_ns) % launches:
        raise CuptiError(f"CUPTI recorded {len(times_ns)} kernels, which aren't whole executions of {launches}")
    groups = [times_ns[at : at + launches] for at in range(0, len(times_ns), launches)]
    return [(max(end for _, end in group) - group[0][0]) / 1000 for group in groups[skipped:]]


def main(arguments: Sequence[str]) -> int:
    """The exit status."""
    replay: Replay = pickle.loads(Path(arguments[0]).read_bytes())  # written by our own parent
    try:
        print(json.dumps(measure(replay, Path(arguments[1]))))
    except (CudaError, CuptiError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
