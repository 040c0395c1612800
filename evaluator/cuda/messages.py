"""Messages between this harness and its processes: a JSON object, bytes, and any number of file descriptors, over one socket."""

import json
import os
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

HEADER = struct.Struct("<3Q")
DESCRIPTORS_AT_ONCE = 200  # the kernel takes 253 in one go (SCM_MAX_FD)
TOKEN = b"f"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What came: ``fields``, ``payload``, and ``descriptors`` that now belong to the receiver."""

    fields: Mapping[str, Any]
    payload: bytes = b""
    descriptors: tuple[int, ...] = ()


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends. The first has timeouts set by its user, the second blocks."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)


def send(end: socket.socket, fields: Mapping[str, Any], payload: bytes = b"", descriptors: Sequence[int] = ()) -> None:
    """Send one message; the descriptors stay the sender's to close. Raises OSError (TimeoutError by the socket's own timeout)."""
    text = json.dumps(fields).encode()
    end.sendall(HEADER.pack(len(text), len(payload), len(descriptors)) + text + payload)
    for first in range(0, len(descriptors), DESCRIPTORS_AT_ONCE):
        socket.send_fds(end, [TOKEN], list(descriptors[first : first + DESCRIPTORS_AT_ONCE]))


def receive(end: socket.socket) -> Message | None:
    """The next message, None when the other end is gone. Raises OSError (TimeoutError by the socket's own timeout)."""
    header = _exactly(end, HEADER.size)
    if header is None:
        return None
    text_bytes, payload_bytes, count = HEADER.unpack(header)
    text = _exactly(end, text_bytes)
    payload = _exactly(end, payload_bytes)
    if text is None or payload is None:
        return None
    descriptors: list[int] = []
    while len(descriptors) < count:
        token, found, _, _ = socket.recv_fds(end, len(TOKEN), DESCRIPTORS_AT_ONCE)
        descriptors += found
        if not token:
            for descriptor in descriptors:
                os.close(descriptor)
            return None
    return Message(fields=json.loads(text), payload=payload, descriptors=tuple(descriptors))


def _exactly(end: socket.socket, count: int) -> bytes | None:
    """The next ``count`` bytes, None at the end of the stream."""
    parts = bytearray()
    while len(parts) < count:
        part = end.recv(min(count - len(parts), 1 << 20))
        if not part:
            return None
        parts += part
    return bytes(parts)
