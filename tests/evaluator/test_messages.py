import os
import socket

from evaluator.messages import FILES_A_PACKET, receive_message, send_message


def pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def test_a_long_message_with_more_files_than_a_packet_takes() -> None:
    ours, theirs = pair()
    pipes = [os.pipe() for _ in range(FILES_A_PACKET // 2 + 30)]
    files = [end for pipe in pipes for end in pipe]
    message = {"do": "bind", "text": "x" * 1_000_000}
    send_message(ours, message, files)
    received = receive_message(theirs)
    assert received is not None
    found, theirs_files = received
    assert found == message
    assert [os.fstat(file).st_ino for file in theirs_files] == [os.fstat(file).st_ino for file in files]
    for file in (*files, *theirs_files):
        os.close(file)


def test_messages_keep_apart() -> None:
    ours, theirs = pair()
    send_message(ours, {"number": 1})
    send_message(ours, {"number": 2})
    assert [receive_message(theirs), receive_message(theirs)] == [({"number": 1}, []), ({"number": 2}, [])]


def test_the_other_end_is_gone() -> None:
    ours, theirs = pair()
    theirs.close()
    assert receive_message(ours) is None
