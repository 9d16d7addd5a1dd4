"""The records of ``logging`` in a child, on their way to the worker."""

import contextlib
import logging
import sys
from collections.abc import Iterator

from duly import clock
from duly.engine.executors.process.assignment import ChildJob
from duly.engine.executors.process.capture import LONGEST_LINE, MOST_PER_JOB
from duly.engine.executors.process.frames import LogFrame
from duly.errors import SoftTimeout
from duly.instants import to_us
from duly.model.payload import storable

_LONGEST_LEVEL = 30


class LogForwarder(logging.Handler):
    """Installed at the root. Outside of a job, and in forks of the child, it writes to stderr."""

    def __init__(self) -> None:
        super().__init__()
        self._assignment: ChildJob | None = None
        self._room = MOST_PER_JOB
        logging.basicConfig(level=logging.INFO, format="%(message)s", handlers=[self])

    @contextlib.contextmanager
    def of(self, assignment: ChildJob) -> Iterator[None]:
        root = logging.getLogger()
        if self not in root.handlers:  # the application has a configuration of its own
            root.addHandler(self)
        self._assignment = assignment
        self._room = MOST_PER_JOB
        try:
            yield
        finally:
            self._assignment = None

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = storable(self.format(record), LONGEST_LINE)
            level = storable(record.levelname.lower(), _LONGEST_LEVEL)
            if self._assignment is None or not self._assignment.is_heard:
                print(f"{level}: {text}", file=sys.stderr)  # noqa: T201
            else:
                self._send(LogFrame(to_us(clock.now()), level, text), self._assignment)
        except SoftTimeout:
            raise
        except Exception:  # noqa: BLE001 – a record that cannot be written is no fault of the task
            self.handleError(record)

    def _send(self, line: LogFrame, assignment: ChildJob) -> None:
        """As much as the worker keeps, and one more for it to see that there was more."""
        if self._room >= 0:
            self._room -= len(line.text) + 1
            assignment.log(line)
