"""Stands in for a baseline's process in a new process: obeys, or fails as its message says."""

import socket
import sys
import time

from evaluator.messages import receive_message, send_message

control = socket.socket(fileno=int(sys.argv[1]))
while (received := receive_message(control)) is not None:
    message = received[0]
    if message["do"] == "bind" and message["baseline"] == "dies":
        raise SystemExit("cannot live")
    if message["do"] == "run" and message["slots"] == [2]:
        time.sleep(60)
    if message["do"] == "run" and message["slots"] == [1]:
        send_message(control, {"error": "ZeroDivisionError: division by zero"})
        break
    send_message(control, {"elapsed_us": 12.5, "chosen": sys.argv[2], "files": len(received[1])})
