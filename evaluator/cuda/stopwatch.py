"""Device time of single executions: L2 flush, event, whatever the caller enqueues, event.

It works on any stream of the current context, its own or torch's, while capturing a graph or not.
"""

from typing import Any

from evaluator.cuda.driver import api, attribute, call

FLUSH_TIMES_L2 = 2
WORD_BYTES = 4
US_PER_MS = 1000.0
EXTERNAL = 1  # CU_EVENT_RECORD_EXTERNAL: a node that really records, instead of marking a place in the capture


class Stopwatch:
    """One pair of events for each of ``executions``, and memory of twice the L2 cache. Raises CudaError.

    Needs a current context; ``ordinal`` is its device.
    """

    def __init__(self, executions: int, ordinal: int) -> None:
        self._words = FLUSH_TIMES_L2 * attribute("L2_CACHE_SIZE", ordinal) // WORD_BYTES
        self._flush = call("cuMemAlloc", self._words * WORD_BYTES)
        flags = api.CUevent_flags.CU_EVENT_DEFAULT
        self._events = [(call("cuEventCreate", flags), call("cuEventCreate", flags)) for _ in range(executions)]

    def start(self, execution: int, stream: Any, *, capturing: bool) -> None:
        """Enqueue the flush and the first event. ``stream`` is a CUstream or its handle as an int."""
        call("cuMemsetD32Async", self._flush, 0, self._words, stream)
        self._record(self._events[execution][0], stream, capturing)

    def start_hot(self, execution: int, stream: Any) -> None:
        """Enqueue the first event alone: caches stay as they are. No race is timed so; it shows what the flush does."""
        self._record(self._events[execution][0], stream, capturing=False)

    def stop(self, execution: int, stream: Any, *, capturing: bool) -> None:
        """Enqueue the second event."""
        self._record(self._events[execution][1], stream, capturing)

    def elapsed_us(self, execution: int) -> float:
        """Time between the two events when they last passed. The stream must be done. Raises CudaError."""
        return float(call("cuEventElapsedTime", *self._events[execution])) * US_PER_MS

    def close(self) -> None:
        """Free events and memory; graphs that hold them must be gone. Raises CudaError."""
        for pair in self._events:
            for event in pair:
                call("cuEventDestroy", event)
        self._events.clear()
        call("cuMemFree", self._flush)

    def _record(self, event: Any, stream: Any, capturing: bool) -> None:
        call("cuEventRecordWithFlags", event, stream, EXTERNAL if capturing else 0)
