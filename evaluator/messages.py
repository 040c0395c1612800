"""Messages of any length with any number of files, between a parent and a warm process over a socket of packets."""

import json
import os
import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Any

HEADER = struct.Struct("<I")
FILES_A_PACKET = 200  # Linux passes at most 253 at once (SCM_MAX_FD)


def send_message(control: socket.socket, message: Mapping[str, object], files: Sequence[int] = ()) -> None:
    """Send ``message`` (JSON values) with open files. Raises OSError if nobody is there."""
    body = os.memfd_create("message", os.MFD_CLOEXEC)
    try:
        text = memoryview(json.dumps(message).encode())
        while text:
            text = text[os.write(body, text) :]
        every = [body, *files]
        for start in range(0, len(every), FILES_A_PACKET):
            socket.send_fds(control, [HEADER.pack(len(files))], every[start : start + FILES_A_PACKET])
    finally:
        os.close(body)


def receive_message(control: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """The next message and its files, which the caller closes; None when the other end is gone."""
    every: list[int] = []
    missing = 1
    while missing > 0:
        header, files, _, _ = socket.recv_fds(control, HEADER.size, FILES_A_PACKET)
        every += files
        if not header or not files:
            for descriptor in every:
                os.close(descriptor)
            return None
        missing = 1 + HEADER.unpack(header)[0] - len(every)
    body = every.pop(0)
    try:
        message: dict[str, Any] = json.loads(os.pread(body, os.fstat(body).st_size, 0))
    finally:
        os.close(body)
    return message, every
