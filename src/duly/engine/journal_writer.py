"""The journal writer: writes down what jobs say while they run.

Log records are caught where a job is current; children send what theirs say. It is kept here for a
moment and written together. A job's last words are written before its end is: afterwards nobody
would take them. Nothing of this may hold up a job, so what is too much is dropped, and the store
says so.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from copy import copy
from datetime import timedelta
from types import TracebackType
from typing import Self

from duly.engine.executors.process.frames import CapturedLine
from duly.errors import StoreUnavailable
from duly.model.claimed import Claimed
from duly.model.journal import Entry, LogEntry, ProgressEntry
from duly.model.payload import Json
from duly.policy.redaction import redacted_for
from duly.registry.context import current_or_none
from duly.store.store import Store

EVERY = timedelta(milliseconds=250)
NO_REST = timedelta(0)
BATCH = 1_000
# Of all jobs together, between two writes; a store that is away must not fill the memory.
MOST_WAITING = 20_000
_MICROSECONDS = 1_000_000


class JournalWriter:
    name = "journal writer"
    topics: frozenset[str] = frozenset()

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: deque[Entry] = deque(maxlen=MOST_WAITING)
        self._writing = asyncio.Lock()

    @property
    def has_words(self) -> bool:
        """Whether something was said that is not written yet."""
        return bool(self._waiting) or self._writing.locked()

    async def tick(self) -> timedelta:
        await self.write()
        return NO_REST if len(self._waiting) >= BATCH else EVERY

    async def write(self) -> None:
        """Write what was said until now."""
        if not self.has_words:
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
            # One of them cannot be stored. It is dropped, and keeps no job from its end.
            for entry in batch if len(batch) > 1 else ():
                await self._write([entry])

    # From any thread.

    def note(self, job: Claimed, percent: float, *, message: str, meta: Json | None) -> None:
        self._waiting.append(
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
        self._waiting.append(
            LogEntry(
                job_id=job.id,
                fence=job.fence,
                attempt=job.attempt,
                at_us=at_us,
                level=level,
                text=redacted_for(job.args, text),
            )
        )


class LogCapture:
    """Hears every log record that is made while a job is current, in whatever thread.

    Where records are made, and not as a handler: with a handler of ours at the root, logging would
    think that the application has set it up, and show nobody the warnings of anything else. There
    is one for all workers of a process, and it stays if somebody has put another one around it.
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
            hear = getattr(context.port, "said", None)  # outside of a worker there is nobody
            if hear is not None:
                hear(int(record.created * _MICROSECONDS), record.levelname.lower(), _text(record))
        return record


def _text(record: logging.LogRecord) -> str:
    try:
        return _FORMATTER.format(copy(record))
    except Exception:  # noqa: BLE001 - arguments that do not fit their message
        return f"{record.name}: {record.msg!r} (with arguments that do not fit)"


_FORMATTER = logging.Formatter("%(name)s: %(message)s")
