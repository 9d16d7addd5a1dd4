"""Where a page of jobs ended, as a text that is given out with it and taken for the next.

What lives comes first, the highest number before the others; then what has ended, the last to end
before the others. A job that ends while somebody turns the pages moves from the first part into the
second, which is still to come: it may be met twice, and is never missed.
"""

import re
from dataclasses import dataclass

from duly.errors import InvalidValue
from duly.instants import to_us
from duly.model.job import Job

FIRST, LAST = -(2**63), 2**63 - 1
_SHAPE = re.compile(r"(?:l|e\.(?P<ended_at>\d{1,19}))\.(?P<id>\d{1,19})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Cursor:
    """Behind which job to go on: one that lives, or one that ended at this moment.

    Number 0 is no job's: behind it is what ended before the moment.
    """

    id: int = LAST
    ended_at: int | None = None

    def __str__(self) -> str:
        return f"l.{self.id}" if self.ended_at is None else f"e.{self.ended_at}.{self.id}"

    @property
    def before(self) -> int:
        """The first moment of which nothing is left to be seen."""
        if self.ended_at is None:
            return LAST
        return min(self.ended_at + (self.id > 0), LAST)


def cursor_of(job: Job) -> Cursor:
    return Cursor(job.id, None if job.ended_at is None else to_us(job.ended_at))


def read_cursor(text: object) -> Cursor:
    """What ``str(cursor)`` said, or the beginning if there is None."""
    if text is None:
        return Cursor()
    found = _SHAPE.fullmatch(text) if isinstance(text, str) else None
    numbers = [int(number) for number in found.groups() if number] if found else []
    if not numbers or max(numbers) > LAST:
        raise InvalidValue(
            f"after={text!r}: this is no place among jobs; give what the page before gave as "
            "its after, or nothing for the first page"
        )
    *ended_at, number = numbers
    return Cursor(number, *ended_at)
