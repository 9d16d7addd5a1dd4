"""Wake-ups between processes that share a file: a datagram socket for each, in one folder.

A datagram is a list of topics, one on each line. Nothing depends on its arrival: a process that is
not woken polls a little later. So nothing here waits, and all errors are ignored.
"""

import asyncio
import os
import secrets
import socket
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

REST_SECONDS = 0.01  # between two nudges of the same topic
LONGEST_DATAGRAM = 65_536
MOST_AT_ONCE = 100


class SqliteWake:
    """Notifies other processes, and receives their notifications on the event loop."""

    def __init__(self, folder: Path, hear: Callable[[str], None]) -> None:
        self._folder = folder
        self._hear = hear
        self._mailbox: Mailbox | None = None
        self._resting: dict[str, bool] = {}  # whether the topic was nudged again meanwhile

    def open(self) -> None:
        """Begin to send and receive; where that is impossible, processes only poll."""
        with suppress(OSError):
            self._mailbox = Mailbox(self._folder)
            self._mailbox.remove_the_dead()
            asyncio.get_running_loop().add_reader(self._mailbox.socket, self._receive)

    @property
    def is_open(self) -> bool:
        return self._mailbox is not None

    def close(self) -> None:
        """Send the delayed topics, and remove the socket."""
        if self._mailbox is None:
            return
        asyncio.get_running_loop().remove_reader(self._mailbox.socket)
        if again := [topic for topic, nudged in self._resting.items() if nudged]:
            self._mailbox.send(again)
        self._resting.clear()
        self._mailbox.remove()
        self.forget()

    def forget(self) -> None:
        """Close descriptors only: in a forked child, everything else belongs to the parent."""
        if self._mailbox is not None:
            self._mailbox.close()
        self._mailbox = None

    def nudge(self, topics: Iterable[str]) -> None:
        """Send each topic at once; if it was just sent, send it once more after the quiet time."""
        if self._mailbox is None:
            return
        asked = dict.fromkeys(topics)
        fresh = [topic for topic in asked if topic not in self._resting]
        self._resting.update({topic: topic in self._resting for topic in asked})
        if fresh:
            self._mailbox.send(fresh)
            asyncio.get_running_loop().call_later(REST_SECONDS, self._rested, fresh)

    def _rested(self, topics: Sequence[str]) -> None:
        self.nudge([topic for topic in topics if self._resting.pop(topic, False)])

    def _receive(self) -> None:
        if self._mailbox is not None:
            for topic in self._mailbox.topics():
                self._hear(topic)


class Mailbox:
    """One process's socket in the folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        self.name: str = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._directory = os.open(folder, flags)
        # The path of a socket has at most 107 bytes, and a database may live deeper than that.
        short = Path(f"/proc/self/fd/{self._directory}")
        self._address = short if short.exists() else folder
        self.socket: socket.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.settimeout(0)
        try:
            self.socket.bind(str(self._address / self.name))
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        self.socket.close()
        os.close(self._directory)

    def remove(self) -> None:
        self._remove(self.name)

    def send(self, topics: Sequence[str]) -> None:
        datagram = "\n".join(topics).encode()
        for name in self._others():
            try:
                self.socket.sendto(datagram, str(self._address / name))
            except ConnectionRefusedError:
                self._remove(name)
            except OSError:  # its buffer is full: it has enough to wake up to
                continue

    def topics(self) -> list[str]:
        """Return the topics that have arrived, each once."""
        heard: dict[str, None] = {}
        with suppress(OSError):  # which says that there is no more
            for _ in range(MOST_AT_ONCE):
                heard.update(dict.fromkeys(self._datagram()))
        return list(heard)

    def remove_the_dead(self) -> None:
        """Remove sockets of killed processes, which stay in the folder and refuse connections."""
        for name in self._others():
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as caller:
                try:
                    caller.connect(str(self._address / name))
                except ConnectionRefusedError:
                    self._remove(name)
                except OSError:  # not a socket, or not ours
                    continue

    def _datagram(self) -> list[str]:
        return self.socket.recv(LONGEST_DATAGRAM).decode(errors="replace").split("\n")

    def _others(self) -> list[str]:
        with suppress(OSError):
            found = os.listdir(self._directory)  # noqa: PTH208 - of an open folder
            return [name for name in found if name != self.name]
        return []

    def _remove(self, name: str) -> None:
        with suppress(OSError):
            os.unlink(name, dir_fd=self._directory)
