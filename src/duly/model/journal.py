"""The log lines and the progress of running jobs.

Workers write entries; people read lines and notes. The limits on their size are defined here.
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
    f"the log of this job ends here: at most {MOST_LINES:,} lines or {MOST_TEXT // 1000000} MB "
    "are stored"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """A log line of a job; ``at_us`` is in microseconds since 1970."""

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
    """The progress that a job reports; the last report counts."""

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
    """A stored log line. The lines of a job are numbered from 1 over all its attempts."""

    seq: int
    at: datetime
    level: str
    text: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressNote:
    """The last progress that a job reported, and when."""

    percent: float
    message: str
    meta: Json | None
    at: datetime
    attempt: int


def numbered(entries: Sequence[LogEntry], lines: int, size: int) -> Iterator[tuple[int, LogEntry]]:
    """Number the entries of one job that are stored after ``lines`` lines of ``size`` bytes.

    The line that says that the log is full is written as soon as the next line might not fit. So a
    full log is recognised by its counts, without reading it.
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
