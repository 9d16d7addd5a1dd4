"""What jobs say while they run: lines of a log, and a note on how far they are.

Entries are what a worker hands in, lines and notes what people read. How much is kept is decided
here, so that it is the same wherever it is written.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

from duly.model.payload import Json, storable

MOST_LINES: Final = 10_000  # of one job, in all its attempts
MOST_TEXT: Final = 1_000_000  # … in bytes of UTF-8
LONGEST_LINE: Final = 16 * 1024
LONGEST_MESSAGE: Final = 1_000
LONGEST_LEVEL: Final = 20
_FULL = (
    f"the log of this job ends here: {MOST_LINES:,} lines or {MOST_TEXT // 1_000_000} MB are kept"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """A line that a job has said. ``at_us`` is when, in microseconds since 1970."""

    job_id: int
    fence: int
    attempt: int
    at_us: int
    level: str
    text: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "level", storable(self.level, LONGEST_LEVEL))
        object.__setattr__(self, "text", storable(self.text, LONGEST_LINE))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressEntry:
    """How far a job says it is; the last one counts."""

    job_id: int
    fence: int
    attempt: int
    percent: float
    message: str = ""
    meta: Json | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", storable(self.message, LONGEST_MESSAGE))
        percent = 0.0 if math.isnan(self.percent) else float(self.percent)
        object.__setattr__(self, "percent", min(max(percent, 0.0), 100.0))


Entry: TypeAlias = LogEntry | ProgressEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """A line as it is kept. The numbers of a job's lines rise from 1, through all its attempts."""

    seq: int
    at: datetime
    level: str
    text: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressNote:
    """How far a job said it was, and when."""

    percent: float
    message: str
    meta: Json | None
    at: datetime
    attempt: int


def numbered(entries: Sequence[LogEntry], lines: int, size: int) -> Iterator[tuple[int, LogEntry]]:
    """The entries of one job that are kept, behind ``lines`` lines of ``size`` bytes.

    The line that says that no more are kept comes as soon as another might not find room: so a log
    that is full is known by its numbers, and nobody has to read it.
    """
    for entry in entries:
        if _is_full(lines, size):
            return
        lines, size = lines + 1, size + len(entry.text.encode())
        yield lines, entry
        if _is_full(lines, size):
            yield lines + 1, _last(entry)


def _is_full(lines: int, size: int) -> bool:
    return lines >= MOST_LINES - 1 or size > MOST_TEXT - LONGEST_LINE - len(_FULL.encode())


def _last(entry: LogEntry) -> LogEntry:
    return LogEntry(
        job_id=entry.job_id,
        fence=entry.fence,
        attempt=entry.attempt,
        at_us=entry.at_us,
        level="WARNING",
        text=_FULL,
    )
