"""The scribe: writes down what jobs say while they run.

Log records are caught where a job is current; children send what theirs say. It is kept here for a
moment and written together. A job's last words are written before its end is: afterwards nobody
would take them. Nothing of this may hold up a job, so what is too much is dropped, and the store
says so.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from copy import copy
from datetime import timedelta
from types import TracebackType
from typing import Self

from duly.engine.executors.process.orders import LogLine
from duly.errors import StoreUnavailable
from duly.model.claimed import Claimed
from duly.model.journal import Entry, LogEntry, NoteEntry
from duly.model.payload import Json
from duly.policy.redaction import redacted
from duly.registry.context import current_or_none
from duly.store.protocol import Store

EVERY = timedelta(milliseconds=250)
NO_REST = timedelta(0)
BATCH = 1_000
# Of all jobs together, between two writes; a store that is away must not fill the memory.
MOST_WAITING = 20_000
_MICROSECONDS = 1_000_000


class Scribe:
    name = "scribe"
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
            NoteEntry(
                job_id=job.id,
                fence=job.fence,
                attempt=job.attempt,
                percent=percent,
                message=redacted(message),
                meta=meta,
            )
        )

    def lines(self, job: Claimed, lines: Sequence[LogLine]) -> None:
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
                text=redacted(text),
            )
        )


class Ear:
    """Hears every log record that is made while a job is current, in whatever thread.

    Where records are made, and not as a handler: with a handler of ours at the root, logging would
    think that the application has set it up, and show nobody the warnings of anything else.
    """

    def __init__(self, scribe: Scribe) -> None:
        self._scribe = scribe
        self._before: Callable[..., logging.LogRecord] = logging.LogRecord
        self._listens = False

    def __enter__(self) -> Self:
        self._before, self._listens = logging.getLogRecordFactory(), True
        logging.setLogRecordFactory(self.made)
        # Records of jobs are kept from INFO on, whatever the application shows on its console.
        logging.getLogger("duly.job").setLevel(logging.INFO)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listens = False  # somebody may have put another one around ours
        if logging.getLogRecordFactory() == self.made:
            logging.setLogRecordFactory(self._before)

    def made(self, *args: object, **kwargs: object) -> logging.LogRecord:
        record = self._before(*args, **kwargs)
        context = current_or_none() if self._listens else None
        claimed = context.claimed if context else None
        if claimed is not None and record.levelno >= logging.INFO:
            self._hear(record, claimed)
        return record

    def _hear(self, record: logging.LogRecord, job: Claimed) -> None:
        try:
            text = _FORMATTER.format(copy(record))
        except Exception:  # noqa: BLE001 - arguments that do not fit their message
            text = f"{record.name}: {record.msg!r} (with arguments that do not fit)"
        at_us = int(record.created * _MICROSECONDS)
        self._scribe.line(job, at_us, level=record.levelname.lower(), text=text)


_FORMATTER = logging.Formatter("%(name)s: %(message)s")
