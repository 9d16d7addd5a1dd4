"""The process of a ``Watchdog``: kills process groups when their worker dies or its lease ends.

    python -I -S watchdog_process.py --parent PID:START

It reads lines from its standard input: ``+GROUP`` and ``-GROUP`` begin and end to guard a group,
``=SECONDS`` is the moment until which the lease lasts, ``!`` kills all groups now. The input ends
with the worker. Where a fork of the worker has inherited the other end it does not, so the worker
itself is watched, too.

It imports nothing of duly and starts in a few milliseconds. It ends after its groups: whoever looks
for children of a dead worker finds it, by its command line, until none of them runs any more.
"""

import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

LOOK_SECONDS = 0.25  # a suspended machine does not count while this waits
END_SECONDS = 10.0  # for groups that the kernel cannot end just now
_STATE, _GROUP, _START = 0, 2, 19  # in /proc/PID/stat, counted behind the name


def main(parent: int) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # who ends a whole control group means the worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    guarded: dict[int, str] = {}  # groups, and when their leader was started
    until, rest = float("inf"), b""
    poll = select.poll()
    poll.register(0, select.POLLIN | select.POLLHUP)
    if hasattr(os, "pidfd_open"):
        with suppress(OSError):
            poll.register(os.pidfd_open(parent), select.POLLIN)
    os.set_blocking(0, False)
    while True:
        is_orphan = os.getppid() != parent  # before the last words of the worker are read
        try:
            read = os.read(0, 65_536)
        except BlockingIOError:
            read = None
        *lines, rest = (rest + (read or b"")).split(b"\n")
        for line in lines:
            until = heard(line.decode(), guarded, until)
        if read == b"" or (is_orphan and read is None):
            break
        if guarded and now() >= until:
            kill(guarded)
        if read is None:
            poll.poll(LOOK_SECONDS * 1_000 if guarded else None)
    kill(guarded)


def heard(line: str, guarded: dict[int, str], until: float) -> float:
    """Do what a line says; return the moment until which the lease lasts."""
    match line[0], line[1:]:
        case "+", group:
            guarded[int(group)] = start_of(int(group))
        case "-", group:
            guarded.pop(int(group), None)
        case "=", moment:
            return float(moment)
        case _:
            kill(guarded)
    return until


def kill(guarded: dict[int, str]) -> None:
    """Kill the groups, and wait until nothing of them runs; forget them."""
    groups = {
        group
        for group, start in guarded.items()
        # A leader that was started later is another one's, with the number of ours.
        if start_of(group) in ("", start)
    }
    guarded.clear()
    for group in groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    end = time.monotonic() + END_SECONDS
    while groups & set(living_groups()) and time.monotonic() < end:
        select.select([], [], [], 0.005)


def start_of(pid: int) -> str:
    """Return the start time of the process; None if there is none, or the system does not tell."""
    try:
        with open(f"/proc/{pid}/stat", errors="replace") as file:  # noqa: PTH123 - a small start
            return file.read().rpartition(")")[2].split()[_START]
    except (OSError, IndexError):
        return ""


def living_groups() -> Iterator[int]:
    with suppress(OSError):
        for name in os.listdir("/proc"):  # noqa: PTH208 - a small start
            if name.isdecimal():
                with suppress(OSError, IndexError, ValueError):  # it has ended meanwhile
                    with open(f"/proc/{name}/stat", errors="replace") as file:  # noqa: PTH123
                        found = file.read().rpartition(")")[2].split()
                    if found[_STATE] not in ("Z", "X"):
                        yield int(found[_GROUP])


def now() -> float:
    """Return the seconds since the start of the machine, as ``duly.clock.boottime`` does."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    else:  # noqa: RET505 - mypy knows the platform, and would call a line below it unreachable
        return time.monotonic()


if __name__ == "__main__":
    main(int(sys.argv[2].partition(":")[0]))
