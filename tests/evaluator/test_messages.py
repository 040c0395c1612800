import os
import socket

import pytest

from evaluator.messages import DESCRIPTORS_AT_ONCE, Message, receive, send, socket_pair


def test_a_long_message_with_more_files_than_the_kernel_passes_at_once() -> None:
    ours, theirs = socket_pair()
    pipes = [os.pipe() for _ in range(DESCRIPTORS_AT_ONCE // 2 + 30)]
    files = [end for pipe in pipes for end in pipe]
    fields = {"do": "bind", "text": "x" * 50_000}
    send(ours, fields, b"payload", files)
    received = receive(theirs)
    assert received is not None
    assert (received.fields, received.payload) == (fields, b"payload")
    assert [os.fstat(file).st_ino for file in received.descriptors] == [os.fstat(file).st_ino for file in files]
    for file in (*files, *received.descriptors):
        os.close(file)


def test_messages_keep_apart() -> None:
    ours, theirs = socket_pair()
    send(ours, {"number": 1})
    send(ours, {"number": 2})
    assert [receive(theirs), receive(theirs)] == [Message(fields={"number": 1}), Message(fields={"number": 2})]


@pytest.mark.parametrize("sent", [b"", b"half a hea"])
def test_the_other_end_is_gone(sent: bytes) -> None:
    ours, theirs = socket.socketpair()
    theirs.send(sent)
    theirs.close()
    assert receive(ours) is None
