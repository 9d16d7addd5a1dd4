"""What jobs log, on the console of a process that does nothing but run them.

It is all in the store (``duly jobs logs``). Where nobody has set up logging, Python would print the
warnings among it as they are, secrets, terminal commands and all: here they are told to who asked
for a line for every job, without those, and to nobody else. A program that has set up logging, or
that duly works beside, sees them as it wants to.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from duly.model.job import is_built_in
from duly.policy.printable import printable
from duly.policy.redaction import redacted
from duly.registry.context import current_or_none

Say = Callable[[str], None]


@contextmanager
def job_log(say: Say | None) -> Iterator[None]:
    logger = logging.getLogger("duly.job")
    handler = logging.NullHandler() if say is None else _Teller(say)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _Teller(logging.Handler):
    """``job 42 backup: 3 files written``, a line for every line."""

    def __init__(self, say: Say) -> None:
        super().__init__()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        context = current_or_none()
        if context is None or logging.getLogger().handlers:
            return
        try:
            text = printable(redacted(self.format(record)))
            job = context.job
            called = job.title if job.title and is_built_in(job.task) else job.task
            who = printable(f"job {job.id} {called}")
            self._say("\n".join(f"{who}: {line}" for line in text.split("\n")))
        except Exception:  # noqa: BLE001 - as every handler of logging: it is no fault of the task
            self.handleError(record)
