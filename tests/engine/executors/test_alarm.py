"""A task is interrupted, and what we do for it is not."""

import signal
import socket
import threading
from collections.abc import Iterator

import pytest

from duly.engine.executors.process.child_job import TimeoutSignal, WorkerSocket
from duly.engine.executors.process.frames import FrameReader, ProgressFrame, from_child
from duly.errors import SoftTimeout

# More than a socket holds, so that sending it takes until somebody reads.
FRAME = ProgressFrame(50.0, "half", "x" * 4_000_000)


@pytest.fixture(autouse=True)
def the_signal_is_ours_for_a_while() -> Iterator[None]:
    before = signal.getsignal(signal.SIGUSR1)
    yield
    signal.signal(signal.SIGUSR1, before)


def test_a_frame_that_is_being_sent_is_sent_whole() -> None:
    alarm, heard = TimeoutSignal(), list[object]()
    here, there = socket.socketpair()
    line = WorkerSocket(there.detach(), shield=alarm)
    reader = threading.Thread(target=lambda: heard.extend(read_one_after_ringing(here, alarm)))
    with here:
        here.settimeout(5)
        with alarm.armed():
            reader.start()
            with pytest.raises(SoftTimeout):
                line.send(FRAME)
        reader.join()
    line.close()
    assert heard == [FRAME]


def test_nothing_is_interrupted_but_the_task() -> None:
    alarm = TimeoutSignal()
    alarm.ring()
    with alarm.armed():
        pass
    alarm.ring()


def test_a_task_is_interrupted_once() -> None:
    alarm = TimeoutSignal()
    with alarm.armed():
        with pytest.raises(SoftTimeout):
            alarm.ring()
        alarm.ring()


def read_one_after_ringing(end: socket.socket, alarm: TimeoutSignal) -> list[object]:
    inbox = FrameReader()
    found = list(inbox.feed(end.recv(1_000)))
    alarm.ring()
    while not found:
        found = list(inbox.feed(end.recv(100_000)))
    return [from_child(body) for body in found]
