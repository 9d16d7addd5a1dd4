"""Tasks that go wrong in every way, for children of the process executor to import."""

import asyncio
import atexit
import ctypes
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from duly.errors import Permanent, RetryAfter, SoftTimeout
from duly.policy.retry import Retry
from duly.registry.context import Context, current
from duly.registry.definition import define
from duly.registry.registry import Registry

registry = Registry()


def chore(**options: Any) -> Callable[[Callable[..., object]], Callable[..., object]]:
    def declare(function: Callable[..., object]) -> Callable[..., object]:
        registry.add(define(function, executor="process", **options))
        return function

    return declare


def forever() -> None:
    while True:
        threading.Event().wait(60)


def write_note(note: str, text: str) -> None:
    Path(note).write_text(text)


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


@chore()
def add(a: int, b: int) -> int:
    return a + b


@chore()
async def add_later(a: int, b: int) -> int:
    await asyncio.sleep(0)  # noqa: TID251 – a task of somebody who does not know our clock
    return a + b


@chore(takes_context=True)
def facts(context: Context) -> list[object]:
    assert current() is context
    return [context.job.id, context.attempt, context.is_last_attempt, dict(context.job.needs)]


@chore()
def pid() -> int:
    return os.getpid()


@chore()
def unkeepable() -> object:
    return object()


@chore(keep_result=None)
def unwanted() -> object:
    return object()


@chore(retry=Retry(on=ConnectionError))
def fail(how: str) -> None:
    secret = "a local variable"  # noqa: F841 – to be looked for in tracebacks
    match how:
        case "plain":
            raise ConnectionError("nobody there")
        case "uncovered":
            raise KeyError("k")
        case "permanent":
            raise Permanent("card gone")
        case "later":
            raise RetryAfter("10m")
        case "mute":
            raise Mute
        case "exit":
            sys.exit(4)
        case _:
            raise ConnectionError("a\0b \ud800")


@chore()
def die(how: str) -> None:
    print("last words")  # noqa: T201
    match how:
        case "segfault":
            ctypes.string_at(0)
        case "exit":
            os._exit(3)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case _:
            os.closerange(3, 100)  # as those do who want to become a daemon


@chore()
def fork_and_return() -> int:
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    return os.getpid()


@chore()
def leave_behind(note: str) -> None:
    """Start a process, note its number, and die."""
    started = subprocess.Popen(["sleep", "60"])
    Path(note).write_text(str(started.pid))
    os._exit(1)


@chore()
def clean_up(note: str) -> str:
    """Be in a system call when the time is over."""
    try:
        time.sleep(60)  # noqa: TID251
    except SoftTimeout:
        Path(note).write_text("cleaned up")
    return "in good order"


@chore()
async def clean_up_later(note: str) -> None:
    try:
        await asyncio.sleep(60)  # noqa: TID251
    finally:
        write_note(note, "cleaned up")


@chore()
def resist(note: str) -> None:
    """Ignore whatever can be ignored, with a process that does so too."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    started = subprocess.Popen(["sleep", "60"])
    Path(note).write_text(str(started.pid))
    while True:
        try:
            forever()
        except SoftTimeout:
            print("not me")  # noqa: T201


@chore()
def ignore_everybody(note: str = "") -> None:
    """Run Python code, and look at nothing."""
    if note:
        Path(note).write_text("begun")
    forever()


@chore()
def look(note: str) -> str:
    Path(note).write_text("begun")
    while not current().cancelled:
        threading.Event().wait(0.01)
    Path(note).write_text(current().reason)
    return "half of it"


@chore()
def say_and_die(note: str) -> str:
    """Return what takes more than one look to read, and die before anybody has looked."""
    threading.Timer(0.4, lambda: os._exit(0)).start()
    Path(note).write_text("begun")
    threading.Event().wait(0.2)
    return "x" * 150_000


@chore()
def stdout() -> str:
    return str(Path("/proc/self/fd/1").readlink())


@chore()
def allocate(size: int) -> int:
    return len(bytearray(size))


@chore()
def grow(step: int) -> None:
    held = []
    while True:
        held.append(b"x" * step)
        threading.Event().wait(0.02)


@chore()
def keep(size: int) -> int:
    registry.kept = b"x" * size  # type: ignore[attr-defined]
    return os.getpid()


@chore()
def speak() -> None:
    log = logging.getLogger("some.library")
    print("printed")  # noqa: T201
    log.info("informed")
    log.debug("not heard")
    sys.stderr.write("no newline")
    os.write(1, b"raw \xff\n")
    subprocess.run(["sh", "-c", "echo from a process"], check=True)
    ctypes.CDLL(None).puts(b"from C")
    try:
        int("oh")
    except ValueError:
        log.exception("failed")


@chore()
def write(lines: int, width: int) -> None:
    for _ in range(lines):
        print("y" * width)  # noqa: T201


@chore()
def mutter_on(text: str) -> None:
    """End, and leave a process that goes on writing to what was our stdout."""
    subprocess.Popen(["sh", "-c", f"while sleep 0.02; do echo {text}; done"])


@chore()
def say(text: str) -> None:
    threading.Event().wait(0.2)
    print(text)  # noqa: T201


@chore()
def advance(steps: int) -> None:
    for step in range(1, steps + 1):
        current().progress(100 * step / steps, f"step {step}", of=steps)


@chore()
def announce() -> None:
    print("on air")  # noqa: T201
    current().progress(1)
    while not current().cancelled:
        threading.Event().wait(0.01)


@chore()
def say_goodbye(note: str) -> None:
    atexit.register(lambda: Path(note).write_text("goodbye"))


@chore()
def meet(folder: str, name: str) -> int:
    """Be there with others for a moment: how many were."""
    here = Path(folder) / name
    here.touch()
    threading.Event().wait(0.15)
    count = len(list(Path(folder).iterdir()))
    here.unlink()
    return count
