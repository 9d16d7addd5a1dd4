"""Reports the outcomes of handed-off jobs from the workers of other systems.

Messages that duly did not send are left alone. While the store cannot be reached, a report is
repeated for some seconds, and then logged and given up: the job fails when its time is over.
"""

import logging
from threading import Event
from typing import Any, Protocol

from duly.errors import DulyError, PayloadError, StoreUnavailable
from duly.model.outcome import MessageId, ReportAnswer
from duly.model.payload import LONGEST_RESULT, encode

PAUSES_SECONDS = (0.5, 1.0, 2.0, 4.0)
_LOG = logging.getLogger("duly.targets")


class ReportedJobs(Protocol):
    """``duly.jobs``, as far as reports need it."""

    def report(
        self,
        number: int,
        /,
        *,
        result: Any = None,  # noqa: ANN401 - any JSON
        error: str | None = None,
        traceback: str = "",
        message: str | None = None,
    ) -> ReportAnswer: ...


class ReportingApp(Protocol):
    """A ``Duly``, as far as reports need it."""

    @property
    def jobs(self) -> ReportedJobs: ...


class OutcomeReporter:
    def __init__(self, duly: ReportingApp) -> None:
        self._duly = duly

    def succeeded(self, message: object, result: object) -> None:
        """Report a success; a result that is no JSON, or too long, is left out."""
        try:
            encode(result, what="the result", longest=LONGEST_RESULT)
        except PayloadError as error:
            _LOG.warning("%s: its result is not kept: %s", message, error)
            result = None
        self._report(message, result=result)

    def failed(self, message: object, error: BaseException | str, traceback: str = "") -> None:
        said = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        self._report(message, error=said, traceback=traceback)

    def _report(self, message: object, **outcome: Any) -> None:
        found = MessageId.read(message)
        if found is None:
            return
        for pause in (*PAUSES_SECONDS, None):
            try:
                said = self._duly.jobs.report(found.job, message=str(found), **outcome)
            except StoreUnavailable as error:
                if pause is None:
                    _LOG.error("%s: its outcome was not reported: %s", message, error)
                    return
                Event().wait(pause)
            except DulyError as error:  # the job was deleted, or is no hand-off
                _LOG.warning("%s: its outcome does not count: %s", message, error)
                return
            else:
                if not said.counted:
                    _LOG.info("%s: its outcome does not count: %s", message, said.why)
                return
