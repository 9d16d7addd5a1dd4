"""``SoftTimeout``, raised in the middle of a task that runs in the main thread.

By a signal, because only that ends a blocking system call. It is raised nowhere but in the task:
not in our own code around it, and not in the midst of a frame that the task makes us send.
"""

import contextlib
import signal
import threading
from collections.abc import Iterator

from duly.errors import SoftTimeout

_SIGNAL = signal.SIGUSR1


class TimeoutSignal:
    """Itself the shield under which nothing is raised."""

    def __init__(self) -> None:
        self._armed = False
        self._rung = False
        self._shields = 0
        self._listen()

    def ring(self) -> None:
        """From any thread."""
        self._rung = True
        main = threading.main_thread().ident
        if main is not None:
            signal.pthread_kill(main, _SIGNAL)

    @contextlib.contextmanager
    def armed(self) -> Iterator[None]:
        """What is inside may be interrupted by a ring, once."""
        self._listen()  # again: the application, or a task, may have taken the signal for itself
        self._rung = False
        self._armed = True
        try:
            yield
        finally:
            self._armed = False

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self._shields += 1

    def __exit__(self, *exception: object) -> None:
        if threading.current_thread() is threading.main_thread():
            self._shields -= 1
            self._act()

    def _listen(self) -> None:
        signal.signal(_SIGNAL, lambda *_: self._act())

    def _act(self) -> None:
        if self._armed and self._rung and not self._shields:
            self._armed = False
            raise SoftTimeout("its time is over: clean up and end, it is killed after its grace")
