"""What a candidate's process does: obeys its parent until the other end of its socket is gone.

Requests are messages with ``do``: "open" a device, "load" (a pickled ``Work``, shares and their descriptors), "run" slots, "step"
through one slot, "audit", "unload". Answers hold ``error`` where the driver refused, ``broken`` where our own code failed.
"""

import pickle
import socket
import traceback
from typing import Any

from evaluator.cuda.driver import CudaError, use_device
from evaluator.cuda.execution import Execution, Work
from evaluator.cuda.messages import Message, receive, send


class Worker:
    """The device and what is loaded on it."""

    def __init__(self) -> None:
        self._ordinal = 0
        self._loaded: Execution | None = None

    def obey(self, request: Message) -> dict[str, Any]:
        """The answer to one request. Raises CudaError; RuntimeError for a request out of turn."""
        fields = request.fields
        if fields["do"] == "open":
            self._ordinal = fields["ordinal"]
            use_device(self._ordinal)
            return {}
        if fields["do"] == "load":
            work: Work = pickle.loads(request.payload)  # from our own parent
            self._loaded = Execution(
                work, fields["shares"], request.descriptors, self._ordinal, writable_inputs=fields["writable_inputs"]
            )
            return self._loaded.report()
        if self._loaded is None:
            raise RuntimeError(f"asked to {fields['do']} with nothing loaded")
        if fields["do"] == "run":
            return {"elapsed_us": self._loaded.run(fields["slots"])}
        if fields["do"] == "step":
            self._loaded.step(fields["slot"])
            return {}
        if fields["do"] == "audit":
            return {"constants_intact": self._loaded.constants_intact()}
        if fields["do"] == "unload":
            self._loaded.close()
            self._loaded = None
            return {}
        raise RuntimeError(f"asked to {fields['do']}, which is no request")


def serve(end: socket.socket) -> None:
    """Answer requests until the other end is closed."""
    worker = Worker()
    while (request := receive(end)) is not None:
        answer: dict[str, Any]
        try:
            answer = worker.obey(request)
        except CudaError as error:
            answer = {"error": {"name": error.name, "code": error.code, "call": error.call, "launch": error.launch}}
        except Exception:
            answer = {"broken": traceback.format_exc()}
        send(end, answer)
