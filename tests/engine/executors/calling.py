"""Orders for chores, and ears for what they say."""

import os
import select
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from duly.clock import Timeout, boottime, sleep
from duly.engine.executors.process.frames import CapturedLine, RunRequest, facts_of
from duly.engine.executors.process.pool import ProcessPool
from duly.model.job import StoredJob
from duly.model.outcome import Completed, Outcome
from duly.model.payload import Json, encode
from duly.model.states import State

CHORES = Path(__file__).with_name("chores.py")
NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
SOON = timedelta(seconds=0.2)
GRACE = timedelta(seconds=0.3)


@dataclass
class Heard:
    batches: list[Sequence[CapturedLine]] = field(default_factory=list)
    progress: list[tuple[float, str, Json | None]] = field(default_factory=list)

    @property
    def lines(self) -> list[CapturedLine]:
        return [line for batch in self.batches for line in batch]

    def said(self, level: str) -> list[str]:
        return [line.text for line in self.lines if line.level == level]


def job(task: str, *, job_id: int = 1, attempt: int = 1) -> StoredJob:
    return StoredJob(
        id=job_id,
        task=task,
        state=State.RUNNING,
        created_at=NOON,
        due_at=NOON,
        ready_at=NOON,
        attempt=attempt,
        needs={"gpu": 1},
    )


def order(
    task: str,
    /,
    *,
    job_id: int = 1,
    timeout: timedelta | None = None,
    grace: timedelta = GRACE,
    memory: int | None = None,
    **arguments: object,
) -> RunRequest:
    return RunRequest(
        task=task,
        args=encode(arguments),
        facts=facts_of(job(task, job_id=job_id)),
        timeout=timeout,
        grace=grace,
        memory=memory,
    )


async def outcome_of(pool: ProcessPool, order: RunRequest, heard: Heard | None = None) -> Outcome:
    ears = heard or Heard()

    def on_progress(percent: float, message: str, meta: Json | None) -> None:
        ears.progress.append((percent, message, meta))

    async with Timeout(15):
        found = await pool.run(order, on_log=ears.batches.append, on_progress=on_progress)
    assert not isinstance(found, Completed)
    return found


async def until(true: Callable[[], bool], *, within: float = 10) -> None:
    deadline = boottime() + within
    while not true():
        assert boottime() < deadline, f"it did not come true in {within} seconds"
        await sleep(0.01)


def is_alive(pid: int) -> bool:
    """Whether it runs. One that waits to be waited for does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def watch_it_die(pid: int) -> None:
    """Without a turn for the event loop, which would notice."""
    watched = os.pidfd_open(pid)
    try:
        assert select.select([watched], [], [], 5)[0]
    finally:
        os.close(watched)


def number_in(note: Path) -> int | None:
    text = note.read_text() if note.exists() else ""
    return int(text) if text else None
