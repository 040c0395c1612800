"""Stands in for a baseline's process in a new process: obeys, or fails as its message says."""

import socket
import sys
import time

from evaluator.messages import receive, send

control = socket.socket(fileno=int(sys.argv[1]))
while (received := receive(control)) is not None:
    message = received.fields
    if message["do"] == "bind" and message["baseline"] == "dies":
        raise SystemExit("cannot live")
    if message["do"] == "run" and message["slots"] == [2]:
        time.sleep(60)
    if message["do"] == "run" and message["slots"] == [1]:
        send(control, {"error": "ZeroDivisionError: division by zero"})
        break
    send(control, {"elapsed_us": 12.5, "chosen": sys.argv[2], "files": len(received.descriptors)})
