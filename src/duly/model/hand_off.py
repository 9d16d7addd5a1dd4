"""A hand-off: the work of a job is sent to another system, which reports the outcome.

The id of a message names its job and the try. A message that is sent again, because the worker died
before it could note that it was sent, has the same id, so that brokers and consumers can drop the
second one; a retry after a failure has another, so that they do not. Two databases have jobs with
the same number, so the moment at which the job was enqueued is a part of the id.
"""

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from duly.model.states import State

SEND: Final = "duly.send"
REVOKE: Final = "duly.revoke"
_ID = re.compile(r"duly-(\d{1,18})-(\d{1,9})-([0-9a-f]{1,15})", re.ASCII)


class MessageId(NamedTuple):
    """The id of a message: its job, which try of the job it is, from 1, and the job's birth."""

    job: int
    attempt: int
    created_at: int  # when the job was enqueued, in microseconds

    def __str__(self) -> str:
        return f"duly-{self.job}-{self.attempt}-{self.created_at:x}"

    @classmethod
    def read(cls, text: object) -> "MessageId | None":
        """Return the parsed id; None if the message was not sent by duly."""
        found = _ID.fullmatch(text) if isinstance(text, str) else None
        return None if found is None else cls(int(found[1]), int(found[2]), int(found[3], 16))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportAnswer:
    """The state of a job after an outcome was reported, and why the report did not count."""

    id: int
    state: State
    counted: bool
    why: str = ""
