"""The journal writer: writes the log lines and progress of running jobs to the store.

Log records are captured where a job is current; children send theirs. Entries are collected for a
moment and written together. The entries of a job are written before its outcome: afterwards the
store would refuse them. Nothing of this may block a job, so excess entries are dropped, and the
store says so.
"""

import asyncio
import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from copy import copy
from datetime import timedelta
from typing import Self

from duly.engine.executors.process.frames import CapturedLine
from duly.errors import StoreUnavailable
from duly.model.job import Claimed
from duly.model.journal import Entry, LogEntry, ProgressEntry
from duly.model.payload import Json
from duly.policy.redaction import redacted_for
from duly.registry.context import current_or_none
from duly.store.store import Store

EVERY = timedelta(milliseconds=250)
UNTIL_CALLED = timedelta(seconds=10)
NO_REST = timedelta(0)
BATCH = 1_000
# Entries of all jobs: an unavailable store must not fill the memory.
MOST_WAITING = 20_000
_MICROSECONDS = 1_000_000


class JournalWriter:
    name = "journal writer"
    patient = True

    def __init__(self, store: Store) -> None:
        self.topic: str = f"journal:{id(self)}"
        self.topics: frozenset[str] = frozenset({self.topic})
        self._nudge: Callable[[str], None] = lambda _: None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0  # of the loop
        self._asleep = self._was_called = False
        self._store = store
        self._waiting: deque[Entry] = deque(maxlen=MOST_WAITING)
        self._writing = asyncio.Lock()

    @property
    def has_entries(self) -> bool:
        """Return whether entries wait to be written."""
        return bool(self._waiting) or self._writing.locked()

    def wakes_by(self, nudge: Callable[[str], None]) -> None:
        """Rest while there is nothing to write: ``nudge`` ends the rest."""
        self._loop, self._nudge = asyncio.get_running_loop(), nudge
        self._thread = threading.get_ident()

    async def tick(self) -> timedelta:
        was_called, self._was_called = self._was_called, False
        # Before the look at the entries: one that comes now is seen, or finds the writer asleep.
        self._asleep = self._loop is not None
        if not self._waiting:
            return UNTIL_CALLED if self._asleep else EVERY
        self._asleep = False
        if not was_called:  # else more entries are about to come
            await self.write()
        return NO_REST if len(self._waiting) >= BATCH else EVERY

    async def write(self) -> None:
        """Write the entries that wait now."""
        if not self.has_entries:
            return
        async with self._writing:
            left = len(self._waiting)
            while left > 0:
                batch = [self._waiting.popleft() for _ in range(min(BATCH, left))]
                left -= len(batch)
                await self._write(batch)

    async def _write(self, batch: Sequence[Entry]) -> None:
        try:
            await self._store.journal.write(batch)
        except BaseException as error:
            if isinstance(error, StoreUnavailable) or not isinstance(error, Exception):
                self._waiting.extendleft(reversed(batch))
                raise
            # One entry cannot be stored. It is dropped, so that its job can end.
            for entry in batch if len(batch) > 1 else ():
                await self._write([entry])

    # From any thread:

    def note(self, job: Claimed, percent: float, *, message: str, meta: Json | None) -> None:
        self._append(
            ProgressEntry(
                job_id=job.id,
                fence=job.fence,
                attempt=job.attempt,
                percent=percent,
                message=redacted_for(job.args, message),
                meta=meta,
            )
        )

    def lines(self, job: Claimed, lines: Sequence[CapturedLine]) -> None:
        for line in lines:
            self.line(job, line.at_us, level=line.level, text=line.text)

    def line(self, job: Claimed, at_us: int, *, level: str, text: str) -> None:
        self._append(
            LogEntry(
                job_id=job.id,
                fence=job.fence,
                attempt=job.attempt,
                at_us=at_us,
                level=level,
                text=redacted_for(job.args, text),
            )
        )

    def _append(self, entry: Entry) -> None:
        self._waiting.append(entry)
        if self._asleep and self._loop is not None:
            self._asleep, self._was_called = False, True
            if threading.get_ident() == self._thread:
                self._nudge(self.topic)
                return
            with contextlib.suppress(RuntimeError):  # the loop is closed: the job has ended
                self._loop.call_soon_threadsafe(self._nudge, self.topic)


class LogCapture:
    """Captures every log record that is made while a job is current, in any thread.

    By the record factory and not by a handler: with a handler at the root, logging would believe
    that the application has configured it, and no longer print other warnings. There is one for
    all workers of a process; it stays if other code has wrapped the factory since.
    """

    _workers = 0
    _is_there = False
    _before: Callable[..., logging.LogRecord] = logging.LogRecord
    _lock = threading.Lock()

    def __enter__(self) -> Self:
        with LogCapture._lock:
            LogCapture._workers += 1
            if not LogCapture._is_there:
                LogCapture._before, LogCapture._is_there = logging.getLogRecordFactory(), True
                logging.setLogRecordFactory(LogCapture.made)
        # Records of jobs are kept from INFO on, whatever the application shows on its console.
        logging.getLogger("duly.job").setLevel(logging.INFO)
        return self

    def __exit__(self, *_: object) -> None:
        with LogCapture._lock:
            LogCapture._workers -= 1
            if not LogCapture._workers and logging.getLogRecordFactory() is LogCapture.made:
                logging.setLogRecordFactory(LogCapture._before)
                LogCapture._is_there = False

    @staticmethod
    def made(*args: object, **kwargs: object) -> logging.LogRecord:
        record = LogCapture._before(*args, **kwargs)
        context = current_or_none()
        if context is not None and record.levelno >= logging.INFO:
            hear = getattr(context.port, "log_line", None)  # None outside of a worker
            if hear is not None:
                hear(int(record.created * _MICROSECONDS), record.levelname.lower(), _text(record))
        return record


def _text(record: logging.LogRecord) -> str:
    try:
        return _FORMATTER.format(copy(record))
    except Exception:  # noqa: BLE001 - the arguments do not match the message
        return f"{record.name}: {record.msg!r} (with arguments that do not fit)"


_FORMATTER = logging.Formatter("%(name)s: %(message)s")
