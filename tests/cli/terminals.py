"""A program in front of a terminal of its own, as somebody sits at one."""

import os
import pty
import select
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from duly.clock import boottime

CTRL_C = b"\x03"
# A session of its own has no terminal until one of its processes takes one.
_TAKE_IT = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


@dataclass(slots=True)
class Terminal:
    process: "subprocess.Popen[bytes]"
    keyboard: int
    shown: str = ""

    def type(self, keys: bytes) -> None:
        os.write(self.keyboard, keys)

    def until(self, text: str, *, within: float = 30.0) -> str:
        """What is shown, as soon as the text is among it."""
        end = boottime() + within
        while text not in self.shown:
            assert boottime() < end, self.shown
            assert self._read(), self.shown
        return self.shown

    def ended(self, *, within: float = 30.0) -> int:
        end = boottime() + within
        while self._read():
            assert boottime() < end, self.shown
        return self.process.wait(within)

    def _read(self) -> bool:
        """Whether somebody still has the terminal."""
        if not select.select([self.keyboard], [], [], 0.1)[0]:
            return True
        try:
            heard = os.read(self.keyboard, 65_536)
        except OSError:  # nobody has
            return False
        self.shown += heard.decode(errors="replace")
        return bool(heard)


@contextmanager
def terminal(
    command: Sequence[str], folder: Path, *, variables: Mapping[str, str] | None = None
) -> Iterator[Terminal]:
    keyboard, screen = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", _TAKE_IT, *command],
        cwd=folder,
        env={**os.environ, **(variables or {})},
        stdin=screen,
        stdout=screen,
        stderr=screen,
        start_new_session=True,
    )
    os.close(screen)
    try:
        yield Terminal(process, keyboard)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(keyboard)
